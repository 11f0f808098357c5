"""Defines what a proof says: verdicts by property and access, with conditions, reasons and counterexamples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..tt.sanitize.findings import Finding
from .page import Row, Section, page_of
from .specify.specification import Specification

TERMINATION = "termination of loops"
_EMPTY = "no launch that this allows executes an access: nothing is said of any that does; fix: weaker assumptions"
INITIALISED = "initialised"
ORDER = "order"
DEFAULT_PROPERTIES = ("bounds", "races", "overflow")
PROPERTIES = (*DEFAULT_PROPERTIES, INITIALISED, ORDER, TERMINATION)
"""The properties there are."""
PROVEN, UNDER, REFUTED, UNKNOWN, NEVER = "proven", "proven under", "refuted", "unknown", "never executed"
VERDICTS = (PROVEN, UNDER, REFUTED, UNKNOWN, NEVER)
_OF_NUMBERS = frozenset(("overflow", TERMINATION))
"""Properties of numbers that are computed, whether or not an access is executed."""
TRUSTED = (
    "arrays of different parameters do not overlap, and each has at least as many elements as its extent says",
    "arrays begin at a multiple of their element's size, and of what the text promises of their address",
    "an array without an extent has all that is reached from its parameter, and no other array has any of that",
    "nothing but the programs of this launch touches the arrays meanwhile",
    "operations of one program happen in the order of the text, the lanes of one operation at once",
    "integers are computed as joinery does: they wrap, x / 0 is 0, x % 0 is x, shifts by the width or more leave 0 or the sign,"
    " an index has 64 bits",
    "a lane that a load or an atomic leaves undefined, and memory to which poison was written, hold some number of their type,"
    " the same one for whoever reads it",
    "the solver z3, and this encoding (docs/design/021-proofs.md)",
)
TRUSTED_OF_INITIALISED = (
    "all that memory holds when the launch begins is defined, also beyond the arrays",
    "what an operation makes of defined numbers is defined, but for what lies beyond the results of tt.fft",
)
TRUSTED_OF_ORDER = (
    "order: a program is one block of threads (num_ctas = 1), of any number; a barrier is one of all of them, for all memory,"
    " and elsewhere threads are in no order, whatever the other lines say of the text's",
    "order: what a thread does itself happens in the order of the text, but loads of a loop without a barrier in its own body,"
    " which may be fetched ahead, with all that their addresses and masks are computed from",
    "order: one thread stores a lane, or updates a scalar, and it is the same one for all stores and updates of scalars; all"
    " threads take the number that the update of a scalar returns, and have the same bits of what they compute alike",
)


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A launch that breaks a property, as the sanitizer saw it; of overflow, a run of the program in which a number wraps.

    Attributes:
        sizes: the numbers of the launch by name: parameters, and symbols of the specification.
        grid: the numbers of programs.
        contents: by array of integers, the value that all its elements had. Arrays of floats held 0, 1, 2 and so on.
        finding: what was found.
    """

    sizes: tuple[tuple[str, int], ...]
    grid: tuple[int, int, int]
    contents: tuple[tuple[str, int], ...]
    finding: Finding

    def __str__(self) -> str:
        sizes = ", ".join([f"{name} = {value}" for name, value in self.sizes]) or "no sizes"
        contents = "".join([f", all elements of {name} = {value}" for name, value in self.contents if value])
        found = str(self.finding).replace("\n", "\n  ")
        finder = "a run of that program" if self.finding.kind == "overflow" else "the sanitizer"
        return f"{sizes}, grid {self.grid}{contents}\n  {finder}: {found}"

    def as_data(self) -> dict[str, Any]:
        """Returns the counterexample as data for JSON."""
        finding = {name: getattr(self.finding, name) for name in ("kind", "message", "line", "program", "lane", "address")}
        return {
            "sizes": dict(self.sizes), "grid": list(self.grid), "contents": dict(self.contents),
            "finding": finding | {"program": _listed(self.finding.program), "lane": list(self.finding.lane)},
        }  # fmt: skip


def _listed(values: tuple[int, ...] | None) -> list[int] | None:
    return None if values is None else list(values)


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """What is known of one property of one access.

    Attributes:
        prop: one of `PROPERTIES`.
        line: the user's line of the operation.
        operation: its name.
        array: the parameter that it reads or writes; "" if that is not known.
        verdict: one of `VERDICTS`.
        condition: with "proven under", assumptions that must hold besides.
        reason: with "unknown", why; with "refuted", what may be assumed, if elements of the launch are no signed numbers.
        counterexample: with "refuted", a launch. With "proven under", of overflow, one that breaks the condition and in which a
            number wraps, if one was found.
    """

    prop: str
    line: str
    operation: str
    array: str
    verdict: str
    condition: tuple[str, ...] = ()
    reason: str = ""
    counterexample: Counterexample | None = None

    def __str__(self) -> str:
        array = f" of {self.array}" if self.array else ""
        text = f"{self.verdict}: {self.line}: {self.operation}{array}"
        if self.condition:
            text += f"\n  if {' and '.join(self.condition)}"
        if self.reason:
            text += f"\n  {self.reason}"
        if self.counterexample is not None:
            text += f"\n  {'else: ' if self.verdict == UNDER else ''}{self.counterexample}"
        return text

    def as_row(self) -> Row:
        """Returns the verdict as texts of a table."""
        example = "" if self.counterexample is None else str(self.counterexample)
        return Row(self.line, self.operation, self.array, self.verdict, " and ".join(self.condition), self.reason, example)

    def as_data(self) -> dict[str, Any]:
        """Returns the verdict as data for JSON."""
        example = None if self.counterexample is None else self.counterexample.as_data()
        return {
            "property": self.prop, "line": self.line, "operation": self.operation, "array": self.array, "verdict": self.verdict,
            "condition": list(self.condition), "reason": self.reason, "counterexample": example,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proof:
    """What `Kernel.prove` found.

    Attributes:
        kernel: the function's name.
        specification: what launches it is about.
        properties: those that were asked for.
        accesses: a verdict for each property of each access, in the order of the text.
        assumptions: everything that the verdicts take for granted: the user's assumptions, and what the text promises.
        example: sizes that satisfy the assumptions, so that they do not contradict each other.
        questions: how many the solver was asked, and `steps` of its resource count that it took.
        digest: of the kernel's text; `limit`, the steps that a question may take; `solver`, which with its version, and
            `joinery`, its own version.
        recorded: whether it was found among what was proven before, and not proven now.
        doubts: what of a guessed specification is to be looked at, as it may be fitted to the launch it was guessed from.
        fixed: the sizes, extents and numbers of programs that the specification leaves one value: what is proven is proven
            for these values alone.
    """

    kernel: str
    specification: Specification
    properties: tuple[str, ...]
    accesses: tuple[AccessVerdict, ...]
    assumptions: tuple[str, ...]
    example: tuple[tuple[str, int], ...]
    questions: int = 0
    steps: int = 0
    digest: str = ""
    limit: int = 0
    solver: str = ""
    joinery: str = ""
    recorded: bool = False
    doubts: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every property of every access is proven for all sizes that the specification allows, without a condition.

        It is not where no access is ever executed: nothing is said of a launch that does anything.
        """
        return not self.is_empty and all(each.verdict in (PROVEN, NEVER) for each in self.accesses)

    @property
    def is_empty(self) -> bool:
        """Whether there are accesses, and no launch that the specification allows executes any.

        "overflow" and "termination of loops" say of no access whether it is executed: they do not count here.
        """
        said = [each.verdict for each in self.accesses if each.prop not in _OF_NUMBERS]
        return bool(said) and all(each == NEVER for each in said)

    @property
    def refuted(self) -> tuple[AccessVerdict, ...]:
        """The accesses that break a property in a launch."""
        return tuple([each for each in self.accesses if each.verdict == REFUTED])

    def verdict(self, prop: str) -> str:
        """Returns the weakest verdict of a property: refuted, unknown, proven under, proven, or never executed if all are that.

        Raises `UserError` for a property that was not asked for: nothing is known of it.
        """
        if prop not in self.properties:
            raise UserError(f"proof: {prop!r} was not asked for; fix: properties={(*self.properties, prop)}")
        found = {each.verdict for each in self.accesses if each.prop == prop}
        return next((each for each in (REFUTED, UNKNOWN, UNDER) if each in found), NEVER if found == {NEVER} else PROVEN)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        fixed = self.fixed
        yield f"@{self.kernel}{', not for all sizes: the specification fixes ' + ', '.join(fixed) if fixed else ''}"
        yield from [f"  {line}" for line in str(self.specification).split("\n")]
        yield from [f"  look at this guess: {each}" for each in self.doubts]
        if self.is_empty:
            yield f"  {_EMPTY}"
        yield f"  as a call: prove({self.specification.call})"
        for prop in self.properties:
            own = [each for each in self.accesses if each.prop == prop]
            counts = {verdict: sum(each.verdict == verdict for each in own) for verdict in VERDICTS}
            shown = ", ".join([f"{count} {verdict}" for verdict, count in counts.items() if count]) or "no access"
            yield f"{prop}: {self.verdict(prop)} ({shown})"
            for each in own:
                if each.verdict != PROVEN:
                    yield from [f"  {line}" for line in str(each).split("\n")]
        if self.recorded:
            yield "recorded: nothing was proven now; all of this is from a cache that these sources and this solver wrote"
        yield "trusted:"
        yield from [f"  {each}" for each in self.trusted]

    @property
    def trusted(self) -> tuple[str, ...]:
        """Everything that the verdicts take for granted, those of all proofs included."""
        of_initialised = TRUSTED_OF_INITIALISED if INITIALISED in self.properties else ()
        of_order = TRUSTED_OF_ORDER if ORDER in self.properties else ()
        return *self.assumptions, *TRUSTED, *of_initialised, *of_order

    def as_html(self) -> str:
        """Returns the proof as a page of HTML, which loads nothing, and in which all texts of the kernel's are escaped."""
        sections = [
            Section(prop, self.verdict(prop), [each.as_row() for each in self.accesses if each.prop == prop])
            for prop in self.properties
        ]  # fmt: skip
        example = ", ".join([f"{name} = {value}" for name, value in self.example])
        made = "recorded, and not proven anew; " if self.recorded else ""
        made += f"joinery {self.joinery}, {self.solver}: {self.questions} questions of at most {self.limit} steps, "
        made += f"{self.steps} steps; "
        made += f"digest of the text {self.digest}"
        remarks = (self.fixed, [f"look at this guess: {each}" for each in self.doubts] + [_EMPTY] * self.is_empty)
        return page_of(self.kernel, sections, self.specification, remarks, example, self.trusted, made)

    def as_json(self) -> str:
        """Returns the proof as a JSON text."""
        data = {
            "kernel": self.kernel, "grid": list(self.specification.grid), "extents": dict(self.specification.extents),
            "assume": list(self.specification.assume), "trusted": list(self.trusted),
            "example": dict(self.example), "verdicts": {each: self.verdict(each) for each in self.properties},
            "accesses": [each.as_data() for each in self.accesses], "questions": self.questions, "steps": self.steps,
            "digest": self.digest, "limit": self.limit, "solver": self.solver,
            "joinery": self.joinery, "recorded": self.recorded,
            "fixed": list(self.fixed), "doubts": list(self.doubts), "empty": self.is_empty,
        }  # fmt: skip
        return json.dumps(data, indent=1, ensure_ascii=False)


__all__ = [
    "DEFAULT_PROPERTIES", "INITIALISED", "ORDER", "PROPERTIES", "TERMINATION", "AccessVerdict", "Counterexample", "Proof",
]  # fmt: skip
