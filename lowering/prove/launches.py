"""Looks for launches: small sizes that satisfy assumptions, and those that break a property, which the sanitizer runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence

from xdsl.ir import Operation

from ..tt import types as t
from ..tt.arguments import parameters_of
from ..tt.sanitize.findings import Finding
from .initialised.sources import deciding
from .preparation import GATHER, Access, PreparedFunction, line_of, parameter_names
from .proof import INITIALISED, ORDER, Counterexample
from .specify.expressions import evaluate
from .specify.specification import ParsedSpecification
from .terms.formulas import Formula, at_least, at_most, equal, holds
from .terms.polynomials import Polynomial
from .world import World

Confirm = Callable[
    [Mapping[str, int], Mapping[str, int], tuple[int, int, int], Mapping[str, int], int], tuple[Sequence[Finding], int]
]
"""Runs a launch in the sanitizer: (sizes, extents of arrays, grid, contents of arrays of integers, operations that it may
run) → what it found, and how many operations it ran."""
RunProgram = Callable[
    [Mapping[str, int], Mapping[str, int], tuple[int, int, int], Mapping[str, int], tuple[int, int, int]],
    Mapping[Operation, Finding],
]
"""Runs one program of a launch: (sizes, extents of arrays, grid, contents of arrays of integers, program) → what is seen of
operations."""

_SMALL = (8, 40, 300, 3000)
_SAME = (1, 2)
"""What all sizes may be at once: most specifications allow that, and it is tried first."""
_SHARE = 4
"""Of the steps of a question one that looks for a launch takes this share: those that found one took an eighth at most."""
_FAR = (1 << 20, 1 << 31, 1 << 62)
"""What sizes are at most in launches of which one program is run, in turn."""
_MAX_MODELS = 8
"""Most programs and lanes that were found for formulas and are tried for others."""
MAX_ELEMENTS = 1 << 22
"""Most elements of the arrays of a launch."""
_MAX_PROGRAMS = 1 << 10
_UNSAID = 1 << 12
"""Elements of an array of which no extent is said. It has all that is reached; a launch that reaches more is none of it."""
_OPERATIONS = 50_000
"""Operations that one launch may run, besides some for each of its kernel's: it may never end."""
_ALL_OPERATIONS = 200_000
"""Those of all launches of a proof: some ten seconds, and the same on every machine."""
_ROUNDS = 4
"""How often a launch may run each operation of its kernel anyway, and what making it ready counts for each of them."""
_KINDS = {
    "bounds": ("out-of-bounds",), "races": ("race", "lane-race"), INITIALISED: ("uninitialised",), ORDER: ("lane-race",),
}  # fmt: skip
_NAME = re.compile(r'(?:%[^=]*= )?"?([a-z_0-9]+(?:\.[a-z_0-9]+)+)')
"""An operation's text up to its name: results, which come before it, may be called like any operation."""


class Launches:
    """Finds launches of one function under one specification.

    What a launch finds counts for all accesses: none runs twice.

    Attributes:
        arrays: says which parameter an access is to; "" if that is not known.
        is_spent: whether launches were left out, as others had run all operations that they may.
        models: sizes that satisfy the assumptions and formulas that were asked for, with the numbers of all atoms; the last.
    """

    def __init__(
        self, prepared: PreparedFunction, parsed: ParsedSpecification, confirm: Confirm | None, arrays: Callable[[Access], str]
    ) -> None:
        """Starts with nothing run."""
        self._prepared = prepared
        self._parsed = parsed
        self._confirm = confirm
        self._arrays = arrays
        self._length = sum(1 for _ in prepared.function.walk())
        self._left = _ALL_OPERATIONS + 2 * _ROUNDS * self._length
        self._ran: set[Hashable] = set()
        self._found: dict[Access, list[Counterexample]] = {}
        self._decided: dict[Operation, Counterexample] = {}
        self._deciding: dict[tuple[str, str], list[Operation]] = {}
        for op in prepared.function.walk():
            for line in {line_of(op), _own_line(line_of(op))} if deciding(op) else ():
                self._deciding.setdefault((op.name, line), []).append(op)
        self._by_line: dict[tuple[str, str], list[Access]] = {}
        self._at_line: dict[str, list[Access]] = {}
        for access in prepared.accesses:
            for line in {access.line, _own_line(access.line)}:
                self._by_line.setdefault((_kind(access.op.name), line), []).append(access)
            if not access.is_gather:
                self._at_line.setdefault(_own_line(access.line), []).append(access)
        self._by_array: dict[tuple[str, str], dict[str, list[Access]]] = {}
        names = zip(parameter_names(prepared.original), parameters_of(prepared.original), strict=True)
        self._texts = {name: parameter.name for name, parameter in names}
        said = {*parsed.extents, *[each.name for each in prepared.parameters if each.rank]}
        self._unsaid = [name for name in prepared.arrays if name not in said]
        self._not_filled = dict.fromkeys(parsed.ordered("distinct"), 1) | dict.fromkeys(parsed.points(), 0)
        tensors = [each.name for each in prepared.parameters if each.rank]  # as many elements as their shape says
        self._is_never_filled = any(name in self._not_filled for name in tensors)
        self.is_spent = False
        self.models: list[tuple[dict[str, int], dict[int, int]]] = []

    def is_met(self, formulas: Sequence[Formula], satisfies: Callable[[Mapping[str, int]], bool]) -> bool:
        """Returns whether formulas hold in a program and lane that were found for others. satisfies: whether sizes count."""
        return any(
            satisfies(sizes) and all(holds(each, model) for each in formulas) for sizes, model in reversed(self.models)
        )

    def sizes(self, world: World, formulas: Sequence[Formula], bound: int | None = None) -> dict[str, int] | None:
        """Returns sizes that satisfy the assumptions, and formulas besides, small ones if there are any."""
        for value in _SAME:  # products of sizes are numbers then, and the question is a short one
            if bound is None and self._parsed.holds(dict.fromkeys(world.symbols, value)):
                same = [equal(size, value) for size in world.symbols.values()]
                found = self._model(world, [*formulas, *same], (value,))
                if found is not None:
                    return found[0]
        found = self._model(world, formulas, (bound,) if bound is not None else (*_SMALL, 1 << 40))
        return None if found is None else found[0]

    def is_possible(self, world: World, formulas: Sequence[Formula], sizes: Mapping[str, int]) -> bool:
        """Returns whether formulas hold with these sizes, which satisfy the assumptions, in some program and lane."""
        same = [equal(symbol, sizes[name]) for name, symbol in world.symbols.items()]
        return world.solver.model([*world.base, *formulas, *same], _SHARE) is not None

    def _model(
        self, world: World, formulas: Sequence[Formula], bounds: Sequence[int], share: int = 1
    ) -> tuple[dict[str, int], dict[str, int], dict[int, int]] | None:
        """Returns (sizes, contents of arrays, values of atoms) for which formulas hold; None if none are found.

        share: as in `Solver.model`.
        """
        for bound in bounds:
            small = [at_most(size, bound) for size in world.symbols.values() if size.number is None]
            small += [at_least(size, -bound) for size in world.symbols.values() if size.number is None]
            model = world.solver.model([*world.base, *formulas, *small], share)
            if model is None:
                continue
            sizes = {}
            for name, symbol in world.symbols.items():
                sizes[name] = symbol.value(model)
            if not self._parsed.holds(sizes):
                continue
            self.models = [*self.models[1 - _MAX_MODELS :], (sizes, model)]
            contents: dict[str, int] = {}
            for atom, position in world.terms.loaded.items():
                if atom in model:
                    contents.setdefault(self._prepared.parameters[position].name, model[atom])
            return sizes, contents, model
        return None

    def _fills(
        self, sizes: Mapping[str, int], extents: Mapping[str, int], contents: Mapping[str, int]
    ) -> list[dict[str, int]]:
        """Returns values for the elements of arrays of integers: those of a model, and 0, as far as they are allowed.

        There are none if an array that may have elements has no number for them.
        """
        ranges: dict[str, tuple[int, int, int]] = {}
        for name, (low, high) in self._parsed.ranges_of_contents(sizes).items():
            parameter = self._prepared.parameters[self._prepared.arrays[name]]
            bits = t.bit_width(t.pointee(parameter.type))
            least = max(-(1 << (bits - 1)), -(1 << (bits - 1)) if low is None else low)
            most = min((1 << bits) - 1, (1 << bits) - 1 if high is None else high)
            if least <= most:
                ranges[name] = least, most, bits
            elif parameter.rank or extents.get(name, 1):
                return []
        found = []
        starts = {name: evaluate(size, sizes) for name, size in self._parsed.starts().items()}
        for wanted in (contents, {}):
            fill = dict(wanted) | starts
            for name, (least, most, bits) in ranges.items():
                fill[name] = _element(fill.get(name, 0), least, most, bits)
            if fill not in found:
                found.append(fill)
        return found

    def search(
        self, world: World, prop: str, accesses: tuple[Access, ...], formulas: Sequence[Formula]
    ) -> Counterexample | None:
        """Looks for a small launch in which the formulas hold, and runs it in the sanitizer; for none if one has found it."""
        if self._confirm is None or not formulas or self._is_never_filled:
            return None
        known = self.known(prop, accesses)
        for bound in _SMALL:
            found = None if known is not None else self._model(world, [*world.filled, *formulas], (bound,), _SHARE)
            if found is None:
                continue
            sizes, contents, _ = found
            x, y, z = [evaluate(axis, sizes) for axis in self._parsed.grid]
            extents = dict.fromkeys(self._unsaid, _UNSAID)
            extents |= {name: evaluate(extent, sizes) for name, extent in self._parsed.extents.items()}
            if x * y * z > _MAX_PROGRAMS or sum(extents.values()) > MAX_ELEMENTS:
                continue
            if any(extents.get(name, 0) > least for name, least in self._not_filled.items()):
                continue  # all elements of an array are one number here, which is not what is assumed of this one
            for fill in self._fills(sizes, extents, contents):
                if known is None:
                    self._run(self._confirm, sizes, extents, (x, y, z), fill)
                    known = self.known(prop, accesses)
        return known

    def of_any_size(
        self, world: World, formulas: Sequence[Formula], program: Sequence[Polynomial], run: RunProgram
    ) -> dict[Operation, Counterexample]:
        """Looks for a launch in which the formulas hold of one of its programs, runs that one, and returns what is seen.

        program: its index along each axis, as terms.
        """
        if self._confirm is None or self._is_never_filled:
            return {}
        for bound in _FAR:
            found = self._model(world, [*world.filled, *formulas], (bound,), _SHARE)
            if found is None:
                continue
            sizes, contents, model = found
            x, y, z = [evaluate(axis, sizes) for axis in self._parsed.grid]
            px, py, pz = [each.value(dict.fromkeys(each.atoms, 0) | model) for each in program]
            extents = {name: evaluate(extent, sizes) for name, extent in self._parsed.extents.items()}
            if any(extents.get(name, least + 1) > least for name, least in self._not_filled.items()):
                continue  # as in a search for small launches
            for fill in self._fills(sizes, extents, contents):
                if seen := run(sizes, extents, (x, y, z), fill, (px, py, pz)):
                    launch = (*sizes.items(), *self._others(sizes)), (x, y, z), tuple(fill.items())
                    return {op: Counterexample(*launch, finding) for op, finding in seen.items()}
        return {}

    def by_formula(
        self, world: World, formulas: Sequence[Formula], numbers: Sequence[Polynomial]
    ) -> tuple[dict[str, int], list[int]] | None:
        """Returns small sizes with which formulas hold, and what numbers are then; nothing is run, so that may be no launch."""
        for bound in _SMALL:
            found = self._model(world, formulas, (bound,), _SHARE)
            if found is not None:
                model = found[2]
                return found[0], [each.value(dict.fromkeys(each.atoms, 0) | model) for each in numbers]
        return None

    def known(self, prop: str, accesses: tuple[Access, ...]) -> Counterexample | None:
        """Returns a launch that was found to break a property of one of the accesses; the other side of a race is another."""
        for access in accesses:
            other = next((each for each in accesses if each is not access), access)
            for each in self.broken(prop, access):
                is_pair = each.finding.kind == "race" or prop == ORDER
                if not is_pair and prop == "races" and other is not access:
                    continue  # lanes of one store, with which the other access has nothing to do
                if not is_pair or self._met(access, each.finding) == [other]:
                    return each
        return None

    def broken(self, prop: str, access: Access) -> list[Counterexample]:
        """Returns the launches that were found to break a property of an access, whatever is on the other side of a race."""
        return [each for each in self._found.get(access, ()) if _breaks(prop, each.finding)]

    def _met(self, access: Access, finding: Finding) -> list[Access]:
        """Returns the accesses that may be on the other side of a race, of which a finding has the line alone."""
        arrays = ("", self._arrays(access))
        own = self._at_line.get(_own_line(finding.origin), [])
        return [each for each in own if (each.writes or access.writes) and self._arrays(each) in arrays]

    def _run(
        self, confirm: Confirm, sizes: Mapping[str, int], extents: Mapping[str, int], grid: tuple[int, int, int],
        fill: Mapping[str, int],
    ) -> None:  # fmt: skip
        """Runs a launch that did not run yet, and takes note of what it finds, by access."""
        key = (*sizes.items(), grid, *fill.items())
        if key in self._ran:
            return
        if self._left <= 0:
            self.is_spent = True
            return
        self._ran.add(key)
        findings, operations = confirm(sizes, extents, grid, fill, _OPERATIONS + _ROUNDS * self._length)
        self._left -= operations + _ROUNDS * self._length
        blamed = [(finding, self._guilty(finding)) for finding in findings]
        if any(finding.kind in _KINDS["bounds"] and not self._is_said(guilty) for finding, guilty in blamed):
            return
        for finding, guilty in blamed:
            example = Counterexample((*sizes.items(), *self._others(sizes)), grid, tuple(fill.items()), finding)
            decides = self._decider(finding)
            if guilty is not None:
                self._found.setdefault(guilty, []).append(example)
            elif decides is not None and finding.kind in _KINDS[INITIALISED]:
                self._decided.setdefault(decides, example)

    def decided(self, operation: Operation) -> Counterexample | None:
        """Returns a launch in which what decides a branch or a loop, or is asserted, was found to be undefined."""
        return self._decided.get(operation)

    def _decider(self, finding: Finding) -> Operation | None:
        """Returns the operation that decides or asserts and that a finding is about; None if there are several."""
        name = _name(finding)
        possible = self._deciding.get((name, finding.line)) or self._deciding.get((name, _own_line(finding.line)), [])
        return possible[0] if len(possible) == 1 else None

    def _is_said(self, access: Access | None) -> bool:
        """Returns whether an access is to an array of which an extent is said. None: one that is not known."""
        return not self._unsaid or (access is not None and self._arrays(access) not in ("", *self._unsaid))

    def _others(self, sizes: Mapping[str, int]) -> list[tuple[str, int]]:
        """Returns the parameters that are no sizes, floats and truth values, which are 1 in launches."""
        return [(each.name, 1) for each in self._prepared.parameters if not each.is_array and each.name not in sizes]

    def _guilty(self, finding: Finding) -> Access | None:
        """Returns the access that a finding is about; None if there are several that it could be."""
        key = (_kind(_name(finding)), finding.line)
        if key not in self._by_line:
            key = (key[0], _own_line(finding.line))
        possible = self._by_line.get(key, [])
        array = _array(finding)
        if len(possible) > 1:
            if key not in self._by_array:
                own = self._by_array[key] = {}
                for access in possible:
                    own.setdefault(self._called(access), []).append(access)
            own = self._by_array[key]
            possible = [] if "" in own else own.get(array, [])  # one that is to no known array may be to this one
        elif array and possible and self._called(possible[0]) not in ("", array):
            return None
        return possible[0] if len(possible) == 1 else None

    def _called(self, access: Access) -> str:
        """Returns how findings call the array that an access is to, which is as the text does; "" if it is not known."""
        array = self._arrays(access)
        return self._texts.get(array, array)


def _breaks(prop: str, finding: Finding) -> bool:
    """Returns whether a finding breaks a property: of lanes of two operations, the earlier of which it names, the order."""
    is_of_two = finding.kind == "lane-race" and bool(finding.origin)
    return finding.kind in _KINDS[prop] and is_of_two == (prop == ORDER)


def _name(finding: Finding) -> str:
    """Returns the name of the operation that a finding is about; "" if its text does not begin with one."""
    found = _NAME.match(finding.operation)
    return "" if found is None else found.group(1)


def _array(finding: Finding) -> str:
    """Returns which array a finding is about, as the text calls it; "" if that is none or is not known."""
    name, _, offset = finding.address.partition(" + ")
    return name.removeprefix("%") if offset and name.startswith("%") else ""


def _kind(operation: str) -> str:
    """Returns what an operation does to memory, by its name; descriptors' are expanded to others of the same kind."""
    if operation == GATHER:
        return operation
    kinds = (("atomic", ("atomic", "descriptor_reduce")), ("load", ("load", "gather")), ("store", ("store", "scatter")))
    for kind, names in kinds:
        if any(name in operation for name in names):
            return kind
    return operation


def _element(wanted: int, least: int, most: int, bits: int) -> int:
    """Returns the number of a range, signed or unsigned, that is nearest to one, or that is the same bits."""
    unsigned = wanted + (1 << bits)
    if wanted < least <= unsigned <= most:
        return unsigned
    return max(least, min(wanted, most))


def _own_line(line: str) -> str:
    """Returns a line without those that call it, which inlined operations name, too."""
    return line.split(" called at ")[0]


__all__ = ["MAX_ELEMENTS", "Confirm", "Launches", "RunProgram"]
