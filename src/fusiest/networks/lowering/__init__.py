"""From operators to Einsums.

`lower` goes through the graph; each operator has a function in `contractions`, `elementwise`, `attention`, `normalizations`, `pooling`,
`recurrences`, `transposed`, `patches`, `moves` or `concats`. `tensors` holds tensors and expressions, `views` their views, `extents` the
sizes of ranks; `making` makes an Einsum of views and subscripts.
"""
