"""Makes arrays of rows of different lengths: which rows a call takes, how wide they are, and whether they may be padded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....graph.dims.dim import Dim
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from ....runtime.model.inputs import InputSpec
from ..independence import Mixture
from ..signatures import Signature
from .sources import Ragged


@dataclass(frozen=True, slots=True)
class Lists:
    """An input whose rows have different lengths.

    Attributes:
        name: the input.
        extent: what the graph calls their length; rows of inputs with the same one have to be of equal lengths.
        mixes: the operation that would take zeros behind a row for values, and why; "" where none does, or a mask says which
            are.
    """

    name: str
    extent: str
    mixes: str = ""


def lists_of(model: Signature, specs: Sequence[InputSpec], masks: Sequence[tuple[str, str]]) -> tuple[Lists, ...]:
    """Return what is known of the inputs, of two axes, whose rows have different lengths.

    masks: (mask, input): inputs that say where others have values.
    """
    by_name = {spec.name: spec for spec in specs}
    masked = {str(by_name[of].shape[1]) for _, of in masks}
    return tuple([
        Lists(spec.name, str(spec.shape[1]), "" if str(spec.shape[1]) in masked else _mixes(model, spec.shape[1]))
        for spec in specs
    ])  # fmt: skip


def _mixes(model: Signature, extent: object) -> str:
    """Return what takes several elements of a dim at once, or may do so."""
    names = sorted(extent.symbols()) if isinstance(extent, Dim) else []
    return next((str(found) for name in names if isinstance(found := model.independence(name), Mixture)), "")


def calls_of(columns: Mapping[str, Array | Ragged], count: int, batch: int, width: int | None) -> Iterator[Array]:
    """Yield the rows of each call: neighbours, or rows of about equal length where lengths differ.

    This depends on the block alone, so that whoever computes it pads alike.
    """
    lengths = [column.lengths for column in columns.values() if isinstance(column, Ragged)]
    order = np.argsort(np.maximum.reduce(lengths), kind="stable") if lengths and width is None else np.arange(count)
    for at in range(0, count, batch):
        yield order[at : at + batch]


def padded_inputs(
    columns: Mapping[str, Array | Ragged], rows: Array, width: int | None, masks: Sequence[tuple[str, str, np.dtype[Any]]],
    lists: Sequence[Lists],
) -> dict[str, Array]:
    """Return the inputs of one call, padded, with masks: (mask, input, dtype).

    Rows have at most `width` elements, where that is given.
    """
    widths = _widths(lists, columns, rows, width)
    inputs: dict[str, Array] = {}
    for name, column in columns.items():
        inputs[name] = column.padded(rows, widths[name]) if isinstance(column, Ragged) else column[rows]
    for mask, of, dtype in masks:
        inputs[mask] = (np.arange(widths[of]) < _lengths(columns, of)[rows][:, None]).astype(dtype)
    return inputs


def _lengths(columns: Mapping[str, Array | Ragged], name: str) -> Array:
    column = columns[name]
    assert isinstance(column, Ragged)
    return column.lengths


def _widths(
    lists: Sequence[Lists], columns: Mapping[str, Array | Ragged], rows: Array, width: int | None
) -> dict[str, int]:
    """Return how many elements the rows of each input have once they are padded: those of inputs with one dim as many."""
    if width is not None:
        return {each.name: width for each in lists}
    longest: dict[str, int] = {}
    for each in lists:
        most = int(_lengths(columns, each.name)[rows].max(initial=0))
        longest[each.extent] = max(longest.get(each.extent, 1), most)
    return {each.name: longest[each.extent] for each in lists}


def require_lengths(
    lists: Sequence[Lists], columns: Mapping[str, Array | Ragged], start: int, batch: int, width: int | None
) -> None:
    """Raise `UserError`, with its number, for a row of a block that cannot be padded.

    That is one whose lengths disagree among inputs with one dim, one that is longer than `width`, and one behind which the
    model would take zeros for values.

    start: the number of the block's first row.
    """
    first: dict[str, Lists] = {}
    for each in lists:
        lengths, other = _lengths(columns, each.name), first.setdefault(each.extent, each)
        of_other = _lengths(columns, other.name)
        if len(wrong := np.flatnonzero(lengths != of_other)):
            row = wrong[0]
            raise UserError(
                f"row {start + row} has {of_other[row]} elements in input {other.name!r}, {lengths[row]} in input "
                f"{each.name!r}, and both are {each.extent!r} in the model; fix: rows of equal lengths, or another name for "
                "one of the sizes in the graph"
            )
        if width is not None and len(wrong := np.flatnonzero(lengths > width)):
            raise UserError(
                f"input {each.name!r}: row {start + wrong[0]} has {lengths[wrong[0]]} elements, more than --pad-to {width}; "
                "fix: a larger one, or shorter rows"
            )
    mixing = [each for each in lists if each.mixes]
    if not mixing:
        return
    for rows in calls_of(columns, len(_lengths(columns, mixing[0].name)), batch, width):
        widths = _widths(lists, columns, rows, width)
        for each in mixing:
            lengths, wide = _lengths(columns, each.name)[rows], widths[each.name]
            if len(short := np.flatnonzero(lengths < wide)):
                at = short[0]
                way = "--batch 1 without --pad-to, which pads nothing" if lengths[at] else "leave out rows without elements"
                raise UserError(
                    f"input {each.name!r}: row {start + rows[at]} has {lengths[at]} elements and would be padded with zeros to "
                    f"{wide}, which the model takes for values: {each.mixes}; fix: --mask NAME={each.name} with the input of "
                    f"the model that says where values are, or {way}"
                )
