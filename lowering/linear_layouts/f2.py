"""Linear algebra over F2 on Python integers: a vector is an integer, its coordinates are the bits.

Columns are given as sequences of vectors; a *combination* is an integer whose bit i says whether column i takes part.
The order of the columns is the policy: earlier columns become pivots, later ones that depend on them are left out of every
solution.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...promotion.errors import InternalError


class Span:
    """The span of the vectors added so far, in echelon form, with the combination of columns that made each row."""

    __slots__ = ("_rows", "columns", "free")

    def __init__(self, columns: Iterable[int] = ()) -> None:
        self._rows: dict[int, tuple[int, int]] = {}  # leading bit → (vector, combination)
        self.columns = 0
        self.free: list[tuple[int, int]] = []
        """Dependent columns, as (index, combination that gives zero and holds this dependent column and no other)."""
        for column in columns:
            self.add(column)

    def reduce(self, vector: int) -> tuple[int, int]:
        """Returns what remains of the vector, and the combination of columns that was taken off."""
        combination = 0
        rest, low = vector, 0
        while rest:
            row = self._rows.get(rest.bit_length() - 1)
            if row is None:  # this bit stays; go on below it, so that the remainder is unique
                bit = 1 << (rest.bit_length() - 1)
                rest, low = rest ^ bit, low | bit
                continue
            rest, combination = rest ^ row[0], combination ^ row[1]
        return low, combination

    def add(self, vector: int) -> bool:
        """Adds a column; returns False when it depends on the earlier ones."""
        index, self.columns = self.columns, self.columns + 1
        rest, combination = self.reduce(vector)
        combination ^= 1 << index
        if rest:
            self._rows[rest.bit_length() - 1] = (rest, combination)
            return True
        self.free.append((index, combination))
        return False

    def solve(self, vector: int) -> int | None:
        """Returns the combination of independent columns that gives the vector, or None."""
        rest, combination = self.reduce(vector)
        return None if rest else combination

    def coordinates(self, vector: int) -> int:
        """Returns the combination of independent columns that gives a vector of the span; InternalError for any other."""
        found = self.solve(vector)
        if found is None:
            raise InternalError(f"{vector:#b} is no combination of {[bin(row) for row in self.rows]}")
        return found

    def __contains__(self, vector: int) -> bool:
        return self.reduce(vector)[0] == 0

    @property
    def rank(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> list[int]:
        """The echelon rows, lowest leading bit first."""
        return [self._rows[bit][0] for bit in sorted(self._rows)]

    @property
    def kernel(self) -> list[int]:
        """A basis of the combinations that are zero."""
        return [combination for _, combination in self.free]


def combine(columns: Sequence[int], combination: int) -> int:
    """Returns the XOR of the columns whose bits are set: a matrix times a vector."""
    result = 0
    while combination:
        low = combination & -combination
        result ^= columns[low.bit_length() - 1]
        combination ^= low
    return result


def solve(columns: Iterable[int], vector: int) -> int | None:
    """Returns a combination of the columns that gives the vector, without dependent columns; None when there is none."""
    return Span(columns).solve(vector)


def rank(columns: Iterable[int]) -> int:
    return Span(columns).rank


def kernel(columns: Iterable[int]) -> list[int]:
    """Returns a basis of the combinations of columns that are zero."""
    return Span(columns).kernel


def extend(base: Iterable[int], candidates: Iterable[int]) -> list[int]:
    """Returns the candidates that are independent of the base and of each other, in order."""
    span = Span(base)
    return [candidate for candidate in candidates if span.add(candidate)]


def complement(base: Iterable[int], bits: int) -> list[int]:
    """Returns unit vectors that complete the base to the space of `bits` coordinates."""
    return extend(base, units(bits))


def units(bits: int) -> list[int]:
    return [1 << bit for bit in range(bits)]


def intersect(first: Iterable[int], second: Iterable[int]) -> list[int]:
    """Returns a basis of the vectors that lie in both spans."""
    left = list(first)
    low = (1 << len(left)) - 1
    return extend((), [combine(left, each & low) for each in kernel([*left, *second])])


def parity(vector: int) -> int:
    return vector.bit_count() & 1


def dual(vectors: Sequence[int], bits: int) -> list[int]:
    """Returns masks g with parity(g[i] & vectors[j]) = (i == j); the vectors must be independent, else ValueError."""
    columns = [sum(((vector >> bit) & 1) << row for row, vector in enumerate(vectors)) for bit in range(bits)]
    span = Span(columns)
    found = [span.solve(1 << row) for row in range(len(vectors))]
    if any(each is None for each in found):
        raise ValueError("a dual basis needs independent vectors")
    return [each for each in found if each is not None]


def log2(size: int) -> int:
    """Returns the exponent of a power of two; ValueError for any other number."""
    if size < 1 or size & (size - 1):
        raise ValueError(f"{size} is not a power of two")
    return size.bit_length() - 1
