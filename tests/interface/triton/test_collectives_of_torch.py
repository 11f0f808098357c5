"""`torch.distributed` with gloo on tensors on a "cuda:0" without a GPU: two processes, the results by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
if torch.version.cuda or torch.version.hip or not torch.distributed.is_gloo_available():
    pytest.skip("torch is built for GPUs, or without gloo", allow_module_level=True)

PROGRAM = """
import sys
import torch
import torch.distributed as dist
from joinery.interface.triton.testing.stand_in import install
install()

rank = int(sys.argv[1])
def full(n, value=float(rank)):
    return torch.full((n,), value, device="cuda")

dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
x = full(3, rank + 1.0)
dist.all_reduce(x)
assert x.tolist() == [3, 3, 3] and x.is_cuda
dist.all_reduce(x, async_op=True).wait()
assert x.tolist() == [6, 6, 6]
y = full(2)
dist.broadcast(y, 1)
assert y.tolist() == [1, 1]
parts, whole = [full(2, 9.0), full(2, 9.0)], full(4, 9.0)
dist.all_gather(parts, full(2))
dist.all_gather_into_tensor(whole, full(2))
assert [each.tolist() for each in parts] == [[0, 0], [1, 1]] and whole.tolist() == [0, 0, 1, 1]
out = full(2)
dist.reduce_scatter_tensor(out, torch.arange(4.0, device="cuda"))
assert out.tolist() == [4 * rank, 4 * rank + 2]
dist.reduce_scatter(out, [full(2, 1.0), full(2, 2.0)])
assert out.tolist() == [2 + 2 * rank] * 2
dist.all_to_all_single(out, full(2))
assert out.tolist() == [0, 1]
dist.reduce(full(2), 0)
dist.barrier()
if rank == 0:
    dist.send(full(2, 5.0), 1)
else:
    dist.recv(out, 0)
    assert out.tolist() == [5, 5]
objects = [None, None]
dist.all_gather_object(objects, rank)
assert objects == [0, 1]

torch.manual_seed(rank)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2).cuda(), device_ids=[0])
net(torch.full((1, 3), rank + 1.0, device="cuda")).sum().backward()
assert net.module.weight.grad.flatten().tolist() == [1.5] * 6
from torch.distributed._functional_collectives import all_reduce
assert all_reduce(full(2, 1.0), "sum", dist.group.WORLD).tolist() == [2, 2]
dist.destroy_process_group()
"""


def test_two_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    started = [subprocess.Popen([*command, str(rank), str(tmp_path / "store")], cwd=tmp_path, **pipes) for rank in range(2)]
    said = [each.communicate(timeout=300)[0] for each in started]
    assert [each.returncode for each in started] == [0, 0], "\n".join(said)
