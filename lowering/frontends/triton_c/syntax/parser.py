"""Reads functions and statements into a syntax tree, and goes on behind errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..reading.diagnostics import Diagnostics
from ..reading.source import END, NAME, STRING, Token
from . import tree
from .declarators import FUNCTION_MARKS, OLD_DIALECT, DeclaratorParser, declared_names
from .token_stream import KEYWORDS, STORAGE, UNSUPPORTED, SyntaxAbort

_STATIC_ASSERTS = ("_Static_assert", "static_assert")
_CONTROL = frozenset(["if", "for", "while", "do", "switch", "{"])
"""What begins a statement that may end with a brace."""
T = TypeVar("T")


def parse(tokens: Sequence[Token], diagnostics: Diagnostics) -> list[tree.Statement]:
    """Return what stands in a text: functions, declarations, enumerations. Errors are added to `diagnostics`."""
    return _Parser(tokens, diagnostics).text_()


class _Parser(DeclaratorParser):
    _is_unclosed = False
    """Whether a brace that is not closed has been told of."""

    def text_(self) -> list[tree.Statement]:
        found: list[tree.Statement] = []
        is_lost = False  # behind an error outside of functions, in what may have been the rest of one
        self._inner: list[tree.Function] = []
        while self.token.kind is not END:
            before = self.at
            is_statement = self.token.kind is not NAME or (self.text in KEYWORDS and not self._begins_declaration())
            if is_lost and is_statement:
                self._skip(before, is_external=True)
                continue
            try:
                if not self.accept(";"):
                    item = self._external()
                    is_lost = is_lost and not isinstance(item, tree.Function)
                    if not (is_lost and isinstance(item, tree.Declaration) and not item.is_typedef):
                        found.append(item)
            except SyntaxAbort:
                if self.tokens[before].kind is NAME:  # else it is no declaration, but lies behind a brace too many
                    self.diagnostics.has_gaps = True
                is_lost, self.depth = True, 0
                del self.types[1:], self.hidden[1:]
                self._skip(before, is_external=True)
                while self.accept("}"):
                    pass
            if self.at == before and self.token.kind is not END:
                self.advance()
        return found + self._inner

    # Going on behind errors

    def _skip(self, start: int, is_external: bool = False) -> None:
        """Go behind a statement that begins at `start`: its semicolon, or the brace that closes it."""
        end = self.at
        self.return_to(start)
        has_block = is_external or self.text in _CONTROL
        opened: list[str] = []
        while self.token.kind is not END:
            text, is_behind = self.text, self.at >= end
            if text == "{":
                opened.append(self._kind_of_brace(start, has_block, opened[-1:] == ["values"]))
            elif text == "}":
                if not opened and is_behind and not is_external:
                    return
                kind = opened.pop() if opened else "block"
                if not opened and kind == "block" and is_behind and self.peek().text != "else":
                    self.advance()
                    return
            elif text == ";" and is_behind and not {"block", "members"} & set(opened):
                self.advance()
                return
            self.advance()

    def _kind_of_brace(self, start: int, has_block: bool, is_nested: bool) -> str:
        """Return what the brace at hand opens: "values", the "members" of a type, or a "block" of statements."""
        before = [each.text for each in self.tokens[max(start, self.at - 2) : self.at]]
        if is_nested or before[-1:] in (["="], [","]):
            return "values"
        if {"struct", "union", "enum"} & set(before):
            return "members"
        return "block" if has_block or before[-1:] != [")"] else "values"

    def _begins_declaration(self) -> bool:
        return self.is_type(self.token) or self.text in STORAGE or self.text in _STATIC_ASSERTS

    def _recovering(self) -> tree.Statement:
        """Read a statement. One with an error is left out, but for the names that it may declare."""
        start, depth, scopes = self.at, self.depth, len(self.types)
        may_declare = self.is_type(self.token) or self.text in STORAGE or self._is_declaration_of_unknown_type()
        try:
            return self._statement()
        except SyntaxAbort:
            self.depth = depth
            del self.types[scopes:], self.hidden[scopes:]
            self._skip(start)
            return self._broken(start, may_declare)

    def _broken(self, start: int, may_declare: bool) -> tree.Broken:
        """Return what stands for the tokens from `start` on."""
        token, tokens = self.tokens[start], self.tokens[start : self.at]
        names = declared_names(tokens) if may_declare else []
        is_typedef = any(each.text == "typedef" for each in tokens[:4])
        for _, name in names:
            self.declare(name, is_typedef and " " not in name)
        return tree.Broken(token, tuple(names))

    def _in_parentheses(self, read: Callable[[], T], what: str, behind: str, otherwise: T) -> T:
        """Read what stands in the parentheses behind a keyword. If it has an error, go behind them; return `otherwise`."""
        start, depth, scopes = self.at, self.depth, len(self.types)
        self.expect("(", what)
        try:
            found = read()
            self.expect(")", behind)
        except SyntaxAbort:
            self.depth = depth
            del self.types[scopes:], self.hidden[scopes:]
            if not self._close(start, 2 if what.endswith("for") else 0):
                raise
            return otherwise
        return found

    def _close(self, start: int, semicolons: int) -> bool:
        """Go behind the parenthesis that closes the one at `start`, or to a brace before it; False if neither comes.

        semicolons: how many may come before it.
        """
        end = self.at
        self.return_to(start)
        opened = 0
        while self.token.kind is not END:
            text, is_behind = self.text, self.at >= end
            semicolons -= text == ";"
            if is_behind and (text in ("{", "}") or semicolons < 0):
                return text == "{"
            opened += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            if opened == 0 and is_behind:
                self.advance()
                return True
            self.advance()
        return False

    # Functions and declarations

    def _external(self) -> tree.Statement:
        if self.text in _STATIC_ASSERTS:
            return self._static_assert()
        start = self.at
        attributes = self.storage()
        if self.text == "typedef":
            self.return_to(start)
            return self._declaration()
        self.refuse_old_dialect()
        if self.text == "}":
            self.fail("this brace closes nothing", "a brace that opens before it, or none")
        if not self.is_type(self.token):
            if self.peek().kind is NAME or self.peek().text == "*":
                self.fail_type("a type")
            self.fail(f"expected a function, got {self.shown()}", UNSUPPORTED.get(self.text, "__global__ void name(…) { … }"))
        self.return_to(start)
        return self._declaration(attributes, is_external=True)

    def body(self) -> tree.Compound:
        """Read the body of a function, whose parameters are in the current scope."""
        return self._compound(own_scope=False)

    def _declaration(self, attributes: Sequence[tree.Attribute] = (), is_external: bool = False) -> tree.Statement:
        """Read variables, types, prototypes, or outside of functions one with a body. attributes: those of functions."""
        token = self.token
        storage: list[Token] = []
        while self.text in STORAGE or self.text.startswith("__attribute__"):
            if self.text in STORAGE:
                storage.append(self.advance())
            else:
                self.attributes()
        if self.peek().text == "tunable":
            self.refuse_old_dialect()
        before = len(storage)
        base = self.specifiers(storage)
        is_typedef = any(each.text == "typedef" for each in storage)
        lasting = next((each for each in storage if each.text in ("static", "extern")), None)
        marks = [tree.Attribute(each, each.text.strip("_"), ()) for each in storage[before:] if each.text in FUNCTION_MARKS]
        attributes = (*attributes, *marks, *self.storage())
        if self.text == ";":
            return self._without_names(token, base)
        found: list[tree.Declarator] = []
        prototypes: list[tree.Function] = []
        while True:
            what = "the name of a function" if is_external and self.peek().text == "(" else "a name"
            name = self.declarator(base, what, is_typedef)
            if self.text == "(":
                if is_typedef:
                    self.fail("types of functions are not supported", "the types of its parameters in each function")
                function = self.function(name, attributes, is_external and not found and not prototypes)
                if function.body is not None and is_external:
                    return function
                if function.body is not None:
                    self._is_unclosed = True
                    message = f"function {function.name} is defined within another function"
                    self.diagnostics.error(function.token, message, "a closing brace before it")
                    self._inner.append(function)
                    return tree.Declaration(token, (), False)
                prototypes.append(function)
            else:
                if is_typedef and self.text == "=":
                    self.fail(f"a value for {name.name}, which is the name of a type", "no typedef before it")
                if lasting is not None and not is_external and not (lasting.text == "static" and name.type.constant[-1]):
                    self._refuse_lasting(lasting, name.name)
                value = self.initial_value() if self.accept("=") else None
                if is_typedef:
                    self.declare(name.name, is_type=True)
                found.append(tree.Declarator(name.token, name.type, name.attributes, value))
            if not self.accept(","):
                break
        self.expect_semicolon("behind a declaration")
        return tree.Declaration(token, tuple(found), is_typedef, tuple(prototypes))

    def _refuse_lasting(self, token: Token, name: str) -> None:
        """Refuse a local variable that is `static` or `extern`: there are none that outlive a function."""
        message = f"the local variable {name} is {token.text}, and no variable outlives a program instance"
        fix = f"a pointer parameter, or no {token.text}" if token.text == "static" else "a parameter"
        self.diagnostics.error(token, message, fix)

    def _without_names(self, token: Token, base: tree.TypeName) -> tree.Statement:
        """Read the end of a declaration that has no names, such as `struct point;` or the definition of one."""
        self.advance()
        if base.definition is not None:
            return base.definition
        is_announced = base.base.startswith(("struct ", "union "))
        if not is_announced and base.token.text != "enum":
            self.diagnostics.warning(base.token, "this declaration declares nothing", "a name behind the type")
        return tree.Declaration(token, (), False, (), base.base if is_announced else "")

    def _static_assert(self) -> tree.Statement:
        token = self.advance()
        self.expect("(")
        condition = self.conditional()
        message = ""
        if self.accept(","):
            if self.token.kind is not STRING:
                self.fail(f"expected the message of _Static_assert, got {self.shown()}")
            message = self.string().text[1:-1]
        self.expect(")")
        self.expect_semicolon("behind _Static_assert")
        return tree.StaticAssert(token, condition, message)

    # Statements

    def _compound(self, own_scope: bool = True) -> tree.Compound:
        token = self.expect("{")
        if own_scope:
            self.open_scope()
        found = []
        while self.text != "}":
            if self.token.kind is END:
                if not self._is_unclosed:
                    self.diagnostics.error(token, "this brace is not closed", "a closing brace")
                self._is_unclosed = True
                break
            found.append(self._recovering())
        self.advance()
        if own_scope:
            self.close_scope()
        return tree.Compound(token, tuple(found))

    def _statement(self) -> tree.Statement:
        text = self.text
        if text == "__constant__":
            self.fail("constant memory is declared outside of functions", "the declaration before the function")
        if text == "{":
            self.deeper()
            found: tree.Statement = self._compound()
            self.depth -= 1
            return found
        reader = _STATEMENTS.get(text)
        if reader is not None:
            self.deeper()
            found = reader(self)
            self.depth -= 1
            return found
        if self.is_type(self.token) or text in STORAGE:
            return self._declaration()
        if text == "_Static_assert" or (text == "static_assert" and self.peek().text == "("):
            return self._static_assert()
        if text in UNSUPPORTED:
            self.fail(UNSUPPORTED[text])
        token = self.token
        if self.accept(";"):
            return tree.Evaluation(token, None)
        self.refuse_old_dialect()
        if self._is_declaration_of_unknown_type():
            self.fail_type("a type")
        if self.peek().text == ":" and text not in KEYWORDS:
            message, fix = "labels are not supported: there is no goto", UNSUPPORTED["goto"].partition("; ")[2]
            self.diagnostics.error(token, message, fix)
            self.advance()
            self.advance()
            return tree.Evaluation(token, None) if self.text == "}" else self._statement()
        expression = self.expression()
        self.expect_semicolon("behind an expression")
        return tree.Evaluation(expression.token, expression)

    def _is_declaration_of_unknown_type(self) -> bool:
        """Return whether a statement can only be a declaration, whose type is not known: `T x = 1;`, `T *p = q;`."""
        if self.token.kind is not NAME or self.text in KEYWORDS or self.is_declared(self.text):
            return False
        at = 1
        while self.peek(at).text == "*":
            at += 1
        name, behind = self.peek(at), self.peek(at + 1).text
        if name.kind is not NAME or name.text in KEYWORDS:
            return False
        return at == 1 or (behind in ("=", "[", ";", ",") and self.missing_define() != "")

    def _scoped(self) -> tree.Statement:
        """Read the statement that a loop or a branch controls."""
        self.open_scope()
        found = self._recovering()
        self.close_scope()
        return found

    def _condition(self, keyword: str, what: str = "the condition of") -> tree.Expression:
        """Read an expression in parentheses."""
        otherwise: tree.Expression = tree.Erroneous(self.token)
        return self._in_parentheses(self.expression, f"and {what} {keyword}", f"behind {what} {keyword}", otherwise)

    def _if(self) -> tree.Statement:
        """Read an `if` with each `else if` behind it, without recursion: their authors do not nest them."""
        chain: list[tuple[Token, tree.Expression, tree.Statement]] = []
        second: tree.Statement | None = None
        while True:
            start, depth, scopes = self.at, self.depth, len(self.types)
            token = self.advance()
            try:
                condition = self._condition("if")
            except SyntaxAbort:
                if not chain:
                    raise
                self.depth = depth  # what stands before it is whole
                del self.types[scopes:], self.hidden[scopes:]
                self._skip(start)
                second = self._broken(start, may_declare=False)
                break
            chain.append((token, condition, self._scoped()))
            if not self.accept("else"):
                break
            if self.text != "if":
                second = self._scoped()
                break
        for token, condition, first in reversed(chain):
            second = tree.If(token, condition, first, second)
        assert second is not None
        return second

    def _for(self) -> tree.Statement:
        token = self.advance()
        self.open_scope()
        begin, scopes = self.at + 1, len(self.types)
        what = "the header of for"
        header = self._in_parentheses(self._for_header, f"and {what}", f"behind {what}", None)
        if header is None:
            header = self._broken_header(begin), None, None
        assert len(self.types) == scopes
        body = self._scoped()
        self.close_scope()
        return tree.For(token, *header, body)

    def _broken_header(self, begin: int) -> tree.Statement:
        """Return what stands for the header of a loop that has an error: the names that it may declare."""
        tokens = self.tokens[begin : self.at]
        end = next((number for number, each in enumerate(tokens) if each.text == ";"), len(tokens) - 1)
        names = declared_names(tokens[:end]) if tokens and tokens[0].kind is NAME else []
        for _, name in names:
            self.declare(name, is_type=False)
        return tree.Broken(self.tokens[begin], tuple(names))

    def _for_header(self) -> tuple[tree.Statement, tree.Expression | None, tree.Expression | None]:
        """Read start, condition and step of a loop."""
        start: tree.Statement
        if self.is_type(self.token):
            start = self._declaration()
        elif self._is_declaration_of_unknown_type():
            self.fail_type("a type")
        else:
            first = self.token
            start = tree.Evaluation(first, None if self.text == ";" else self.expression())
            self.expect(";", "behind the start of for")
        condition = None if self.text == ";" else self.expression()
        self.expect(";", "behind the condition of for")
        step = None if self.text == ")" else self.expression()
        return start, condition, step

    def _while(self) -> tree.Statement:
        token = self.advance()
        condition = self._condition("while")
        return tree.While(token, condition, self._scoped())

    def _do(self) -> tree.Statement:
        token = self.advance()
        body = self._scoped()
        self.expect("while", "behind the body of do")
        condition = self._condition("while")
        self.expect_semicolon("behind do … while (…)")
        return tree.DoWhile(token, condition, body)

    def _switch(self) -> tree.Statement:
        token = self.advance()
        subject = self._condition("switch", "the subject of")
        if self.text != "{":
            self.fail(f"expected {{ and the cases of switch, got {self.shown()}")
        return tree.Switch(token, subject, self._compound())

    def _case(self) -> tree.Statement:
        token = self.advance()
        value = self.conditional() if token.text == "case" else None
        self.expect(":", f"behind {token.text}")
        return tree.Case(token, value)

    def _break(self) -> tree.Statement:
        token = self.advance()
        self.expect_semicolon("behind break")
        return tree.Break(token)

    def _continue(self) -> tree.Statement:
        token = self.advance()
        self.expect_semicolon("behind continue")
        return tree.Continue(token)

    def _return(self) -> tree.Statement:
        token = self.advance()
        value = None if self.text in (";", "}") else self.expression()
        self.expect_semicolon("behind return")
        return tree.Return(token, value)


_STATEMENTS = {
    "if": _Parser._if, "for": _Parser._for, "while": _Parser._while, "do": _Parser._do, "switch": _Parser._switch,
    "case": _Parser._case, "default": _Parser._case, "break": _Parser._break, "continue": _Parser._continue,
    "return": _Parser._return,
}  # fmt: skip


__all__ = ["OLD_DIALECT", "parse"]
