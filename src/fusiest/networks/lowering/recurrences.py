"""Recurrences: LSTM, GRU and RNN are their products, that with the inputs for all steps at once, that with the state step by step.

States go through the outermost memory between steps, and the gates' element-wise work is not counted: the report says so.
"""

from __future__ import annotations

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.graph.shapes import Operator, ShapeOf, infers
from fusiest.networks.lowering import views
from fusiest.networks.lowering.contractions import matmul_of
from fusiest.networks.lowering.lower import CutValue, Lowering, lowers
from fusiest.networks.lowering.making import Unfit

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_REASON = "a recurrence: its products are Einsums, the one with the state run {steps} times; the rest is in the outermost memory"


@infers(*GATES)
def _shapes(op: Operator) -> list[ShapeOf]:
    (directions, _, hidden), first = op.shape(2), op.shape()
    steps, batch = first[:2] if not op.attributes.get("layout") else first[1::-1]
    if op.attributes.get("layout"):
        return [(batch, steps, directions, hidden), *[(batch, directions, hidden)] * 2][: op.outputs]
    return [(steps, directions, batch, hidden), *[(directions, batch, hidden)] * 2][: op.outputs]


@lowers(*GATES)
def recurrence(lowering: Lowering, node: GraphNode) -> None:
    """`gates[t, n] = x[t, i] * W[n, i]`, and `step[n] = state[h] * R[n, h]` for every t."""
    x, weight, recurrent = (lowering.view(name) for name in node.inputs[:3])
    if node.get("layout"):
        x = views.transpose(x, [1, 0, 2])
    steps, batch, width = x.shape
    directions, gates, hidden = recurrent.shape
    rows = views.reshape(x, [1, steps * batch, width])
    if rows is None or weight.shape != (directions, gates, width):
        raise Unfit("its shapes do not fit")
    turned = [views.transpose(view, [0, 2, 1]) for view in (weight, recurrent)]
    inputs = matmul_of(lowering, node, rows, turned[0], [directions, steps * batch, gates], "inputs")
    batched = x.tensor.batch is not None
    state = lowering.new_input([directions, batch, hidden], f"{node.outputs[0] or node.name}_state", batched, None)
    step = matmul_of(lowering, node, state, turned[1], [directions, batch, gates], "step")
    lowering.einsums[-1].instances = steps
    for name in node.outputs:
        if name:
            output = lowering.new_input(lowering.shape(name), name, batched, node)
            lowering.values[name] = output
            lowering.cuts.append(CutValue(node, output.tensor, _REASON.format(steps=steps), (inputs, step)))
