"""Describes a model's kernels: their reports, their code as text at every level, and the plan as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from ...graph.dims.binding import extent_at
from ...lowering.artifact import CompiledGraph, KernelCode, KernelReport
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..native.codegen import emit_assembly
from .llvm_text import module_of_function

if TYPE_CHECKING:
    from ..toolchain.ptxas import Resources


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a model, with the work of its launch.

    It cannot be launched alone; `jn.kernel.from_ttir(kernel.ttir)` makes one that can.

    Attributes:
        name: the name of the kernel function.
        template: the tile template that made it.
        fused: names of the graph's operations that run in it.
        grid: number of programs; an int, or a dim expression as text.
        tiles: pairs of axis name and block extent.
        bytes_read, bytes_written, flops: per run; ints, or dim expressions as text (`at` evaluates them).
        code: the code for a GPU, with the threads and shared memory of a block; None on the CPU.
    """

    name: str
    template: str
    fused: tuple[str, ...]
    grid: int | str
    tiles: tuple[tuple[str, int], ...]
    bytes_read: int | str
    bytes_written: int | str
    flops: int | str
    code: KernelCode | None = field(repr=False)
    _module: str = field(repr=False)
    _texts: Mapping[str, str] = field(repr=False, compare=False)

    @property
    def ttir(self) -> str:
        """The block program as text in the `tt` dialect; a model prints its block programs when one of them
        is first read."""
        return self._texts.get(self.name, "")

    @property
    def bytes(self) -> int | str:
        """Bytes read and written together, per run."""
        if isinstance(self.bytes_read, int) and isinstance(self.bytes_written, int):
            return self.bytes_read + self.bytes_written
        return f"{self.bytes_read} + {self.bytes_written}"

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR of this kernel, a module: its function first, then what it calls and uses; the text of the whole module
        when it has no function of its own."""
        return module_of_function(self._module, self.name) or self._module

    @property
    def asm(self) -> str:
        """The kernel's assembly text for the CPU of this process, generated anew on every access; for a GPU,
        its PTX."""
        if self.code is not None:
            return self.code.ptx
        text = emit_assembly(self._module)
        return _assembly(text, self.name) or text

    @property
    def ptx(self) -> str:
        """The PTX of this kernel. Raises `UserError` for kernels of the CPU."""
        if self.code is None:
            raise UserError(f"kernel {self.name} runs on the CPU and has no PTX; fix: asm, or compile for a GPU")
        return self.code.ptx

    @property
    def resources(self) -> Resources | None:
        """Registers, stack and spills of the machine code, as NVIDIA's assembler reports them; None for kernels of the CPU and
        where no assembler is found. The first access runs the assembler; the result is kept."""
        from ..toolchain.ptxas import resources

        return None if self.code is None else resources(self.code)

    def at(self, **dims: int) -> dict[str, int]:
        """Returns grid, bytes and flops for the given dims. Raises `UserError` for a dim that is missing."""
        sizes = {
            "grid": self.grid,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "flops": self.flops,
        }
        return {name: extent_at(size, dims) for name, size in sizes.items()}


def _assembly(text: str, name: str) -> str:
    """Extracts one function from assembly text, from its label to the label where it ends; empty where there
    is none."""
    match = re.search(
        rf"^\"?_?{re.escape(name)}\"?:.*?^\.L?func_end\d+:|^\"?_?{re.escape(name)}\"?:.*?\Z",
        text,
        re.M | re.S,
    )
    return match.group(0) if match else ""


def kernels_of(compiled: CompiledGraph) -> tuple[Kernel, ...]:
    """Returns the kernels of a compiled graph, in launch order."""
    codes = {} if compiled.gpu is None else {code.name: code for code in compiled.gpu.kernels}
    return tuple(_kernel(report, compiled, codes.get(report.name)) for report in compiled.kernels)


def _kernel(report: KernelReport, compiled: CompiledGraph, code: KernelCode | None) -> Kernel:
    return Kernel(
        report.name,
        report.template,
        report.fused,
        report.grid,
        report.tiles,
        report.bytes_read,
        report.bytes_written,
        report.flops,
        code,
        compiled.llvm_ir,
        compiled.ttir,
    )


_HEADERS = ("kernel", "template", "grid", "tiles", "bytes read", "bytes written", "flops", "fused")


def plan_table(kernels: Iterable[Kernel]) -> str:
    """Formats the launches of a model as a table: one line each, with aligned columns."""
    rows: list[Sequence[str]] = [_HEADERS]
    for kernel in kernels:
        tiles = " ".join(f"{axis}={extent}" for axis, extent in kernel.tiles)
        sizes = [_thousands(size) for size in (kernel.bytes_read, kernel.bytes_written, kernel.flops)]
        row = (kernel.name, kernel.template, _thousands(kernel.grid), tiles, *sizes, ", ".join(kernel.fused))
        rows.append([cell or "-" for cell in row])
    return "\n".join(aligned(rows))


def aligned(rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """Returns the lines of a table whose first row has its headers. right: how many columns are aligned on the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if column < right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def _thousands(size: int | str) -> str:
    return f"{size:,}".replace(",", "_") if isinstance(size, int) else size
