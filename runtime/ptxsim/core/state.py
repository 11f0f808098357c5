"""Binds one kernel to a block shape: register files, memory, special registers, and the current block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import DTypeLike

from ....lowering.ptx.instructions import WIDTHS
from ....lowering.ptx.modules import Function, PtxModule, Variable
from ....lowering.ptx.syntax import Instruction, Name, Operand, Register
from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError, UserError
from ..checks.alias_sets import AliasSets
from ..checks.findings import Fault, Finding, PtxCheckError
from ..memory.spaces import GlobalMemory, LocalMemory, ParameterMemory, PointerSource, SharedMemory
from .blocks import Cta
from .printer import Printer
from .registers import RegisterFile
from .scheduler import Program, Scheduler
from .types import Mask

FUNCTION_WINDOW = 15 << 56
"""The start of functions' addresses, which no memory has."""
MAX_SHARED = 232_448
"""The bytes of shared memory that a block can have on any architecture (227 KiB on sm_90)."""
MAX_LOCAL = 1 << 19
MAX_LOCAL_OF_BLOCK = 1 << 28
MAX_VIOLATIONS = 16
"""The number of violations at which a launch is aborted."""
_NO_POINTERS: Mapping[str, PointerSource] = MappingProxyType({})

SPECIALS: dict[str, str] = {
    **{f"%{name}.{axis}": "u32" for axis in "xyz" for name in (
        "tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")},
    **dict.fromkeys((
        "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge",
        "%lanemask_gt", "%clock", "%clock_hi", "%globaltimer_lo", "%globaltimer_hi", "%cluster_ctarank", "%cluster_nctarank",
        "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size"), "u32"),
    **dict.fromkeys(("%clock64", "%globaltimer", "%gridid"), "u64"),
}  # fmt: skip
"""The known special registers and their types. Clocks advance with every instruction of a block."""


class MachineState(Program):
    """Memory and register files for a launch, its symbols, and its findings.

    Args:
        module, function: the kernel.
        block, grid, cluster: extents along x, y, z.
        memory: global and constant memory, with `addresses` of the module's variables.
        parameters: the kernel's parameters as bytes, `parameter_offsets` by name.
        dynamic: bytes of dynamic shared memory.
        pointers: the kernel's parameters that are known to be addresses.
    """

    def __init__(
        self,
        module: PtxModule,
        function: Function,
        lines: list[str],
        block: tuple[int, int, int],
        grid: tuple[int, int, int],
        cluster: tuple[int, int, int],
        memory: GlobalMemory,
        addresses: dict[str, int],
        parameters: ParameterMemory,
        parameter_offsets: dict[str, int],
        dynamic: int,
        level: int,
        delivery: str,
        seed: int,
        budget: int,
        pointers: Mapping[str, PointerSource] = _NO_POINTERS,
    ) -> None:
        threads = block[0] * block[1] * block[2]
        super().__init__(-(-threads // 32) * 32, budget)
        self.module, self.function, self.lines = module, function, lines
        self.block, self.grid, self.cluster = block, grid, cluster
        self.cluster_size = cluster[0] * cluster[1] * cluster[2]
        self.memory, self.addresses = memory, addresses
        self.parameters, self.parameter_offsets = parameters, parameter_offsets
        self.level, self.delivery = level, delivery
        self.random = np.random.default_rng(seed)
        self.threads = threads
        self.printer = Printer()
        self.unfenced_maps: set[int] = set()
        self.scheduler = Scheduler(self)
        self.functions = self._reachable()
        self._pointers = pointers
        self._alias_sets = AliasSets(self.functions, list(pointers), any(each.is_table for each in pointers.values()))
        self._extra: list[Array] = []
        self._returns = {f.name: self.lane_array(np.int64) for f in self.functions}
        self.registers = RegisterFile(
            (((f.name, name), type_) for f in self.functions for name, type_ in f.registers.items()),
            self.lanes,
        )
        self.areas: dict[tuple[str, str], tuple[int, int]] = {}
        self.locals: dict[tuple[str, str], int] = {}
        self.local = LocalMemory(self._lay_out_local(), self.lanes)
        self.shared_offsets: dict[tuple[str, str], int] = {}
        self.shared_size = self._lay_out_shared(dynamic)
        self._specials: dict[str, Array] = {}
        self._make_specials(dynamic)
        self.cta: Cta
        self.origins: list[tuple[Function, int, Instruction]] = []
        """For each program counter: its function, its index there, and the instruction that a finding names."""
        self.starts: dict[str, list[int]] = {}
        self.function_being_bound = ""

    # -- layout

    def _reachable(self) -> list[Function]:
        """Returns the kernel and the functions that it may call, callees first, so that lanes in a call run
        before those behind it."""
        order: list[Function] = []
        state: dict[str, int] = {}
        stack: list[tuple[str, Iterator[str]]] = [(self.function.name, iter(self._mentions(self.function)))]
        state[self.function.name] = 1
        while stack:
            name, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[name] = 2
                order.append(self.module.functions[name])
                stack.pop()
            elif state.get(following) == 1:
                raise UnsupportedError(f"function {following} calls itself; recursion is not simulated")
            elif following not in state:
                state[following] = 1
                stack.append((following, iter(self._mentions(self.module.functions[following]))))
        return order

    def _mentions(self, function: Function) -> list[str]:
        """Returns the functions with a body that an instruction or, for indirect calls, a variable names."""
        functions = self.module.functions
        found: dict[str, None] = {}
        for instruction in function.code or ():
            for operand in instruction.operands:
                if (
                    isinstance(operand, Name)
                    and operand.text in functions
                    and functions[operand.text].code is not None
                ):
                    found[operand.text] = None
            if instruction.opcode == "call" and any(
                isinstance(o, Register) for o in instruction.operands[:2]
            ):
                for variable in self.module.variables.values():
                    found.update({
                        value.name: None for value in variable.values
                        if not isinstance(value, int) and value.name in functions and functions[value.name].code is not None
                    })  # fmt: skip
        return list(found)

    def _lay_out_local(self) -> int:
        offset = 0

        def put(size: int, align: int) -> int:
            nonlocal offset
            start = -(-offset // align) * align
            offset = start + size
            return start

        for f in self.functions:
            own = [] if f.entry else [*f.parameters, *f.results]
            for area in (*own, *f.areas.values()):
                self.areas[f.name, area.name] = (put(area.size, max(area.align, 16)), area.size)
            for variable in f.variables.values():
                if variable.space == "local":
                    self.locals[f.name, variable.name] = put(variable.size or 0, max(variable.align, 16))
        if offset > MAX_LOCAL or offset * self.lanes > MAX_LOCAL_OF_BLOCK:
            text = f"{offset} bytes of local memory, at most {MAX_LOCAL} per thread and {MAX_LOCAL_OF_BLOCK} per block"
            raise UserError(f"kernel {self.function.name}: {text}")
        return -(-offset // 64) * 64

    def _lay_out_shared(self, dynamic: int) -> int:
        offset, dynamic_align = 0, 16
        variables: list[tuple[str, Variable]] = [
            ("", v) for v in self.module.variables.values() if v.space == "shared"
        ]
        variables += [
            (f.name, v) for f in self.functions for v in f.variables.values() if v.space == "shared"
        ]
        unsized = []
        for owner, variable in variables:
            if variable.size is None:
                unsized.append((owner, variable.name))
                dynamic_align = max(dynamic_align, variable.align)
                continue
            offset = -(-offset // variable.align) * variable.align
            self.shared_offsets[owner, variable.name] = offset
            offset += variable.size
        if unsized or dynamic:
            offset = -(-offset // dynamic_align) * dynamic_align
        for key in unsized:
            self.shared_offsets[key] = offset
        if offset + dynamic > MAX_SHARED:
            raise UserError(
                f"kernel {self.function.name}: {offset + dynamic} bytes of shared memory, at most {MAX_SHARED}"
            )
        return offset + dynamic

    def lane_array(self, dtype: DTypeLike) -> Array:
        """Allocates a per-lane array that belongs to the block."""
        return self.block_array((self.lanes,), dtype)

    def block_array(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Allocates an array that belongs to the block and is all zeros when a block starts."""
        array = np.zeros(shape, dtype)
        self._extra.append(array)
        return array

    def return_pcs(self, function: Function) -> Array:
        return self._returns[function.name]

    def copy_local(self, copies: list[tuple[int, int, int]], mask: Mask) -> None:
        octets = self.local.octets[: self.local.size * self.lanes].reshape(self.lanes, -1)
        lanes: Array | slice = slice(None) if mask is None else np.flatnonzero(mask)
        for source, target, size in copies:
            octets[lanes, target : target + size] = octets[lanes, source : source + size]
        if self.local.defined is not None:
            defined = self.local.defined[: self.local.size * self.lanes].reshape(self.lanes, -1)
            for source, target, size in copies:
                defined[lanes, target : target + size] = defined[lanes, source : source + size]

    # -- special registers and symbols

    def _make_specials(self, dynamic: int) -> None:
        lanes = np.arange(self.lanes, dtype=np.uint32)
        own = self._specials
        x, y, _ = self.block
        own["%tid.x"], own["%tid.y"] = lanes % np.uint32(x), lanes // np.uint32(x) % np.uint32(y)
        own["%tid.z"] = lanes // np.uint32(x * y)
        lane = lanes & np.uint32(31)
        bit = np.uint32(1) << lane
        own["%laneid"], own["%warpid"] = lane, lanes >> np.uint32(5)
        own["%lanemask_eq"], own["%lanemask_lt"] = bit, bit - np.uint32(1)
        own["%lanemask_le"] = own["%lanemask_lt"] | bit
        own["%lanemask_ge"], own["%lanemask_gt"] = ~own["%lanemask_lt"], ~own["%lanemask_le"]
        for axis, n, g, c in zip("xyz", self.block, self.grid, self.cluster, strict=True):
            values = (("ntid", n), ("nctaid", g), ("cluster_nctaid", c), ("nclusterid", -(-g // c)))
            for name, value in values:
                own[f"%{name}.{axis}"] = np.array(value, np.uint32)
        values32 = {
            "%nwarpid": self.lanes // 32, "%nsmid": 1, "%cluster_nctarank": self.cluster_size, "%dynamic_smem_size": dynamic,
            "%total_smem_size": self.shared_size, "%aggr_smem_size": self.shared_size,
        }  # fmt: skip
        for name, value in values32.items():
            own[name] = np.array(value, np.uint32)
        for name, type_ in SPECIALS.items():
            own.setdefault(name, np.zeros((), np.dtype(f"u{WIDTHS[type_] // 8}")))

    def special(self, name: str, where: str) -> Array:
        if name not in self._specials:
            raise UnsupportedError(f"{where}: the special register {name} is not known")
        return self._specials[name]

    def tick(self) -> None:
        """Sets the clocks, before an instruction that reads one."""
        now = self.scheduler.executed + 1_000_000
        for name in ("%clock64", "%globaltimer"):
            self._specials[name][...] = now
        for name in ("%clock", "%globaltimer_lo"):
            self._specials[name][...] = now & 0xFFFFFFFF
        for name in ("%clock_hi", "%globaltimer_hi"):
            self._specials[name][...] = now >> 32

    def arrays_of_block(self) -> list[Array]:
        """Returns the arrays that belong to the current block and are saved while another one runs."""
        return [*self.registers.arrays, *self._extra, self.local.octets]

    def clear_block(self) -> None:
        """Clears the arrays of a block that starts."""
        self.registers.clear()
        for array in self._extra:
            array.fill(0)
        self.local.octets.fill(0x5A)

    def enter_block(self, cta: Cta) -> None:
        """Makes a block current, with its registers, local memory and special registers."""
        if getattr(self, "cta", None) is cta:
            return
        arrays = self.arrays_of_block()
        previous = getattr(self, "cta", None)
        if previous is not None and not previous.done:
            previous.saved = [array.copy() for array in arrays]
        self.cta = cta
        if cta.saved is not None:
            for array, saved in zip(arrays, cta.saved, strict=True):
                array[...] = saved
        else:
            self.clear_block()
        own = self._specials
        own["%cluster_ctarank"][...] = cta.rank
        for axis, offset, extent in zip("xyz", cta.ctaid, self.cluster, strict=True):
            own[f"%ctaid.{axis}"][...] = offset
            own[f"%clusterid.{axis}"][...] = offset // extent
            own[f"%cluster_ctaid.{axis}"][...] = offset % extent

    def symbol(self, function: Function, name: str, where: str) -> int:
        """Returns the address of a variable, parameter area or function in its own space."""
        for key in ((function.name, name), ("", name)):
            if key in self.shared_offsets:
                return self.shared_offsets[key]
            if key in self.locals:
                return self.locals[key]
            if key in self.areas:
                return self.areas[key][0]
        if function.entry and name in self.parameter_offsets:
            return self.parameter_offsets[name]
        if name in self.addresses:
            return self.addresses[name]
        if name in self.module.functions:
            return self.function_address(name)
        raise UserError(f"{where}: there is no {name}")

    def function_address(self, name: str) -> int:
        return FUNCTION_WINDOW + 16 * list(self.module.functions).index(name)

    def function_at(self, address: int) -> Function | None:
        functions = list(self.module.functions.values())
        index, rest = divmod(address - FUNCTION_WINDOW, 16)
        return functions[index] if rest == 0 and 0 <= index < len(functions) else None

    def pc_of(self, function: Function, index: int) -> int:
        return self.starts[function.name][index]

    def sources_of(self, function: Function, address: Operand) -> tuple[PointerSource, ...]:
        """Returns the arguments from one of which an address is computed; none if that is not known."""
        return tuple([self._pointers[name] for name in self._alias_sets.sources(function, address)])

    # -- blocks and lanes

    def shared_of(self, rank: int, lanes: Array | None) -> SharedMemory:
        """Returns the shared memory of an address in shared::cluster space. rank: the address's number above
        bit `RANK_SHIFT`."""
        if rank == 0:
            return self.cta.shared
        if rank > len(self.cta.others):
            text = f"a shared::cluster address of block {rank - 1}; the cluster has {len(self.cta.others)}"
            raise Fault("bounds", text, lanes_of(lanes))
        other = self.cta.others[rank - 1]
        if other.done and other is not self.cta:
            raise Fault(
                "cluster",
                f"block {other.ctaid} of the cluster has ended; its shared memory is gone",
                lanes_of(lanes),
            )
        return other.shared

    def own_shared(self, address: Array, lanes: Array | None) -> Array:
        """Converts shared::cluster addresses of the own block to shared::cta addresses."""
        ranks = address >> np.uint64(24)
        bad = np.flatnonzero((ranks != 0) & (ranks != self.cta.rank + 1))
        if bad.size:
            who = bad if lanes is None else lanes[bad]
            raise Fault("bounds", "an address of another block's shared memory in shared::cta space", who)
        return address & np.uint64((1 << 24) - 1)

    # -- findings

    def warn(self, kind: str, message: str, lanes: Sequence[int] | Array = ()) -> None:
        """Records a warning about unspecified behaviour, once per instruction and kind."""
        pc = self.scheduler.pc
        if any(f.kind == kind and f.line == self.instruction_at(pc).line for f in self.findings):
            return
        self.findings.append(
            self.finding(
                kind, message, pc, self.cta.ctaid, tuple(int(lane) for lane in lanes[:8]), warning=True
            )
        )

    def violation(self, kind: str, message: str, lanes: Sequence[int] | Array = ()) -> None:
        """Records a violation and goes on, once per instruction and kind. The launch fails in the end, at
        `MAX_VIOLATIONS` at once."""
        pc = self.scheduler.pc
        line = self.instruction_at(pc).line
        if any(f.kind == kind and f.line == line and not f.warning for f in self.findings):
            return
        self.findings.append(
            self.finding(kind, message, pc, self.cta.ctaid, tuple(int(lane) for lane in lanes[:8]))
        )
        if sum(not f.warning for f in self.findings) >= MAX_VIOLATIONS:
            raise PtxCheckError([f for f in self.findings if not f.warning])

    def instruction_at(self, pc: int) -> Instruction:
        return self.origins[min(pc, len(self.origins) - 1)][2]

    def finding(
        self,
        kind: str,
        message: str,
        pc: int,
        cta: tuple[int, int, int],
        lanes: tuple[int, ...] = (),
        warning: bool = False,
    ) -> Finding:
        function, index, instruction = self.origins[min(pc, len(self.origins) - 1)]
        text = self._statement(instruction)
        source = function.locations[index] if index < len(function.locations) else None
        return Finding(kind, message, instruction.line, text, source, cta, lanes, warning)

    def position_of(self, line: int) -> str:
        """Returns a line of the PTX with the source line that it comes from, where the text says so."""
        for function in self.functions:
            for instruction, source in zip(function.code or (), function.locations, strict=True):
                if instruction.line == line and source is not None:
                    return f"PTX line {line} [{source[0]}:{source[1]}]"
        return f"PTX line {line}"

    def _statement(self, instruction: Instruction) -> str:
        """Returns the instruction as the text spells it; where a line holds several, the first that contains
        its spelling."""
        line = self.lines[instruction.line - 1].strip() if instruction.line <= len(self.lines) else ""
        for part in line.split(";"):
            if instruction.spelling in part:
                return part.strip()
        return line or instruction.spelling

    def waiting_findings(self, cta: Cta) -> list[Finding]:
        """Reports which lanes wait where, for a deadlock."""
        found = []
        groups = [(g, "waits for lanes of its warp") for g in cta.parked] + [(g, "polls") for g in cta.groups]
        groups += [(g, f"waits at {what}") for what, waiting in cta.waiting.items() for g in waiting]
        for number, barrier in cta.barriers.items():
            for group, _ in barrier.waiting:
                found.append(self.finding(
                    "deadlock", f"waits at barrier {number}, where {barrier.arrived} of "
                    f"{barrier.expected or 'all live'} threads arrived", group.pc - 1, cta.ctaid, self._first_lanes(group.mask),
                ))  # fmt: skip
        for group, what in groups:
            lanes = self._first_lanes(group.mask)
            found.append(
                self.finding("deadlock", f"{what}, and nothing else moves", group.pc, cta.ctaid, lanes)
            )
        return found or [self.finding("deadlock", "the block waits", 0, cta.ctaid)]

    def _first_lanes(self, mask: Mask) -> tuple[int, ...]:
        return (0,) if mask is None else tuple(int(lane) for lane in np.flatnonzero(mask)[:8])


def lanes_of(lanes: Array | None) -> tuple[int, ...]:
    return () if lanes is None else tuple(int(lane) for lane in lanes[:8])
