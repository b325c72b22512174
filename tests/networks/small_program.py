"""A program of torch.export as its files have it: a convolution, batch normalization, a function in place, a view, a product."""

from __future__ import annotations

from typing import Any


def tensor(*sizes: int, kind: int = 7) -> dict[str, Any]:
    return {"dtype": kind, "sizes": [{"as_int": size} for size in sizes]}


def named(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def call(target: str, output: str, module: str = "", **arguments: Any) -> dict[str, Any]:
    return {
        "target": f"torch.ops.aten.{target}",
        "inputs": [{"name": name, "arg": argument, "kind": 1} for name, argument in arguments.items()],
        "outputs": [named(output)],
        "metadata": {"nn_module_stack": f"L__self__,,Net;L__self__{module},{module},Module"},
        "name": output,
    }


def small_program() -> dict[str, Any]:
    """All that is read of such a file."""
    nodes = [
        call("conv2d.default", "conv2d", "conv", input=named("x"), weight=named("p_conv_weight"), padding={"as_ints": [1, 1]}),
        call(
            "batch_norm.default", "bn", "bn", input=named("conv2d"), weight=named("p_bn_weight"), bias=named("p_bn_bias"),
            running_mean=named("b_mean"), running_var=named("b_var"), training={"as_bool": False}, eps={"as_float": 1e-5},
        ),
        call("relu_.default", "relu_", "", self=named("bn")),
        call("add.Tensor", "add", "", self=named("conv2d"), other=named("relu_")),
        call("view.default", "view", "", self=named("add"), size={"as_ints": [1, 128]}),
        call("linear.default", "linear", "fc", input=named("view"), weight=named("p_fc_weight"), bias=named("p_fc_bias")),
    ]  # fmt: skip
    values = {
        "x": tensor(1, 3, 4, 4), "p_conv_weight": tensor(8, 3, 3, 3), "p_bn_weight": tensor(8), "p_bn_bias": tensor(8), "b_mean": tensor(8),
        "b_var": tensor(8), "p_fc_weight": tensor(10, 128), "p_fc_bias": tensor(10), "conv2d": tensor(1, 8, 4, 4), "bn": tensor(1, 8, 4, 4),
        "relu_": tensor(1, 8, 4, 4), "add": tensor(1, 8, 4, 4), "view": tensor(1, 128), "linear": tensor(1, 10),
    }  # fmt: skip
    parameters = {
        "p_conv_weight": "conv.weight",
        "p_bn_weight": "bn.weight",
        "p_bn_bias": "bn.bias",
        "p_fc_weight": "fc.weight",
        "p_fc_bias": "fc.bias",
    }
    specs: list[Any] = [
        {"parameter": {"arg": {"name": name}, "parameter_name": path}} for name, path in parameters.items()
    ]
    specs += [
        {"buffer": {"arg": {"name": f"b_{name}"}, "buffer_name": f"bn.running_{name}"}} for name in ("mean", "var")
    ]
    specs.append({"user_input": {"arg": named("x")}})
    return {
        "graph_module": {
            "graph": {"inputs": [], "outputs": [named("linear")], "nodes": nodes, "tensor_values": values},
            "signature": {"input_specs": specs, "output_specs": [{"user_output": {"arg": named("linear")}}]},
        }
    }
