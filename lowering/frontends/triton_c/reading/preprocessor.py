"""Carries out the directives of a text and expands its macros: text in, tokens of the language out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .....promotion.errors import close_names
from ....tt.limits import MAX_SOURCE
from .conditions import ConditionError, evaluate, integer_literal
from .diagnostics import Diagnostics
from .lexer import MAX_READ, lex
from .macros import OPTION, Expander, Macro, options_problem
from .source import END, NAME, NUMBER, PUNCTUATOR, STRING, Source, Token

MAX_TOKENS = 1 << 16
"""Tokens of one text, behind the preprocessor."""
MAX_INCLUDES = 200
"""Files that are included into one text, each counted as often as it is."""
_MAX_NESTED = 16
_DIRECTIVES = (
    "define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif", "include", "error",
    "warning", "line", "pragma",
)  # fmt: skip
PRELUDE = frozenset([
    "bool", "true", "false", "newaxis", "half", "bfloat16", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
    "F32_INFINITY", "F16_INFINITY", "INFINITY", "NAN", "__global__", "__noalias", "__readonly", "__writeonly", "__aligned",
    "__multipleof", "__retune", "__constant__", "__device__", "__LINE__", "__FILE__",
])  # fmt: skip
"""Names of the language that `#ifdef` sees, which the historical compiler defined as macros."""


def preprocess(
    source: Source, defines: Mapping[str, str], include: Mapping[str, str], diagnostics: Diagnostics
) -> list[Token]:
    """Return the tokens of a text without directives and macros; the last one is its end.

    Args:
        defines: macro → its body, any list of tokens. `"F(a, b)"` names a macro with parameters.
        include: the files that `#include` finds.

    Errors are added to `diagnostics`; those behind which nothing can be read raise `TritonCError`.
    """
    run = _Preprocessor(include, diagnostics)
    for name, body in defines.items():
        run.define_from_outside(name, body)
    run.read(source)
    _take_out_pragmas(run.tokens, diagnostics)
    end = Token(END, "the end of the text", source, max(0, len(source.spliced.rstrip()) - 1))
    return [*run.tokens, end]


class _Group:
    """One `#if` with its branches. taken: whether one was read; is_live: whether this one is."""

    __slots__ = ("has_else", "is_live", "taken", "token")

    def __init__(self, token: Token, is_live: bool, taken: bool) -> None:
        self.token = token
        self.is_live = is_live
        self.taken = taken
        self.has_else = False


class _Preprocessor:
    def __init__(self, include: Mapping[str, str], diagnostics: Diagnostics) -> None:
        self.tokens: list[Token] = []
        self._include = include
        self._diagnostics = diagnostics
        self._macros: dict[str, Macro] = {}
        self._expander = Expander(self._macros, diagnostics)
        self._open: list[str] = []
        self._included = 0
        self._read = 0
        self._characters = 0

    def define_from_outside(self, name: str, body: str) -> None:
        source = Source(f"<define {name}>", f"{name} {body}")
        line = lex(source, self._diagnostics)
        if any(each.is_first for each in line[1:]):
            self._diagnostics.error(line[0], f"the value of macro {name} has several lines", "one line")
        self._define(line, line[0] if line else Token(END, name, source, 0))

    def read(self, source: Source) -> None:
        """Read one text to its end."""
        self._open.append(source.name)
        tokens = lex(source, self._diagnostics, MAX_READ - self._read)
        self._read += len(tokens)
        groups: list[_Group] = []
        is_live = True
        begin = at = 0
        count = len(tokens)
        while at < count:
            token = tokens[at]
            if not (token.is_first and token.text == "#" and token.kind is PUNCTUATOR):
                at += 1
                continue
            if is_live and begin < at:
                self._add(tokens[begin:at])
            end = at + 1
            while end < count and not tokens[end].is_first:
                end += 1
            is_live = self._directive(token, tokens[at + 1 : end], groups, is_live)
            at = begin = end
        if is_live and begin < count:
            self._add(tokens[begin:])
        if groups:
            self._diagnostics.error(groups[-1].token, "this condition has no #endif", "#endif behind the last branch")
        self._open.pop()

    def _add(self, tokens: Sequence[Token]) -> None:
        """Add the tokens that some tokens expand to."""
        self.tokens += self._expander.expand(tokens)
        if len(self.tokens) > MAX_TOKENS:
            message = f"more than {MAX_TOKENS} tokens; kernels have a few thousand"
            self._diagnostics.fatal(self.tokens[MAX_TOKENS], message)

    def _directive(self, token: Token, line: list[Token], groups: list[_Group], is_live: bool) -> bool:
        """Carry out one directive; return whether the text behind it counts."""
        if not line:
            return is_live
        name, rest = line[0], line[1:]
        if name.text in ("if", "ifdef", "ifndef"):
            value = is_live and self._condition(name, rest)
            groups.append(_Group(name, is_live, value))
            return value
        if name.text in ("elif", "elifdef", "elifndef", "else", "endif"):
            return self._branch(name, rest, groups)
        if not is_live:
            return False
        if name.text == "define":
            self._define(rest, name)
        elif name.text == "undef":
            if len(rest) != 1 or rest[0].kind is not NAME:
                self._diagnostics.error(name, "#undef takes one name")
            else:
                self._macros.pop(rest[0].text, None)
        elif name.text == "include":
            self._include_file(name, self._expander.expand(rest))
        elif name.text == "error":
            self._diagnostics.error(name, f"#error {_written(rest)}".rstrip())
        elif name.text == "warning":
            self._diagnostics.warning(name, f"#warning {_written(rest)}".rstrip())
        elif name.text == "line":
            self._line(name, self._expander.expand(rest))
        elif name.text != "pragma":
            close = close_names(name.text, _DIRECTIVES, 1)
            fix = f"#{close[0]}" if close else f"one of {', '.join(_DIRECTIVES)}"
            self._diagnostics.error(name, f"#{name.text} is no directive", fix)
        return True

    def _branch(self, name: Token, rest: Sequence[Token], groups: list[_Group]) -> bool:
        if not groups:
            self._diagnostics.error(name, f"#{name.text} without #if")
            return True
        group = groups[-1]
        if name.text == "endif":
            groups.pop()
            return group.is_live
        if group.has_else:
            self._diagnostics.error(name, f"#{name.text} behind #else")
        if name.text == "else":
            group.has_else = True
            value = not group.taken
        else:
            value = group.is_live and not group.taken and self._condition(name, rest)
        group.taken = group.taken or value
        return group.is_live and value

    def _condition(self, name: Token, rest: Sequence[Token]) -> bool:
        if name.text.endswith("def"):
            if len(rest) != 1 or rest[0].kind is not NAME:
                self._diagnostics.error(name, f"#{name.text} takes one name")
                return False
            return self._is_defined(rest[0].text) == (not name.text.endswith("ndef"))
        if not rest:
            self._diagnostics.error(name, f"#{name.text} without a condition")
            return False
        try:
            expanded = self._expander.expand(rest, in_condition=True)
            return evaluate(self._with_defined(name, expanded)) != 0
        except ConditionError as error:
            fix = "integers, macros of integers, defined(NAME)"
            self._diagnostics.error(error.token or rest[-1], f"#{name.text}: {error}", fix)
            return False

    def _is_defined(self, name: str) -> bool:
        return name in self._macros or name in PRELUDE

    def _with_defined(self, name: Token, line: Sequence[Token]) -> list[Token]:
        """Return a condition with 0 or 1 in place of each `defined`."""
        found: list[Token] = []
        at = 0
        while at < len(line):
            token = line[at]
            at += 1
            if token.text != "defined":
                found.append(token)
                continue
            is_closed = at < len(line) and line[at].text == "("
            at += is_closed
            if at >= len(line) or line[at].kind is not NAME or (is_closed and [t.text for t in line[at + 1 : at + 2]] != [")"]):
                raise ConditionError("defined takes one name", token)
            value = "1" if self._is_defined(line[at].text) else "0"
            found.append(Token(NUMBER, value, token.source, token.start, token.is_spaced))
            at += 1 + is_closed
        return found

    def _define(self, line: Sequence[Token], directive: Token) -> None:
        if not line or line[0].kind is not NAME or line[0].text == "defined":
            self._diagnostics.error(directive, "#define takes a name and what it stands for")
            return
        name = line[0].text
        body, parameters, is_variadic = list(line[1:]), None, False
        if body and body[0].text == "(" and not body[0].is_spaced:
            end = next((at for at, each in enumerate(body) if each.text == ")"), None)
            if end is None:
                self._diagnostics.error(line[0], f"the parameters of macro {name} do not end", "a closing parenthesis")
                return
            names = [each.text for each in body[1:end]]
            good = not names or (
                len(names) % 2 == 1 and set(names[1::2]) <= {","} and all(n.isidentifier() or n == "..." for n in names[::2])
            )
            names = names[::2]
            if not good or "..." in names[:-1] or len(set(names)) != len(names):
                self._diagnostics.error(line[0], f"the parameters of macro {name} are no list of different names")
                return
            is_variadic = names[-1:] == ["..."]
            parameters = tuple("__VA_ARGS__" if each == "..." else each for each in names)
            body = body[end + 1 :]
        for at, each in enumerate(body):
            behind = body[at + 1].text if at + 1 < len(body) else ""
            is_string = parameters is not None and each.text == "#" and each.kind is PUNCTUATOR
            if is_string and behind not in (*(parameters or ()), OPTION):
                fix = f"# before one of {', '.join(parameters)}" if parameters else ""
                self._diagnostics.error(each, f"# in the body of macro {name} is not before a parameter", fix)
                return
        problem = "begins or ends with ##" if body and "##" in (body[0].text, body[-1].text) else ""
        problem = problem or options_problem(body, is_variadic)
        if problem:
            self._diagnostics.error(line[0], f"the body of macro {name} {problem}")
            return
        macro = Macro(name, parameters, is_variadic, tuple(body))
        known = self._macros.get(name)
        if known is not None and not known.equals(macro):
            self._diagnostics.warning(line[0], f"macro {name} is defined again, as something else", f"#undef {name} before")
        self._macros[name] = macro

    def _include_file(self, name: Token, line: Sequence[Token]) -> None:
        if len(line) == 1 and line[0].kind is STRING:
            path = line[0].text[1:-1]
        elif len(line) > 2 and line[0].text == "<" and line[-1].text == ">":
            path = "".join(each.text for each in line[1:-1])
        else:
            self._diagnostics.error(name, '#include takes "file" or <file>')
            return
        if path not in self._include:
            known = ", ".join(self._include) or "none"
            fix = f"include={{{path!r}: text}}; files that were given: {known}"
            self._diagnostics.error(name, f"#include {path}: no such file was given", fix)
            return
        self._included += 1
        if len(self._open) > _MAX_NESTED or self._included > MAX_INCLUDES:
            chain = " → ".join([*self._open[:4], path])
            self._diagnostics.fatal(name, f"files include one another without end: {chain} …", "#ifndef around their text")
        self._characters += len(self._include[path])
        if self._characters > MAX_SOURCE:
            message = f"the files that are included have more than {MAX_SOURCE} characters"
            self._diagnostics.fatal(name, message, "fewer or smaller files")
        self.read(Source(path, self._include[path]))

    def _line(self, name: Token, line: Sequence[Token]) -> None:
        number = integer_literal(line[0].text) if line and line[0].kind is NUMBER else None
        file = line[1].text[1:-1] if len(line) == 2 and line[1].kind is STRING else None
        if number is None or len(line) > 2 or (len(line) == 2 and file is None) or not 0 < number[0] < 1 << 31:
            self._diagnostics.error(name, '#line takes a number, and a "file"')
            return
        name.source.renumber(name.start, number[0], file)


def _take_out_pragmas(tokens: list[Token], diagnostics: Diagnostics) -> None:
    """Take `_Pragma("…")` out, which says no more than `#pragma`."""
    if not any(each.text == "_Pragma" and each.kind is NAME for each in tokens):
        return
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.text != "_Pragma" or token.kind is not NAME:
            found.append(token)
            at += 1
            continue
        behind = tokens[at + 1 : at + 4]
        if [each.text for each in behind[::2]] != ["(", ")"] or behind[1].kind is not STRING:
            diagnostics.error(token, "_Pragma takes one string", '_Pragma("…"), or #pragma on a line of its own')
        else:
            at += 3
        at += 1
    tokens[:] = found


def _written(line: Sequence[Token]) -> str:
    return "".join(f" {each.text}" if each.is_spaced and number else each.text for number, each in enumerate(line))


__all__ = ["preprocess"]
