"""Writes docs/dtypes.md from the type table, docs/commands.md from the parser of the `joinery` command, docs/passes.md from
the registry of passes.

python docs/tables.py            writes the pages
python docs/tables.py --check    exits with 1 when one of them is out of date
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from joinery.interface.cli.main import _parser
from joinery.promotion.dtype import DTYPES, DType

DOCS = Path(__file__).resolve().parent
PASSES = runpy.run_path(str(DOCS / "passes.py"))
NOTE = "<!-- Written by docs/tables.py (make docs) from the code. Do not edit. -->"

DTYPES_INTRO = """# Dtypes

`jn.float32` and the others are values of `jn.DType`; wherever one is taken, its name (`"float32"`) and the NumPy dtype do as
well.

- **bits**: of a value; in memory it takes whole bytes. `tensor_float32` is stored as float32 and has 10 bits of mantissa.
- **computed with**: operations of graphs compute with the dtype. The others are stored, viewed and cast; "stored" ones are not
  cast either.
- **largest**, **smallest**: of finite numbers; of floats the smallest normal one.

Which dtypes meet in which is a matter of [rule sets](promotion.md)."""

NAMES_INTRO = """## What others call them

- **NumPy**: the dtype of arrays. Those that NumPy lacks are of the package ml_dtypes.
- **block IR**: the scalar type in the `tt` dialect, where integers have no sign. **PTX**: the type in instructions.
- **DLPack**: the type code. **ONNX**: the number of the tensor data type. **safetensors**: the dtype in a file's header."""

COMMANDS_INTRO = """# Commands

`joinery` (or `python -m joinery`) asks about promotion, runs saved models and block kernels, and shows what becomes of them.
The exit status is 0, 2 for a mistake in what was asked, or 1 for what this version or this machine cannot do;
`joinery batch` and `joinery prove` have others beside these, which `--help` names."""


def number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def dtype_row(dtype: DType) -> str:
    computed = "yes" if dtype.has_arithmetic else "by parts" if dtype.is_complex else "stored" if dtype.storage_only else "–"
    bits = f"{dtype.exponent_bits}, {dtype.mantissa_bits}" if dtype.exponent_bits else "–"
    is_number = dtype.kind in ("int", "uint", "float")
    smallest = number(dtype.smallest_normal) if dtype.kind == "float" else number(dtype.min_value) if is_number else "–"
    special = [word for word, present in (("inf", dtype.has_infinity), ("NaN", dtype.has_nan)) if present]
    cells = (
        f"`{dtype.name}`", dtype.kind, str(dtype.bits), bits, computed, number(dtype.max_value) if is_number else "–",
        smallest, ", ".join(special) or "–",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def names_row(dtype: DType) -> str:
    names = dtype.names
    texts = (f"`{dtype.numpy.name}`", *(f"`{name}`" if name else "–" for name in (names.mlir, names.ptx)))
    numbers = ("–" if code is None else str(code) for code in (names.dlpack, names.onnx))
    cells = (f"`{dtype.name}`", *texts, *numbers, f"`{names.safetensors}`" if names.safetensors else "–")
    return f"| {' | '.join(cells)} |"


def table(header: Sequence[str], rows: Iterable[str]) -> str:
    return "\n".join([f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}", *rows])


def dtypes_page() -> str:
    facts = ("dtype", "kind", "bits", "bits of exponent, mantissa", "computed with", "largest", "smallest", "special")
    others = ("dtype", "NumPy", "block IR", "PTX", "DLPack", "ONNX", "safetensors")
    parts = (
        NOTE, DTYPES_INTRO, table(facts, map(dtype_row, DTYPES.values())),
        NAMES_INTRO, table(others, map(names_row, DTYPES.values())),
    )  # fmt: skip
    return "\n\n".join(parts) + "\n"


def commands() -> dict[str, argparse.ArgumentParser]:
    """Returns the parsers of the commands by name."""
    (actions,) = [action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions.choices)


def spelled(action: argparse.Action) -> str:
    """Formats an argument as the user types it: `--rules RULES`, `--format {md,csv}`, `B [B ...]`."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    value = choices or str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return {"+": f"{value} [{value} ...]", "*": f"[{value} ...]", "?": f"[{value}]"}.get(str(action.nargs), value)
    return f"{action.option_strings[-1]} {value}" if action.nargs != 0 else action.option_strings[-1]


def argument_row(action: argparse.Action) -> str:
    meaning = (action.help or "–") % {**vars(action)}
    return f"| `{spelled(action)}` | {meaning.replace('|', chr(92) + '|')} |"


def commands_page() -> str:
    parts = [NOTE, COMMANDS_INTRO]
    for name, parser in commands().items():
        rows = [argument_row(action) for action in parser._actions if "--help" not in action.option_strings]
        parts += [f"## joinery {name}", str(parser.description)]
        if rows:
            parts.append(table(("argument", "meaning"), rows))
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "dtypes.md": dtypes_page,
    "commands.md": commands_page,
    "passes.md": partial(PASSES["passes_page"], NOTE),
}


def written(name: str) -> str | None:
    """Returns the text of a page's file; None if there is none."""
    path = DOCS / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    outdated = [name for name, page in PAGES.items() if written(name) != page()]
    for name in outdated:
        if not arguments:
            (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"docs/{name} is out of date; fix: make docs" if arguments else f"wrote docs/{name}")
    return int(bool(arguments and outdated))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
