"""Memory and random numbers of a "cuda:0" without a GPU: who shares what, how much there is, and what draws from what."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.stand_in import run

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
if torch.version.cuda or torch.version.hip:
    pytest.skip("torch is built for GPUs: a mode stands in for them", allow_module_level=True)


def test_derivatives_of_derivatives(tmp_path: Path) -> None:
    run(
        """
        import torch.nn.functional as F
        from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
        def cubes(x):
            return (x ** 3).sum()
        def longer(x):
            return F.gelu(torch.sin(x) @ x) + F.softmax(x, 0).square().sum() + torch.where(x > 1, x, 2 * x).exp().sum()
        here = torch.tensor([0.5, 1.5, -2.0])
        there = here.cuda()
        value, along = jvp(grad(cubes), (there,), (torch.ones_like(there),))
        assert value.is_cuda and along.tolist() == [3, 9, -12] and value.tolist() == [0.75, 6.75, 12]
        assert hessian(cubes)(there).tolist() == [[3, 0, 0], [0, 9, 0], [0, 0, -12]]
        twice = hessian(longer), jacrev(jacfwd(longer)), jacfwd(jacfwd(longer)), jacrev(grad(longer)), vmap(grad(cubes))
        for second in twice:
            found = second(there)
            assert found.is_cuda
            torch.testing.assert_close(found.cpu(), second(here), rtol=1e-5, atol=1e-5)
        # torch's zeros without memory are the cause
        zeros = torch._efficientzerotensor(3, device="cuda")
        assert zeros.tolist() == [0, 0, 0] and (zeros + there).tolist() == there.tolist()
        assert torch._efficientzerotensor(3).cuda().tolist() == [0, 0, 0]
        """,
        tmp_path,
    )


def test_what_shares_memory_goes_on_sharing_it(tmp_path: Path) -> None:
    run(
        """
        import warnings
        warnings.simplefilter("ignore")
        x = torch.arange(4.0, device="cuda")
        part, square = x[1:3], x.view(2, 2)
        x.resize_(1000)
        x[1] = 9
        assert part.tolist() == [9, 2] and square.tolist() == [[0, 9], [2, 3]]
        part.add_(1)
        assert x[:4].tolist() == [0, 10, 3, 3] and x.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()

        for here in ("cuda", "cpu"):  # torch's own on the CPU is the witness
            base = torch.zeros(6, device=here)
            middle, last = base[2:4], base[5:]
            torch.add(torch.ones(4, device=here), torch.arange(4.0, device=here), out=middle)
            assert base.tolist() == [0, 0, 1, 2, 3, 4] and last.tolist() == [4] and middle.shape == (4,)
            torch.arange(9.0, out=middle)  # beyond the end
            assert base.tolist() == [0, 0, 0, 1, 2, 3] and base.untyped_storage().nbytes() == 44
            largest, where = torch.empty(0, device=here), torch.empty(0, dtype=torch.long, device=here)
            seen = largest.view(0)
            torch.max(base.view(2, 3), 1, out=(largest, where))
            assert seen.resize_(2).tolist() == [0, 3] and where.tolist() == [0, 2]
            other = torch.zeros(2, device=here)
            viewed = other.view(1, 2)
            other.set_(base.untyped_storage(), 1, (12,))  # grows it as well
            base[1] = 7
            assert other[0] == 7 and base.untyped_storage().nbytes() == 52 and viewed.tolist() == [[0, 0]]
            assert base.set_().shape == (0,)
            refused(lambda: other.set_(torch.ones(2, device="cpu" if here == "cuda" else "cuda").untyped_storage()),
                    RuntimeError, "different device")

        storage = x.untyped_storage()
        assert storage.resize_(0) is storage and storage.nbytes() == 0 and x.shape == (1000,)
        other = torch.ones(1000, device="cuda")
        for use in (lambda: x + 1, lambda: x.cpu(), lambda: x.zero_(), lambda: other.add_(x), x.tolist):
            refused(use, RuntimeError, "lies in a storage of 0 bytes")
        storage.resize_(4000)
        x.fill_(2)
        assert part.tolist() == [2, 2]
        storage.resize_(16)
        assert square.tolist() == [[2, 2], [2, 2]] and storage.resize_(32).nbytes() == 32 and square.sum() == 8
        """,
        tmp_path,
    )


def test_random_numbers_are_the_devices_own(tmp_path: Path) -> None:
    run(
        """
        import torch.nn.functional as F
        def drawn(m=1000):
            ones = torch.ones(m, device="cuda")
            return [torch.rand(m, device="cuda"), F.dropout(ones), torch.randperm(m, device="cuda"), torch.rand_like(ones),
                    torch.native_dropout(ones, 0.5, True)[0], torch.multinomial(ones, 5), ones.clone().exponential_(),
                    torch.randint(9, (m,), device="cuda"), torch.bernoulli(ones / 2), F.rrelu(-ones, training=True)]
        torch.manual_seed(1)
        expected = torch.rand(5)
        torch.manual_seed(1)
        first = drawn()
        assert torch.equal(torch.rand(5), expected)  # the CPU's stream has not moved
        second = drawn()
        assert all(each.is_cuda for each in first) and not any(map(torch.equal, first, second))
        torch.manual_seed(1)
        torch.rand(77)
        assert all(map(torch.equal, first, drawn()))  # nor has the GPU's
        torch.manual_seed(2)
        torch.cuda.manual_seed(1)
        kept, before = torch.cuda.get_rng_state(), torch.get_rng_state()
        again = drawn()
        assert all(map(torch.equal, first, again)) and torch.equal(torch.get_rng_state(), before)
        torch.cuda.set_rng_state(kept)
        assert all(map(torch.equal, first, drawn())) and torch.cuda.initial_seed() == 1 and torch.initial_seed() == 2
        with torch.random.fork_rng(devices=[0]):
            torch.manual_seed(8)
            drawn()
        forked = torch.rand(4, device="cuda")
        torch.cuda.set_rng_state(kept)
        drawn()
        assert torch.equal(torch.rand(4, device="cuda"), forked)

        own = torch.Generator(device="cuda").manual_seed(1)
        state = torch.cuda.get_rng_state()
        assert torch.equal(torch.rand(1000, device="cuda", generator=own), first[0])
        assert torch.equal(torch.cuda.get_rng_state(), state)
        for call in (
            lambda: torch.rand(3, device="cuda", generator=torch.Generator()),
            lambda: first[0].normal_(generator=torch.Generator()),
            lambda: torch.multinomial(first[0], 2, generator=torch.default_generator),
        ):
            refused(call, RuntimeError, "Expected a 'cuda' device type for generator but found 'cpu'")
        """,
        tmp_path,
    )


def test_states_carry_over(tmp_path: Path) -> None:
    run(
        """
        import copy, pickle, subprocess, sys, threading
        def drawn(generator=None):
            return torch.rand(5, device="cuda", generator=generator).tolist()
        def made():
            return torch.Generator("cuda").manual_seed(11)
        own = made()
        first = drawn(own)
        state = own.get_state()
        clone, copied, unpickled = own.clone_state(), copy.deepcopy(own), pickle.loads(pickle.dumps(own))
        shared = own.graphsafe_get_state()
        other = torch.Generator("cuda")
        other.set_state(state)
        assert isinstance(torch.default_generator, torch.Generator) and state.numel() == 16
        second = drawn(own)
        for each in (clone, copied, unpickled, other):
            assert isinstance(each, torch.Generator) and each.device.type == "cuda" and each.initial_seed() == 11
            assert drawn(each) == second
        assert drawn(made()) == first != second and drawn(shared) == drawn(other)  # of one state
        assert own.get_offset() == other.get_offset()
        assert len({tuple(drawn(own)) for _ in range(100)}) == 100
        torch.manual_seed(-1)
        assert torch.cuda.initial_seed() == (1 << 64) - 1
        refused(lambda: own.set_state(state[:3]), RuntimeError, "RNG state is wrong size")
        refused(lambda: own.set_state(state.float()), TypeError, "must be a torch.ByteTensor")
        refused(lambda: own.set_offset(3), RuntimeError, "multiple of 4")

        here = torch.Generator().manual_seed(3)
        again = pickle.loads(pickle.dumps(here))
        assert again.device.type == "cpu" and torch.equal(torch.rand(3, generator=again), torch.rand(3, generator=here))
        torch.save({"state": torch.cuda.get_rng_state(), "here": here}, "state.pt")
        if len(sys.argv) == 1:
            code = open(__file__).read().split("import copy")[0] + (
                "kept = torch.load('state.pt', weights_only=False); torch.cuda.set_rng_state(kept['state']);"
                "print(torch.rand(5, device='cuda').tolist(), torch.rand(3, generator=kept['here']).tolist())")
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            assert done.stdout.strip() == f"{drawn()} {torch.rand(3, generator=here).tolist()}", done.stdout + done.stderr

        torch.manual_seed(5)
        expected = torch.rand(2000)
        torch.manual_seed(5)
        ones, is_done = torch.ones(2000, device="cuda", requires_grad=True), threading.Event()
        def drop():
            while not is_done.is_set():
                torch.native_dropout(ones, 0.5, True)
        thread = threading.Thread(target=drop)
        thread.start()
        found = torch.cat([torch.rand(1) for _ in range(2000)])  # the CPU's stream is nobody else's
        is_done.set()
        thread.join()
        assert torch.equal(found, expected)
        dropped, mask = torch.native_dropout(ones, 0.25, True)
        torch.testing.assert_close(dropped, mask / 0.75)
        assert 1300 < mask.sum() < 1700 and torch.native_dropout(ones, 1.0, True)[0].sum() == 0
        assert torch.native_dropout(ones, 0.5, False)[1].all()
        """,
        tmp_path,
    )


def test_checkpoints_draw_what_the_forward_pass_drew(tmp_path: Path) -> None:
    run(
        """
        import torch.nn.functional as F
        from torch.utils.checkpoint import checkpoint
        for reentrant in (True, False):
            x = torch.randn(64, 64, device="cuda", requires_grad=True)
            y = checkpoint(lambda x: F.dropout(x, 0.5).square(), x, use_reentrant=reentrant)
            y.sum().backward()
            assert torch.equal(x.grad != 0, y != 0) and 1000 < (y != 0).sum() < 3000
        """,
        tmp_path,
    )


def test_what_overlaps_is_refused(tmp_path: Path) -> None:
    run(
        """
        for here in ("cpu", "cuda"):  # torch's own on the CPU is the witness
            x = torch.arange(8.0, device=here)
            bits = x.view(torch.int32)
            one = "to a single memory location"
            for call in (
                lambda: x[1:].add_(x[:-1]), lambda: torch.add(x[:-1], 1, out=x[1:]), lambda: x[1:].copy_(x[:-1]),
                lambda: torch.gather(x[:4], 0, torch.tensor([1, 2], device=here), out=x[3:5]), lambda: x[:1].expand(3).add_(1),
                lambda: bits[1:].copy_(x[:-1]), lambda: x[2:6].mul_(x[3:7]),
            ):
                refused(call, RuntimeError, one)
            assert x.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
            x.add_(x)
            x[:4].add_(x[4:])
            torch.mul(x, 2, out=x)
            torch._foreach_add_([x[:2], x[2:4]], [x[4:6], x[6:]])
            x[::2].copy_(x[1::2])
            assert x.tolist() == [44, 44, 68, 68, 20, 20, 28, 28], x
            pair = torch.ones(4, dtype=torch.complex64, device=here)
            pair[:2].add_(pair[2:].conj() * 1j)
            pair[:2].add_(pair[2:].conj())
            assert pair.tolist() == [2 + 1j, 2 + 1j, 1, 1]
        """,
        tmp_path,
    )


def test_statistics_of_memory(tmp_path: Path) -> None:
    run(
        """
        import gc
        cuda = torch.cuda
        assert cuda.memory_allocated() == cuda.max_memory_allocated() == 0
        x = torch.zeros(1000, device="cuda")  # in blocks of 512 bytes, as torch's allocator has them
        assert cuda.memory_allocated() == 4096 and cuda.memory_reserved("cuda") == 4096
        views = [x[1:], x.view(10, 100).t(), x.detach(), torch.nn.Parameter(x), torch.ones(1 << 20)]
        assert cuda.memory_allocated() == 4096
        y = x * 2
        assert cuda.memory_allocated(0) == 8192
        del y
        assert cuda.memory_allocated() == 4096 and cuda.max_memory_allocated() >= 8192
        cuda.reset_peak_memory_stats()
        assert cuda.max_memory_allocated() == cuda.memory.max_memory_allocated() == 4096
        x.resize_(10_000)
        assert cuda.memory_allocated() == 40_448 and cuda.max_memory_allocated() == 44_544  # both, while it is copied
        free, total = cuda.mem_get_info()
        assert total - free == 40_448 and torch.accelerator.memory_allocated() == 40_448
        assert cuda.memory_stats()["allocated_bytes.all.current"] == 40_448 and cuda.memory_stats()["num_ooms"] == 0
        a = torch.ones(256, 256, device="cuda", requires_grad=True)
        (a @ a).sigmoid().sum().backward()
        assert cuda.memory_allocated() == 40_448 + 2 * 256 * 1024
        sparse = torch.eye(256, device="cuda").to_sparse()
        assert cuda.memory_allocated() > 40_448 + 2 * 256 * 1024
        del x, views, a, sparse
        gc.collect()
        assert cuda.memory_allocated() == 0 == torch.zeros(0, 3, device="cuda").numel(), cuda.memory_allocated()
        """,
        tmp_path,
    )
