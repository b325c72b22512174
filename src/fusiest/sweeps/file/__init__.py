"""Which designs a sweep has.

`sweepfile` reads the file, `parameters` their values, `designs` goes through the grid or a sample of it, `guided` lets Optuna choose;
`design_specs` makes specs of a design, setting `component_fields`.
"""
