"""Parses PTX modules: text to variables and functions.

Source: NVIDIA, "PTX ISA", chapters "Syntax", "State Spaces, Types, and Variables", "Directives". Texts are untrusted: length,
statements and nesting are limited (`parser.py`), and anything unknown is an error that names the line.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import NoReturn

from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError
from .lexer import tokens_of
from .modules import SIZES, Function, Parameter, Prototype, PtxModule, SymbolValue, Variable
from .parser import MAX_DEPTH, RegisterNames, StatementParser
from .syntax import Address, Float, Group, Instruction, Integer, Name, Operand, Pair, Vector

MAX_MODULE_TEXT = 1 << 25
"""The most characters of a module that are read."""
MAX_MODULE_STATEMENTS = 1_000_000
MAX_VARIABLE = 1 << 30
"""The most bytes of one variable."""
MAX_ALIGN = 1 << 16

_LINKING = frozenset([".visible", ".extern", ".weak", ".common"])
_SPACES = frozenset([".global", ".const", ".shared", ".local"])
_BOUNDS = frozenset([
    "reqntid", "maxntid", "minnctapersm", "maxnctapersm", "maxnreg", "reqnctapercluster", "maxclusterrank", "explicitcluster",
    "blocksareclusters", "noreturn",
])  # fmt: skip

_DEBUG_SECTION = re.compile(
    r"^[ \t]*\.section[ \t]+\.debug\w*\s*\{[^{}\"/]*(?://[^\n]*\n[^{}\"/]*)*\}", re.MULTILINE
)
"""Sections that only debuggers read; they are cut out before anything else, for speed."""


def parse_module(text: str) -> PtxModule:
    """Parses the text of a module.

    Raises:
        UserError: text that is no PTX, naming the line.
        UnsupportedError: a directive that is not known.
    """
    return _ModuleParser(text).module()


@dataclass(slots=True)
class _Scope:
    """The names that a scope of a function declares: as written → unique."""

    parent: int
    mark: str
    names: dict[str, str] = field(default_factory=dict)


_OCTAL = re.compile(r"\\([0-3][0-7]{2})")


def _file_name(text: str) -> str:
    """Decodes a name in which bytes outside ASCII are written as LLVM does, `m\\303\\274ller.py`."""
    plain = _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
    if plain == text or not all(ord(c) < 256 for c in plain):
        return text
    return plain.encode("latin-1").decode("utf-8", "replace")


class _ModuleParser(StatementParser):
    max_statements = MAX_MODULE_STATEMENTS

    def __init__(self, text: str) -> None:
        blank = _DEBUG_SECTION.sub(lambda match: "\n" * match[0].count("\n"), text[: MAX_MODULE_TEXT + 1])
        super().__init__(tokens_of(blank, MAX_MODULE_TEXT), {})
        self.files: dict[int, str] = {}
        self.current_location: tuple[str, int] | None = None
        self.pragmas: list[str] = []
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}

    # -- the module

    def module(self) -> PtxModule:
        version = (0, 0)
        target: tuple[str, ...] = ("",)
        while self.token.kind != "end":
            self.counted()
            keyword = self.token.text
            if keyword == ".version":
                version = self.version()
            elif keyword == ".target":
                target = self.target()
            elif keyword == ".address_size":
                self.take()
                if self.take().text != "64":
                    self.unknown("only .address_size 64 is known")
            elif not self.debug():
                self.declaration_at_top()
        if version == (0, 0) or not target[0]:
            self.fail("a module starts with .version and .target")
        named = {
            f"file {number}": name for number, name in self.files.items()
        }  # .file follows the functions
        for function in self.functions.values():
            function.locations = [
                each and (named.get(each[0], each[0]), each[1]) for each in function.locations
            ]
        return PtxModule(version, target, self.variables, self.functions)

    def unknown(self, problem: str) -> NoReturn:
        raise UnsupportedError(f"PTX line {self.token.line}: {problem}")

    def version(self) -> tuple[int, int]:
        self.take()
        token = self.take()
        major, dot, minor = token.text.partition(".")
        if token.kind != "decimal" or not dot or not major.isdigit() or not minor.isdigit():
            self.fail(f"{token.text!r} is no version")
        return int(major[:9]), int(minor[:9])

    def target(self) -> tuple[str, ...]:
        self.take()
        names: list[str] = []
        while True:
            token = self.take()
            if token.kind != "name" or len(names) > MAX_DEPTH:
                self.fail(f"{token.text!r} is no target")
            names.append(token.text)
            if not self.optional(","):
                return tuple(names)

    def debug(self) -> bool:
        """Reads a directive for debuggers or a pragma, keeping files, locations and pragmas; False at others."""
        keyword = self.token.text
        if keyword == ".file":
            self.take()
            number, name = self.take(), self.take()
            if number.kind != "integer" or name.kind != "string" or len(number.text) > 9:
                self.fail('expected .file number "name"')
            self.files[int(number.text)] = _file_name(name.text[1:-1])
            while self.optional(","):
                self.take()
            return True
        if keyword == ".loc":
            self.location()
            return True
        if keyword == ".pragma":
            self.take()
            while self.token.text != ";":
                if self.token.kind == "end":
                    self.fail(".pragma does not end with ';'")
                self.pragmas.append(self.take().text.strip('"'))
            self.take()
            return True
        if keyword == ".section":
            self.take()
            self.take()
            self.expect("{", "after the name of a section")
            depth = 1
            while depth:
                token = self.take()
                if token.kind == "end":
                    self.fail("a section without '}'")
                depth += (token.text == "{") - (token.text == "}")
            return True
        return False

    def location(self) -> None:
        """Parses `.loc file line column` and, for inlined code, `, function_name label, inlined_at file line column`."""
        self.take()
        numbers: list[int] = []
        while self.token.kind == "integer" and len(numbers) < 3:
            numbers.append(int(self.take().text[:9].rstrip("U"), 0) if self.token.text.isdigit() else 0)
        if len(numbers) < 2:
            self.fail("expected .loc file line column")
        while self.optional(","):
            self.take()
            while self.token.kind in ("integer", "name") and self.token.text not in (
                "function_name",
                "inlined_at",
            ):
                following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
                if self.token.kind == "name" and self.tokens[self.at - 1].text != "function_name":
                    break
                if self.token.kind == "name" and following.text == ":":
                    break
                self.take()
            if self.optional("+"):
                self.take()
        self.current_location = (f"file {numbers[0]}", numbers[1])

    def declaration_at_top(self) -> None:
        extern = False
        while self.token.text in _LINKING:
            extern |= self.take().text == ".extern"
        keyword = self.token.text
        if keyword in (".entry", ".func"):
            self.function()
        elif keyword in _SPACES:
            for variable in self.variable_list(extern):
                if (
                    variable.name in self.variables
                    and self.variables[variable.name].size is not None
                    and not extern
                ):
                    self.fail(f"variable {variable.name} is declared twice")
                self.variables[variable.name] = variable
        else:
            self.unknown(f"{keyword or 'the end'!r} is no declaration that is known")

    # -- variables

    def variable_list(self, extern: bool) -> list[Variable]:
        """Parses `.space .align n .type name[extent] = {…}, name…;`."""
        space = self.take().text[1:]
        align, type_, vector = 0, "", 1
        while self.token.kind == "dotted":
            keyword = self.take().text[1:]
            if keyword == "align":
                align = self.small("an alignment", MAX_ALIGN)
            elif keyword in ("v2", "v4", "v8"):
                vector = int(keyword[1:])
            elif keyword in SIZES:
                type_ = keyword
            else:
                self.unknown(f".{keyword} before a variable is not known")
        if not type_:
            self.fail("a variable without a type")
        if align & (align - 1):
            self.fail(f"the alignment {align} is no power of two")
        found = []
        while True:
            self.counted()
            found.append(self.variable(space, type_, vector, align or SIZES[type_] * vector, extern))
            if not self.optional(","):
                break
        self.expect(";", "at the end of a variable")
        return found

    def variable(self, space: str, type_: str, vector: int, align: int, extern: bool) -> Variable:
        name = self.take()
        if name.kind != "name":
            self.fail(f"{name.text!r} is no variable's name")
        size: int | None = SIZES[type_] * vector
        while self.optional("["):
            if self.optional("]"):
                size = None
                continue
            extent = self.small("an extent", MAX_VARIABLE)
            self.expect("]", "after an extent")
            size = None if size is None else size * extent
            if size is not None and size > MAX_VARIABLE:
                self.fail(f"variable {name.text} has more than {MAX_VARIABLE} bytes")
        values: list[int | SymbolValue] = []
        if self.optional("="):
            self.initial(values, type_, 0)
            if size is None:
                size = SIZES[type_] * len(values)
            if len(values) * SIZES[type_] > size:
                self.fail(f"variable {name.text} has more initial values than elements")
        if size is None and not extern and space != "shared":
            self.fail(f"variable {name.text} has no extent")
        return Variable(name.text, space, type_, align, size, tuple(values), name.line)

    def initial(self, values: list[int | SymbolValue], type_: str, depth: int) -> None:
        self.counted()
        if depth > MAX_DEPTH:
            self.fail(f"initial values are nested deeper than {MAX_DEPTH}")
        if self.optional("{"):
            while not self.optional("}"):
                self.initial(values, type_, depth + 1)
                if not self.optional(",") and self.token.text != "}":
                    self.fail("expected ',' or '}' between initial values")
            return
        width = 8 * SIZES[type_]
        if self.token.kind == "name":
            name = self.take().text
            if name == "generic" and self.optional("("):
                name = self.take().text
                self.expect(")", "after generic(…")
            offset = self.small("an offset", MAX_VARIABLE) if self.optional("+") else 0
            if width != 64:
                self.unknown(f"an address as initial value of {type_}")
            values.append(SymbolValue(name, offset))
            return
        value = self.atom(depth)
        match value:
            case Integer(number):
                values.append(number & ((1 << width) - 1))
            case Float(bits, found) if found == width:
                values.append(bits)
            case _:
                self.fail(f"no initial value of {type_}")

    def small(self, what: str, limit: int) -> int:
        token = self.token
        value = self.number(self.take()) if token.kind == "integer" else None
        if not isinstance(value, Integer) or value.value > limit:
            self.fail(f"expected {what} up to {limit}, found {token.text!r}")
        return value.value

    # -- functions

    def parameter(self) -> Parameter:
        if self.take().text != ".param":
            self.at -= 1
            self.unknown(f"{self.token.text!r}: parameters of functions are in .param space")
        type_, align, pointer = "", 0, False
        while self.token.kind == "dotted":
            keyword = self.take().text[1:]
            if keyword == "align":
                align = self.small("an alignment", MAX_ALIGN)
                pointer = pointer and bool(align)
            elif keyword in SIZES and not type_:
                type_ = keyword
            elif keyword == "ptr":
                pointer = True
            elif keyword not in ("global", "const", "shared", "local"):
                self.unknown(f".{keyword} at a parameter is not known")
        name = self.take()
        if name.kind != "name" or not type_:
            self.fail("expected a parameter's type and name")
        size = SIZES[type_]
        own = size
        while self.optional("["):
            if self.optional("]"):
                self.unknown(f"parameter {name.text}: variable arguments")
            size *= self.small("an extent", MAX_VARIABLE)
            self.expect("]", "after an extent")
            if size > MAX_VARIABLE:
                self.fail(f"parameter {name.text} has more than {MAX_VARIABLE} bytes")
        return Parameter(name.text, type_, size, own if pointer else max(align, own), pointer)

    def parameters(self) -> tuple[Parameter, ...]:
        found: list[Parameter] = []
        while not self.optional(")"):
            self.counted()
            found.append(self.parameter())
            if not self.optional(",") and self.token.text != ")":
                self.fail("expected ',' or ')' between parameters")
        return tuple(found)

    def function(self) -> None:
        entry = self.take().text == ".entry"
        results = self.parameters() if not entry and self.optional("(") else ()
        name = self.take()
        if name.kind != "name":
            self.fail(f"{name.text!r} is no function's name")
        parameters = self.parameters() if self.optional("(") else ()
        function = Function(name.text, entry, results, parameters, name.line)
        while self.token.kind == "dotted":
            keyword = self.take().text[1:]
            if keyword == "pragma":
                self.at -= 1
                self.debug()
                continue
            if keyword not in _BOUNDS:
                self.unknown(f".{keyword} at function {name.text} is not known")
            numbers: list[int] = []
            while self.token.kind == "integer":
                numbers.append(self.small("a number", 1 << 31))
                if not self.optional(","):
                    break
            function.bounds[keyword] = tuple(numbers)
        known = self.functions.get(name.text)
        if known is not None and (
            known.entry != entry or (known.code is not None and self.token.text == "{")
        ):
            self.fail(f"function {name.text} is defined twice")
        if self.optional(";"):
            self.functions.setdefault(name.text, function)
            return
        self.expect("{", f"at the start of {name.text}")
        self.current_location = None
        _FunctionReader(self, function).read()
        self.functions[name.text] = function


class _FunctionReader:
    """Reads the body of one function into a flat list. Scopes are kept on a list, not on Python's stack."""

    def __init__(self, parser: _ModuleParser, function: Function) -> None:
        self.parser = parser
        self.function = function
        self.scopes: list[_Scope] = [_Scope(-1, "")]
        self.scope = 0
        self.pending: list[tuple[Instruction, int]] = []
        self.table_scopes: dict[str, tuple[tuple[str, ...], int]] = {}

    def read(self) -> None:
        parser, function = self.parser, self.function
        parser.registers = function.registers
        parser.scopes = [RegisterNames("")]
        parser.scope_count = 0
        depth = 0
        while True:
            if parser.token.kind == "end":
                parser.fail(f"function {function.name}: '{{' without '}}'")
            if parser.optional("{"):
                parser.counted()
                depth += 1
                if depth > MAX_DEPTH:
                    parser.fail(f"scopes are nested deeper than {MAX_DEPTH}")
                parser.scope_count += 1
                mark = f"#{parser.scope_count}"
                parser.scopes.append(RegisterNames(mark))
                self.scopes.append(_Scope(self.scope, mark))
                self.scope = len(self.scopes) - 1
            elif parser.optional("}"):
                if not depth:
                    break
                depth -= 1
                parser.scopes.pop()
                self.scope = self.scopes[self.scope].parent
            elif not parser.optional(";"):
                parser.counted()
                self.statement()
        parser.scopes = [RegisterNames("")]
        function.code = [
            replace(i, operands=tuple(self.resolved(o, scope) for o in i.operands))
            if self.has_names(i)
            else i
            for i, scope in self.pending
        ]
        for name, (labels, scope) in self.table_scopes.items():
            function.tables[name] = tuple(self.lookup(label, scope) for label in labels)
            for label in function.tables[name]:
                if label not in function.labels:
                    parser.fail(f"function {function.name}: no label {label} for the branch table {name}")

    def declare(self, name: str, line: int) -> str:
        scope = self.scopes[self.scope]
        if name in scope.names:
            self.parser.fail(f"{name} is declared twice")
        scope.names[name] = name + scope.mark
        return name + scope.mark

    def lookup(self, name: str, scope: int) -> str:
        while scope >= 0:
            found = self.scopes[scope].names.get(name)
            if found is not None:
                return found
            scope = self.scopes[scope].parent
        return name

    def statement(self) -> None:
        parser, function = self.parser, self.function
        token = parser.token
        if token.kind == "name" and parser.tokens[min(parser.at + 1, len(parser.tokens) - 1)].text == ":":
            parser.at += 2
            self.label(token.text, token.line)
        elif token.kind != "dotted":
            guard = parser.guard() if parser.optional("@") else None
            if parser.pragmas:
                function.pragmas[len(self.pending)] = tuple(parser.pragmas)
                parser.pragmas = []
            self.pending.append((parser.instruction(guard), self.scope))
            function.locations.append(parser.current_location)
        elif token.text == ".reg":
            parser.take()
            parser.declaration()
        elif token.text == ".param":
            area = parser.parameter()
            parser.expect(";", "at the end of .param")
            name = self.declare(area.name, token.line)
            function.areas[name] = replace(area, name=name)
        elif token.text in _SPACES:
            for variable in parser.variable_list(False):
                name = self.declare(variable.name, variable.line)
                function.variables[name] = replace(variable, name=name)
        elif not parser.debug():
            parser.unknown(f"the directive {token.text} is not known")

    def label(self, name: str, line: int) -> None:
        parser, function = self.parser, self.function
        unique = self.declare(name, line)
        following = parser.token.text
        if following == ".branchtargets":
            parser.take()
            labels: list[str] = []
            while True:
                token = parser.take()
                if token.kind != "name":
                    parser.fail(f"{token.text!r} is no label")
                labels.append(token.text)
                if not parser.optional(","):
                    break
            parser.expect(";", "at the end of .branchtargets")
            self.table_scopes[unique] = (tuple(labels), self.scope)
        elif following == ".callprototype":
            parser.take()
            results = parser.parameters() if parser.optional("(") else ()
            parser.take()
            parameters = parser.parameters() if parser.optional("(") else ()
            while parser.token.text == ".noreturn":
                parser.take()
            parser.expect(";", "at the end of .callprototype")
            function.prototypes[unique] = Prototype(results, parameters)
        else:
            function.labels[unique] = len(self.pending)

    def has_names(self, instruction: Instruction) -> bool:
        return any(not isinstance(operand, (Integer, Float)) for operand in instruction.operands)

    def resolved(self, operand: Operand, scope: int) -> Operand:
        """Returns the operand with names of labels, areas and variables made unique; the parser bounds its depth."""
        match operand:
            case Name(text):
                return Name(self.lookup(text, scope))
            case Address(base, offset, parts):
                return Address(
                    self.resolved(base, scope), offset, tuple(self.resolved(p, scope) for p in parts)
                )
            case Group(elements):
                return Group(tuple(self.resolved(e, scope) for e in elements))
            case Vector(elements):
                return Vector(tuple(self.resolved(e, scope) for e in elements))
            case Pair(first, second):
                return Pair(self.resolved(first, scope), self.resolved(second, scope))
        return operand
