"""The state that the handlers of operations share while one function is lowered to the code of a thread.

A handler (`Handler`) lowers one operation. Handlers see this class and what lies below it; `kernel.py` imports them all and
passes the table in, so a handler that lowers a region calls `block` and depends on no other handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from ....promotion.errors import UnsupportedError
from ...linear_layouts.layout import LinearLayout
from ...tt.analysis.integer_ranges import Range as IntegerRange
from ...tt.dialect.functions import FuncOp
from ..elementwise import is_elementwise
from ..ir import Function
from ..op_lines import lower_at_line
from ..syntax import attributes, shape_of
from ..values import V
from .control.producer import Producer
from .matmul.operand_kinds import kind_of
from .matmul.wgmma import SharedMatrix, WarpgroupProduct, plan_product
from .memory.global_memory import GlobalMemory
from .memory.ordering import MemoryOrder
from .messages import Messages
from .nodes import Staged
from .targets import GpuTarget
from .values import Values

Handler = Callable[["KernelContext", Any], None]
"""Lowers one operation; each handler knows the class of its operations."""
Resident = tuple[SharedMatrix | tuple[V, ...], ...]


class KernelContext(Values):
    """The values of a function, and everything else that its handlers work on.

    memory, order: emit accesses to global memory, and the barriers between them.
    messages: texts of prints and assertions.
    loop_bounds, single_combines: results of analyses of loops and regions, which are lowered several times.
    staged: the loads that a pipelined loop has copied to shared memory.
    resident: the operands of products that a loop has stored before it starts, by value, element type and number.
    in_flight: products (wgmma) that are not waited for at once.
    max_stages: stages that a pipelined loop may have; stages: the most that one has.
    producer: the warp that copies for others; reserved: bytes of shared memory that only its stages use.
    is_alone: whether each thread runs a region on its own; guard: the condition under which the region's results count.
    reduced_rows: numbers of rows of the matrices that are reduced row by row.
    """

    def __init__(
        self, f: Function, function: FuncOp, target: GpuTarget, warps: int,
        max_stages: int, reserved: int, handlers: Mapping[str, Handler], otherwise: Handler,
    ) -> None:  # fmt: skip
        """Begins a function. handlers: by the name of the operation; `otherwise` lowers all other operations."""
        super().__init__(f, function, target, warps)
        self.name: str = function.sym_name.data
        self.memory = GlobalMemory(self.t)
        self.order = MemoryOrder(function, self.shared)
        self.messages = Messages(f.module)
        self.loop_bounds: dict[Operation, tuple[IntegerRange, ...]] = {}
        self.single_combines: dict[Operation, Callable[[V, V], V] | None] = {}
        self.staged: dict[Operation, Staged] = {}
        self.resident: dict[tuple[SSAValue, str, int], Resident] = {}
        self.in_flight: set[Operation] = set()
        self.max_stages = max_stages
        self.stages = 0
        self.producer: Producer | None = None
        self.reserved = reserved
        self.is_alone = False
        self.guard: V | None = None
        self.reduced_rows = frozenset(
            shape_of(op.operands[0].type)[0]
            for op in function.walk()
            if op.name == "tt.reduce" and int(attributes(op)["axis"]) == 1 and len(shape_of(op.operands[0].type)) == 2
        )
        self._products: dict[Operation, WarpgroupProduct | None] = {}
        self._handlers = handlers
        self._otherwise = otherwise

    @property
    def room(self) -> int:
        """The free bytes of shared memory, which a loop may keep to itself."""
        return self.shared.room(self.target.shared_bytes)

    @property
    def is_persistent(self) -> bool:
        """Whether the kernel is persistent: it reads the grid size, so each program loops over several tiles."""
        return any(op.name == "tt.get_num_programs" for op in self.function.walk())

    # -- layouts ---------------------------------------------------------------------

    def access_layout(self, op: Any) -> LinearLayout:
        """Returns the layout of an access: coalesced for pointers that are expressions, else the pointers' own."""
        own = self.ev.choose_layout([self.node(op.ptr)])
        return own if own is not None else self.accesses.coalesced(shape_of(op.ptr.type), self.accesses.info(op).order())

    def product(self, op: Operation) -> WarpgroupProduct | None:
        """Returns the wgmma plan of a tt.dot; None if wgmma does not compute it."""
        if op not in self._products:
            self._products[op] = plan_product(self.target, self.warps, op, kind_of(op))
        return self._products[op]

    # -- operations ------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.operation(op)

    def block_without_end(self, block: Block) -> None:
        for op in list(block.ops)[:-1]:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        lower_at_line(self, op, self._handlers.get(op.name, self._otherwise))

    def is_elementwise(self, op: Operation) -> bool:
        return op.name not in self._handlers and is_elementwise(op.name)

    def unsupported(self, op: Operation, what: str = "") -> UnsupportedError:
        return UnsupportedError(f"nvptx lowering: operation {op.name}{what and ': ' + what}")
