"""Specs that mean harm, or too much: nothing of theirs becomes code but numbers and names that are safe."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import SpecError
from fusiest.code import c_files, code_text
from fusiest.code.printing.reserved import RESERVED, safe
from fusiest.spec import load_texts
from tests.code.compiled import Batch, needs_compiler
from tests.code.test_tvm import built, needs_tvm
from tests.proving import PROVE

LIBC = (
    "main printf exp size_t M_PI INFINITY NULL assert value most least memset _Bool __LINE__ int double errno T tvm I x"
)
"""Names that tensors, Einsums, memories and variables may have, and that C, its library or TVM's script has taken."""


def spec_of(
    memory: str = "Buf", dimension: str = "X", names: tuple[str, ...] = ("A", "B", "Z", "m", "k", "E"), more: str = ""
):
    """A small product in a buffer, side by side, with these names."""
    a, b, z, m, k, einsum = names
    actions = (
        "actions: [{name: read, energy: 1, latency: 0}, {name: write, energy: 1, latency: 0}], leak_power: 0, area: 0"
    )
    text = f"""
arch:
  nodes:
  - !Memory {{name: Main, size: inf, tensors: {{keep: All}}, {actions}}}
  - !Memory {{name: {memory}, size: 4096, tensors: {{keep: All}}, {actions}}}
  - !Container {{name: PE, spatial: [{{name: {dimension}, fanout: 4, may_reuse: All}}]}}
  - !Compute {{name: MAC, actions: [{{name: compute, energy: 1, latency: 1}}], leak_power: 0, area: 0}}
workload:
  bits_per_value: {{All: 8}}
  iteration_space_shape: {{{m}: "0 <= {m} < 4", {k}: "0 <= {k} < 4"}}
  einsums:
  - name: {einsum}
    {more}
    tensor_accesses:
    - {{name: {a}, projection: [{m}, {k}]}}
    - {{name: {b}, projection: [{k}]}}
    - {{name: {z}, projection: [{m}], output: true}}
"""
    return load_texts({"hostile.yaml": text}, {})


@needs_compiler
@pytest.mark.parametrize("turn", range(7 if PROVE else 1))
def test_names_that_are_taken(turn: int, tmp_path: Path) -> None:
    """As names of tensors and variables, of an Einsum and a memory: the code compiles, and is right."""
    words = [*LIBC.split(), *sorted(RESERVED - set(LIBC.split()))]
    words = [word for word in words if may_be_a_name(word)]
    batch = Batch()
    for i in range(0, len(words) - 6, 7):
        memory, *names = (*words[i + turn : i + 7], *words[i : i + turn])
        spec = spec_of(memory=memory, names=tuple(names))
        batch.add(spec, spec_tree(spec, tuple(names), memory))
    batch.run(tmp_path)
    assert len(batch.jobs) > 20


def may_be_a_name(word: str) -> bool:
    """Of a variable and of an Einsum, which keywords of Python are not, nor what YAML takes for a number."""
    try:
        spec_of(names=("A", "B", "Z", word, "k", "E"))
        spec_of(names=("A", "B", "Z", "m", "k", word))
    except SpecError:
        return False
    return True


def spec_tree(spec: fusiest.Spec, names: tuple[str, ...], memory: str) -> fusiest.LoopTree:
    """All in the buffer, four lanes over m."""
    a, b, z, m, k, einsum = names
    text = f"""
mapping:
  nodes:
  - !Storage {{tensors: [{a}, {b}, {z}], component: Main}}
  - !Storage {{tensors: [{a}, {b}, {z}], component: {memory}}}
  - !Temporal {{rank_variable: {k}, tile_shape: 1}}
  - !Spatial {{rank_variable: {m}, name: X, component: PE, tile_shape: 1}}
  - !Compute {{einsum: {einsum}, component: MAC}}
"""
    mapping = load_texts({"mapping.yaml": text}, {}).mapping
    assert mapping is not None
    return mapping


NEWLINE = '"X\\nsystem(1); // \\\\"'


@needs_compiler
def test_names_of_dimensions_stay_in_their_comment(tmp_path: Path) -> None:
    """They may be any text."""
    spec = spec_of(dimension=NEWLINE)
    best = fusiest.map(spec, "latency").best()
    for language in ("c", "tvm", "pseudocode"):
        text = code_text(spec, best.looptree, language)
        assert "PE.X_system_1" in text
        assert not [line for line in text.splitlines() if line.startswith("system")]
    batch = Batch()
    batch.add(spec, best.looptree)
    batch.run(tmp_path)


@pytest.mark.parametrize(
    "more",
    [
        "operation: '\"); system(\"true'",
        "operation: 'system'",
        "operation: 'exp(A); system(1)'",
        'formula: \'__import__("os").system("true")\'',
        "formula: 'A.__class__'",
        "formula: 'system(A)'",
        "formula: 'A; B'",
        "formula: 'A[0]'",
        "formula: '\"text\"'",
        "formula: '(lambda: A)()'",
        "formula: 'A if B else A'",
        f"formula: '{'(' * 5000}A{')' * 5000}'",
        f"formula: '{'-' * 20000}A'",
        "formula: 'A ** 9 ** 9 ** 9 ** 9'",
        "formula: '1e999 * A'",
    ],
)
def test_what_computes_nothing_is_refused(more: str) -> None:
    """By one line, or it is a number; it is never in the output."""
    problem = code_or_problem(more)
    assert "system" not in problem or problem.startswith("refused")
    assert "\n" not in problem or not problem.startswith("refused")


def code_or_problem(more: str) -> str:
    """The code of an Einsum in C and TVM's script, or why there is none."""
    try:
        spec = spec_of(more=more)
        tree = spec_tree(spec, ("A", "B", "Z", "m", "k", "E"), "Buf")
        texts = [code_text(spec, tree, language) for language in ("pseudocode", "c", "tvm")]
        fusiest.run(spec)
    except SpecError as error:
        return f"refused: {error}"
    return "\n".join(texts[1:])


def matmul(size: int) -> fusiest.Spec:
    return fusiest.load("simple", "matmuls", N_EINSUMS=1, M=size, KN=4, GlobalBufferSize="inf")


def test_sizes_that_no_index_counts() -> None:
    spec = matmul(2**31 + 8)
    with pytest.raises(SpecError, match=r"beyond 2\^31"):
        code_text(spec, fusiest.map(spec, "energy").best().looptree)


def test_arrays_that_no_program_has() -> None:
    """They are refused with what takes the room."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=1, M=2**16, KN=2**14, GlobalBufferSize="inf")
    with pytest.raises(SpecError, match=r"GiB, of which T0_GlobalBuffer takes|GiB, of which"):
        c_files(spec, whole(spec))


def whole(spec: fusiest.Spec) -> fusiest.LoopTree:
    """All in the buffer."""
    text = """
mapping:
  nodes:
  - !Storage {tensors: [T0, W0, T1], component: MainMemory}
  - !Storage {tensors: [T0, W0, T1], component: GlobalBuffer}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n0, tile_shape: 1}
  - !Temporal {rank_variable: n1, tile_shape: 1}
  - !Compute {einsum: Matmul0, component: MAC}
"""
    mapping = load_texts({"mapping.yaml": text}, {}).mapping
    assert mapping is not None
    return mapping


@needs_tvm
def test_names_that_are_taken_in_tvm() -> None:
    spec = spec_of(names=("T", "range", "main", "I", "x", "E"))
    text = code_text(spec, spec_tree(spec, ("T", "range", "main", "I", "x", "E"), "Buf"), "tvm")
    function = text.partition("class Mapping:\n")[2].partition("\n\nINPUTS")[0]
    assert built(function)["mapping"]


def test_safe_names_are_never_taken() -> None:
    """And the same name stays the same."""
    for word in [*LIBC.split(), *RESERVED, "Global-Buffer", "_x"]:
        assert safe(word) not in RESERVED
        assert safe(word).isidentifier()
        assert safe(word) == safe(word)
