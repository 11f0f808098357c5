"""Decodes pictures, by Pillow, which is an extra and loads when a picture is decoded."""

from __future__ import annotations

import importlib
import io
import math

import numpy as np

from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError, UserError
from ...ops.attributes import parsed_options
from ..registry import BoundSymbol, row

MAX_PIXELS = 1 << 28
"""Most pixels of a picture: a file of a few bytes can claim any size."""
_FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


@row("image_decode")
def image_decode(symbol: BoundSymbol, data: Array) -> Array:
    try:
        images = importlib.import_module("PIL.Image")
    except ImportError:
        raise UnsupportedError(
            "image_decode: the package Pillow is missing; fix: pip install 'joinery-graph[images]'"
        ) from None
    pixels = parsed_options(symbol.attrs["options"])["pixels"]
    try:
        with images.open(io.BytesIO(data.tobytes()), formats=_FORMATS) as picture:
            if math.prod(picture.size) > MAX_PIXELS:
                raise UserError(f"image_decode: a picture of {picture.size} pixels; fix: at most {MAX_PIXELS} of them")
            array = np.asarray(picture.convert("L" if pixels == "Grayscale" else "RGB"), np.uint8)
    except (OSError, SyntaxError, ValueError, images.DecompressionBombError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"image_decode: {error}; fix: pass the bytes of a file of {', '.join(_FORMATS)}") from None
    if pixels == "Grayscale":
        return array[..., None]
    return array[..., ::-1] if pixels == "BGR" else array
