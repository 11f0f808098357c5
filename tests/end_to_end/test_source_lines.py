"""From the user's line to the instruction: block programs, object code, PTX, errors and reports name the lines of a graph."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import llvmlite.binding as llvm
import numpy as np
import pytest
from joinery.lowering.keys import compile_key
from joinery.lowering.llvm.compile import host_target
from joinery.runtime.ptxsim.checks.findings import PtxCheckError
from joinery.runtime.ptxsim.launch import Module

from ..support.lines import assemble, line_rows, lines_of, sections, without_lines

# Lines are counted from the first one of the text.
MODEL = """
def build(jn, w):
    g = jn.Graph("model", inputs=[jn.TensorType(jn.float32, (64, 96), name="x")])
    x, = g.inputs
    h = x @ w                # 5
    h = jn.relu(h)           # 6
    h = jn.gelu(h * 2.0)     # 7
    s = jn.softmax(h)        # 8
    total = jn.sum(s + h, axis=1)  # 9
    g.output(total)
    return g
"""
LAYERS = """
def build(jn, w):
    g = jn.Graph("layers", inputs=[jn.TensorType(jn.float32, (64, 64), name="x")])
    h, = g.inputs
    h = jn.tanh(h @ w)   # 5
    h = jn.tanh(h @ w)   # 6
    h = jn.tanh(h @ w)   # 7
    g.output(h)
    return g
"""
COLUMNS = {MODEL: 96, LAYERS: 64}


def built(source: str = MODEL, file: str = "/home/user/model.py") -> jn.Graph:
    """The graph of a text that is said to stand in a file."""
    scope: dict[str, Any] = {"__name__": "model"}
    exec(compile(source, file, "exec"), scope)
    build: Callable[..., jn.Graph] = scope["build"]
    return build(jn, np.full((COLUMNS.get(source, 96), 64), 0.01, np.float32))


def located(text: str) -> list[tuple[str, str]]:
    """(operation, location) of every line of a block program that holds one."""
    found = re.findall(r"^ +(?:%[\w, %]+ = )?\"?([a-z]+\.[\w.]+)\"?.*? loc\((.*)\)$", text, re.MULTILINE)
    return [(op, location) for op, location in found if op != "tt.func"]


def lines(text: str) -> set[int]:
    return {int(line) for _, where in located(text) for line in re.findall(r'"model\.py":(\d+):0', where)}


# --- block programs


def test_block_programs_name_the_users_lines() -> None:
    model = jn.compile(built(), device="cpu", cache=False)
    texts = "\n".join(kernel.ttir for kernel in model.kernels)
    by_op: dict[str, set[str]] = {}
    for op, where in located(texts):
        by_op.setdefault(op, set()).add(where)
    assert by_op["tt.dot"] == {'"model.py":5:0'}
    assert '"model.py":6:0' in by_op["arith.maximumf"]
    assert '"model.py":8:0' in by_op["arith.maximumf"], "the maximum of the softmax's rows"
    assert by_op["math.fma"] <= {'"model.py":7:0', '"model.py":8:0'}, "polynomials of gelu and of the softmax's exponential"
    assert lines(texts) == {5, 6, 7, 8, 9}
    operations = [line for line in texts.split("\n") if re.match(r" +(%|tt\.store|tt\.return|scf\.yield)", line)]
    assert all(" loc(" in line or line.endswith(("{", "({")) for line in operations), "every operation has a line"
    assert "/home" not in texts


@pytest.mark.one_in(6)
@pytest.mark.parametrize("numerics", ["strict", "fast", "reproducible"])
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_no_operation_loses_its_line(numerics: str, device: str) -> None:
    model = jn.compile(built(), device=device, numerics=numerics, cache=False)
    for kernel in model.kernels:
        k = jn.kernel.from_ttir(kernel.ttir)
        for op in k._module.walk():
            assert op.name == "builtin.module" or "unknown" not in str(op.location), str(op)
        for op in k._prepared().walk():
            assert "unknown" not in str(op.location), f"after the passes: {op}"


def test_texts_with_lines_read_back() -> None:
    for kernel in jn.compile(built(), device="cpu", cache=False).kernels:
        again = jn.kernel.from_ttir(kernel.ttir)
        assert again.ttir == kernel.ttir
        assert again.text(locations=False) == re.sub(r" loc\(.*\)", "", kernel.ttir)


def test_a_program_of_several_launches_names_the_lines_of_all() -> None:
    model = jn.compile(built(LAYERS), device="cpu", cache=False)
    names = [kernel.name for kernel in model.kernels]
    shared = next(kernel for kernel in model.kernels if names.count(kernel.name) > 1)
    wheres = {where for op, where in located(shared.ttir) if op == "tt.dot"}
    assert len(names) > len(set(names))
    assert wheres in ({'fused["model.py":6:0, "model.py":7:0]'}, {'fused["model.py":5:0, "model.py":6:0]'})


def test_lines_do_not_keep_kernels_apart() -> None:
    apart = jn.compile(built(LAYERS), device="cpu", cache=False).kernels
    loop = LAYERS.replace("    h = jn.tanh(h @ w)   # 6\n    h = jn.tanh(h @ w)   # 7\n", "")
    loop = loop.replace("    h = jn.tanh(h @ w)   # 5", "    for _ in range(3): h = jn.tanh(h @ w)")
    scope: dict[str, Any] = {"__name__": "model"}
    exec(compile(loop, "model.py", "exec"), scope)
    together = jn.compile(scope["build"](jn, np.full((64, 64), 0.01, np.float32)), device="cpu", cache=False).kernels
    assert [kernel.name for kernel in apart] == [kernel.name for kernel in together]
    assert [kernel.llvm_ir for kernel in apart] == [kernel.llvm_ir for kernel in together]


def test_files_of_one_name_are_told_apart() -> None:
    parts = []
    for folder in ("first", "second"):
        scope: dict[str, Any] = {"__name__": folder}
        exec(compile("def layer(jn, x):\n    return jn.exp(x) * 3.0\n", f"/work/{folder}/layer.py", "exec"), scope)
        parts.append(scope["layer"])
    g = jn.Graph("two", inputs=[jn.TensorType(jn.float32, (32,))])
    g.output(parts[1](jn, parts[0](jn, g.inputs[0])))
    (kernel,) = jn.compile(g, device="cpu", cache=False).kernels
    found = {where for _, where in located(kernel.ttir) if "layer" in where}
    assert found == {'"first/layer.py":2:0', '"second/layer.py":2:0'}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("file", ["<stdin>", 'dir/a "quoted" name.py', "/mod\u00e8le \u2603.py", "back\\slash.py", "tab\t.py"])
def test_any_file_name_goes_through(file: str, tmp_path: Path) -> None:
    model = jn.compile(built(file=file), device="cpu", cache=False, debug=True)
    text = model.kernels[0].ttir
    assert jn.kernel.from_ttir(text).ttir == text
    (tmp_path / "model.o").write_bytes(model.compiled.object_code)
    assert lines_of(tmp_path / "model.o", model.kernels[0].name) >= {5, 6}
    gpu = jn.compile(built(file=file), device="ptxsim", target="sm_80", cache=False, debug=True)
    cubin = assemble(gpu.kernels[0].ptx, "sm_80", tmp_path)
    assert {line for _, line in line_rows(cubin)} >= {5, 6}


# --- code


@pytest.mark.one_in(4)
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_the_text_of_one_kernel_is_a_module_with_its_lines(device: str, debug: bool) -> None:
    kernels = jn.compile(built(), device=device, cache=False, debug=debug).kernels
    for kernel in kernels:
        module = llvm.parse_assembly(kernel.llvm_ir)
        module.verify()
        assert kernel.llvm_ir.startswith("define ")
        assert not module.get_function(kernel.name).is_declaration
        read = str(module)  # LLVM drops lines of modules that lack the version or the unit
        assert ("!DILocation(" in read, "!llvm.dbg.cu" in read) == (debug, debug)
        assert kernel.llvm_ir.count("!DILocation(") == read.count("!DILocation("), "no line of other kernels"
        assert not any(f"@{other.name}(" in read for other in kernels if other.name != kernel.name)


def test_line_tables_leave_the_instructions_alone() -> None:
    plain, debug = (jn.compile(built(), device="cpu", cache=False, debug=on).compiled for on in (False, True))
    assert sections(plain.object_code) == sections(debug.object_code)
    assert plain.object_code != debug.object_code
    for target in ("sm_80", "sm_90a"):
        kernels = [jn.compile(built(), device="ptxsim", target=target, cache=False, debug=on).kernels for on in (False, True)]
        for without, with_lines in zip(*kernels, strict=True):
            assert ".loc" not in without.ptx
            assert ".loc" in with_lines.ptx
            assert without.ptx == without_lines(with_lines.ptx)


def test_the_object_says_which_lines_its_functions_come_from(tmp_path: Path) -> None:
    model = jn.compile(built(), device="cpu", cache=False, debug=True)
    (tmp_path / "model.o").write_bytes(model.compiled.object_code)
    assert set.union(*(lines_of(tmp_path / "model.o", kernel.name) for kernel in model.kernels)) == {5, 6, 7, 8, 9}
    for kernel in model.kernels:
        assert lines_of(tmp_path / "model.o", kernel.name) <= lines(kernel.ttir)
    assert lines_of(tmp_path / "model.o", "jn_run") == set()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_assembler_keeps_the_lines(target: str, tmp_path: Path) -> None:
    model = jn.compile(built(), device="ptxsim", target=target, cache=False, debug=True)
    found: set[int] = set()
    for kernel in model.kernels:
        assert '"/home/user/model.py"' in kernel.ptx
        found |= {line for _, line in line_rows(assemble(kernel.ptx, target, tmp_path)) if line}
    assert found == {5, 6, 7, 8, 9}


def test_code_with_lines_is_the_same_every_time() -> None:
    first, second = (jn.compile(built(), device="cpu", cache=False, debug=True).compiled for _ in range(2))
    assert first.object_code == second.object_code
    assert first.llvm_ir == second.llvm_ir


def test_results_are_the_same() -> None:
    x = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96)
    results = [jn.compile(built(), device="cpu", cache=False, debug=on)(x) for on in (False, True)]
    assert results[0].tobytes() == results[1].tobytes()


# --- the cache


def test_lines_are_in_the_key_of_code_that_holds_them_only(tmp_path: Path) -> None:
    moved = built("\n\n" + MODEL)
    assert compile_key(built(), host_target()) == compile_key(moved, host_target())
    assert compile_key(built(), host_target(), debug=True) != compile_key(moved, host_target(), debug=True)
    jn.compile(built(), device="cpu", cache=tmp_path)
    found = jn.compile(moved, device="cpu", cache=tmp_path)
    assert lines(found.kernels[0].ttir) <= {7, 8, 9, 10, 11}, "the text has the lines of the graph that was compiled"
    debug = [jn.compile(graph, device="cpu", cache=tmp_path, debug=True) for graph in (built(), moved, built())]
    assert debug[0].compiled.object_code == debug[2].compiled.object_code != debug[1].compiled.object_code


def test_a_saved_model_does_not_depend_on_where_it_was_built(tmp_path: Path) -> None:
    for name, source in (("a", MODEL), ("b", "\n\n" + MODEL)):
        jn.compile(built(source, f"/home/{name}/model.py"), device="cpu", cache=False).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert " loc(" not in jn.load(tmp_path / "a", device="cpu", trusted=True).kernels[0].ttir


@pytest.mark.one_in(2)
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_a_saved_model_has_lines_in_its_code_if_it_was_compiled_with_them(device: str, tmp_path: Path) -> None:
    for name, debug in (("plain", False), ("lines", True)):
        jn.compile(built(), device=device, cache=False, debug=debug).save(tmp_path / name)
        assert (b"/home/user/model.py" in (tmp_path / name).read_bytes()) == debug
    kernel = jn.load(tmp_path / "lines", device=device, trusted=True).kernels[0]
    assert '!DIFile(filename: "/home/user/model.py"' in kernel.llvm_ir
    assert " loc(" not in kernel.ttir


# --- errors and reports


def test_what_cannot_be_tiled_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise jn.UnsupportedError("tile: not this one")

    monkeypatch.setattr("joinery.lowering.tile.elements.scalar.emit", refuse)
    with pytest.raises(jn.UnsupportedError, match=r"not this one\n  built at model\.py:[67] in build") as caught:
        jn.compile(built(), device="cpu", cache=False)
    assert caught.value.origin in ("/home/user/model.py:6", "/home/user/model.py:7")


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_what_cannot_be_lowered_names_the_line(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    back_end = "host" if device == "cpu" else "nvptx"

    def refuse(*_: Any) -> Any:
        raise jn.UnsupportedError("no products today")

    handlers = importlib.import_module(f"joinery.lowering.llvm.{back_end}.kernel").HANDLERS
    monkeypatch.setitem(handlers, "tt.dot", refuse)
    with pytest.raises(jn.UnsupportedError, match=r"^no products today\n  at /home/user/model\.py:5$"):
        jn.compile(built(), device=device, cache=False)


def test_the_sanitizer_names_the_line_of_the_graph() -> None:
    g = built("""
def build(jn, w):
    g = jn.Graph("map", inputs=[jn.TensorType(jn.float32, (100,), name="x")])
    y = jn.exp(g.inputs[0])
    g.output(y * 3.0)
    return g
""")
    (kernel,) = jn.compile(g, device="cpu", cache=False).kernels
    report = jn.kernel.from_ttir(kernel.ttir).sanitize(int(kernel.grid), np.ones(100, np.float32), np.ones(60, np.float32))
    found = [(finding.kind, finding.line) for finding in report.findings if finding.kind != "divisibility"]
    assert found == [("out-of-bounds", "model.py:5:0")]


def test_the_simulator_names_the_line_of_the_graph() -> None:
    g = built("""
def build(jn, w):
    g = jn.Graph("map", inputs=[jn.TensorType(jn.float32, (128,), name="x")])
    y = jn.exp(g.inputs[0])
    g.output(y * 3.0)
    return g
""", "/home/user/mod\u00e8le.py")
    (kernel,) = jn.compile(g, device="ptxsim", cache=False, debug=True).kernels
    assert kernel.code is not None
    launch = Module(kernel.ptx).kernel(kernel.code.name).launch
    with pytest.raises(PtxCheckError, match=r"bounds.*\[/home/user/mod\u00e8le\.py:4\]"):
        launch((int(kernel.grid), 1, 1), (kernel.code.threads, 1, 1), [np.ones(4, np.float32), np.ones(128, np.float32)])
