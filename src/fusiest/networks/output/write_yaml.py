"""A lowered network as YAML that a person would write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from fusiest.base.frozen import FrozenDict
from fusiest.networks.import_options import ImportOptions
from fusiest.networks.lowering.tensors import RESULT, Apply, Expression, NetAccess, NetEinsum, Position, walk
from fusiest.networks.output.readable_names import NetNames, node_text
from fusiest.networks.output.words import AFFINE, word_of
from fusiest.networks.passes.lowered import Lowered
from fusiest.networks.values.operator_terms import term_of
from fusiest.spec import Affine, Call, Read, access_text, formula_text, parse_einsum

_SYMBOLS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Sum": "+"}
_RENAMES = """
# The names by which architectures speak of an Einsum's tensors. Products say themselves which is the weight.
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: input, source: Inputs}
    - {name: output, source: Outputs}
    - {name: weight, source: Nothing}
"""


def workload_yaml(lowered: Lowered, names: NetNames, about: Sequence[str]) -> str:
    """The sections `workload` and `renames`."""
    options = lowered.lowering.options
    writer = _NetWriter(lowered, names)
    lines = [f"# {line}".rstrip() for line in about]
    lines += ["", "workload:"]
    lines += _table("rank_sizes", writer.rank_sizes())
    lines += _table("iteration_space_shape", {v: f'"0 <= {v} < {size}"' for v, size in writer.bounds().items()})
    lines += [f"  bits_per_value: {_bits(options)}", "  persistent_tensors: weight - Intermediates", "", "  einsums:"]
    for einsum in lowered.einsums:
        lines += writer.einsum(einsum)
    return "\n".join(lines) + "\n" + _RENAMES


def _bits(options: ImportOptions) -> str:
    if isinstance(options.bits, int):
        return f"{{All: {options.bits}}}"
    named = {"weight": '"weight - Intermediates"'}
    return "{" + ", ".join(f"{named.get(key, key)}: {bits}" for key, bits in options.bits.items()) + "}"


def _table(name: str, entries: Mapping[str, object]) -> Iterator[str]:
    if not entries:
        return
    inner = ", ".join(f"{key}: {value}" for key, value in entries.items())
    yield from textwrap.wrap(
        f"{name}: {{{inner}}}", 116, initial_indent="  ", subsequent_indent="    ", break_long_words=False
    )


class _NetWriter:
    """The Einsums of a network under their names."""

    def __init__(self, lowered: Lowered, names: NetNames) -> None:
        self.lowered, self.names = lowered, names
        self.outside: set[str] = set()
        """Ranks that are indexed outside of their size, by padding: their size is no bound."""
        for einsum in lowered.einsums:
            for access in (*einsum.reads, einsum.output):
                for rank, position in access.index.items():
                    if not _inside(position, rank.size):
                        self.outside.add(names.ranks[rank])

    def rank_sizes(self) -> dict[str, int]:
        used = {self.names.ranks[r] for e in self.lowered.einsums for a in (*e.reads, e.output) for r in a.index}
        return {name: size for name, size in self.names.sizes.items() if name in used - self.outside}

    def bounds(self) -> dict[str, int]:
        """Variables that no size of a rank bounds."""
        bounds: dict[str, int] = {}
        for einsum in self.lowered.einsums:
            for variable in einsum.variables:
                ranks = [
                    rank
                    for access in (*einsum.reads, einsum.output)
                    for rank, position in access.index.items()
                    if position.alone is variable and rank.size == variable.size
                ]
                if all(self.names.ranks[rank] in self.outside for rank in ranks):
                    bounds[self.names.variables[einsum, variable]] = variable.size
        return bounds

    def einsum(self, einsum: NetEinsum) -> list[str]:
        """A comment with its nodes, and the Einsum."""
        text = f"{self.access(einsum, einsum.output)} = {self.right_side(einsum)}"
        fields = [f'einsum: "{text}"']
        if self.names.einsums[einsum] != self.names.tensors[einsum.output.tensor]:
            fields.insert(0, f"name: {self.names.einsums[einsum]}")
        if einsum.copy:
            fields.append("is_copy_operation: True")
        elif (parse_einsum(text).operation or _default_operation(einsum)) != einsum.operation:
            fields.append(f"operation: {einsum.operation}")
        if einsum.macs and len(einsum.reads) > 1:
            fields.append(f"renames: {{input: {self._input(einsum)}, weight: {self._weight(einsum)}}}")
        if einsum.instances > 1:
            fields.append(f"n_instances: {einsum.instances}")
        comment = [f"  # {line}" for line in self.comment(einsum)]
        return [*comment, f'  - "{text}"' if len(fields) == 1 else f"  - {{{', '.join(fields)}}}"]

    def comment(self, einsum: NetEinsum) -> list[str]:
        folded = [node for node in dict.fromkeys(einsum.nodes) if node is not einsum.node]
        text = node_text(einsum.node) + (f", {einsum.suffix}" if einsum.suffix else "")
        if folded:
            text += ", with " + ", ".join(node_text(node) for node in folded[:6]) + (", …" if len(folded) > 6 else "")
        return textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False)

    def _weight(self, einsum: NetEinsum) -> str:
        constants = [a for a in einsum.reads if a.tensor.kind == "constant"]
        return self.names.tensors[(constants or einsum.reads)[-1].tensor]

    def _input(self, einsum: NetEinsum) -> str:
        weight = self._weight(einsum)
        return " | ".join(n for n in (self.names.tensors[a.tensor] for a in einsum.reads) if n != weight)

    # --- texts ----------------------------------------------------------------------------------------------------

    def access(self, einsum: NetEinsum, access: NetAccess) -> str:
        """`T[c, H: 2*p + r - 1]`."""
        indices = ((self.names.ranks[rank], self.position(einsum, p)) for rank, p in access.index.items())
        return access_text(self.names.tensors[access.tensor], indices)

    def position(self, einsum: NetEinsum, position: Position) -> Affine:
        terms = {self.names.variables[einsum, v]: factor for v, factor in position.terms.items() if factor}
        return Affine(FrozenDict(terms), position.constant)

    def right_side(self, einsum: NetEinsum) -> str:
        """The accesses, in functions and between operators that say what is computed."""
        accesses = [self.access(einsum, access) for access in einsum.reads]
        if einsum.copy:
            return accesses[0]
        if einsum.macs:
            return self._wrapped(einsum.after, " * ".join(accesses))
        if einsum.reduction is not None and len(accesses) == 1:
            return self._reduced(einsum, accesses[0])
        return self._wrapped(einsum.after, self._body(einsum, accesses))

    @staticmethod
    def _reduced(einsum: NetEinsum, access: str) -> str:
        """A reduction, and what comes after it if that is known here: `1 / sqrt(mean(x * x) + 1e-05)`."""
        if einsum.reduction != "mean" or einsum.after is RESULT or einsum.folded:
            return f"{einsum.operation}({access})"
        (read,) = einsum.reads
        mean = Call("mean", (term_of(einsum.body, {id(read): Read("")}),))
        return formula_text(term_of(einsum.after, {id(RESULT): mean}), lambda _: access)

    def _body(self, einsum: NetEinsum, accesses: Sequence[str]) -> str:
        body = einsum.body
        if isinstance(body, Apply) and body.operator in _SYMBOLS and len(accesses) > 1:
            return f" {_SYMBOLS[body.operator]} ".join(accesses)
        if isinstance(body, Apply) and len(accesses) == 2 and einsum.operation == "exp":
            return f"exp({accesses[0]} - {accesses[1]})"
        if len(accesses) == 1 and not isinstance(body, Apply):
            return accesses[0]
        return f"{einsum.operation}({', '.join(accesses)})"

    def _wrapped(self, after: Expression, text: str) -> str:
        operators = [part.operator for part in walk(after) if isinstance(part, Apply) and part.operator != "Constant"]
        if after is RESULT or not set(operators) - AFFINE - {"Requantize"}:
            return text
        return f"{word_of(after)}({text})"


def _default_operation(einsum: NetEinsum) -> str:
    """What an Einsum computes that does not say it: a product, summed over what the output has not."""
    reduced = set(einsum.variables) - einsum.output.variables
    if len(einsum.reads) == 1:
        return "sum" if reduced else "unary"
    return "matmul" if reduced else "multiply"


def _inside(position: Position, size: int) -> bool:
    """Whether all indices are within the rank."""
    least = position.constant + sum(c * (v.size - 1) for v, c in position.terms.items() if c < 0)
    most = position.constant + sum(c * (v.size - 1) for v, c in position.terms.items() if c > 0)
    return least >= 0 and most < size
