"""Explanations of a search's results, for users.

`why_none` names the constraint that leaves no pmapping; `notes` tells what a search leaves out and how to ask for it;
`allowed` checks a finished mapping against the architecture's constraints.
"""
