"""The architecture: as it is written, and evaluated for one Einsum on one compute.

`architecture` holds the nodes as written, with their `actions`; `binding` evaluates them to `bound` values, with `placement_sets` of
tensors; `component_classes` and `models` give costs from classes and attributes, `costs` lists them for all components. `dataflow` puts
constraints on any architecture; `sharing` takes evaluated nodes over between similar specs.
"""
