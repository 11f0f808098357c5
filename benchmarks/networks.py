"""Defines convolutional networks in PyTorch with random weights, in the shapes of their papers: no package holds them all.

VGG-19 (Simonyan and Zisserman 2014), SqueezeNet 1.1 (Iandola et al. 2016), DenseNet-121 (Huang et al. 2016), Inception v3
(Szegedy et al. 2015, without the auxiliary classifier), ShuffleNet v2 ×1 (Ma et al. 2018), ResNet-50 (He et al. 2015),
MobileNet v2 (Sandler et al. 2018) and a U-Net (Ronneberger et al. 2015, padded). All take pictures of shape (N, 3, H, W)
in float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

CLASSES = 1000
_VGG = (
    64,
    64,
    "pool",
    128,
    128,
    "pool",
    256,
    256,
    256,
    256,
    "pool",
    512,
    512,
    512,
    512,
    "pool",
    512,
    512,
    512,
    512,
    "pool",
)


def conv(
    before: int, after: int, size: int | tuple[int, int], act: bool = True, **settings: Any
) -> nn.Sequential:
    """Return a convolution without bias, a batch normalisation and, unless `act` is false, a ReLU."""
    layers = [nn.Conv2d(before, after, size, bias=False, **settings), nn.BatchNorm2d(after)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


def classifier(channels: int) -> nn.Sequential:
    """Return the mean over the picture and a linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


class Joined(nn.Module):
    """Branches of one input, joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Residual(nn.Module):
    """The sum of a branch and a shortcut, and what follows it."""

    def __init__(
        self, branch: nn.Module, shortcut: nn.Module | None = None, after: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.branch, self.shortcut, self.after = branch, shortcut or nn.Identity(), after or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.branch(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, stride=2, padding=3), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            branch = nn.Sequential(
                conv(before, width, 1),
                conv(width, width, 3, stride=step, padding=1),
                conv(width, 4 * width, 1, act=False),
            )
            shortcut = conv(before, 4 * width, 1, act=False, stride=step) if block == 0 else None
            layers.append(Residual(branch, shortcut, nn.ReLU()))
            before = 4 * width
    return nn.Sequential(*layers, classifier(before))


def mobilenet_v2() -> nn.Module:
    def cell(before: int, after: int, size: int, act: bool = True, **settings: Any) -> nn.Sequential:
        layers = [*conv(before, after, size, act=False, **settings), *([nn.ReLU6()] if act else [])]
        return nn.Sequential(*layers)

    layers: list[nn.Module] = [cell(3, 32, 3, stride=2, padding=1)]
    before = 32
    shapes = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for wider, after, blocks, stride in shapes:
        for block in range(blocks):
            step, width = stride if block == 0 else 1, before * wider
            branch = nn.Sequential(
                *([cell(before, width, 1)] if wider > 1 else []),
                cell(width, width, 3, stride=step, padding=1, groups=width),
                cell(width, after, 1, act=False),
            )
            layers.append(Residual(branch) if step == 1 and before == after else branch)
            before = after
    return nn.Sequential(*layers, cell(before, 1280, 1), classifier(1280))


def vgg19() -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for step in _VGG:
        if isinstance(step, int):
            layers += [nn.Conv2d(before, step, 3, padding=1), nn.ReLU()]
            before = step
        else:
            layers.append(nn.MaxPool2d(2))
    dense = [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, CLASSES)]
    return nn.Sequential(*layers, nn.Flatten(), *dense)


def squeezenet() -> nn.Module:
    def fire(before: int, squeezed: int, after: int) -> nn.Sequential:
        def plain(one: int, other: int, size: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(one, other, size, padding=size // 2), nn.ReLU())

        return nn.Sequential(
            plain(before, squeezed, 1), Joined(plain(squeezed, after // 2, 1), plain(squeezed, after // 2, 3))
        )

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), fire(64, 16, 128), fire(128, 16, 128), pool(), fire(128, 32, 256),
        fire(256, 32, 256), pool(), fire(256, 48, 384), fire(384, 48, 384), fire(384, 64, 512), fire(512, 64, 512),
        nn.Conv2d(512, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


def densenet121() -> nn.Module:
    def before_conv(channels: int, after: int, size: int) -> list[nn.Module]:
        return [
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, after, size, padding=size // 2, bias=False),
        ]

    growth, channels = 32, 64
    layers: list[nn.Module] = [conv(3, 64, 7, stride=2, padding=3), nn.MaxPool2d(3, 2, 1)]
    for index, blocks in enumerate((6, 12, 24, 16)):
        if index:
            layers += [*before_conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(blocks):
            grown = nn.Sequential(*before_conv(channels, 4 * growth, 1), *before_conv(4 * growth, growth, 3))
            layers.append(Joined(nn.Identity(), grown))
            channels += growth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), classifier(channels))


def inception_v3() -> nn.Module:
    def chain(before: int, *steps: tuple[int, int | tuple[int, int], dict[str, Any]]) -> nn.Sequential:
        widths = [before, *(width for width, _, _ in steps)]
        pairs = zip(itertools.pairwise(widths), steps, strict=True)
        return nn.Sequential(
            *[conv(one, other, size, **settings) for (one, other), (_, size, settings) in pairs]
        )

    def same(size: int | tuple[int, int]) -> dict[str, Any]:
        return {"padding": size // 2 if isinstance(size, int) else (size[0] // 2, size[1] // 2)}

    def pooled(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(before, after, 1))

    def first(before: int, after: int) -> nn.Module:
        double = chain(before, (64, 1, {}), (96, 3, same(3)), (96, 3, same(3)))
        return Joined(
            conv(before, 64, 1), chain(before, (48, 1, {}), (64, 5, same(5))), double, pooled(before, after)
        )

    def second(before: int, width: int) -> nn.Module:
        row, column = (1, 7), (7, 1)
        single = chain(before, (width, 1, {}), (width, row, same(row)), (192, column, same(column)))
        double = chain(before, (width, 1, {}), (width, column, same(column)), (width, row, same(row)),
                       (width, column, same(column)), (192, row, same(row)))  # fmt: skip
        return Joined(conv(before, 192, 1), single, double, pooled(before, 192))

    def third(before: int) -> nn.Module:
        def split(width: int) -> nn.Module:
            return Joined(conv(width, 384, (1, 3), padding=(0, 1)), conv(width, 384, (3, 1), padding=(1, 0)))

        double = nn.Sequential(conv(before, 448, 1), conv(448, 384, 3, padding=1), split(384))
        return Joined(
            conv(before, 320, 1), nn.Sequential(conv(before, 384, 1), split(384)), double, pooled(before, 192)
        )

    half = {"stride": 2}
    reduced = Joined(
        conv(288, 384, 3, **half),
        chain(288, (64, 1, {}), (96, 3, same(3)), (96, 3, half)),
        nn.MaxPool2d(3, 2),
    )
    row, column = (1, 7), (7, 1)
    last = Joined(
        chain(768, (192, 1, {}), (320, 3, half)),
        chain(768, (192, 1, {}), (192, row, same(row)), (192, column, same(column)), (192, 3, half)),
        nn.MaxPool2d(3, 2),
    )
    return nn.Sequential(
        conv(3, 32, 3, **half), conv(32, 32, 3), conv(32, 64, 3, padding=1), nn.MaxPool2d(3, 2),
        conv(64, 80, 1), conv(80, 192, 3),
        nn.MaxPool2d(3, 2), first(192, 32), first(256, 64), first(288, 64), reduced, second(768, 128), second(768, 160),
        second(768, 160), second(768, 192), last, third(1280), third(2048), classifier(2048),
    )  # fmt: skip


class _Shuffled(nn.Module):
    """A unit of ShuffleNet v2: half of the channels through a branch, or both halves where the picture shrinks."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        half = after // 2

        def deep(channels: int) -> nn.Sequential:
            return conv(channels, channels, 3, act=False, stride=stride, padding=1, groups=channels)

        self.stride = stride
        self.branch = nn.Sequential(
            conv(half if stride == 1 else before, half, 1), deep(half), conv(half, half, 1)
        )
        self.other = nn.Sequential(deep(before), conv(before, half, 1)) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = x.chunk(2, 1) if self.stride == 1 else (x, x)
        joined = torch.cat([self.other(one), self.branch(other)], 1)
        return functional.channel_shuffle(joined, 2)


def shufflenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 24, 3, stride=2, padding=1), nn.MaxPool2d(3, 2, 1)]
    before = 24
    for after, units in ((116, 4), (232, 8), (464, 4)):
        for unit in range(units):
            layers.append(_Shuffled(before, after, 2 if unit == 0 else 1))
            before = after
    return nn.Sequential(*layers, conv(before, 1024, 1), classifier(1024))


class _UNet(nn.Module):
    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()

        def double(before: int, after: int) -> nn.Sequential:
            return nn.Sequential(conv(before, after, 3, padding=1), conv(after, after, 3, padding=1))

        self.down = nn.ModuleList([double(one, other) for one, other in itertools.pairwise([3, *widths])])
        back = list(itertools.pairwise(reversed(widths)))
        self.grow = nn.ModuleList([nn.ConvTranspose2d(one, other, 2, 2) for one, other in back])
        self.up = nn.ModuleList([double(2 * other, other) for _, other in back])
        self.last = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for index, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if index else x)
            kept.append(x)
        for grow, block, beside in zip(self.grow, self.up, reversed(kept[:-1]), strict=True):
            x = block(torch.cat([beside, grow(x)], 1))
        return self.last(x)


def unet() -> nn.Module:
    return _UNet((32, 64, 128, 256))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "resnet50": (resnet50, 224),
    "mobilenet_v2": (mobilenet_v2, 224),
    "vgg19": (vgg19, 224),
    "squeezenet": (squeezenet, 224),
    "densenet121": (densenet121, 224),
    "inception_v3": (inception_v3, 299),
    "shufflenet_v2": (shufflenet_v2, 224),
    "unet": (unet, 256),
}
"""Networks, and the height and width of their pictures."""
