"""Programs of torch.export as graphs of operators.

`programs` reads a program, from memory or a `.pt2` file, as a list of calls; `torch_graph` makes operators with ONNX's names of them,
by the table in `aten`.
"""
