"""From a graph of operators to Einsums: the state of a lowering, and the loop over the nodes.

What an operator becomes is in `contractions`, `normalizations`, `elementwise`, `windows` and `moves`, each with its entries of
`LOWER`. A value is a view of a tensor, or an expression over one, until somebody needs it in memory. What cannot be
said is cut: the value is taken from the outermost memory, and the report says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fusiest.base.errors import SpecError, shown
from fusiest.networks.graph.graph import GraphNode, NetworkGraph, entered_in
from fusiest.networks.import_options import ImportOptions
from fusiest.networks.lowering.extents import Axis, Extent, spread
from fusiest.networks.lowering.making import EinsumMaker, Operand, Unfit, axis_labels
from fusiest.networks.lowering.tensors import (
    RESULT,
    Apply,
    Expression,
    NetAccess,
    NetEinsum,
    NetTensor,
    View,
    rebuilt,
    tensor_view,
    walk,
)
from fusiest.networks.output.words import word_of

RecipeBody = Callable[[Sequence[NetAccess], Mapping[str, Sequence[Axis]]], Expression]
"""From the accesses of the operands and the variables of the labels."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an Einsum computes: its operation in a word, the expression of its operands, and how it is summed up."""

    operation: str
    body: RecipeBody
    reduction: str | None = None
    suffix: str = ""
    after: Callable[[Expression], Expression] | None = None


@dataclass(frozen=True, slots=True)
class CutValue:
    """A value that is taken from the outermost memory, and why."""

    node: GraphNode
    tensor: NetTensor
    reason: str
    sent: tuple[View, ...]
    """What goes to the outermost memory for it."""
    cache: bool = False
    """It would be there anyway: keys and values of earlier tokens."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a node: `einsums`, `view`, `folded`, `constant`, `input`, `cut` or `unused`."""

    became: str
    detail: str = ""


@dataclass(slots=True)
class Lowering:
    """A network on its way to Einsums."""

    graph: NetworkGraph
    options: ImportOptions
    values: dict[str, View | Apply] = field(default_factory=dict)
    einsums: list[NetEinsum] = field(default_factory=list)
    cuts: list[CutValue] = field(default_factory=list)
    fates: dict[GraphNode, Fate] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    batch: Extent | None = None
    tables: set[str] = field(default_factory=set)
    """Constants that are no parameters: masks, rotary tables."""
    joined: dict[tuple[int, NetTensor], tuple[tuple[View, ...], View]] = field(default_factory=dict)
    """What was put together last, by the axis and the first part's tensor: the parts, and the whole."""
    _readers: dict[str, list[GraphNode]] = field(init=False)
    _producers: dict[str, GraphNode] = field(init=False)

    def __post_init__(self) -> None:
        self._readers, self._producers = self.graph.readers(), self.graph.producers()

    def readers(self, name: str) -> list[GraphNode]:
        """The nodes that use a value."""
        return self._readers.get(name, [])

    def producer(self, name: str) -> GraphNode | None:
        """The node that makes a value."""
        return self._producers.get(name)

    # --- values ---------------------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.values[name].shape

    def is_constant(self, name: str) -> bool:
        return self.graph.values[name].constant

    def expression(self, name: str) -> View | Apply:
        """A value as it stands: a view, or an expression that no Einsum computes yet.

        A vector of constants is a tensor of its own wherever it is used: exporters give equal ones one name.
        """
        if name not in self.values:
            view = tensor_view(self.shape(name), "constant", name)
            if len(view.tensor.axes) <= 1:
                return view
            self.values[name] = view
        return self.values[name]

    def view(self, name: str) -> View:
        """A value as a view of a tensor; what is only an expression becomes an Einsum."""
        value = self.expression(name)
        if isinstance(value, Apply):
            value = self.values[name] = self.materialized(value)
        return value

    def define(self, node: GraphNode, *values: View | Apply) -> None:
        """The values of a node's outputs, in order. An expression waits for one reader; for several, it is computed once."""
        for name, value in zip(node.outputs, values, strict=False):
            if name:
                several = len(self.readers(name)) + (name in self.graph.outputs) > 1
                self.values[name] = self.materialized(value) if several and isinstance(value, Apply) else value

    def new_input(self, shape: Sequence[int], source: str, batched: bool, node: GraphNode | None = None) -> View:
        """A tensor that comes from the outermost memory."""
        batch = Axis(self.batch, "b") if self.batch is not None and batched else None
        return tensor_view(shape, "input", source, batch, node)

    # --- Einsums --------------------------------------------------------------------------------------------------

    def einsum(
        self,
        node: GraphNode,
        operands: Sequence[Operand],
        output: Sequence[str | None],
        recipe: Recipe,
        sizes: Mapping[str, int] | None = None,
        roles: Mapping[str, str] | None = None,
    ) -> View:
        """Add an Einsum; gives its result. `sizes` are those of labels that no operand has alone."""
        maker = EinsumMaker(operands, sizes or {}, roles or {})
        reads = [maker.access(i) for i in range(len(operands))]
        maker.drop_idle(reads, output, recipe.reduction)
        view, access = maker.output(output, node.outputs[0])
        body = recipe.body(reads, maker.variables)
        einsum = NetEinsum(node, recipe.operation, reads, access, maker.all_variables(), body, recipe.reduction)
        einsum.suffix = recipe.suffix
        einsum.after = recipe.after(RESULT) if recipe.after is not None else RESULT
        einsum.folded = [read for read in reads if read.tensor.kind == "constant" and not read.index]
        einsum.reads = [read for read in reads if read not in einsum.folded]
        self.einsums.append(einsum)
        return view

    def materialized(self, expression: Apply) -> View:
        """An Einsum that computes an expression, element by element. What is broadcast is computed once."""
        leaves = distinct_views(expression)
        if sum(not leaf.constant for leaf in leaves) == 1 and is_broadcast(leaves[0]):
            return self._materialized_core(expression, leaves[0])
        labels = axis_labels(leaves[0].shape)

        def body(accesses: Sequence[NetAccess], _: object) -> Expression:
            pairs = list(zip(leaves, accesses, strict=True))
            views = [part for part in walk(expression) if isinstance(part, View)]
            return rebuilt(expression, {id(v): next(a for leaf, a in pairs if v.same(leaf)) for v in views})

        assert expression.node is not None
        recipe = Recipe(word_of(expression), body)
        view = self.einsum(expression.node, [(leaf, labels) for leaf in leaves], labels, recipe)
        einsum = self.einsums[-1]
        einsum.nodes = [part.node for part in walk(expression) if isinstance(part, Apply) and part.node is not None]
        for access in einsum.reads:
            access.foldable = access.tensor.kind == "constant"
        einsum.elementwise = sum(not access.foldable for access in einsum.reads) == 1
        return view

    def _materialized_core(self, expression: Apply, view: View) -> View:
        """For a tensor that is broadcast, and constants of one value: of the tensor as it is, then broadcast."""
        axes = [spread(axis) for axis in view.axes]
        core = replace(view, axes=tuple((leaf,) for axis in axes for leaf in axis if leaf.axis is not None))
        table: dict[int, Expression] = {}
        for part in walk(expression):
            if isinstance(part, View):
                table[id(part)] = core if not part.constant else replace(part, axes=((),) * len(core.axes))
        bare = rebuilt(expression, table)
        assert isinstance(bare, Apply)
        computed = iter(self.materialized(bare).axes)
        tensor = self.einsums[-1].output.tensor
        return View(
            tensor,
            tuple(
                tuple(f for leaf in axis for f in ((leaf,) if leaf.axis is None else next(computed))) for axis in axes
            ),
        )

    # --- cuts -----------------------------------------------------------------------------------------------------

    def cut(self, node: GraphNode, reason: str) -> None:
        """Take all outputs of a node from the outermost memory, and send its inputs there."""
        for position, name in enumerate(node.outputs):
            if name:
                self.cut_output(node, position, reason)
        self.fates[node] = Fate("cut", reason)

    def cut_output(self, node: GraphNode, position: int, reason: str) -> None:
        """Take one output of a node from the outermost memory, where its inputs are sent."""
        name = node.outputs[position]
        sent = tuple(self.view(operand) for operand in node.inputs if operand and not self.is_constant(operand))
        view = self.new_input(self.shape(name), name, any(v.tensor.batch is not None for v in sent), node)
        self.values[name] = view
        self.cuts.append(CutValue(node, view.tensor, reason, sent))

    def cut_input(self, node: GraphNode, name: str, reason: str) -> None:
        """Take one input of a node from the outermost memory, where it is sent. The view that it is, if any, is what is cut."""
        sent = self.view(name)
        view = self.new_input(self.shape(name), name, sent.tensor.batch is not None, None)
        self.values[name] = view
        maker = self.producer(name)
        viewed = maker is not None and self.fates.get(maker, Fate("")).became == "view"
        self.cuts.append(CutValue(maker if viewed and maker is not None else node, view.tensor, reason, (sent,)))

    def caches(self, node: GraphNode, inputs: Sequence[str]) -> bool:
        """Whether a concatenation puts new keys or values behind those of earlier tokens: an input, and the result goes out."""
        return len(inputs) == 2 and inputs[0] in self.graph.inputs and node.outputs[0] in self.graph.outputs

    def cache(self, node: GraphNode, name: str, shape: Sequence[int], new: View) -> View:
        """Keys or values of all tokens, taken from the outermost memory, where those of the new ones are sent."""
        view = self.new_input(shape, name, new.tensor.batch is not None, node)
        self.cuts.append(
            CutValue(node, view.tensor, "keys and values of earlier tokens are an input", (new,), cache=True)
        )
        return view

    def note(self, text: str) -> None:
        """Say something about the whole import, once."""
        if text not in self.notes:
            self.notes.append(text)


def is_broadcast(view: View) -> bool:
    """Whether values of a tensor stand several times in a view."""
    return any(factor.axis is None and factor.size > 1 for axis in view.axes for factor in axis)


def distinct_views(expression: Expression) -> list[View]:
    """The views that an expression reads, each once; tensors before constants."""
    distinct: list[View] = []
    for part in walk(expression):
        if isinstance(part, View) and not any(part.same(other) for other in distinct):
            distinct.append(part)
    return sorted(distinct, key=lambda view: view.constant)


LowerFunction = Callable[[Lowering, GraphNode], None]
LOWER: dict[str, LowerFunction] = {}
"""What each operator becomes."""
lowers = entered_in(LOWER)


def lower(lowering: Lowering) -> None:
    """All nodes, in order."""
    graph = lowering.graph
    for name in graph.inputs:
        lowering.values[name] = lowering.new_input(graph.shape(name), name, batched=True)
    for node in graph.nodes:
        if graph.is_constant(node):
            lowering.fates[node] = Fate("constant")
            continue
        try:
            _lower_node(lowering, node)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            label = f"{shown(node.file_operator)} node {shown(node.name)}"
            raise SpecError(f"{graph.name}: {label}: it makes no sense: {shown(error)}") from None


def _lower_node(lowering: Lowering, node: GraphNode) -> None:
    """One node: as it is, or with inputs that are cut, or cut itself."""
    function = LOWER.get(node.operator)
    if function is None:
        lowering.cut(node, f"no Einsum says {node.file_operator}")
        return
    if node.get("unresolved"):
        lowering.cut(node, f"it is not known: {node.get('unresolved')}")
        return
    inputs = [name for name in dict.fromkeys(node.inputs) if name and not lowering.is_constant(name)]
    constants = [name for name in dict.fromkeys(node.inputs) if name and lowering.is_constant(name)]
    reason = ""
    for attempt in ([], [], *([name] for name in inputs), inputs):
        before = len(lowering.einsums), len(lowering.cuts), {name: lowering.values.get(name) for name in node.inputs}
        try:
            if reason:  # a constant is laid out as its reader needs it
                for name in constants:
                    lowering.values.pop(name, None)
            originals = {name: lowering.view(name) for name in attempt}
            for name in attempt:
                lowering.cut_input(node, name, reason)
            function(lowering, node)
            lowering.values.update(originals)
            _cut_what_is_missing(lowering, node)
        except Unfit as error:
            reason = reason or str(error)
            einsums, cuts, values = before
            del lowering.einsums[einsums:], lowering.cuts[cuts:]
            for name, value in values.items():
                if value is not None:
                    lowering.values[name] = value
        else:
            return
    lowering.cut(node, reason)


def _cut_what_is_missing(lowering: Lowering, node: GraphNode) -> None:
    """Outputs that the Einsums of a node do not give, such as where a maximum was, if anybody wants them."""
    for position, name in enumerate(node.outputs):
        if name and name not in lowering.values and (lowering.readers(name) or name in lowering.graph.outputs):
            lowering.cut_output(node, position, f"no Einsum says output {position + 1} of {node.file_operator}")
