"""The generators themselves: what they print reproduces the case, and they reach every feature of the model."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

import fusiest
from fusiest.looptree.nodes import LoopTree, Node, Sequential, Spatial, Storage, Temporal, Toll
from tests.strategies import Case, cases

quiet = settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@settings(quiet, max_examples=30)
@given(cases())
def test_a_case_prints_as_the_yaml_that_reproduces_it(case: Case) -> None:
    text = repr(case).removeprefix("Case(\n").removesuffix(")")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.yaml"
        file.write_text(text)
        spec = fusiest.load(str(file))
    assert spec.mapping == case.tree
    assert fusiest.evaluate(spec) == fusiest.evaluate(case.spec, case.tree)


def _features(case: Case) -> set[str]:
    found = set[str]()
    for path in case.tree.paths():
        kinds = {type(node) for node in path}
        found |= {name for kind, name in ((Spatial, "spatial"), (Toll, "toll")) if kind in kinds}
        found |= {"persistent" for node in path if isinstance(node, Storage) and node.persistent}
        loops = [node for node in path if isinstance(node, (Temporal, Spatial))]
        found |= {"renamed" for loop in loops if not isinstance(loop.rank_variable, str)}
    for affine in (a for e in case.spec.info.einsums.values() for x in e.accesses.values() for a in x.ranks.values()):
        found |= {"shift"} if affine.constant else set()
        found |= {"sign"} if any(c < 0 for c in affine.coefficients.values()) else set()
        found |= {"stride"} if any(abs(c) > 1 for c in affine.coefficients.values()) else set()
    found |= {"least value" for e in case.spec.info.einsums.values() if any(e.least.values())}
    found |= {"copy" for e in case.spec.info.einsums.values() if e.is_copy_operation}
    found |= {"halo" for e in case.spec.info.einsums.values() for a in e.accesses.values() if a.partially_relevant}
    if _has_shared_loop(case.tree.nodes):
        found.add("fused")
    return found


def _has_shared_loop(nodes: tuple[Node, ...], below_loop: bool = False) -> bool:
    for node in nodes:
        if isinstance(node, (Temporal, Spatial)):
            below_loop = True
        if isinstance(node, Sequential):
            return below_loop or any(_has_shared_loop(branch.nodes) for branch in node.nodes)
    return False


def test_every_feature_is_reached() -> None:
    seen: Counter[str] = Counter()

    @settings(quiet, phases=[Phase.generate], database=None)
    @given(cases())
    def collect(case: Case) -> None:
        assert isinstance(case.tree, LoopTree)
        seen.update(_features(case))

    collect()
    for feature in (
        "spatial", "toll", "persistent", "renamed", "copy", "halo", "fused", "shift", "sign", "stride", "least value",
    ):  # fmt: skip
        assert seen[feature] >= 10, (feature, seen)
