"""Reads what commands take: arrays in .npy files, NAME=FILE, and devices."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...promotion import DType, UserError

if TYPE_CHECKING:
    from ...promotion.arrays import Array


def assignment(text: str) -> tuple[str, str]:
    """Return the parts of NAME=FILE."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got {text!r}")
    return name, path


def device(text: str) -> str:
    """Return a device's name, if it is one."""
    kind, colon, number = text.partition(":")
    if text not in ("auto", "cpu", "ptxsim") and not (kind == "cuda" and number.isdigit() == bool(colon)):
        raise argparse.ArgumentTypeError(f"expected auto, cpu, cuda, cuda:1 and so on, or ptxsim, got {text!r}")
    return text


def device_name(text: str) -> str:
    """Return a device's name, or "reference" for the evaluator."""
    return text if text == "reference" else device(text)


def read_array(path: str, dtype: DType | None = None) -> Array:
    """Read the array in an .npy file. ml_dtypes arrays are raw bytes there, and get their dtype back."""
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise UserError(f"{path} is not an .npy file of numbers: {error}") from error
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path} holds several arrays; fix: one .npy file per input")
    if dtype is not None and array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype.numpy)
    return array
