"""Coverage-guided fuzzing of everything between the bytes of a file and a loaded, evaluated spec: `make fuzz`.

Whatever the bytes are, the outcome is a spec or a SpecError of one line; anything else is a crash. Without atheris,
`python fuzz/fuzz_load.py --replay FILE...` runs the target on files, for instance on a crash that was found elsewhere.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from fusiest.base.errors import SpecError
from fusiest.model.evaluate import evaluate as evaluate_mapping
from fusiest.spec.dumping import dump
from fusiest.spec.language.expressions import NameSet, Record, Universe, evaluate_expression
from fusiest.spec.reading.loading import load_texts
from fusiest.spec.reading.template import undeclared
from fusiest.spec.reading.yamlfile import ListNode, MapNode, ScalarNode, YamlNode, load_nodes

DEFINES: dict[str, object] = {"N": 3, "NAME": "abc", "TABLE": {"keep": "All"}}
UNIVERSE = Universe(
    tensors={"A": frozenset("mk"), "B": frozenset("kn"), "Z": frozenset("mn")},
    variables=frozenset("mnk"),
    bits_per_value={"A": 8, "B": 8, "Z": 16},
)
NAMES: dict[str, object] = {
    **{name: UNIVERSE.of(name) for name in UNIVERSE.tensors},
    "All": UNIVERSE.of("A", "B", "Z"),
    "Nothing": NameSet(frozenset(), UNIVERSE),
    "size": 64,
    "actions": (Record({"name": "read", "n_calls": 6, "throughput": 2.0}),),
}


def target(data: bytes) -> None:
    """Read a file with these bytes; only errors in one line may come out."""
    text = data.decode("utf-8", "replace")
    try:
        undeclared(text)
        _evaluate_all(load_nodes("fuzz.yaml", text, DEFINES))
    except SpecError as error:
        _check_message(error)
    try:
        spec = load_texts({"fuzz.yaml": text}, {})
        if load_texts({"fuzz.yaml": dump(spec)}, {}) != spec:
            raise AssertionError("dump and load do not give the same spec")
        if spec.arch is not None and spec.workload is not None and spec.mapping is not None:
            evaluate_mapping(spec)
    except SpecError as error:
        if "\n" in str(error):
            raise AssertionError(f"not one line: {error}") from error


def _evaluate_all(root: YamlNode) -> None:
    todo: list[YamlNode] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, ListNode):
            todo.extend(node.items)
        elif isinstance(node, MapNode):
            todo.extend(part for pair in node.items for part in pair)
        elif isinstance(node, ScalarNode) and isinstance(node.value, str):
            try:
                evaluate_expression(node.value, NAMES)
            except SpecError as error:
                _check_message(error)


def _check_message(error: SpecError) -> None:
    if "\n" in str(error) or error.source is None:
        raise AssertionError(f"not one line with a place: {error}") from error


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--replay"]:
        for name in sys.argv[2:]:
            target(Path(name).read_bytes())
        return
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
