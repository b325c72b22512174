"""Compute-in-memory chips against what was published of them.

`chips` says what fills each chip, `published` reads the published values, `cim` compares them with the model and writes the page.
"""
