"""Speaks with z3: formulas are texts in SMT-LIB, each of which it reads once, and questions are lists of them.

z3 comes with the extra `joinery-graph[prove]`, and loads when the first question is asked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ....promotion.errors import InternalError, UnsupportedError
from .polynomials import Monomial

_VALUES = re.compile(r"\(define-fun v([\d_]+) \(\) Int\s+(?:(\d+)|\(- (\d+)\))\)")
_FLAGS = re.compile(r"\(define-fun b(\d+) \(\) Bool\s+true\)")
_STEPS = re.compile(r":rlimit-count +(\d+)")


def load_z3() -> Any:
    """Imports z3. Raises `UnsupportedError` that names the extra where it is missing."""
    try:
        import z3
    except ImportError as error:
        raise UnsupportedError("proofs need z3; fix: pip install 'joinery-graph[prove]'") from error
    return z3


class Context:
    """A context of z3, with the formulas that it has read.

    Reading a text takes z3 as long as answering most questions, and questions of one proof have nearly all formulas in common.

    Attributes:
        steps: of z3's resource count, since the context was made.
    """

    def __init__(self) -> None:
        """Starts with nothing read."""
        self._z3 = load_z3()
        self._context = self._z3.Context()
        # z3's classes would look at each formula again, and give back what they hold when they are collected, which may be
        # after the context: what lives as long as that is of the C interface, and is freed with it.
        self._core = self._z3.z3core
        self._parser = self._core.Z3_mk_parser_context(self._context.ref())
        self._core.Z3_parser_context_inc_ref(self._context.ref(), self._parser)
        self._declared: set[str] = set()
        self._declarations: list[str] = []
        self._formulas: dict[str, Any] = {}
        self._literals: dict[str, str] = {}
        self.steps = 0

    def declare(self, variables: Iterable[Monomial], flags: Iterable[int] = ()) -> None:
        """Says which variables and flags formulas may have."""
        names = [*[(name(each), "Int") for each in variables], *[(f"b{flag}", "Bool") for flag in flags]]
        for own, sort in names:
            if own not in self._declared:
                self._declared.add(own)
                self._declarations.append(f"(declare-const {own} {sort})")

    def solver(self) -> Any:
        """Returns a solver without formulas."""
        made = self._z3.SimpleSolver(ctx=self._context)  # the tactics of others look at the clock
        made.set("random_seed", 0)
        made.set("ctrl_c", False)  # z3's own handler leaves SIGINT such that it interrupts no wait of this process any more
        return made

    def add(self, solver: Any, texts: Sequence[str], conditions: frozenset[str]) -> list[str]:
        """Adds formulas to a solver. Their variables were declared.

        Those that are conditions hold only where a variable of their own, a literal, does. Returns these.
        """
        literals = [self._literal(text) for text in texts if text in conditions]
        asserted = [f"(=> {self._literal(text)} {text})" if text in conditions else text for text in texts]
        self._read([text for text in dict.fromkeys([*asserted, *literals]) if text not in self._formulas])
        reference = self._context.ref()
        for each in asserted:
            self._core.Z3_solver_assert(reference, solver.solver, self._formulas[each])
        return literals

    def _literal(self, text: str) -> str:
        found = self._literals.get(text)
        if found is None:
            found = self._literals[text] = f"c{len(self._literals)}"
            self._declarations.append(f"(declare-const {found} Bool)")
        return found

    def check(self, solver: Any, literals: Sequence[str]) -> str:
        """Returns "sat", "unsat" or "unknown" for the formulas of a solver, where literals hold."""
        assumed = (self._z3.Ast * len(literals))(*[self._formulas[each] for each in literals])
        found = self._core.Z3_solver_check_assumptions(self._context.ref(), solver.solver, len(literals), assumed)
        return "sat" if found > 0 else "unsat" if found < 0 else "unknown"

    def needed(self, solver: Any) -> frozenset[str]:
        """Returns the conditions from which it follows, with all other formulas, that a solver's last answer is "unsat"."""
        core, reference = self._core, self._context.ref()
        vector = core.Z3_solver_get_unsat_core(reference, solver.solver)
        core.Z3_ast_vector_inc_ref(reference, vector)
        literals = {
            core.Z3_get_ast_id(reference, core.Z3_ast_vector_get(reference, vector, at))
            for at in range(core.Z3_ast_vector_size(reference, vector))
        }
        core.Z3_ast_vector_dec_ref(reference, vector)
        return frozenset([text for text, each in self._literals.items() if self._number(each) in literals])

    def _number(self, text: str) -> int | None:
        formula = self._formulas.get(text)
        return None if formula is None else self._core.Z3_get_ast_id(self._context.ref(), formula)

    def _read(self, texts: Sequence[str]) -> None:
        if not texts:
            return
        core, reference = self._core, self._context.ref()
        text = "\n".join([*self._declarations, *[f"(assert {each})" for each in texts]])
        vector = core.Z3_parser_context_from_string(reference, self._parser, text)
        core.Z3_ast_vector_inc_ref(reference, vector)
        self._declarations.clear()
        count = core.Z3_ast_vector_size(reference, vector)
        if count != len(texts):
            raise InternalError(f"prove: z3 read {count} formulas of {len(texts)}")
        for at, each in enumerate(texts):
            formula = core.Z3_ast_vector_get(reference, vector, at)
            core.Z3_inc_ref(reference, formula)
            self._formulas[each] = formula
        core.Z3_ast_vector_dec_ref(reference, vector)

    def count(self, solver: Any) -> int:
        """Returns the steps since this was last asked."""
        steps = _STEPS.search(repr(solver.statistics()))
        before, self.steps = self.steps, self.steps if steps is None else int(steps.group(1))
        return self.steps - before


class Question:
    """Formulas of which it is asked whether they can hold together, once and again with more of them.

    Attributes:
        letters: of all formulas.
        limit: the most steps.
        rounds: how often it was asked.
        steps: how many z3 took.
    """

    def __init__(self, context: Context, limit: int, conditions: frozenset[str] = frozenset()) -> None:
        """Starts without formulas. conditions: those of which `needed` says whether an answer rests on them."""
        self._context = context
        self._conditions = conditions
        self._literals: list[str] = []
        self._solver = context.solver()
        self._texts: list[str] = []
        self._model = ""
        self.limit = limit
        self.letters = 0
        self.rounds = 0
        self.steps = 0

    def ask(self, texts: Iterable[str], limit: int | None = None) -> str:
        """Returns "sat", "unsat" or "unknown" for all formulas until now and these.

        limit: the most steps until then, if these are fewer than those of the question.
        """
        left = (self.limit if limit is None else min(limit, self.limit)) - self.steps
        texts = [each for each in texts if each != "true"]
        self._texts += texts
        if left <= 0:
            return "unknown"
        self._literals += self._context.add(self._solver, texts, self._conditions)
        self.letters += sum(map(len, texts))
        self.rounds += 1
        self._solver.set("rlimit", left)  # 0 would be no limit
        found = self._context.check(self._solver, self._literals)
        self.steps += self._context.count(self._solver)
        return found

    def ask_anew(self, texts: Iterable[str]) -> str:
        """Returns as `ask` does, as if none had been asked before: with all steps, and without what z3 has found out."""
        self._solver, self._literals = self._context.solver(), []
        self.limit += self.steps
        before, self._texts = self._texts, []
        return self.ask([*before, *texts])

    def needed(self) -> frozenset[str]:
        """Returns the conditions on which the last answer rests, which was "unsat"."""
        return self._context.needed(self._solver) if self._literals else frozenset()

    def values(self) -> dict[Monomial, int]:
        """Returns the variables with which the formulas hold, as far as they matter."""
        self._model = self._solver.model().sexpr()
        return {
            tuple(map(int, own.split("_"))): int(positive) if positive else -int(negative)
            for own, positive, negative in _VALUES.findall(self._model)
        }

    def flags(self) -> frozenset[int]:
        """Returns the flags that are set in what `values` gave last."""
        return frozenset([int(own) for own in _FLAGS.findall(self._model)])


@functools.lru_cache(maxsize=1 << 14)
def name(monomial: Monomial) -> str:
    """Returns the name of a variable, which is an atom or a product."""
    return "v" + "_".join(map(str, monomial))


__all__ = ["Context", "Question", "load_z3", "name"]
