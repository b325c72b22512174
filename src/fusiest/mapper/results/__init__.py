"""The result of a search, and its files.

`result` holds mappings with costs and the state of the proof; `domain` says what an optimum is over; `document` writes
JSON, `saved` reads it back and checks it; `provenance` says who made it, when and from what.
"""
