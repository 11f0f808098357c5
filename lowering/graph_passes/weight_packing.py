"""Packs the right operands of matmuls: constants are stored in panels, and large runtime operands copied into
them.

`tt.dot` on the host reads its right operand panel by panel: `PANEL` columns of all rows, contiguous. A
constant operand is stored that way once, when the model is loaded; a large runtime operand is copied by a
kernel of its own. The product then reads memory linearly, and large strides cause no cache conflicts.

Constants of int8 are stored in quads besides: the instructions that multiply bytes take four neighbours of k at a time
(`lowering/llvm/host/matmul/int8/quads.py`), and a program would otherwise put them together for each block of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...promotion.dataclass import dataclass
from ...promotion.dtype import bool_, float32, int8, int32, int64
from ..choices.kernel_schedules import kernel_names
from ..choices.model_schedule import Algorithm
from ..control.steps import with_constants
from ..nest import Affine, Axis, Buffer, Nest, Store, Value
from ..schedule.plan import Plan, with_nests
from ..tile.cost_models.axes import capped
from ..tile.structure import Product, contracted_extent, products, rows_extent
from .winograd import best_side, convolution_of, in_tiles

PANEL, NARROW_PANEL = 64, 32
FEW_PROGRAMS, MIN_NARROW_ROWS = 32, 12
"""Products of fewer programs, of 64 rows and columns each, read narrow panels: there are twice as many then, for as many
threads. On one thread a layer with few rows takes 0.91 to 1.05 of the time. Products of fewer rows read whole panels as fast as
they come."""
MIN_COLUMNS = 33  # fewer fill less than half a panel
QUAD = 4
MIN_QUAD_COLUMNS = 9  # fewer fill less than half of the widest vector of int32
MIN_ROWS = 512
MIN_ELEMENTS, MIN_TRANSPOSED = 1 << 19, 1 << 16
"""A runtime operand is copied into panels if the other operand has at least `MIN_ROWS` rows and it has at
least `MIN_ELEMENTS` elements itself, or `MIN_TRANSPOSED` if it is transposed. For others `tt.dot` copies its panel
with the first rows, which fewer rows do not pay for twice (docs/design/002-host-lowering.md)."""


@dataclass(frozen=True, slots=True)
class ConstantLayout:
    """How constant buffer i of a plan is stored: the symbol it comes from and the name of its layout
    (`runtime/storage/weight_packing.py`)."""

    symbol: int
    layout: str

    @property
    def transposed(self) -> bool:
        return self.layout.endswith(":t")


@dataclass(frozen=True, slots=True)
class InPanels:
    """How an operand is stored in panels: of `width` columns, with `together` rows side by side in each."""

    width: int
    together: int = 1


@dataclass(frozen=True, slots=True)
class RightOperand:
    """The load that is the whole right operand of a nest's only contraction: a (K, N) matrix, or stored as (N, K).

    segment: the extent of k, of which the depth is a multiple. bytes: whether it is a product of int8 in int32.
    panel: columns of a panel.
    """

    position: int  # in the nest's body
    depth: int
    columns: int
    transposed: bool
    segment: int
    bytes: bool
    panel: int

    @property
    def layout(self) -> str:
        """The layout of a constant."""
        turned = ":t" if self.transposed else ""
        if self.bytes:
            return f"panels:{self.panel}:{QUAD}x{self.segment}{turned}"
        return f"panels:{self.panel}{turned}"


def right_operand(nest: Nest, few: int = FEW_PROGRAMS) -> RightOperand | None:
    """Returns the right operand if it may be stored in panels: a dense matrix of known size that only the
    contraction reads. None otherwise. few: below so many programs its panels are narrow."""
    found = products(nest)
    if len(found) != 1:
        return None
    product = found[0]
    position = nest.body[product.number].operands[1]
    load = nest.body[position]
    readers = sum(v.operands.count(position) for v in nest.body)
    if load.op != "load" or load.operands or readers != 1:
        return None
    at: Affine = load.attrs["at"]
    others = [axis for axis, _ in at.terms if axis not in (product.k, *product.outer)]
    if at.offset != 0 or product.n is None or others != [product.n]:  # a batch axis is not a column
        return None
    n, row = nest.axes[product.n].extent, at.coefficient(product.k)
    k = contracted_extent(nest, product, at, row)
    segment = nest.axes[product.k].extent
    contract = nest.body[product.number]
    quads = contract.dtype is int32 and segment != 0 and all(nest.body[operand].dtype is int8 for operand in contract.operands)
    if not isinstance(k, int) or not isinstance(n, int) or not isinstance(segment, int):
        return None
    if n < (MIN_QUAD_COLUMNS if quads else MIN_COLUMNS):
        return None
    strides = (row, at.coefficient(product.n))
    shape = load.attrs["buffer"].shape
    while len(shape) > 2 and shape[0] == 1:  # filters of one tap
        shape = shape[1:]
    panel = capped(n, PANEL) if quads else _panel(nest, product, n, few)
    if shape == (k, n) and strides == (n, 1):
        return RightOperand(position, k, n, False, segment, quads, panel)
    if shape == (n, k) and strides == (1, k):
        return RightOperand(position, k, n, True, segment, quads, panel)
    return None


def _panel(nest: Nest, product: Product, columns: int, few: int) -> int:
    """Returns the columns of a panel for a product of floats."""
    rows = rows_extent(nest, product)
    if not isinstance(rows, int) or rows < MIN_NARROW_ROWS or nest.body[product.number].dtype is not float32:
        return PANEL
    programs = -(-rows // PANEL) * -(-columns // PANEL)
    for axis, each in enumerate(nest.axes):
        if axis not in (*product.rows, *product.outer, product.k, product.n):
            if not isinstance(each.extent, int):
                return PANEL
            programs *= each.extent
    return NARROW_PANEL if programs < few else PANEL


def _pays(nest: Nest, operand: RightOperand) -> bool:
    """Returns whether copying a runtime operand into panels costs less than reading it in place; all rows
    share the copy."""
    contract = next(v for v in nest.body if v.op == "contract")
    depth = (contract.attrs["over"], *contract.attrs.get("outer", ()))
    rows = [nest.axes[axis].extent for axis in nest.body[contract.operands[0]].axes if axis not in depth]
    count = 1
    for extent in rows:
        if not isinstance(extent, int):
            return False
        count *= extent
    elements = operand.depth * operand.columns
    return count >= MIN_ROWS and elements >= (MIN_TRANSPOSED if operand.transposed else MIN_ELEMENTS)


def _read_from(nest: Nest, operand: RightOperand, buffer: Buffer) -> Nest:
    """Returns the nest with its right operand in panels, which it addresses as a row-major (K, N) matrix in
    `buffer`."""
    load = nest.body[operand.position]
    at: Affine = load.attrs["at"]
    n = products(nest)[0].n
    row = operand.columns
    step = 1 if operand.transposed else operand.columns  # of k in the matrix that is copied
    terms = tuple((axis, 1 if axis == n else coefficient // step * row) for axis, coefficient in at.terms)
    attrs = {**load.attrs, "buffer": buffer, "at": Affine(0, terms)}
    body = list(nest.body)
    body[operand.position] = replace(load, attrs=attrs)
    return replace(nest, body=tuple(body))


def _packing_nest(source: Buffer, operand: RightOperand, target: Buffer, reader: Nest) -> Nest:
    """Makes the nest target[p, k, j] = source[k, p · PANEL + j], zero beyond the last column.

    It counts as part of its reader and comes right before it: so the arena holds one operand's panels after the other's.
    """
    k, n = operand.depth, operand.columns
    panels = -(-n // PANEL)
    row, column = (1, k) if operand.transposed else (n, 1)
    panel_axis, row_axis, column_axis = 0, 1, 2
    at = Affine(0, ((panel_axis, column * PANEL), (row_axis, row), (column_axis, column)))
    every = (panel_axis, row_axis, column_axis)
    body: list[Value] = []
    guard: tuple[int, ...] = ()
    if n % PANEL:
        position = Affine(0, ((panel_axis, PANEL), (column_axis, 1)))
        body = [
            Value("index", int64, (panel_axis, column_axis), (), {"at": position}),
            Value("const", int64, (), (), {"value": n}),
            Value("less", bool_, (panel_axis, column_axis), (0, 1), {}),
        ]
        guard = (2,)
    attrs = {"buffer": source, "at": at, "strides": (), "guarded": bool(guard), "fill": 0}
    body.append(Value("load", source.dtype, every, guard, attrs))
    store = Affine(0, ((panel_axis, k * PANEL), (row_axis, PANEL), (column_axis, 1)))
    axes = (Axis("p", panels), Axis("k", k), Axis("j", PANEL))
    return Nest(axes, tuple(body), (Store(len(body) - 1, target, store),), "map", ("pack",), reader.symbols)


def store_in_panels(
    plan: Plan, algorithm: Callable[[str], Algorithm | None], allowed: Sequence[Algorithm], threads: int
) -> tuple[Plan, tuple[ConstantLayout, ...], tuple[InPanels | None, ...], tuple[str, ...]]:
    """Stores right operands in panels: constants directly, large runtime operands by a kernel of their own
    that copies them.

    algorithm: how to compute the convolution of a kernel (`winograd.py`), or None for the fastest of those that are allowed.
    threads: how many there are programs for.
    Returns the plan, the layouts of its constant buffers, how each nest reads panels, if it does, and the names of the kernels.
    """
    if not plan.steps:
        plan = _copy_runtime_operands(plan)
    constants: list[Buffer] = []
    layouts: list[ConstantLayout] = []
    index: dict[tuple[int, str], int] = {}

    def with_layout(buffer: Buffer, layout: str) -> Buffer:
        key = (buffer.symbol, layout)
        if key not in index:
            index[key] = len(constants)
            constants.append(replace(buffer, index=len(constants)))
            layouts.append(ConstantLayout(buffer.symbol, layout))
        return constants[index[key]]

    nests: list[Nest] = []
    names, widths = kernel_names(plan.nests), _widths(plan.nests, threads)
    for name, nest in zip(names, plan.nests, strict=True):
        convolution = convolution_of(nest)
        side = 1 if convolution is None else best_side(convolution, algorithm(name), allowed)
        found = right_operand(nest)
        if convolution is not None and side > 1:
            filters = nest.body[convolution.filters].attrs["buffer"]
            nest = in_tiles(convolution, with_layout(filters, convolution.layout(side)), side)
            keep = len(nest.body) - 1
        elif found is not None and nest.body[found.position].attrs["buffer"].kind == "constant":
            buffer = nest.body[found.position].attrs["buffer"]
            if found.transposed:
                buffer = replace(buffer, shape=(found.depth, found.columns))
            found = replace(found, panel=widths[buffer.symbol])
            nest = _read_from(nest, found, with_layout(buffer, found.layout))
            keep = found.position
        else:
            keep = -1
        body = []
        for position, value in enumerate(nest.body):
            if value.op == "load" and value.attrs["buffer"].kind == "constant" and position != keep:
                value = replace(value, attrs={**value.attrs, "buffer": with_layout(value.attrs["buffer"], "plain")})
            body.append(value)
        nests.append(replace(nest, body=tuple(body)))
    steps = with_constants(plan.steps, lambda buffer: with_layout(buffer, "plain"))
    packed = replace(plan, nests=tuple(nests), constants=tuple(constants), steps=steps)
    return packed, tuple(layouts), tuple([_panels_of(nest, layouts) for nest in nests]), names


def _widths(nests: Sequence[Nest], threads: int) -> dict[int, int]:
    """Returns the columns of a panel for each constant, by its symbol: one layout for all nests that read it."""
    found: dict[int, int] = {}
    for nest in nests:
        operand = right_operand(nest, max(FEW_PROGRAMS, 2 * threads))
        if operand is not None:
            symbol = nest.body[operand.position].attrs["buffer"].symbol
            found[symbol] = max(operand.panel, found.get(symbol, 0))
    return found


def _panels_of(nest: Nest, layouts: Sequence[ConstantLayout]) -> InPanels | None:
    found = right_operand(nest)
    if found is None:
        return None
    buffer: Buffer = nest.body[found.position].attrs["buffer"]
    if buffer.kind != "constant":
        return InPanels(PANEL) if buffer.symbol == PACKED else None
    layout = layouts[buffer.index].layout
    if layout == "plain":
        return None
    return InPanels(int(layout.split(":")[1]), QUAD if found.bytes else 1)


PACKED = -2
"""`Buffer.symbol` of temporaries that hold panels, since they store no symbol of the graph as it is. Other temporaries without
a symbol, those of loops and branches, have -1."""


def _copy_runtime_operands(plan: Plan) -> Plan:
    nests: list[Nest] = []
    temporaries = list(plan.temporaries)
    copies: dict[tuple[str, int, bool], Buffer] = {}
    for nest in plan.nests:
        found = right_operand(nest)
        source = None if found is None else nest.body[found.position].attrs["buffer"]
        runtime = source is not None and source.kind != "constant"
        if found is not None and source is not None and runtime and found.columns >= MIN_COLUMNS and _pays(nest, found):
            key = (source.kind, source.index, found.transposed)
            if key not in copies:
                padded = -(-found.columns // PANEL) * PANEL
                copies[key] = Buffer("temporary", len(temporaries), source.dtype, (found.depth, padded), PACKED)
                temporaries.append(copies[key])
                nests.append(_packing_nest(source, found, copies[key], nest))
            nest = _read_from(nest, found, replace(copies[key], shape=(found.depth, found.columns)))
        nests.append(nest)
    return plan if not copies else with_nests(plan, nests, temporaries)
