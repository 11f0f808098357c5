"""Implements `Kernel.prove`: proves properties of a kernel for all sizes, and runs what refutes them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import Operation

from ... import __version__
from ...lowering.prove.counters.guesses import with_contents
from ...lowering.prove.guessing import Launch, guess, own_numbers
from ...lowering.prove.launches import MAX_ELEMENTS, Confirm
from ...lowering.prove.preparation import PreparedFunction, parameter_names, prepare, taken_names
from ...lowering.prove.proof import DEFAULT_PROPERTIES, ORDER, PROPERTIES, PROVEN, Proof
from ...lowering.prove.prover import Prover, written_arrays
from ...lowering.prove.specify.expressions import evaluate
from ...lowering.prove.specify.remarks import doubts
from ...lowering.prove.specify.specification import Specification, grid_names
from ...lowering.prove.stored import read_stored
from ...lowering.prove.terms.polynomials import TooLarge
from ...lowering.prove.terms.solver import DEFAULT_LIMIT, load_z3
from ...lowering.tt import types as t
from ...lowering.tt.arguments import Parameter, grid_extents, parameters_of, supplied
from ...lowering.tt.dialect.functions import FuncOp
from ...lowering.tt.dialect.memory.descriptor_types import TensorDescType
from ...lowering.tt.host_values import DescriptorArgument, TableArgument
from ...lowering.tt.sanitize.findings import Finding, Report
from ...lowering.tt.sanitize.guard import Allowance, allowing
from ...lowering.tt.types import numpy_dtype
from ...promotion.arrays import Array
from ...promotion.errors import InternalError, JoineryError, UnsupportedError, UserError
from ...promotion.float_modes import default_modes
from ...runtime.storage.cache import CacheOption, CompileCache, cache_of
from ..tensor_arguments import TensorDescriptor
from ..texts import MakeArguments
from .own_frames import own_frames
from .records import Records

Sanitize = Callable[..., Report]
_MAX_FINDINGS = 20_000
"""Findings of one launch that are kept: one may refute thousands of accesses."""
_MAX_COMPARED = 1 << 22
"""Elements of the largest array of integers of which it is looked whether all are distinct."""
_MAX_REMEMBERED = 256
"""Sizes of launches of which it is remembered whether everything is proven."""


def _proof(
    prepared: PreparedFunction, specification: Specification, confirm: Confirm | None, limit: int, properties: Sequence[str]
) -> Proof:  # fmt: skip
    """Returns the proof of a function. Raises `UserError` for a specification whose terms outgrow what there is room for."""
    try:
        with default_modes(), own_frames():
            return Prover(prepared, specification, confirm, limit).prove(properties)
    except (TooLarge, RecursionError):
        raise UserError(
            "prove: the specification has numbers that are too large, or is too long; fix: smaller numbers, fewer assumptions"
        ) from None


class KernelProver:
    """Proves properties of one kernel. Call it, or guess a specification from a call by `like`."""

    def __init__(
        self, function: FuncOp, sanitize: Sanitize, arguments: MakeArguments, identity: Callable[[], bytes], loaded: int
    ) -> None:
        """Start with nothing proven.

        Args:
            sanitize: runs a launch.
            arguments: makes those of the function of a user's.
            identity: what the function is made of, as bytes.
            loaded: when this process began to load what proves, in ns.
        """
        self._function = function
        self._sanitize = sanitize
        self._arguments = arguments
        self._identity = identity
        self._loaded = loaded
        self._prepared: PreparedFunction | None = None
        self._are_proven: dict[Hashable, bool] = {}

    def __repr__(self) -> str:
        return f"<prove of @{self._function.sym_name.data}>"

    def __call__(
        self,
        assume: Sequence[str] | str = (),
        extents: Mapping[str, str | int] | None = None,
        grid: str | int | Sequence[str | int] | None = None,
        properties: Sequence[str] = DEFAULT_PROPERTIES,
        limit: int = DEFAULT_LIMIT,
        cache: CacheOption = False,
    ) -> Proof:
        """Prove properties for every launch that a specification describes.

        Args:
            assume: comparisons of sizes, as `"n >= 1"` and `"lda >= K and K >= 1"`, and bounds of all elements of an array of
                integers, as `"0 <= idx[:] < n"`. Of elements `"sorted(ptr[:])"`, `"distinct(idx[:])"`, and, of addresses,
                `"points(tab[:], 4 * lens[:])"` say more. `"at_launch(counter[:]) == 0"` says what all elements of an array of
                integers are at first, also of one that the kernel writes: counters are known by that.
            extents: the number of elements of each array, by parameter: `{"x": "n", "a": "M * lda"}`.
            grid: the numbers of programs, as `("cdiv(n, 1024)", "rows")`; without it any grid.
            properties: "bounds": every access stays inside its array. "races": no two programs touch one element where one of
                them writes, atomics aside, and no two lanes of a store write different values to one. "overflow": no
                integer that an address or a mask is computed from wraps. "initialised": no lane that a load or an atomic leaves
                undefined has a part in what is written, where, by which mask, or on which path. "order": no two threads of a
                program touch one element where one of them writes, unless a barrier is between: what Triton's code for GPUs
                needs, and joinery's has of itself. "termination of loops": every loop that counts comes to its end; loops with
                a condition and branches that lead back are unknown.
                By default the first three.
            limit: how many steps of the solver's resource count one question may take. Beyond it the answer is "unknown", on
                every machine.
            cache: where to look for the same proof, by the same sources and solver, and to keep it: True for the user's cache
                directory, a directory or a `CompileCache`. What is found there is believed as compiled code in it is, and
                `Proof.recorded` says that nothing was proven now. What a launch refutes is not kept.

        Sizes are expressions of `+ - * // %`, `cdiv`, `min`, `max`, `2**31` and `n**2`, over integer parameters of the kernel
        and new names, which stand for any number: those in an extent, in the grid, or in an equation with a known name, or that
        `"number(rows)"` declares.

        Raises `UserError` for expressions that cannot be read, unknown names, and assumptions that contradict each other;
        `UserError` for properties there are not; `UnsupportedError` where z3 is not installed.
        """
        taken = taken_names(self._function)
        return self._prove(Specification.of(assume, {} if extents is None else extents, grid, taken), properties, limit, cache)

    def like(
        self, grid: int | Sequence[int], *args: Any, before: Sequence[Launch] = (),
        properties: Sequence[str] = DEFAULT_PROPERTIES, limit: int = DEFAULT_LIMIT, cache: CacheOption = False,
    ) -> Proof:  # fmt: skip
        """Prove properties for a specification that is guessed from one launch, or from several.

        The guess is the simplest one with the sizes of the launch that proves the most; the proof prints it, as a call of
        `prove` to edit. Launches in which different sizes have different values are guessed best, and of several launches what
        holds in one of them by chance is not taken for what is meant.

        Args:
            grid, args: those of `interpret`. Nothing is run but what refutes a property.
            before: other launches, as `launch` returns them, which the guess is to describe, too.
            properties, limit, cache: those of `prove`; a guess from one launch is kept, too.
        """
        store = cache_of(cache)
        specification, launch = self._guessed(grid, args, store, before)
        proof = self._prove(specification, properties, limit, store or False)
        prepared = self._expanded()
        own, axes = own_numbers(prepared), prepared.asked_axes
        contents = dict(launch.contents)
        for other in before:
            for name, (low, high) in other.contents.items():
                least, most = contents.get(name, (low, high))
                contents[name] = min(low, least), max(high, most)
        found = doubts(specification, launch.elements, launch.numbers, contents, own, axes)
        return replace(proof, doubts=found)

    def specification(self, grid: int | Sequence[int], *args: Any, before: Sequence[Launch] = ()) -> Specification:
        """Return the specification that is guessed from one launch, or from several. before: as in `like`."""
        return self._guessed(grid, args, None, before)[0]

    def launch(self, grid: int | Sequence[int], *args: Any) -> Launch:
        """Return what a specification can say of a launch: its sizes, extents, numbers of programs, and ranges of elements.

        grid, args: those of `interpret`. Nothing is run.

        Raises `UserError` where an array that is written shares memory with another one.
        """
        arguments = self._arguments(grid, args)
        with default_modes():
            found = _launch(self._function, grid_extents(grid), arguments)
            arrays = self._arrays(arguments)
            self._refuse_shared_memory(arrays)
        addresses = {name: array.ctypes.data for name, array in arrays}
        broken = [
            each.name for each in self._expanded().parameters
            if found.numbers.get(each.name, 0) % each.divisor or addresses.get(each.name, 0) % each.promised
        ]  # fmt: skip
        return replace(found, broken=tuple(broken))

    def describes(self, specification: Specification, launch: Launch) -> bool:
        """Return whether a specification, as that of a proof, is about a launch: what is proven holds in it.

        A launch whose arrays have more elements than the specification says is one of it, and one that breaks a promise of the
        text (`tt.divisibility`) is none. Orders of elements and addresses that they hold are not looked at, so a
        specification that assumes any describes no launch here, `distinct` aside.

        Raises `UserError` for a specification that cannot be read, or with names that stand for any number, and for anything
        else than a specification and a launch of this kernel.
        """
        if not isinstance(specification, Specification):
            raise UserError(
                f"prove.describes: {specification!r:.60}: expected a specification; fix: `specification` of a proof, or "
                "prove.specification(grid, *args)"
            )
        self._check_launches("describes", (launch,))
        names = sorted({*specification.parsed().names()} - launch.sizes().keys())
        if names:
            raise UserError(
                f"prove.describes: {', '.join(names)} may be any number, and a launch does not say which; fix: parameters of "
                f"the kernel, or {', '.join(launch.axes)}"
            )
        return not launch.broken and _describes(specification, launch)

    def _check_launches(self, what: str, launches: Sequence[Launch]) -> None:
        """Refuses what is no launch of this kernel."""
        if not isinstance(launches, Sequence) or not all(isinstance(each, Launch) for each in launches):
            raise UserError(
                f"prove.{what}: {launches!r:.60}: expected launches; fix: what prove.launch(grid, *args) returns, in a list"
            )
        own = self._expanded().numbers
        for each in launches:
            if each.numbers.keys() != own.keys() or not each.elements.keys() <= self._expanded().arrays.keys():
                raise UserError(
                    f"prove.{what}: a launch of another kernel, with the numbers {', '.join(each.numbers) or 'none'}; "
                    f"fix: one of @{self._function.sym_name.data}, with {', '.join(own) or 'none'}"
                )

    def _guessed(
        self, grid: int | Sequence[int], args: Sequence[Any], store: CompileCache | None, before: Sequence[Launch]
    ) -> tuple[Specification, Launch]:
        load_z3()
        self._check_launches("like", before)
        launch = self.launch(grid, *args)
        with default_modes():
            records = None if store is None or before else self._records(store)
            known = None if records is None else records.guess(launch, _describes)
            if known is not None:
                return known, launch
            with own_frames():
                found = guess(self._expanded(), launch, before)
                contents = dict(set(launch.contents.items()).intersection(*[each.contents.items() for each in before]))
                found = with_contents(self._expanded(), found, contents, DEFAULT_LIMIT)
        if not all(_describes(found, each) for each in (launch, *before)):
            raise InternalError(f"prove.like: the guess does not hold in the launch it was made from:\n{found}")
        if records is not None:
            records.keep_guess(launch, found)
        return found, launch

    def _records(self, store: CompileCache) -> Records:
        return Records(store, self._loaded, self._identity(), self._digest, self._function.sym_name.data)

    def holds_at(self, grid: int | Sequence[int], args: Sequence[Any]) -> bool:
        """Return whether bounds and races are proven of every launch with the sizes of this one, in whatever arrays.

        Args:
            grid, args: those of a launch of the function. Contents of arrays are not looked at.

        What is proven is about arrays that do not overlap, and of nothing that is undefined or wraps.
        """
        load_z3()
        with default_modes():
            found = _launch(self._function, grid_extents(grid), args, with_contents=False)
        key = (tuple(found.numbers.items()), tuple(found.elements.items()), found.grid)
        if key not in self._are_proven:
            if len(self._are_proven) >= _MAX_REMEMBERED:
                self._are_proven.clear()
            self._are_proven[key] = self._holds_at(found)
        return self._are_proven[key]

    def _holds_at(self, launch: Launch) -> bool:
        assume = [f"{name} == {number}" for name, number in launch.numbers.items()]
        specification = Specification.of(assume, launch.elements, launch.grid)
        properties = ("bounds", "races")
        try:
            proof = _proof(self._expanded(), specification, None, DEFAULT_LIMIT, properties)
        except (UserError, UnsupportedError):
            return False  # sizes for which a promise of the text does not hold: the sanitizer says so
        return all(proof.verdict(each) == PROVEN for each in properties)

    def _arrays(self, args: Sequence[Any]) -> list[tuple[str, Array]]:
        """Return the arrays of a launch by name. Raises `UnsupportedError` for what is no array of NumPy."""
        pairs = supplied(self._function.sym_name.data, parameters_of(self._function), args)
        arrays: list[tuple[str, Any]] = []
        for name, (parameter, argument) in zip(parameter_names(self._function), pairs, strict=True):
            if isinstance(parameter.type, TensorDescType):
                arrays.append((name, parameter.descriptor(argument).tensor))
            elif parameter.is_pointer and isinstance(argument, TableArgument):
                arrays += [(name, each) for each in argument.arrays]
            elif parameter.is_pointer and argument is not None:
                arrays.append((name, argument.array if isinstance(argument, DescriptorArgument) else argument))
        for name, array in arrays:
            if not isinstance(array, np.ndarray):
                raise UnsupportedError(
                    f"prove.launch: {name} is {type(array).__name__}, of which it is not known what memory it shares; "
                    "fix: NumPy arrays, or a specification, as prove(assume=..., extents=..., grid=...)"
                )
        return arrays

    def _refuse_shared_memory(self, arrays: Sequence[tuple[str, Array]]) -> None:
        """Refuse a launch in which an array that is written overlaps another one: a proof is about arrays that do not."""
        written = written_arrays(self._expanded())
        for at, (one, first) in enumerate(arrays):
            for two, second in arrays[at + 1 :]:
                if one != two and np.may_share_memory(first, second) and (written is None or {one, two} & written):
                    raise UserError(
                        f"prove.launch: {one} and {two} share memory, and the kernel writes there; a proof is about arrays "
                        "that do not overlap, and would say nothing of this launch; fix: arrays of their own"
                    )

    def _prove(
        self, specification: Specification, properties: Sequence[str], limit: int, cache: CacheOption = False
    ) -> Proof:
        load_z3()
        properties = (properties,) if isinstance(properties, str) else tuple(properties)
        for each in properties:
            if each not in PROPERTIES:
                raise UserError(f"prove: no property {each!r}; fix: properties={PROPERTIES}, or some of them")
        if not properties:
            raise UserError(f"prove: properties={properties!r}: nothing would be proven; fix: some of {PROPERTIES}")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 1 << 32:
            raise UserError(f"prove: limit={limit!r}: expected a number of steps from 1 to 2**32 - 1")
        properties = tuple(dict.fromkeys(properties))
        store = cache_of(cache)
        records = None if store is None else self._records(store)
        proof = None if records is None else records.proof(specification, properties, limit)
        if proof is None:
            prepared = self._expanded()
            confirm = functools.partial(self._confirm, ORDER in properties)
            proof = _proof(prepared, specification, confirm, limit, properties)
            if records is not None:
                records.keep_proof(proof, limit)
        solver = f"z3 {load_z3().get_version_string()}"
        name = self._function.sym_name.data
        return replace(proof, kernel=name, digest=self._digest, limit=limit, solver=solver, joinery=__version__)

    def verify(self, stored: str, limit: int = DEFAULT_LIMIT) -> Proof:
        """Prove again what a stored proof of this kernel says.

        Args:
            stored: a text of `Proof.as_json`. Nothing in it is believed but the specification.
            limit: the most steps for a question that a proof may ask for: a stranger's proof does not say how long this takes.

        No cache is looked into. Returns the new proof. Raises `UserError` for a text that is no proof, for a proof of another
        kernel, and where anything that it says, verdicts and what they trust, is not what is found now; it says what.
        """
        old = read_stored(stored)
        name, digest = self._function.sym_name.data, self._digest
        if old.digest != digest:
            raise UserError(
                f"prove.verify: the proof is of another text than this @{name}, by their digests {old.digest[:16]} and "
                f"{digest[:16]}; fix: prove it anew"
            )
        if old.kernel != name:
            raise UserError(f"prove.verify: the proof is of @{old.kernel[:60]}, and this is @{name}; fix: prove it anew")
        if old.limit > limit:
            raise UserError(
                f"prove.verify: questions of the proof may take {old.limit} steps, and {limit} are allowed; "
                f"fix: limit={old.limit} (--limit {old.limit}), and patience"
            )
        proof = self(list(old.assume), old.extents, old.grid, old.properties, old.limit)
        if found := old.differences(proof):
            raise UserError(
                f"prove.verify: the stored proof says other than what is proven now: {'; '.join(found)}; fix: prove it anew"
            )
        return proof

    @functools.cached_property
    def _digest(self) -> str:
        """The digest of the text with all functions that it calls."""
        root: Operation = self._function
        while (parent := root.parent_op()) is not None:
            root = parent
        return hashlib.sha256(str(root).encode()).hexdigest()

    def _expanded(self) -> PreparedFunction:
        if self._prepared is None:
            with default_modes():
                self._prepared = prepare(self._function)
        return self._prepared

    def _confirm(
        self, needs_barriers: bool, sizes: Mapping[str, int], extents: Mapping[str, int], grid: tuple[int, int, int],
        contents: Mapping[str, int], operations: int,
    ) -> tuple[Sequence[Finding], int]:  # fmt: skip
        """Run a launch with these sizes in the sanitizer, and return what it finds, and how many operations it ran."""
        allowance = Allowance(operations, _MAX_FINDINGS, prints=False)
        try:
            arguments = launch_arguments(self._function, sizes, extents, contents)
            with allowing(allowance):
                findings = self._sanitize(grid, *arguments, needs_barriers=needs_barriers).findings
        except JoineryError:
            findings = ()  # arguments that no launch takes
        return findings, operations - int(max(allowance.operations, 0))


def _launch(function: FuncOp, grid: tuple[int, int, int], args: Sequence[Any], with_contents: bool = True) -> Launch:
    """Returns the numbers and extents of a launch. with_contents: whether what arrays of integers hold is looked at."""
    numbers: dict[str, int] = {}
    elements: dict[str, int] = {}
    contents: dict[str, tuple[int, int]] = {}
    distinct: set[str] = set()
    pairs = supplied(function.sym_name.data, parameters_of(function), args)
    for name, (parameter, argument) in zip(parameter_names(function), pairs, strict=True):
        if isinstance(parameter.type, TensorDescType):
            descriptor = parameter.descriptor(argument)
            sizes = {"shape": descriptor.shape, "stride": descriptor.strides}
            numbers |= {f"{name}.{what}.{axis}": size for what in sizes for axis, size in enumerate(sizes[what])}
            elements[name] = descriptor.tensor.size
        elif parameter.is_pointer:
            if argument is None or not isinstance(argument, np.ndarray):
                continue
            parameter.array(argument)
            elements[name] = argument.size
            if with_contents and argument.dtype.kind in "iu" and argument.size:
                signed = argument.view(f"i{argument.itemsize}")
                contents[name] = int(signed.min()), int(signed.max())
                if 1 < argument.size <= _MAX_COMPARED and np.unique(signed).size == argument.size:
                    distinct.add(name)
        elif t.is_integer(parameter.type) and t.bit_width(parameter.type) > 1:
            numbers[name] = int(parameter.scalar(argument))
    return Launch(numbers, elements, contents, grid, frozenset(distinct), grid_names(parameter_names(function)))


def _describes(specification: Specification, launch: Launch) -> bool:
    """Returns whether a specification, of which a launch has all names, describes it, so that a proof is about it, too."""
    parsed = specification.parsed()
    names = launch.sizes()
    if not parsed.holds(names) or tuple(evaluate(axis, names) for axis in parsed.grid) != launch.grid:
        return False
    holds = all(evaluate(extent, names) <= launch.elements.get(name, 0) for name, extent in parsed.extents.items())
    try:
        ranges = parsed.ranges_of_contents(names)
        starts = {name: evaluate(size, names) for name, size in parsed.starts().items()}
    except ZeroDivisionError:
        return False
    for name, (low, high) in ranges.items():
        if name in launch.contents:
            least, most = launch.contents[name]
            holds &= (low is None or low <= least) and (high is None or most <= high)
        else:
            holds &= launch.elements.get(name, 0) == 0
    for name, start in starts.items():
        holds &= launch.contents.get(name) == (start, start)
    is_looked_at = not parsed.ordered("sorted") and not parsed.points()
    return holds and is_looked_at and parsed.ordered("distinct") <= launch.distinct


def launch_arguments(
    function: FuncOp, sizes: Mapping[str, int], extents: Mapping[str, int], contents: Mapping[str, int]
) -> list[Any]:
    """Returns the arguments of a launch with these sizes, extents of arrays, and elements of arrays of integers, by name."""
    names = parameter_names(function)
    return [_argument(each, name, sizes, extents, contents) for each, name in zip(parameters_of(function), names, strict=True)]


def _argument(
    parameter: Parameter, name: str, sizes: Mapping[str, int], extents: Mapping[str, int], contents: Mapping[str, int]
) -> Any:
    if isinstance(parameter.type, TensorDescType):
        rank = len(parameter.type.shape)
        shape = [sizes[f"{name}.shape.{axis}"] for axis in range(rank)]
        strides = [sizes[f"{name}.stride.{axis}"] for axis in range(rank)]
        reach = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        elements = max(0, extents.get(name, 0), reach if min(shape) > 0 else 0)  # extents are the least
        if elements > MAX_ELEMENTS:
            raise UnsupportedError(f"prove: a tensor of {elements} elements for {name}; fix: at most {MAX_ELEMENTS}")
        array = np.zeros(elements, numpy_dtype(parameter.type.elem))
        return TensorDescriptor(array, shape=shape, strides=strides, block_shape=parameter.type.shape)
    if parameter.is_pointer:
        pointee = t.pointee(parameter.type)
        dtype = np.dtype(np.uint8) if pointee == t.I1 else np.dtype(np.int64) if t.is_pointer(pointee) else numpy_dtype(pointee)
        if dtype.kind in "iu":  # unsigned numbers as the bits that they are
            return np.full(extents.get(name, 0), contents.get(name, 0) & ((1 << 64) - 1), np.uint64).astype(dtype)
        with np.errstate(over="ignore"):  # of 16 bits the last ones are infinite
            if name in contents:
                return np.full(extents.get(name, 0), contents[name]).astype(dtype)
            return np.arange(extents.get(name, 0)).astype(dtype)  # so that lanes of a store have different values
    return sizes.get(name, 1)


__all__ = ["KernelProver", "launch_arguments"]
