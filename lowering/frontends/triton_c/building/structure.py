"""Brings a function into a form without jumps: branches and loops alone, and flags where a jump leaves something.

`break`, `continue` and `return` set a flag, and what they jump over runs only while it is not set. Where one arm of an `if`
always jumps, the statements behind it become part of the other arm, so that most texts need no flag. `switch` becomes a chain
of `if`. Loops that count are found.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....tt.limits import MAX_NESTED_REGIONS
from ..checking import typed
from ..checking.typed import Events, Symbol
from ..reading.diagnostics import Diagnostics
from ..reading.source import Token
from ..types import BOOL, leaves_of, type_of
from .counting import Counter, counter_of, initial_values

_BOOL = type_of(BOOL)
MAX_REGIONS = MAX_NESTED_REGIONS - 4
"""Branches and loops in one another; conditionals in their conditions and the function itself need the rest."""
MAX_EXITS = 8
"""Statements of one list that may jump, sections of a switch, and `else if` in a chain, up to which each takes what is behind
it into another arm."""


class Branch:
    """An `if`. Liveness fills in `writes`, the variables that it assigns, and `live`, those that are read behind it."""

    __slots__ = ("condition", "events", "first", "live", "second", "token", "writes")

    def __init__(
        self, token: Token, condition: typed.Expression, events: Events, first: list[Node], second: list[Node]
    ) -> None:
        self.token = token
        self.condition = condition
        self.events = events
        self.first = first
        self.second = second
        self.writes: frozenset[Symbol] = frozenset()
        self.live: frozenset[Symbol] = frozenset()


class Repeat:
    """A loop.

    Attributes:
        condition, events: what is evaluated before each iteration, behind it if `is_post`; None: nothing.
        flags: the loop ends when one of them is set.
        body: what runs, with the step of a `for`.
        counter: for a loop that counts; its own step is not in the body.
        gen: variables that it may read as they were before; writes: those that it assigns; live: those that are read behind
            it; carried: those whose values go from one iteration to the next or out of it; passed: those that the condition
            assigns and the body reads. Liveness fills them in.
    """

    __slots__ = (
        "body", "carried", "condition", "counter", "events", "flags", "gen", "is_post", "live", "passed", "token", "writes",
    )  # fmt: skip

    def __init__(
        self,
        token: Token,
        condition: typed.Expression | None,
        events: Events,
        flags: tuple[Symbol, ...],
        body: list[Node],
        is_post: bool,
        counter: Counter | None,
    ) -> None:
        self.token = token
        self.condition = condition
        self.events = events
        self.flags = flags
        self.body = body
        self.is_post = is_post
        self.counter = counter
        self.gen: frozenset[Symbol] = frozenset()
        self.writes: frozenset[Symbol] = frozenset()
        self.live: frozenset[Symbol] = frozenset()
        self.carried: frozenset[Symbol] = frozenset()
        self.passed: frozenset[Symbol] = frozenset()


Node = typed.Evaluate | typed.Declare | Branch | Repeat


class Structured:
    """A function without jumps. results: the variables that hold what it returns: of a struct, one for each part."""

    __slots__ = ("function", "nodes", "results")

    def __init__(self, function: typed.Function, nodes: list[Node], results: tuple[Symbol, ...]) -> None:
        self.function = function
        self.nodes = nodes
        self.results = results


def structured(function: typed.Function, diagnostics: Diagnostics) -> Structured:
    """Return a function in the form without jumps. Raises `TritonCError` for one that is nested too deeply."""
    return _Structure(function, diagnostics).run()


class _Target:
    """What `break` and `continue` leave. Flags are made when something sets them."""

    __slots__ = ("broke", "is_loop", "outer", "skipped", "token")

    def __init__(self, token: Token, is_loop: bool, outer: _Target | None) -> None:
        self.token = token
        self.is_loop = is_loop
        self.outer = outer
        self.broke: Symbol | None = None
        self.skipped: Symbol | None = None


class _Structure:
    def __init__(self, function: typed.Function, diagnostics: Diagnostics) -> None:
        self._function = function
        self._diagnostics = diagnostics
        self._depth = 0
        self._initial_values = initial_values(function)
        self._returned = Symbol("returned", _BOOL, function.token)
        self._results = tuple(Symbol("the result", leaf, function.token) for _, leaf in leaves_of(function.result))

    def run(self) -> Structured:
        nodes: list[Node] = []
        if self._results:
            nodes += [typed.Declare(self._function.token, each) for each in self._results]
            if not self._always_ends(self._function.body):
                message = "the function may end without returning a value: it is 0"
                self._diagnostics.warning(self._function.token, message, "return e;")
        body, flags = self._list(self._function.body, None)
        if flags:
            nodes.append(_set(self._returned, 0, self._function.token))
        return Structured(self._function, nodes + body, self._results)

    def _list(self, statements: Sequence[typed.Statement], target: _Target | None) -> tuple[list[Node], set[Symbol]]:
        """Return statements without jumps, and the flags that they may set."""
        found: list[Node] = []
        flags: set[Symbol] = set()
        self._depth += 1
        if self._depth > MAX_REGIONS and statements:
            message = f"more than {MAX_REGIONS} branches and loops in one another"
            self._diagnostics.fatal(statements[0].token, message, "device functions")
        try:
            if len(statements) > MAX_EXITS and sum(_may_jump(each) for each in statements) > MAX_EXITS:
                return self._flat(statements, target)
            return self._in_list(statements, target, found, flags)
        finally:
            self._depth -= 1

    def _in_list(
        self, statements: Sequence[typed.Statement], target: _Target | None, found: list[Node], flags: set[Symbol]
    ) -> tuple[list[Node], set[Symbol]]:
        for number, each in enumerate(statements):
            if isinstance(each, typed.If) and number + 1 < len(statements) and len(_links(each)) <= MAX_EXITS:
                ends, others = self._always_ends(each.first), self._always_ends(each.second)
                if ends or others:  # the rest is part of the arm that goes on
                    rest = statements[number + 1 :]
                    first = each.first if ends else (*each.first, *rest)
                    second = each.second if others else (*each.second, *rest)
                    merged = typed.If(each.token, each.condition, each.events, first, second)
                    nodes, more = self._statement(merged, target)
                    return found + nodes, flags | more
            nodes, more = self._statement(each, target)
            found += nodes
            flags |= more
            if self._always_ends((each,)):
                return found, flags
            if more and number + 1 < len(statements):
                guarded, further = self._list(statements[number + 1 :], target)
                condition = _not(_any(sorted(more, key=lambda flag: flag.name), each.token))
                found.append(Branch(each.token, condition, tuple((flag, "read") for flag in more), guarded, []))
                return found, flags | further
        return found, flags

    def _flat(self, statements: Sequence[typed.Statement], target: _Target | None) -> tuple[list[Node], set[Symbol]]:
        """Return statements of which many may jump: each group behind a jump has a guard of its own, and none nests others."""
        found: list[Node] = []
        flags: set[Symbol] = set()
        group = found
        self._depth += 1
        for each in statements:
            nodes, more = self._statement(each, target)
            group += nodes
            flags |= more
            if self._always_ends((each,)):
                break
            if more:
                group = []
                condition = _not(_any(sorted(flags, key=lambda flag: flag.name), each.token))
                found.append(Branch(each.token, condition, tuple((flag, "read") for flag in flags), group, []))
        self._depth -= 1
        return found, flags

    def _statement(self, node: typed.Statement, target: _Target | None) -> tuple[list[Node], set[Symbol]]:
        match node:
            case typed.Evaluate() | typed.Declare():
                return [node], set()
            case typed.If() if len(links := _links(node)) > MAX_EXITS:
                return self._chain(links, target)
            case typed.If():
                first, flags = self._list(node.first, target)
                second, others = self._list(node.second, target)
                return [Branch(node.token, node.condition, node.events, first, second)], flags | others
            case typed.Loop():
                return self._loop(node, target)
            case typed.Switch():
                return self._switch(node, target)
            case typed.Break():
                assert target is not None
                target.broke = target.broke or Symbol("broke", _BOOL, target.token)
                return [_set(target.broke, 1, node.token)], {target.broke}
            case typed.Continue():
                while target is not None and not target.is_loop:
                    target = target.outer
                assert target is not None
                target.skipped = target.skipped or Symbol("skipped", _BOOL, target.token)
                return [_set(target.skipped, 1, node.token)], {target.skipped}
            case typed.Return():
                parts = [*node.before]
                for symbol, value in zip(self._results, node.values, strict=True):
                    parts.append(typed.Assign(symbol.type, node.token, symbol, value))
                events: Events = (*node.events, *((symbol, "write") for symbol in self._results))
                nodes: list[Node] = []
                for each in parts:  # what happens to variables is known of all parts together
                    nodes.append(typed.Evaluate(node.token, each, events))
                    events = ()
                return [*nodes, _set(self._returned, 1, node.token)], {self._returned}
        raise AssertionError(type(node))

    def _chain(self, links: Sequence[typed.If], target: _Target | None) -> tuple[list[Node], set[Symbol]]:
        """Return a long chain of `else if`: groups of nested branches, each behind a flag that none before it was taken."""
        token = links[0].token
        rest = Symbol("rest", _BOOL, token)
        depth = self._depth
        size = max(1, min(MAX_EXITS, MAX_REGIONS - depth - 2))
        found: list[Node] = [_set(rest, 0, token)]
        flags: set[Symbol] = set()
        for start in range(0, len(links), size):
            group = links[start : start + size]
            is_last = start + size >= len(links)
            outer = depth + (start > 0)
            self._depth = outer + len(group) - 1
            nodes, more = self._list(group[-1].second, target) if is_last else ([_set(rest, 1, token)], set())
            flags |= more
            for number, each in reversed(list(enumerate(group))):
                self._depth = outer + number
                first, more = self._list(each.first, target)
                flags |= more
                nodes = [Branch(each.token, each.condition, each.events, first, nodes)]
            if start:
                is_left = typed.Variable(_BOOL, token, rest)
                nodes = [Branch(token, is_left, ((rest, "read"),), [_set(rest, 0, token), *nodes], [])]
            found += nodes
        self._depth = depth
        return found, flags

    def _loop(self, node: typed.Loop, target: _Target | None) -> tuple[list[Node], set[Symbol]]:
        own = _Target(node.token, True, target)
        body, flags = self._list(node.body, own)
        if own.skipped is not None:
            body = [_set(own.skipped, 0, node.token), *body]
        leaving = sorted(flags - {own.skipped}, key=lambda flag: flag.name)
        counter = None if leaving or node.is_post else counter_of(node, self._initial_values)
        if counter is not None:
            body = [*body, *counter.rest]
        elif node.step:
            step: list[Node] = [each for each in node.step if isinstance(each, typed.Evaluate)]
            if leaving:
                events = tuple((flag, "read") for flag in leaving)
                step = [Branch(node.token, _not(_any(leaving, node.token)), events, step, [])]
            body = [*body, *step]
        events = tuple((flag, "read") for flag in leaving) + node.events + (() if counter is None else counter.events)
        loop = Repeat(node.token, node.condition, events, tuple(leaving), body, node.is_post, counter)
        before: list[Node] = [_set(own.broke, 0, node.token)] if own.broke is not None else []
        return [*before, loop], set(leaving) - {own.broke}

    def _switch(self, node: typed.Switch, target: _Target | None) -> tuple[list[Node], set[Symbol]]:
        own = _Target(node.token, False, target)
        token = node.token
        subject = Symbol("the subject of switch", node.subject.type, token)
        assignment = typed.Assign(subject.type, token, subject, node.subject)
        first = typed.Evaluate(token, assignment, (*node.events, (subject, "write")))
        falls = any(not self._always_ends(each.body) for each in node.sections[:-1])
        if falls:
            chain = self._falling(node, subject)
        else:
            chain = _chained(node, subject) if len(node.sections) <= MAX_EXITS else _separate(node, subject)
        nodes, flags = self._list(chain, own)
        before: list[Node] = [first]
        if own.broke is not None:
            before.append(_set(own.broke, 0, token))
        return [*before, *nodes], flags - {own.broke}

    @staticmethod
    def _falling(node: typed.Switch, subject: Symbol) -> list[typed.Statement]:
        """Return a switch with sections that fall through: a variable says whether the label was met."""
        met = Symbol("met", _BOOL, node.token)
        found: list[typed.Statement] = [_set(met, 0, node.token)]
        values = [value for each in node.sections for value in each.values]
        for each in node.sections:
            is_here = _is_one_of(subject, each.values, node.token)
            if each.is_default:
                other = _not(_is_one_of(subject, values, node.token))
                is_here = typed.Binary(_BOOL, node.token, "|", is_here, other)
            now = typed.Binary(_BOOL, node.token, "|", typed.Variable(_BOOL, node.token, met), is_here)
            events: Events = ((met, "read"), (subject, "read"), (met, "write"))
            found.append(typed.Evaluate(node.token, typed.Assign(_BOOL, node.token, met, now), events))
            found.append(typed.If(node.token, typed.Variable(_BOOL, node.token, met), ((met, "read"),), each.body, ()))
        return found

    def _always_ends(self, statements: Sequence[typed.Statement]) -> bool:
        """Return whether what is behind these statements is never reached from them."""
        return any(self._ends_with(each) for each in statements)

    def _ends_with(self, node: typed.Statement) -> bool:
        if isinstance(node, typed.Break | typed.Continue | typed.Return):
            return True
        if isinstance(node, typed.Loop):
            is_endless = node.condition is None or (isinstance(node.condition, typed.Constant) and bool(node.condition.value))
            return is_endless and not _leaves(node.body)
        if not isinstance(node, typed.If):
            return False
        links = _links(node)
        return all(self._always_ends(each.first) for each in links) and self._always_ends(links[-1].second)


def _chained(node: typed.Switch, subject: Symbol) -> list[typed.Statement]:
    """Return a switch whose sections all end in a jump as a chain of `if`."""
    found: tuple[typed.Statement, ...] = ()
    default = next((each for each in node.sections if each.is_default), None)
    if default is not None:
        found = _without_break(default.body)
    for each in reversed(node.sections):
        if each is not default and each.values:
            condition = _is_one_of(subject, each.values, node.token)
            found = (typed.If(node.token, condition, ((subject, "read"),), _without_break(each.body), found),)
    return list(found)


def _separate(node: typed.Switch, subject: Symbol) -> list[typed.Statement]:
    """Return a switch with many sections, which all end in a jump, as one `if` behind the other: no two labels are equal."""
    events: Events = ((subject, "read"),)
    labels = [value for each in node.sections for value in each.values]
    found: list[typed.Statement] = []
    for each in node.sections:
        condition = _is_one_of(subject, each.values, node.token)
        if each.is_default:
            others = [value for value in labels if value not in each.values]
            condition = _not(_is_one_of(subject, others, node.token))
        found.append(typed.If(node.token, condition, events, _without_break(each.body), ()))
    return found


def _may_jump(node: typed.Statement) -> bool:
    """Return whether a statement may jump behind itself."""
    if isinstance(node, typed.If):
        links = _links(node)
        return any(map(_may_jump, [*(inner for each in links for inner in each.first), *links[-1].second]))
    if isinstance(node, typed.Loop):
        return any(map(_may_jump, node.body))
    if isinstance(node, typed.Switch):
        return any(_may_jump(each) for section in node.sections for each in section.body)
    return isinstance(node, typed.Break | typed.Continue | typed.Return)


def _leaves(statements: Sequence[typed.Statement]) -> bool:
    """Return whether a loop with this body may be left by `break`; those of inner loops and switches are their own."""
    for each in statements:
        if isinstance(each, typed.Break):
            return True
        if isinstance(each, typed.If):
            links = _links(each)
            if any(_leaves(link.first) for link in links) or _leaves(links[-1].second):
                return True
    return False


def _links(node: typed.If) -> list[typed.If]:
    """Return an `if` with each `else if` behind it."""
    found = [node]
    while len(second := found[-1].second) == 1 and isinstance(second[0], typed.If):
        found.append(second[0])
    return found


def _without_break(body: tuple[typed.Statement, ...]) -> tuple[typed.Statement, ...]:
    return body[:-1] if body and isinstance(body[-1], typed.Break) else body


def _is_one_of(subject: Symbol, values: Sequence[int], token: Token) -> typed.Expression:
    found: typed.Expression | None = None
    for value in values:
        constant = typed.Constant(subject.type, token, value)
        equal = typed.Compare(_BOOL, token, "==", typed.Variable(subject.type, token, subject), constant)
        found = equal if found is None else typed.Binary(_BOOL, token, "|", found, equal)
    return found if found is not None else typed.Constant(_BOOL, token, 0)


def _set(flag: Symbol, value: int, token: Token) -> typed.Evaluate:
    assignment = typed.Assign(_BOOL, token, flag, typed.Constant(_BOOL, token, value))
    return typed.Evaluate(token, assignment, ((flag, "write"),))


def _any(flags: Sequence[Symbol], token: Token) -> typed.Expression:
    found: typed.Expression = typed.Variable(_BOOL, token, flags[0])
    for flag in flags[1:]:
        found = typed.Binary(_BOOL, token, "|", found, typed.Variable(_BOOL, token, flag))
    return found


def _not(value: typed.Expression) -> typed.Expression:
    return typed.Unary(_BOOL, value.token, "!", value)


__all__ = ["Branch", "Node", "Repeat", "Structured", "structured"]
