"""Composes messages about a model: each names the file, the node and one fix."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...promotion.errors import JoineryError, UnsupportedError

_LONG = re.compile(r"\S{500,}")
"""Words that messages show the beginning of: names of sizes may be of any length."""


def sizes_fix(names: Iterable[str]) -> str:
    """Return how sizes are given."""
    names = list(names)
    shown = ", ".join(f"{name!r}: number" for name in names)
    options = " ".join(f"--size {name}=NUMBER" for name in names)
    return f"from_onnx(…, sizes={{{shown}}}) or {options}; compile_onnx takes sizes from each call"


def constants_fix(names: Iterable[str]) -> str:
    """Return how values of inputs are given."""
    names = list(names)
    shown = ", ".join(f"{name!r}: array" for name in names)
    options = " ".join(f"--constant {name}=FILE" for name in names)
    return f"from_onnx(…, constants={{{shown}}}) or {options}; compile_onnx takes values from each call"


class ValueNeededError(UnsupportedError):
    """A size, axis or count of the model depends on the values of inputs, which are not known while importing.

    Attributes:
        inputs: the names of these inputs of the graph. `from_onnx(…, constants={name: array})` makes them constants.
        sizes: the names of sizes that it depends on besides.
    """

    inputs: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()


class SizeNeededError(UnsupportedError):
    """What the model computes depends on sizes of inputs that must be numbers.

    Attributes:
        sizes: the names of these sizes, none if data decides them. `from_onnx(…, sizes={name: number})` fixes them.
        inputs: none; values decide nothing.
    """

    inputs: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()


class NoRegionError(UnsupportedError):
    """A subgraph cannot be a region, for instance because types change from one iteration to the next.

    Attributes:
        growing: names of states that grow from one iteration to the next, and were tried as states that nothing reads.
        needs_host: whether something inside runs on the host, wherever it stands.
    """

    growing: tuple[str, ...] = ()
    needs_host: bool = False


def located(error: JoineryError, where: str) -> JoineryError:
    """Return the error again with the node that it is about in front; an error that names one already stays as it is."""
    if hasattr(error, "onnx_node"):
        return error
    again = type(error)(_LONG.sub(lambda found: f"{found[0][:80]}…", f"{where}: {error}"))
    vars(again).update(vars(error))
    again.onnx_node = where  # type: ignore[attr-defined]
    return again
