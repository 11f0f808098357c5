"""Times kernels in Triton-C beside the texts that Triton printed for the same algorithms, and the front end that reads them.

    make bench-triton-c                                     # everything, and a result file
    .venv/bin/python benchmarks/triton_c.py softmax read    # some cases; writes nothing without --output

Both are joinery: what is compared is what the front end made of the text. On the host they run in turns, as `harness.py` does
it, with one thread and with two; ratios are medians with their quartiles. For GPUs the instructions of the longest innermost
loop are counted. Promises of alignment are taken out of Triton's texts, since the examples in Triton-C make none.
`read`: processor time from text to verified block IR for 100 lines, of kernels with 18 tokens a line.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import Contender, ForeignLoad, Measurement, quartiles, report, sample
from peers import limit_threads, versions
from run import RESULTS, load_average, processor

HERE = Path(__file__).resolve().parent
TEXTS = HERE / "kernels"
SOURCES = HERE.parent / "tests" / "data"
OURS, THEIRS = "Triton-C", "TTIR"
TARGETS = ("sm_80", "sm_90a")
_DIVISIBILITY = re.compile(r" \{tt\.divisibility = 16 : i32\}")
_LABEL = re.compile(r"^(\$?\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$?\w+);")


class Pair(NamedTuple):
    """A kernel in Triton-C and a text in TTIR that do the same.

    Attributes:
        source: the file in Triton-C, below `tests/data`.
        text: the file in TTIR, in `benchmarks/kernels`.
        launch: grid, arguments of the one and of the other, the array that both write; None: code for GPUs alone is compared.
    """

    source: str
    defines: dict[str, object]
    text: str
    launch: Callable[[], tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...], np.ndarray]] | None


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def softmax() -> Any:
    x, y = random(1, 2048, 1000), np.zeros((2048, 1000), np.float32)
    return (2048,), (y, x, 1000, 1000, 1000), (x, y, 1000), y


def matmul() -> Any:
    n = 512
    a, b, c = random(2, n, n), random(3, n, n), np.zeros((n, n), np.float32)
    return (n // 128, n // 128), (c, a, b, *(n,) * 6), (a, b, c, *(n,) * 6), c


def layer_norm() -> Any:
    n = 1024
    x, w, b, y = random(4, n, n), random(5, n), random(6, n), np.zeros((n, n), np.float32)
    arguments = y, x, w, b, n, 1e-5
    return (n,), arguments, arguments, y


def attention() -> Any:
    q, k, v = (random(seed, 4, 1024, 64) for seed in (7, 8, 9))
    out = np.zeros_like(q)
    arguments = q, k, v, out, 1024, 1 / math.sqrt(64), 1024 * 64, 64
    return (16, 4), arguments, arguments, out


_E4, _FLASH = "triton_c/e4_product.tc", "triton_c_kernels/flash_attention.tc"
_TILES: dict[str, object] = {"TM": 128, "TN": 128, "ACT": 0}
_HEADS: dict[str, object] = {"TM": 64, "TN": 64, "TD": 64, "CAUSAL": 0}
PAIRS: dict[str, Pair] = {
    "softmax": Pair("triton_c/e2_row_softmax.tc", {"BS": 4096}, "softmax", softmax),
    "matmul": Pair(_E4, {"TYPE": "float", "TK": 32, **_TILES}, "matmul_masked", matmul),
    "matmul-half": Pair(_E4, {"TYPE": "half", "TK": 64, **_TILES}, "gpu_matmul_f16", None),
    "layer-norm": Pair("triton_c/e6_layer_norm.tc", {"BS": 1024}, "layer_norm_passes", layer_norm),
    "attention": Pair(_FLASH, {"TYPE": "float", **_HEADS}, "attention", attention),
    "attention-half": Pair(_FLASH, {"TYPE": "half", **_HEADS}, "gpu_attention_f16", None),
}


def kernels(pair: Pair) -> tuple[Any, Any]:
    import joinery as jn

    text = _DIVISIBILITY.sub("", (TEXTS / f"{pair.text}.ttir").read_text())
    return jn.kernel.from_triton_c(SOURCES / pair.source, pair.defines), jn.kernel.from_ttir(text)


def on_the_host(name: str, pair: Pair, threads: int, seconds: float) -> Measurement:
    """Run both in turns, with the same values, which must give the same."""
    assert pair.launch is not None
    ours, theirs = kernels(pair)
    grid, own_arguments, other_arguments, out = pair.launch()

    def launcher(kernel: Any, arguments: tuple[Any, ...]) -> Callable[[], None]:
        return lambda: kernel.launch(grid, *arguments, threads=threads)

    runs = {OURS: launcher(ours, own_arguments), THEIRS: launcher(theirs, other_arguments)}
    found = []
    for run in runs.values():
        out.fill(0)
        run()
        found.append(out.copy())
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)
    contenders = [Contender(each, "run()", {"run": run}, ours=each == OURS) for each, run in runs.items()]
    return Measurement(f"{name}, threads: {threads}", "", sample(contenders, seconds), (OURS,))


def main_loop(ptx: str) -> int:
    """Return how many instructions the longest innermost loop has; 0 without a loop."""
    lines = ptx.splitlines()
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label[1]] = number
        if (branch := _BRANCH.search(line)) and branch[1] in labels:
            loops.append((labels[branch[1]], number))
    innermost = [(a, b) for a, b in loops if not any(a <= c and d <= b for c, d in loops if (c, d) != (a, b))]
    return max((sum(";" in line for line in lines[a : b + 1]) for a, b in innermost), default=0)


def on_gpus(name: str, pair: Pair) -> dict[str, Any]:
    """Return the instructions of both main loops, by target."""
    ours, theirs = kernels(pair)
    found = {target: (main_loop(ours.ptx(target)), main_loop(theirs.ptx(target))) for target in TARGETS}
    for target, (own, other) in found.items():
        print(f"{name}, main loop on {target}: {own} instructions, TTIR {other}")
    return {target: {OURS: own, THEIRS: other} for target, (own, other) in found.items()}


def dense_texts() -> dict[str, tuple[str, dict[str, str]]]:
    """Return texts with their macros: the product of E4 six times over in one kernel, and attention four times."""
    found = {}
    for name, times, file, defines in (
        ("products", 6, _E4, {"TYPE": "half", "TM": "64", "TN": "64", "TK": "32", "ACT": "1"}),
        ("attention", 4, _FLASH, {"TYPE": "half", "TM": "64", "TN": "64", "TD": "64", "CAUSAL": "1"}),
    ):
        match = re.search(r"(.*?\) \{\n)(.*)\}\n", (SOURCES / file).read_text(encoding="utf-8"), re.DOTALL)
        assert match is not None
        found[name] = match[1] + f"{{\n{match[2]}}}\n" * times + "}\n", defines
    return found


def reading(rounds: int) -> dict[str, Any]:
    """Time the front end on each text in turns, in processor time; return quartiles in seconds for 100 lines."""
    from joinery.interface.texts import TritonCText

    texts = dense_texts()
    values = {name: TritonCText(text, "<text>", tuple(d.items()), None, (), False, True) for name, (text, d) in texts.items()}
    taken: dict[str, list[float]] = {name: [] for name in texts}
    for turn in range(rounds + 2):
        for name, value in values.items():
            start = time.process_time()
            value.module()
            if turn >= 2:  # behind the first, nothing loads and no table is made
                taken[name].append((time.process_time() - start) * 100 / texts[name][0].count("\n"))
    found = {}
    for name, samples in taken.items():
        low, middle, high = quartiles(samples)
        spread = f"({low * 1e3:.1f}–{high * 1e3:.1f}), least {min(samples) * 1e3:.1f}"
        print(f"read, {name}: {middle * 1e3:.1f} ms for 100 lines {spread}")
        found[name] = {"median_s": middle, "quartiles_s": [low, high], "minimum_s": min(samples), "samples": len(samples)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"{', '.join([*PAIRS, 'read'])}; all of them by default")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each case on the host (default: 6)")
    parser.add_argument("--rounds", type=int, default=40, help="of reading (default: 40)")
    parser.add_argument("--output", type=Path, help="result file (of all cases: benchmarks/results/DATE-triton-c.json)")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - {*PAIRS, "read"})
    if unknown:
        raise SystemExit(f"no such case: {', '.join(unknown)}; there are: {', '.join([*PAIRS, 'read'])}")
    limit_threads(2)
    started, load = load_average(), ForeignLoad()
    chosen = options.names or [*PAIRS, "read"]
    cases, loops = [], {}
    for name in (name for name in PAIRS if name in chosen):
        if PAIRS[name].launch is not None:
            for threads in (1, 2):
                measurement = on_the_host(name, PAIRS[name], threads, options.seconds)
                print(report(measurement), flush=True)
                cases.append(measurement.as_dict())
        loops[name] = on_gpus(name, PAIRS[name])
    read = reading(options.rounds) if "read" in chosen else {}
    date = datetime.datetime.now(datetime.UTC)
    output = options.output or (None if options.names else RESULTS / f"{date:%Y-%m-%d-%H%M}-triton-c.json")
    if output is not None:
        content = {
            "date": date.isoformat(timespec="seconds"), "processor": processor(), "versions": versions(),
            "load_average": {"before": started, "after": load_average()}, "foreign_load": load.processors(),
            "cases": cases, "main_loops": loops, "seconds_for_100_lines": read,
        }  # fmt: skip
        output.write_text(json.dumps(content, indent=1) + "\n")
        print(f"written to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
