"""Networks from PyTorch: counts, the same workload as through ONNX, files without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

import fusiest
from fusiest.networks import import_network
from tests.networks.alike import shape_of
from tests.networks.torch_models import Block, Cnn, Experts, Groups, torch, torchvision

# What torchvision lists: billions of multiply-accumulates, and parameters.
LISTED = {
    "resnet18": (1.814, 11_689_512), "resnet50": (4.089, 25_557_032), "mobilenet_v2": (0.301, 3_504_872),
    "vgg11": (7.609, 132_863_336), "mobilenet_v3_large": (0.217, 5_483_032), "shufflenet_v2_x1_0": (0.145, 2_278_604),
    "efficientnet_b0": (0.386, 5_288_548), "vit_b_16": (17.564, 86_567_656), "densenet121": (2.834, 7_978_856),
    "squeezenet1_1": (0.349, 1_235_496), "alexnet": (0.714, 61_100_840), "regnet_y_400mf": (0.402, 4_344_144),
    "convnext_tiny": (4.456, 28_589_128), "swin_t": (4.491, 28_288_354), "googlenet": (1.498, 6_624_904),
    "mnasnet1_0": (0.314, 4_383_312), "resnext50_32x4d": (4.23, 25_028_904), "wide_resnet50_2": (11.398, 68_883_240),
    "inception_v3": (5.713, 27_161_264), "maxvit_t": (5.558, 30_919_624),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
def test_what_torchvision_lists(name: str) -> None:
    size = 299 if name == "inception_v3" else 224
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        model = torchvision().models.get_model(name, **more)
        spec = fusiest.from_torch(model, (torch.zeros(1, 3, size, size),))
    macs, parameters = LISTED[name]
    for training in ("AuxLogits",):  # listed, though only training needs them
        parameters -= sum(p.numel() for n, p in model.named_parameters() if n.startswith(training))
    assert round(spec.report.macs / 1e9, 3) == macs
    assert spec.report.parameters == parameters


def through_onnx(module: Any, arguments: tuple[Any, ...], path: Path) -> onnx.ModelProto:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: make test-torch")
    torch.onnx.export(module.eval(), arguments, path, dynamo=True, verbose=False, optimize=True)
    return onnx.load(path, load_external_data=False)


@pytest.mark.parametrize("name", ["cnn", "fused", "written"])
@pytest.mark.filterwarnings("ignore")
def test_the_way_through_onnx(name: str, tmp_path: Path) -> None:
    module = Cnn() if name == "cnn" else Block(name == "fused")
    arguments = (torch.randn(1, 3, 16, 16),) if name == "cnn" else (torch.randn(1, 6, 16),)
    ours = fusiest.from_torch(module, arguments)
    theirs = fusiest.from_onnx(through_onnx(module, arguments, tmp_path / "net.onnx"))
    assert not ours.report.cuts
    assert shape_of(ours) == shape_of(theirs)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "shufflenet_v2_x1_0", "vit_b_16"])
@pytest.mark.filterwarnings("ignore")
def test_torchvision_through_onnx(name: str, tmp_path: Path) -> None:
    module = torchvision().models.get_model(name)
    arguments = (torch.zeros(1, 3, 224, 224),)
    ours = fusiest.from_torch(module, arguments)
    theirs = fusiest.from_onnx(through_onnx(module, arguments, tmp_path / "net.onnx"))
    assert shape_of(ours) == shape_of(theirs)


def test_attention_whole_and_written_out() -> None:
    arguments = (torch.randn(1, 6, 16),)
    fused, written = (fusiest.from_torch(Block(fused), arguments) for fused in (True, False))
    assert shape_of(fused) == shape_of(written)


def test_files_need_no_torch(tmp_path: Path) -> None:
    """A `.pt2` file says what the program in memory says, and is read without torch."""
    module, arguments = Block(), (torch.randn(1, 6, 16),)
    with torch.no_grad():
        program = torch.export.export(module.eval(), arguments)
    torch.export.save(program, tmp_path / "block.pt2")
    code = f"import sys; sys.modules['torch'] = None; import fusiest; print(fusiest.load({str(tmp_path / 'block.pt2')!r}).to_yaml())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    (tmp_path / "found.yaml").write_text(found)
    assert shape_of(fusiest.load(tmp_path / "found.yaml")) == shape_of(fusiest.from_torch(program))
    assert shape_of(fusiest.from_torch(module, arguments)) == shape_of(fusiest.from_torch(program))


def test_names_are_module_paths() -> None:
    spec = fusiest.from_torch(Block(), (torch.randn(1, 6, 16),))
    assert {"gate", "up", "down", "out", "ln1", "ln1_mean", "ln2_square"} <= spec.info.einsums.keys()
    assert "down_weight" in spec.info.users


def test_open_dimensions(tmp_path: Path) -> None:
    tokens = torch.export.Dim("tokens", min=2, max=64)
    with torch.no_grad():
        program = torch.export.export(Block().eval(), (torch.randn(1, 6, 16),), dynamic_shapes={"x": {1: tokens}})
    torch.export.save(program, tmp_path / "open.pt2")
    with pytest.raises(fusiest.SpecError, match=r"dimension '\w+' is open; give --dim") as error:
        fusiest.from_torch(program)
    name = str(error.value).split("'")[1]
    spec = fusiest.from_torch(program, dims={name: 6})
    assert shape_of(spec) == shape_of(fusiest.from_torch(Block(), (torch.randn(1, 6, 16),)))
    assert shape_of(fusiest.load(tmp_path / "open.pt2", defines={name: 6})) == shape_of(spec)


def test_the_module_stays_as_it_was() -> None:
    module = Cnn().train()
    fusiest.from_torch(module, (torch.randn(1, 3, 16, 16),))
    assert module.training


def test_experts_share_the_tokens(tmp_path: Path) -> None:
    """Which tokens an expert gets depends on data: each gets as many, in memory, in files and through ONNX."""
    module, arguments = Experts(), (torch.randn(8, 16),)
    with torch.no_grad():
        program = torch.export.export(module.eval(), arguments)
    torch.export.save(program, tmp_path / "experts.pt2")
    specs = [fusiest.from_torch(program), fusiest.from_onnx(through_onnx(module, arguments, tmp_path / "net.onnx"))]
    for report in [*(spec.report for spec in specs), import_network(tmp_path / "experts.pt2").report]:
        assert report.macs == 8 * 16 * 4 + 4 * (8 * 2 // 4) * 2 * 16 * 32
        assert any("equal share of the tokens" in cut.detail for cut in report.cuts)


def test_products_of_groups() -> None:
    """Rows that are sorted by expert: 12 rows for 4 experts, and 2 rows for 2 of them."""
    for rows in (12, 2):
        module, arguments = Groups(), (torch.randn(rows, 16), torch.tensor([0, 0, 0, rows], dtype=torch.int32))
        with torch.no_grad():
            program = torch.export.export(module.eval(), arguments)
        report = fusiest.from_torch(program).report
        assert (report.macs, report.cuts) == (rows * 16 * 32, ())
