"""Lists expressions that have a given value in one launch: what an extent, an axis of a grid or an assumption may be."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from math import prod

from .expressions import names_in, parse_size

_MAX_NAMES = 16
_MAX_REST = 64
_MAX_BLOCKS = 8
_MAX_MARK = 16
_MAX_RANGES = 3
_MAX_FACTOR = 16
"""The largest number that a size is multiplied by where that leaves elements of an array."""
_MAX_PRODUCTS = 12


def extents(
    value: int, numbers: Mapping[str, int], is_indexed: bool = False, programs: Set[str] = frozenset()
) -> list[str]:  # fmt: skip
    """Returns sizes of which an array of `value` elements may be, the likeliest first, and last the number itself.

    Buffers are often a little longer than what is used of them, so sizes that leave a few elements count, too.

    is_indexed: whether indices are loaded, which reach as far as the array does: a number of times a size leaves nothing then,
        and neither do sizes with `programs`, names of numbers of programs, which say nothing of where indices lead, and are
        not multiplied by a number.
    """
    names = [name for name, number in list(numbers.items())[:_MAX_NAMES] if number > 0]
    found: list[tuple[bool, bool, int, int, str]] = []

    def add(size: int, length: int, text: str) -> None:
        if 0 <= value - size <= (_MAX_REST if size > _MAX_REST else 0):
            found.append((length > 6, value != size, length, value - size, text))

    for one in names:
        a = numbers[one]
        add(a, 1, one)
        if value > a > 1:
            factor = value // a
            if factor > 1 and (value % a == 0 or factor & (factor - 1) == 0):
                add(factor * a, 8 if factor & (factor - 1) else 5, f"{factor} * {one}")
            elif 1 < factor <= _MAX_FACTOR and not is_indexed:
                add(factor * a, 9, f"{factor} * {one}")
        for two in names:
            b = numbers[two]
            if one <= two:
                add(a * b, 2, f"{one} * {two}")
                factor = value // (a * b)
                if a * b > 1 and factor > 1 and (value % (a * b) == 0 or factor & (factor - 1) == 0):
                    add(factor * a * b, 9 if factor & (factor - 1) else 6, f"{factor} * {one} * {two}")
            if one != two:
                factor = (value - b) // a
                if b > 1 and factor > 1 and factor & (factor - 1) == 0 and value == factor * a + b:
                    add(value, 10, f"{factor} * {one} + {two}")
                rest = value - (a - 1) * b
                if 0 < rest < b:
                    add(value, 7, f"({one} - 1) * {two} + {rest}")
            for three in names:
                c = numbers[three]
                if one <= two <= three:
                    add(a * b * c, 4, f"{one} * {two} * {three}")
                    factor = value // (a * b * c)
                    if a * b * c > 1 and factor > 1 and factor & (factor - 1) == 0:
                        add(factor * a * b * c, 6, f"{factor} * {one} * {two} * {three}")
                if len({one, two, three}) == 3 and b >= c:
                    add((a - 1) * b + c, 3, f"({one} - 1) * {two} + {three}")
        add(a + 1, 6, f"{one} + 1")
    if is_indexed:
        found = [
            each for each in found
            if not (each[1] or each[-1][0].isdigit()) or programs.isdisjoint(names_in(parse_size(each[-1], "extent")))
        ]  # fmt: skip
    return list(dict.fromkeys([*[text for *_, text in sorted(found)], str(value)]))


def shorter(value: int, numbers: Mapping[str, int]) -> list[str]:
    """Returns products of sizes that an array of `value` elements has, however many it has besides, the longest first.

    An extent is the least that an array has: buffers may be made for other launches, or for whole blocks.
    """
    names = [name for name, number in list(numbers.items())[:_MAX_NAMES] if number > 0]
    found = {
        " * ".join(each): prod([numbers[name] for name in each])
        for count in (1, 2, 3) for each in itertools.combinations(names, count)
    }  # fmt: skip
    fitting = [(size, text) for text, size in found.items() if 1 < size < value]
    return [text for _, text in sorted(fitting, key=lambda each: -each[0])]


def grids(value: int, numbers: Mapping[str, int], blocks: Iterable[int], symbol: str) -> list[str]:
    """Returns numbers of programs that are `value`, the likeliest first; `symbol` stands for any number."""
    names = [name for name, number in list(numbers.items())[:_MAX_NAMES] if number > 0]
    blocks = sorted(set(blocks), reverse=True)
    found = [f"cdiv({name}, {block})" for block in blocks for name in names
             if block > 1 and -(-numbers[name] // block) == value]  # fmt: skip
    exact = [name for name in names if numbers[name] == value]
    products = [f"{one} * {two}" for one, two in _pairs(names) if numbers[one] * numbers[two] == value]
    tiles = [
        f"cdiv({one}, {block}) * cdiv({two}, {other})" for one, two in _pairs(names) for block in blocks for other in blocks
        if one != two and block > 1 and other > 1 and -(-numbers[one] // block) * -(-numbers[two] // other) == value
    ]  # fmt: skip
    rows = [
        f"{one} * cdiv({two}, {block})" for one in names for two in names for block in blocks
        if one != two and block > 1 and numbers[one] * -(-numbers[two] // block) == value
    ]  # fmt: skip
    first = [str(value)] if value == 1 else []
    ranked = [*exact, *found, *products, *rows[:3], *tiles[:3]] if value > 1 else [*found[:3], *exact[:1]]
    return list(dict.fromkeys([*ranked, symbol, *first, str(value)]))


def assumptions(
    numbers: Mapping[str, int], blocks: Iterable[int], products: Collection[frozenset[str]] = ()
) -> list[str]:
    """Returns comparisons that hold for these numbers, the strongest first. products: if any, the pairs that are multiplied."""
    names = list(numbers)[:_MAX_NAMES]
    sizes = sorted({block for block in blocks if block > 1})[-_MAX_BLOCKS:]
    found = [f"{name} == {numbers[name]}" for name in names]
    found += [f"{one} == {two}" for one, two in _pairs(names) if one != two and numbers[one] == numbers[two] > 1]
    for name in names:
        found += [f"{name} % {block} == 0" for block in reversed(sizes) if numbers[name] > 0 and numbers[name] % block == 0][:3]
    for one in names:
        above = [
            (numbers[one] - numbers[two] * numbers[three], f"{one} >= {two} * {three}") for two, three in _pairs(names)
            if one not in (two, three) and numbers[two] > 1 < numbers[three] and numbers[one] >= numbers[two] * numbers[three]
            and (not products or frozenset((two, three)) in products)
        ]  # fmt: skip
        found += [text for _, text in sorted(above, key=lambda each: each[0])[:_MAX_PRODUCTS]]  # the tightest first
    for name in names:
        found += [f"{name} <= {block}" for block in sizes if 0 <= numbers[name] <= block][:3]
        found += [f"{name} >= {block}" for block in reversed(sizes) if numbers[name] >= block][:3]
    for one in names:
        found += [f"{one} >= {two}" for two in names if one != two and numbers[one] >= numbers[two] >= 1]
    return found


def is_usual(text: str) -> bool:
    """Returns whether kernels are often written for what an assumption says: a stride of 1, sizes that are at least others."""
    return ">=" in text or text.endswith("== 1")


def signs(numbers: Mapping[str, int]) -> list[str]:
    """Returns that numbers that are not negative in the launch never are."""
    return [f"{name} >= {1 if number > 0 else 0}" for name, number in numbers.items() if number >= 0]


def contents(
    name: str, low: int, high: int, numbers: Mapping[str, int], limits: Sequence[int], blocks: Iterable[int]
) -> list[str]:
    """Returns ranges of the elements of an array, which were low … high in the launch.

    limits: what an index may be below. blocks: extents, of which one or two may follow an element that is a first index.
    """
    if low < -_MAX_MARK:
        return []
    low = min(low, 0)  # -1 and the like often stand for no element
    above = sorted((number, size) for size, number in numbers.items() if number > high)
    found = [f"{low} <= {name}[:] < {size}" for _, size in above]
    found += [f"{low} <= {name}[:] <= {size}" for size, number in numbers.items() if number == high and number > 0]
    found = [*[f"{low} <= {name}[:] < {limit}" for limit in limits if limit > high], *found]
    sums = sorted({each * block for block in blocks for each in (1, 2) if block > 1})
    room = [f"{low} <= {name}[:] <= {size} - {each}" for number, size in above for each in sums if high <= number - each]
    return [*found[:_MAX_RANGES], *room[:_MAX_RANGES], *found[_MAX_RANGES:], f"{low} <= {name}[:] <= {high}"]


def _pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, one in enumerate(names):
        for two in names[at:]:
            yield one, two


__all__ = ["assumptions", "contents", "extents", "grids", "is_usual", "shorter", "signs"]
