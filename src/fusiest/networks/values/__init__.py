"""What a network computes, not only what it costs: formulas of its Einsums, and arrays of its weights.

`weights` has the values of constants: the file's, or random ones. `operator_terms` turns ONNX's operators into formulas.
`meaning` puts both together with the layout of inputs, outputs and cut nodes.
"""
