"""PyTorch modules for tests: small ones of our own, and torchvision's where it is installed."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


def torchvision() -> Any:
    """The package, beside a torch for CPUs, which lacks two operators that it registers functions for."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
    return pytest.importorskip("torchvision", reason="torchvision is not installed: make test-torch")


_KEPT: list[Any] = []


class Cnn(nn.Module):
    """Convolutions of all kinds, with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.grouped = nn.Conv2d(8, 8, 1, groups=2)
        self.norm = nn.GroupNorm(4, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        x = F.relu6(self.bn(self.stem(x)))
        y = F.hardswish(self.grouped(self.depthwise(x)))
        x = F.max_pool2d(self.norm(x + y), 2)
        x = F.adaptive_avg_pool2d(self.up(x), 1)
        return self.head(torch.flatten(x, 1))


class Block(nn.Module):
    """A layer of a transformer, with fused or written-out attention."""

    def __init__(self, fused: bool = True, width: int = 16, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.fused, self.heads, self.groups, self.size = fused, heads, groups, width // heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, width + 2 * groups * self.size)
        self.out = nn.Linear(width, width)
        self.gate, self.up, self.down = nn.Linear(width, 24), nn.Linear(width, 24), nn.Linear(24, width)

    def forward(self, x: Any) -> Any:
        b, m, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).split([width, self.groups * self.size, self.groups * self.size], dim=-1)
        q = q.view(b, m, self.heads, self.size).transpose(1, 2)
        k, v = (t.view(b, m, self.groups, self.size).transpose(1, 2) for t in (k, v))
        each = self.heads // self.groups
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        else:
            k, v = (
                t[:, :, None].expand(b, self.groups, each, m, self.size).reshape(b, self.heads, m, self.size)
                for t in (k, v)
            )
            y = (q @ k.transpose(-1, -2) * self.size**-0.5).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, m, width))
        h = self.ln2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Experts(nn.Module):
    """A mixture of experts as a loop over them."""

    def __init__(self, width: int = 16, inner: int = 32, experts: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.chosen, self.gate = chosen, nn.Linear(width, experts, bias=False)
        layers = [(nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)) for _ in range(experts)]
        self.experts = nn.ModuleList(nn.Sequential(up, nn.SiLU(), down) for up, down in layers)

    def forward(self, x: Any) -> Any:
        weights, chosen = torch.topk(F.softmax(self.gate(x), -1), self.chosen, dim=-1)
        mask = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            place, token = torch.where(mask[i])
            out = out.index_add(0, token, expert(x[token]) * weights[token, place, None])
        return out


class Groups(nn.Module):
    """Rows times the weight of their group."""

    def __init__(self, groups: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(groups, 16, 32))

    def forward(self, rows: Any, ends: Any) -> Any:
        return torch._grouped_mm(rows.bfloat16(), self.weight.bfloat16(), ends)
