"""Reads rows that a condition masks off as a whole from a constant row of what they hold then.

A block that pads an image is masked by row and by column, and varies along its channels: at most taps the mask is true or
false for all lanes. The address is chosen once for each row, and its loop loads without masks and without branches, at the
border as inside. XNNPACK's indirection buffers send rows to a row of zeros likewise (M. Dukhan, "The Indirect Convolution
Algorithm", 2019).
"""

from __future__ import annotations

import re

from ...elementwise import memory_element, memory_size
from ...ir import Function
from ...values import Constant, Global, V, is_zero
from ..nodes import Load, Splat

_MAX_ZEROS = 1 << 15
"""The longest row of zeros, in bytes of the module."""
_MAX_FILLED = 1 << 10
"""The longest row of anything else, which is written out."""


def zeros(f: Function, size: int) -> V:
    """Returns the address of as many bytes of zeros, a constant of the module."""
    return _constant(f, f"jn_zeros_{size}", f"[{size} x i8] zeroinitializer")


def filled_row(f: Function, node: Load, dim: int, step: int = 1) -> V | None:
    """Returns the address of a row as long as the block along `dim` that holds the block's `other`; None where there is none.

    step: the elements from one of a row to the next.

    `other` must be a constant that memory holds as registers do.
    """
    element, count = memory_element(node.pointers.pointee), node.shape[dim] * step
    size = count * memory_size(node.pointers.pointee)
    if node.other is None or (isinstance(node.other, Splat) and is_zero(node.other.value)):
        return zeros(f, size) if size <= _MAX_ZEROS else None
    if not isinstance(node.other, Splat) or size > _MAX_FILLED:
        return None
    fill = node.other.value.printed()
    if not isinstance(fill, Constant) or fill.type != element:
        return None
    text = f"{element} {fill.operand()}"
    name = f"jn_filled_{count}_{re.sub('[^A-Za-z0-9]', _letter, text)}"
    return _constant(f, name, f"[{count} x {element}] [{', '.join([text] * count)}]")


def masked_row(f: Function, node: Load, dim: int, step: int = 1) -> V | None:
    """Returns the address of a row as long as the block along `dim`, of which no lane is read; None where that is too long."""
    size = node.shape[dim] * step * memory_size(node.pointers.pointee)
    return zeros(f, size) if size <= _MAX_ZEROS else None


def _letter(found: re.Match[str]) -> str:
    return {"-": "m", "+": "p", ".": "d"}.get(found[0], "_")


def _constant(f: Function, name: str, value: str) -> V:
    f.module.globals.setdefault(name, f"@{name} = internal constant {value}, align 64")
    return Global(name)
