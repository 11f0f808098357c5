"""Models that `torch.export` traced give as graphs what PyTorch computes, and what has no form is refused by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils import _pytree  # noqa: E402

from ...support.torch_models import BOUND, MODELS, made  # noqa: E402

TRANSFORMERS = {"bert", "gpt2", "llama", "vit", "t5"}
AUTO = torch.export.Dim.AUTO


def exported(module: nn.Module, *inputs: Any, **options: Any) -> Any:
    with torch.no_grad():
        return torch.export.export(module.eval(), inputs, **options)


def assert_agrees(model: Any, module: nn.Module, inputs: tuple[Any, ...], bound: float = BOUND) -> None:
    with torch.no_grad():
        wanted = [leaf.numpy() for leaf in _pytree.tree_leaves(module(*inputs)) if isinstance(leaf, torch.Tensor)]
    got = model(*[each.numpy() for each in inputs])
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound * max(1.0, float(np.abs(theirs).max(initial=0))))


SLOW = [pytest.param(name, marks=pytest.mark.slow) if name in ("bert", "t5", "llama") else name for name in sorted(MODELS)]


@pytest.mark.parametrize("name", SLOW)
def test_models_agree_with_torch(name: str) -> None:
    if name in TRANSFORMERS:
        pytest.importorskip("transformers")
    module, inputs = made(name)
    graph = jn.from_exported(exported(module, *inputs))
    assert_agrees(jn.compile(graph, "cpu"), module, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "t5"])
def test_dynamic_sizes_serve_every_size_in_their_range(name: str) -> None:
    pytest.importorskip("transformers")
    module, inputs = made(name)
    axes: Any = [{0: AUTO, 1: AUTO} for _ in inputs]
    axes = {"tokens": axes[0], "targets": axes[1]} if name == "t5" else tuple(axes)
    model = jn.compile(jn.from_exported(exported(module, *inputs, dynamic_shapes=axes)), "cpu")
    for batch, length in ((2, 9), (3, 5), (5, 16)):
        tokens = torch.randint(0, 50, (batch, length))
        given = {"bert": (tokens, torch.ones_like(tokens)), "t5": (tokens, tokens[:, 1:].contiguous())}.get(name, (tokens,))
        assert_agrees(model, module, given)


class Named(nn.Module):
    def forward(self, first: Any, pair: Any, options: Any) -> Any:
        total = first + pair[0] * pair[1] - options["shift"]
        return {"total": total, "parts": (total[:1], [total * 2]), "nothing": None, "count": 3}


def test_inputs_and_outputs_have_clear_names() -> None:
    x = torch.arange(4.0)
    graph = jn.from_exported(exported(Named(), x, (x, x), {"shift": x}))
    assert [symbol.name for symbol in graph.inputs] == ["first", "pair_0", "pair_1", "options_shift"]
    assert graph.output_names == ("total", "parts.0", "parts.1.0", "count")
    total, first, twice, count = jn.evaluate(graph, *[np.arange(4, dtype=np.float32)] * 4)
    assert total.tolist() == [0, 1, 4, 9]
    assert first.tolist() == [0]
    assert twice.tolist() == [0, 2, 8, 18]
    assert int(count) == 3


def test_parameters_are_shared_and_tied_ones_are_one_weight() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.table.weight
            self.gain = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))

        def forward(self, tokens: Any) -> Any:
            return self.head(self.table(tokens) * self.gain)

    module = Tied()
    graph = jn.from_exported(exported(module, torch.tensor([1, 2])))
    assert len(graph.weights) == 2
    (table,) = [symbol for symbol in graph.weights.values() if symbol.dtype is jn.float32]
    assert table.attrs["value"].ctypes.data == module.table.weight.data_ptr()
    (half,) = [symbol for symbol in graph.weights.values() if symbol.dtype is jn.bfloat16]
    assert half.attrs["value"].ctypes.data == module.gain.data_ptr()


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("scale", torch.full((3,), 2.0), persistent=False)

    def forward(self, x: Any) -> Any:
        self.seen.add_(x)
        return self.seen * self.scale


def test_a_model_that_writes_to_buffers_is_refused_by_name() -> None:
    with pytest.raises(jn.UnsupportedError, match=r"the model writes to seen.*state='explicit'"):
        jn.from_exported(exported(Counting(), torch.ones(3)))


def test_written_buffers_can_be_inputs_and_outputs() -> None:
    graph = jn.from_exported(exported(Counting(), torch.ones(3)), state="explicit")
    assert [symbol.name for symbol in graph.inputs] == ["x", "seen"]
    assert graph.output_names == ("output", "new.seen")
    output, seen = jn.evaluate(graph, np.ones(3, np.float32), np.full(3, 4, np.float32))
    assert (output.tolist(), seen.tolist()) == ([10.0] * 3, [5.0] * 3)


def test_inputs_that_the_model_writes_to_are_not_dropped() -> None:
    class Writing(nn.Module):
        def forward(self, x: Any) -> Any:
            x.mul_(2)
            return x + 1

    program = exported(Writing(), torch.ones(2))
    with pytest.raises(jn.UnsupportedError, match="the model writes to x"):
        jn.from_exported(program)
    graph = jn.from_exported(program, state="explicit")
    assert graph.output_names == ("output", "new.x")
    assert [each.tolist() for each in jn.evaluate(graph, np.ones(2, np.float32))] == [[3.0, 3.0], [2.0, 2.0]]


def test_ranges_of_sizes_are_those_of_the_export() -> None:
    batch = torch.export.Dim("batch", min=3, max=6)
    graph = jn.from_exported(exported(nn.Linear(4, 2), torch.ones(4, 4), dynamic_shapes=({0: batch},)))
    assert [str(extent) for extent in graph.inputs[0].shape] == ["input_0", "4"]
    model = jn.compile(graph, "cpu")
    assert model(np.ones((6, 4), np.float32)).shape == (6, 2)
    for size in (2, 7):
        with pytest.raises(jn.UserError, match="the size input_0 must be at"):
            model(np.ones((size, 4), np.float32))


def test_the_ledger_names_the_line_of_the_model() -> None:
    class Mixed(nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            return x.to(torch.float64) + n

    graph = jn.from_exported(exported(Mixed(), torch.ones(2), torch.arange(2)))
    (entry,) = graph.casts()
    assert (entry.op, entry.source, entry.target) == ("aten.add.Tensor", jn.int64, jn.float64)
    assert Path(entry.location.file).name == "test_exported.py"


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: torch.special.bessel_j0(y), lambda y: y - 1, (x,))


class Sized(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + x.sum().int().item() * 2  # it may be negative, and is no size


class Spectral(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.special.bessel_y0(torch.fft.fft(x).real)


@pytest.mark.parametrize(("module", "text"), [
    (Branching(), "body: node 'special_bessel_j0'"),
    (Sized(), "the size u0 is decided by data"),
    (Spectral(), "special_bessel_y0"),
])  # fmt: skip
def test_what_has_no_form_is_refused_with_its_line(module: nn.Module, text: str) -> None:
    with pytest.raises(jn.UnsupportedError, match=text) as raised:
        jn.from_exported(exported(module, torch.ones(4)))
    assert "test_exported.py" in str(raised.value)


def test_views_by_strides_are_of_what_their_storage_was_made_for() -> None:
    class Strided(nn.Module):
        def forward(self, x: Any) -> Any:
            above = x.relu()
            turned = (x.t() + 1).as_strided((3,), (3,))
            return above[1:].as_strided((2, 2), (2, 1), 1), above.as_strided((2, 3), (1, 2), 1), turned

    class Bits(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.relu()[1:].view(torch.int32).as_strided((2, 2), (2, 1), 1)

    x = torch.randn(3, 4)
    got = jn.evaluate(jn.from_exported(exported(Strided(), x)), x.numpy())
    for mine, theirs in zip(got, Strided()(x), strict=True):
        np.testing.assert_array_equal(mine, theirs.numpy())
    with pytest.raises(jn.UnsupportedError, match="as_strided of a view"):
        jn.from_exported(exported(Bits(), x))


@pytest.mark.parametrize(("given", "text"), [
    (nn.Linear(2, 2), "expected an ExportedProgram, got Linear"),
    (3, "expected an ExportedProgram, got int"),
])  # fmt: skip
def test_other_objects_are_refused(given: Any, text: str) -> None:
    with pytest.raises(jn.UserError, match=text):
        jn.from_exported(given)
    with pytest.raises(jn.UserError, match="state is 'keep'"):
        jn.from_exported(given, state="keep")


def test_a_model_travels_to_onnx(tmp_path: Path) -> None:
    module, inputs = made("mlp")
    jn.to_onnx(jn.from_exported(exported(module, *inputs)), tmp_path / "model.onnx")
    assert_agrees(lambda x: jn.evaluate(jn.from_onnx(tmp_path / "model.onnx"), x), module, inputs)


def test_a_model_travels_to_a_process_without_torch(tmp_path: Path) -> None:
    module, inputs = made("cnn")
    graph = jn.from_exported(exported(module, *inputs))
    jn.compile(graph, "cpu").save(tmp_path / "model.joinery")
    np.save(tmp_path / "x.npy", inputs[0].numpy())
    code = f"""
import sys
sys.modules["torch"] = None
import joinery as jn, numpy as np
model = jn.load({str(tmp_path / "model.joinery")!r}, "cpu")
np.save({str(tmp_path / "y.npy")!r}, model(np.load({str(tmp_path / "x.npy")!r})))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with torch.no_grad():
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), module(*inputs).numpy(), rtol=0, atol=BOUND)


def test_outputs_of_types_without_keys_are_named_by_their_context() -> None:
    """Outputs of transformers 4 are registered so, mappings with what a user calls their entries."""

    class Named(dict[str, Any]):
        pass

    class Plain(tuple[Any, ...]):
        pass

    register = torch.utils._pytree.register_pytree_node
    register(Named, lambda x: (list(x.values()), list(x)), lambda values, keys: Named(zip(keys, values, strict=True)),
             serialized_type_name="tests.Named")  # fmt: skip
    register(Plain, lambda x: (list(x), None), lambda values, _: Plain(values), serialized_type_name="tests.Plain")

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return Named(logits=x + 1, pair=Plain((x * 2, x * 3)))

    graph = jn.from_exported(torch.export.export(Model(), (torch.ones(3),)))
    model = jn.compile(graph, device="cpu", cache=False)
    assert [spec.name for spec in model.outputs] == ["logits", "pair.0", "pair.1"]
    np.testing.assert_array_equal(np.stack(model(np.ones(3, np.float32))), [[2] * 3, [2] * 3, [3] * 3])


# -- what a program was exported for ------------------------------------------------------------------------------------


class _Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class _FunctionOfTwo(_Function):
    def forward(self, x: Any, y: Any) -> Any:
        return self.function(x, y)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("function", "right", "wrong"), [
    (lambda x: x * 2 if x.shape[0] % 2 == 0 else x * 3, 8, 9),
    (lambda x: x.split(4)[1].sum() * 1, 7, 9),
    (lambda x, y: x + y.sum() if y.shape[0] > 3 else x, 4, 3),
])  # fmt: skip
def test_conditions_on_sizes_are_checked(function: Any, right: int, wrong: int, stored: bool, tmp_path: Path) -> None:
    arguments = (torch.randn(6, 4), torch.randn(6))[: function.__code__.co_argcount]
    module = (_Function, _FunctionOfTwo)[len(arguments) - 1](function)
    program = exported(module, *arguments, dynamic_shapes=tuple({0: AUTO} for _ in arguments))
    given: Any = program
    if stored:
        given = tmp_path / "m.pt2"
        torch.export.save(program, given)
    model = jn.compile(jn.from_exported(given), "cpu")
    good = [torch.randn(right, *each.shape[1:]) for each in arguments]
    assert_agrees(model, module, tuple(good))
    bad = [torch.randn(wrong, *each.shape[1:]) for each in arguments]
    with pytest.raises(jn.UserError, match=r"size"):
        model(*[each.numpy() for each in bad])


@pytest.mark.parametrize(("function", "sizes"), [
    (lambda x: x[-7:-2] * 1, (6, 4)), (lambda x: x[4 - x.shape[0]] * 1, (6, 9, 12)), (lambda x: x[-1:] * 1, (6, 2)),
    (lambda x: x[-3:] * 1, (6, 9)),
])  # fmt: skip
def test_slices_from_the_end_of_symbolic_axes(function: Any, sizes: tuple[int, ...]) -> None:
    module = _Function(function)
    model = jn.compile(jn.from_exported(exported(module, torch.randn(6, 4), dynamic_shapes=({0: AUTO},))))
    for size in sizes:
        assert_agrees(model, module, (torch.randn(size, 4),))


@pytest.mark.parametrize(("factor", "size"), [
    (3.04, 8), (4.1, 4), ((2.05, 1.5), 10), ((3.04, 2.0), 8), (3.0, 5), (2.0, 4), (49.0, 3),
])  # fmt: skip
@pytest.mark.parametrize("dynamic", [False, True])
def test_nearest_elements_by_factors_that_are_nearly_whole(factor: Any, size: int, dynamic: bool) -> None:
    if dynamic and factor not in (2.0, 3.0, 49.0):
        pytest.skip("sizes by such factors have no form")
    module = _Function(lambda x: nn.functional.interpolate(x, scale_factor=factor, mode="nearest"))
    shapes = ({2: AUTO, 3: AUTO},) if dynamic else None
    model = jn.compile(jn.from_exported(exported(module, torch.randn(1, 2, size, size), dynamic_shapes=shapes)))
    for each in (size, size + 3) if dynamic else (size,):
        assert_agrees(model, module, (torch.randn(1, 2, each, each),), 0)


def test_conjugated_buffers_over_one_memory_are_weights_of_their_own() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            value = torch.tensor([1 + 2j, 3 - 4j])
            self.register_buffer("a", value)
            self.register_buffer("b", value.conj())

        def forward(self, x: Any) -> Any:
            return torch.view_as_real(self.a * x), torch.view_as_real(self.b * x)

    module = Both()
    assert_agrees(jn.compile(jn.from_exported(exported(module, torch.ones(2)))), module, (torch.ones(2),))


def test_tensors_with_a_negation_bit_keep_their_sign() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    model = jn.compile(jn.from_exported(exported(_Function(lambda x: x + 1), torch.ones(2))))
    np.testing.assert_array_equal(np.asarray(model(tensor)), (tensor + 1).numpy())


def test_constants_among_results_and_missing_files() -> None:
    graph = jn.from_exported(exported(_Function(lambda x: (x + 1, True, 5, None, 2.5)), torch.ones(2)))
    assert len(graph.outputs) == 2
    with pytest.raises(jn.UserError, match=r"no file .*missing\.pt2"):
        jn.from_exported("missing.pt2")
