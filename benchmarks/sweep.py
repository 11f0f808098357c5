"""Measures operators whose time is memory traffic over shapes, axes and dtypes, as shares of the limit, and draws a heat map.

python benchmarks/sweep.py                          # all operators
python benchmarks/sweep.py permute cumsum --bytes 16777216

Rows of the map are operators, columns are dtypes; a cell is the time of moving the same bytes past the caches over
joinery's time, both measured in turns: 1.0 is the limit. Bytes are those that any implementation must move: inputs read once,
results written once. Each result is compared with NumPy's before it is timed. `--peers` adds NumPy's time, as a ratio.
"""

from __future__ import annotations

import argparse
import datetime
import html
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import LIMIT, Measurement, sample
from machine import traffic_task
from peers import call, limit_threads, versions
from report import STYLE

ROOT = Path(__file__).resolve().parents[1]
DTYPES = ("uint8", "int16", "float16", "int32", "float32", "int64", "float64")
SOUGHT = 0.95
Build = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """An operator on one shape.

    Attributes:
        name: what the map shows.
        shape: extents; one of them is None and takes what fills the wanted bytes.
        ours: of the module joinery and the inputs.
        witness: the same of NumPy's arrays.
        inputs: how many arrays of this shape it takes.
        indices: the extent of an axis that a further input, an int64 vector, counts into.
        dtypes: for which it has a meaning.
        only_reads: whether the result is so small that reading is the limit.
    """

    name: str
    shape: tuple[int | None, ...]
    ours: Build
    witness: Build
    inputs: int = 1
    indices: int = 0
    dtypes: Sequence[str] = DTYPES
    only_reads: bool = False


def permuted(*order: int) -> tuple[Build, Build]:
    return (lambda jn, x: jn.permute(x, order), lambda x: np.ascontiguousarray(x.transpose(order)))


def reduced(name: str, axis: Any) -> tuple[Build, Build]:
    return (lambda jn, x: getattr(jn, name)(x, axis=axis), lambda x: getattr(np, name)(x, axis=axis))


FLOATS = ("float16", "float32", "float64")
ROWS: tuple[Row, ...] = (
    *(Row(f"permute {order} of {shape}", shape, *permuted(*order)) for order, shape in (
        ((1, 0), (None, 4096)), ((1, 0), (None, 1000)), ((1, 0), (None, 3)), ((1, 0), (3, None)),
        ((0, 2, 1), (None, 64, 64)), ((0, 2, 1), (None, 197, 12)), ((1, 0, 2), (128, None, 64)), ((2, 1, 0), (64, None, 96)),
        ((0, 2, 1, 3), (8, None, 12, 64)), ((0, 3, 1, 2), (None, 56, 56, 64)), ((0, 3, 1, 2), (None, 224, 224, 3)),
        ((0, 2, 3, 1), (None, 3, 224, 224)), ((0, 2, 3, 1), (None, 64, 56, 56)), ((3, 2, 1, 0), (16, 32, None, 16)),
    )),
    Row("concat axis 0", (None, 1024), lambda jn, x, y: jn.concat([x, y], axis=0), lambda x, y: np.concatenate([x, y]), 2),
    Row("concat axis 1", (None, 96), lambda jn, x, y: jn.concat([x, y], axis=1), lambda x, y: np.concatenate([x, y], 1), 2),
    Row("interleave", (None, 512), lambda jn, x, y: jn.stack([x, y], axis=-1), lambda x, y: np.stack([x, y], -1), 2),
    Row("flip axis 1", (None, 1024), lambda jn, x: x[:, ::-1], lambda x: np.ascontiguousarray(x[:, ::-1])),
    Row("flip axis 0", (None, 1024), lambda jn, x: x[::-1], lambda x: np.ascontiguousarray(x[::-1])),
    Row("pad both axes", (None, 1000), lambda jn, x: jn.pad(x, [1, 1, 2, 2]), lambda x: np.pad(x, ((1, 1), (2, 2)))),
    Row("repeat rows", (None, 256), lambda jn, x: jn.tile(x, [1, 2]), lambda x: np.tile(x, (1, 2))),
    Row("gather rows of 64", (None, 64), lambda jn, x, i: jn.gather(x, i, axis=0), lambda x, i: x[i], indices=1 << 15),
    Row("gather rows of 1024", (None, 1024), lambda jn, x, i: jn.gather(x, i, axis=0), lambda x, i: x[i], indices=1 << 11),
    Row("x + 1", (None, 1024), lambda jn, x: x + 1, lambda x: x + x.dtype.type(1)),
    Row("x.T + y", (2048, None), lambda jn, x, y: x + y, lambda x, y: x + y, 2),
    Row("to float32", (None, 1024), lambda jn, x: jn.cast(x, jn.float32), lambda x: x.astype(np.float32)),
    Row("to float64", (None, 1024), lambda jn, x: jn.cast(x, jn.float64), lambda x: x.astype(np.float64)),
    Row("chain over a view", (None, 1024), lambda jn, x: jn.abs(x[:, ::-1]) * 2 + x,
        lambda x: np.abs(x[:, ::-1]) * x.dtype.type(2) + x,
        dtypes=("int16", "float16", "int32", "float32", "int64", "float64")),
    *(Row(f"{name} axis {axis} of {shape}", shape, *reduced(name, axis), only_reads=True)
      for name in ("max", "argmax") for axis, shape in (
        (1, (None, 4096)), (1, (None, 100)), (0, (None, 4096)), (0, (None, 64)), ((0, 2) if name == "max" else 1, (None,
        32, 784)),
    )),
    *(Row(f"sum axis {axis} of {shape}", shape, *reduced("sum", axis), only_reads=True,
          dtypes=("int32", "float32", "int64", "float64"))
      for axis, shape in ((1, (None, 4096)), (1, (None, 100)), (0, (None, 4096)), (0, (None, 64)), ((0, 2), (None, 32, 784)))),
    *(Row(f"cumsum axis {axis} of {shape}", shape, lambda jn, x, axis=axis: jn.cumsum(x, axis=axis),
          lambda x, axis=axis: np.cumsum(x, axis=axis, dtype=x.dtype), dtypes=("int32", "float32", "int64", "float64"))
      for axis, shape in ((1, (None, 4096)), (1, (None, 100)), (0, (None, 1024)))),
    Row("softmax of 1024", (None, 1024), lambda jn, x: jn.softmax(x, axis=-1),
        lambda x: (lambda e: e / e.sum(1, keepdims=True))(np.exp(x - x.max(1, keepdims=True))), dtypes=("float32",)),
)  # fmt: skip


def arrays_of(row: Row, dtype: str, nbytes: int) -> list[np.ndarray]:
    """Return inputs of about `nbytes` bytes together."""
    random = np.random.default_rng(0)
    known = np.prod([extent for extent in row.shape if extent is not None], dtype=np.int64)
    free = max(1, int(nbytes // (row.inputs * known * np.dtype(dtype).itemsize)))
    shape = tuple(free if extent is None else extent for extent in row.shape)
    whole = np.dtype(dtype).kind in "iu"
    arrays = []
    for _ in range(row.inputs):
        values = random.integers(0, 100, shape) if whole else random.standard_normal(shape, dtype=np.float32)
        arrays.append(values.astype(dtype))
    if row.name == "x.T + y":
        arrays[0] = np.ascontiguousarray(arrays[0].T).T
    if row.indices:
        arrays.append(random.permutation(shape[0])[: row.indices].astype(np.int64))
    return arrays


def compiled(row: Row, arrays: Sequence[np.ndarray], threads: int) -> Any:
    """Return the operator compiled for these arrays; an array in Fortran's order comes in as the transposed view of its
    memory."""
    import joinery as jn

    turned = [not array.flags.c_contiguous for array in arrays]
    types = [
        jn.TensorType(
            jn.DType(str(array.dtype)), array.shape[::-1] if turn else array.shape, name=f"a{index}"
        )
        for index, (array, turn) in enumerate(zip(arrays, turned, strict=True))
    ]
    graph = jn.Graph("sweep", inputs=types)
    values = [
        jn.permute(value, [1, 0]) if turn else value for value, turn in zip(graph.inputs, turned, strict=True)
    ]
    graph.output(row.ours(jn, *values))
    model = jn.compile(graph, device="cpu", threads=threads)
    stored = [array.T if turn else array for array, turn in zip(arrays, turned, strict=True)]
    return lambda: model(*stored)


def measured(row: Row, dtype: str, options: argparse.Namespace) -> Measurement:
    """Return the measurement of a cell."""
    arrays = arrays_of(row, dtype, options.bytes)
    run, wanted = compiled(row, arrays, options.threads), np.asarray(row.witness(*arrays))
    got = np.asarray(run())
    exact = np.dtype(dtype).kind in "iu" or row.name.startswith(
        ("permute", "concat", "max", "argmax", "gather", "flip")
    )
    tolerance = 0.0 if exact else {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}[dtype]
    np.testing.assert_allclose(
        got.astype(wanted.dtype), wanted, rtol=tolerance, atol=tolerance * 100, err_msg=f"{row.name}, {dtype}"
    )
    read = sum(array.nbytes for array in arrays) if not row.indices else wanted.nbytes + arrays[-1].nbytes
    moved = read + got.nbytes
    contenders = [call("joinery", run, (), ours=True)]
    if options.peers:
        contenders.append(call("numpy", row.witness, arrays, spins=True))
    limit = traffic_task(moved, options.threads, row.only_reads)
    clock = time.process_time if options.processor_time else time.perf_counter
    samples = sample(contenders, options.seconds, options.rounds, limit, clock)
    return Measurement(f"{row.name}, {dtype}", f"{moved / 1e6:.0f} MB", samples, ("joinery",))


def heat(share: float) -> str:
    """Return the colour of a share: red at 0.3, yellow at 0.65, green at 1."""
    hue = 120 * min(max((share - 0.3) / 0.7, 0.0), 1.0)
    return f"hsl({hue:.0f} 62% 78%)"


def page(cells: dict[tuple[str, str], float], title: str) -> str:
    """Return the heat map in HTML."""
    columns = [dtype for dtype in DTYPES if any(one == dtype for _, one in cells)]
    names = list(dict.fromkeys(name for name, _ in cells))
    lines = ["<tr><th></th>" + "".join(f"<th>{dtype}</th>" for dtype in columns) + "</tr>"]
    for name in names:
        shown = []
        for dtype in columns:
            share = cells.get((name, dtype))
            shown.append(
                "<td></td>"
                if share is None
                else f'<td class="n" style="background:{heat(share)}">{share:.2f}</td>'
            )
        lines.append(f"<tr><td>{html.escape(name)}</td>{''.join(shown)}</tr>")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = f"<h1>{title}</h1><table>{''.join(lines)}</table>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="operators, or the beginnings of their names; all of them by default"
    )
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument(
        "--bytes", type=int, default=64 << 20, help="of the inputs together (default: 64 MiB)"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads for everybody (default: 2)")
    parser.add_argument("--seconds", type=float, default=0.7, help="of each cell")
    parser.add_argument("--rounds", type=int, default=5, help="the least number of rounds of each cell")
    parser.add_argument("--peers", action="store_true", help="NumPy too")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="processor time of joinery, for busy machines; needs --threads 1",
    )
    parser.add_argument(
        "--output", type=Path, help="result file (default: benchmarks/results/DATE-sweep.json)"
    )
    options = parser.parse_args()
    if options.processor_time and options.threads != 1:
        parser.error("--processor-time is that of all threads: give --threads 1")
    limit_threads(options.threads)
    cells: dict[tuple[str, str], float] = {}
    cases = []
    for row in ROWS:
        if options.names and not row.name.startswith(tuple(options.names)):
            continue
        for dtype in (each for each in row.dtypes if each in options.dtypes):
            measurement = measured(row, dtype, options)
            ratio = measurement.ratio("joinery", LIMIT)
            cells[row.name, dtype] = 1 / ratio.median
            beside = (
                f"  {measurement.ratio('joinery', 'numpy').median:6.2f} of NumPy" if options.peers else ""
            )
            print(f"{row.name:<44s} {dtype:<8s} {1 / ratio.median:5.2f} of the limit{beside}", flush=True)
            cases.append(measurement.as_dict())
    cold = sum(share < SOUGHT for share in cells.values())
    print(f"{len(cells) - cold} of {len(cells)} cells reach {SOUGHT:.0%} of the limit")
    date = datetime.datetime.now(datetime.UTC)
    output = (
        options.output or Path(__file__).resolve().parent / "results" / f"{date:%Y-%m-%d-%H%M}-sweep.json"
    )
    content = {
        "date": date.isoformat(timespec="seconds"),
        "threads": options.threads,
        "versions": versions(),
        "cases": cases,
    }
    output.write_text(json.dumps(content, indent=1) + "\n")
    drawn = ROOT / "out" / "bench" / f"{output.stem}.html"
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_text(page(cells, f"Shares of the memory limit, {date:%Y-%m-%d}"))
    print(f"written to {output} and {drawn}")


if __name__ == "__main__":
    main()
