"""Derives casts and a result dtype from operand dtypes, as the rule of an op row says.

Every op names one of these rules, so no op consults a promotion table in its own way. A rule maps (rule set,
operands) to a `Promotion`: the dtype each operand is cast to, and the dtype of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .dataclass import dataclass
from .dtype import DType, bool_, string
from .errors import InternalError, UserError
from .literals import Operand, check_literal, is_scalar, scalar_rank
from .rules import RuleSet, dtype_of


@dataclass(frozen=True, slots=True)
class Promotion:
    """The dtypes of an op: `casts[i]` is that of operand i inside the op, `result` that of the op's value.

    `weak` is the weak element that the value still stands for, under rule sets that have these, else None.
    """

    casts: tuple[DType, ...]
    result: DType
    weak: DType | None = None


_Decide = Callable[[RuleSet, Sequence[Operand], str, DType | None], Promotion]


@dataclass(frozen=True, slots=True)
class ResultRule:
    """One promotion class of ops. Rules are compared by identity and printed by name."""

    name: str
    summary: str
    _decide: _Decide

    def apply(
        self, rule_set: RuleSet, operands: Sequence[Operand], *, op: str = "op", dtype: DType | None = None
    ) -> Promotion:
        """Decide the casts and the result.

        Args:
            rule_set: the graph's rule set.
            operands: dtypes (or objects with a dtype), and Python scalars, which are weak and whose values
                are checked; NumPy scalars are weak or strong as the rule set says.
            op: the op's name, for messages.
            dtype: the dtype the user asked for; only ACCUMULATE, MEAN and EXPLICIT use it.

        Raises `UserError`: no join, a literal that does not fit, or an operand kind the op does not take.
        """
        if not operands:
            raise InternalError(f"{op}: promotion of no operands")
        operands = [rule_set.weakened(operand) for operand in operands]
        promotion = self._decide(rule_set, operands, op, dtype)
        for operand, target in zip(operands, promotion.casts, strict=True):
            if is_scalar(operand):
                check_literal(operand, target, op)
        return promotion

    def __repr__(self) -> str:
        return self.name


def _describe(operands: Sequence[Operand]) -> str:
    return ", ".join(repr(o) if is_scalar(o) else dtype_of(o).name for o in operands)


def _joined(rule_set: RuleSet, operands: Sequence[Operand], op: str) -> DType:
    texts = [getattr(operand, "dtype", operand) is string for operand in operands]
    if all(texts):
        return string
    if any(texts):
        raise UserError(f"{op}({_describe(operands)}): strings and numbers have no join; fix: print_numbers or parse_numbers")
    try:
        return rule_set.join_operands(operands)
    except UserError as error:
        raise UserError(f"{op}({_describe(operands)}): {error}") from None


def _own(rule_set: RuleSet, operand: Operand) -> DType:
    return rule_set.literals.default(operand) if is_scalar(operand) else dtype_of(operand)


def _all_cast(rule_set: RuleSet, count: int, element: DType) -> Promotion:
    """Return a promotion that casts every operand to the element's dtype, which is the result."""
    result = rule_set.concrete(element)
    return Promotion((result,) * count, result, element if element.is_weak else None)


def _join(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    return _all_cast(rule_set, len(operands), _joined(rule_set, operands, op))


def _join_float(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    return _floating(rule_set, operands, op, False)


def _quotient(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    return _floating(rule_set, operands, op, True)


def _floating(rule_set: RuleSet, operands: Sequence[Operand], op: str, quotient: bool) -> Promotion:
    element = _joined(rule_set, operands, op)
    if not (element.is_float or element.is_complex):
        element = rule_set.inexact(element, quotient)
    return _all_cast(rule_set, len(operands), element)


def _join_to_bool(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    return Promotion((rule_set.concrete(_joined(rule_set, operands, op)),) * len(operands), bool_)


def _bool_only(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    for position, operand in enumerate(operands):
        if _own(rule_set, operand) is not bool_:
            raise UserError(
                f"{op}({_describe(operands)}): operand {position} must be bool; "
                "fix: compare it, e.g. not_equal(x, 0), or use the bitwise op"
            )
    return Promotion((bool_,) * len(operands), bool_)


def _integer_join(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    for position, operand in enumerate(operands):
        if is_scalar(operand) and scalar_rank(operand) < 2:  # the join decides which integers fit
            continue
        own = _own(rule_set, operand)
        if not (own.is_integer or own.is_bool):
            raise UserError(
                f"{op}({_describe(operands)}): operand {position} must be bool or integer, not {own}; "
                "fix: .cast(int32) it (to reinterpret the bits of a float: .bitcast)"
            )
    element = _joined(rule_set, operands, op)
    if element.is_float:
        raise UserError(
            f"{op}({_describe(operands)}): these integers join in {element}, which has no bits to operate on; "
            "fix: cast both operands to int64 or both to uint64"
        )
    return _all_cast(rule_set, len(operands), element)


def _same(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    casts = tuple(_own(rule_set, operand) for operand in operands)
    weak = getattr(operands[0], "weak", None)
    return Promotion(casts, casts[0], weak if isinstance(weak, DType) else None)


def _select(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    condition, *branches = operands
    if _own(rule_set, condition) is not bool_:
        raise UserError(
            f"{op}({_describe(operands)}): the condition must be bool; fix: compare it, e.g. not_equal(x, 0)"
        )
    joined = _all_cast(rule_set, len(branches), _joined(rule_set, branches, op))
    return Promotion((bool_, *joined.casts), joined.result, joined.weak)


def _accumulate(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    own = rule_set.concrete(_joined(rule_set, operands, op))
    result = dtype if dtype is not None else rule_set.accumulator(own)
    return Promotion((result,) * len(operands), result)


def _mean(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    own = rule_set.concrete(_joined(rule_set, operands, op))
    result = dtype if dtype is not None else own if own.is_float or own.is_complex else rule_set.mean_of(own)
    return Promotion((result,) * len(operands), result)


def _explicit(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    if dtype is None:
        raise InternalError(f"{op}: the result dtype is explicit but none was given")
    return Promotion(tuple(_own(rule_set, operand) for operand in operands), dtype)


JOIN = ResultRule("JOIN", "operands are cast to their join, which is the result", _join)
JOIN_FLOAT = ResultRule(
    "JOIN_FLOAT", "as JOIN; a join of bools or integers becomes the rule set's default float", _join_float
)
JOIN_QUOTIENT = ResultRule(
    "JOIN_QUOTIENT", "as JOIN; a join of bools or integers becomes the rule set's float of quotients", _quotient
)
JOIN_TO_BOOL = ResultRule(
    "JOIN_TO_BOOL", "operands are cast to their join; the result is bool", _join_to_bool
)
BOOL_ONLY = ResultRule("BOOL_ONLY", "operands must be bool, and so is the result", _bool_only)
INTEGER_JOIN = ResultRule("INTEGER_JOIN", "as JOIN, for bools and integers only", _integer_join)
SAME = ResultRule("SAME", "operands keep their dtypes; the result has the first one's", _same)
SELECT = ResultRule("SELECT", "the first operand is bool; the others are cast to their join", _select)
ACCUMULATE = ResultRule(
    "ACCUMULATE",
    "bools and signed integers become int64, unsigned uint64 (or what the rule set says), floats stay; dtype= overrides",
    _accumulate,
)
MEAN = ResultRule(
    "MEAN",
    "bools and integers become the rule set's float of means (max: float32), floats stay; dtype= overrides",
    _mean,
)
EXPLICIT = ResultRule(
    "EXPLICIT", "operands keep their dtypes; the result is the dtype the user gave", _explicit
)

RESULT_RULES = {
    rule.name: rule
    for rule in (
        JOIN,
        JOIN_FLOAT,
        JOIN_QUOTIENT,
        JOIN_TO_BOOL,
        BOOL_ONLY,
        INTEGER_JOIN,
        SAME,
        SELECT,
        ACCUMULATE,
        MEAN,
        EXPLICIT,
    )
}
"""The rules by name. Operations of the op table have three of their own beside these."""
