"""Images: colours, scaling, filters, sampling, and conversions on their way into networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formulas import doubled, halved
from ..workload import Family, counting, integers, normal, pixels, positive, uniform

family = Family("images")
GRAY = (0.299, 0.587, 0.114)
ROUNDED = 1e-3
"""The share of bytes that may differ by rounding of floats."""


# Colours.
def gray_by_planes(lib: Any, x: Any) -> Any:
    """Return the brightness of pixels as bytes, channel by channel."""
    red, green, blue = (lib.cast(x[:, :, channel], "float32") for channel in range(3))
    return lib.cast(red * GRAY[0] + green * GRAY[1] + blue * GRAY[2], "uint8")


def clipped_gray(lib: Any, x: Any) -> Any:
    """Return the brightness of pixels as bytes, of floats that are clipped."""
    floats = lib.cast(x, "float32")
    mixed = GRAY[0] * floats[..., 0] + GRAY[1] * floats[..., 1] + GRAY[2] * floats[..., 2]
    return lib.cast(lib.clip(mixed, 0, 255), "uint8")


def gray_of_integers(lib: Any, x: Any) -> Any:
    """Return the brightness of pixels as bytes, in integers."""
    red, green, blue = (lib.cast(x[..., channel], "int32") for channel in range(3))
    return lib.cast((red * 77 + green * 150 + blue * 29) // 256, "uint8")


def value_and_saturation(lib: Any, x: Any) -> Any:
    """Return two of the three numbers of HSV."""
    floats = lib.cast(x, "float32") / 255.0
    high, low = lib.max(floats, axis=2), lib.min(floats, axis=2)
    return high, lib.where(high > 0, (high - low) / lib.maximum(high, 1e-6), 0 * high)


def hue(lib: Any, x: Any) -> Any:
    """Return the hue of channels that come first, in sixths of a turn."""
    red, green, blue = x[0], x[1], x[2]
    high, low = lib.maximum(lib.maximum(red, green), blue), lib.minimum(lib.minimum(red, green), blue)
    span = high - low + 1e-6
    of_green_or_blue = lib.where(high == green, 2.0 + (blue - red) / span, 4.0 + (red - green) / span)
    return lib.where(high == red, (green - blue) / span, of_green_or_blue)


def blended(lib: Any, x: Any, below: Any) -> Any:
    """Return an image over another one, by its transparency, as the nearest bytes."""
    share = lib.cast(x[:, :, 3:4], "float32") / 255.0
    mixed = lib.cast(x[:, :, :3], "float32") * share + lib.cast(below, "float32") * (1.0 - share)
    return lib.cast(mixed + 0.5, "uint8")


def encoded(lib: Any, x: Any) -> Any:
    """Return light as sRGB has it."""
    return lib.where(x <= 0.0031308, 12.92 * x, 1.055 * lib.exp(lib.log(x) * (1 / 2.4)) - 0.055)


def packed(lib: Any, x: Any) -> Any:
    """Return pixels of 5, 6 and 5 bits."""
    wide = lib.cast(x, "int32")
    return ((wide[:, :, 0] >> 3) << 11) | ((wide[:, :, 1] >> 2) << 5) | (wide[:, :, 2] >> 3)


def unpacked(lib: Any, x: Any) -> Any:
    """Return the three channels of pixels of 5, 6 and 5 bits."""
    return lib.cast(lib.stack([(x >> 11) << 3, ((x >> 5) & 63) << 2, (x & 31) << 3], axis=2), "uint8")


weights = np.array(GRAY, np.float32)
family.add(
    "gray by a product uint8", [pixels(720, 1280, 3)],
    lambda jn, x: jn.cast(jn.sum(jn.cast(x, jn.float32) * weights, axis=-1), jn.uint8),
    numpy=lambda x: (x.astype(np.float32) @ weights).astype(np.uint8),
    torch=lambda torch, x: (x.to(torch.float32) @ torch.from_numpy(weights)).to(torch.uint8),
    jax=lambda jax, x: (x.astype("float32") @ weights).astype("uint8"),
    differing=ROUNDED,
)  # fmt: skip
family.add_program("gray by planes uint8", [pixels(720, 1280, 3)], gray_by_planes, differing=ROUNDED)
family.add_program("gray, clipped uint8", [pixels(480, 640, 3)], clipped_gray, differing=ROUNDED)
family.add_program("gray of integers uint8", [pixels(720, 1280, 3)], gray_of_integers)
family.add_program("gray to three channels uint8", [pixels(720, 1280)], lambda lib, x: lib.stack([x, x, x], axis=2))
family.add_program("value and saturation uint8", [pixels(480, 640, 3)], value_and_saturation)
family.add_operators("colours by a 3x3 matrix float32", [positive(720, 1280, 3), normal(3, 3)], lambda x, y: x @ y)
family.add_program("channels reversed uint8", [pixels(720, 1280, 3)], lambda lib, x: lib.flip(x, axis=2))
family.add_program(
    "colours times transparency uint8", [pixels(480, 640, 4)],
    lambda lib, x: lib.cast(lib.cast(x[..., :3], "float32") * lib.cast(x[..., 3:], "float32") / 255.0, "uint8"),
    differing=ROUNDED,
)  # fmt: skip
family.add_program("hue float32", [positive(3, 480, 640)], hue)
family.add_program("image over another uint8", [pixels(480, 640, 4), pixels(480, 640, 3)], blended)
family.add_program("sRGB of light float32", [uniform(480, 640, 3)], encoded)
family.add_program("pixels of 16 bits of uint8", [pixels(480, 640, 3)], packed)
family.add_program("pixels of 16 bits to uint8", [integers(0, 65_536, 480, 640)], unpacked)

# Bytes, one by one.
family.add_program(
    "two images mixed uint8", [pixels(720, 1280), pixels(720, 1280)],
    lambda lib, x, y: lib.cast((lib.cast(x, "int32") * 77 + lib.cast(y, "int32") * 179) // 256, "uint8"),
)  # fmt: skip
family.add_program(
    "two rows of bytes mixed as floats", [pixels(1_000_000), pixels(1_000_000)],
    lambda lib, x, y: lib.cast(x, "float32") * 0.25 + lib.cast(y, "float32") * 0.75,
)  # fmt: skip
family.add_program(
    "threshold uint8", [pixels(1080, 1920)],
    lambda lib, x: lib.where(x > 100, lib.cast(x * 0 + 255, "uint8"), lib.cast(x * 0, "uint8")),
)  # fmt: skip
family.add_program(
    "gamma by a square root uint8", [pixels(720, 1280)],
    lambda lib, x: lib.cast(lib.clip(lib.sqrt(lib.cast(x, "float32") / 255.0) * 255.0, 0, 255), "uint8"),
    differing=ROUNDED,
)  # fmt: skip
family.add_program(
    "mean absolute difference uint8", [pixels(720, 1280), pixels(720, 1280)],
    lambda lib, x, y: lib.mean(lib.abs(lib.cast(x, "float32") - lib.cast(y, "float32"))),
)  # fmt: skip
family.add_program(
    "absolute differences of rows uint8", [pixels(720, 1280), pixels(720, 1280)],
    lambda lib, x, y: lib.sum(lib.abs(lib.cast(x, "int32") - lib.cast(y, "int32")), axis=1),
)  # fmt: skip


# Sums over whole images.
def means_of_products(lib: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """Return means of two images, of their squares and of their product."""
    return tuple(lib.mean(each) for each in (x, y, x * x, y * y, x * y))


def threshold_scores(lib: Any, counts: Any, levels: Any) -> Any:
    """Return Otsu's score of each threshold: how far apart the levels below and above it are."""
    shares = counts / lib.sum(counts)
    below, sums = lib.cumsum(shares, axis=0), lib.cumsum(shares * levels, axis=0)
    distance = (sums[-1] * below - sums)[:-1]
    return distance * distance / (below * (1.0 - below))[:-1]


def add_integral_of_bytes() -> None:
    """Add sums of bytes above and to the left of each pixel, in int32 everywhere."""
    family.add(
        "integral image int32 of uint8", [pixels(720, 1280)],
        lambda jn, x: jn.cumsum(jn.cumsum(jn.cast(x, jn.int32), axis=0), axis=1),
        numpy=lambda x: x.astype(np.int32).cumsum(0, dtype=np.int32).cumsum(1, dtype=np.int32),
        torch=lambda torch, x: x.to(torch.int32).cumsum(0, dtype=torch.int32).cumsum(1, dtype=torch.int32),
        jax=lambda jax, x: x.astype("int32").cumsum(0, dtype="int32").cumsum(1, dtype="int32"),
    )  # fmt: skip


family.add_program(
    "mean squared difference uint8", [pixels(720, 1280), pixels(720, 1280)],
    lambda lib, x, y: lib.mean((lib.cast(x, "float32") - lib.cast(y, "float32")) ** 2),
)  # fmt: skip
family.add_program("means of two images and their products", [normal(512, 512), normal(512, 512)], means_of_products)
family.add_program(
    "scores of 255 thresholds", [positive(256)], threshold_scores, constants=[counting(256, dtype="float32")]
)
family.add_program(
    "integral image float32", [normal(720, 1280)], lambda lib, x: lib.cumsum(lib.cumsum(x, axis=0), axis=1)
)
add_integral_of_bytes()
family.add_program(
    "mean of 16 images uint8", [pixels(16, 480, 640)],
    lambda lib, x: lib.cast(lib.sum(lib.cast(x, "int32"), axis=0) // 16, "uint8"),
    torch=lambda torch, x: (torch.sum(x.to(torch.int32), 0, dtype=torch.int32) // 16).to(torch.uint8),
)  # fmt: skip

# Into networks, and back.
family.add(
    "normalised, channels first, 8x224x224 uint8", [pixels(8, 224, 224, 3), normal(3), normal(3)],
    lambda jn, x, mean, scale: jn.permute((jn.cast(x, jn.float32) / 255.0 - mean) / scale, (0, 3, 1, 2)),
    numpy=lambda x, mean, scale: np.ascontiguousarray(
        ((x.astype(np.float32) / np.float32(255) - mean) / scale).transpose(0, 3, 1, 2)
    ),
    torch=lambda torch, x, mean, scale: ((x.to(torch.float32) / 255 - mean) / scale).permute(0, 3, 1, 2).contiguous(),
    jax=lambda jax, x, mean, scale: ((x.astype("float32") / 255 - mean) / scale).transpose(0, 3, 1, 2),
)  # fmt: skip
family.add_program(
    "normalised, channels first, 224x224 uint8", [pixels(224, 224, 3), normal(3, 1, 1)],
    lambda lib, x, mean: (lib.permute(lib.cast(x, "float32"), (2, 0, 1)) / 255.0 - mean) * 4.0,
)  # fmt: skip
family.add_program(
    "channels first float32 of uint8", [pixels(720, 1280, 3)],
    lambda lib, x: lib.permute(lib.cast(x, "float32") / 255.0, (2, 0, 1)),
)  # fmt: skip
family.add_program(
    "channels last uint8 of float32", [uniform(3, 480, 640)],
    lambda lib, x: lib.permute(lib.cast(x * 255.0, "uint8"), (1, 2, 0)),
)  # fmt: skip
family.add_operators(
    "normalised float32 8x3x224x224", [normal(8, 3, 224, 224), normal(1, 3, 1, 1), positive(1, 3, 1, 1)],
    lambda x, mean, scale: (x - mean) / scale,
)  # fmt: skip
family.add_program(
    "cropped and mirrored uint8", [pixels(8, 256, 256, 3)], lambda lib, x: lib.flip(x[:, 16:240, 16:240], axis=2)
)
family.add_operators(
    "cropped float32 16x3x256x256 to 224x224", [normal(16, 3, 256, 256)], lambda x: x[:, :, 16:240, 16:240] * 1.0
)
family.add_program("mirrored uint8", [pixels(8, 224, 224, 3)], lambda lib, x: lib.flip(x, axis=2))
family.add(
    "bars above and below uint8", [pixels(360, 640, 3)],
    lambda jn, x: jn.pad(x, ((140, 140), (0, 0), (0, 0))),
    numpy=lambda x: np.pad(x, ((140, 140), (0, 0), (0, 0))),
    torch=lambda torch, x: torch.nn.functional.pad(x, (0, 0, 0, 0, 140, 140)),
    jax=lambda jax, x: jax.numpy.pad(x, ((140, 140), (0, 0), (0, 0))),
)  # fmt: skip

# Filters.


def gradients(x: Any) -> tuple[Any, Any]:
    """Return Sobel's sums along both axes."""
    along = x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:] - x[:-2, :-2] - 2 * x[1:-1, :-2] - x[2:, :-2]
    down = x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:] - x[:-2, :-2] - 2 * x[:-2, 1:-1] - x[:-2, 2:]
    return along, down


def sobel(lib: Any, x: Any) -> Any:
    """Return the length of the gradient, by products."""
    along, down = gradients(x)
    return lib.sqrt(along * along + down * down)


def sobel_of_powers(lib: Any, x: Any) -> Any:
    """Return the length of the gradient, by powers."""
    along, down = gradients(x)
    return lib.sqrt(along**2 + down**2)


def neighbourhood(x: Any, weights: tuple[int, int, int]) -> Any:
    """Return sums of 3x3 neighbours, with weights of rows and columns."""
    total = None
    for row, row_weight in enumerate(weights):
        for column, column_weight in enumerate(weights):
            part = x[row : x.shape[0] - 2 + row, column : x.shape[1] - 2 + column]
            part = part if row_weight * column_weight == 1 else part * (row_weight * column_weight)
            total = part if total is None else total + part
    return total


def separable_blur(x: Any) -> Any:
    """Blur by five taps along both axes."""
    rows = x[:-4] * 0.06 + x[1:-3] * 0.24 + x[2:-2] * 0.4 + x[3:-1] * 0.24 + x[4:] * 0.06
    return rows[:, :-4] * 0.06 + rows[:, 1:-3] * 0.24 + rows[:, 2:-2] * 0.4 + rows[:, 3:-1] * 0.24 + rows[:, 4:] * 0.06


def dilated(lib: Any, x: Any) -> Any:
    """Return maxima of 3x3 neighbours, along rows and then down columns."""
    rows = lib.maximum(lib.maximum(x[:, :-2], x[:, 1:-1]), x[:, 2:])
    return lib.maximum(lib.maximum(rows[:-2], rows[1:-1]), rows[2:])


def halved_bytes(lib: Any, x: Any) -> Any:
    """Return an image of half the size, of means of four bytes."""
    corners = (x[::2, ::2], x[1::2, ::2], x[::2, 1::2], x[1::2, 1::2])
    first, second, third, fourth = (lib.cast(corner, "int32") for corner in corners)
    return lib.cast((first + second + third + fourth + 2) // 4, "uint8")


family.add_program("Sobel filter 720x1280", [normal(720, 1280)], sobel)
family.add_program("Sobel filter 1080x1920", [normal(1080, 1920)], sobel_of_powers)
family.add_operators("box filter 3x3", [normal(720, 1280)], lambda x: neighbourhood(x, (1, 1, 1)) / 9.0)
family.add_operators("Gaussian filter 5x5, rows and columns", [normal(1080, 1920)], separable_blur)
family.add_program(
    "binomial filter 3x3 uint8", [pixels(720, 1280)],
    lambda lib, x: lib.cast(neighbourhood(lib.cast(x, "int32"), (1, 2, 1)) // 16, "uint8"),
)  # fmt: skip
family.add_program(
    "box filter 3x3 uint8", [pixels(722, 1282)],
    lambda lib, x: lib.cast(neighbourhood(lib.cast(x, "int32"), (1, 1, 1)) // 9, "uint8"),
)  # fmt: skip
family.add_program("maxima of 3x3 uint8", [pixels(1082, 1922)], dilated)
family.add_program("cosine transforms of 8x8 blocks", [normal(64, 64, 8, 8), normal(8, 8)],
                   lambda lib, x, basis: basis @ x @ lib.permute(basis, (1, 0)))  # fmt: skip

# Other sizes.
family.add_program("half size uint8", [pixels(1080, 1920)], halved_bytes)
family.add_operators("half size float32", [normal(1080, 1920)], halved)
family.add_program("double size by stacks", [normal(4, 32, 56, 56)], doubled)


def add_bilinear(shape: tuple[int, int, int, int]) -> None:
    """Add bilinear scaling by two of images with channels first."""
    height, width = 2 * shape[2], 2 * shape[3]
    family.add(
        f"double size, bilinear {shape[0]}x{shape[1]}x{shape[2]}x{shape[3]}", [normal(*shape)],
        lambda jn, x: jn.resize(x, size=(height, width), axes=(2, 3), mode="linear"),
        torch=lambda torch, x: torch.nn.functional.interpolate(x, size=(height, width), mode="bilinear", align_corners=False),
        jax=lambda jax, x: jax.image.resize(x, (*shape[:2], height, width), "linear"),
    )  # fmt: skip


add_bilinear((1, 3, 256, 256))
add_bilinear((4, 32, 56, 56))
family.add(
    "bilinear samples 2x64x64x16", [normal(2, 64, 64, 16), uniform(2, 64, 64, 2, low=-1.0)],
    lambda jn, x, grid: jn.grid_sample(x, grid),
    torch=lambda torch, x, grid: torch.nn.functional.grid_sample(x.permute(0, 3, 1, 2), grid, align_corners=False).permute(
        0, 2, 3, 1
    ),
)  # fmt: skip
