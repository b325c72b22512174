"""A result as the plain data that its page shows.

`whole` is all of it, `background` what mappings share, `view` one mapping. The parts: `mapped`, `machine`, `component_costs`, `limits`,
`energy_and_time`, `traffic`, `memory`, `fused_sets`, `treerows`, `unfused`, `roles`.
"""
