"""The state that the handlers of operations share while one function is lowered.

A handler (`Handler`) lowers one operation. Handlers see this class and what lies below it; `kernel.py` imports them all and
passes the table in, so a handler that lowers a region calls `block` and depends on no other handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from ...tt.dialect.functions import FuncOp
from ...tt.facts import index_bits
from ..ir import Function
from ..op_lines import lower_at_line
from ..syntax import attributes
from ..values import V, i64
from .control.status import Status
from .evaluate import Evaluator
from .launch_specialization import LaunchSpecialization
from .matmul.dot import Dots
from .memory.address_uses import AddressUses
from .memory.bounds import Bounds
from .memory.ordering import Ordering
from .nodes import Load, Node, Pointers
from .values import Values

Handler = Callable[["KernelContext", Any], None]
"""Lowers one operation; each handler knows the class of its operations."""


class PendingStore(NamedTuple):
    """A store of a block that is the lower half of integers of 64 bits."""

    pointers: Pointers
    value: Node
    mask: Node | None
    past_caches: bool
    whole: Node


class KernelContext(Values):
    """The values of a function, and everything else that its handlers work on.

    f: the LLVM function that code goes to; ev, nests, dots: emit values, loop nests and matrix products into it.
    launch: the specialization for launches; None where the function's own facts are all that is known.
    index_bits: bits of the narrowest integers that may be addresses or bounds.
    status: the launch's status words; None outside of launches.
    bounds: the memory that accesses are compared with; None in launches that do not ask for it.
    ordering: keeps loads and stores of arrays that may alias in order; None where none do.
    address_uses: tells which values move pointers.
    deferred: emits a value that only a store reads together with that store, given its addresses, its mask, and whether it goes
    past the caches; taken: what has the result of a reduction as soon as such a value has been emitted.
    pending: a store of lower halves that is emitted with the next one.
    program: the number of the program; grid: the extents of the grid, where the function asks for them; position: where the
    program stands in it.
    """

    def __init__(
        self, f: Function, ev: Evaluator, function: FuncOp, launch: LaunchSpecialization | None,
        handlers: Mapping[str, Handler], otherwise: Handler,
    ) -> None:  # fmt: skip
        """Begins a function. handlers: by the name of the operation; `otherwise` lowers all other operations."""
        super().__init__(ev, function)
        self.f = f
        self.launch = launch
        self.index_bits = index_bits(function)
        self.dots = Dots(ev, self.nests)
        self.status: Status | None = None
        self.bounds: Bounds | None = None
        self.ordering: Ordering | None = None
        self.address_uses = AddressUses()
        self.program = i64(0)
        self.grid: list[V] = []
        self.position: list[V] = []
        self.deferred: dict[SSAValue, Callable[[Pointers, Node | None, bool], None]] = {}
        self.taken: dict[Operation, Node | None] = {}
        self.pending: PendingStore | None = None
        self._handlers = handlers
        self._otherwise = otherwise

    def block(self, block: Block) -> None:
        """Lowers the operations of a block, in order."""
        for op in block.ops:
            if op in self.liveness.index:
                self.current_nest = self.liveness.index[op]
                if self.ordering is not None:
                    self.ordering.before(op, self.current_nest)
            self.operation(op)

    def operation(self, op: Operation) -> None:
        lower_at_line(self, op, self._handlers.get(op.name, self._otherwise))

    def is_free(self, node: Node) -> bool:
        """Whether a block is computed where it is used, and no load of what may be written meanwhile."""
        pending = isinstance(node, Load) and self.ordering is not None and self.ordering.is_pending(node)
        return id(node) not in self.ev.replacement and not pending

    def goes_past_caches(self, access: Operation) -> bool:
        """Whether a load or store, or all those of the launch, are of more than the caches hold: stores are to bypass them."""
        return attributes(access).get("cachePolicy") == "cs" if self.launch is None else self.launch.streaming

    def leave_if_stopped(self) -> None:
        """Leaves the function if the launch has been stopped; every program and every iteration of a loop begins with this."""
        if self.status is not None:
            self.status.leave_if_stopped()
