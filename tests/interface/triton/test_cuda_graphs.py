"""Graphs of CUDA without a GPU: what they capture is done again on the same memory, as torch does it without a graph."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
if torch.version.cuda is not None or torch.version.hip is not None:
    pytest.skip("torch has graphs of its own", allow_module_level=True)


def run(text: str, folder: Path, *arguments: str) -> str:
    """Run statements under the stand-in."""
    file = folder / "program.py"
    start = "import torch\nfrom joinery.interface.triton.testing.suites import Choices, prepare\nprepare(Choices({!r}))\n"
    file.write_text(start.format(*(arguments or ("native",))) + textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_operators_are_done_again_at_replays(tmp_path: Path) -> None:
    run(
        """
        from torch.nn.functional import dropout
        x, total, half = torch.arange(4.0, device="cuda"), torch.zeros(4, device="cuda"), torch.tensor(0.5)
        pinned, back = torch.ones(4, pin_memory=True), torch.zeros(4, pin_memory=True)
        side, registered = torch.cuda.Stream(), torch.Generator("cuda").manual_seed(7)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(registered)
        torch.manual_seed(5)
        before, of_registered = torch.cuda.get_rng_state(), registered.get_state()

        def work():
            total.add_(x * half)
            values, places = x.sort(descending=True)
            parts = torch.split(x, 2)
            many = torch._foreach_mul([parts[0], parts[1]], 3.0)
            torch._foreach_add_(many, 1.0)
            drawn = torch.rand(3, device="cuda"), dropout(x, 0.5), torch.randn(2, device="cuda", generator=registered)
            out = torch.empty(0, device="cuda")
            torch.mul(x, 2, out=out)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                copied = pinned.to("cuda", non_blocking=True)
                back.copy_(total, non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            return [total, values, places, *many, *drawn, out, copied, x.view(2, 2).T.contiguous(), back, x[x.long()]]

        with torch.cuda.graph(graph):
            results = work()
        assert total.tolist() == [0] * 4 and back.tolist() == [0] * 4  # a GPU runs nothing while it captures
        assert torch.equal(torch.cuda.get_rng_state(), before) and torch.equal(registered.get_state(), of_registered)
        half.fill_(100)  # a number of the CPU is what it was
        for step in range(3):
            x.copy_(torch.tensor([3.0, 1.0, 0.0, 2.0]) / 2 ** (step == 0))
            pinned.fill_(step)
            states = total.clone(), torch.cuda.get_rng_state(), registered.get_state()
            graph.replay()
            found, after = [each.clone() for each in results], torch.cuda.get_rng_state()
            total.copy_(states[0]); torch.cuda.set_rng_state(states[1]); registered.set_state(states[2])
            half.fill_(0.5)
            expected = work()
            assert torch.equal(torch.cuda.get_rng_state(), after)
            for one, other in zip(found, expected, strict=True):
                assert torch.equal(one, other), (step, one, other)
            half.fill_(100)
        x.resize_(100)  # the graph has the memory that it was captured with
        graph.replay()
        graph.reset()
        try:
            graph.replay()
        except RuntimeError as error:
            assert "without a preceding" in str(error)
        else:
            assert False
        """,
        tmp_path,
    )


def test_gradients_and_graphed_callables(tmp_path: Path) -> None:
    run(
        """
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).cuda()
        twin = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).cuda()
        twin.load_state_dict(net.state_dict())
        x, y = torch.randn(3, 4, device="cuda"), torch.randn(3, 2, device="cuda")
        optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (net, twin)]
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            (net(x) - y).square().mean().backward()
        optimizers[0].zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizers[0].step()
        for _ in range(3):
            x.normal_(), y.normal_()
            graph.replay()
            optimizers[1].zero_grad()
            expected = (twin(x) - y).square().mean()
            expected.backward()
            optimizers[1].step()
            assert torch.equal(loss, expected)
            for one, other in zip(net.parameters(), twin.parameters(), strict=True):
                assert torch.equal(one, other) and torch.equal(one.grad, other.grad)

        graphed = torch.cuda.make_graphed_callables(net, (torch.randn(3, 4, device="cuda", requires_grad=True),))
        for _ in range(2):
            leaves = [torch.randn(3, 4, device="cuda").requires_grad_() for _ in range(1)] * 2
            gradients = []
            for each, leaf in zip((graphed, twin), leaves, strict=True):
                each.zero_grad(), setattr(leaf, "grad", None)
                each(leaf).square().sum().backward()
                gradients.append([leaf.grad.clone(), *[p.grad.clone() for p in each.parameters()]])
            for one, other in zip(*gradients, strict=True):
                assert torch.equal(one, other)
        """,
        tmp_path,
    )


def test_what_cannot_be_captured_is_refused_and_never_replayed(tmp_path: Path) -> None:
    run(
        """
        x, other, free = torch.ones(4, device="cuda"), torch.cuda.Stream(), torch.Generator("cuda")
        sparse = torch.eye(3, device="cuda").to_sparse()
        on_cpu, pinned = torch.ones(4), torch.ones(4, pin_memory=True)

        def on_another_stream():
            with torch.cuda.stream(other):
                x.add_(1)

        def inner():
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                pass

        done = torch.cuda.CUDAGraph()
        with torch.cuda.graph(done):
            x.add_(0)
        cases = {
            "to the CPU": [lambda: x.sum().item(), lambda: bool((x > 0).all()), lambda: torch.equal(x, x)],
            "depends on values": [lambda: x[x > 0], x.nonzero, x.unique, lambda: x.masked_select(x > 0)],
            "memory of the CPU": [
                x.cpu, x.tolist, lambda: x.copy_(on_cpu), lambda: x.copy_(pinned), lambda: torch.tensor(3.0, device="cuda")
            ],
            "not captured": [on_another_stream],
            "generator of its own": [lambda: torch.rand(3, device="cuda", generator=free)],
            "waits for the GPU": [torch.cuda.synchronize],
            "sparse": [lambda: sparse * 2, lambda: sparse @ sparse.to_dense()],
            "resize": [lambda: x.resize_(1000)],
            "replay": [done.replay],
        }
        for words, calls in cases.items():
            for call in calls:
                graph = torch.cuda.CUDAGraph()
                said = []
                with torch.cuda.graph(graph):
                    try:
                        call()
                    except RuntimeError as error:  # NotImplementedError is one
                        said.append(str(error))
                assert said and words in said[0], (words, said)
                try:
                    graph.replay()
                except RuntimeError as error:
                    assert words in str(error)
                else:
                    raise AssertionError(words)
        def inner():
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                torch.cuda.CUDAGraph().capture_begin()

        for call, words in {
            torch.cuda.CUDAGraph().capture_begin: "non-default stream", torch.cuda.CUDAGraph().replay: "preceding",
            done.capture_begin: "non-default", inner: "only one", torch.cuda.CUDAGraph().capture_end: "without capture_begin",
        }.items():
            try:
                call()
            except RuntimeError as error:
                assert words in str(error), error
            else:
                raise AssertionError(words)
        assert not torch.cuda.is_current_stream_capturing()
        assert x.tolist() == [1] * 4
        """,
        tmp_path,
    )


KERNELS = """
import triton
import triton.language as tl

@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

@triton.jit
def by_address(table, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(tl.load(table).to(tl.pointer_type(tl.float32)) + i, 1.0, mask=i < n)

def work(x, out):
    scale[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 2.0, BLOCK=64)
"""


@pytest.mark.parametrize("mode", ["native", pytest.param("sanitize", marks=pytest.mark.slow)])
def test_launches_are_made_again_at_replays(tmp_path: Path, mode: str) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    run(
        """
        from kernels import by_address, work
        x, out = torch.arange(100.0, device="cuda"), torch.zeros(100, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work(x, out)
            y = out + 1
            again = torch.zeros_like(y)
            work(y, again)
        assert out.tolist() == [0] * 100
        for step in range(3):
            before = out.clone()
            x.fill_(step)
            graph.replay()
            assert torch.equal(out, before + 2 * step) and torch.equal(again, 2 * (out + 1))

        table = torch.tensor([out.data_ptr()], device="cuda")
        by_address[(1,)](table, 100, BLOCK=128)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                by_address[(1,)](table, 100, BLOCK=128)
        except NotImplementedError as error:
            assert "follows addresses" in str(error) and "without a GPU" in str(error)
        else:
            raise AssertionError
        """,
        tmp_path,
        mode,
    )


def test_statistics_that_operators_write_without_saying_so_are_given_back(tmp_path: Path) -> None:
    run(
        """
        x, norm = torch.randn(8, 3, device="cuda"), torch.nn.BatchNorm1d(3).cuda()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = norm(x)
        assert norm.running_mean.tolist() == [0] * 3 and norm.running_var.tolist() == [1] * 3
        graph.replay()
        other = torch.nn.BatchNorm1d(3).cuda()
        assert torch.equal(other(x), y) and torch.equal(other.running_mean, norm.running_mean)
        assert torch.equal(other.running_var, norm.running_var)
        """,
        tmp_path,
    )


def test_memory_of_operators_that_fail_is_not_written_after_it_was_freed(tmp_path: Path) -> None:
    run(
        """
        graph, places = torch.cuda.CUDAGraph(), torch.full((1,), 1 << 40, device="cuda")
        with torch.cuda.graph(graph):
            for _ in range(8):
                lost = torch.zeros(1 << 14, device="cuda")
                try:
                    lost.index_fill_(0, places, 1.0)
                    raise SystemExit("no error")
                except IndexError:
                    pass
                del lost
            import gc; gc.collect()
            others = [torch.ones(1 << 14) for _ in range(8)]
        assert all(each.sum() == 1 << 14 for each in others)
        """,
        tmp_path,
    )


def test_other_threads_work_on_their_own_streams_meanwhile(tmp_path: Path) -> None:
    run(
        """
        import threading
        x, w = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")

        def work():
            with torch.cuda.stream(torch.cuda.Stream()):
                w.add_(1)

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            y = x * 2
            thread = threading.Thread(target=work)
            thread.start(); thread.join()
        assert w.tolist() == [1] * 4
        graph.replay()
        assert w.tolist() == [1] * 4 and y.tolist() == [2] * 4
        """,
        tmp_path,
    )


def test_autocast_of_the_cpu_is_not_that_of_the_gpu(tmp_path: Path) -> None:
    run(
        """
        a, graph = torch.randn(16, 16, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            product = a @ a
        with torch.autocast("cpu"):
            graph.replay()
            assert (a @ a).dtype == torch.float32
        assert torch.equal(product, a @ a)
        """,
        tmp_path,
    )
