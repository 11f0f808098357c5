"""Lets nests that differ only in where their accesses start share a program, which takes the offsets as
arguments.

Unrolled recurrences and slices taken one by one make many such nests. Only offsets that differ become arguments: a nest that is
alone of its kind keeps its constants. What is known of an offset stays known: programs are shared among offsets that are
multiples of the same power of two, and, where there is a product, not between zero and others (only an access that starts where
its buffer starts can go through a descriptor or be stored in panels).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from ...graph.dims.dim import Dim, dim
from ...promotion.dataclass import dataclass
from ..nest import Affine, Extent, Nest
from .signature import signature
from .structure import runtime_extents

ALIGNMENT = 16
"""Largest divisor of offsets that is told apart, in elements; larger powers of two help no access."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A nest whose offsets are partly arguments.

    values: the offset of this nest for each of those arguments.
    multiples: a power of two that divides the argument in all nests that share.
    """

    nest: Nest
    values: Mapping[Extent, int]
    multiples: Mapping[Extent, int]


def share_offsets(nests: Sequence[Nest], others: Sequence[Hashable]) -> list[Shared]:
    """Returns the nests in a form in which those that can share a program are equal but for `values`.
    `others[i]`: what else a program of nest i depends on."""
    classes: dict[Hashable, list[int]] = {}
    offsets = [_offsets(nest) for nest in nests]
    for number, (nest, other) in enumerate(zip(nests, others, strict=True)):
        classes.setdefault((other, *_kind(nest, offsets[number])), []).append(number)
    result = [Shared(nest, {}, {}) for nest in nests]
    for members in classes.values():
        columns = list(zip(*[offsets[number] for number in members], strict=True))
        varying = [column for column in dict.fromkeys(columns) if len(set(column)) > 1]
        if not varying:
            continue
        names = _names(nests[members[0]], len(varying))
        name_of = {column: names[position] for position, column in enumerate(varying)}
        multiples: dict[Extent, int] = {names[p]: _multiple(column[0]) for p, column in enumerate(varying)}
        for row, number in enumerate(members):
            values: dict[Extent, int] = {name: column[row] for column, name in name_of.items() if column[row] is not None}
            result[number] = Shared(_moved(nests[number], [name_of.get(column) for column in columns]), values, multiples)
    return result


def _offsets(nest: Nest) -> list[int | None]:
    """Returns the offset of every access and index, in order; None for one that is known only at launch."""
    accesses = [value.attrs["at"] for value in nest.body if "at" in value.attrs] + [store.at for store in nest.stores]
    return [at.offset if isinstance(at.offset, int) else None for at in accesses]


def _kind(nest: Nest, offsets: Sequence[int | None]) -> tuple[Hashable, ...]:
    """Returns a key that is equal for nests that can share a program."""
    product = any(value.op == "contract" for value in nest.body)
    known = [None if offset is None else (_multiple(offset), product and offset == 0) for offset in offsets]
    return signature(_moved(nest, [None if offset is None else 0 for offset in offsets])), tuple(known)


def _multiple(offset: int | None) -> int:
    return math.gcd(offset or 0, ALIGNMENT)


def _moved(nest: Nest, offsets: Sequence[Extent | None]) -> Nest:
    """Returns the nest with other offsets, where they are not None."""
    left = iter(offsets)

    def move(at: Affine) -> Affine:
        offset = next(left)
        return at if offset is None else replace(at, offset=offset)

    body = tuple(
        [replace(v, attrs={**v.attrs, "at": move(v.attrs["at"])}) if "at" in v.attrs else v for v in nest.body]
    )
    return replace(nest, body=body, stores=tuple([replace(store, at=move(store.at)) for store in nest.stores]))


def _names(nest: Nest, wanted: int) -> list[Dim]:
    """Returns `wanted` dims whose names do not occur in the nest."""
    known = {name for extent in runtime_extents(nest) if isinstance(extent, Dim) for name in extent.symbols()}
    fresh: Callable[[], str] = (f"offset.{number}" for number in count() if f"offset.{number}" not in known).__next__
    found = []
    for _ in range(wanted):
        name = dim(fresh())
        assert isinstance(name, Dim)
        found.append(name)
    return found
