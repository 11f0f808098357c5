"""mbarriers: objects in shared memory that count arrivals, and bytes that asynchronous copies write.

Source: NVIDIA, "PTX ISA", "mbarrier".
"""

from __future__ import annotations

from collections.abc import Sequence

from ...values import V, i32
from .shared_memory import SharedMemory

BARRIER_BYTES = 8


def make_barriers(shared: SharedMemory, pointers: Sequence[V]) -> None:
    """Initializes mbarriers of one arrival each; all threads may use them afterwards."""
    shared.t.call("fence.proxy.async.shared_cta", [], "void")  # the previous contents have been written by ordinary stores
    with shared.f.when(shared.t.is_first()):
        for pointer in pointers:
            shared.t.call("mbarrier.init.shared", [pointer, i32(1)], "void")
        shared.t.call("fence.mbarrier_init.release.cluster", [], "void")
    shared.barrier()


def remove_barriers(shared: SharedMemory, pointers: Sequence[V]) -> None:
    """Invalidates mbarriers when no thread waits at them any more, which frees their memory."""
    shared.barrier()
    with shared.f.when(shared.t.is_first()):
        for pointer in pointers:
            shared.t.call("mbarrier.inval.shared", [pointer], "void")
    shared.after_reading()


def expect(shared: SharedMemory, barrier: V, size: int) -> None:
    """Emits the one arrival of a phase, which ends when `size` bytes have been copied. One thread executes it."""
    shared.t.call("mbarrier.arrive.expect.tx.scope.cta.space.cta", [barrier, i32(size)], "i64")


def wait_for_phase(shared: SharedMemory, barrier: V, parity: V) -> None:
    """Makes all threads wait for the phase of this parity; the copied bytes can be read afterwards.

    Inline assembly: LLVM does not tell that the threads of a warp go on together, and the assembler then keeps nothing in
    uniform registers. The branch has no `.uni`: each thread has an answer of its own, and may see the end of the phase
    earlier than its neighbours. All of them see it, as the next phase ends only after each warp has arrived, or there is none;
    and in whatever order they leave the loop, each reaches the `.sync` instruction after it once, where they reconverge.
    """
    pointer = shared.f.op(f"ptrtoint ptr addrspace(3) {barrier.operand()} to i32", "i32")
    text = "\\0A".join(
        ("{", ".reg .pred done;", "again:", "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;",
         "@!done bra again;", "}")
    )  # fmt: skip
    operands = f"i32 {pointer.operand()}, i32 {parity.operand()}"
    shared.f.emit(f'call void asm sideeffect "{text}", "r,r,~{{memory}}"({operands}) convergent')
