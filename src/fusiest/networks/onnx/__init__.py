"""ONNX files as graphs of operators.

`onnx_graph` reads the file; `model_functions` puts a model's own functions in place of their calls; `contrib` rewrites ONNX Runtime's
operators as ONNX's.
"""
