"""Convolutions of one to three axes, transposed ones, and pooling."""

from __future__ import annotations

from typing import Any

from ..workload import Family, normal

family = Family("convolutions")
Shape = tuple[int, ...]


def add_convolution(
    name: str, image: Shape, kernel: Shape, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> None:
    """Add a convolution of images whose channels are last in memory, with constant weights.

    Shapes are PyTorch's: an image is (N, C, …), a kernel (O, C / groups, …). PyTorch gets a view with channels first, which it
    computes with channels last; its weights have their channels last in memory, too, but for one axis, where it has no such
    format.
    """
    rank = len(image) - 2
    space = "DHW"[-rank:]
    first, *between, last = range(rank + 2)
    if rank == 1:
        weight, order, to_joinery, to_torch = kernel, f"OI{space}", (2, 1, 0), (0, 1, 2)
    else:
        weight, order = (kernel[0], *kernel[2:], kernel[1]), f"O{space}I"
        to_joinery, to_torch = (*between, last, first), (first, last, *between)

    def joinery(jn: Any, x: Any, weights: Any) -> Any:
        convolution = getattr(jn, f"conv{rank}d")
        return convolution(
            x, jn.permute(weights, to_joinery), stride=stride, padding=padding, dilation=dilation, groups=groups
        )

    def torch(torch: Any, x: Any, weights: Any) -> Any:
        convolution = getattr(torch.nn.functional, f"conv{rank}d")
        found = convolution(
            x.permute(first, last, *between), weights.permute(to_torch), stride=stride, padding=padding, dilation=dilation,
            groups=groups,
        )  # fmt: skip
        return found.permute(0, *range(2, rank + 2), 1)

    def jax(jax: Any, x: Any, weights: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, weights, (stride,) * rank, [(padding, padding)] * rank, rhs_dilation=(dilation,) * rank,
            feature_group_count=groups, dimension_numbers=(f"N{space}C", order, f"N{space}C"),
        )  # fmt: skip

    inputs = [normal(image[0], *image[2:], image[1])]
    family.add(name, inputs, joinery, torch=torch, jax=jax, constants=[normal(*weight, scale=0.1)])


add_convolution("conv1d of 5, 16x64x1000", (16, 64, 1000), (64, 64, 5), padding=2)
add_convolution("conv1d of 400 in steps of 160, audio", (4, 1, 48_000), (64, 1, 400), stride=160)
add_convolution("conv1d depthwise of 4", (8, 256, 512), (256, 1, 4), padding=3, groups=256)
add_convolution("conv2d 3x3, 64 channels, 56x56", (1, 64, 56, 56), (64, 64, 3, 3), padding=1)
add_convolution("conv2d 7x7 in steps of 2, 8x3x224x224", (8, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3)
add_convolution("conv2d 3x3 dilated by 2", (1, 64, 64, 64), (64, 64, 3, 3), padding=2, dilation=2)
add_convolution("conv2d 3x3 in 4 groups", (4, 64, 28, 28), (128, 16, 3, 3), padding=1, groups=4)
add_convolution("conv2d 3x3 in 32 groups", (1, 128, 56, 56), (128, 4, 3, 3), padding=1, groups=32)
add_convolution("conv2d depthwise 7x7", (1, 96, 56, 56), (96, 1, 7, 7), padding=3, groups=96)
add_convolution("conv2d depthwise 3x3 in steps of 2", (8, 96, 56, 56), (96, 1, 3, 3), stride=2, padding=1, groups=96)
add_convolution("conv2d of patches 16x16", (8, 3, 224, 224), (384, 3, 16, 16), stride=16)
add_convolution("conv2d 1x1 in steps of 2", (4, 256, 56, 56), (512, 256, 1, 1), stride=2)
add_convolution("conv2d 5x5 of one channel", (8, 1, 28, 28), (32, 1, 5, 5), padding=2)
add_convolution("conv2d 3x3, 512 channels, 7x7", (1, 512, 7, 7), (512, 512, 3, 3), padding=1)
add_convolution("conv2d 3x3 to three channels", (1, 64, 256, 256), (3, 64, 3, 3), padding=1)
add_convolution("conv2d 1x3", (2, 64, 56, 56), (64, 64, 1, 3))
add_convolution("conv3d 3x3x3", (1, 16, 16, 56, 56), (32, 16, 3, 3, 3), padding=1)


def add_channels_first(inputs: int, outputs: int, size: int, side: int, stride: int = 1, groups: int = 1) -> None:
    """Add a convolution whose images and weights come in PyTorch's order, as inputs."""
    kind = "depthwise " if groups > 1 else ""

    def joinery(jn: Any, x: Any, weights: Any) -> Any:
        found = jn.conv2d(
            jn.permute(x, (0, 2, 3, 1)), jn.permute(weights, (2, 3, 1, 0)), stride=stride, padding=size // 2, groups=groups
        )
        return jn.permute(found, (0, 3, 1, 2))

    def torch(torch: Any, x: Any, weights: Any) -> Any:
        return torch.nn.functional.conv2d(x, weights, stride=stride, padding=size // 2, groups=groups)

    family.add(
        f"conv2d channels first, {kind}{size}x{size} {inputs} to {outputs}, {side}x{side}",
        [normal(1, inputs, side, side), normal(outputs, inputs // groups, size, size)],
        joinery, torch=torch,
    )  # fmt: skip


add_channels_first(64, 64, 3, 56)
add_channels_first(3, 64, 7, 224, stride=2)
add_channels_first(256, 256, 3, 14)
add_channels_first(64, 256, 1, 56)
add_channels_first(512, 128, 1, 28)
add_channels_first(96, 96, 3, 56, groups=96)
family.add(
    "transposed conv2d 4x4 to twice the size", [normal(4, 28, 28, 64)],
    lambda jn, x, weights: jn.conv_transpose(x, jn.permute(weights, (1, 2, 3, 0)), stride=2, padding=1),
    torch=lambda torch, x, weights: torch.nn.functional.conv_transpose2d(
        x.permute(0, 3, 1, 2), weights.permute(0, 3, 1, 2), stride=2, padding=1
    ).permute(0, 2, 3, 1),
    constants=[normal(64, 4, 4, 32, scale=0.1)],
)  # fmt: skip

# Pooling.
family.add(
    "maxima of 3x3 in steps of 2, padded", [normal(8, 112, 112, 64)],
    lambda jn, x: jn.max_pool(x, 3, stride=2, padding=1),
    torch=lambda torch, x: torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1),
)  # fmt: skip
family.add(
    "means of 3x3, padded", [normal(8, 56, 56, 64)],
    lambda jn, x: jn.avg_pool(x, 3, stride=1, padding=1),
    torch=lambda torch, x: torch.nn.functional.avg_pool2d(x.permute(0, 3, 1, 2), 3, 1, 1).permute(0, 2, 3, 1),
)  # fmt: skip
family.add(
    "maxima of 3x3 in steps of 2", [normal(1, 112, 112, 64)],
    lambda jn, x: jn.max_pool(x, (3, 3), stride=(2, 2)),
    jax=lambda jax, x: jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID"),
)  # fmt: skip
family.add(
    "means of 2x2", [normal(8, 56, 56, 64)],
    lambda jn, x: jn.avg_pool(x, (2, 2), stride=(2, 2)),
    jax=lambda jax, x: x.reshape(8, 28, 2, 28, 2, 64).mean((2, 4)),
)  # fmt: skip
family.add_program(
    "maxima of 2x2 by slices, channels first", [normal(8, 32, 112, 112)],
    lambda lib, x: lib.maximum(
        lib.maximum(x[:, :, ::2, ::2], x[:, :, 1::2, ::2]), lib.maximum(x[:, :, ::2, 1::2], x[:, :, 1::2, 1::2])
    ),
)  # fmt: skip
family.add_operators(
    "means of 2x2 by slices, channels last", [normal(8, 112, 112, 32)],
    lambda x: (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) * 0.25,
)  # fmt: skip
