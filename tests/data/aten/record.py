"""Records what PyTorch traces of small models, and what it computes: `.venv-doors/bin/python tests/data/aten/record.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joinery.interface.torch.export_reading import read_exported
from joinery.interface.torch.tensors import to_array
from torch import nn
from torch.utils import _pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.aten_programs import DATA, Recorded, written


class Promotions(nn.Module):
    """Operands of different dtypes, tensors without axes, and numbers: what PyTorch casts, and what it does not."""

    def forward(self, half: Any, whole: Any, small: Any, alone: Any) -> Any:
        return {
            "number": half * 0.3,
            "wider": half + whole,
            "without_axes": half * alone,
            "int_and_alone": whole * alone,
            "int_and_number": whole * 0.5,
            "quotient": whole / 3,
            "wraps": small + 300,
            "alpha": torch.add(half, half, alpha=0.3),
            "compared": half < 0.3,
            "power": half ** 3,
            "floor": torch.div(whole, -3, rounding_mode="floor"),
            "sign": torch.sign(alone * float("nan")),
        }


class Attention(nn.Module):
    """One block of a transformer with a mask of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.project = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, tokens: Any, keep: Any) -> Any:
        x = self.norm(self.table(tokens))
        batch, length = tokens.shape
        q, k, v = self.project(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mask = keep.bool()[:, None, None, :].expand(batch, 1, length, length)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return nn.functional.gelu(self.out(y.transpose(1, 2).reshape(batch, length, 8))) + x, x[:, 0]


class Image(nn.Module):
    """Convolutions, running statistics, pooling and padding."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.apart = nn.Conv2d(4, 4, 3, padding=1, groups=4)

    def forward(self, x: Any) -> Any:
        y = nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 3, 2, 1)
        return torch.flatten(nn.functional.hardswish(self.apart(nn.functional.pad(y, (1, 0, 0, 1)))).mean((2, 3)), 1)


class Positions(nn.Module):
    """Views, indices and writes to parts: in-place statements become functions."""

    def forward(self, x: Any, at: Any) -> Any:
        y = x.clone()
        y[1:, :2] += 1
        y[0] = 3
        corner = x[at[:, None], at[None, :]]
        return y, corner, x.gather(1, at.view(1, -1).expand(x.shape[0], -1)), x.flip(0).cumsum(1), x.t()[1:, ::2], x.roll(1, 0)


def recorded(module: nn.Module, runs: list[tuple[Any, ...]], name: str, dynamic: Any = None) -> Recorded:
    module = module.eval()
    with torch.no_grad():
        exported = torch.export.export(module, runs[0], dynamic_shapes=dynamic)
        copied = lambda values: [np.array(to_array(value)) for value in values]  # noqa: E731
        results = [(copied(run), copied(_pytree.tree_leaves(module(*run)))) for run in runs]
    return Recorded(read_exported(exported, "refuse", name), results)


def main() -> None:
    torch.manual_seed(0)
    auto = torch.export.Dim.AUTO
    small = torch.randint(-100, 100, (7,), dtype=torch.int8)
    numbers = (torch.randn(7).bfloat16(), torch.randint(-9, 9, (7,)), small, torch.tensor(0.7))
    keep = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    programs = {
        "promotions": recorded(Promotions(), [numbers], "promotions"),
        "attention": recorded(
            Attention(),
            [(torch.randint(0, 11, (3, 5)), keep), (torch.randint(0, 11, (2, 4)), torch.ones(2, 4, dtype=torch.int64))],
            "attention",
            ({0: auto, 1: auto}, {0: auto, 1: auto}),
        ),
        "image": recorded(Image(), [(torch.randn(2, 2, 9, 8),), (torch.randn(3, 2, 9, 8),)], "image", ({0: auto},)),
        "positions": recorded(Positions(), [(torch.randn(4, 5), torch.tensor([0, 2, 3]))], "positions"),
    }
    for name, program in programs.items():
        (DATA / f"{name}.json").write_text(written(program) + "\n")


if __name__ == "__main__":
    main()
