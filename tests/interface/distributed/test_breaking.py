"""Runs that are broken on purpose: processes killed at random moments, disks that are full, files that workers do not see.

`make test-scale` runs them, in an environment with Dask and Ray. What is killed is resumed, and must have the bits of a run
that nobody has touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")
zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
pytestmark = [
    pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]  # fmt: skip

ROWS, WIDTH, BLOCK, LONGER = 4000, 256, 100, 10
BATCH = [sys.executable, "-m", "joinery", "batch"]
SCHEDULER, WORKER = ([sys.executable, "-m", f"distributed.cli.dask_{what}"] for what in ("scheduler", "worker"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose blocks take tens of milliseconds, and its input."""
    folder = tmp_path_factory.mktemp("breaking")
    rng = np.random.default_rng(11)
    graph = jn.Graph("deep", [jn.TensorType(jn.float32, ("batch", WIDTH), "x")])
    (value,) = graph.inputs
    for number in range(24):
        weight = (rng.standard_normal((WIDTH, 2 * WIDTH)) / 16).astype(np.float32)
        back = (rng.standard_normal((2 * WIDTH, WIDTH)) / 23).astype(np.float32)
        value = value + jn.gelu(value @ graph.weight(f"a{number}", weight)) @ graph.weight(f"b{number}", back)
    graph.output(value, name="y")  # which does not compress
    jn.compile(graph, device="cpu").save(folder / "m.joinery")
    np.save(folder / "x.npy", rng.standard_normal((ROWS, WIDTH)).astype(np.float32))
    return folder


def environment() -> dict[str, str]:
    """Ray gives itself half a minute to start, which a busy machine does not."""
    return os.environ | {"RAY_raylet_start_wait_time_s": "300"}


def command(folder: Path, output: Path, *arguments: str, rows: str = "x") -> list[str]:
    return [
        *BATCH, str(folder / "m.joinery"), "--input", f"x={folder / f'{rows}.npy'}", "--output", str(output),
        "--block", str(BLOCK), "--trusted", "--quiet", *arguments,
    ]  # fmt: skip


def run(folder: Path, output: Path, *arguments: str, status: int = 0, rows: str = "x") -> dict[str, Any]:
    given = command(folder, output, *arguments, rows=rows)
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=600, env=environment())
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if done.stdout else {"error": " ".join(done.stderr.split())}


@pytest.fixture(scope="module")
def expected(folder: Path) -> str:
    """The digest of a run in one process."""
    return str(run(folder, folder / "x.zarr", "--threads", "1")["digest"])


@pytest.fixture(scope="module")
def expected_long(folder: Path) -> str:
    """The same of more rows than are done by the time that the first notes are written."""
    np.save(folder / "long.npy", np.tile(np.load(folder / "x.npy"), (LONGER, 1)))
    return str(run(folder, folder / "long.zarr", "--threads", "1", rows="long")["digest"])


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=1200, cwd=tmp_path, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(output: Path) -> int:
    path = Path(f"{output}.partial") / "blocks.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(condition: Any, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def require_complete(folder: Path, output: Path, summary: dict[str, Any], expected: str, rows: str = "x") -> None:
    """No block lost, none doubled, and the bits of the run in one process."""
    assert summary["digest"] == expected
    assert summary["before"] + summary["computed"] == len(np.load(folder / f"{rows}.npy", mmap_mode="r")) // BLOCK
    found, whole = zarr.open_group(output, mode="r")["y"], zarr.open_group(folder / f"{rows}.zarr", mode="r")["y"]
    assert np.array_equal(found[:], whole[:])
    assert not Path(f"{output}.partial").exists()


@pytest.mark.parametrize("workers", ["0", "1", "3"])
def test_the_bits_do_not_depend_on_who_computes(folder: Path, tmp_path: Path, expected: str, workers: str) -> None:
    output = tmp_path / "y.zarr"
    require_complete(folder, output, run(folder, output, "--workers", workers, "--threads", "2"), expected)


KILLS = """
import json, os, random, signal, sys, threading, time
from pathlib import Path
import dask
from distributed import LocalCluster
from joinery.interface.cli.main import main as command

def kill(cluster, seed, output, stopped, killed):
    chance = random.Random(seed)
    data = Path(f"{{output}}.partial")
    while not stopped.is_set() and not any(data.glob("data-*/y/c/*/*")):
        time.sleep(0.01)
    while not stopped.wait(chance.uniform(0, 0.3 if not killed else 0.6)) and len(killed) < 3:
        pid = chance.choice(list(cluster.workers.values())).pid
        if pid:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

def main():
    dask.config.set({{"distributed.deploy.lost-worker-timeout": "5 minutes"}})
    arguments = {arguments!r}
    runs = 0
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster:
        for seed in range({runs}):
            output, stopped, killed = f"{{seed}}.zarr", threading.Event(), []
            killer = threading.Thread(target=kill, args=(cluster, seed, output, stopped, killed))
            killer.start()
            status = command([*arguments, "--output", output, "--scheduler", cluster.scheduler_address, "--threads", "1"])
            stopped.set()
            killer.join()
            print(json.dumps({{"killed": len(killed), "status": status}}))

if __name__ == "__main__":
    main()
"""


def test_workers_are_killed_at_random_moments(folder: Path, tmp_path: Path, expected: str) -> None:
    """Twenty runs on one cluster, whose nannies start new workers."""
    arguments = command(folder, tmp_path)[len(BATCH) :]
    at = arguments.index("--output")
    arguments = ["batch", *arguments[:at], *arguments[at + 2 :]]
    printed = script(tmp_path, KILLS.format(arguments=arguments, runs=20))
    decoder, found, at = json.JSONDecoder(), [], 0
    while printed[at:].strip():
        value, at = decoder.raw_decode(printed, at + len(printed[at:]) - len(printed[at:].lstrip()))
        found.append(value)
    summaries, kills = found[::2], found[1::2]
    assert len(summaries) == 20
    assert all(each["status"] == 0 for each in kills)
    assert sum(each["killed"] for each in kills) >= 20
    for seed, summary in enumerate(summaries):
        require_complete(folder, tmp_path / f"{seed}.zarr", summary, expected)


@pytest.mark.parametrize("seed", range(2))
def test_the_client_is_killed_and_resumed(folder: Path, tmp_path: Path, expected_long: str, seed: int) -> None:
    chance = random.Random(seed)
    output = tmp_path / "y.zarr"
    for attempt in range(2):
        given = command(folder, output, "--workers", "2", "--threads", "1", *(["--resume"] if attempt else []), rows="long")
        with subprocess.Popen(given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            goal = lines(output) + chance.randrange(1, 15)
            wait_for(lambda: lines(output) >= goal or process.poll() is not None)  # noqa: B023
            process.kill()
        assert not output.exists()
    written = [json.loads(line)["number"] for line in (tmp_path / "y.zarr.partial" / "blocks.jsonl").read_bytes().splitlines()]
    assert len(written) == len(set(written)) > 0
    summary = run(folder, output, "--resume", "--threads", "1", rows="long")
    require_complete(folder, output, summary, expected_long, rows="long")


@pytest.mark.parametrize("moment", ["start", "blocks", "blocks after a death"])
def test_an_interrupt_of_all_processes_prints_no_traces(folder: Path, tmp_path: Path, expected: str, moment: str) -> None:
    """A terminal sends Ctrl-C to the command and to its workers, those too that came in the place of others."""
    output = tmp_path / "y.zarr"
    given = command(folder, output, "--workers", "2", "--threads", "1")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(given, start_new_session=True, **streams) as process:
        wait_for(lambda: len(workers_below(process.pid)) == 2 or process.poll() is not None)
        if moment != "start":
            wait_for(lambda: lines(output) > 0 or process.poll() is not None)
        if moment == "blocks after a death":
            first = workers_below(process.pid)
            os.kill(first[0], signal.SIGKILL)
            wait_for(lambda: len(set(workers_below(process.pid)) - set(first)) == 1 or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=300)
    assert process.returncode == 1, errors
    assert not out
    noted = "no block was noted, nothing is kept" if moment == "start" else "--resume goes on with"
    assert f"joinery batch: interrupted; {noted}" in errors
    assert not re.search("Traceback|Process Dask Worker|never retrieved", errors), errors
    summary = run(folder, output, "--resume", "--threads", "1")
    assert (summary["before"] > 0) == (moment != "start")
    require_complete(folder, output, summary, expected)


ORPHANS = """
import asyncio, gc, sys, time
from distributed import Client, LocalCluster
from distributed.client import AllExit
from joinery.interface.distributed.batch import running

async def fail(error):
    raise error

def main():
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            if sys.argv[1] == "quiet":
                running._pass_over_given_up_waits(client)
            for error in (AllExit(), KeyError("mine")):
                client.loop.add_callback(lambda: asyncio.ensure_future(fail(error)) and None)
                time.sleep(0.5)
    gc.collect()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("how", "printed"), [("loud", True), ("quiet", False)])
def test_waits_that_were_given_up_print_no_traces(tmp_path: Path, how: str, printed: bool) -> None:
    """Dask leaves some behind when it is interrupted while the result of a worker that died is computed again."""
    (tmp_path / "run.py").write_text(ORPHANS)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py"), how], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert ("AllExit" in done.stderr) == printed, done.stderr
    assert "KeyError: 'mine'" in done.stderr  # others are printed


def workers_below(pid: int) -> list[int]:
    """The processes that a command has begun as workers, among those that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"spawn_main" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


@contextlib.contextmanager
def scheduler(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A scheduler of Dask, and its address."""
    start = [*SCHEDULER, "--port", "0", "--host", "127.0.0.1", "--dashboard-address", ":0"]
    with subprocess.Popen(start, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stderr is not None
        yield process, next(found.group() for line in process.stderr if (found := re.search(r"tcp://\S+:\d+", line)))
        process.terminate()


@contextlib.contextmanager
def workers(folder: Path, address: str, *before: str) -> Iterator[None]:
    """Two workers of one host, started by a shell after some commands."""
    options = f"--nworkers 2 --nthreads 1 --death-timeout 60 --dashboard-address :0 --local-directory {folder / 'host'}"
    start = "\n".join([*before, f"exec {' '.join(WORKER)} {address} {options}"])
    shell = ["unshare", "-Urm", "sh", "-c", start] if before else ["sh", "-c", start]
    with subprocess.Popen(shell, stderr=subprocess.DEVNULL, cwd=folder) as process:
        yield
        process.terminate()


def test_the_scheduler_is_killed(folder: Path, tmp_path: Path, expected_long: str) -> None:
    output = tmp_path / "y.zarr"
    with scheduler(tmp_path) as (process, address), workers(tmp_path, address):
        given = command(folder, output, "--scheduler", address, "--same-target", rows="long")
        with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            wait_for(lambda: lines(output) > 5 or client.poll() is not None)
            process.kill()
            out, errors = client.communicate(timeout=600)
    assert client.returncode == 2, errors
    assert not out
    assert "the connection to the scheduler of Dask is lost" in " ".join(errors.split())
    assert "Traceback" not in errors
    summary = run(folder, output, "--resume", "--threads", "1", rows="long")
    assert summary["before"] > 5
    require_complete(folder, output, summary, expected_long, rows="long")


def test_a_scheduler_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    error = run(folder, tmp_path / "y.zarr", "--scheduler", "tcp://127.0.0.1:9", status=2)["error"]
    assert "--scheduler tcp://127.0.0.1:9 does not answer" in error


# --- disks, in mount namespaces of their own


def namespaces() -> bool:
    return subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(
    sys.platform != "linux" or not namespaces(), reason="unshare makes no mount namespaces here"
)


@needs_namespaces
@pytest.mark.parametrize("name", ["y.zarr", "y.npy", "y.parquet"])
def test_a_full_disk(folder: Path, tmp_path: Path, expected: str, name: str) -> None:
    """A disk of 2 MB takes a third of the results; with more room the run is resumed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    first = " ".join(command(folder, disk / name, "--threads", "1"))
    script = f"""
mount -t tmpfs -o size=2m tmpfs {disk}
{first} 2>&1; echo status $?
find {disk} -name '*.new' -o -name '*.partial' -type f
mount -o remount,size=200m {disk}
{first} --resume
"""
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=600)
    before, _, after = done.stdout.partition("status 2\n")
    assert "No space left on device: free some space" in " ".join(before.split()), done.stdout + done.stderr
    summary = json.loads(after)  # nothing half written was found
    assert summary["digest"] == expected
    assert (summary["before"] > 0) == (name != "y.npy")  # whose room is taken before anything runs


@needs_namespaces
def test_a_read_only_output(folder: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"mount -t tmpfs -o ro tmpfs {disk}\n" + " ".join(command(folder, disk / "y.zarr"))
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 2
    assert "cannot be written: Read-only file system" in " ".join(done.stderr.split())


@needs_namespaces
def test_a_model_is_brought_to_workers_that_do_not_see_it(folder: Path, tmp_path: Path, expected: str) -> None:
    """The workers are a host of their own as far as the model's file goes: the folder that it lies in is empty for them."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    model = hidden / "m.joinery"
    model.write_bytes((folder / "m.joinery").read_bytes())
    with scheduler(tmp_path) as (_, address), workers(tmp_path, address, f"mount -t tmpfs tmpfs {hidden}"):
        given = command(folder, tmp_path / "y.zarr", "--scheduler", address)
        given[len(BATCH)] = str(model)
        blind = subprocess.run(given, capture_output=True, text=True, check=False, timeout=600)
        assert blind.returncode == 2
        assert "cannot be opened by the worker: No such file" in " ".join(blind.stderr.split())
        seen = subprocess.run([*given, "--bring", "--resume"], capture_output=True, text=True, check=False, timeout=600)
        assert seen.returncode == 0, seen.stderr
        require_complete(folder, tmp_path / "y.zarr", json.loads(seen.stdout), expected)
        assert len(list((tmp_path / "host").rglob("*.joinery"))) == 1


# --- poisoned blocks and bounded memory, by scripts whose functions workers get by value


POISONED = """
import os, signal
from joinery.interface.distributed.driving import Driver, Task
from joinery.interface.distributed.engines import {engine}
from joinery.interface.distributed.failures import Failure

def work(number):
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number

def main():
    {setup}
    tasks = (Task(number, work, (number,)) for number in range(40))
    done = {{each.number: each.value for each in Driver(engine, 2, 3, ordered=False).run(tasks)}}
    assert sorted(done) == list(range(40)), sorted(done)
    assert isinstance(done[7], Failure) and "worker died" in done[7].error, done[7]
    assert all(value == 2 * number for number, value in done.items() if number != 7), done
    print("39 of 40")

if __name__ == "__main__":
    main()
"""


def test_a_poisoned_block_on_dask(tmp_path: Path) -> None:
    setup = (
        "import dask\n"
        "    from distributed import Client, LocalCluster\n"
        "    dask.config.set({'distributed.deploy.lost-worker-timeout': '5 minutes'})\n"
        "    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=':0', silence_logs=50)\n"
        "    engine = OnDask(Client(cluster))"
    )
    assert script(tmp_path, POISONED.format(engine="OnDask", setup=setup)) == "39 of 40\n"


def test_a_poisoned_block_on_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    setup = "import ray\n    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)\n    engine = OnRay(1)"
    assert "39 of 40\n" in script(tmp_path, POISONED.format(engine="OnRay", setup=setup))  # Ray prints there, too


BOUNDED = """
import gc
import tracemalloc
import dask.utils
from distributed import Client, LocalCluster
from joinery.interface.distributed.dask_clusters import lean_extensions
from joinery.interface.distributed.driving import Driver, Task
from joinery.interface.distributed.engines import InProcess, OnDask

def work(number):
    return number

def main():
    tracemalloc.start()
    count, early = 0, 0
    for done in Driver(InProcess(), 2, 3, ordered=True).run(Task(number, work, (number,)) for number in range(1_000_000)):
        count += 1
        if count == 1000:
            early = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
    assert tracemalloc.get_traced_memory()[1] < early + 100_000, tracemalloc.get_traced_memory()
    # Logs of a bounded length, and a profile that grows with time, are of no interest here.
    dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.low-level-log-length": 50})
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0",
        scheduler_kwargs=dict(extensions=lean_extensions()),
    ) as cluster:
        engine, most, count = OnDask(Client(cluster)), 0, 0
        for done in Driver(engine, 2, 3, ordered=False).run(Task(number, work, (number,)) for number in range(4000)):
            most = max(most, len(cluster.scheduler.tasks))
            count += 1
            if count in (2000, 4000):
                dask.utils.key_split.cache_clear()  # Dask's own, which has the last 100,000 names of tasks
                gc.collect()
                before, early = early, tracemalloc.get_traced_memory()[0]
    assert most < 50, most
    (span,) = cluster.scheduler.extensions["spans"].spans.values()
    assert not span.metadata, span.metadata
    assert early < before + 2000 * 150, (before, early)  # of client, scheduler and workers together, which keep logs of time
    print("bounded")

if __name__ == "__main__":
    main()
"""


def test_a_million_blocks_in_constant_memory(tmp_path: Path) -> None:
    assert script(tmp_path, BOUNDED) == "bounded\n"


# --- Ray


def test_files_on_ray(folder: Path, tmp_path: Path, expected: str) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    output = tmp_path / "y.zarr"
    require_complete(folder, output, run(folder, output, "--ray", "--workers", "2", "--threads", "1"), expected)


def test_the_summary_alone_is_on_stdout_when_a_worker_of_ray_dies(folder: Path, tmp_path: Path, expected_long: str) -> None:
    """Ray's driver prints that it has died."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    import psutil

    output = tmp_path / "y.zarr"
    given = command(folder, output, "--ray", "--workers", "2", "--threads", "1", rows="long")
    with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as process:

        def killed() -> bool:
            for each in psutil.Process(process.pid).children(recursive=True) if lines(output) else ():
                with contextlib.suppress(psutil.Error):
                    if "run_job_block" in " ".join(each.cmdline()):
                        each.kill()
                        return True
            return process.poll() is not None

        wait_for(killed)
        assert process.poll() is None
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    require_complete(folder, output, json.loads(out), expected_long, rows="long")
    assert "A worker died or was killed" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_on_ray_that_is_ended_by_a_signal_writes_its_notes(
    folder: Path, tmp_path: Path, expected_long: str, number: signal.Signals
) -> None:
    """Ray's driver has handlers of its own, one of which aborts."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    output = tmp_path / "y.zarr"
    given = command(folder, output, "--ray", "--workers", "2", "--threads", "1", rows="long")
    with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        wait_for(lambda: lines(output) or process.poll() is not None)
        process.send_signal(number)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    assert "interrupted; --resume goes on" in " ".join(err.split())
    summary = run(folder, output, "--resume", "--threads", "1", rows="long")
    assert summary["before"] > 0
    require_complete(folder, output, summary, expected_long, rows="long")


ACTORS = """
import numpy as np, ray, sys
import joinery as jn
from ray.util import ActorPool

ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False)
reference = jn.distributed.reference({model!r}, trusted=True)
x = np.load({rows!r})
actor = ray.remote(num_cpus=1, max_restarts=3, max_task_retries=3)(jn.distributed.ray_actor(reference))
pool = ActorPool([actor.remote() for _ in range(2)])
blocks = [dict(x=x[at : at + 500]) for at in range(0, 3000, 500)]
found = list(pool.map(lambda one, block: one.__call__.remote(block), blocks))
whole = reference()(x[:3000])
assert np.array_equal(np.concatenate([each["y"] for each in found]), whole)
streamed = [out for _, out in jn.distributed.stream(reference, blocks, "ray")]
assert np.array_equal(np.concatenate(streamed), whole)
print("equal")
"""


def test_actors_and_streams_on_ray(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    assert "equal\n" in script(tmp_path, ACTORS.format(model=str(folder / "m.joinery"), rows=str(folder / "x.npy")))
