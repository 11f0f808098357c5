"""What a feature is: a function that launches kernels, and fails where joinery does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import triton

MODES = ("native", "interpret", "sanitize", "ptxsim")
VERSION = re.match(r"\d+\.\d+\.\d+", triton.__version__)[0]


class Absent(Exception):
    """This version of Triton does not have what a feature is about."""


@dataclass(frozen=True)
class Feature:
    """modes: those in which it runs, one after the other. The function may return how this version differs from the newest."""

    name: str
    modes: tuple[str, ...]
    run: Callable[[], str | None]


FEATURES: list[Feature] = []


def feature(name: str, modes: tuple[str, ...] = ("native",)) -> Callable[[Callable[[], str | None]], Callable[[], str | None]]:
    """Note a function as a feature."""

    def note(function: Callable[[], str | None]) -> Callable[[], str | None]:
        FEATURES.append(Feature(name, modes, function))
        return function

    return note


def needs(owner: object, name: str, called: str) -> object:
    """An attribute of Triton's. Raises `Absent` where there is none; called: as the reader knows it."""
    if not hasattr(owner, name):
        raise Absent(f"no `{called}`")
    return getattr(owner, name)
