"""Writes docs/libdevice.md from the table of library functions and the PTX instructions.

python docs/libdevice.py
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from joinery.lowering.libdevice.expand import EXPANSIONS
from joinery.lowering.libdevice.signatures import CALLS, MAX_ORDER, SIGNATURES, Signature
from joinery.lowering.ptx.instructions import FORMS
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.transforms.expression import Expr
from joinery.lowering.tt.types import scalar_type
from joinery.runtime.toolchain.libdevice import VARIABLE

PAGE = Path(__file__).resolve().parent / "libdevice.md"
NOTE = "<!-- Written by docs/libdevice.py (make docs) from the code. Do not edit. -->"


def operations(signature: Signature) -> Counter[str]:
    """Counts the operations that a function expands into."""
    b = BlockBuilder.function("f", [(f"x{i}", scalar_type(elem)) for i, elem in enumerate(signature.arguments)])
    EXPANSIONS[signature.function]([Expr(b, argument) for argument in b.args], signature)
    return Counter(op.name for op in b.func.body.block.ops if op.name != "arith.constant")


def how(signature: Signature) -> str:
    """Describes the computation briefly: the operation, or how many operations and which of them are functions."""
    if signature.function in CALLS:
        through = ", in float64" if signature.result == "f32" else ""
        return f"`{signature.function}` of the C library{through}"
    found = operations(signature)
    total = sum(found.values())
    if total == 1:
        return f"`{next(iter(found))}`"
    plain = ("math.absf", "math.copysign")
    functions = sorted(name for name in found if name.startswith("math.") and name not in plain)
    functions += [name for name in ("arith.remf", "tt.precise_sqrt", "tt.mulhiui") if name in found]
    wide = ", in float64" if "arith.extf" in found and signature.result == "f32" else ""
    return f"{total} operations{wide}" + (": " + ", ".join(f"`{name}`" for name in functions) if functions else "")


def page() -> str:
    lines = [NOTE, "", "# Library functions and inline PTX", "", "## libdevice", ""]
    lines += [
        "`tt.extern_elementwise` with a symbol of this table is interpreted, and on the host expanded into block operations",
        "or turned into a call of the C library. Results are within 4 units in the last place of the exact number, for",
        "float32 and float64; special values, denormals and signed zeros are kept. Exceptions: the calls of the C library are",
        "as good as it is, which near zeros of the Bessel functions is an absolute error; `jn` and `yn` of orders beyond",
        f"{MAX_ORDER} are NaN. The `fast_` functions are the accurate ones. Rounded variants (`_rn`, `_rz`, `_rd`, `_ru`)",
        "are correctly rounded in their direction.",
        "",
        "On GPUs the functions are those of NVIDIA's libdevice, where there is a `libdevice.10.bc`: the file that the",
        f"environment variable `{VARIABLE}` names, or what `cuda.pathfinder` finds, or that of a CUDA toolkit;",
        "`joinery doctor` says which. Results are then NVIDIA's: its bounds (CUDA C++ Programming Guide, mathematical",
        "functions), approximations for the `fast_` functions, NaN for `jn` and `yn` of negative orders. Denormals are kept,",
        f"quotients and square roots are IEEE's. Without the file, with `{VARIABLE}=none`, and for another `libname`,",
        "GPUs compute what the table says, as the host does; what the host takes from the C library has no GPU code then.",
        "`math` operations never need the file.",
        "",
        f"{len(SIGNATURES)} symbols. Not reachable element by element: functions with results behind pointers (`sincos`,",
        "`sincospi`, `modf`, `frexp`, `remquo`, `nan`).",
        "",
        "| symbol | types | computed as |",
        "| --- | --- | --- |",
    ]
    for symbol in sorted(SIGNATURES):
        signature = SIGNATURES[symbol]
        lines.append(f"| `{symbol}` | {', '.join(signature.arguments)} → {signature.result} | {how(signature)} |")
    lines += [
        "",
        "## Inline PTX",
        "",
        "`tt.elementwise_inline_asm` may hold straight-line PTX: declarations, scopes `{ }`, guards `@p` and `@!p`, vectors in",
        "`mov`, literals, accesses to global memory, special registers ([what they mean](guides/kernels.md#inline-assembly)),",
        "`griddepcontrol`, and these instructions on registers. A group of modifiers in brackets may be left out; of the",
        "alternatives one stands.",
        "Approximations are computed to nearly full precision. Everything else is refused by name.",
        "",
        "| instruction | modifiers | types |",
        "| --- | --- | --- |",
    ]
    for name in sorted(FORMS):
        for form in FORMS[name]:
            groups = [" \\| ".join(f".{m}" for m in group) for group in form.groups]
            shown = " ".join(group if i in form.required else f"[{group}]" for i, group in enumerate(groups))
            types = "; ".join(" ".join(f".{type_}" for type_ in choices) for choices in form.types)
            lines.append(f"| `{name}` | {shown} | {types} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
