"""The precision in which products of float32 blocks are computed where the program does not say it."""

from __future__ import annotations

import os

_VARIABLE = "TRITON_F32_DEFAULT"
_set: list[str] = []


def prefer_float32() -> None:
    """Let `tl.dot` of float32 compute in float32 unless the program or the user asks for something else.

    Triton takes tf32, which GPUs are fast at; processors have nothing to gain from it, and references are in float32.
    """
    if _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = "ieee"
        _set.append("ieee")


def forget_preference() -> None:
    """Undo `prefer_float32`."""
    if _set and os.environ.get(_VARIABLE) == _set.pop():
        del os.environ[_VARIABLE]


def default_precision() -> str:
    """What products of float32 that say nothing are computed in."""
    return os.environ.get(_VARIABLE, "")
