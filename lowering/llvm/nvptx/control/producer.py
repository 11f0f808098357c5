"""The warp that copies blocks by TMA for the others, while it is not known yet which loop it works for.

One warp is enough. Where a multiprocessor has room for one block only, and the others profit, it comes as a group of four,
as registers can be reassigned only by whole warpgroups (setmaxnreg): three of them exit at once.

Source: NVIDIA, "PTX ISA", "mbarrier", "setmaxnreg".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.dialects.scf import ForOp

from .....promotion.dataclass import dataclass
from ....tt.dialect.functions import FuncOp
from ...values import V, i32
from ..matmul.wgmma import GROUP, address
from ..memory.mbarriers import BARRIER_BYTES
from ..memory.shared_memory import ALIGNMENT
from ..targets import REGISTERS, WARP_SIZE
from ..values import Values

OWN_REGISTERS = 40
"""The registers of a producer thread after setmaxnreg; addresses and coordinates need fewer."""


def _registers(threads: int, kept: int = 0) -> int:
    """Returns the registers that each of `threads` threads of a multiprocessor can have, when other threads keep `kept`."""
    return min(256, (REGISTERS - kept) // threads // 8 * 8)


def _handed_over(warps: int) -> int | None:
    """Returns the registers that each thread of these warps can have when a warpgroup besides keeps `OWN_REGISTERS`.

    None where it has as many anyway besides a single warp.
    """
    found = _registers(warps * WARP_SIZE, kept=GROUP * WARP_SIZE * OWN_REGISTERS)
    at_first, alone = (_registers((warps + more) * WARP_SIZE) for more in (GROUP, 1))
    return found if warps % GROUP == 0 and found > alone and at_first > OWN_REGISTERS else None


def loads_blocks(loop: ForOp) -> bool:
    return any(inner.name == "tt.descriptor_load" for inner in loop.body.blocks[0].ops)


def inner_loop(loop: ForOp) -> ForOp | None:
    """Returns the one loop inside this one that loads blocks behind descriptors; None where there is not exactly one."""
    found = [inner for inner in loop.body.blocks[0].ops if isinstance(inner, ForOp) and loads_blocks(inner)]
    return found[0] if len(found) == 1 and not loads_blocks(loop) else None


def may_have_a_producer(function: FuncOp) -> bool:
    """Whether the program reaches a loop that loads blocks behind descriptors, once or in each iteration of another loop."""
    blocks = function.body.blocks
    loops = [op for op in blocks[0].ops if op.name == "scf.for"] if len(blocks) == 1 else []
    return any(loads_blocks(loop) or inner_loop(loop) is not None for loop in loops)


@dataclass(frozen=True, slots=True)
class Stages:
    """The number of stages of shared memory that a loop asks for, and the bytes of each."""

    count: int
    bytes: int


class Producer:
    """The warp that copies: from the start of a kernel, until its loop is found."""

    def __init__(self, k: Values) -> None:
        self.k = k
        self.is_busy = False
        self.hands_over = False
        f = k.f
        self._label, consumers = f.label("producer"), f.label("consumers")
        self._first = k.t.is_first()
        f.emit("")
        self._slot = len(f.lines) - 1
        k.t.call("barrier.cta.sync.aligned.all", [i32(0)], "void")
        warp = f.binary("lshr", k.t.call("read.ptx.sreg.tid.x", [], "i32"), i32(5))  # k.t.warp counts the warps that compute
        f.cond_branch(f.icmp("uge", warp, i32(k.warps)), self._label, consumers)
        self._known, self._remembered = f.known(), k.t.all_remembered()
        f.start(consumers, True)
        self._increase = len(f.lines)
        f.lines.append("")
        self._lines: list[str] = []
        self._decrease = 0  # the line among these where registers may be released
        self.ring: list[V] = [address(k.t, k.shared.at(k.shared.buffer(), i32(ALIGNMENT))), *[i32(0)] * 3]
        """Between loops: the initial values of the next one, see `ConsumerLoop`.

        The stages lie after the mbarriers, or elsewhere where they have no memory of their own.
        """
        self.wanted: Stages | None = None
        """The stages that a loop asks for which need memory of their own."""

    def full(self, offset: V) -> V:
        """Emits the address of the mbarrier that counts a stage's bytes, at an offset among them."""
        return self.k.shared.at(self.k.shared.buffer(), offset)

    def free(self, offset: V) -> V:
        """Emits the address of the mbarrier that counts the warps that have read a stage."""
        return self.k.shared.at(self.full(i32(ALIGNMENT // 2)), offset)

    @property
    def warps(self) -> int:
        """The number of warps in addition to those that compute."""
        return GROUP if self.hands_over else 1

    @property
    def reserved(self) -> int:
        """The bytes for the stages that are asked for, as many as leave room for the kernel's other moves; two at least.

        0 where no loop asks for any.
        """
        k, wanted = self.k, self.wanted
        if wanted is None:
            return 0
        room = (k.target.shared_bytes - ALIGNMENT - k.shared.largest) // wanted.bytes
        return max(2, min(wanted.count, room)) * wanted.bytes

    def make_barriers(self, stages: int) -> None:
        """Makes the barriers of the loop that was found, at the start of the kernel."""
        k = self.k
        with k.f.apart() as lines, k.f.knowing({}), k.f.when(self._first):
            for stage in range(stages):
                pointer = i32(stage * BARRIER_BYTES)
                k.t.call("mbarrier.init.shared", [self.full(pointer), i32(1)], "void")
                k.t.call("mbarrier.init.shared", [self.free(pointer), i32(k.warps)], "void")
            k.t.call("fence.mbarrier_init.release.cluster", [], "void")
        k.f.lines[self._slot] = "\n".join(lines)

    @contextmanager
    def code(self) -> Iterator[str]:
        """Emits code for one thread of the warp; the label ends it."""
        k, f = self.k, self.k.f
        self.is_busy = True
        with f.apart() as self._lines, f.knowing(self._known), k.t.knowing(self._remembered), k.ev.scope():
            scalars, nodes = dict(k.scalars), dict(k.nodes)
            begin, end = f.label("copies"), f.label("end")
            f.start(self._label)
            self._decrease = len(f.lines)
            f.lines.append("")
            thread = k.t.call("read.ptx.sreg.tid.x", [], "i32")
            f.cond_branch(f.icmp("eq", thread, i32(k.warps * WARP_SIZE)), begin, end)
            f.start(begin)
            yield end
            f.start(end)
            f.ret()
            k.scalars, k.nodes = scalars, nodes

    def finish(self) -> None:
        """Prints what depends on the needs of the whole kernel, after everything else."""
        k, registers = self.k, _handed_over(self.k.warps)
        if self.is_busy and registers is not None and k.target.blocks(k.shared.bytes) == 1:
            self.hands_over = True
            k.f.lines[self._increase] = self._set_registers("inc", registers)
            self._lines[self._decrease] = self._set_registers("dec", OWN_REGISTERS)
        k.f.lines += self._lines

    def _set_registers(self, way: str, count: int) -> str:
        with self.k.f.apart() as lines:
            self.k.t.call(f"setmaxnreg.{way}.sync.aligned.u32", [i32(count)], "void")
        return "\n".join(lines)
