"""Reads expressions, by recursive descent and the levels of precedence.

Ranges bind tighter than all other binary operators, and `@` comes next: `p * T + 0 ... T` is `p*T + (0 ... T)`.
"""

from __future__ import annotations

from typing import NoReturn

from ..reading.source import CHARACTER, NAME, NUMBER, STRING, Token
from . import tree
from .token_stream import KEYWORDS, MAX_NESTED, UNSUPPORTED
from .type_names import TypeNameParser

_OPERATORS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("@",), ("...",),
)  # fmt: skip
_LEVELS = {operator: level for level, operators in enumerate(_OPERATORS) for operator in operators}
ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="])
_PREFIXES = frozenset(["+", "-", "!", "~", "*", "^", "++", "--"])
MAX_ARMS = 1024
"""Conditional expressions of which each is the last arm of another."""
REDUCTIONS = frozenset(["+", "max", "min", "*", "&", "|"])


class ExpressionParser(TypeNameParser):
    """Reads expressions."""

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
        chain: list[tuple[Token, tree.Expression, tree.Expression]] = []
        while self.text == "?":  # `a ? x : b ? y : z` is no deeper than `a ? x : z`
            token = self.advance()
            chain.append((token, condition, self.expression()))
            self.expect(":", "of this conditional expression")
            condition = self.binary(0)
            if len(chain) > MAX_ARMS:
                message = f"more than {MAX_ARMS} conditional expressions, of which each is the last arm of another"
                self.diagnostics.fatal(token, message, "if and else, or a table in constant memory")
        self.depth -= 1
        found = condition
        for token, condition, first in reversed(chain):
            found = tree.Conditional(token, condition, first, found)
        return found

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
            found: tree.Expression
            if self.text == "{":
                found = self.members_of(tree.CompoundLiteral(token, type_, self.braces()))
            else:
                found = tree.Cast(token, type_, self.cast())
            self.depth -= 1
            return found
        if self.text in _PREFIXES:
            self.deeper()
            token = self.advance()
            is_masked = token.text == "*" and self.text == "?"
            if token.text == "*" and self.text == "(":
                self._refuse_plain_mask(token)
            found = self._masked(token) if is_masked else tree.Unary(token, self.cast())
            self.depth -= 1
            return found
        if self.text == "&":
            self.fail("variables have no addresses: unary & is not supported", "pass the value, or a pointer parameter")
        if self.text == "sizeof":
            self.deeper()
            token = self.advance()
            if self.text == "(" and self.is_type(self.peek()):
                self.advance()
                found = tree.SizeOf(token, self.type_name())
                self.expect(")")
            else:
                found = tree.SizeOf(token, self.cast())
            self.depth -= 1
            return found
        return self.postfix()

    def _refuse_plain_mask(self, token: Token) -> None:
        """Refuse `*(mask)p`, where an operand follows what stands in parentheses, and `*(a < b)(p + i)`."""
        at, depth = 1, 1
        while depth and self.at + at < len(self.tokens) - 1:
            depth += (self.peek(at).text == "(") - (self.peek(at).text == ")")
            at += 1
        behind, is_name = self.peek(at), at == 3 and self._is_name(self.peek())
        is_call = behind.text == "(" and not is_name and not any(self.peek(each).text in (".", ",") for each in range(1, at))
        is_cast = self.is_type(self.peek()) or (is_name and self.missing_define(self.peek()))
        if (self._is_name(behind) or is_call) and not is_cast:
            self.fail_at(token, "a mask of * stands behind *?, and what is dereferenced behind it", "*?(mask)p")

    def _masked(self, token: Token) -> tree.Expression:
        self.advance()
        self.expect("(", "and the mask behind *?")
        mask = self.expression()
        self.expect(")", "behind the mask")
        if self.text == "*" and self.peek().text != "?":
            self.fail("*?(m) already dereferences", "write *?(m)p")
        return tree.MaskedDereference(token, mask, self.cast())

    def braces(self) -> tree.Braces:
        """Read initial values in braces: `{1, {2, 3}, .name = 4}`."""
        token = self.expect("{")
        self.deeper()
        entries: list[tuple[tuple[tree.Designator, ...], tree.Expression]] = []
        while self.text != "}":
            if entries:
                self.expect(",", "or } in a list of initial values")
                if self.text == "}":
                    break
            if self.token.kind is NAME and self.peek().text == ":":
                self.fail("name: before an initial value is an old spelling", f".{self.text} =")
            designators: list[tree.Designator] = []
            while (found := self._designator()) is not None:
                designators.append(found)
            if designators:
                self.expect("=", "behind what an initial value is for")
            entries.append((tuple(designators), self.initial_value()))
        self.advance()
        self.depth -= 1
        return tree.Braces(token, tuple(entries))

    def _designator(self) -> tree.Designator | None:
        """Read `.name` or `[1, 2]` before an initial value; None if there is none."""
        if self.text == "." and self.peek().kind is NAME:
            self.advance()
            return tree.Designator(self.identifier("the name of a member"), None)
        if self.text != "[":
            return None
        token = self.advance()
        indices = [self.conditional()]
        while self.accept(","):
            indices.append(self.conditional())
        self.expect("]", "behind the index that an initial value is for")
        return tree.Designator(token, tuple(indices))

    def initial_value(self) -> tree.Expression:
        """Read what a variable or member is initialized with."""
        return self.braces() if self.text == "{" else self.assignment()

    def members_of(self, found: tree.Expression) -> tree.Expression:
        """Read `.a.b` behind an expression."""
        for _ in range(MAX_NESTED):
            if self.text != ".":
                return found
            found = self._member(found)
        self.diagnostics.fatal(self.token, f"more than {MAX_NESTED} members of one another")

    def _member(self, operand: tree.Expression) -> tree.Expression:
        token = self.advance()
        return tree.Member(token, operand, self.identifier("the name of a member"))

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
            elif self.text == ".":
                found = self._member(found)
            elif self.text == "->":
                self.fail("-> of a pointer to a struct, and there are none: structs are values", "v.member of a variable")
            else:
                return found
        self.diagnostics.fatal(self.token, f"more than {MAX_NESTED} subscripts and calls of one another's results")

    def _fail_cast(self, token: Token) -> NoReturn:
        """Leave the statement, with an error at the name of a type of a cast that is not known."""
        self.fail_at(token, f"expected the type of a cast, got {token.text!r}", self.missing_define(token))

    @staticmethod
    def _is_name(token: Token) -> bool:
        return token.kind is NAME and token.text not in KEYWORDS

    def string(self) -> Token:
        """Read a string, or several behind one another, which are one."""
        token = self.advance()
        parts = [token.text[1:-1]]
        while self.token.kind is STRING:
            parts.append(self.advance().text[1:-1])
        if len(parts) == 1:
            return token
        return Token(STRING, f'"{"".join(parts)}"', token.source, token.start, token.is_spaced, False, token.macro)

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
            at = 1
            while self.peek(at).text == "*":
                at += 1
            if at > 1 and self.peek(at).text in (")", "[") and self._is_name(self.token):
                self._fail_cast(self.token)
            found = self.expression()
            self.expect(")")
            self.depth -= 1
            named = found.operand if isinstance(found, tree.Subscript) else found
            is_operand = self.token.kind in (NUMBER, CHARACTER) or self._is_name(self.token)
            if isinstance(named, tree.Name) and is_operand and (named is found or not self.is_declared(named.token.text)):
                self._fail_cast(named.token)
            return found
        if token.kind in (NUMBER, CHARACTER) or self.text in ("true", "false"):
            return tree.Literal(self.advance())
        if token.kind is STRING:
            return tree.Literal(self.string())
        if self.text == "bitcast" and self.peek().text == "<":
            self.deeper()
            self.advance()
            self.advance()
            type_ = self.type_name()
            self.expect(">", "behind the type of a bitcast")
            self.expect("(", "and the operand of a bitcast")
            found = self.expression()
            self.expect(")")
            self.depth -= 1
            return tree.Bitcast(token, type_, found)
        if token.kind is NAME and self.text not in KEYWORDS:
            return tree.Name(self.advance())
        if self.text == "{":
            self.fail("brace lists are not supported", "a scalar, which fills a block, or a range 0 ... N")
        if self.text == "@":
            self.fail("@ before an expression: the dialect of early 2019 wrote @mask *p = v", "*?(mask)p = v")
        self.fail(f"expected an expression, got {self.shown()}", UNSUPPORTED.get(self.text, ""))


__all__ = ["ASSIGNMENTS", "REDUCTIONS", "ExpressionParser"]
