"""Finds the sizes that assumptions leave one value, by looking for a second one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..terms.formulas import Formula, either, equal, negated
from ..terms.polynomials import Polynomial, variable
from ..terms.solver import Budget, Solver
from .expressions import Expression, evaluate

Sizes = Mapping[str, int]
_OTHERS = (3 << 12, 1 << 10, 64, 16, 7, 2)
"""What all sizes are at once in the launch that is tried first: most specifications allow one of these."""
_LIMIT = 200_000
_TOTAL = 2_000_000
"""Steps of one question, and of all: some tenths of a second where the solver knows nothing, and mostly one short question."""
_ROUNDS = 6
_MAX_ALONE = 12
"""Sizes that are asked about one by one, where nothing is known of all together."""


class SingleValues:
    """Looks for second values of sizes under the assumptions of a specification."""

    def __init__(
        self, solver: Solver, base: Sequence[Formula], symbols: Mapping[str, Polynomial], holds: Callable[[Sizes], bool],
        example: Sizes,
    ) -> None:  # fmt: skip
        """Starts with nothing asked.

        Args:
            base: what is assumed, as formulas.
            symbols: the sizes by name.
            holds: whether sizes satisfy the assumptions.
            example: sizes that do.
        """
        self._solver = solver
        self._base = base
        self._symbols = symbols
        self._holds = holds
        self._example = example

    def of(self, sizes: Mapping[Expression, Polynomial]) -> dict[Expression, int]:
        """Returns those sizes that are one number in every launch, with that. What the solver does not know is none of them."""
        before = self._solver.budget
        self._solver.budget = Budget(min(_LIMIT, before.limit), _TOTAL)  # of their own, so that verdicts take nothing from it
        try:
            return self._of(sizes)
        finally:
            self._solver.budget = before

    def _of(self, sizes: Mapping[Expression, Polynomial]) -> dict[Expression, int]:
        single = {size: number for size, term in sizes.items() if (number := term.number) is not None}
        left = {size: evaluate(size, self._example) for size in sizes if size not in single}
        other = self._of_one_number() if left else None
        for _ in range(_ROUNDS):
            if other is not None:
                left = {size: number for size, number in left.items() if evaluate(size, other) == number}
            if not left:
                return single
            answer = self._solver.exact([*self._base, either(*[_is_other(sizes[size], left[size]) for size in left])])
            if answer.verdict == "unsat":
                return single | left
            other = self._named(answer.model) if answer.verdict == "sat" else None
            if other is None or not self._holds(other):
                break
        for size in list(left)[:_MAX_ALONE]:
            if self._solver.is_impossible(*self._base, _is_other(sizes[size], left[size])):
                single[size] = left[size]
        return single

    def _of_one_number(self) -> Sizes | None:
        """Returns sizes that satisfy the assumptions and are all one number, but for those that follow from others."""
        atoms = {atom for symbol in self._symbols.values() for atom in symbol.atoms}
        for number in _OTHERS:
            sizes = {name: symbol.value(dict.fromkeys(atoms, number)) for name, symbol in self._symbols.items()}
            if self._holds(sizes):
                same = [equal(symbol, sizes[name]) for name, symbol in self._symbols.items()]
                if self._solver.exact([*self._base, *same]).verdict == "sat":
                    return sizes
        return None

    def _named(self, model: Mapping[int, int]) -> Sizes:
        """Returns the sizes of a model. What it does not have is as in the example: the question says nothing of that."""
        given = dict(model)
        for name, symbol in self._symbols.items():
            for atom in symbol.atoms if len(symbol.atoms) == 1 else ():
                if symbol == variable(atom):
                    given.setdefault(atom, self._example[name])
        return {
            name: symbol.value(given) if symbol.atoms <= given.keys() else self._example[name]
            for name, symbol in self._symbols.items()
        }  # fmt: skip


def _is_other(size: Polynomial, number: int) -> Formula:
    return negated(equal(size, number))


__all__ = ["SingleValues"]
