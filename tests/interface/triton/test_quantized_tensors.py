"""Quantized tensors on a "cuda:0" without a GPU do what those on the CPU do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.stand_in import run

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
if torch.version.cuda or torch.version.hip:
    pytest.skip("torch is built for GPUs: a mode stands in for them", allow_module_level=True)


def test_what_the_cpu_computes(tmp_path: Path) -> None:
    run(
        """
        import copy
        x = torch.linspace(-3, 3, 12).reshape(3, 4)
        of_rows = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 3, -2]), 0, torch.qint8
        on = lambda device, each: each.to(device) if isinstance(each, torch.Tensor) else each
        def plain(each):
            if isinstance(each, torch.Tensor):
                return each.dtype, each.tolist()
            return [plain(value) for value in each] if isinstance(each, list) else each
        makers = [
            lambda device: torch.quantize_per_tensor(x, 0.05, 4, torch.quint8).to(device),
            lambda device: torch.quantize_per_tensor(x.to(device), 0.1, 0, torch.qint8),
            lambda device: torch.quantize_per_tensor(x.to(device), 0.1, 0, torch.qint32),
            lambda device: torch.quantize_per_tensor_dynamic(x.to(device), torch.qint8, False),
            lambda device: torch.quantize_per_channel(x.to(device), *(on(device, each) for each in of_rows)),
        ]
        calls = [
            lambda q: q.dequantize(), lambda q: q.int_repr(), lambda q: q.qscheme(), lambda q: q.clone().dequantize(),
            lambda q: copy.deepcopy(q).int_repr(), lambda q: q.cpu().dequantize(), lambda q: q.contiguous() is q,
            lambda q: (q.shape, q.stride(), q.dtype, q.element_size(), q.is_quantized), lambda q: torch.equal(q, q.clone()),
        ]
        of_tensors = [
            lambda q: (q.q_scale(), q.q_zero_point()), lambda q: q[1].dequantize(), lambda q: q[1:, ::2].int_repr(),
            lambda q: q.t().stride(), lambda q: torch.cat([q, q]).int_repr(), lambda q: q.view(-1).dequantize(),
            lambda q: q.topk(2)[1], lambda q: [each.int_repr() for each in q.unbind()], lambda q: q.eq(q.clone()),
        ]
        for make in makers:
            a, b = make("cpu"), make("cuda")
            assert isinstance(b, torch.Tensor) and b.device == torch.device("cuda", 0) and b.cuda() is b and b.cpu().is_cpu
            for call in calls + (of_tensors if make is not makers[-1] else []):
                expected, found = call(a), call(b)
                assert plain(found) == plain(expected), (expected, found)
        scales = makers[-1]("cuda").q_per_channel_scales()
        assert scales.is_cuda and scales.tolist() == of_rows[0].double().tolist()
        assert "device='cuda:0'" in repr(b) and b.dequantize().is_cuda and b.int_repr().is_cuda
        """,
        tmp_path,
    )


def test_writing_and_what_has_no_memory(tmp_path: Path) -> None:
    run(
        """
        import pickle
        x = torch.arange(6.0)
        q = torch.quantize_per_tensor(x, 0.5, 0, torch.qint8).cuda()
        row = q.view(2, 3)[1]
        assert q.copy_(x.cuda() + 1) is q and row.dequantize().tolist() == [4, 5, 6]  # views share what they are of
        assert row.fill_(0.0) is row and q.dequantize().tolist() == [1, 2, 3, 0, 0, 0]
        back = torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)
        assert back.copy_(q) is back and back.is_cpu and back.dequantize().tolist() == [1, 2, 3, 0, 0, 0]
        made = torch._empty_affine_quantized((3,), scale=2.0, zero_point=1, dtype=torch.quint8, device="cuda")
        assert made.is_cuda and made.q_scale() == 2 and torch.empty_like(q).is_cuda
        refused(lambda: q.eq(back), RuntimeError, "found at least two devices, cuda:0 and cpu")
        refused(lambda: x.cuda().copy_(q), RuntimeError, "Copying from quantized Tensor to non-quantized Tensor is not allowed")
        refused(lambda: q.resize_(3), NotImplementedError, "keeps its shape; fix: take a view of it")
        refused(lambda: q.data_ptr(), NotImplementedError, "fix: pass tensor.int_repr(), its scale and its zero point")
        refused(lambda: q.untyped_storage(), NotImplementedError, "fix: take that of tensor.int_repr()")
        refused(lambda: pickle.dumps(q), NotImplementedError, "fix: save tensor.cpu()")
        """,
        tmp_path,
    )
