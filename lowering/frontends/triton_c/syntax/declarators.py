"""Reads declarators: names with stars, parentheses, attributes, shapes and parameters around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from ..reading.source import END, NAME, Token
from . import tree
from .expressions import ExpressionParser
from .token_stream import BUILT_IN_TYPES, KEYWORDS, QUALIFIERS, STORAGE, SyntaxAbort

ATTRIBUTES = {
    "global": 0, "noalias": 0, "readonly": 0, "writeonly": 0, "aligned": 1, "multipleof": 1, "retune": 0,
}  # fmt: skip
"""Attributes and how many arguments they take."""
_WITHOUT_EFFECT = frozenset(["always_inline", "noinline", "unused"])
"""Attributes of C compilers that say nothing here: functions are inlined where they are called."""
FUNCTION_MARKS = ("__global__", "__device__")
"""What stands before a function and says what it is."""
_RESTRICT = ("restrict", "__restrict__", "__restrict")
_SYNONYMS = {"restrict": "noalias", "kernel": "global"}
OLD_DIALECT = {
    "read_only": "T *p __readonly", "write_only": "T *p __writeonly", "align": "T *p __aligned(N)",
    "multiple_of": "int n __multipleof(N)", "tunable": "#define, or a list in defines", "fp16": "half", "fp32": "float",
    "fp64": "double", "int1": "bool", "get_range_id": "get_program_id(axis) * T + 0 ... T",
}  # fmt: skip
"""Names of the dialect of early 2019, and what is said now."""


class DeclaratorParser(ExpressionParser, ABC):
    """Reads what is declared behind the name of a type."""

    @abstractmethod
    def body(self) -> tree.Compound:
        """Read the body of a function, whose parameters are in the current scope."""

    def declarator(self, base: tree.TypeName, what: str, is_typedef: bool = False) -> tree.Declarator:
        """Read stars, a name, which may stand in parentheses, and its attributes and shape, in either order.

        is_typedef: the name may be that of a built-in type.
        """
        type_ = self.with_pointers(base)
        before: list[tree.Attribute] = []
        while self.text in _RESTRICT:
            before.append(tree.Attribute(self.advance(), "noalias", ()))
        while is_attribute(self.text):  # else it is a name, such as __debug_barrier
            before += self.attributes()
        if self.text != "(":
            name = self.advance() if is_typedef and self.text in BUILT_IN_TYPES else self.identifier(what)
        else:
            opening = self.advance()
            self.deeper()
            inner = self.declarator(type_, what, is_typedef)
            self.depth -= 1
            if self.text == "(":
                self.fail("parameters in the parentheses around a name", "the name alone in parentheses, or none")
            self.expect(")", f"behind the name {inner.token.text}")
            self._refuse_pointer_to(opening, type_, inner)
            name, type_, before = inner.token, inner.type, [*before, *inner.attributes]
        self.declare(name.text, is_type=False)
        attributes = before + self.attributes()
        if self.text == "[" and type_.shape is not None:
            self.fail("a second shape", "the extents of a block, as in x[16, 32]")
        type_ = self.with_shape(type_)
        attributes += self.attributes()
        return tree.Declarator(name, type_, tuple(attributes), None)

    def _refuse_pointer_to(self, opening: Token, outer: tree.TypeName, inner: tree.Declarator) -> None:
        """Refuse `(*f)(…)` and `(*p)[…]`, whose stars stand for an address of what is behind the parentheses."""
        is_pointer = len(inner.type.constant) > len(outer.constant)
        if is_pointer and self.text == "(":
            self.fail_at(opening, "pointers to functions are not supported", "a call of the function, or #define")
        if is_pointer and self.text == "[":
            self.fail_at(opening, "pointers to blocks are not supported", f"a block of pointers, T *{inner.name}[…]")

    # Functions

    def function(self, found: tree.Declarator, attributes: Iterable[tree.Attribute], may_have_body: bool) -> tree.Function:
        """Read the parameters of a function, the shape of its result, and its body. may_have_body: only this may follow."""
        reports = self.diagnostics.reports
        self.expect("(")
        self.open_scope()
        parameters, unnamed, unknown = self._parameters()
        result = self.with_shape(found.type)
        attributes = (*attributes, *found.attributes, *self.attributes())
        is_broken = self.diagnostics.reports > reports
        body = None
        if unknown and may_have_body and self.is_type(self.token):  # parameters as C had them before 1989
            self._skip_to("{", ("}",))
        if self.text == "{" or (may_have_body and self.text not in (",", ";")):
            if self.text != "{":
                self.fail(f"expected the body of function {found.name}, got {self.shown()}")
            is_broken = is_broken or bool(unnamed)
            parameters = [each for each in parameters if each.token is not each.type.token]
            for number, type_ in unnamed:
                message = f"parameter {number} of function {found.name} has no name, which prototypes alone leave out"
                self.diagnostics.error(type_, message, "a name behind its type")
            self.deeper()
            body = self.body()
            self.depth -= 1
        self.close_scope()
        return tree.Function(found.token, attributes, result, tuple(parameters), body, is_broken, unknown)

    def _parameters(self) -> tuple[list[tree.Declarator], list[tuple[int, Token]], tuple[Token, ...]]:
        """Read parameters, and go on behind errors in one.

        Returns them, the numbers and types of those without a name, and the names of those with errors.
        """
        found: list[tree.Declarator] = []
        unnamed: list[tuple[int, Token]] = []
        unknown: list[Token] = []
        number = 0
        if self.text == "void" and self.peek().text == ")":
            self.advance()
        while self.text != ")":
            depth, begin = self.depth, self.at
            try:
                if number:
                    self.expect(",", "or ) in the parameters of a function")
                number += 1
                found.append(self._parameter())
            except SyntaxAbort:
                self.depth = depth
                self._skip_to(",)", ("{", "}", ";"))
                unknown += [each for each in self.tokens[begin : self.at] if self._is_name(each)]
                continue
            if found[-1].token is found[-1].type.token:
                unnamed.append((number, found[-1].token))
        self.advance()
        return found, unnamed, tuple(unknown)

    def _parameter(self) -> tree.Declarator:
        """Read one parameter. Where a prototype leaves its name out, the type stands for it."""
        self.refuse_old_dialect()
        before = self.attributes()
        if self.text == "...":
            self.fail("a varying number of arguments is not supported", "one function for each number of them")
        if not self.is_type(self.token) and self.text != "register":
            self.fail_type("the type of a parameter")
        storage: list[Token] = []
        base = self.specifiers(storage)
        for each in storage:
            if each.text != "register":
                self.fail_at(each, f"{each.text} on a parameter", "the type and the name alone")
        start = self.at
        type_ = self.with_pointers(base)
        if self.text in (",", ")", "["):
            return tree.Declarator(type_.token, self.with_shape(type_), (), None)
        self.return_to(start)
        if self.peek().text == "*" and self.text == "(":
            self._refuse_abstract_pointer()
        found = self.declarator(base, "a name")
        if self.text == "(":
            self.fail("parameters that are functions are not supported", "a call of the function, or #define")
        return tree.Declarator(found.token, found.type, (*before, *found.attributes), None)

    def _refuse_abstract_pointer(self) -> None:
        """Refuse `(*)(…)`, the type of a pointer to a function whose name a prototype leaves out."""
        at = 1
        while self.peek(at).text == "*":
            at += 1
        if self.peek(at).text == ")":
            self.fail("pointers to functions are not supported", "a call of the function, or #define")

    def _skip_to(self, ends: str, never: tuple[str, ...]) -> None:
        """Go to one of some characters outside of brackets; leave the statement if something of `never` comes before."""
        depth = 0
        while depth > 0 or self.text not in tuple(ends):
            if self.token.kind is END or self.text in never:
                raise SyntaxAbort
            depth += (self.text in ("(", "[")) - (self.text in (")", "]"))
            self.advance()

    # Attributes

    def storage(self) -> list[tree.Attribute]:
        """Read what stands before a type: `__global__`, and what means nothing here, such as static and inline."""
        found = []
        while (self.text in STORAGE and self.text != "typedef") or self.text.startswith("__attribute__"):
            if self.text in FUNCTION_MARKS:
                found.append(tree.Attribute(self.token, self.text.strip("_"), ()))
                self.advance()
            elif self.text.startswith("__attribute__"):
                found += self.attributes()
            else:
                self.advance()
        return found

    def attributes(self) -> list[tree.Attribute]:
        """Read attributes in either spelling."""
        found: list[tree.Attribute] = []
        while (self.text.startswith("__") and self.text not in QUALIFIERS - set(_RESTRICT)) or self.text == "restrict":
            if self.text == "__attribute__":
                self.advance()
                self.expect("(")
                self.expect("(")
                while self.text != ")":
                    found += self._attribute()
                    self.accept(",")
                self.advance()
                self.expect(")")
            else:
                found += self._attribute()
        return found


    def _attribute(self) -> list[tree.Attribute]:
        """Read one attribute; nothing for one that has no effect."""
        token = self.advance()
        name = token.text.strip("_")
        name = _SYNONYMS.get(name, name)
        if name in _WITHOUT_EFFECT:
            return []
        if name not in ATTRIBUTES:
            self.fail_at(token, f"{token.text} is no attribute", ", ".join(f"__{each}" for each in ATTRIBUTES))
        arguments = []
        if ATTRIBUTES[name]:
            self.expect("(", f"and the argument of {token.text}")
            arguments.append(self.conditional())
            self.expect(")")
        return [tree.Attribute(token, name, tuple(arguments))]

    def refuse_old_dialect(self) -> None:
        """Leave the statement, with an error, if it begins with a name of the dialect of early 2019."""
        token, following = self.token, self.peek()
        for each in (token, following):
            is_old = each.text in OLD_DIALECT and not self.is_declared(each.text)  # the text may give an old name a meaning
            if is_old and (each is token or token.text in ("const", "restrict")):
                fix = OLD_DIALECT[each.text]
                self.fail_at(each, f"{each.text} is of the dialect of early 2019, another language", fix)
        if token.text == "restrict":
            self.fail("restrict before a type is of the dialect of early 2019, another language", "T *p __noalias")


def is_attribute(text: str, name: str = "") -> bool:
    """Return whether a name is an attribute in the short spelling, or `__attribute__`; of one name, if it is given."""
    if not text.startswith("__"):
        return False
    found = _SYNONYMS.get(text.strip("_"), text.strip("_"))
    return found == name if name else found in ATTRIBUTES or found in _WITHOUT_EFFECT or found == "attribute"


def declared_names(tokens: Sequence[Token]) -> list[tuple[Token, str]]:
    """Return what a declaration with an error may declare: names, and `struct name`, each with its token.

    Variables stand behind a type, a star or a comma outside of brackets, and constants of an enum within its braces.
    """
    is_enum = any(each.text == "enum" for each in tokens[:4])
    found: list[tuple[Token, str]] = []
    depth, is_value = 0, False
    previous: Token | None = None
    for each in tokens:
        text, before = each.text, previous.text if previous is not None else ""
        if text in ("(", "[", "{", ")", "]", "}"):
            depth += 1 if text in ("(", "[", "{") else -1
        elif text in ("=", ",") and depth <= 0:
            is_value = text == "="
        elif each.kind is NAME and text not in KEYWORDS:
            is_constant = is_enum and depth == 1 and before in ("{", ",")
            is_behind_type = before in (",", "*", "}") or (previous is not None and previous.kind is NAME)
            if before in ("struct", "union"):
                found.append((each, f"{before} {text}"))
            elif is_constant or (before != "enum" and depth == 0 and is_behind_type and not is_value):
                found.append((each, text))
        previous = each
    if depth > 0:  # a bracket is not closed, and it cannot be told where: `int a = (1, b = 2;`
        behind = zip(tokens, tokens[1:], tokens[2:], strict=False)
        found += [(name, name.text) for first, name, last in behind if first.text in (",", "*") and last.text == "="]
    return found


__all__ = ["ATTRIBUTES", "FUNCTION_MARKS", "OLD_DIALECT", "DeclaratorParser", "declared_names", "is_attribute"]
