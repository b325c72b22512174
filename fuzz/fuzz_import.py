"""Coverage-guided fuzzing of everything between the bytes of a network and its workload: `make fuzz-networks`.

Whatever the bytes are, the outcome is a workload that loads or a SpecError of one line; anything else is a crash. Inputs start as the
models of the tests' random graphs and as a small program of torch, and are changed node by node as well as byte by byte.
Without atheris, `python fuzz/fuzz_import.py --replay FILE...` runs the target on files.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import onnx  # noqa: E402
from tests.networks.mutations import NAMES, NUMBERS, mutated  # noqa: E402
from tests.networks.random_graphs import random_graph  # noqa: E402
from tests.networks.small_program import small_program  # noqa: E402

from fusiest.base.errors import SpecError  # noqa: E402
from fusiest.networks import network_spec  # noqa: E402
from fusiest.networks.import_options import ImportOptions  # noqa: E402
from fusiest.networks.importing import import_graph  # noqa: E402
from fusiest.networks.onnx.onnx_graph import parse_onnx, read_onnx  # noqa: E402
from fusiest.networks.torch.programs import parse_program  # noqa: E402
from fusiest.networks.torch.torch_graph import read_program  # noqa: E402

OPTIONS = [
    ImportOptions(),
    ImportOptions(batch=2, softmax="online"),
    ImportOptions(elementwise="keep", softmax="deferred"),
]


def target(data: bytes) -> None:
    """Import a network with these bytes; only errors in one line may come out."""
    options = OPTIONS[len(data) % len(OPTIONS)]
    try:
        if data[:1] == b"{":
            graph = read_program(parse_program(data, "fuzz.pt2", {}))
        else:
            graph = read_onnx(parse_onnx(data, "fuzz.onnx"), "fuzz.onnx", options)
        network_spec(import_graph(graph, options))
    except SpecError as error:
        if "\n" in str(error):
            raise AssertionError(f"not one line: {error}") from error


def mutate(data: bytes, limit: int, seed: int) -> bytes:
    """Change a network by its structure, or now and then by its bytes."""
    import atheris

    dice = random.Random(seed)
    if dice.random() < 0.1:
        return bytes(atheris.Mutate(data, limit))
    if data[:1] == b"{":
        try:
            return json.dumps(_changed(json.loads(data), dice)).encode()[:limit]
        except ValueError:
            return bytes(atheris.Mutate(data, limit))
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        return bytes(mutated(model, dice).SerializeToString())[:limit]
    except Exception:  # no model any more, or a change that protobuf refuses
        return bytes(atheris.Mutate(data, limit))


def _changed(value: Any, dice: random.Random) -> Any:
    """JSON with one leaf, entry or list changed."""
    where, inside = value, None
    while isinstance(where, (dict, list)) and where and (inside is None or dice.random() < 0.9):
        key = dice.choice(list(where)) if isinstance(where, dict) else dice.randrange(len(where))
        inside, where = (where, key), where[key]
    if inside is None:
        return value
    holder, key = inside
    kind = dice.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = dice.choice([*NUMBERS, *NAMES, None, True, [], {}])
    elif kind == 2 and isinstance(holder, list):
        holder.append(where)
    else:
        holder[key] = dice.choice(NUMBERS) if isinstance(where, int) else dice.choice(NAMES)
    return value


def write_seeds(folder: Path) -> None:
    """Networks to begin with, unless there are some."""
    if any(folder.iterdir()):
        return
    for seed in range(60):
        drawn = random_graph(seed)
        if drawn.nodes:
            (folder / f"random-{seed}").write_bytes(drawn.model().SerializeToString())
    (folder / "program").write_bytes(json.dumps(small_program()).encode())


def main() -> None:
    warnings.simplefilter("ignore")
    if "--replay" in sys.argv:
        for name in sys.argv[2:]:
            target(Path(name).read_bytes())
        return
    import atheris

    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    if folders:
        write_seeds(folders[0])
    atheris.instrument_all()
    atheris.Setup(sys.argv, target, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
