"""Provides modules of PTX, their kernels, and launches, which run blocks one after the other or in turns."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...lowering.ptx.module_parser import parse_module
from ...lowering.ptx.modules import Function, PtxModule
from ...lowering.ptx.targets import SHARED_BYTES
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ...promotion.float_modes import default_modes
from ..gpu import check_grid
from .checks.findings import Finding, PtxCheckError
from .core.arguments import Arena, lay_out, lay_out_arguments
from .core.binder import bind
from .core.blocks import Cta
from .core.machine import Machine
from .memory.spaces import GlobalMemory, SharedMemory

MAX_THREADS, MAX_THREADS_ALONG_Z = 1024, 64
BUDGET = 200_000_000
"""The default limit on the instructions of blocks that a launch executes."""
RESIDENT = 64
"""How many blocks take turns at most, when they wait for each other."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a launch.

    Attributes:
        executed: instructions, counted once per group of lanes that executed them together.
        families: the same by opcode.
        findings: warnings; violations raise `PtxCheckError` instead.
        printed: the output of vprintf.
        conflicts: at level 3, per PTX line of shared-memory accesses: executions by warps, least number of passes over the
            banks, passes needed.
        sectors: at level 3, per PTX line of global accesses: executions by warps, least number of 32-byte sectors, sectors
            touched.
    """

    executed: int
    families: dict[str, int]
    findings: tuple[Finding, ...]
    printed: str
    conflicts: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    sectors: dict[int, tuple[int, int, int]] = field(default_factory=dict)


class Module:
    """A PTX module, parsed.

    Raises `UserError` or `UnsupportedError` naming the line for text that cannot be read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.ptx: PtxModule = parse_module(text)

    @property
    def names(self) -> list[str]:
        return [function.name for function in self.ptx.entries]

    def kernel(self, name: str | None = None) -> Kernel:
        """Returns a kernel by name; without a name, the only kernel. Raises `UserError` if there is no such
        kernel, or more than one."""
        entries = self.ptx.entries
        if name is None:
            if len(entries) != 1:
                raise UserError(
                    f"the module has {len(entries)} kernels: {', '.join(self.names) or 'none'}; name one"
                )
            return Kernel(self, entries[0])
        for entry in entries:
            if entry.name == name:
                return Kernel(self, entry)
        raise UserError(f"there is no kernel {name}; the module has {', '.join(self.names) or 'none'}")


class Kernel:
    """An entry of a module, which can be launched."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module = module
        self.function = function
        self.name = function.name

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int] | None = None,
        args: Sequence[object] = (),
        *,
        shared: int = 0,
        cluster: int | Sequence[int] | None = None,
        level: int = 1,
        seed: int = 0,
        delivery: str = "late",
        budget: int = BUDGET,
        names: Sequence[str] | None = None,
        host_addresses: bool = False,
    ) -> Result:
        """Runs the kernel.

        Args:
            grid: blocks along x, y, z.
            block: threads along x, y, z; by default those of .reqntid.
            args: one per parameter: arrays (device pointers, written in place), `PointerArgument`s (addresses inside of
                memory), scalars, lists of arrays (tables of their addresses; None is null, numbers stay), `TensorMap`s,
                bytes, or None for a null pointer.
            shared: bytes of dynamic shared memory.
            cluster: blocks of a cluster along x, y, z; by default those of .reqnctapercluster.
            level: 1 checks bounds and rules; 2 also undefined values and bytes in flight; 3 also races, with statistics of
                accesses.
            seed, delivery: when asynchronous copies land: "late", "early" or "random".
            budget: the limit on executed instructions of blocks.
            names: what messages call the arguments, beside their numbers.
            host_addresses: whether arrays have their addresses on the host, for kernels that make numbers of addresses.

        Raises:
            PtxCheckError: the kernel broke a rule.
            UserError, UnsupportedError: the launch or the text is wrong, or uses features that are not supported.
        """
        if level not in (1, 2, 3) or delivery not in ("late", "early", "random"):
            raise UserError(
                f"level {level}, delivery {delivery!r}: expected 1, 2 or 3, and 'late', 'early' or 'random'"
            )
        extents = _extents("grid", grid)
        threads = _extents("block", self._block(block))
        blocks = self._cluster(cluster)
        self._check_shape(extents, threads, blocks, shared)
        arena = lay_out(self.function, self.module.ptx, args, names, host_addresses)
        return self._run(arena, extents, threads, blocks, shared, level, delivery, seed, budget)

    def launch_in(
        self,
        memory: GlobalMemory,
        variables: dict[str, int],
        grid: tuple[int, int, int],
        arguments: Sequence[bytes],
        shared: int,
        level: int,
    ) -> Result:
        """Runs the kernel on memory that outlives the launch. `variables`: addresses of the module's variables."""
        extents = _extents("grid", grid)
        threads = _extents("block", self._block(None))
        blocks = self._cluster(None)
        self._check_shape(extents, threads, blocks, shared)
        arena = lay_out_arguments(self.function, memory, variables, arguments)
        return self._run(arena, extents, threads, blocks, shared, level, "late", 0, BUDGET)

    def _cluster(self, cluster: int | Sequence[int] | None) -> tuple[int, int, int]:
        given = self.function.bounds.get("reqnctapercluster", (1,)) if cluster is None else cluster
        return _extents("cluster", given)

    def _run(
        self,
        arena: Arena,
        extents: tuple[int, int, int],
        threads: tuple[int, int, int],
        blocks: tuple[int, int, int],
        shared: int,
        level: int,
        delivery: str,
        seed: int,
        budget: int,
    ) -> Result:
        machine = Machine(
            self.module.ptx, self.function, self.module.lines, threads, extents, blocks, arena.memory, arena.addresses,
            arena.parameters, arena.offsets, shared, level, delivery, seed, budget, arena.pointers,
        )  # fmt: skip
        arena.point_to_functions(machine.function_address)
        bind(machine)
        try:
            with np.errstate(all="ignore"), default_modes():
                _Launch(machine, arena).run()
            violations = [finding for finding in machine.findings if not finding.warning]
            if violations:
                raise PtxCheckError(violations)
        except PtxCheckError as error:
            error.printed = machine.printer.text
            raise
        finally:
            arena.write_back()
        return self._result(machine)

    def _block(self, block: int | Sequence[int] | None) -> int | Sequence[int]:
        required = self.function.bounds.get("reqntid")
        if block is not None:
            given = _extents("block", block)
            if required is not None and given != _extents("block", required):
                raise UserError(
                    f"kernel {self.name}: .reqntid says {required}, the launch has blocks of {given}"
                )
            return block
        if required is None:
            raise UserError(f"kernel {self.name} has no .reqntid; say how many threads a block has")
        return required

    def _check_shape(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], cluster: tuple[int, int, int], shared: int
    ) -> None:
        """Raises `UserError` for what no GPU of the target launches."""
        check_grid(self.name, grid, "a GPU", instead="; device='cpu' takes it as it is")
        threads = int(np.prod(block))
        if threads > MAX_THREADS:
            fix = "fix: at most 32 warps for a program"
            raise UserError(f"kernel {self.name}: {threads} threads in a block, at most {MAX_THREADS}; {fix}")
        if block[2] > MAX_THREADS_ALONG_Z:
            fix = "fix: put the long axis on x"
            raise UserError(f"kernel {self.name}: {block[2]} threads along z, at most {MAX_THREADS_ALONG_Z}; {fix}")
        target = self.module.ptx.target[0]
        most_shared = SHARED_BYTES.get(target)
        if most_shared is not None and shared > most_shared:
            raise UserError(
                f"kernel {self.name}: {shared} bytes of shared memory, a block of {target} has at most {most_shared}; "
                "fix: smaller blocks, or another target"
            )
        most = self.function.bounds.get("maxntid")
        if most is not None and threads > int(np.prod(most)):
            raise UserError(f"kernel {self.name}: .maxntid says {most}, the launch has blocks of {block}")
        if any(g % c for g, c in zip(grid, cluster, strict=True)):
            raise UserError(f"kernel {self.name}: clusters of {cluster} blocks do not divide the grid {grid}")
        if int(np.prod(cluster)) > 16:
            raise UserError(f"kernel {self.name}: {int(np.prod(cluster))} blocks in a cluster, at most 16")

    def _result(self, machine: Machine) -> Result:
        families: Counter[str] = Counter()
        for (start, stop), count in machine.scheduler.runs.items():
            for pc in range(start, min(stop + 1, machine.end)):
                families[machine.instruction_at(pc).opcode] += count
        for pc, count in machine.scheduler.retries.items():
            families[machine.instruction_at(pc).opcode] -= count
        conflicts, sectors = machine.statistics()
        findings = tuple(machine.findings)
        return Result(
            machine.scheduler.executed, dict(families), findings, machine.printer.text, conflicts, sectors
        )


def _extents(what: str, value: int | Sequence[int]) -> tuple[int, int, int]:
    values = [value] if isinstance(value, (int, np.integer)) else list(value)
    if not 1 <= len(values) <= 3 or not all(isinstance(v, (int, np.integer)) and v > 0 for v in values):
        raise UserError(f"the {what} {value} is not one to three positive numbers")
    filled = [int(v) for v in values] + [1] * (3 - len(values))
    return filled[0], filled[1], filled[2]


class _Launch:
    """Runs the blocks of a grid: one after the other, or in turns when they wait for each other."""

    def __init__(self, machine: Machine, arena: Arena) -> None:
        self.machine = machine
        self.arena = arena
        live = np.zeros(machine.lanes, np.bool_)
        live[: machine.threads] = True
        self.live: NDArray[np.bool_] = live
        self.alive: deque[tuple[Cta, Iterator[str]]] = deque()

    def clusters(self) -> Iterator[list[Cta]]:
        gx, gy, gz = self.machine.grid
        cx, cy, cz = self.machine.cluster
        for z in range(0, gz, cz):
            for y in range(0, gy, cy):
                for x in range(0, gx, cx):
                    inside = product(range(z, z + cz), range(y, y + cy), range(x, x + cx))
                    ctas = [self.block(ctaid[::-1], rank) for rank, ctaid in enumerate(inside)]
                    for cta in ctas:
                        cta.others = ctas
                    yield ctas

    def block(self, ctaid: tuple[int, int, int], rank: int) -> Cta:
        machine = self.machine
        shared = SharedMemory(machine.shared_size, 0x5A)
        if machine.level > 1:
            shared.watch(False)
        return Cta(ctaid, rank, shared, self.live.copy(), machine.starts[machine.function.name][0])

    def run(self) -> None:
        machine = self.machine
        waiting = self.clusters()
        quiet = 0
        more = True
        seen = machine.changes
        while more or self.alive:
            if not self.alive:
                more = self.start(waiting)
                quiet = 0
                continue
            cta, steps = self.alive.popleft()
            machine.enter_block(cta)
            state = next(steps, "done")
            if state == "done":
                machine.block_ended(cta)
                quiet = 0
                continue
            self.alive.append((cta, steps))
            if state == "quantum" or machine.changes != seen:
                seen, quiet = machine.changes, 0
                if state == "quantum":
                    continue
            quiet += 1
            if quiet >= len(self.alive):
                room = len(self.alive) + machine.cluster_size <= max(RESIDENT, machine.cluster_size)
                if more and room and self.start(waiting):
                    quiet = 0
                elif quiet > 3 * len(self.alive) + 3:
                    self.deadlock()

    def start(self, waiting: Iterator[list[Cta]]) -> bool:
        """Starts the next cluster; returns False when there is none."""
        ctas = next(waiting, None)
        if ctas is None:
            return False
        for cta in reversed(ctas):
            self.alive.appendleft((cta, self.machine.scheduler.run(cta)))
        return True

    def deadlock(self) -> None:
        machine = self.machine
        findings = []
        for cta, _ in list(self.alive)[:4]:
            findings += machine.waiting_findings(cta)
        raise PtxCheckError(findings[:16])
