"""Measures the cost of `numerics`: the same graphs compiled strict, fast and reproducible, timed in turn.

python benchmarks/numerics.py                  all cases
python benchmarks/numerics.py softmax matmul   some of them

Ratios are times over those of "strict", formed in each round. It needs nothing but joinery.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
from harness import Contender, Measurement, sample
from run import load_average, processor

RESULTS = Path(__file__).resolve().parent / "results"
NUMERICS = ("strict", "fast", "reproducible")


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def attention(q: Any, k: Any, v: Any) -> Any:
    return jn.softmax((q @ jn.permute(k, (0, 2, 1))) * 0.125, axis=-1) @ v


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sum of rows": (lambda x: jn.sum(x, axis=1), ((4096, 4096),)),
    "sum of columns": (lambda x: jn.sum(x, axis=0), ((4096, 4096),)),
    "softmax": (lambda x: jn.softmax(x, axis=1), ((4096, 4096),)),
    "softmax in cache": (lambda x: jn.softmax(x, axis=1), ((256, 1024),)),
    "layer_norm": (lambda x: jn.layer_norm(x), ((4096, 4096),)),
    "cumsum": (lambda x: jn.cumsum(x, axis=1), ((4096, 4096),)),
    "matmul": (lambda x, y: x @ y, ((1024, 1024), (1024, 1024))),
    "matrix and vector": (lambda x, y: x @ y, ((4096, 4096), (4096,))),
    "gelu(x @ w)": (lambda x, y: jn.gelu(x @ y), ((512, 768), (768, 3072))),
    "attention": (attention, ((12, 512, 64),) * 3),
    "exp": (lambda x: jn.exp(x), ((512, 1024),)),
}


def measure(name: str, seconds: float, threads: int) -> Measurement:
    build, shapes = CASES[name]
    graph = jn.Graph(name, [jn.TensorType(jn.float32, shape, name=f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(build(*graph.inputs))
    arrays = [random(*shape) for shape in shapes]
    models = {each: jn.compile(graph, "cpu", threads=threads, numerics=each) for each in NUMERICS}
    contenders = [Contender(each, "m(*arrays)", {"m": m, "arrays": arrays}, ours=True) for each, m in models.items()]
    return Measurement(name, "", sample(contenders, seconds), NUMERICS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="words that names of cases hold; all of them when none is given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="sampling time per case")
    parser.add_argument("--output", type=Path, help="result file (default: benchmarks/results/DATE-numerics.json)")
    options = parser.parse_args()
    chosen = [name for name in CASES if not options.cases or any(word in name for word in options.cases)]
    before, rows = load_average(), []
    print(f"{'':20} {'strict':>10}  {'fast':>22}  {'reproducible':>22}")
    for name in chosen:
        found = measure(name, options.seconds, options.threads)
        ratios = {each: found.ratio(each, "strict") for each in NUMERICS[1:]}
        shown = [f"{r.median:8.2f} ({r.lower_quartile:.2f}-{r.upper_quartile:.2f})" for r in ratios.values()]
        strict = 1000 * found.summary("strict").median
        print(f"{name:20} {strict:7.3f} ms  {'  '.join(f'{each:>22}' for each in shown)}", flush=True)
        rows.append(
            {
                "name": name,
                "seconds": {each: found.summary(each).median for each in NUMERICS},
                "over strict": {e: [r.median, r.lower_quartile, r.upper_quartile] for e, r in ratios.items()},
            }
        )
    date = datetime.datetime.now(datetime.UTC)
    output = options.output or RESULTS / f"{date:%Y-%m-%d-%H%M}-numerics.json"
    result = {
        "date": date.isoformat(timespec="seconds"), "threads": options.threads, "processor": processor(),
        "python": platform.python_version(), "load_average": {"before": before, "after": load_average()}, "cases": rows,
    }  # fmt: skip
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {output.name}")


if __name__ == "__main__":
    main()
