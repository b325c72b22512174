"""Why a search found what it found, for people.

`why_none` names the constraint that leaves no pmapping; `notes` says what a search leaves out and how to ask for it; `allowed` checks
a finished mapping against the architecture's constraints.
"""
