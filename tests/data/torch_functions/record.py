"""Records what functions of torch.nn.functional give, as the witness of joinery's functions of the same meaning.

Run with PyTorch 2.13: `python tests/data/torch_functions/record.py`. Arrays are as PyTorch has them, with channels first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

torch.manual_seed(0)
RECORD: dict[str, np.ndarray] = {}


def keep(case: str, inputs: dict[str, torch.Tensor], *results: torch.Tensor) -> None:
    for name, tensor in inputs.items():
        RECORD[f"{case}/{name}"] = tensor.detach().numpy()
    for number, tensor in enumerate(results):
        RECORD[f"{case}/{number}"] = tensor.detach().numpy()


def made(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def conv_transpose() -> None:
    for case, function, x, w, options in (
        ("1d", F.conv_transpose1d, made(2, 3, 5), made(3, 4, 3), {"stride": 2}),
        ("2d", F.conv_transpose2d, made(1, 4, 3, 4), made(4, 3, 3, 2),
         {"stride": (2, 1), "padding": (1, 0), "output_padding": (1, 0), "groups": 2, "dilation": (1, 2)}),
        ("3d", F.conv_transpose3d, made(1, 2, 2, 3, 2), made(2, 2, 2, 2, 1), {"stride": (1, 2, 2), "padding": (1, 0, 0)}),
    ):  # fmt: skip
        bias = made(w.shape[1] * options.get("groups", 1))
        keep(f"conv_transpose {case}", {"x": x, "w": w, "b": bias}, function(x, w, bias, **options))


def pools() -> None:
    x = made(2, 3, 7, 6)
    for case, options in (
        ("plain", {"kernel_size": 2}),
        ("padded", {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "ceil_mode": True}),
    ):
        best, where = F.max_pool2d(x, return_indices=True, **options)
        keep(f"max_pool_with_indices {case}", {"x": x}, best, where)
    nothing = torch.full((1, 1, 4), -torch.inf)
    keep("max_pool_with_indices lowest", {"x": nothing}, *F.max_pool1d(nothing, 3, 1, 1, 2, return_indices=True))
    x = made(2, 3, 6, 6)
    best, where = F.max_pool2d(x, 2, return_indices=True)
    keep("max_unpool plain", {"x": best, "indices": where}, F.max_unpool2d(best, where, 2))
    x = made(1, 2, 7)
    best, where = F.max_pool1d(x, 3, 2, return_indices=True)
    keep("max_unpool sized", {"x": best, "indices": where}, F.max_unpool1d(best, where, 3, 2, output_size=(8,)))
    x = made(2, 3, 6, 7)
    keep("lp_pool 2", {"x": x}, F.lp_pool2d(x.abs(), 2, (3, 2), 2))
    keep("lp_pool 3", {"x": x}, F.lp_pool2d(x.abs(), 3, 2))
    keep("lp_pool 1", {"x": x}, F.lp_pool2d(x.abs(), 1, 2, 1))


def folds() -> None:
    x = made(2, 3 * 6, 12)
    keep("col2im plain", {"x": x}, F.fold(x, (5, 5), (2, 3), 1))
    x = made(1, 2 * 4, 6)
    keep("col2im padded", {"x": x}, F.fold(x, (6, 5), (2, 2), dilation=(2, 1), padding=(0, 1), stride=2))


def interpolations() -> None:
    x = made(1, 2, 5, 6)
    small = {"size": (3, 4)}
    for case, options in (
        ("nearest up", {"scale_factor": 2, "mode": "nearest"}),
        ("nearest down", {**small, "mode": "nearest"}),
        ("nearest-exact", {"size": (7, 4), "mode": "nearest-exact"}),
        ("linear", {"size": (7, 9), "mode": "bilinear"}),
        ("linear corners", {"size": (7, 9), "mode": "bilinear", "align_corners": True}),
        ("cubic", {"size": (8, 4), "mode": "bicubic"}),
        ("cubic corners", {"size": (8, 4), "mode": "bicubic", "align_corners": True}),
        ("linear antialias", {**small, "mode": "bilinear", "antialias": True}),
        ("cubic antialias", {**small, "mode": "bicubic", "antialias": True}),
    ):
        keep(f"resize {case}", {"x": x}, F.interpolate(x, **options))
    x = made(1, 1, 3, 4, 2)
    keep("resize trilinear", {"x": x}, F.interpolate(x, size=(5, 3, 4), mode="trilinear"))


def samples() -> None:
    x, grid = made(2, 3, 5, 4), torch.rand(2, 6, 5, 2) * 3 - 1.5
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                found = F.grid_sample(x, grid, mode, padding, corners)
                keep(f"grid_sample {mode} {padding} {corners}", {"x": x, "grid": grid}, found)
    x, grid = made(1, 2, 3, 4, 3), torch.rand(1, 2, 2, 3, 3) * 2.4 - 1.2
    keep("grid_sample 3d", {"x": x, "grid": grid}, F.grid_sample(x, grid, align_corners=False))
    theta = made(2, 2, 3)
    for corners in (False, True):
        keep(f"affine_grid {corners}", {"theta": theta}, F.affine_grid(theta, [2, 1, 4, 5], corners))
    theta = made(1, 3, 4)
    keep("affine_grid 3d", {"theta": theta}, F.affine_grid(theta, [1, 1, 2, 3, 2], False))


def networks() -> None:
    x = made(6, 2, 3)
    for name, kind in (("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU), ("rnn", torch.nn.RNN)):
        for both in (False, True):
            network = kind(3, 4, bidirectional=both)
            states = [made(2 if both else 1, 2, 4) for _ in range(2 if name == "lstm" else 1)]
            found, last = network(x, tuple(states) if name == "lstm" else states[0])
            lasts = last if isinstance(last, tuple) else (last,)
            given = {"x": x, **{f"s{number}": state for number, state in enumerate(states)}}
            for key, parameter in network.named_parameters():
                given[key] = parameter
            keep(f"{name} {both}", given, found, *lasts)


def losses() -> None:
    x, target, weight = made(4, 5, 3), torch.randint(0, 5, (4, 3)), torch.rand(5)
    target[0, 1] = target[2, 2] = -100
    for reduction in ("none", "sum", "mean"):
        given = {"x": x, "target": target, "weight": weight}
        keep(f"cross_entropy {reduction}", given, F.cross_entropy(x, target, weight, reduction=reduction))
        keep(f"nll_loss {reduction}", {"x": x, "target": target}, F.nll_loss(x, target, reduction=reduction))


def others() -> None:
    for size in (1, 2, 9, 16):
        for periodic in (True, False):
            for name in ("hann", "hamming", "blackman"):
                if size > 1 or not periodic:
                    found = getattr(torch, f"{name}_window")(size, periodic=periodic, dtype=torch.float64)
                    keep(f"{name}_window {size} {periodic}", {}, found)
    x = made(2, 7, 3)
    for size in (1, 4, 5):
        keep(f"lrn {size}", {"x": x}, F.local_response_norm(x, size, 0.3, 0.6, 1.5))
    for order in (1, 2):
        keep(f"lp_norm {order}", {"x": x}, F.normalize(x, float(order), 1))


for record in (conv_transpose, pools, folds, interpolations, samples, networks, losses, others):
    record()
np.savez_compressed(Path(__file__).with_name("torch.npz"), **RECORD)
