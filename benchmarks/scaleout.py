"""Measures what a model costs over many blocks on Dask and Ray: joinery beside onnxruntime, which a user would put there today.

    make bench-scale BENCH_ARGS="--sentences 2000 --engines process dask"

Each contender runs in a fresh process: it opens all-MiniLM-L6-v2, computes a few blocks, and then the sentences, of 7 to 17
tokens, in blocks of 256: joinery by the driver of `joinery.distributed`, on Dask with the cluster of `joinery batch --workers`;
onnxruntime by what the engine's pages say: `as_completed(client.map(…))` on a `LocalCluster` of Dask, and `ray.wait` on Ray.
Rates are per second of processor time of all its processes, engine included, since a shared machine's clock says little; beside
each stands its share of one process's around the same runtime, and of as many processes' as there are workers, which run at
once without an engine: what cores share costs them, too, and is no engine's doing.
Further figures: the memory of a worker beside another one (PSS), and what it alone has, which is what a second worker adds to
the first; how long a block of a millisecond takes beside the engine's own tasks, by turns; and a simulation (which is said with
it) of up to 64 workers from measured costs of tasks.
"""

from __future__ import annotations

import argparse
import functools
import heapq
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BLOCK, WORKERS, ROUNDS = 256, 2, 5
ENGINES, RUNTIMES = ("process", "processes", "dask", "ray"), ("joinery", "onnxruntime")
Inputs = dict[str, np.ndarray]


def blocks(sentences: int) -> Iterator[Inputs]:
    """Token ids and masks, padded to the longest sentence of each block."""
    rng = np.random.default_rng(0)
    for at in range(0, sentences, BLOCK):
        lengths = np.sort(rng.integers(7, 18, min(BLOCK, sentences - at)))
        mask = (np.arange(lengths[-1]) < lengths[:, None]).astype(np.int64)
        yield {"input_ids": rng.integers(1000, 30_000, mask.shape) * mask, "attention_mask": mask}


# --- what runs a block, in whatever process that happens


def with_onnxruntime(path: str, block: Inputs) -> np.ndarray:
    """One block, by a session that each process opens once: these functions arrive by value, their globals with each task."""
    import onnxruntime

    sessions = vars(sys.modules["__main__"]).setdefault("_sessions", {})
    if path not in sessions:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        sessions[path] = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return sessions[path].run(None, block)[0]


def with_joinery(reference: Any, block: Inputs) -> np.ndarray:
    """One block, by a reference."""
    return reference()(**block)


def busy(seconds: float) -> int:
    """Keep a core busy; return the process."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return os.getpid()


# --- processes


def processes() -> list[int]:
    """This process and all below it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Processor time of processes, of those that have ended below them too."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int, *kinds: str) -> float:
    """Memory of a process: "Pss" (pages that others map too count in parts), or "Private_Clean" and "Private_Dirty"."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in kinds) / 1024


# --- one contender, in a process of its own


def measured(engine: str, runtime: str, folder: Path, sentences: int) -> dict[str, Any]:
    """Return the rates of one engine around one runtime."""
    import joinery as jn
    from joinery.interface.distributed.driving import Driver, Task
    from joinery.interface.distributed.engines import InProcess, OnDask, OnRay

    began = cpu_seconds([os.getpid()])
    function = with_joinery if runtime == "joinery" else with_onnxruntime
    model: Any = str(folder / "minilm.onnx")
    if runtime == "joinery":
        model = jn.distributed.reference(folder / "minilm.joinery", trusted=True, threads=1)
    runner: Any
    plain: Callable[[Iterable[Inputs]], Iterable[Any]] | None = None
    own: Any = None
    if engine == "dask":
        from distributed import Client, LocalCluster, as_completed
        from joinery.interface.distributed.dask_clusters import local_cluster

        def plain(given: Iterable[Inputs]) -> Iterable[Any]:
            futures = client.map(functools.partial(function, model), list(given), pure=False)
            return (found for _, found in as_completed(futures, with_results=True))

        def own(count: int) -> None:
            begun = iter(range(count))
            first = [client.submit(busy, 0.001, pure=False) for _ in itertools.islice(begun, 2 * WORKERS)]
            done = as_completed(first, with_results=True)
            for _ in done:
                for _ in itertools.islice(begun, 1):
                    done.add(client.submit(busy, 0.001, pure=False))

        given = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
        client = Client(local_cluster(WORKERS) if runtime == "joinery" else LocalCluster(n_workers=WORKERS, **given))
        runner = OnDask(client)
    elif engine == "ray":
        import ray

        def plain(given: Iterable[Inputs]) -> Iterable[Any]:
            remote = ray.remote(num_cpus=1)(function)
            waiting = [remote.remote(model, block) for block in given]
            while waiting:
                (done,), waiting = ray.wait(waiting, num_returns=1)
                yield ray.get(done)

        def own(count: int) -> None:
            remote = ray.remote(num_cpus=1)(busy)
            begun = iter(range(count))
            waiting = [remote.remote(0.001) for _ in itertools.islice(begun, 2 * WORKERS)]
            while waiting:
                (done,), waiting = ray.wait(waiting, num_returns=1)
                ray.get(done)
                waiting += [remote.remote(0.001) for _ in itertools.islice(begun, 1)]

        ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
        runner = OnRay(1)
    else:
        runner = InProcess()

    def run(count: int) -> int:
        if plain is not None and runtime == "onnxruntime":
            return sum(map(len, plain(blocks(count))))
        tasks = (Task(number, function, (model, block)) for number, block in enumerate(blocks(count)))
        return sum(len(done.value) for done in Driver(runner, 2, 0, ordered=False).run(tasks))

    run(4 * BLOCK * WORKERS)
    warm, start = cpu_seconds(processes()), time.perf_counter()
    computed = run(sentences)
    seconds, used = time.perf_counter() - start, cpu_seconds(processes())
    found: dict[str, Any] = {
        "sentences": computed, "per_second": computed / seconds, "per_cpu_second": computed / (used - warm),
        "per_cpu_second_with_start": computed / (used - began),
    }  # fmt: skip
    if engine != "process":
        tasks = [Task(number, busy, (0.02,)) for number in range(40)]
        pids = sorted({done.value for done in Driver(runner, 2, 0, ordered=False).run(tasks)})
        found["pss"] = min(megabytes(pid, "Pss") for pid in pids)
        found["added"] = min(megabytes(pid, "Private_Clean", "Private_Dirty") for pid in pids)
        found |= per_block(runner, own, 1000 // ROUNDS)
    return found


def per_block(runner: Any, own: Callable[[int], None], count: int) -> dict[str, float]:
    """Milliseconds for each block of 1 ms, by the engine alone with as many in flight, and by joinery's driver, by turns."""
    from joinery.interface.distributed.driving import Driver, Task

    def ours() -> None:
        for _ in Driver(runner, 2, 3, ordered=True).run(Task(number, busy, (0.001,)) for number in range(count)):
            pass

    times = {"engine_block_ms": 0.0, "driver_block_ms": 0.0}
    for _ in range(ROUNDS):
        for name, function in (("engine_block_ms", lambda: own(count)), ("driver_block_ms", ours)):
            start = time.perf_counter()
            function()
            times[name] += (time.perf_counter() - start) * 1000 / (count * ROUNDS)
    return times


# --- the table


def contender(engine: str, runtime: str, folder: Path, sentences: int) -> dict[str, Any]:
    """The rates of one contender; those of processes without an engine are of all of them together."""
    count = WORKERS if engine == "processes" else 1
    command = [sys.executable, __file__, "--one", "process" if count > 1 else engine, runtime, str(folder)]
    command += ["--sentences", str(sentences // count)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(count)]
    found = []
    for process in started:
        out, errors = process.communicate()
        if process.returncode:
            raise SystemExit(f"{engine} around {runtime} failed:\n{errors}")
        found.append(json.loads(out.splitlines()[-1]))
    if count == 1:
        return dict(found[0])
    together = {"sentences": sum(each["sentences"] for each in found), "per_second": sum(each["per_second"] for each in found)}
    for name in ("per_cpu_second", "per_cpu_second_with_start"):
        together[name] = together["sentences"] / sum(each["sentences"] / each[name] for each in found)
    return together


def simulated(task_seconds: float, scheduler_seconds: float, workers: int, tasks: int = 4000) -> float:
    """Return the share of `workers` times one worker's rate, if each task passes a scheduler that handles one at a time."""
    free = [0.0] * (2 * workers)  # two blocks in flight for each worker
    ready = [0.0] * workers
    scheduler = 0.0
    for number in range(tasks):
        scheduler = max(scheduler, heapq.heappop(free)) + scheduler_seconds
        worker = number % workers if number < workers else min(range(workers), key=ready.__getitem__)
        ready[worker] = max(ready[worker], scheduler) + task_seconds
        heapq.heappush(free, ready[worker])
    return tasks * task_seconds / max(ready) / workers


def prepare(folder: Path) -> None:
    """Write the model as a file of joinery and of ONNX."""
    sys.path.insert(0, str(ROOT / "examples"))
    import joinery as jn
    import minilm

    graph = minilm.build(minilm.model_dir())
    jn.compile(graph, device="cpu").save(folder / "minilm.joinery")
    jn.to_onnx(graph, folder / "minilm.onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description="Models over many blocks: joinery and onnxruntime on Dask and Ray.")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "RUNTIME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        engine, runtime, folder = options.one
        print(json.dumps(measured(engine, runtime, Path(folder), options.sentences)))
        sys.stdout.flush()
        os._exit(0)  # clusters take seconds to end, and log while they do
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        found = {(e, r): contender(e, r, Path(name), options.sentences) for e in options.engines for r in RUNTIMES}
    show(found)


def row(engine: str, runtime: str, found: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One line of the table."""
    each, others = found[engine, runtime], [found.get((name, runtime)) for name in ENGINES[:2]]
    cells = [f"{each['per_second']:9.0f}"]
    for name, width in (("per_cpu_second", 8), ("per_cpu_second_with_start", 9)):
        shares = [f"{each[name] / other[name]:.1%}" if other is not None else "" for other in others]
        cells.append(f"{each[name]:{width}.0f}" + "".join(f"{share:>8}" for share in shares))
    if "pss" in each:
        ours, own = each["driver_block_ms"], each["engine_block_ms"]
        cells.append(f"{each['pss']:9.0f}{each['added']:7.0f}{ours:10.2f}{own:8.2f}{ours / own - 1:+8.0%}")
    return f"{engine:11}{runtime:12}" + "".join(cells)


def show(found: dict[tuple[str, str], dict[str, Any]]) -> None:
    print(f"{'':31} sentences per CPU second, and shares of those          memory of a worker, MB   ms for each block of 1 ms")
    columns = f"{'running':>8}{'of one':>8}{f'of {WORKERS}':>8}{'start':>9}{'of one':>8}{f'of {WORKERS}':>8}"
    print(f"{'engine':11}{'around':12}{'sent./s':>9}{columns}      PSS  alone    driver  engine")
    for engine, runtime in found:
        print(row(engine, runtime, found))
    for engine in ENGINES[2:]:
        ours = found.get((engine, "joinery"))
        if ours is None:
            continue
        task = BLOCK / ours["per_cpu_second"]
        each = max(ours["driver_block_ms"] / 1000 - 0.001 / WORKERS, 1e-5)
        shares = ", ".join(f"{count}: {simulated(task, each, count):.0%}" for count in (2, 8, 16, 32, 64))
        print(f"a simulation, {engine}: {task:.2f} s per block, {each * 1000:.2f} ms to schedule it; share of linear scaling:")
        print(f"  {shares}")


if __name__ == "__main__":
    main()
