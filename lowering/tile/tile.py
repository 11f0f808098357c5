"""Tiles nests: makes a block program and its launch from a nest and a schedule
(docs/design/001-architecture.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from xdsl.dialects.builtin import StringAttr

from ...promotion.dataclass import dataclass
from ...promotion.errors import JoineryError
from ..nest import Extent, Nest
from ..program import BlockProgram, DescriptorArgument, Launch
from ..schedule.extents import product
from ..schedule.traffic import bytes_read, bytes_written, flops
from ..tt.canonical import canonical_text
from ..tt.source_locations import fuse_locations
from .cost_models.host import HostLimits
from .emit import Kernel
from .offsets import Shared, share_offsets
from .schedule import Schedule, check_schedule
from .signature import Signature, signature
from .structure import pointer_buffers, runtime_extents
from .templates.attention import build_attention
from .templates.contract import build_contract
from .templates.map import build_map
from .templates.ordered import build_ordered
from .templates.row import build_row
from .tensor_descriptors import DescriptorAccess
from .user_lines import name_lines, nest_lines, with_lines_of


class Limits(Protocol):
    """The cost model of a target, with what it knows of the target."""

    @property
    def use_descriptors(self) -> bool:
        """Whether products may read and write blocks through descriptors."""
        ...

    @property
    def skips_masked_keys(self) -> bool:
        """Whether attention leaves out blocks of keys that its mask excludes for all rows of a program."""
        ...

    def table_elements(self, size: int) -> int:
        """Returns the elements of `size` bytes of the longest table that registers hold."""
        ...

    def schedule(self, nest: Nest) -> Schedule:
        """Returns the schedule that the cost model chooses for the nest."""
        ...


_BUILDERS: dict[str, Callable[[Kernel, Schedule], list[tuple[int, int]]]] = {
    "map": build_map,
    "row": build_row,
    "scan": build_row,
    "contract": build_contract,
    "attention": build_attention,
    "ordered": build_ordered,
}


def tile(
    nest: Nest, schedule: Schedule | None = None, limits: Limits | None = None, name: str | None = None
) -> tuple[BlockProgram, Launch]:
    """Returns the block program of a nest and one launch of it (as program 0).

    Without a schedule the cost model's default for `limits` is used.
    Raises `UserError` for an illegal schedule, `UnsupportedError` when no template computes the nest.
    """
    return Tiler(limits).tile(nest, schedule, name)


@dataclass(frozen=True, slots=True)
class _Made:
    """A program: its index, its grid as (axes, block) pairs, and what it accesses through descriptors."""

    index: int
    grid: tuple[tuple[tuple[int, ...], int], ...]
    accesses: tuple[DescriptorAccess, ...]


_Identity = tuple[Signature, Schedule | None, tuple[int, ...], bool]


class Tiler:
    """Tiles the nests of one model. Equal nests share a program; `programs` lists all programs in the order
    in which they were made."""

    def __init__(self, limits: Limits | None = None, unaligned: frozenset[int] = frozenset()) -> None:
        """Makes a tiler without programs.

        unaligned: the variables whose addresses no tensor map takes; nests that use them have no descriptors.
        """
        self.limits: Limits = HostLimits() if limits is None else limits
        self.unaligned = unaligned
        self.programs: list[BlockProgram] = []
        self._made: dict[_Identity, _Made] = {}
        self._by_key: dict[str, int] = {}

    def tile(
        self, nest: Nest, schedule: Schedule | None = None, name: str | None = None
    ) -> tuple[BlockProgram, Launch]:
        """Tiles one nest, as `tile.tile` does; `Launch.program` is an index into `programs`."""
        form = Shared(nest, {}, {})
        return self._launched(nest, form, self._program(self._identity(form, schedule), form, [], name))

    def tile_all(self, nests: Sequence[Nest], schedules: Sequence[Schedule], names: Sequence[str]) -> tuple[Launch, ...]:
        """Returns one launch per nest. Nests that differ only in offsets share a program, which names the
        lines of all of them. names: what to call their programs."""
        shared = share_offsets(nests, schedules)
        identities = [self._identity(form, schedule) for form, schedule in zip(shared, schedules, strict=True)]
        uses: dict[_Identity, list[Nest]] = {}
        for form, identity in zip(shared, identities, strict=True):
            uses.setdefault(identity, []).append(form.nest)
        return tuple(
            [
                self._launched(nest, form, self._program(identity, form, uses[identity], name))[1]
                for nest, form, identity, name in zip(nests, shared, identities, names, strict=True)
            ]
        )

    def _identity(self, shared: Shared, schedule: Schedule | None) -> _Identity:
        """Returns a key that is equal for nests that share a program."""
        multiples = tuple([shared.multiples.get(extent, 1) for extent in runtime_extents(shared.nest)])
        return signature(shared.nest), schedule, multiples, self._allows_descriptors(shared.nest)

    def _allows_descriptors(self, nest: Nest) -> bool:
        used = pointer_buffers(nest) if self.unaligned else ()
        return not any(buffer.kind == "variable" and buffer.index in self.unaligned for buffer in used)

    def _launched(self, nest: Nest, shared: Shared, made: _Made) -> tuple[BlockProgram, Launch]:
        scalars = tuple([shared.values.get(extent, extent) for extent in runtime_extents(shared.nest)])
        return self.programs[made.index], _launch(nest, made, scalars)

    def _program(self, identity: _Identity, shared: Shared, uses: Sequence[Nest], name: str | None) -> _Made:
        """Returns the program of a nest, which is built at the first call. uses: the nests that will share
        it."""
        found = self._made.get(identity)
        if found is None:
            form = replace(shared, nest=with_lines_of(shared.nest, uses))
            try:
                found = self._made[identity] = self._build(form, identity, name)
            except JoineryError as error:
                name_lines(error, nest_lines(form.nest))
                raise
        return found

    def _build(self, shared: Shared, identity: _Identity, name: str | None) -> _Made:
        nest, schedule = shared.nest, identity[1]
        template = nest.template
        if schedule is None:
            schedule = self.limits.schedule(nest)
        check_schedule(nest, schedule)
        use_descriptors = self.limits.use_descriptors and template in ("contract", "attention") and identity[3]
        kernel = Kernel(
            nest, CANONICAL_NAME, schedule.streaming, use_descriptors, shared.multiples, self.limits.table_elements,
            self.limits.skips_masked_keys,
        )
        grid = tuple(
            [(kernel.merged.get(axis, (axis,)), block) for axis, block in _BUILDERS[template](kernel, schedule)]
        )
        function = kernel.builder.finish()
        key = hashlib.sha256(f"{schedule.warps}\n{canonical_text(function)}".encode()).hexdigest()
        index = self._by_key.get(key)
        if index is None:
            index = self._by_key[key] = len(self.programs)
            label = name or f"{template}_{index}"
            if any(program.name == label for program in self.programs):  # another layout of an operand
                label = f"{label}_{index}"
            function.properties["sym_name"] = StringAttr(label)
            tiles = tuple([(nest.axes[axis].name, size) for axis, size in kernel.tiles.items()])
            self.programs.append(
                BlockProgram(
                    label,
                    function,
                    key,
                    len(kernel.buffers),
                    len(kernel.runtime),
                    template,
                    tiles,
                    schedule.warps,
                    len(kernel.descriptors),
                )
            )
        else:
            fuse_locations(self.programs[index].func, function)
        return _Made(index, grid, tuple(kernel.descriptors))


CANONICAL_NAME = "kernel"


def _launch(nest: Nest, made: _Made, scalars: tuple[Extent, ...]) -> Launch:
    count: Extent = 1
    for axes, block in made.grid:
        extent = product([nest.axes[axis].extent for axis in axes])
        count = count * (extent if block == 1 else (extent + (block - 1)) // block)
    descriptors = tuple([_descriptor_argument(nest, access) for access in made.accesses])
    return Launch(
        made.index, pointer_buffers(nest), scalars, count, nest.fused, bytes_read(nest), bytes_written(nest),
        flops(nest), descriptors,
    )  # fmt: skip


def _descriptor_argument(nest: Nest, access: DescriptorAccess) -> DescriptorArgument:
    buffer = nest.stores[access.number].buffer if access.is_store else nest.body[access.number].attrs["buffer"]
    return DescriptorArgument(buffer, tuple([nest.axes[axis].extent for axis in access.axes]), access.strides(nest))
