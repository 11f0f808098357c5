"""Composes messages about a model: each names the file, the node and one fix."""

from __future__ import annotations

from ...promotion.errors import JoineryError, UnsupportedError


class ValueNeededError(UnsupportedError):
    """A size, axis or count of the model depends on the values of inputs, which are not known while importing.

    Attributes:
        inputs: the names of these inputs of the graph. `from_onnx(…, constants={name: array})` makes them constants.
    """

    inputs: tuple[str, ...] = ()


class SizeNeededError(UnsupportedError):
    """What the model computes depends on sizes of inputs that must be numbers.

    Attributes:
        sizes: the names of these sizes, none if data decides them. `from_onnx(…, sizes={name: number})` fixes them.
    """

    sizes: tuple[str, ...] = ()


def located(error: JoineryError, where: str) -> JoineryError:
    """Return the error again with the node that it is about in front; an error that names one already stays as it is."""
    if hasattr(error, "onnx_node"):
        return error
    again = type(error)(f"{where}: {error}")
    vars(again).update(vars(error))
    again.onnx_node = where  # type: ignore[attr-defined]
    return again
