"""A million blocks through Dask, with client, scheduler and worker in processes of their own, whose memory is looked at.

`make test-scale` runs it: a quarter of an hour on two cores that have nothing else to do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")
pytestmark = [
    pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc"),
]  # fmt: skip

BLOCKS = 1_000_000
LOOKS = (10_000, 100_000, 300_000, 1_000_000)
NAMES_BYTES, NOISE_BYTES = 48 << 20, 16 << 20
"""Dask keeps the last 100,000 names of tasks, in the client's process and in the scheduler's; allocators keep some pages."""

SCHEDULER = """
import asyncio, sys
from distributed import Scheduler
from joinery.interface.distributed.dask_clusters import lean_extensions

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False, extensions=lean_extensions()) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(main())
"""

CLIENT = """
import itertools, json, sys, time
import joinery as jn
import numpy as np
from distributed import Client

def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096

address, model, looks, scheduler = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
reference = jn.distributed.reference(model, trusted=True, threads=1)
block, total = np.ones((1, 16), np.float32), 0.0
with Client(address) as client:
    began = time.monotonic()
    blocks = itertools.repeat(block, looks[-1])
    for count, (number, y) in enumerate(jn.distributed.stream(reference, blocks, client, in_flight=64, ordered=False), 1):
        total += float(y.sum())
        if count in looks:
            found = {"blocks": count, "client": resident("self"), "scheduler": resident(scheduler)}
            print(json.dumps({**found, "rate": count / (time.monotonic() - began), "total": total}), flush=True)
"""


def test_a_million_blocks_through_dask_in_constant_memory(model_path: Path, tmp_path: Path) -> None:
    (tmp_path / "scheduler.py").write_text(SCHEDULER)
    (tmp_path / "client.py").write_text(CLIENT)
    start = [sys.executable, str(tmp_path / "scheduler.py")]
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as scheduler:
        assert scheduler.stdout is not None
        address = scheduler.stdout.readline().strip()
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]
        start = [sys.executable, "-m", "distributed.cli.dask_worker", address, *options]
        with subprocess.Popen(start, stderr=subprocess.DEVNULL) as worker:
            given = [sys.executable, str(tmp_path / "client.py"), address, str(model_path), json.dumps(LOOKS)]
            done = subprocess.run([*given, str(scheduler.pid)], capture_output=True, text=True, check=False, timeout=4 * 3600)
            worker.terminate()
        scheduler.terminate()
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    print(*found, sep="\n")  # for `pytest -s`
    assert [each["blocks"] for each in found] == list(LOOKS)
    assert found[-1]["total"] == pytest.approx(BLOCKS, rel=1e-5)  # a softmax each
    for who in ("client", "scheduler"):
        first, names, after, last = [each[who] for each in found]
        assert names < first + NAMES_BYTES, found
        assert last < after + NOISE_BYTES, found
