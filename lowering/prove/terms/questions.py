"""Speaks with z3: formulas are texts in SMT-LIB, read once each, and questions are lists of them.

z3 comes with the extra `joinery-graph[prove]`, and loads when the first question is asked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ....promotion.errors import UnsupportedError
from .polynomials import Monomial

_VALUES = re.compile(r"\(define-fun v([\d_]+) \(\) Int\s+(?:(\d+)|\(- (\d+)\))\)")
_STEPS = re.compile(r":rlimit-count +(\d+)")
_VERDICTS = {1: "sat", -1: "unsat", 0: "unknown"}


def load_z3() -> Any:
    """Imports z3. Raises `UnsupportedError` that names the extra where it is missing."""
    try:
        import z3
    except ImportError as error:
        raise UnsupportedError("proofs need z3; fix: pip install 'joinery-graph[prove]'") from error
    return z3


class Context:
    """A context of z3, with the formulas that it has read."""

    def __init__(self) -> None:
        """Starts with nothing read."""
        self.z3 = load_z3()
        self._core = self.z3.z3core
        self.context = self.z3.Context()
        self.ref = self.context.ref()
        self._parser = self._core.Z3_mk_parser_context(self.ref)
        self._core.Z3_parser_context_inc_ref(self.ref, self._parser)
        self._declared: set[Monomial | int] = set()
        self._lines: list[str] = []
        self._read: dict[str, Any] = {}
        self._vectors: list[Any] = []
        self.steps = 0

    def __del__(self) -> None:
        """Gives formulas back before the context goes."""
        if self._vectors is None:
            return
        for vector in self._vectors:
            self._core.Z3_ast_vector_dec_ref(self.ref, vector)
        self._core.Z3_parser_context_dec_ref(self.ref, self._parser)

    def declare(self, variables: Iterable[Monomial], flags: Iterable[int]) -> None:
        """Says which variables and flags formulas may have."""
        for each in variables:
            if each not in self._declared:
                self._declared.add(each)
                self._lines.append(f"(declare-const {name(each)} Int)")
        for flag in flags:
            if flag not in self._declared:
                self._declared.add(flag)
                self._lines.append(f"(declare-const b{flag} Bool)")

    def question(self, limit: int) -> Question:
        """Returns a question that may take so many steps."""
        return Question(self, limit)

    def read(self, texts: Sequence[str]) -> list[Any]:
        """Returns formulas as z3 has them."""
        core = self._core
        new = [text for text in dict.fromkeys(texts) if text not in self._read]
        if new:
            text = "\n".join([*self._lines, *[f"(assert {each})" for each in new]])
            self._lines.clear()
            vector = core.Z3_parser_context_from_string(self.ref, self._parser, text)
            core.Z3_ast_vector_inc_ref(self.ref, vector)
            self._vectors.append(vector)
            assert core.Z3_ast_vector_size(self.ref, vector) == len(new)
            for at, each in enumerate(new):
                self._read[each] = core.Z3_ast_vector_get(self.ref, vector, at)
        return [self._read[each] for each in texts]


class Question:
    """Formulas of which it is asked whether they can hold together, once and again with more of them.

    Attributes:
        letters: of all formulas, steps: that z3 took, and rounds: how often it was asked.
    """

    def __init__(self, context: Context, limit: int) -> None:
        """Starts without formulas. limit: the most steps."""
        self._context = context
        self._limit = limit
        self._solver = context.z3.SimpleSolver(ctx=context.context)  # the tactics of others look at the clock
        self._solver.set("random_seed", 0)
        self._solver.set("ctrl_c", False)  # z3's own handler leaves SIGINT such that it interrupts no wait of this process any more
        self.letters = 0
        self.rounds = 0
        self.steps = 0

    def ask(self, texts: Sequence[str]) -> str:
        """Returns "sat", "unsat" or "unknown" for all formulas, with more of them."""
        context, core = self._context, self._context._core
        left = self._limit - self.steps
        if left <= 0:
            return "unknown"
        texts = [each for each in texts if each != "true"]
        ref, own = context.ref, self._solver.solver
        for each in context.read(texts):
            core.Z3_solver_assert(ref, own, each)
        self.letters += sum(map(len, texts))
        self.rounds += 1
        self._solver.set("rlimit", left)
        found = str(self._solver.check())
        steps = _STEPS.search(repr(self._solver.statistics()))
        before, context.steps = context.steps, int(steps.group(1)) if steps else 0
        self.steps += context.steps - before
        return found

    def values(self) -> dict[Monomial, int]:
        """Returns the variables with which the formulas hold."""
        return {
            tuple(map(int, name.split("_"))): int(plus) if plus else -int(minus)
            for name, plus, minus in _VALUES.findall(self._solver.model().sexpr())
        }


@functools.lru_cache(maxsize=1 << 14)
def name(monomial: Monomial) -> str:
    """Returns the name of a variable."""
    return "v" + "_".join(map(str, monomial))


__all__ = ["Context", "Question", "load_z3", "name"]
