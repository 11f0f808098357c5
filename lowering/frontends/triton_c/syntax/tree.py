"""Defines the syntax tree. Every node has the token that it is named after in messages and locations."""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ..reading.source import Token


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a program. token: an operator, a name, a keyword."""

    token: Token


class Expression(Node):
    __slots__ = ()


class Statement(Node):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """What is said of a name or function: `__multipleof(8)`. The name has no underscores around it."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class TypeName(Expression):
    """A type: its element's name, the pointers to it, and the shape of a block.

    Attributes:
        base: the name of an arithmetic type, of void, of a typedef, or "struct name".
        constant: for the base and each pointer, whether it is const.
        shape: None for a scalar; () for `[]`, a table whose length its initial values tell.
        definition: the members of a struct or the constants of an enum that is defined here.
    """

    base: str
    constant: tuple[bool, ...]
    shape: tuple[Expression, ...] | None
    definition: Structure | Enumeration | None = None


@dataclass(frozen=True, slots=True)
class Name(Expression):
    pass


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A number, a character or a string, as it is written."""


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """`+ - ! ~ ++ --`, `*` (dereference) or `^` (transpose) before an operand."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class MaskedDereference(Expression):
    """`*?(mask)operand`."""

    mask: Expression
    operand: Expression


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    type: TypeName
    operand: Expression


@dataclass(frozen=True, slots=True)
class Bitcast(Expression):
    type: TypeName
    operand: Expression


@dataclass(frozen=True, slots=True)
class SizeOf(Expression):
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """Two operands: of arithmetic, of comparisons, of `...`, `@`, `&&`, `||` and the comma."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional(Expression):
    condition: Expression
    first: Expression
    second: Expression


@dataclass(frozen=True, slots=True)
class Assignment(Expression):
    """`=`, or an operator and `=`."""

    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Postfix(Expression):
    """`++` or `--` behind an operand."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Entry(Node):
    """One entry of a subscript.

    Attributes:
        kind: ":", "newaxis", a reduction ("+", "max", …), "^" for an axis of a permutation, "index" for anything else.
        value: the axis or index.
    """

    kind: str
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Subscript(Expression):
    operand: Expression
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Member(Expression):
    """`operand.name`."""

    operand: Expression
    name: Token


@dataclass(frozen=True, slots=True)
class Designator(Node):
    """What an initial value is for: the member `.name`, whose token is the name, or the element `[1, 2]`.

    indices: None for a member.
    """

    indices: tuple[Expression, ...] | None


@dataclass(frozen=True, slots=True)
class Braces(Expression):
    """A list of initial values in braces, each with what it is for: `.a.b = 1`, `[2] = 1`; () for the next one."""

    entries: tuple[tuple[tuple[Designator, ...], Expression], ...]


@dataclass(frozen=True, slots=True)
class CompoundLiteral(Expression):
    """`(type){…}`."""

    type: TypeName
    braces: Braces


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A call. The historical `atomic_add(TYPE, TM)(…)` is a call of a call, with types for arguments."""

    callee: Expression
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Declarator(Node):
    """One declared name, its whole type, and its initial value."""

    type: TypeName
    attributes: tuple[Attribute, ...]
    value: Expression | None

    @property
    def name(self) -> str:
        return self.token.text


@dataclass(frozen=True, slots=True)
class Declaration(Statement):
    """Variables, or with `is_typedef` names of types; functions without bodies beside them, and what their type defines.

    Attributes:
        prototypes: the functions.
        announced: "struct name" of `struct name;`, a type that is defined behind it; else "".
    """

    declarators: tuple[Declarator, ...]
    is_typedef: bool
    prototypes: tuple[Function, ...] = ()
    announced: str = ""


@dataclass(frozen=True, slots=True)
class Erroneous(Expression):
    """What stands for an expression with an error, which is reported."""


@dataclass(frozen=True, slots=True)
class Broken(Statement):
    """What stands for a statement with an error, which is reported. names: what it may declare."""

    names: tuple[tuple[Token, str], ...]


@dataclass(frozen=True, slots=True)
class Enumeration(Statement):
    """The constants of an `enum`: names with their values, where they are given."""

    members: tuple[tuple[Token, Expression | None], ...]


@dataclass(frozen=True, slots=True)
class Structure(Statement):
    """The definition of a struct or union. name: "struct point", or "struct" for one without a name."""

    name: str
    members: tuple[Declarator, ...]


@dataclass(frozen=True, slots=True)
class StaticAssert(Statement):
    condition: Expression
    message: str


@dataclass(frozen=True, slots=True)
class Evaluation(Statement):
    """An expression as a statement; None for the empty statement."""

    expression: Expression | None


@dataclass(frozen=True, slots=True)
class Compound(Statement):
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If(Statement):
    condition: Expression
    first: Statement
    second: Statement | None


@dataclass(frozen=True, slots=True)
class For(Statement):
    start: Statement
    condition: Expression | None
    step: Expression | None
    body: Statement


@dataclass(frozen=True, slots=True)
class While(Statement):
    condition: Expression
    body: Statement


@dataclass(frozen=True, slots=True)
class DoWhile(Statement):
    condition: Expression
    body: Statement


@dataclass(frozen=True, slots=True)
class Switch(Statement):
    subject: Expression
    body: Compound


@dataclass(frozen=True, slots=True)
class Case(Statement):
    """A label of a switch; value None: `default`."""

    value: Expression | None


@dataclass(frozen=True, slots=True)
class Break(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Return(Statement):
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Function(Statement):
    """A function; without a body a prototype.

    Attributes:
        is_broken: parameters are missing, behind errors.
        unknown: names that these may have.
    """

    attributes: tuple[Attribute, ...]
    result: TypeName
    parameters: tuple[Declarator, ...]
    body: Compound | None
    is_broken: bool = False
    unknown: tuple[Token, ...] = ()

    @property
    def name(self) -> str:
        return self.token.text

    @property
    def is_global(self) -> bool:
        return any(each.name == "global" for each in self.attributes)

    @property
    def is_device(self) -> bool:
        """Whether it is said to be no kernel."""
        return any(each.name == "device" for each in self.attributes)

    @property
    def is_void(self) -> bool:
        return self.result.base == "void" and len(self.result.constant) == 1


@dataclass(frozen=True, slots=True)
class Skipped(Statement):
    """A function that the kernel does not reach, of which nothing is read but what tells kernels from others.

    Attributes:
        called: the names of what it may call.
    """

    is_prototype: bool
    is_global: bool
    is_device: bool
    is_void: bool
    called: frozenset[str]

    @property
    def name(self) -> str:
        return self.token.text
