"""The edge accelerator, mapped freely and under fixed dataflows.

`cases` holds what the experiments share; `transformer`, `energy_breakdown` and `fusion_sets` are one experiment each.
"""
