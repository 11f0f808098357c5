"""`torch.cuda` and what tensors on a "cuda:0" without a GPU may be given, as with one: torch's own messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.stand_in import run

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
if torch.version.cuda or torch.version.hip:
    pytest.skip("torch is built for GPUs: a mode stands in for them", allow_module_level=True)


def test_indexing_with_values_of_the_cpu(tmp_path: Path) -> None:
    run(
        """
        x, h = torch.arange(6.0, device="cuda"), torch.arange(6.0)
        i, two = torch.tensor([0, 2]), torch.ones(2)
        def put(x, i, value, accumulate=False):
            return x.clone().index_put_((i,), value, accumulate=accumulate).tolist()
        for index in (i, i.cuda()):  # indices may be on the CPU
            assert x[index].tolist() == [0, 2] and put(x, index, torch.tensor(7.0)) == [7, 1, 7, 3, 4, 5]
            assert put(x, index, two.cuda(), True) == [1, 1, 3, 3, 4, 5]
            for accumulate in (False, True):
                refused(lambda: put(x, index, two, accumulate), RuntimeError, "found at least two devices, cuda:0 and cpu")
        y = x.clone()
        y[i], y[h > 4], y[3], y[:1] = torch.ones(1), torch.tensor(9.0), torch.tensor(8.0), torch.ones(1)
        assert y.tolist() == [1, 1, 1, 8, 4, 9]
        def assign(x, value):
            x[i] = value
        refused(lambda: assign(y, two), RuntimeError, "found at least two devices")
        refused(lambda: assign(h, two.cuda()), RuntimeError, "found at least two devices")
        refused(lambda: h[i.cuda()], RuntimeError, "indices should be either on cpu or on the same device as the indexed")
        assert put(h, i, torch.tensor(7.0, device="cuda")) == [7, 1, 7, 3, 4, 5]
        for call in (lambda: x.gather(0, i), lambda: x.index_select(0, i), lambda: x.masked_fill(h > 1, 0), lambda: x.take(i)):
            refused(call, RuntimeError, "found at least two devices")
        """,
        tmp_path,
    )


def test_streams_events_types_and_properties(tmp_path: Path) -> None:
    run(
        """
        cuda = torch.cuda
        x = torch.arange(6.0, device="cuda")
        stream = cuda.Stream(priority=-1)
        assert stream.device == x.device and stream.priority == -1 and stream != cuda.current_stream()
        with cuda.stream(stream):
            assert cuda.current_stream() == stream
            with cuda.Stream() as inner:
                assert cuda.current_stream() == inner != stream
            assert cuda.current_stream() == stream
        assert cuda.current_stream() == cuda.default_stream() and cuda.current_stream().cuda_stream == 0
        x.record_stream(stream)
        stream.wait_stream(cuda.current_stream())
        assert isinstance(stream, torch.Stream) and len({stream, cuda.default_stream(), cuda.current_stream()}) == 2
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        refused(lambda: start.elapsed_time(end), ValueError, "must be recorded before")
        start.record()
        stream.record_event(end)
        assert 0 <= start.elapsed_time(end) < 1e4 and end.query()
        refused(lambda: start.elapsed_time(cuda.Event()), ValueError, "enable_timing=True")

        made = cuda.FloatTensor([1, 2])
        assert made.is_cuda and made.tolist() == [1, 2] and cuda.HalfTensor(2, 3).shape == (2, 3)
        assert cuda.LongTensor(made.shape).dtype == torch.long and cuda.FloatTensor(made) is made
        assert isinstance(made, cuda.FloatTensor) and not isinstance(made.cpu(), cuda.FloatTensor)
        assert not isinstance(made, cuda.LongTensor) and made.type() == "torch.cuda.FloatTensor"
        assert made.cpu().type(cuda.DoubleTensor).type() == "torch.cuda.DoubleTensor" and made.type(torch.FloatTensor).is_cpu
        refused(lambda: cuda.LongTensor(made), TypeError, "got torch.cuda.FloatTensor")
        torch.set_default_tensor_type(cuda.DoubleTensor)
        assert torch.ones(1).is_cuda and torch.ones(1).dtype == torch.double
        torch.set_default_tensor_type("torch.FloatTensor")
        assert torch.ones(1).is_cpu and torch.ones(1).dtype == torch.float
        assert x[2:].__cuda_array_interface__["data"] == (x.data_ptr() + 8, False)

        properties = cuda.get_device_properties("cuda:0")
        assert (properties.major, properties.minor) == cuda.get_device_capability(0) == (9, 0) and properties.warp_size == 32
        assert properties.multi_processor_count > 0 and properties.max_threads_per_block == 1024
        assert properties.shared_memory_per_block_optin > properties.shared_memory_per_block
        assert properties.total_memory == cuda.mem_get_info()[1] and properties.name == cuda.get_device_name()
        refused(lambda: cuda.get_device_properties(1), AssertionError, "Invalid device id")
        refused(lambda: cuda.set_device("cuda:1"), RuntimeError, "invalid device ordinal")
        with cuda.nvtx.range("part"):
            cuda.set_device(0)
        with cuda.amp.autocast():
            assert (x.view(2, 3) @ x.view(3, 2)).dtype == torch.float16
        parameter = torch.nn.Parameter(x.clone())
        scaler, step = torch.amp.GradScaler("cuda"), torch.optim.SGD([parameter], 0.25)
        scaler.scale(parameter.square().sum()).backward()
        scaler.step(step)
        assert torch.equal(parameter, x / 2)
        pinned = torch.ones(2).pin_memory()
        assert pinned.to("cuda", non_blocking=True).is_cuda and pinned.is_pinned()
        refused(x.pin_memory, RuntimeError, "only dense CPU tensors can be pinned")
        """,
        tmp_path,
    )


def test_streams_of_the_device_and_one_too_many(tmp_path: Path) -> None:
    run(
        """
        cuda = torch.cuda
        default = cuda.current_stream()
        streams = [cuda.Stream() for _ in range(3)]
        assert len({each.cuda_stream for each in streams} | {0, 1, 2}) == 6
        for stream in streams:
            with cuda.stream(stream):
                assert torch.from_dlpack(torch.ones(3, device="cuda")).tolist() == [1, 1, 1]
        stream, context = streams[0], cuda.stream(streams[1])
        with stream, stream, context, context:
            assert cuda.current_stream() == streams[1]
        assert cuda.current_stream() == default
        start, end = torch.Event("cuda", enable_timing=True), torch.Event("cuda", enable_timing=True)
        start.record()
        end.record(stream)
        end.synchronize()
        start.wait(stream)
        assert start.query() and 0 < start.elapsed_time(end) < 1e4 and end.elapsed_time(start) < 0
        for call in (
            lambda: torch.empty(1 << 45, device="cuda"), lambda: torch.zeros(1 << 36, device="cuda"),
            lambda: torch.empty_strided((1 << 20, 2), (1 << 20, 1), device="cuda"),
            lambda: torch.ones(1, device="cuda").expand(1 << 45).contiguous(),
            lambda: torch.ones(1, device="cuda").resize_(1 << 45),
        ):
            refused(call, cuda.OutOfMemoryError, "CUDA out of memory. Tried to allocate")
        for other in (1, "cuda:1", torch.device("cuda", 1)):
            def enter():
                with cuda.device(other):
                    raise AssertionError
            refused(enter, RuntimeError, "CUDA error: invalid device ordinal")
        for one in (0, "cuda", torch.device("cuda:0"), None, -1):
            with cuda.device(one):
                assert cuda.current_device() == 0
        with cuda.device_of(torch.ones(1, device="cuda")):
            assert torch.cuda.is_initialized()
        """,
        tmp_path,
    )


def test_cells_of_grus_and_what_is_not_there(tmp_path: Path) -> None:
    run(
        """
        torch.manual_seed(0)
        for bias in (True, False):
            net, steps, found = torch.nn.GRU(3, 4, num_layers=2, bias=bias), torch.randn(5, 2, 3), []
            for device in ("cpu", "cuda"):
                net.to(device).zero_grad()
                result = net(steps.to(device))[0]
                result.square().sum().backward()
                found.append([result.detach().cpu(), *(each.grad.cpu().clone() for each in net.parameters())])
            torch.testing.assert_close(*found)
        x = torch.arange(6.0, device="cuda")
        jagged = torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged)
        assert [each.tolist() for each in (jagged * 2).unbind()] == [[0, 2, 4, 6, 8, 10], [0, 2]]
        """,
        tmp_path,
    )


def test_numbers_beside_tensors_without_axes_decide_no_dtype(tmp_path: Path) -> None:
    run(
        """
        of_integers = [
            lambda x: x & 3, lambda x: 3 & x, lambda x: x | 4, lambda x: x ^ 1, lambda x: x << 1, lambda x: 9 >> x,
            lambda x: 1 << x, lambda x: x.clone().bitwise_and_(2), lambda x: torch.bitwise_or(x, 8, out=torch.zeros_like(x)),
        ]
        of_all = [
            lambda x: x % 2, lambda x: 7 % x, lambda x: torch.fmod(x, 2), lambda x: torch.where(x > 0, x, 1), lambda x: x == 3,
            lambda x: x * 2 - 1, lambda x: x + 1.5, lambda x: torch.copysign(x, -1), lambda x: torch.xlogy(2, x),
        ]
        for dtype in (torch.int32, torch.int16, torch.float32, torch.float16):
            for shape in ((), (2,)):
                x = torch.full(shape, 3, dtype=dtype)
                for i, call in enumerate(of_all if dtype.is_floating_point else of_integers + of_all):
                    on_cpu, on_cuda = call(x), call(x.cuda())
                    assert on_cuda.is_cuda and on_cuda.dtype == on_cpu.dtype, (i, dtype, shape)
                    assert on_cuda.tolist() == on_cpu.tolist(), (i, dtype, shape)
        """,
        tmp_path,
    )
