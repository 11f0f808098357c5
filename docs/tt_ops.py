"""Writes docs/tt_ops.md: the operations that a block kernel may use, and what was found to work for each.

python docs/tt_ops.py                  writes the page
python docs/tt_ops.py --conformance    runs the texts of tests/data/ttir and prints operation → cases passed

Every cell is computed: the example of the operation (`tt_examples.py`) is parsed, made invalid, printed, interpreted and
launched.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import joinery as jn
import ml_dtypes
import numpy as np
from joinery.lowering.frontends.ttir.line_reader import read_lines
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.dialect.context import context
from joinery.lowering.tt.dialect_versions import NEW_NAMES
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.types import I8, ptr, tensor
from joinery.lowering.tt.verify import first_problem
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.ub import PoisonOp

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "tt_ops.md"
CORPUS = DOCS.parent / "tests" / "data" / "ttir"
NOTE = "<!-- Written by docs/tt_ops.py (make docs) from the code. Do not edit. -->"
WRONG = tensor(ptr(I8), (4, 2))
OUT = 512
DTYPES = {
    "i1": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def load_file(name: str, path: Path) -> ModuleType:
    """Loads a file that is not part of a package as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

examples = sys.modules.get("tt_examples") or load_file("tt_examples", DOCS / "tt_examples.py")


class Row(NamedTuple):
    """The results for an operation; empty texts are successes, others say what went wrong."""

    name: str
    parse: str
    refused: tuple[int, int]
    print: str
    interpret: str
    host: str
    nvptx: str
    line: str


def operations() -> list[str]:
    """Returns the names of all operations that text may use, sorted by dialect."""
    # gpu.barrier is an older spelling of ttg.barrier, and is not in any module that was read; tt.sort_lines is of graphs
    order = ("tt", "ttg", "ttng", "arith", "math", "scf", "cf", "ub", "llvm")
    known = {operation.name for operation in context().loaded_ops} - {operation.name for operation in Builtin.operations}
    known -= {"gpu.barrier", "tt.sort_lines"}
    return sorted(known, key=lambda name: (order.index(name.split(".")[0]), name))


def attempt(check: Callable[[], object]) -> str:
    """Returns the empty text, or the first line that says what went wrong."""
    try:
        check()
    except (jn.UserError, jn.UnsupportedError, AssertionError) as error:
        return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return ""


def arguments(result: str) -> list[Any]:
    """Returns arrays of small values; the last one takes the result."""
    x, a = np.linspace(0.05, 0.95, 64, dtype=np.float32), np.arange(64, dtype=np.int32) % 7
    found = [x, x[::-1].copy(), a, 1 + a[::-1] % 5, np.zeros(256, np.int8), 1]
    return found + ([np.full(OUT, 77).astype(DTYPES[examples.element(result)[0]])] if result else [])


def run(launch: Callable[..., object], example: Any) -> list[np.ndarray[Any, Any]]:
    """Returns the arrays after a launch; several programs run where the example reads its program id or their
    number."""
    own = arguments(example.result)
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        launch((2, 3) if "tt.get_" in example.text else 1, *own)
    return [arg for place, arg in enumerate(own) if isinstance(arg, np.ndarray) and place != 4]  # 4: opaque maps


def refusals(name: str, text: str) -> tuple[int, int]:
    """Gives operands, results and arguments of regions a wrong type, one at a time; returns (refused, tried)."""
    module = parse(text)
    op = max((op for op in module.walk() if op.name == name), key=lambda op: len(op.operands))
    entry = next(f for f in module.walk() if f.name == "tt.func" and f.is_ancestor(op)).regions[0].blocks[0]
    poison = PoisonOp.create(result_types=[WRONG])
    assert entry.ops.first is not None
    entry.insert_op_before(poison, entry.ops.first)
    outcomes = []

    def judge() -> None:
        found = first_problem(module)
        outcomes.append(found is not None and found[1] in (op, op.parent_op()))

    for index, operand in enumerate(list(op.operands)):
        op.operands[index] = poison.results[0]
        judge()
        op.operands[index] = operand
    for value in [*op.results, *(arg for region in op.regions for arg in region.blocks[0].args)]:
        kept, value._type = value.type, WRONG
        judge()
        value._type = kept
    assert first_problem(module) is None
    return sum(outcomes), len(outcomes)


def row(name: str, example: Any) -> Row:
    text = examples.module(example)
    places = [line.strip() for line in f"{example.text}\n{text}".splitlines()]
    line = next(line for line in places if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", line))
    modern = NEW_NAMES.get(name, name)
    problem = attempt(lambda: parse(text))
    if problem:
        return Row(name, problem, (0, 0), "", "", "", "", line)
    kernel = jn.kernel.from_ttir(text, "example")

    def both() -> None:
        fast = read_lines(text)
        assert fast is None or print_module(fast) == kernel.ttir, "the two readers differ"
        assert any(op.name == modern for op in parse(text).walk()), f"{modern} is not what was read"

    def printed() -> None:
        assert print_module(parse(kernel.ttir)) == kernel.ttir, "the printed text reads otherwise"
        older = kernel.text("seed")
        assert print_module(parse(older)) == kernel.ttir, "the text in the older spelling reads otherwise"
        assert modern == name or name in older, "is not printed in its older spelling"

    start = run(lambda *_: None, example)
    seen: list[list[np.ndarray[Any, Any]]] = []

    def interpreted() -> None:
        seen.append(run(kernel.interpret, example))
        assert any(not np.array_equal(a, b) for a, b in zip(seen[0], start, strict=True)), "nothing was written"

    def launched() -> None:
        for threads in (1, 2):
            found = run(lambda *args, n=threads: kernel.launch(*args, threads=n), example)
            for one, two in zip(found, seen[0], strict=True):
                np.testing.assert_allclose(one.astype(np.float64), two.astype(np.float64), rtol=1e-6, atol=0)

    def simulated() -> None:
        for target in ("sm_80", "sm_90a"):
            found = run(lambda *args, t=target: kernel.launch(*args, device="ptxsim", target=t, sanitize=True), example)
            for one, two in zip(found, seen[0], strict=True):
                np.testing.assert_allclose(one.astype(np.float64), two.astype(np.float64), rtol=1e-6, atol=0)

    nothing = "no interpretation to compare with"
    interpretation = attempt(interpreted)
    host, gpu = (attempt(way) if seen else nothing for way in (launched, simulated))
    return Row(name, attempt(both), refusals(modern, text), attempt(printed), interpretation, host, gpu, line)


# The corpus


def corpus() -> dict[str, list[tuple[int, str]]]:
    """Returns, by operation, the (lines, name) of the cases whose text has it, the shortest first."""
    found: dict[str, list[tuple[int, str]]] = {}
    known = {*operations(), *NEW_NAMES}
    for path in sorted(CORPUS.glob("*/kernel.ttir")):
        text = path.read_text(encoding="utf-8")
        for name in set(re.findall(r"(?<![\w.%#!@])((?:tt|ttg|ttng|arith|math|scf|cf|ub|llvm)(?:\.[a-z]\w*)+)", text)):
            if name in known:
                found.setdefault(name, []).append((len(text.splitlines()), path.parent.name))
    return {name: sorted(cases) for name, cases in found.items()}


# The page


def mark(problem: str) -> str:
    return "no" if problem else "yes"


def proof(name: str, cases: dict[str, list[tuple[int, str]]]) -> str:
    found = cases.get(name, [])
    if not found:
        return "[example](tt_examples.py)"
    case = found[0][1]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"[{case}](../tests/data/ttir/{case}/kernel.ttir){more}"


def cells(found: Row, cases: dict[str, list[tuple[int, str]]]) -> list[str]:
    refused, tried = found.refused
    verify = f"{refused} of {tried}" if tried else "–"
    line = found.line.replace("|", "\\|")
    line = f"`{line if len(line) <= 100 else line[:99] + '…'}`"
    if found.parse:
        return [f"`{found.name}`", "no", "–", "–", "–", "–", "–", line, "–"]
    states = [mark(found.parse), verify, mark(found.print), mark(found.interpret), mark(found.host), mark(found.nvptx)]
    return [f"`{found.name}`", *states, line, proof(found.name, cases)]


INTRO = """# Operations of block kernels

What a text may use, and what works. Every cell was computed when this page was written: the [example](tt_examples.py) of each
operation, in part shown here, was

* **parse**: read by the parser (and by the fast reader where that takes the text);
* **verify**: given a wrong type for each operand, result and argument of a region, one at a time: how many were refused
  (`tt.print` takes values of any type, and any type may be undefined);
* **print**: printed in both spellings and read again, with the same result;
* **interpret**: run by the NumPy interpreter, after which memory had changed;
* **host**: launched natively on one and on two threads, with the interpreter's result;
* **NVPTX**: lowered to PTX for sm_80 and sm_90a, which the simulator ran, checking every access, with the interpreter's result.

The last column names a text of the conformance corpus that uses the operation; `make tt-ops` runs it on the interpreter, on
the host and on a simulated GPU, and compares memory with what was recorded."""
COLUMNS = ("operation", "parse", "verify", "print", "interpret", "host", "NVPTX", "for example", "seen in")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(each)} |" for each in (header, ["---"] * len(header), *rows)]


def rows() -> tuple[list[Row], list[Row]]:
    """Returns the rows of operations that have an example, under their current and under their older names."""
    known = [name for name in operations() if name in examples.EXAMPLES]
    return [row(name, examples.EXAMPLES[name]) for name in known], [row(n, e) for n, e in examples.OLDER.items()]


def page() -> str:
    current, older = rows()
    cases = corpus()
    lines = [NOTE, "", INTRO, ""]
    titles = {
        "tt": "tt", "ttg": "ttg, ttng", "ttng": "ttg, ttng", "arith": "arith", "math": "math", "scf": "scf, cf, ub, llvm",
        "cf": "scf, cf, ub, llvm", "ub": "scf, cf, ub, llvm", "llvm": "scf, cf, ub, llvm",
    }  # fmt: skip
    sections: dict[str, list[Row]] = {}
    for each in current:
        sections.setdefault(titles[each.name.split(".")[0]], []).append(each)
    for title, members in sections.items():
        lines += [f"## {title}", "", *table(COLUMNS, [cells(each, cases) for each in members]), ""]
    lines += ["## Older names", "", "What Triton 3.3 calls otherwise: read, and printed with `spelling=\"seed\"`.", ""]
    listed = [[*each[:1], f"`{NEW_NAMES[found.name]}`", *each[1:]] for found in older for each in [cells(found, cases)]]
    lines += [*table((COLUMNS[0], "now", *COLUMNS[1:]), listed), ""]
    failing = [
        [f"`{each.name}`", what, problem.replace("|", "\\|")]
        for each in (*current, *older)
        for what, problem in (
            ("parse", each.parse), ("print", each.print), ("interpret", each.interpret), ("host", each.host),
            ("NVPTX", each.nvptx),
        )
        if problem
    ]
    if failing:
        lines += ["## Refused", "", "What is not there is refused by name:", ""]
        lines += [*table(("operation", "by", "because"), failing), ""]
    without = sorted(set(operations()) - set(examples.EXAMPLES))
    if without:
        names = ", ".join(f"`{name}`" for name in without)
        lines += [f"Defined by xDSL in these dialects, without a use in block kernels and without an example: {names}.", ""]
    return "\n".join(lines)


# The corpus, run


def outcomes() -> dict[str, dict[str, str]]:
    """Returns, by case of the corpus and way of running it, what went wrong (empty: nothing)."""
    ttir = load_file("conformance_corpus", DOCS.parent / "tests" / "support" / "corpus.py")
    ways = {
        "interpreter": lambda kernel, grid, own: kernel.interpret(grid, *own),
        "host, 1 thread": lambda kernel, grid, own: kernel.launch(grid, *own, threads=1),
        "host, 2 threads": lambda kernel, grid, own: kernel.launch(grid, *own, threads=2),
        "sm_80": lambda kernel, grid, own: kernel.launch(grid, *own, device="ptxsim", target="sm_80"),
    }
    found: dict[str, dict[str, str]] = {}
    for name in ttir.CASES:
        if ttir.Case(name).facts.get("parse_only"):
            continue  # there is no memory to compare
        with contextlib.redirect_stdout(io.StringIO()):
            found[name] = {way: attempt(partial(ttir.run, name, launch, way[:2] == "sm")) for way, launch in ways.items()}
    return found


def conformance() -> int:
    """Prints for each operation the cases that passed, then the failures. Returns the exit status."""
    found, cases = outcomes(), corpus()
    ways = list(next(iter(found.values())))
    width = max(map(len, cases))
    print(f"{'operation':{width}}  cases  " + "  ".join(ways))
    for name in sorted(cases):
        members = [case for _, case in cases[name] if case in found]
        if not members:
            continue
        passed = ["passed".rjust(len(way)) if all(not found[c][way] for c in members) else
                  f"{sum(not found[c][way] for c in members)} of {len(members)}".rjust(len(way)) for way in ways]  # fmt: skip
        print(f"{name:{width}}  {len(members):5}  " + "  ".join(passed))
    failures = [(case, way, problem) for case, by in found.items() for way, problem in by.items() if problem]
    for case, way, problem in failures:
        print(f"{case}, {way}: {problem}")
    print(f"{len(found)} cases, {len(ways)} ways, {len(failures)} failures")
    return bool(failures)


def main(argv: Sequence[str]) -> int:
    if argv == ["--conformance"]:
        return conformance()
    if argv:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
