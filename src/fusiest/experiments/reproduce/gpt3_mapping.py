"""The optimal mapping of GPT-3 6.7B on the TPU v4i, drawn, and what the paper observes of it, checked on the mapping."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fusiest.experiments.reproduce.experiment_output import Output, OutputRow, table
from fusiest.experiments.reproduce.pieces import Data, Settings, Study
from fusiest.experiments.reproduce.searching import searched
from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal, draw_svg, tiling_in, variable_in
from fusiest.mapper import Options
from fusiest.model import Evaluation, evaluate
from fusiest.spec import Spec, dump_mapping, load, load_texts

TITLE = "The optimal mapping of GPT-3 6.7B on the TPU v4i"
DEFINES: dict[str, object] = {"BATCH_SIZE": 64, "N_TOKENS": 4096}
QUICK: dict[str, object] = {"BATCH_SIZE": 64, "N_TOKENS": 1024}
BUFFER, CORES, REGISTER = "GlobalBuffer", "LocalBuffer", "Register"


def run(study: Study) -> Output:
    """One mapping, the optimum by EDP."""
    defines = QUICK if study.quick else DEFINES
    data = study.piece("mapping/optimum", defines, lambda: _map(defines))
    spec = load("tpu_v4i", "gpt3_6.7B", defines=defines)
    tree = load_texts({"the mapping found": data["tree"]}, {}).mapping
    assert tree is not None
    paths = {str(path[-1].einsum): path for path in tree.paths() if isinstance(path[-1], Compute)}
    rows = list(_observations(spec, paths, evaluate(spec, tree)))
    bounds = {name: dict(info.bounds) for name, info in spec.info.einsums.items()}
    held = sum(1 for row in rows if row["holds"])
    summary = f"""
The mapping of least EDP, {data["edp"]:.6g} Js, proven optimal ({", ".join(f"{k}={v}" for k, v in defines.items())}).

{table(["the paper observes", "here", "holds"], [[r["observation"], r["here"], "yes" if r["holds"] else "no"] for r in rows])}

## Beside the paper

{held} of {len(rows)} observations hold. The paper shows a part of one mapping; several mappings may be optimal, and ours is searched
over all orders of Einsums. Where an observation does not hold, the table says what the optimum does instead.
"""
    return Output(rows, summary, svg=draw_svg(tree, bounds))


def _map(defines: Settings) -> Data:
    best = searched(load("tpu_v4i", "gpt3_6.7B", defines=defines), Options(objective=("edp",))).best("edp")
    return {"tree": dump_mapping(best.looptree), "edp": best.edp}


def tile(spec: Spec, einsum: str, path: tuple[Node, ...], tensor: str, memory: str) -> dict[str, int] | None:
    """A tensor's extents per rank variable where a memory holds it in an Einsum's nest; None if it does not."""
    info = spec.info.einsums[einsum]
    extents = {v: info.bounds[v] for v in info.accesses[tensor].variables}
    for node in path:
        if isinstance(node, (Temporal, Spatial)):
            name, tiling = variable_in(node, einsum), tiling_in(node, einsum)
            if name in extents and tiling is not None:
                extents[name] = tiling.tile
        elif isinstance(node, Storage) and node.component == memory and tensor in node.tensors:
            return extents
    return None


def _observations(spec: Spec, paths: dict[str, tuple[Node, ...]], cost: Evaluation) -> Iterator[OutputRow]:
    weights = {e: t for e, info in spec.info.einsums.items() for t in info.accesses if t.startswith("W")}
    held = {t: (e, extents) for e, t in weights.items() if (extents := tile(spec, e, paths[e], t, BUFFER)) is not None}
    whole = [
        t for t, (e, extents) in held.items() if all(extents[v] == spec.info.einsums[e].bounds[v] for v in extents)
    ]
    yield {
        "observation": "weights are kept whole in the global buffer",
        "here": f"{', '.join(whole) or 'none'} whole, of {', '.join(held) or 'none'} kept there",
        "holds": bool(whole) and len(whole) == len(held),
    }
    for tensor in ("I", "Q", "K"):
        extents = tile(spec, "QK" if tensor != "I" else "Q", paths["QK" if tensor != "I" else "Q"], tensor, BUFFER)
        yield _tiled(f"{tensor} is tiled: one element of the batch at a time", extents, "b", 1)
    for tensor in ("QK", "QK_softmax"):
        extents = tile(spec, tensor, paths[tensor], tensor, BUFFER)
        heads = spec.info.einsums[tensor].bounds["h"]
        yield _tiled(f"{tensor} is tiled in the heads", extents, "h", heads - 1)
    shapes = {str(tile(spec, e, paths[e], e, BUFFER)) for e in ("V", "K", "Q", "QK", "QK_softmax", "AV")}
    yield {
        "observation": "different tensors are tiled differently",
        "here": f"{len(shapes)} different tiles of V, K, Q, QK, QK_softmax, AV",
        "holds": len(shapes) > 1,
    }
    arrays = [e for e, path in paths.items() if isinstance(path[-1], Compute) and path[-1].component == "MAC"]
    used = {e: math.prod(n for (c, _), n in cost.einsums[e].used_fanout.items() if c == CORES) for e in arrays}
    yield {
        "observation": "all 4 cores are used",
        "here": ", ".join(f"{e} {n}" for e, n in used.items()),
        "holds": all(n == 4 for n in used.values()),
    }
    cells = {e: math.prod(n for (c, _), n in cost.einsums[e].used_fanout.items() if c not in (CORES,)) for e in arrays}
    yield {
        "observation": "registers are fully used, 128 x 128 per core",
        "here": ", ".join(f"{e} {n:,}" for e, n in cells.items()),
        "holds": all(n == 128 * 128 for n in cells.values()),
    }
    reuse = _register_reuse(spec, "Q", paths["Q"], "WQ")
    yield {
        "observation": "WQ is used 1024 times in a register before it is replaced",
        "here": f"{reuse:,} times",
        "holds": reuse >= 1024,
    }


def _tiled(observation: str, extents: dict[str, int] | None, variable: str, most: int) -> OutputRow:
    if extents is None:
        return {"observation": observation, "here": "not kept in the global buffer", "holds": False}
    shape = " x ".join(f"{v} {n}" for v, n in sorted(extents.items()))
    return {"observation": observation, "here": f"tile {shape}", "holds": extents[variable] <= most}


def _register_reuse(spec: Spec, einsum: str, path: tuple[Node, ...], tensor: str) -> int:
    """Iterations of the loops right below a register."""
    count, inside, extents = 1, False, dict(spec.info.einsums[einsum].bounds)
    for node in path:
        if isinstance(node, Storage) and node.component == REGISTER and tensor in node.tensors:
            inside = True
        elif isinstance(node, (Temporal, Spatial)):
            name, tiling = variable_in(node, einsum), tiling_in(node, einsum)
            if name in extents and tiling is not None:
                if inside and isinstance(node, Temporal):
                    count *= math.ceil(extents[name] / tiling.tile)
                extents[name] = tiling.tile
    return count
