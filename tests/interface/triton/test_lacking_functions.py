"""What torch has for GPUs alone, on the device that stands for one: against the CPU's own functions, in float64."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.stand_in import run

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
if torch.version.cuda or torch.version.hip:
    pytest.skip("torch is built for GPUs: a mode stands in for them", allow_module_level=True)


def test_attention_by_the_names_of_kernels_for_gpus(tmp_path: Path) -> None:
    run(
        """
        aten, close = torch.ops.aten, torch.testing.assert_close
        torch.manual_seed(0)

        def exact(q, k, v, mask, gradient):
            q, k, v = (each.detach().cpu().double().requires_grad_() for each in (q, k, v))
            wide = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
            found = torch.nn.functional.scaled_dot_product_attention(q, *wide, attn_mask=mask)
            found.backward(gradient.cpu().double())
            return found, q.grad, k.grad, v.grad

        def agree(found, expected, rows=False):
            for one, other in zip(found, expected):
                one = one.transpose(1, 2) if rows else one
                assert one.is_cuda
                close(one.cpu().double(), other, rtol=1e-4, atol=1e-5)

        q, gradient = torch.randn(2, 4, 10, 8, device="cuda"), torch.randn(2, 4, 10, 8, device="cuda")
        k, v = torch.randn(2, 2, 13, 8, device="cuda"), torch.randn(2, 2, 13, 8, device="cuda")
        rows = [each.transpose(1, 2) for each in (q, k, v)]
        distance = torch.arange(13) - torch.arange(10)[:, None] - 3
        near = (distance >= -2) & (distance <= 1)
        masks = {(True, None, None): distance <= 0, (False, None, None): distance < 99, (False, 2, 1): near}
        for (causal, left, right), mask in masks.items():
            named = {"window_size_left": left, "window_size_right": right}
            result, sums, seeds, _, _ = aten._flash_attention_forward(*rows, None, None, 10, 13, 0.0, causal, False, **named)
            found = aten._flash_attention_backward(
                gradient.transpose(1, 2), *rows, result, sums, None, None, 10, 13, 0.0, causal, seeds, seeds, **named
            )
            assert sums.shape == (2, 4, 10) and seeds.shape == (2,)
            agree([result, *found], exact(q, k, v, mask, gradient), rows=True)

        # three sequences in one tensor, of which one has no row
        q, k, v, gradient = (torch.randn(12, 2, 8, device="cuda") for _ in range(4))
        ends = torch.tensor([0, 5, 5, 12], dtype=torch.int32, device="cuda")
        result, sums, *_ = aten._flash_attention_forward(q, k, v, ends, ends, 7, 7, 0.0, True, False)
        found = aten._flash_attention_backward(gradient, q, k, v, result, sums, ends, ends, 7, 7, 0.0, True, seeds, seeds)
        efficient = aten._efficient_attention_forward(q[None], k[None], v[None], None, ends, ends, 7, 7, 0.0, 1, True)
        close(efficient[0][0], result)
        assert efficient[1].shape == (3, 2, 32) and efficient[4:] == (7, 7)
        for low, high in ((0, 5), (5, 12)):
            part = slice(low, high)
            mask = torch.ones(high - low, high - low).tril().bool()
            *given, of_result = (each[part].transpose(0, 1)[None] for each in (q, k, v, gradient))
            agree([each[part].transpose(0, 1)[None] for each in (result, *found)], exact(*given, mask, of_result))

        q, k, v, gradient = (torch.randn(1, 2, 9, 8, device="cuda") for _ in range(4))
        bias = torch.randn(1, 1, 9, 9, device="cuda")
        mask = bias.cpu().double().masked_fill(~torch.ones(9, 9).tril().bool(), -torch.inf)
        result, sums, *seeds = aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, True)
        assert sums.shape == (1, 2, 32)
        found = aten._scaled_dot_product_efficient_attention_backward(
            gradient, q, k, v, bias, result, sums, *seeds, 0.0, [True] * 4, True
        )
        agree([result, *found[:3]], exact(q, k, v, mask, gradient))
        assert found[3].shape == bias.shape
        result, sums, *rest = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)
        backward = aten._scaled_dot_product_flash_attention_backward
        found = backward(gradient, q, k, v, result, sums, *rest[:4], 0.0, True, *rest[4:6])
        agree([result, *found], exact(q, k, v, torch.ones(9, 9).tril().bool(), gradient))
        unseen = aten._efficient_attention_forward(
            *(each.transpose(1, 2) for each in (q, k[:, :, :4], v[:, :, :4])), None, None, None, None, None, 0.0, 2, True
        )
        assert (unseen[0][:, :5] == 0).all() and (unseen[1][:, :, :5] == torch.inf).all()
        refused(lambda: aten._scaled_dot_product_flash_attention(q, k, v, 0.5), NotImplementedError, "fix: dropout_p=0.0")
        """,
        tmp_path,
    )


def test_sums_of_16_bits_and_other_functions(tmp_path: Path) -> None:
    run(
        """
        aten, close = torch.ops.aten, torch.testing.assert_close
        torch.manual_seed(0)

        def once_rounded(call, *args, beyond=0.52):
            found = call(*args)
            exact = call(*(each.cpu().double() if torch.is_tensor(each) and each.is_floating_point() else
                           each.cpu() if torch.is_tensor(each) else each for each in args))
            for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, exact))):
                error = (one.cpu().double() - other).abs() / other.abs().clamp_min(other.abs().mean() / 2)
                assert error.max() <= beyond * torch.finfo(one.dtype).eps, (error.max(), one.dtype)

        for dtype in (torch.bfloat16, torch.float16):
            x = torch.randn(400, 300, device="cuda").to(dtype)
            weight, target = torch.rand(300, device="cuda").to(dtype), torch.randint(300, (400,), device="cuda")
            once_rounded(lambda x: torch.prod(1 + x.sign() * 0.125, 1) + 0, x[:, :40])
            once_rounded(lambda x, w, t: torch.nn.functional.nll_loss(x, t, w), x, weight, target)
            once_rounded(lambda x: torch.log_softmax(x, 1), x)
            once_rounded(lambda g, t: aten.embedding_dense_backward(g, t % 5, 5, -1, False), x, target)
            statistics = torch.zeros(400, 1, device="cuda"), torch.ones(400, 1, device="cuda")
            once_rounded(
                lambda g, x, m, r, w: aten.native_layer_norm_backward(g, x, [300], m, r, w, w, [False, True, True])[1:],
                x, x.flip(0), *statistics, weight,
            )
            dtypes = [each.dtype for each in aten.native_layer_norm(x, [300], weight, weight, 1e-5)]
            assert dtypes == [dtype, torch.float32, torch.float32]
        assert torch.prod(x, 1, dtype=torch.float64).dtype == torch.float64

        matrix = torch.randn(2, 3, 5, 4, dtype=torch.float64, device="cuda")
        matrix.diagonal(dim1=-2, dim2=-1).add_(9)
        both, pivots = torch.linalg.lu_factor(matrix, pivot=False)
        lower, upper = both.tril(-1) + torch.eye(5, 4, dtype=both.dtype, device="cuda"), both[..., :4, :].triu()
        close(lower @ upper, matrix)
        assert pivots.tolist() == [[[1, 2, 3, 4]] * 3] * 2
        out = torch.empty(0, dtype=both.dtype, device="cuda"), pivots.new_empty(0), pivots.new_empty(0)
        torch.linalg.lu_factor_ex(matrix, pivot=False, out=out)
        close(out[0], both)
        matrix[1, 2, 0, 0] = 0
        assert torch.linalg.lu_factor_ex(matrix, pivot=False).info.tolist() == [[0, 0, 0], [0, 0, 1]]
        refused(lambda: torch.linalg.lu_factor(matrix, pivot=False), RuntimeError, "lu_factor")
        torch.linalg.lu_factor(matrix)

        assert torch.median(torch.tensor([True, False, True], device="cuda")).item() is True
        none = torch.median(torch.empty(0, 3, dtype=torch.bool, device="cuda"), dim=1)
        assert none.values.shape == none.indices.shape == (0,) and none.values.dtype == torch.bool
        refused(lambda: torch.median(torch.ones(2, 2, dtype=torch.bool, device="cuda"), 1), NotImplementedError, "median")

        table, of = torch.randn(9, 4, device="cuda", requires_grad=True), torch.tensor([1, 8, 8, 3, 0], device="cuda")
        starts = torch.tensor([0, 0, 3], device="cuda")
        result, bags, counts, _ = aten._embedding_bag(table, of, starts)
        assert bags.tolist() == [1, 1, 1, 2, 2] and counts.tolist() == [0, 3, 2]
        close(result, torch.stack([table[:0].sum(0), table[[1, 8, 8]].sum(0), table[[3, 0]].sum(0)]))

        x, w, b = torch.randn(4, 3, 5, device="cuda"), torch.rand(3, device="cuda"), torch.rand(3, device="cuda")
        mean, variance = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
        found, *kept, reserve = aten.cudnn_batch_norm(x, w, b, mean, variance, True, 0.1, 1e-5)
        leaf = x.clone().requires_grad_()
        expected = torch.nn.functional.batch_norm(leaf, mean.clone() * 0, variance * 0 + 1, w, b, True)
        close(found, expected.detach())
        assert mean.abs().sum() > 0
        expected.backward(x)
        close(aten.cudnn_batch_norm_backward(x, x, w, mean, variance, *kept, 1e-5, reserve)[0], leaf.grad)
        """,
        tmp_path,
    )


def test_nested_tensors(tmp_path: Path) -> None:
    run(
        """
        close = torch.testing.assert_close
        parts, weight = [torch.randn(3, 4), torch.randn(2, 4)], torch.randn(5, 4)
        here = torch.nested.nested_tensor(parts)
        there = here.cuda().requires_grad_()
        for call in (
            lambda x: x * 2 + x,
            lambda x: x.softmax(-1),
            lambda x: torch.nn.functional.linear(x, weight.to(x.device)),
            lambda x: torch.bmm(x, x.transpose(1, 2)),
        ):
            for one, other in zip(call(there).unbind(), call(here).unbind(), strict=True):
                assert one.is_cuda
                close(one.detach().cpu(), other)
        padded = there.to_padded_tensor(7.0)
        assert padded[1, 2].tolist() == [7] * 4
        padded.sum().backward()
        assert all(each.is_cuda and (each == 1).all() for each in there.grad.unbind())
        assert [each.device.type for each in there.cpu().unbind()] == ["cpu"] * 2
        """,
        tmp_path,
    )
