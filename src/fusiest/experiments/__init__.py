"""Experiments on the search: `baselines` are other mappers in the same mapspace, `reproduce` repeats the paper's figures.

Only the commands import from here. The rest of the program works without this folder.
"""
