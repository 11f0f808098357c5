"""Checks functions and statements, and gives the typed tree of a kernel with the functions that it calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..reading.diagnostics import Diagnostics
from ..reading.source import Token
from ..syntax import tree
from ..types import INT, SCALARS, VOID, Pointer, Scalar, Struct, Type, leaves_of, type_of, wrapped
from . import typed
from .calls import BUILTIN_NAMES
from .context import Announced
from .conversions import CheckAbort
from .expressions import ExpressionChecker
from .kernels import called_functions, kernels_of, nodes_of
from .promises import kept_promises
from .records import Lvalue

_ON_POINTERS = ("noalias", "readonly", "writeonly", "aligned")
_ON_INTEGERS = ("multipleof", "retune")


def check_text(
    items: Sequence[tree.Statement], name: str | None, diagnostics: Diagnostics, single: bool, tokens: Sequence[Token]
) -> typed.Module | None:
    """Return the typed tree of a kernel, and of what it calls; None, after an error, if there is no such kernel.

    Args:
        name: which kernel; None for the only one.
        single: whether floating constants without a suffix are float, not double.
        tokens: those of the text; errors without one of their own are reported at the last, its end.
    """
    checker = _Checker(diagnostics, single, tokens)
    checker.collect(items)
    kernel = checker.kernel(name, tokens[-1])
    if kernel is None:
        return None
    found = checker.function(kernel)
    if found is None or diagnostics.reports:
        for each in called_functions([kernel], checker.own_functions):  # those that statements with errors call
            checker.function(each)
        return None
    kept = kept_promises(found, checker.done, diagnostics)
    found = dataclasses.replace(found, promises=kept)
    checker.done[found.name] = found
    return typed.Module(found, tuple(checker.done.values()))


class _Checker(ExpressionChecker):
    """Checks whole functions.

    Attributes:
        done: the functions that are checked, by name, each behind those that it calls.
    """

    def __init__(self, diagnostics: Diagnostics, single: bool, tokens: Sequence[Token]) -> None:
        super().__init__(diagnostics, single, tokens)
        self.done: dict[str, typed.Function] = {}
        self._functions: dict[str, tree.Function] = {}
        self._prototypes: dict[str, list[tree.Function]] = {}
        self._kernels: list[tree.Function | tree.Skipped] = []
        self._open: list[str] = []
        self._failed: set[str] = set()
        self._weights: dict[str, int] = {}
        self._result = type_of(VOID)
        self._loops = 0
        self._switches = 0

    @property
    def own_functions(self) -> dict[str, tree.Function]:
        return self._functions

    @property
    def known_functions(self) -> Mapping[str, object]:
        return {**dict.fromkeys(BUILTIN_NAMES), **self._functions}

    def collect(self, items: Sequence[tree.Statement]) -> None:
        """Take in what stands outside of functions."""
        for item in items:
            if isinstance(item, tree.Function):
                if item.name in self._functions:
                    self.diagnostics.error(item.token, f"function {item.name} is defined twice", "another name, or #if")
                self._functions[item.name] = item
            elif isinstance(item, tree.Skipped):
                continue
            elif isinstance(item, tree.Declaration) and not item.is_typedef:
                self._announce(item)
                self.declare_outside(item)
            else:
                self.statement(item, [])
        self.finish_outside()
        self._kernels = kernels_of(items)

    def kernel(self, name: str | None, end: Token) -> tree.Function | None:
        """Return the kernel of this name."""
        names = [each.name for each in self._kernels]
        asked = names[0] if name is None and len(names) == 1 else name
        found = next((each for each in self._kernels if each.name == asked and isinstance(each, tree.Function)), None)
        if found is not None:
            return found
        listed = ", ".join(names) or "none"
        if name in self._functions:
            token = self._functions[name].token
            self.diagnostics.error(token, f"{name} is no kernel; kernels: {listed}", "__global__ before it")
        elif name is None and names:
            self.diagnostics.error(end, f"the text has several kernels: {listed}", f"name={names[0]!r}")
        else:
            what = "the text has no kernel" if name is None else f"the text has no kernel {name}; kernels: {listed}"
            self.diagnostics.error(end, what, "__global__ void name(…) { … }" if not names else f"name={names[0]!r}")
        return None

    def function(self, node: tree.Function) -> typed.Function | None:
        """Return a function's typed tree; None if it has errors, which are reported."""
        if node.name in self.done:
            return self.done[node.name]
        if node.name in self._failed or node.body is None:
            return None
        outer = self.scopes, self._events, self._uncertain, self.arms, self._result, self._loops, self._switches, self.work
        outer_tables, self.tables = self.tables, {}
        self.scopes, self._events, self._uncertain, self.arms = [self.scopes[0], {}], [], 0, 0
        self._loops = self._switches = self.work = 0
        self._open.append(node.name)
        try:
            found = self._function(node)
        except CheckAbort:
            found = None
        self._open.pop()
        self._weights[node.name] = self.work
        self.scopes, self._events, self._uncertain, self.arms, self._result, self._loops, self._switches, self.work = outer
        self.tables = outer_tables
        if found is None:
            self._failed.add(node.name)
        else:
            self.done[node.name] = found
        return found

    def _function(self, node: tree.Function) -> typed.Function | None:
        is_kernel = node in self._kernels
        self._result = self.resolve(node.result, is_value=False)
        if is_kernel and self._result.element != VOID:
            self.fail(node.token, f"kernel {node.name} returns {self._result}", "void, and a pointer parameter")
        if self._result.shape and self._result.element == VOID:
            self.fail(node.token, f"function {node.name} returns a block of void")
        declared: list[typed.Symbol | typed.Aggregate] = []
        promises: list[tuple[typed.Promise, ...]] = []
        is_whole = not node.is_broken
        for token in node.unknown:
            self.scopes[-1][token.text] = None
        for each in node.parameters:
            with self.reported() as failed:
                entry = self._parameter(each, is_kernel)
                declared.append(entry)
                found = self._promises(each, entry.type)
                promises += [()] * len(entry.symbols) if isinstance(entry, typed.Aggregate) else [found]
            is_whole = is_whole and not failed
        body: list[typed.Statement] = []
        self._compare_prototypes(node, [each.type for each in declared], is_whole)
        for statement in node.body.statements if node.body is not None else ():
            self.statement(statement, body)
        if not is_whole:
            self.abort()
        tables = tuple(self.tables)
        parts = [symbol for each in declared for symbol in (each.symbols if isinstance(each, typed.Aggregate) else (each,))]
        parameters = (*parts, *(table.symbol for table in tables))
        kept = (*promises, *(() for _ in tables))
        return typed.Function(
            node.name, node.token, tuple(declared), parameters, kept, tables, self._result, tuple(body)
        )

    def _announce(self, node: tree.Declaration) -> None:
        """Take in prototypes, and types that are defined later. Those of unknown functions may be of built-in ones."""
        for each in node.prototypes:
            self._prototypes.setdefault(each.name, []).append(each)
        if node.announced:
            self.scopes[-1].setdefault(node.announced, Announced())

    def _compare_prototypes(self, node: tree.Function, types: Sequence[Type], is_whole: bool) -> None:
        """Compare a function with its prototypes. One without parameters says nothing of them."""
        own = f"{self._result} ({', '.join(map(str, types)) or 'void'})"
        for each in self._prototypes.get(node.name, ()) if is_whole else ():
            with self.reported():
                result = self.resolve(each.result, is_value=False)
                found = [self.resolve(parameter.type) for parameter in each.parameters]
                if result is not self._result or (found and found != list(types)):
                    shown = f"{result} ({', '.join(map(str, found))})"
                    message = f"function {node.name} is declared as {shown}, and defined as {own}"
                    self.fail(each.token, message, "the same types in both")

    def _parameter(self, node: tree.Declarator, is_kernel: bool) -> typed.Symbol | typed.Aggregate:
        """Declare a parameter, also one with an error, so that uses of its name have none."""
        try:
            type_ = self.resolve(node.type)
            if is_kernel and any(leaf.shape for _, leaf in leaves_of(type_)):
                what = "holds blocks" if isinstance(type_.element, Struct) else "is a block"
                self.fail(node.token, f"parameter {node.name} of a kernel {what}", "a pointer")
        except CheckAbort:
            self.declare(node.token, None)
            raise
        return self._entry(node, type_)

    def _entry(self, node: tree.Declarator, type_: Type) -> typed.Symbol | typed.Aggregate:
        """Declare a variable or parameter, and return what its name stands for."""
        is_constant = node.type.constant[-1]
        entry: typed.Symbol | typed.Aggregate
        if isinstance(type_.element, Struct):
            symbols = self.symbols_for(node.name, type_, node.token, is_constant)
            entry = typed.Aggregate(node.name, type_, node.token, symbols)
        else:
            entry = typed.Symbol(node.name, type_, node.token, is_constant)
        self.declare(node.token, entry)
        return entry

    def _promises(self, node: tree.Declarator, type_: Type) -> tuple[typed.Promise, ...]:
        found = []
        for each in node.attributes:
            wanted = "a pointer" if each.name in _ON_POINTERS else "an integer" if each.name in _ON_INTEGERS else ""
            is_integer = isinstance(type_.element, Scalar) and type_.element.is_integer
            if not wanted or not (type_.is_pointer if wanted == "a pointer" else is_integer):
                what = wanted or "a function"
                self.fail(each.token, f"{each.token.text} on {node.name} of type {type_}; it goes with {what}")
            number = self.constant(each.arguments[0], f"the argument of {each.token.text}") if each.arguments else 0
            if each.arguments and (number < 1 or (each.name == "aligned" and number & (number - 1))):
                expected = "a power of two" if each.name == "aligned" else "a positive number"
                self.fail(each.token, f"{each.token.text}({number}), expected {expected}")
            found.append(typed.Promise(each.name, number, each.token))
        return tuple(found)

    def check_own_call(self, node: tree.Call, token: Token) -> typed.Expression:
        """Check the call of a function of the text."""
        callee = self._functions.get(token.text)
        if callee is None:
            if token.text in self._prototypes:
                self.fail(token, f"{token.text} is declared, and has no body", "its definition, or another function")
            entry = self.look_up(token)
            if entry is None:
                self.abort()
            element = entry.type.element if isinstance(entry, typed.Symbol) else None
            is_mask = isinstance(element, Scalar) and element.is_integer
            self.fail(token, f"{token.text} is no function", f"*?({token.text})p, where it is a mask" if is_mask else "")
        if token.text in self._open:
            chain = " → ".join([*self._open[self._open.index(token.text) :], token.text])
            self.fail(token, f"recursion is not supported: {chain}", "a loop")
        if callee in self._kernels:
            self.fail(token, f"{token.text} is a kernel, and is called", "a function without __global__")
        arguments = [self.check(each) for each in node.arguments]
        found = self.function(callee)
        if found is None:
            self.abort()
        self.spend(token, self._weights[token.text] + sum(_parts_of(each.type) for each in found.declared))
        if len(arguments) != len(found.declared):
            self.fail(token, f"{token.text} takes {len(found.declared)} arguments, got {len(arguments)}")
        values = [
            self.assigned(argument.token, argument, each.type, f"parameter {each.name} of {token.text}")
            for argument, each in zip(arguments, found.declared, strict=True)
        ]
        before: list[typed.Expression] = []
        passed: list[typed.Expression] = []
        is_parted = any(isinstance(each, typed.Record) and each.before for each in values)
        for value in values:
            if isinstance(value, typed.Record):
                before += value.before
            leaves = value.leaves if isinstance(value, typed.Record) else (value,)
            passed += [self.captured(leaf, before) for leaf in leaves] if is_parted else leaves
        for table in found.tables:
            passed.append(self.read_table(table, token))
        if not isinstance(found.result.element, Struct):
            call = typed.Call(found.result, token, token.text, tuple(passed), ())
            return typed.Sequence(call.type, token, (*before, call), len(before)) if before else call
        results = tuple(self.temporary_symbol(leaf, token) for _, leaf in leaves_of(found.result))
        call = typed.Call(type_of(VOID), token, token.text, tuple(passed), results)
        return typed.Record(found.result, token, (*before, call), tuple(self.read(each, token) for each in results))

    # Statements

    def statement(self, node: tree.Statement, into: list[typed.Statement]) -> None:
        """Append the typed trees of a statement, and go on behind its errors."""
        try:
            _STATEMENTS[type(node)](self, node, into)
        except CheckAbort:
            self.take_events()

    def _block(self, node: tree.Statement) -> tuple[typed.Statement, ...]:
        found: list[typed.Statement] = []
        with self.scope():
            for each in node.statements if isinstance(node, tree.Compound) else (node,):
                self.statement(each, found)
        return tuple(found)

    def _compound(self, node: tree.Compound, into: list[typed.Statement]) -> None:
        into.extend(self._block(node))

    def _whole(self, expression: tree.Expression) -> typed.Expression:
        """Check the expression of a statement. Names in it that are not declared are told even behind another error."""
        try:
            return self.check(expression)
        except CheckAbort:
            self._look_up_names(expression)
            raise

    def _look_up_names(self, expression: tree.Expression) -> None:
        for each in nodes_of(expression):
            if isinstance(each, tree.Name) and each.token.text not in self.known_functions:
                with self.reported():
                    self.check(each)

    def _evaluation(self, node: tree.Evaluation, into: list[typed.Statement]) -> None:
        if node.expression is not None:
            self._evaluated(node.token, self._whole(node.expression), into)

    def _evaluated(self, token: Token, value: typed.Expression, into: list[typed.Statement]) -> None:
        """Append the evaluation of an expression; of a struct, one for each part of what it does."""
        events = self.take_events()
        for each in value.before if isinstance(value, typed.Record) else (value,):
            into.append(typed.Evaluate(token, each, events))
            events = ()

    def _broken(self, node: tree.Broken, into: list[typed.Statement]) -> None:
        for _, name in node.names:
            self.scopes[-1][name] = None

    def _declaration(self, node: tree.Declaration, into: list[typed.Statement]) -> None:
        self._announce(node)
        for each in node.declarators:
            type_, value = None, None
            if node.is_typedef and self.is_announced(each.type):
                self.declare(each.token, Announced(each.type, len(self.scopes)))
                continue
            try:
                type_ = self.resolve(each.type)
                for attribute in each.attributes:
                    self._local_attribute(attribute, each, type_)
            except CheckAbort:
                self.take_events()
            if type_ is None:
                self.declare(each.token, None)
                continue
            if node.is_typedef:
                if each.name in SCALARS:
                    self._compare_built_in(each, type_)
                elif self.scopes[-1].get(each.name) is not type_:
                    self.declare(each.token, type_)
                continue
            entry = self._entry(each, type_)  # the name is known in its own initial value, as in C
            symbols = entry.symbols if isinstance(entry, typed.Aggregate) else (entry,)
            try:
                if each.value is not None:
                    value = self.initialized(each.token, type_, each.value, each.name)
            except CheckAbort:
                if each.value is not None:
                    self._look_up_names(each.value)
                self.take_events()
            if value is not None:
                into += [typed.Declare(each.token, symbol) for symbol in symbols if self.is_read(symbol)]
                self._evaluated(each.token, self.write(each.token, Lvalue(each.name, type_, symbols), value), into)
            elif each.value is None:
                into += [typed.Declare(each.token, symbol) for symbol in symbols]

    def _compare_built_in(self, node: tree.Declarator, type_: Type) -> None:
        """Compare a typedef of the name of a built-in type with that type, which it cannot change."""
        own = SCALARS[node.name]
        if type_.element is not own or type_.shape:
            shown = f"{node.name} is the built-in type {own}" if str(own) != node.name else f"{own} is a built-in type"
            self.diagnostics.error(node.token, f"{shown}, and this typedef makes it {type_}", "another name")

    def _local_attribute(self, attribute: tree.Attribute, node: tree.Declarator, type_: Type) -> None:
        """Check an attribute of a local variable. It promises what nobody checks, and so has no effect."""
        if attribute.name not in ("multipleof", "aligned"):
            self.fail(attribute.token, f"{attribute.token.text} on the local variable {node.name}; it is for parameters")
        if (attribute.name == "multipleof") == isinstance(type_.element, Pointer):
            self.fail(attribute.token, f"{attribute.token.text} on {node.name} of type {type_}")
        if self.constant(attribute.arguments[0], f"the argument of {attribute.token.text}") < 1:
            self.fail(attribute.token, f"the argument of {attribute.token.text} is not positive")

    def _definition(self, node: tree.Structure | tree.Enumeration, into: list[typed.Statement]) -> None:
        self.define_once(node)

    def _static_assert(self, node: tree.StaticAssert, into: list[typed.Statement]) -> None:
        if not self.constant(node.condition, "the condition of _Static_assert"):
            self.fail(node.token, f"_Static_assert fails: {node.message}" if node.message else "_Static_assert fails")

    def _condition(self, expression: tree.Expression) -> typed.Expression:
        """Return the condition of a statement, a scalar bool."""
        value = self._whole(expression)
        if value.type.shape:
            message = f"the condition is a block of shape {list(value.type.shape)}"
            fix = "use ?: or a mask, or reduce it: (c)[max] = any, (c)[min] = all"
            if any(extent > 1 for extent in value.type.shape):
                self.fail(value.token, message, fix)
        return self.to_shape(value.token, self.truth(value), (), "the condition")

    def _if(self, node: tree.If, into: list[typed.Statement]) -> None:
        """Check an `if`, with each `else if` behind it: such chains are long, and need no recursion."""
        chain: list[tuple[Token, typed.Expression, typed.Events, tuple[typed.Statement, ...]]] = []
        is_whole = True
        following: tree.Statement | None = node
        while isinstance(following, tree.If):
            condition: typed.Expression | None = None
            try:
                condition = self._condition(following.condition)
            except CheckAbort:  # what it controls is checked as well
                is_whole = False
            events = self.take_events()
            first = self._block(following.first)
            if condition is not None:
                chain.append((following.token, condition, events, first))
            following = following.second
        second = self._block(following) if following is not None else ()
        if not is_whole:
            self.abort()
        for token, condition, events, first in reversed(chain):
            second = (typed.If(token, condition, events, first, second),)
        into += second

    def _loop_body(self, node: tree.Statement) -> tuple[typed.Statement, ...]:
        self._loops += 1
        found = self._block(node)
        self._loops -= 1
        return found

    def _loop_condition(self, node: tree.For | tree.While) -> typed.Expression | None:
        """Return the condition of a loop. If it has an error, what it controls is checked as well."""
        try:
            return None if node.condition is None else self._condition(node.condition)
        except CheckAbort:
            self.take_events()
            self._loop_body(node.body)
            raise

    def _for(self, node: tree.For, into: list[typed.Statement]) -> None:
        with self.scope():
            self.statement(node.start, into)
            condition = self._loop_condition(node)
            events = self.take_events()
            step: list[typed.Statement] = []
            if node.step is not None:
                self.statement(tree.Evaluation(node.step.token, node.step), step)
            body = self._loop_body(node.body)
        into.append(typed.Loop(node.token, condition, events, body, tuple(step), is_post=False))

    def _while(self, node: tree.While, into: list[typed.Statement]) -> None:
        condition = self._loop_condition(node)
        events = self.take_events()
        into.append(typed.Loop(node.token, condition, events, self._loop_body(node.body), (), is_post=False))

    def _do(self, node: tree.DoWhile, into: list[typed.Statement]) -> None:
        body = self._loop_body(node.body)
        condition = self._condition(node.condition)
        into.append(typed.Loop(node.token, condition, self.take_events(), body, (), is_post=True))

    def _subject(self, node: tree.Switch) -> typed.Expression | None:
        """Return the subject of a switch; None, after an error, if it has one."""
        try:
            subject = self._whole(node.subject)
            element = subject.type.element
            if subject.type.shape or not isinstance(element, Scalar) or not element.is_integer:
                self.fail(node.token, f"a switch over a value of type {subject.type}, expected a scalar integer")
            return self.convert(subject, INT if element.bits < INT.bits else element)
        except CheckAbort:
            return None

    def _switch(self, node: tree.Switch, into: list[typed.Statement]) -> None:
        subject = self._subject(node)
        events = self.take_events()
        sections: list[typed.Section] = []
        seen: dict[int | None, Token] = {}
        values: list[int] = []
        body: list[typed.Statement] = []
        is_default = has_broken_label = False
        self._switches += 1
        with self.scope():
            for each in node.body.statements:
                if not isinstance(each, tree.Case):
                    is_label = isinstance(each, tree.Broken) and each.token.text in ("case", "default")
                    has_broken_label = has_broken_label or is_label
                    is_reached = bool(seen) or has_broken_label
                    if not is_reached and not isinstance(each, tree.Declaration | tree.Broken):
                        message = "a statement before the first case of a switch"
                        self.diagnostics.error(each.token, message, "case N: before it")
                    self.statement(each, body if is_reached else [])
                    continue
                if body:
                    sections.append(typed.Section(tuple(values), is_default, tuple(body)))
                    values, is_default, body = [], False, []
                value = self._label(each, seen, subject)
                is_default = is_default or each.value is None
                if value is not None:
                    values.append(value)
            entries = self.scopes[-1].values()
            declared = [entry for entry in entries if isinstance(entry, typed.Symbol)]
            declared += [symbol for entry in entries if isinstance(entry, typed.Aggregate) for symbol in entry.symbols]
        self._switches -= 1
        if subject is None:
            self.abort()
        # a later section may read what an earlier one declares, and be reached by its own label
        into += [typed.Declare(symbol.token, symbol) for symbol in declared]
        sections.append(typed.Section(tuple(values), is_default, tuple(body)))
        into.append(typed.Switch(node.token, subject, events, tuple(sections)))

    def _label(self, node: tree.Case, seen: dict[int | None, Token], subject: typed.Expression | None) -> int | None:
        """Return the value of a case as the subject's type has it; None for default, and after an error.

        `seen`: the labels before it.
        """
        try:
            value = None if node.value is None else self.constant(node.value, "the value of a case")
        except CheckAbort:
            seen.setdefault(None if node.value is None else -1, node.token)
            return None
        if value is not None and subject is not None and isinstance(subject.type.element, Scalar):
            value = wrapped(value, subject.type.element)
        if value in seen:
            what = "default" if value is None else f"case {value}"
            self.diagnostics.error(node.token, f"{what} is there twice in this switch")
        seen[value] = node.token
        return value

    def _case(self, node: tree.Case, into: list[typed.Statement]) -> None:
        self.fail(node.token, f"{node.token.text} is not directly in the braces of a switch")

    def _break(self, node: tree.Break, into: list[typed.Statement]) -> None:
        if not (self._loops or self._switches):
            self.fail(node.token, "break outside of loops and switches")
        into.append(typed.Break(node.token))

    def _continue(self, node: tree.Continue, into: list[typed.Statement]) -> None:
        if not self._loops:
            self.fail(node.token, "continue outside of loops")
        into.append(typed.Continue(node.token))

    def _return(self, node: tree.Return, into: list[typed.Statement]) -> None:
        is_void = self._result.element == VOID
        if node.value is None:
            if not is_void:
                self.fail(node.token, f"return without a value in a function of type {self._result}")
            into.append(typed.Return(node.token, (), (), ()))
            return
        value = self._whole(node.value)
        if is_void:
            self.fail(node.token, f"a value of type {value.type} is returned from a void function", "return;")
        value = self.assigned(node.token, value, self._result, "the result")
        before, values = (value.before, value.leaves) if isinstance(value, typed.Record) else ((), (value,))
        into.append(typed.Return(node.token, before, values, self.take_events()))


def _parts_of(type_: Type) -> int:
    """Return how many expressions a value of a type is beside its own."""
    return len(leaves_of(type_)) if isinstance(type_.element, Struct) else 0


_STATEMENTS: dict[type[tree.Statement], Callable[[_Checker, Any, list[typed.Statement]], None]] = {
    tree.Compound: _Checker._compound, tree.Evaluation: _Checker._evaluation, tree.Declaration: _Checker._declaration,
    tree.Broken: _Checker._broken, tree.Enumeration: _Checker._definition, tree.Structure: _Checker._definition,
    tree.StaticAssert: _Checker._static_assert, tree.If: _Checker._if,
    tree.For: _Checker._for, tree.While: _Checker._while, tree.DoWhile: _Checker._do, tree.Switch: _Checker._switch,
    tree.Case: _Checker._case, tree.Break: _Checker._break, tree.Continue: _Checker._continue, tree.Return: _Checker._return,
}  # fmt: skip

__all__ = ["check_text"]
