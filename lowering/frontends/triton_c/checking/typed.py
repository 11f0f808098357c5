"""Defines the typed tree: every conversion, broadcast and mask of the language is a node of its own.

Operands of one node have equal types where the block IR asks for it. Nothing of C's rules is left to the builder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from .....promotion.dataclass import dataclass
from ..reading.source import Token
from ..types import Type


class Symbol:
    """A variable or parameter, one object for each declaration.

    Attributes:
        is_constant: whether it was declared const, so that nothing assigns to it again.
    """

    __slots__ = ("is_constant", "name", "token", "type")

    def __init__(self, name: str, type_: Type, token: Token, is_constant: bool = False) -> None:
        self.name = name
        self.type = type_
        self.token = token
        self.is_constant = is_constant

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """A variable or parameter of a struct type: one symbol for each number that it consists of."""

    name: str
    type: Type
    token: Token
    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Constant memory: an array outside of functions, which kernels get by a hidden parameter.

    Attributes:
        symbol: the pointer to the first element.
        shape: the extents of the array.
        values: the elements; None: the host fills them in.
    """

    symbol: Symbol
    shape: tuple[int, ...]
    values: tuple[int | float, ...] | None

    @property
    def name(self) -> str:
        return self.symbol.name


Events = tuple[tuple[Symbol, str], ...]
"""What an evaluation does with variables, in order: "read", "write", or "may write" where that depends on values."""


@dataclass(frozen=True, slots=True)
class Expression:
    type: Type
    token: Token


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A scalar that is known; floats are rounded to their type."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Text(Expression):
    """A string, for print and assert."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable(Expression):
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Record(Expression):
    """The value of a struct, as long as the checker has it: whoever uses it takes it apart.

    Attributes:
        before: what is evaluated first.
        leaves: what the value consists of, constants and variables.
    """

    before: tuple[Expression, ...]
    leaves: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Convert(Expression):
    """The value in another element type."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Broadcast(Expression):
    """The value in a larger shape: axes of extent 1 on the left, then repeated along those of extent 1."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class ToScalar(Expression):
    """The element of a block that has one."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Bitcast(Expression):
    operand: Expression


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """`-`, `~`, or `!` of a bool."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """Arithmetic of two operands of the result's type; "min" and "max" are operators, too."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logical(Expression):
    """`&&` and `||` of bools. writes: variables that the right operand assigns, if it is evaluated."""

    operator: str
    left: Expression
    right: Expression
    writes: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class MovePointer(Expression):
    """A pointer and a number of elements to move it by."""

    pointer: Expression
    offset: Expression


@dataclass(frozen=True, slots=True)
class PointerDifference(Expression):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional(Expression):
    """`c ? a : b`. By a block of conditions, accesses of the arms are masked; else one arm is evaluated.

    writes: variables that the arms assign. is_eager: `select`, which evaluates both arms whatever the condition.
    """

    condition: Expression
    first: Expression
    second: Expression
    writes: frozenset[Symbol]
    is_eager: bool


@dataclass(frozen=True, slots=True)
class Range(Expression):
    start: int


@dataclass(frozen=True, slots=True)
class View(Expression):
    """The operand with new axes of extent 1, whose positions in the result are `axes`."""

    operand: Expression
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reduce(Expression):
    operator: str
    operand: Expression
    axis: int


@dataclass(frozen=True, slots=True)
class ArgReduce(Expression):
    """The index of the largest ("max") or smallest element along an axis."""

    operator: str
    operand: Expression
    axis: int


@dataclass(frozen=True, slots=True)
class Transpose(Expression):
    operand: Expression
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gather(Expression):
    """Elements of a block, at an index along an axis. A scalar removes the axis, a block of one axis takes its place."""

    operand: Expression
    index: Expression
    axis: int


@dataclass(frozen=True, slots=True)
class Dot(Expression):
    """A product of matrices. accumulator: what it is added to, of the result's type."""

    left: Expression
    right: Expression
    accumulator: Expression | None


@dataclass(frozen=True, slots=True)
class Load(Expression):
    pointer: Expression
    mask: Expression | None


@dataclass(frozen=True, slots=True)
class Store(Expression):
    """A store; its value as an expression is what was stored."""

    pointer: Expression
    mask: Expression | None
    value: Expression


@dataclass(frozen=True, slots=True)
class Assign(Expression):
    """The assignment of a whole variable."""

    symbol: Symbol
    value: Expression


@dataclass(frozen=True, slots=True)
class Sequence(Expression):
    """Expressions one after the other; the value is that of `parts[result]`."""

    parts: tuple[Expression, ...]
    result: int


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A call. results: variables that take the parts of a struct that is returned; the type is void then."""

    function: str
    arguments: tuple[Expression, ...]
    results: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Math(Expression):
    """An elementary function: an operation of the block IR on operands of one type."""

    operation: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Program(Expression):
    """`get_program_id` and `get_num_programs`."""

    operation: str
    axis: int


@dataclass(frozen=True, slots=True)
class Atomic(Expression):
    """A read-modify-write, with "cas" among the operators: its `comparand` is what memory must hold."""

    operator: str
    pointer: Expression
    value: Expression
    mask: Expression | None
    comparand: Expression | None


@dataclass(frozen=True, slots=True)
class Effect(Expression):
    """`__debug_barrier`, `assert` and `print`: an operation without a value."""

    operation: str
    operands: tuple[Expression, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Statement:
    token: Token


@dataclass(frozen=True, slots=True)
class Evaluate(Statement):
    expression: Expression
    events: Events


@dataclass(frozen=True, slots=True)
class Declare(Statement):
    """A variable without an initial value: it is zero until something is assigned."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class If(Statement):
    condition: Expression
    events: Events
    first: tuple[Statement, ...]
    second: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Loop(Statement):
    """A loop; condition None: for ever. is_post: the condition is evaluated behind the body (`do`)."""

    condition: Expression | None
    events: Events
    body: tuple[Statement, ...]
    step: tuple[Statement, ...]
    is_post: bool


@dataclass(frozen=True, slots=True)
class Section:
    """Statements of a switch up to the next label. is_default: one of its labels is `default`."""

    values: tuple[int, ...]
    is_default: bool
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Switch(Statement):
    subject: Expression
    events: Events
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Break(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Return(Statement):
    """The end of a function. values: nothing, a value, or the parts of a struct; `before` is evaluated first."""

    before: tuple[Expression, ...]
    values: tuple[Expression, ...]
    events: Events


@dataclass(frozen=True, slots=True)
class Promise:
    """What an attribute says of a parameter; the launch checks it.

    Attributes:
        name: "multipleof", "aligned", "noalias", "readonly", "writeonly" or "retune".
        number: the argument of the first two.
    """

    name: str
    number: int
    token: Token


@dataclass(frozen=True, slots=True)
class Function:
    """A function.

    Attributes:
        declared: the parameters as the text has them.
        parameters: those of the block IR: a struct is one for each of its parts, and tables are the last.
        promises: those of each of `parameters`.
        tables: the constant memory that it and what it calls read.
    """

    name: str
    token: Token
    declared: tuple[Symbol | Aggregate, ...]
    parameters: tuple[Symbol, ...]
    promises: tuple[tuple[Promise, ...], ...]
    tables: tuple[Table, ...]
    result: Type
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel and the functions that it calls, each before its callers."""

    kernel: Function
    functions: tuple[Function, ...]


_PARTS: dict[type[Expression], tuple[str, ...]] = {}


def parts_of(expression: Expression) -> list[Expression]:
    """Return the expressions that an expression is made of."""
    kind = type(expression)
    names = _PARTS.get(kind)
    if names is None:
        # The fields that hold expressions are those whose annotation says so.
        names = _PARTS[kind] = tuple(each.name for each in fields(kind) if "Expression" in str(each.type))
    found: list[Expression] = []
    for name in names:
        value = getattr(expression, name)
        if isinstance(value, Expression):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(each for each in value if isinstance(each, Expression))
    return found


def evaluated(
    statements: Iterable[Statement], unused: frozenset[int] = frozenset()
) -> Iterator[tuple[Expression, bool]]:
    """Give the expressions of statements, each with whether its value is discarded.

    unused: which parts of what the function returns are.
    """
    waiting: list[Statement] = list(statements)
    while waiting:
        node = waiting.pop()
        match node:
            case Evaluate():
                yield node.expression, True
            case If():
                yield node.condition, False
                waiting += [*node.first, *node.second]
            case Loop():
                if node.condition is not None:
                    yield node.condition, False
                waiting += [*node.body, *node.step]
            case Switch():
                yield node.subject, False
                waiting += [inner for section in node.sections for inner in section.body]
            case Return():
                yield from ((each, True) for each in node.before)
                yield from ((each, number in unused) for number, each in enumerate(node.values))


def contains(expression: Expression, kinds: tuple[type[Expression], ...]) -> bool:
    """Return whether a node of one of these kinds is in an expression."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, kinds):
            return True
        waiting.extend(parts_of(each))
    return False
