"""Reads functions and statements into a syntax tree, and goes on behind errors."""

from __future__ import annotations

from collections.abc import Sequence

from ..reading.diagnostics import Diagnostics
from ..reading.source import END, NAME, STRING, Token
from . import tree
from .expressions import ExpressionParser
from .token_stream import KEYWORDS, QUALIFIERS, STORAGE, UNSUPPORTED, SyntaxAbort

ATTRIBUTES = {
    "global": 0, "noalias": 0, "readonly": 0, "writeonly": 0, "aligned": 1, "multipleof": 1, "retune": 0,
}  # fmt: skip
"""Attributes and how many arguments they take."""
_RESTRICT = ("restrict", "__restrict__", "__restrict")
_SYNONYMS = {"restrict": "noalias", "kernel": "global"}
OLD_DIALECT = {
    "read_only": "T *p __readonly", "write_only": "T *p __writeonly", "align": "T *p __aligned(N)",
    "multiple_of": "int n __multipleof(N)", "tunable": "#define, or a list in defines", "fp16": "half", "fp32": "float",
    "fp64": "double", "int1": "bool", "get_range_id": "get_program_id(axis) * T + 0 ... T",
}  # fmt: skip
"""Names of the dialect of early 2019, and what is said now."""


def parse(tokens: Sequence[Token], diagnostics: Diagnostics) -> list[tree.Statement]:
    """Return what stands in a text: functions, declarations, enumerations. Errors are added to `diagnostics`."""
    return _Parser(tokens, diagnostics).text_()


class _Parser(ExpressionParser):
    def text_(self) -> list[tree.Statement]:
        found: list[tree.Statement] = []
        while self.token.kind is not END:
            before = self.at
            try:
                if not self.accept(";"):
                    found.append(self._external())
            except SyntaxAbort:
                self.diagnostics.has_gaps = True
                self.depth = 0
                del self.types[1:], self.hidden[1:]
                self._skip(is_external=True)
            if self.at == before and self.token.kind is not END:
                self.advance()
        return found

    def _skip(self, is_external: bool = False) -> None:
        """Go behind the statement at hand: its semicolon, or the brace that closes it."""
        depth = 0
        while self.token.kind is not END:
            text = self.text
            if text == "{":
                depth += 1
            elif text == "}":
                if not depth and not is_external:
                    return
                depth -= 1
                if depth <= 0:
                    self.advance()
                    return
            elif text == ";" and not depth:
                self.advance()
                return
            self.advance()

    # Functions

    def _external(self) -> tree.Statement:
        if self.text == "_Static_assert":
            return self._declaration()
        start = self.at
        attributes = self._storage()
        if self.text == "typedef":
            return self._declaration()
        self._refuse_old_dialect()
        reports = self.diagnostics.reports
        if not self.is_type(self.token):
            if self.peek().kind is NAME or self.peek().text == "*":
                self.fail_type("a type")
            self.fail(f"expected a function, got {self.shown()}", UNSUPPORTED.get(self.text, "__global__ void name(…) { … }"))
        base = self.specifiers()
        if self.text == ";":
            self.return_to(start)
            return self._declaration()
        base = self.with_pointers(base)
        attributes += self._storage()
        if self.peek().text != "(" or self.text.strip("_") in ATTRIBUTES:  # else it is the name, such as __debug_barrier
            attributes += self._attributes()
        name = self.identifier("the name of a function")
        if not self.accept("("):
            self.return_to(start)
            return self._declaration()
        self.open_scope()
        parameters, unnamed = self._parameters()
        result = self.with_shape(base)
        attributes += self._attributes()
        body = None
        if not self.accept(";"):
            if self.text != "{":
                self.fail(f"expected the body of function {name.text}, got {self.shown()}")
            for number, type_ in unnamed:
                message = f"parameter {number} of function {name.text} has no name, which prototypes alone leave out"
                self.diagnostics.error(type_, message, "a name behind its type")
            body = self._compound(own_scope=False)
        self.close_scope()
        is_broken = self.diagnostics.reports > reports
        return tree.Function(name, tuple(attributes), result, tuple(parameters), body, is_broken)

    def _storage(self) -> list[tree.Attribute]:
        """Read what stands before a type: `__global__`, and what means nothing here, such as static and inline."""
        found = []
        while (self.text in STORAGE and self.text != "typedef") or self.text.startswith("__attribute__"):
            if self.text == "__global__":
                found.append(tree.Attribute(self.advance(), "global", ()))
            elif self.text == "__device__":
                found.append(tree.Attribute(self.advance(), "device", ()))
            elif self.text.startswith("__attribute__"):
                found += self._attributes()
            else:
                self.advance()
        return found

    def _parameters(self) -> tuple[list[tree.Declarator], list[tuple[int, Token]]]:
        """Read parameters, and go on behind errors in one; return them, and the numbers and types of those without a name."""
        found: list[tree.Declarator] = []
        unnamed: list[tuple[int, Token]] = []
        number = 0
        if self.text == "void" and self.peek().text == ")":
            self.advance()
        while self.text != ")":
            depth = self.depth
            try:
                if number:
                    self.expect(",", "or ) in the parameters of a function")
                number += 1
                found.append(self._parameter())
            except SyntaxAbort:
                self.depth = depth
                self._skip_to(",)", ("{", "}", ";"))
                continue
            if found[-1].token is found[-1].type.token:
                unnamed.append((number, found[-1].token))
        self.advance()
        return found, unnamed

    def _parameter(self) -> tree.Declarator:
        """Read one parameter. Where a prototype leaves its name out, the type stands for it."""
        self._refuse_old_dialect()
        before = self._attributes()
        if not self.is_type(self.token):
            self.fail_type("the type of a parameter")
        type_ = self.with_pointers(self.specifiers())
        if self.text in (",", ")", "["):
            return tree.Declarator(type_.token, self.with_shape(type_), (), None)
        return self._declarator(type_, before)

    def _skip_to(self, ends: str, never: tuple[str, ...]) -> None:
        """Go to one of some characters outside of brackets; leave the statement if something of `never` comes before."""
        depth = 0
        while depth > 0 or self.text not in tuple(ends):
            if self.token.kind is END or self.text in never:
                raise SyntaxAbort
            depth += (self.text in ("(", "[")) - (self.text in (")", "]"))
            self.advance()

    def _refuse_old_dialect(self) -> None:
        token, following = self.token, self.peek()
        for each in (token, following):
            is_old = each.text in OLD_DIALECT and not self.is_declared(each.text)  # the text may give an old name a meaning
            if is_old and (each is token or token.text in ("const", "restrict")):
                fix = OLD_DIALECT[each.text]
                self.fail_at(each, f"{each.text} is of the dialect of early 2019, another language", fix)
        if token.text == "restrict":
            self.fail("restrict before a type is of the dialect of early 2019, another language", "T *p __noalias")

    def _declarator(self, type_: tree.TypeName, before: list[tree.Attribute]) -> tree.Declarator:
        """Read a name with its attributes and its shape, in either order."""
        while self.text in _RESTRICT:
            before = [*before, tree.Attribute(self.advance(), "noalias", ())]
        is_in_parentheses = self.text == "(" and self.peek().kind is NAME and not self.is_type(self.peek())
        if is_in_parentheses:
            self.advance()
        name = self.identifier("a name")
        if is_in_parentheses:
            self.expect(")", f"behind the name {name.text}")
        self.declare(name.text, is_type=False)
        attributes = before + self._attributes()
        type_ = self.with_shape(type_)
        attributes += self._attributes()
        return tree.Declarator(name, type_, tuple(attributes), None)

    def _attributes(self) -> list[tree.Attribute]:
        found: list[tree.Attribute] = []
        while (self.text.startswith("__") and self.text not in QUALIFIERS - set(_RESTRICT)) or self.text == "restrict":
            if self.text == "__attribute__":
                self.advance()
                self.expect("(")
                self.expect("(")
                while self.text != ")":
                    found.append(self._attribute())
                    self.accept(",")
                self.advance()
                self.expect(")")
            else:
                found.append(self._attribute())
        return found

    def _attribute(self) -> tree.Attribute:
        token = self.advance()
        name = token.text.strip("_")
        name = _SYNONYMS.get(name, name)
        if name not in ATTRIBUTES:
            self.fail_at(token, f"{token.text} is no attribute", ", ".join(f"__{each}" for each in ATTRIBUTES))
        arguments = []
        if ATTRIBUTES[name]:
            self.expect("(", f"and the argument of {token.text}")
            arguments.append(self.conditional())
            self.expect(")")
        return tree.Attribute(token, name, tuple(arguments))

    # Declarations

    def _declaration(self) -> tree.Statement:
        token = self.token
        if self.text == "_Static_assert":
            return self._static_assert()
        is_typedef = False
        while self.text in STORAGE:
            is_typedef = is_typedef or self.text == "typedef"
            self.advance()
        if self.peek().text == "tunable":
            self._refuse_old_dialect()
        base = self.specifiers()
        if self.text == ";" and base.definition is not None:
            self.advance()
            return base.definition
        found = []
        while True:
            declarator = self._declarator(self.with_pointers(base), [])
            value = self.initial_value() if self.accept("=") else None
            if is_typedef:
                self.declare(declarator.name, is_type=True)
            found.append(tree.Declarator(declarator.token, declarator.type, declarator.attributes, value))
            if not self.accept(","):
                break
        self.expect(";", "behind a declaration")
        return tree.Declaration(token, tuple(found), is_typedef)

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
        self.expect(";")
        return tree.StaticAssert(token, condition, message)

    # Statements

    def _compound(self, own_scope: bool = True) -> tree.Compound:
        token = self.expect("{")
        if own_scope:
            self.open_scope()
        found = []
        while self.text != "}":
            if self.token.kind is END:
                self.fail_at(token, "this brace is not closed", "a closing brace")
            depth, scopes = self.depth, len(self.types)
            try:
                found.append(self._statement())
            except SyntaxAbort:
                self.depth = depth
                del self.types[scopes:], self.hidden[scopes:]
                self._skip()
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
        if self.is_type(self.token) or text in STORAGE or text == "_Static_assert":
            return self._declaration()
        if text in UNSUPPORTED:
            self.fail(UNSUPPORTED[text])
        token = self.token
        if self.accept(";"):
            return tree.Evaluation(token, None)
        self._refuse_old_dialect()
        if self._is_declaration_of_unknown_type():
            self.fail_type("a type")
        if self.peek().text == ":" and text not in KEYWORDS:
            self.fail("labels are not supported: there is no goto", UNSUPPORTED["goto"].partition("; ")[2])
        expression = self.expression()
        self.expect(";", "behind an expression")
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
        found = self._statement()
        self.close_scope()
        return found

    def _if(self) -> tree.Statement:
        token = self.advance()
        self.expect("(", "and the condition of if")
        condition = self.expression()
        self.expect(")", "behind the condition of if")
        first = self._scoped()
        second = self._scoped() if self.accept("else") else None
        return tree.If(token, condition, first, second)

    def _for(self) -> tree.Statement:
        token = self.advance()
        self.expect("(", "and the header of for")
        self.open_scope()
        depth, scopes = self.depth, len(self.types)
        try:
            start, condition, step = self._for_header()
        except SyntaxAbort:
            self.depth = depth
            del self.types[scopes:], self.hidden[scopes:]
            self._skip_to(")", ("{", "}"))
            self.advance()
            start, condition, step = tree.Evaluation(token, None), None, None
        body = self._scoped()
        self.close_scope()
        return tree.For(token, start, condition, step, body)

    def _for_header(self) -> tuple[tree.Statement, tree.Expression | None, tree.Expression | None]:
        """Read start, condition and step of a loop, and the parenthesis behind them."""
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
        self.expect(")", "behind the header of for")
        return start, condition, step

    def _while(self) -> tree.Statement:
        token = self.advance()
        self.expect("(", "and the condition of while")
        condition = self.expression()
        self.expect(")", "behind the condition of while")
        return tree.While(token, condition, self._scoped())

    def _do(self) -> tree.Statement:
        token = self.advance()
        body = self._scoped()
        self.expect("while", "behind the body of do")
        self.expect("(", "and the condition of while")
        condition = self.expression()
        self.expect(")")
        self.expect(";", "behind do … while (…)")
        return tree.DoWhile(token, condition, body)

    def _switch(self) -> tree.Statement:
        token = self.advance()
        self.expect("(", "and the subject of switch")
        subject = self.expression()
        self.expect(")")
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
        self.expect(";", "behind break")
        return tree.Break(token)

    def _continue(self) -> tree.Statement:
        token = self.advance()
        self.expect(";", "behind continue")
        return tree.Continue(token)

    def _return(self) -> tree.Statement:
        token = self.advance()
        value = None if self.text == ";" else self.expression()
        self.expect(";", "behind return")
        return tree.Return(token, value)


_STATEMENTS = {
    "if": _Parser._if, "for": _Parser._for, "while": _Parser._while, "do": _Parser._do, "switch": _Parser._switch,
    "case": _Parser._case, "default": _Parser._case, "break": _Parser._break, "continue": _Parser._continue,
    "return": _Parser._return,
}  # fmt: skip


__all__ = ["OLD_DIALECT", "parse"]
