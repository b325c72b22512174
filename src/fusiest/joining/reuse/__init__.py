"""Joins that are made once in workloads of equal layers.

`equal_joins` takes an Einsum's join from an equal one, under its names; `periodic_layers` guesses good pmappings of all layers from
the mappings of the first ones.
"""
