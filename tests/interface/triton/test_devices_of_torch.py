"""Tensors on "cuda:0" as torch's own where there is no GPU: what is on which device, and that the CPU's values come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.stand_in import run

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
if torch.version.cuda or torch.version.hip:
    pytest.skip("torch is built for GPUs: a mode stands in for them", allow_module_level=True)

def test_every_tensor_is_where_it_was_made(tmp_path: Path) -> None:
    run(
        """
        import copy, io, numpy
        x = torch.arange(6.0, device="cuda")
        for here in (torch.ones(3), x.cpu(), x.to("cpu"), torch.from_numpy(numpy.ones(2)), torch.tensor([1, 2])):
            assert here.device == torch.device("cpu") and here.is_cpu and not here.is_cuda
        kept = io.BytesIO()
        torch.save(x, kept)
        kept.seek(0)
        loaded = torch.load(kept)
        there = [torch.ones(3, device="cuda:0"), torch.ones(3).cuda(), torch.ones(3).to(0), torch.ones(3, device=0), x[1:],
                 x + 1, x.view(2, 3).t(), torch.rand_like(x), x.new_zeros(2), copy.deepcopy(x), loaded, x.float().half(),
                 torch.nn.Linear(2, 2).to("cuda").weight, torch.zeros(2).to(x), x.to(torch.float8_e4m3fn), x > 2, x.sum()]
        for each in there:
            assert each.device == torch.device("cuda", 0) and each.is_cuda and each.get_device() == 0, each
            assert type(each) in (torch.Tensor, torch.nn.Parameter)
        assert loaded.tolist() == x.tolist() == [0, 1, 2, 3, 4, 5]
        assert x.to("cuda") is x and "device='cuda:0'" in repr(x)
        refused(lambda: x.numpy(), TypeError, "cpu()")
        refused(lambda: torch.ones(2, device="cuda:1"), RuntimeError, "invalid device ordinal")
        refused(lambda: torch.testing.assert_close(x, x.cpu()), AssertionError, "device")
        """,
        tmp_path,
    )


def test_tensors_of_two_devices_do_not_meet(tmp_path: Path) -> None:
    run(
        """
        there, here = torch.ones(3, device="cuda"), torch.ones(3)
        one = "same device"
        for call in (
            lambda: there + here, lambda: torch.cat([there, here]), lambda: there.add_(here), lambda: torch.dot(here, there),
            lambda: torch.where(there > 0, there, here), lambda: torch.add(here, here, out=there), lambda: here.mul_(there),
            lambda: torch.nn.functional.linear(there, torch.ones(2, 3)), lambda: torch.equal(there, here),
        ):
            refused(call, RuntimeError, one)
        refused(lambda: here[there > 0], RuntimeError, "same device as the indexed tensor (cpu)")
        # what a GPU does take
        assert (there + torch.tensor(2.0)).tolist() == [3, 3, 3] and (there * 2).is_cuda
        assert there[torch.tensor([0, 2])].tolist() == [1, 1] and there[here > 0].is_cuda
        assert here.copy_(there * 5).tolist() == [5, 5, 5] and there.copy_(here).tolist() == [5, 5, 5]
        """,
        tmp_path,
    )


def test_values_are_the_cpus(tmp_path: Path) -> None:
    run(
        """
        import torch.nn.functional as F, torch.utils.checkpoint
        torch.manual_seed(1)
        x, y, p = torch.randn(4, 6), torch.randn(4, 6), torch.randn(2, 4, 8, 8)
        w, c = torch.randn(4, 1, 3, 3), torch.randn(5, dtype=torch.complex64)
        calls = [
            lambda m: m(x) @ m(y).t(), lambda m: m(x).softmax(-1), lambda m: m(x).sort(1).values, lambda m: m(x).topk(2, 0)[1],
            lambda m: F.layer_norm(m(x), (6,)), lambda m: F.conv2d(m(p), m(w), groups=4), lambda m: m(c).conj() * m(c) + 1,
            lambda m: F.scaled_dot_product_attention(m(p), m(p), m(p)), lambda m: torch.linalg.svd(m(x))[1],
            lambda m: m(c).real,
            lambda m: torch.fft.fft(m(x)), lambda m: m(x)[1:, ::2].contiguous(), lambda m: m(x).view(torch.int32) & 7,
            lambda m: torch.stack(torch.split(m(x), 2)), lambda m: m(x).to(torch.float8_e5m2).float(), lambda m: m(x).var(1),
            lambda m: torch.einsum("ij,kj->ik", m(x), m(y)), lambda m: F.gelu(m(x).bfloat16()), lambda m: m(x).nonzero(),
            lambda m: F.softmax(m(x).half(), 1, dtype=torch.float32), lambda m: m(x).masked_fill(m(y) > 0, 3).cumsum(0),
            lambda m: torch.histc(m(x), 4), lambda m: F.max_pool2d(m(p), 2), lambda m: m(x).unique(),
            lambda m: m(x).int().bitwise_and_(1),
            lambda m: torch.as_strided_copy(m(x)[1:], (2,), (3,), 20), lambda m: F.interpolate(m(p), scale_factor=2.0),
        ]
        for i, call in enumerate(calls):
            there, here = call(lambda tensor: tensor.cuda()), call(lambda tensor: tensor)
            assert there.is_cuda and there.stride() == here.stride(), (i, there.stride(), here.stride())
            torch.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=1e-6, msg=f"call {i}")
        torch.manual_seed(3)
        drawn = torch.randn(5, device="cuda")
        torch.manual_seed(3)
        assert torch.equal(torch.randn(5, device="cuda"), drawn) and F.dropout(torch.ones(99, device="cuda")).sum() > 0
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (x.cuda() @ y.cuda().t()).dtype == torch.bfloat16
        """,
        tmp_path,
    )


def test_memory_is_shared_and_grows(tmp_path: Path) -> None:
    run(
        """
        x = torch.zeros(4, device="cuda")
        part = x[1:3]
        part += 5
        assert x.tolist() == [0, 5, 5, 0] and part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert part.data_ptr() == x.data_ptr() + 4 and part.storage_offset() == 1 and x.untyped_storage().nbytes() == 16
        x.view(2, 2).t()[1, 0] = 7
        assert x.tolist() == [0, 7, 5, 0]
        out = torch.empty(0, device="cuda")
        assert torch.add(x, 1, out=out) is out and out.tolist() == [1, 8, 6, 1] and out.is_cuda
        assert torch.max(x.view(2, 2), 1, out=(out, torch.empty(0, dtype=torch.long, device="cuda")))[0] is out
        assert out.tolist() == [7, 5]
        grown = torch.ones(1, device="cuda")
        assert torch.add(x, 1, out=grown).tolist() == [1, 8, 6, 1] and grown.is_cuda
        assert x.resize_(6).shape == (6,) and x[:4].tolist() == [0, 7, 5, 0] and x.resize_(2).tolist() == [0, 7]
        assert x.set_(out).tolist() == [7, 5] and x.data_ptr() == out.data_ptr()
        x.unsqueeze_(0).t_()
        assert x.shape == (2, 1)
        sparse = torch.sparse_coo_tensor([[0, 1, 1], [1, 0, 0]], [1.0, 2.0, 3.0], (2, 2), device="cuda")
        assert sparse.is_cuda and (sparse * 2).coalesce().values().is_cuda
        assert sparse.to_dense().tolist() == [[0, 1], [5, 0]] and sparse.cpu().to_dense().is_cpu
        rows = torch.eye(2, device="cuda", dtype=torch.float64).to_sparse_csr()
        assert rows.is_cuda and rows.values().is_cuda and rows.to_dense().tolist() == [[1, 0], [0, 1]]
        assert rows.cpu().is_cpu and rows.dtype == rows.cpu().dtype == torch.float64
        assert rows.clone().copy_(rows).to_dense().tolist() == [[1, 0], [0, 1]]
        # a copy is one
        copied = x.clone()
        copied.zero_()
        assert x.flatten().tolist() == [7, 5]
        """,
        tmp_path,
    )


def test_memory_is_given_back(tmp_path: Path) -> None:
    run(
        """
        x = torch.ones(1 << 20, device="cuda", requires_grad=True)
        def used():
            return int(open("/proc/self/statm").read().split()[1]) >> 8
        def work():
            for _ in range(30):
                y = (x * 2 + 1).view(1024, 1024)[1:].t().contiguous()
                (y.cpu().cuda() * y).sum().backward()
                x.grad = None
                pinned = torch.empty(1 << 20, pin_memory=True)
        work()
        before = used()
        work()
        work()
        assert used() < before + 100, (before, used())
        """,
        tmp_path,
    )


def test_backward_passes_are_torchs(tmp_path: Path) -> None:
    run(
        """
        torch.manual_seed(2)
        from torch.nn import GELU, Conv2d, Flatten, Linear
        net = torch.nn.Sequential(Conv2d(4, 4, 3, groups=4), GELU(), Flatten(), Linear(144, 3))
        x, target = torch.randn(2, 4, 8, 8), torch.tensor([0, 2])
        def gradients(device):
            net.to(device).zero_grad()
            torch.nn.functional.cross_entropy(net(x.to(device)), target.to(device)).backward()
            return [each.grad.clone() for each in net.parameters()]
        for there, here in zip(gradients("cuda"), gradients("cpu"), strict=True):
            assert there.is_cuda and here.is_cpu
            torch.testing.assert_close(there.cpu(), here)
        lstm, steps = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)
        found = []
        for device in ("cuda", "cpu"):
            lstm.to(device).zero_grad()
            lstm(steps.to(device))[0].square().sum().backward()
            found.append([each.grad.cpu() for each in lstm.parameters()])
        torch.testing.assert_close(*found)
        parameter = torch.nn.Parameter(torch.ones(3, device="cuda"))
        for make in (torch.optim.AdamW, torch.optim.SGD):
            step = make([parameter], lr=0.1)
            (parameter ** 2).sum().backward()
            step.step()
        assert parameter.is_cuda and (parameter < 1).all()
        y = parameter * 2
        z = y.exp()
        z.add_(1)
        refused(lambda: z.sum().backward(), RuntimeError, "modified by an inplace operation")
        seen = []
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 3
            @staticmethod
            def backward(ctx, gradient):
                seen.append(gradient.device.type)
                return gradient * 3
        out = torch.utils.checkpoint.checkpoint(Scale.apply, parameter, use_reentrant=False)
        assert torch.autograd.grad(out.sum(), parameter)[0].tolist() == [3, 3, 3] and seen == ["cuda"]
        """,
        tmp_path,
    )


def test_implementations_fall_back_to_the_cpus_own(tmp_path: Path) -> None:
    run(
        """
        calls = []
        def eigenvalues(x):
            calls.append(x.device.type)
            return torch.linalg.eigvals(x.cpu()).to(x.device)
        def copied(x, source, non_blocking=False):
            calls.append("copy")
            keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
            return torch.ops.aten.copy_.default.redispatch(keys, x, source, non_blocking)
        library = torch.library.Library("aten", "IMPL")
        library.impl("linalg_eigvals", eigenvalues, "CUDA")
        x = torch.diag(torch.tensor([1.0, 2.0])).cuda()
        assert sorted(torch.linalg.eigvals(x).real.tolist()) == [1, 2] and calls == ["cuda"]
        assert torch.linalg.eigvals(x.cpu()).is_cpu and len(calls) == 1
        library.impl("copy_", copied, "CUDA")
        assert torch.zeros(2).copy_(torch.ones(2, device="cuda")).tolist() == [1, 1] and calls[-1] == "copy"
        own = torch.library.Library("suite", "FRAGMENT")
        own.define("triple(Tensor x) -> Tensor")
        own.impl("triple", lambda x: 3 * x, "CPU")
        assert torch.ops.suite.triple(torch.ones(1)).tolist() == [3]
        refused(lambda: torch.ops.suite.triple(x), NotImplementedError, "'CUDA' backend")
        """,
        tmp_path,
    )


def test_kernels_are_given_what_is_on_cuda(tmp_path: Path) -> None:
    run(
        """
        import triton
        import triton.language as tl
        from joinery.interface.triton.activation import activate
        from joinery.interface.triton.testing.suites import become_cuda

        activate("native", None, "sm_90a", "strict", True)
        become_cuda()

        @triton.jit
        def double(x, y, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

        x = torch.arange(8.0, device="cuda")
        y = torch.zeros(8, device="cuda")
        double[(1,)](x[2:], y, 4, BLOCK=8)
        assert y.tolist() == [4, 6, 8, 10, 0, 0, 0, 0]
        pinned = torch.zeros(8, pin_memory=True)
        double[(1,)](x, pinned[4:], 4, BLOCK=8)
        assert pinned.tolist() == [0, 0, 0, 0, 0, 2, 4, 6] and pinned[1:].is_pinned() and not torch.ones(1).is_pinned()
        refused(lambda: double[(1,)](x.cpu(), y, 4, BLOCK=8), ValueError, "cannot be accessed from Triton (cpu tensor?)")
        refused(lambda: double[(1,)](x, y, 16, BLOCK=16), Exception, "element 8 of array 'x'")

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, gradient):
                found = torch.zeros_like(gradient)
                double[(1,)](gradient.contiguous(), found, 8, BLOCK=8)
                return found
        x.requires_grad_()
        Double.apply(x).sum().backward()
        assert x.grad.tolist() == [2] * 8
        """,
        tmp_path,
    )
