"""Fused CNNs: VGG-E's feature maps counted by hand, the papers' figures, and the experiment in miniature."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiest import load
from fusiest.experiments.reproduce.cnn import fused_cnn
from fusiest.experiments.reproduce.cnn.layer_counts import StackCount, best_cuts, count_stacks, layers_apart, map_bytes
from fusiest.experiments.reproduce.pieces import Study
from fusiest.mapper import image_variables
from fusiest.spec import DepthFirst, Spec
from tests.reproduce.test_experiments import files

RETAINED = DepthFirst(stacks="one", rows="retained", columns="retained")


@pytest.fixture(scope="module")
def vgg() -> Spec:
    return load("simple", "vgg_e", BITS=32, GlobalBufferSize="1e15")


def test_feature_maps_of_vgg_e_by_hand(vgg: Spec) -> None:
    """Rows x columns x channels x 4 bytes of each feature map, read and written once by each layer."""
    x, first, pooled = 224 * 224 * 3 * 4, 224 * 224 * 64 * 4, 112 * 112 * 64 * 4
    second, pooled2, last = 112 * 112 * 128 * 4, 56 * 56 * 128 * 4, 56 * 56 * 256 * 4
    sizes = dict(zip(vgg.info.einsums, (first, first, pooled, second, second, pooled2, last), strict=True))
    images = image_variables(vgg)
    assert {name: map_bytes(vgg, name, name, images[name]) for name in sizes} == sizes
    assert map_bytes(vgg, "x", "conv1_1", images["conv1_1"]) == x
    read = x + first + first + pooled + second + second + pooled2
    assert layers_apart(vgg, [[name] for name in sizes]) == read + sum(sizes.values()) == 90_517_504
    # The paper: 77 MB, 3.6 MB. A layer reads what the one before made, and pools it first.
    after = [["conv1_1"], ["conv1_2"], ["pool1", "conv2_1"], ["conv2_2"], ["pool2", "conv3_1"]]
    assert layers_apart(vgg, after) == x + 2 * (first + first + second + second) + last == 80_883_712
    assert f"{80_883_712 / 2**20:.1f}" == "77.1"
    assert layers_apart(vgg, [list(sizes)]) == x + last == 3_813_376
    assert f"{3_813_376 / 2**20:.1f}" == "3.6"


def test_fused_storage_of_vgg_e_by_hand(vgg: Spec) -> None:
    """One pixel of the result at a time: 1 new row of the third stage, 2 of the second, 4 of the first; 362 KB in the paper."""
    (count,) = (c for c in count_stacks(vgg, tuple(vgg.info.einsums), RETAINED, "GlobalBuffer") if c.tiles == (1, 1))
    rows = 2 * 4 * (224 * 3 + 224 * 64 + 112 * 64 + 112 * 128 + 56 * 128)
    columns = 2 * 4 * (6 * 3 + 6 * 64 + 4 * 64 + 4 * 128 + 3 * 128)
    assert count.overlap_bytes == rows + columns == 361_872
    assert count.feature_bytes == 226 * 226 * 3 * 4 + 56 * 56 * 256 * 4  # with the padding that is read
    windows = 4 * (6 * 224 * 3 + 6 * 224 * 64 + 4 * 112 * 64 + 4 * 112 * 128 + 3 * 56 * 128)
    assert count.window_bytes == windows
    # The first pyramid has 13 rows of the first layer (and 14 with padding), 7 with padding of what is pooled of them, 6 and 3 after that.
    first = 4 * (14 * 226 * 64 + 7 * 114 * 64 + 6 * 114 * 128 + 3 * 58 * 128)
    assert first < count.storage_bytes < first + 4 * (15 * 226 * 3 + 12 * 12 * 64 + 4 * 4 * 128 + 256)
    assert count.weight_bytes == 4 * 9 * (3 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256)


def test_the_best_cuts() -> None:
    def stack(einsums: str, traffic: float, storage: float) -> StackCount:
        return StackCount(tuple(einsums), (1,), traffic, 1.0, storage, 0.0, 0.0, 0.0)

    counts = [
        stack("A", 4, 1),
        stack("B", 4, 1),
        stack("C", 4, 1),
        stack("AB", 5, 3),
        stack("BC", 3, 4),
        stack("ABC", 2, 9),
    ]
    found = {room: best_cuts(counts, "ABC", room, weights=False) for room in (0, 1, 3, 4, 9)}
    assert found[0] is None
    assert {room: cuts[0] for room, cuts in found.items() if cuts is not None} == {1: 12, 3: 9, 4: 7, 9: 2}
    with_weights = best_cuts(counts, "ABC", 4, weights=True)
    assert with_weights is not None
    assert with_weights[0] == 6 + 5


def test_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_cnn, "QUICK_VGG", {"SIZE": 16, "BITS": 32})
    monkeypatch.setattr(fused_cnn, "QUICK_STAGE", {"SIZE": 32})
    monkeypatch.setattr(fused_cnn, "QUICK_LIMIT", None)  # so that the result does not depend on time
    monkeypatch.setattr(fused_cnn, "BLOCK", ("block3_expand", "block3_depthwise"))
    pair = {"workload": "fsrcnn", "defines": {"ROWS": 2, "COLUMNS": 2}, "einsums": ("map1", "map2"), "stacks": "one"}
    study = Study(tmp_path, quick=True)
    rows, text = files(study, "fused-cnn", fused_cnn.run(study, {"FSRCNN": pair}))
    energy = {row["mode"]: float(row["energy"]) for row in rows if row["part"] == "2"}
    assert len(energy) == len(fused_cnn.NAMES)
    assert energy["optimum without windows"] <= energy["layer by layer"] * (1 + 1e-9)
    assert energy["fusiest with windows"] <= energy["optimum without windows"] * (1 + 1e-9)
    assert all(energy["fusiest with windows"] <= energy[fused_cnn.NAMES[mode]] * (1 + 1e-9) for mode in fused_cnn.MODES)
    curves = {
        kind: [(float(row["storage_bytes"]), float(row["traffic_bytes"])) for row in rows if row["mode"] == kind]
        for kind in ("free", "windows")
    }
    for room, traffic in curves["free"]:
        assert min(t for r, t in curves["windows"] if r <= room) <= traffic
    assert "| overlaps kept on chip for that" in text
    assert "of the three," in text
