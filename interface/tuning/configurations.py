"""Lists what a text may be compiled for: the Cartesian product of the lists in its macros, and numbers of warps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..texts import TritonCText, macro_body

MAX_CONFIGURATIONS = 4096
"""Most configurations of one text."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One choice from the lists of a text.

    Attributes:
        bodies: macro → its tokens, of those that are chosen.
        warps: how many warps run a program on a GPU.
        values: macro → what the caller gave for it; those that are not chosen too.
    """

    bodies: tuple[tuple[str, str], ...]
    warps: int
    values: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        macros = [f"{name}={body}" for name, body in self.bodies]
        return ", ".join([*macros, f"{self.warps} warp{'s' if self.warps != 1 else ''}"])

    @property
    def defines(self) -> dict[str, object]:
        """The macros as the caller gave them, each with one value."""
        return dict(self.values)

    def text(self, base: TritonCText) -> TritonCText:
        """Return the text with the chosen macros. What it warns of is told once, by the first configuration."""
        defines = (*base.defines, *self.bodies)
        return TritonCText(
            base.text, base.source, defines, base.name, base.include, base.single_precision_constants, is_known=True
        )


def is_list(value: object) -> bool:
    """Return whether a macro has several values to choose from."""
    return isinstance(value, list | tuple | np.ndarray)


def configurations_of(
    defines: Mapping[str, object],
    warps: int | Sequence[int],
    listed: Sequence[tuple[Mapping[str, object], object]] | None,
) -> tuple[Configuration, ...]:
    """Return all configurations: the product of the lists and of `warps`, or those that are listed.

    Raises `UserError` for empty lists, values that no macro can have, and too many configurations.
    """
    fixed = {name: value for name, value in defines.items() if not is_list(value)}
    axes = {name: list(value) for name, value in defines.items() if is_list(value)}  # type: ignore[call-overload]
    if listed is not None:
        if axes:
            raise UserError(f"tune: configurations are listed, and {', '.join(axes)} have lists too; fix: one of both")
        return tuple(_configuration({**fixed, **chosen}, chosen, count) for chosen, count in listed)
    counts = list(warps) if isinstance(warps, Sequence | np.ndarray) else [warps]
    empty = [name for name, values in {**axes, "warps": counts}.items() if not values]
    if empty:
        raise UserError(f"tune: {empty[0]} is an empty list; fix: at least one value")
    total = math.prod([len(counts), *map(len, axes.values())])
    if total > MAX_CONFIGURATIONS:
        raise UserError(f"tune: {total} configurations; at most {MAX_CONFIGURATIONS} are tried; fix: shorter lists")
    found = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        found += [_configuration({**fixed, **chosen}, chosen, count) for count in counts]
    return tuple(dict.fromkeys(found))


def pairs_of(configurations: object) -> list[tuple[Mapping[str, object], object]]:
    """Return the pairs of macros and a number of warps that a caller lists. Raises `UserError` for what is none."""
    if not isinstance(configurations, Iterable):
        what = type(configurations).__name__
        raise UserError(f"tune: configurations is a {what}; fix: a list of pairs of macros and a number of warps")
    pairs = [_pair(each) for each in configurations]
    if not pairs:
        raise UserError("tune: configurations is empty; fix: pairs of macros and a number of warps")
    return pairs


def _pair(value: object) -> tuple[Mapping[str, object], object]:
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], Mapping):
        return value[0], value[1]
    raise UserError(f"tune: configurations has {value!r}, expected a pair of macros and a number of warps, ({{'TM': 64}}, 4)")


def _configuration(values: Mapping[str, object], chosen: Mapping[str, object], warps: object) -> Configuration:
    if isinstance(warps, bool) or not isinstance(warps, int | np.integer):
        raise UserError(f"tune: {warps!r} warps; expected a power of two up to 32")
    if not 1 <= warps <= 32 or warps & (warps - 1):
        raise UserError(f"tune: {warps} warps; expected a power of two up to 32")
    bodies = [(name, body) for name, value in chosen.items() if (body := macro_body(name, value, "tune")) is not None]
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    return Configuration(tuple(bodies), int(warps), tuple(plain.items()))


__all__ = ["Configuration", "configurations_of", "is_list", "pairs_of"]
