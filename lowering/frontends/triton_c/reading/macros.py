"""Expands macros in lists of tokens, by the algorithm of C: no macro is expanded in its own expansion.

A macro's body may be any list of tokens, whose commas and brackets mean nothing until the parser reads them. Every token
that comes of a body knows the use that it came by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .....promotion.dataclass import dataclass
from ....tt.limits import MAX_LITERAL
from .diagnostics import Diagnostics
from .lexer import lex
from .source import CHARACTER, NAME, NUMBER, OTHER, PUNCTUATOR, STRING, MacroUse, Source, Token

MAX_EXPANDED = 1 << 17
"""Tokens into which all macros of one text may expand."""
MAX_CHARACTERS = 1 << 22
"""Characters of all strings and names that macros make."""
MAX_HIDDEN = 1 << 20
"""Names in all sets of macros that some token is not expanded by."""
OPTION = "__VA_OPT__"
_MAX_SHOWN = 60
_MAX_NESTED = 100
"""Uses of macros in the arguments of others, nested in one another."""


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: what its name stands for.

    Attributes:
        parameters: None for one without parentheses.
        is_variadic: whether the last parameter takes all further arguments.
        body: the tokens that it stands for.
    """

    name: str
    parameters: tuple[str, ...] | None
    is_variadic: bool
    body: tuple[Token, ...]

    def equals(self, other: Macro) -> bool:
        """Return whether both are written alike, so that one may be defined again."""
        same = (self.parameters, self.is_variadic) == (other.parameters, other.is_variadic)
        return same and [each.text for each in self.body] == [each.text for each in other.body]


class Expander:
    """Expands the macros of one text, within one budget."""

    def __init__(self, macros: Mapping[str, Macro], diagnostics: Diagnostics) -> None:
        self._macros = macros
        self._diagnostics = diagnostics
        self._produced = 0
        self._characters = 0
        self._depth = 0
        self._hidden: dict[tuple[frozenset[str], frozenset[str]], frozenset[str]] = {}
        self._hidden_names = 0

    def expand(self, tokens: Sequence[Token], in_condition: bool = False) -> list[Token]:
        """Return the tokens with all macros expanded; in a condition, but for the names behind `defined`."""
        macros = self._macros
        found: list[Token] = []
        work = list(reversed(tokens))
        while work:
            token = work.pop()
            if in_condition and token.text == "defined":
                found.append(token)
                found += [work.pop() for _ in range(2 if work and work[-1].text == "(" else 1) if work]
                continue
            if token.kind is not NAME or token.text not in macros or token.text in token.hidden:
                found.append(token if token.text not in ("__LINE__", "__FILE__") else self._position(token))
                continue
            macro = macros[token.text]
            if macro.parameters is None:
                body = self._substituted(macro, token, {}, self._both(token, token.hidden, frozenset([macro.name])))
            else:
                if not work or work[-1].text != "(":
                    found.append(token)
                    continue
                arguments, end = self._arguments(macro, token, work)
                hidden = self._both(token, token.hidden & end.hidden, frozenset([macro.name]))
                if arguments is None:
                    continue
                raw = dict(zip(macro.parameters, arguments, strict=True))
                body = self._substituted(macro, token, raw, hidden)
            self._produced += len(body) + 1
            if self._produced > MAX_EXPANDED:
                fix = "smaller bodies, or fewer macros that use one another"
                self._diagnostics.fatal(token, f"macros expand to more than {MAX_EXPANDED} tokens", fix)
            work.extend(reversed(body))
        return found

    def _both(self, use: Token, a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
        """Return the union of two sets of names, one object for all tokens: nested uses would copy long sets for each."""
        found = self._hidden.get((a, b))
        if found is None:
            found = self._hidden[a, b] = a | b
            self._hidden_names += len(found)
            if self._hidden_names > MAX_HIDDEN:
                self._diagnostics.fatal(use, "too many macros use one another", "fewer of them, or smaller bodies")
        return found

    def _position(self, token: Token) -> Token:
        first = (token.uses or [token])[0]
        file, line, _ = first.position
        kind, text = (NUMBER, str(line)) if token.text == "__LINE__" else (STRING, f'"{file}"')
        return Token(kind, text, token.source, token.start, token.is_spaced, token.is_first, token.macro, token.hidden)

    def _arguments(self, macro: Macro, name: Token, work: list[Token]) -> tuple[list[list[Token]] | None, Token]:
        """Take the arguments of a use off `work`, with its parentheses; None, after an error, if their number is wrong."""
        names = macro.parameters or ()
        work.pop()
        arguments: list[list[Token]] = [[]]
        depth = 0
        while True:
            if not work:
                self._diagnostics.fatal(name, f"the arguments of macro {name.text} do not end", "a closing parenthesis")
            token = work.pop()
            text = token.text if token.kind is PUNCTUATOR else ""
            if text == ")" and not depth:
                break
            if text == "," and not depth and not (macro.is_variadic and len(arguments) == len(names)):
                arguments.append([])
                continue
            depth += (text == "(") - (text == ")")
            arguments[-1].append(token)
        if not names and arguments == [[]]:
            arguments = []
        if macro.is_variadic and len(arguments) == len(names) - 1:
            arguments.append([])
        if len(arguments) != len(names):
            message = f"macro {name.text} takes {len(names)} arguments, got {len(arguments)}"
            is_split = any(sum((each.text == "[") - (each.text == "]") for each in argument) for argument in arguments)
            fix = "parentheses around an argument with commas in [ ]: F((v[:, newaxis]))" if is_split else ""
            self._diagnostics.error(name, message, fix)
            return None, token
        return arguments, token

    def _substituted(
        self, macro: Macro, use: Token, raw: Mapping[str, list[Token]], hidden: frozenset[str]
    ) -> list[Token]:
        """Return the body with arguments in place of parameters: expanded ones, except beside # and ##."""
        by = MacroUse(use, macro.parameters is not None)
        found = [each for each in self._parts(macro.body, macro, use, by, raw, {}, hidden) if each.text]
        if found:
            first = found[0]
            found[0] = Token(
                first.kind, first.text, first.source, first.start, use.is_spaced, use.is_first, first.macro, first.hidden
            )
        return found

    def _parts(
        self, body: Sequence[Token], macro: Macro, use: Token, by: MacroUse, raw: Mapping[str, list[Token]],
        expanded: dict[str, list[Token]], hidden: frozenset[str],
    ) -> list[Token]:  # fmt: skip
        """Return a part of a macro's body with arguments in it, and tokens without text for what vanishes.

        expanded: the arguments of the use that were expanded before.
        """
        found: list[Token] = []
        at = 0
        is_pasted = False
        while at < len(body):
            token = body[at]
            at += 1
            follows = body[at].text if at < len(body) else ""
            if token.text == "##" and token.kind is PUNCTUATOR and found and at < len(body):
                is_pasted = True
                continue
            is_quoted = token.text == "#" and macro.parameters is not None
            is_option = macro.is_variadic and OPTION in ((follows,) if is_quoted else (token.text,))
            if is_option:
                begin = at + 1 + is_quoted
                at = option_end(body, begin) + 1
                last = (macro.parameters or ())[-1]
                is_given = any(each.text for each in self._argument(raw, expanded, last, use))
                inner = body[begin : at - 1] if is_given else ()
                made = self._parts(inner, macro, use, by, raw, expanded, hidden)
                made = [self._string(token, [each for each in made if each.text], by, use)] if is_quoted else made
                if not made:
                    made = [Token(OTHER, "", token.source, token.start, token.is_spaced, False, by, hidden)]
            elif is_quoted and follows in raw:
                made = [self._string(token, raw[follows], by, use)]
                at += 1
            elif token.kind is NAME and token.text in raw:
                if is_pasted or follows == "##":
                    made = [_copied(each, self._both(use, each.hidden, hidden)) for each in raw[token.text]]
                else:
                    argument = self._argument(raw, expanded, token.text, use)
                    made = [_copied(each, self._both(use, each.hidden, hidden)) for each in argument]
                    self._produced += len(made)
                made[:1] = [_copied(each, each.hidden, token.is_spaced) for each in made[:1]]
                if not made and (is_pasted or follows == "##"):  # something to paste with, which vanishes in the end
                    made = [Token(OTHER, "", token.source, token.start, token.is_spaced, False, by, hidden)]
            else:
                made = [Token(token.kind, token.text, token.source, token.start, token.is_spaced, False, by, hidden)]
            if is_pasted and made and found:
                found[-1:] = self._pasted(found[-1], made[0], by, self._both(use, found[-1].hidden & made[0].hidden, hidden))
                made = made[1:]
            is_pasted = False
            found.extend(made)
        return found

    def _argument(
        self, raw: Mapping[str, list[Token]], expanded: dict[str, list[Token]], name: str, use: Token
    ) -> list[Token]:
        """Return an argument of a use, expanded."""
        if name not in expanded:
            expanded[name] = self._expanded_argument(raw[name], use)
        return expanded[name]

    def _expanded_argument(self, argument: list[Token], use: Token) -> list[Token]:
        self._depth += 1
        if self._depth > _MAX_NESTED:
            self._diagnostics.fatal(use, f"more than {_MAX_NESTED} uses of macros in the arguments of others")
        found = self.expand(argument)
        self._depth -= 1
        return found

    def _string(self, token: Token, argument: list[Token], by: MacroUse, use: Token) -> Token:
        parts = []
        for number, each in enumerate(argument):
            text = each.text
            if each.kind in (STRING, CHARACTER):
                text = text.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f" {text}" if each.is_spaced and number else text)
        text = f'"{"".join(parts)}"'
        self._count(use, text)
        return Token(STRING, text, token.source, token.start, token.is_spaced, False, by)

    def _count(self, use: Token, text: str) -> None:
        """Count the characters of a token that a macro makes: each use may double them."""
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            message = f"macros make more than {MAX_CHARACTERS} characters of strings and names"
            self._diagnostics.fatal(use, message, "# and ## on shorter arguments")

    def _pasted(self, left: Token, right: Token, by: MacroUse, hidden: frozenset[str]) -> list[Token]:
        if left.text == ",":
            return [left, right] if right.text else [right]  # GNU: `, ## __VA_ARGS__` takes the comma away
        text = left.text + right.text
        if not text:
            return [right]
        self._count(by.token, text)
        if (left.kind is NUMBER or left.text == ".") and len(text) > MAX_LITERAL:
            self._diagnostics.fatal(right, f"a number of {len(text)} characters; the limit is {MAX_LITERAL}")
        made = [] if text in ("//", "/*") else lex(Source("<pasted>", text), Diagnostics())
        if len(made) != 1 or made[0].text != text or made[0].kind is OTHER:
            self._diagnostics.error(right, f"{_short(left.text)} ## {_short(right.text)} is no token")
            return [left, right]
        return [Token(made[0].kind, text, right.source, right.start, left.is_spaced, False, right.macro or by, hidden)]


def option_end(body: Sequence[Token], begin: int) -> int:
    """Return where the parenthesis stands that closes `__VA_OPT__(`, whose content begins at `begin`; -1 if none does."""
    depth = 0
    for at in range(begin, len(body)):
        if body[at].text == ")" and not depth:
            return at
        depth += (body[at].text == "(") - (body[at].text == ")")
    return -1


def options_problem(body: Sequence[Token], is_variadic: bool) -> str:
    """Return what is wrong with uses of `__VA_OPT__` in the body of a macro; "" if nothing is."""
    at = 0
    while at < len(body):
        if body[at].text != OPTION:
            at += 1
            continue
        end = option_end(body, at + 2)
        if not is_variadic:
            return f"has {OPTION}, which is for macros with ... among their parameters"
        if end < 0 or body[at + 1].text != "(":
            return f"has {OPTION} without content in parentheses"
        inner = [each.text for each in body[at + 2 : end]]
        if OPTION in inner:
            return f"has {OPTION} within {OPTION}"
        if "##" in (*inner[:1], *inner[-1:]):
            return f"has {OPTION}, whose content begins or ends with ##"
        at = end + 1
    return ""


def _copied(token: Token, hidden: frozenset[str], is_spaced: bool | None = None) -> Token:
    """Return a token of an argument with other macros that it is not expanded by, and as if other space stood before it."""
    spaced = token.is_spaced if is_spaced is None else is_spaced
    return Token(token.kind, token.text, token.source, token.start, spaced, token.is_first, token.macro, hidden)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


__all__ = ["Expander", "Macro", "options_problem"]
