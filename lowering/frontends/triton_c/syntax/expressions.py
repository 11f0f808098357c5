"""Reads expressions, by recursive descent and the levels of precedence.

Ranges bind tighter than all other binary operators, and `@` comes next: `p * T + 0 ... T` is `p*T + (0 ... T)`.
"""

from __future__ import annotations

from ..reading.source import CHARACTER, NAME, NUMBER, STRING, Token
from . import tree
from .token_stream import BASIC_TYPES, KEYWORDS, MAX_NESTED, QUALIFIERS, UNSUPPORTED, TokenStream

_OPERATORS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("@",), ("...",),
)  # fmt: skip
_LEVELS = {operator: level for level, operators in enumerate(_OPERATORS) for operator in operators}
ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="])
_PREFIXES = frozenset(["+", "-", "!", "~", "*", "^", "++", "--"])
REDUCTIONS = frozenset(["+", "max", "min", "*", "&", "|"])
_INTEGERS = {
    ("char",): "int8", ("short",): "int16", ("int",): "int32", (): "int32", ("long",): "int64", ("long", "long"): "int64",
}  # fmt: skip


class ExpressionParser(TokenStream):
    """Reads expressions and the names of types."""

    def expression(self) -> tree.Expression:
        """Read an expression, commas included."""
        found = self.assignment()
        while self.text == ",":
            operator = self.advance()
            found = tree.Binary(operator, found, self.assignment())
        return found

    def assignment(self) -> tree.Expression:
        """Read an expression without commas outside of brackets."""
        target = self.conditional()
        if self.text not in ASSIGNMENTS:
            return target
        self.deeper()
        operator = self.advance()
        if self.text == "{":
            self.fail("brace lists are not supported", "a scalar, which fills a block, or a range 0 ... N")
        found = tree.Assignment(operator, target, self.assignment())
        self.depth -= 1
        return found

    def conditional(self) -> tree.Expression:
        """Read a conditional expression, or one that binds tighter: a constant expression."""
        condition = self.binary(0)
        if self.text != "?":
            return condition
        self.deeper()
        token = self.advance()
        first = self.expression()
        self.expect(":", "of this conditional expression")
        second = self.conditional()
        self.depth -= 1
        return tree.Conditional(token, condition, first, second)

    def binary(self, level: int) -> tree.Expression:
        """Read operators of a level of precedence and of those that bind tighter, from left to right."""
        left = self.cast()
        while (found := _LEVELS.get(self.text, -1)) >= level:
            operator = self.advance()
            left = tree.Binary(operator, left, self.binary(found + 1))
        return left

    def cast(self) -> tree.Expression:
        """Read an operand with its prefixes and casts."""
        if self.text == "(" and self.is_type(self.peek()):
            self.deeper()
            token = self.advance()
            type_ = self.type_name()
            self.expect(")", "behind the type of a cast")
            found: tree.Expression = tree.Cast(token, type_, self.cast())
            self.depth -= 1
            return found
        if self.text in _PREFIXES:
            self.deeper()
            token = self.advance()
            is_masked = token.text == "*" and self.text == "?"
            found = self._masked(token) if is_masked else tree.Unary(token, self.cast())
            self.depth -= 1
            return found
        if self.text == "&":
            self.fail("variables have no addresses: unary & is not supported", "pass the value, or a pointer parameter")
        if self.text == "sizeof":
            token = self.advance()
            if self.text == "(" and self.is_type(self.peek()):
                self.advance()
                found = tree.SizeOf(token, self.type_name())
                self.expect(")")
                return found
            return tree.SizeOf(token, self.cast())
        return self.postfix()

    def _masked(self, token: Token) -> tree.Expression:
        self.advance()
        self.expect("(", "and the mask behind *?")
        mask = self.expression()
        self.expect(")", "behind the mask")
        if self.text == "*" and self.peek().text != "?":
            self.fail("*?(m) already dereferences", "write *?(m)p")
        return tree.MaskedDereference(token, mask, self.cast())

    def postfix(self) -> tree.Expression:
        """Read a primary expression with subscripts, calls, `++` and `--`."""
        found = self.primary()
        for _ in range(MAX_NESTED):
            if self.text == "[":
                found = self._subscript(found)
            elif self.text == "(":
                token = self.advance()
                self.deeper()
                arguments: list[tree.Expression] = []
                while self.text != ")":
                    if arguments:
                        self.expect(",", "or ) in the arguments of a call")
                    arguments.append(self.type_name() if self.is_type(self.token) else self.assignment())
                self.advance()
                self.depth -= 1
                found = tree.Call(found.token if isinstance(found, tree.Name) else token, found, tuple(arguments))
            elif self.text in ("++", "--"):
                found = tree.Postfix(self.advance(), found)
            elif self.text in (".", "->"):
                self.fail("members of structs are not supported", "separate variables")
            else:
                return found
        self.diagnostics.fatal(self.token, f"more than {MAX_NESTED} subscripts and calls of one another's results")

    def _subscript(self, operand: tree.Expression) -> tree.Expression:
        token = self.advance()
        self.deeper()
        entries = []
        while True:
            entries.append(self._entry())
            if not self.accept(","):
                break
        self.expect("]", "at the end of a subscript")
        self.depth -= 1
        return tree.Subscript(token, operand, tuple(entries))

    def _entry(self) -> tree.Entry:
        token = self.token
        is_whole = self.peek().text in (",", "]")
        if is_whole and (self.text in (":", "newaxis", "-") or self.text in REDUCTIONS):
            return tree.Entry(self.advance(), token.text, None)
        if self.text == "^":
            self.advance()
            return tree.Entry(token, "^", self.conditional())
        if self.text == "]":
            self.fail("an empty subscript", "one entry for each axis: `:`, newaxis or a reduction")
        value = None if self.text == ":" else self.conditional()
        if self.text == ":":
            while self.text not in (",", "]", ";", "}") and self.at < len(self.tokens) - 1:
                self.advance()
            return tree.Entry(token, "slice", value)
        return tree.Entry(token, "index", value)

    def primary(self) -> tree.Expression:
        """Read a name, a constant, or an expression in parentheses."""
        token = self.token
        if self.text == "(":
            self.advance()
            self.deeper()
            found = self.expression()
            self.expect(")")
            self.depth -= 1
            return found
        if token.kind in (NUMBER, CHARACTER) or self.text in ("true", "false"):
            return tree.Literal(self.advance())
        if token.kind is STRING:
            return tree.Literal(self.advance())
        if self.text == "bitcast" and self.peek().text == "<":
            self.advance()
            self.advance()
            type_ = self.type_name()
            self.expect(">", "behind the type of a bitcast")
            self.expect("(", "and the operand of a bitcast")
            found = self.expression()
            self.expect(")")
            return tree.Bitcast(token, type_, found)
        if token.kind is NAME and self.text not in KEYWORDS:
            return tree.Name(self.advance())
        if self.text == "{":
            self.fail("brace lists are not supported", "a scalar, which fills a block, or a range 0 ... N")
        if self.text == "@":
            self.fail("@ before an expression: the dialect of early 2019 wrote @mask *p = v;", "*?(mask)p = v;")
        self.fail(f"expected an expression, got {self.shown()}", UNSUPPORTED.get(self.text, ""))

    def type_name(self) -> tree.TypeName:
        """Read the name of a type, its pointers and its shape: T, T*, T[TM, TN], T*[TM, TN]."""
        base = self.specifiers()
        return self.with_shape(self.with_pointers(base))

    def specifiers(self) -> tree.TypeName:
        """Read the name of an element type with its qualifiers, in any order."""
        token = self.token
        is_constant = False
        names: list[str] = []
        while True:
            text = self.text
            if text in UNSUPPORTED:
                self.fail(UNSUPPORTED[text])
            if text in QUALIFIERS:
                is_constant = is_constant or text in ("const", "__constant__")
            elif text in BASIC_TYPES or (not names and self.is_type(self.token)):
                token = token if names else self.token
                names.append(text)
            else:
                break
            self.advance()
        if not names:
            self.fail(f"expected a type, got {self.shown()}")
        return tree.TypeName(token, self._base(token, names), (is_constant,), None)

    def _base(self, token: Token, names: list[str]) -> str:
        """Return the one name of the element type that several names may mean: `unsigned long int` is uint64."""
        signs = [each for each in names if each in ("signed", "unsigned")]
        rest = [each for each in names if each not in ("signed", "unsigned")]
        if not signs and len(rest) == 1 and rest[0] not in ("char", "short", "int", "long"):
            return {"_Bool": "bool"}.get(rest[0], rest[0])
        plain = tuple(each for each in rest if each != "int" or len(rest) == 1)
        if plain not in _INTEGERS or len(signs) > 1:
            shown = " ".join(names)
            self.fail_at(token, f"{shown} is no type", "double" if shown == "long double" else "")
        return ("u" if signs == ["unsigned"] else "") + _INTEGERS[plain]

    def with_pointers(self, base: tree.TypeName) -> tree.TypeName:
        """Read the stars behind an element type."""
        constant = list(base.constant)
        while self.text == "*":
            self.advance()
            is_constant = False
            while self.text in ("const", "volatile"):
                is_constant = is_constant or self.text == "const"
                self.advance()
            constant.append(is_constant)
        return tree.TypeName(base.token, base.base, tuple(constant), None)

    def with_shape(self, type_: tree.TypeName) -> tree.TypeName:
        """Read the shape behind a type or a declared name, if there is one."""
        if self.text != "[":
            return type_
        token = self.advance()
        if self.text == "]":
            self.fail("an empty shape", "the extents of a block, as in x[16, 32]")
        self.deeper()
        extents = [self.conditional()]
        while self.accept(","):
            extents.append(self.conditional())
        self.depth -= 1
        self.expect("]", "at the end of a shape")
        if self.text == "[":
            self.fail_at(token, "arrays of arrays are not supported", "the extents of a block, as in x[16, 32]")
        return tree.TypeName(type_.token, type_.base, type_.constant, tuple(extents))


__all__ = ["ASSIGNMENTS", "REDUCTIONS", "ExpressionParser"]
