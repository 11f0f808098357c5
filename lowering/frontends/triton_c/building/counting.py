"""Finds loops that count: their number of iterations is known before the first, and they become `scf.for`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..checking import typed
from ..checking.typed import Events, Symbol
from ..types import Scalar

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_INVARIANT = (
    typed.Constant, typed.Variable, typed.Convert, typed.Unary, typed.Binary, typed.Math, typed.Program, typed.Conditional,
)  # fmt: skip
MAX_PROGRAMS = (1 << 31) - 1
"""Most programs along an axis of a grid."""
MAX_DEPTH = 16
"""How deep the operands are looked at whose range is wanted."""
InitialValues = Mapping[Symbol, typed.Expression]
"""Variables that are assigned nothing but their initial values."""


class Counter:
    """How a loop counts: `symbol` goes from its value towards `bound` by `step`, as long as `symbol operator bound`.

    Attributes:
        step: what is added to the symbol if `is_up`, else subtracted: a positive number, or a value that is positive.
        element: the type that the symbol is compared in: its own, or the unsigned one of the same width.
        events: what the step reads.
        may_wrap: whether an unsigned counter may step over the end of its numbers, and go on from the other one.
        rest: what else the step does, behind the body of each iteration.
    """

    __slots__ = ("bound", "element", "events", "is_up", "may_wrap", "operator", "rest", "step", "symbol")

    def __init__(
        self,
        symbol: Symbol,
        operator: str,
        bound: typed.Expression,
        step: int | typed.Expression,
        element: Scalar,
        may_wrap: bool,
        rest: tuple[typed.Evaluate, ...],
    ) -> None:
        self.symbol = symbol
        self.operator = operator
        self.bound = bound
        self.is_up = operator in ("<", "<=")
        self.step = step
        self.element = element
        self.events: Events = () if isinstance(step, int) else tuple((each, "read") for each in _variables(step))
        self.may_wrap = may_wrap
        self.rest = rest


def initial_values(function: typed.Function) -> InitialValues:
    """Return the variables of a function that are assigned once, where they are declared, with their values."""
    found: dict[Symbol, typed.Expression] = {}
    writes: dict[Symbol, int] = dict.fromkeys(function.parameters, 1)
    for symbol, what in _events(function.body):
        if what != "read":
            writes[symbol] = writes.get(symbol, 0) + 1
    waiting = list(function.body)
    while waiting:
        each = waiting.pop()
        if isinstance(each, typed.Evaluate):
            parts = each.expression.parts if isinstance(each.expression, typed.Sequence) else (each.expression,)
            found.update({part.symbol: part.value for part in parts if isinstance(part, typed.Assign)})
        elif isinstance(each, typed.If):
            waiting += [*each.first, *each.second]
        elif isinstance(each, typed.Loop):
            waiting += each.body
        # not in a switch: its labels jump behind declarations, whose variables are 0 then
    return {symbol: value for symbol, value in found.items() if writes.get(symbol) == 1}


def counter_of(node: typed.Loop, values: InitialValues) -> Counter | None:
    """Return how a loop counts; None for one that does not, or by what changes in it."""
    condition = node.condition
    if not isinstance(condition, typed.Compare) or len(node.step) != 1 or not isinstance(node.step[0], typed.Evaluate):
        return None
    operator, variable, bound = condition.operator, condition.left, condition.right
    if operator not in _FLIPPED:
        return None
    found = _split(node.step[0], condition)
    if found is None:
        return None
    assignment, rest = found
    symbol = assignment.symbol
    if not _is_counter(variable, symbol):
        operator, variable, bound = _FLIPPED[operator], bound, variable
    element = variable.type.element
    if symbol.type.shape or not isinstance(element, Scalar) or element.kind != "int" or element.bits < 32:
        return None
    step = _step(assignment.value, symbol, operator in ("<", "<="), values)
    if step is None:
        return None
    written = {each for each, what in _events((*node.body, *rest)) if what != "read"}
    if symbol in written or any(what != "read" for _, what in node.events):
        return None
    written.add(symbol)
    if not _is_invariant(bound, written) or not (isinstance(step, int) or _is_invariant(step, written)):
        return None
    may_wrap = not element.is_signed and _may_wrap(operator, bound, step, element, values)
    if may_wrap and isinstance(bound, typed.Constant):
        return None
    return Counter(symbol, operator, bound, step, element, may_wrap, rest)


def _split(node: typed.Evaluate, condition: typed.Compare) -> tuple[typed.Assign, tuple[typed.Evaluate, ...]] | None:
    """Return the assignment to the counter in a step, and what else the step does; None if none or several are of it.

    What else it does comes behind the body, and so must not read the counter as it is behind its step.
    """
    parts = _parts(node.expression)
    found = [
        (at, each) for at, each in enumerate(parts) if isinstance(each, typed.Assign) and _is_compared(condition, each.symbol)
    ]
    if len(found) != 1:
        return None
    ((at, assignment),) = found
    if any(assignment.symbol in _variables(each) for each in parts[at + 1 :]):
        return None
    others = [*parts[:at], *parts[at + 1 :]]
    if not others:
        return assignment, ()
    token = node.token
    rest = others[0] if len(others) == 1 else typed.Sequence(others[-1].type, token, tuple(others), len(others) - 1)
    events = list(node.events)
    writes = [number for number, event in enumerate(events) if event == (assignment.symbol, "write")]
    if len(writes) != 1:
        return None
    del events[writes[0]]
    return assignment, (typed.Evaluate(token, rest, tuple(events)),)


def _is_compared(condition: typed.Compare, symbol: Symbol) -> bool:
    return _is_counter(condition.left, symbol) or _is_counter(condition.right, symbol)


def _parts(node: typed.Expression) -> list[typed.Expression]:
    """Return what an expression evaluates one after the other."""
    found: list[typed.Expression] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, typed.Sequence):
            waiting += reversed(each.parts)
        else:
            found.append(each)
    return found


def _may_wrap(
    operator: str, bound: typed.Expression, step: int | typed.Expression, element: Scalar, values: InitialValues
) -> bool:
    """Return whether the last step of an unsigned counter may lead over the end of its numbers."""
    low, high = _limits(element)
    least, most = _range(bound, values, MAX_DEPTH) or (low, high)
    steps = (step, step) if isinstance(step, int) else _range(step, values, MAX_DEPTH)
    if steps is None:
        return True
    is_closed = operator in ("<=", ">=")
    if operator in ("<", "<="):
        return most - (not is_closed) + steps[1] > high
    return least + (not is_closed) - steps[1] < low


def _is_counter(node: typed.Expression, symbol: Symbol) -> bool:
    """Return whether an operand of the condition is the counter.

    It may be compared as an unsigned number: unsigned and signed numbers of one width are the same bits, and count alike.
    """
    if isinstance(node, typed.Convert):
        own, other = node.operand.type.element, node.type.element
        if not (isinstance(own, Scalar) and isinstance(other, Scalar) and (own.kind, own.bits) == (other.kind, other.bits)):
            return False
        node = node.operand
    return isinstance(node, typed.Variable) and node.symbol is symbol


def _is_invariant(node: typed.Expression, written: set[Symbol]) -> bool:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, _INVARIANT) or (isinstance(each, typed.Variable) and each.symbol in written):
            return False
        waiting.extend(typed.parts_of(each))
    return True


def _variables(node: typed.Expression) -> list[Symbol]:
    found: list[Symbol] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, typed.Variable):
            found.append(each.symbol)
        waiting.extend(typed.parts_of(each))
    return found


def _step(value: typed.Expression, symbol: Symbol, is_up: bool, values: InitialValues) -> int | typed.Expression | None:
    """Return by how much a new value moves its variable in a direction; None if that may be nothing, or the other direction."""
    if not isinstance(value, typed.Binary) or value.operator not in ("+", "-"):
        return None
    left, right = value.left, value.right
    if value.operator == "+" and not (isinstance(left, typed.Variable) and left.symbol is symbol):
        left, right = right, left
    if not (isinstance(left, typed.Variable) and left.symbol is symbol):
        return None
    if isinstance(right, typed.Constant):
        number = right.value
        if not isinstance(number, int):
            return None
        number = number if (value.operator == "+") == is_up else -number
        return number if number > 0 else None
    if (value.operator == "+") != is_up:
        return None
    bounds = _range(right, values, MAX_DEPTH)
    return right if bounds is not None and bounds[0] > 0 else None


def _range(node: typed.Expression, values: InitialValues, depth: int) -> tuple[int, int] | None:
    """Return the smallest and largest number that an integer expression may be; None if it may be any, or wrap."""
    element = node.type.element
    if not depth or node.type.shape or not isinstance(element, Scalar) or not element.is_integer:
        return None
    found: tuple[int, int] | None = None
    if isinstance(node, typed.Constant) and isinstance(node.value, int):
        found = node.value, node.value
    elif isinstance(node, typed.Program):
        found = (1, MAX_PROGRAMS) if node.operation == "tt.get_num_programs" else (0, MAX_PROGRAMS - 1)
    elif isinstance(node, typed.Variable) and node.symbol in values:
        found = _range(values[node.symbol], values, depth - 1)
    elif isinstance(node, typed.Convert):
        found = _range(node.operand, values, depth - 1)
    elif isinstance(node, typed.Conditional | typed.Binary):
        parts = (node.first, node.second) if isinstance(node, typed.Conditional) else (node.left, node.right)
        ranges = [_range(each, values, depth - 1) for each in parts]
        found = _combined("?" if isinstance(node, typed.Conditional) else node.operator, ranges, element)
    if found is None:
        return None
    low, high = _limits(element)
    return found if low <= found[0] and found[1] <= high else None


def _combined(operator: str, ranges: Sequence[tuple[int, int] | None], element: Scalar) -> tuple[int, int] | None:
    """Return the range of an operation on numbers of two ranges. Of min and max, one range that is known bounds the result."""
    if operator in ("min", "max"):
        low, high = zip(*(each or _limits(element) for each in ranges), strict=True)
        pick = min if operator == "min" else max
        return pick(low), pick(high)
    a, b = ranges
    if a is None or b is None:
        return None
    if operator == "?":
        return min(a[0], b[0]), max(a[1], b[1])
    if operator == "+":
        return a[0] + b[0], a[1] + b[1]
    if operator == "-":
        return a[0] - b[1], a[1] - b[0]
    if operator == "*":
        products = [x * y for x in a for y in b]
        return min(products), max(products)
    return None


def _limits(element: Scalar) -> tuple[int, int]:
    if element.is_signed:
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    return 0, (1 << element.bits) - 1


def _events(statements: Sequence[typed.Statement]) -> list[tuple[Symbol, str]]:
    """Return everything that statements do with variables, in any order."""
    found: list[tuple[Symbol, str]] = []
    waiting = list(statements)
    while waiting:
        each = waiting.pop()
        found.extend(getattr(each, "events", ()))
        if isinstance(each, typed.Declare):
            found.append((each.symbol, "write"))
        elif isinstance(each, typed.If):
            waiting += [*each.first, *each.second]
        elif isinstance(each, typed.Loop):
            waiting += [*each.body, *each.step]
        elif isinstance(each, typed.Switch):
            waiting += [inner for section in each.sections for inner in section.body]
    return found


__all__ = ["Counter", "InitialValues", "counter_of", "initial_values"]
