"""The runtime's own LLVM modules: compiled once, kept in a store, valid for the machines we cannot run here."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import llvmlite.binding as llvm
import numpy as np
import pytest
from joinery.promotion.errors import InternalError
from joinery.runtime.native import library
from joinery.runtime.native.codegen import emit_assembly, emit_object
from joinery.runtime.native.linking import link, target_key
from joinery.runtime.native.positions import positions_text
from joinery.runtime.native.suppression import suppression_text


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("triple", "machine", "system", "pool"),
    [
        ("x86_64-unknown-linux-gnu", "x86_64", "linux", "linux"),
        ("x86_64-apple-macosx13", "x86_64", "darwin", "posix"),
        ("aarch64-unknown-linux-gnu", "aarch64", "linux", "linux"),
        ("arm64-apple-macosx14", "aarch64", "darwin", "posix"),
        ("x86_64-pc-windows-msvc", "x86_64", "win32", "serial"),
    ],
)
def test_templates_compile_for_every_platform(triple, machine, system, pool):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    texts = [library.pool_text(pool, machine, system), suppression_text(), positions_text()]
    if system != "win32":
        texts.append(library.entry_text(system))
    for text in texts:
        assert "{{" not in text
        module = llvm.parse_assembly(text)
        module.triple = triple
        module.data_layout = str(target.target_data)
        module.verify()
        assert len(target.emit_object(module)) > 100


def test_the_layout_check_recognises_this_interpreter(monkeypatch):
    assert library.has_known_layout()
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert not library.has_known_layout()


def test_the_layout_check_recognises_a_free_threaded_build(monkeypatch):
    monkeypatch.setattr(sys, "abiflags", "t", raising=False)
    assert not library.has_known_layout()


def test_the_layout_check_looks_at_a_live_array(monkeypatch):
    """Were `nd` where the entry expects it but the extents elsewhere, the entry must not be used."""

    class Other:
        shape, strides, ndim, dtype = (4, 5), (20, 4), 2, np.dtype(np.float32)

    monkeypatch.setattr(library.np, "empty", lambda *_: Other())
    monkeypatch.setattr(library.ctypes.c_int64, "from_address", _zero)
    assert not library.has_known_layout()


def _zero(_: int):
    return type("Word", (), {"value": 0})()


def test_templates_are_compiled_once_and_kept(tmp_path):
    script = textwrap.dedent(
        """
        import sys
        from joinery.runtime.storage.cache import CompileCache
        from joinery.runtime.native.library import native_library
        cache = CompileCache(sys.argv[1])
        native_library(cache)
        native_library(cache)
        print(cache.hits, cache.misses)
        """
    )

    def run() -> list[str]:
        command = [sys.executable, "-c", script, str(tmp_path / "cache")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()

    assert run() == ["0", "2"]
    assert run() == ["2", "0"]


WORDS = """
define void @kernel(ptr %args, i64 %low, i64 %high) {
  %second.p = getelementptr i64, ptr %args, i64 1
  %second = load i64, ptr %second.p
  %to = load ptr, ptr %args
  store i64 %second, ptr %to
  %status.p = getelementptr i64, ptr %args, i64 5
  %status = load ptr, ptr %status.p
  %expected.p = getelementptr i64, ptr %args, i64 6
  %stops = icmp eq i64 %second, 77
  br i1 %stops, label %stop, label %done
stop:
  store i64 2, ptr %status
  %last.p = getelementptr i64, ptr %status, i64 4
  store i64 %second, ptr %last.p
  br label %done
done:
  %place.p = getelementptr i64, ptr %to, i64 1
  %same = icmp eq ptr %status, %expected.p
  %place = zext i1 %same to i64
  store i64 %place, ptr %place.p
  ret void
}
"""


def test_a_launch_of_one_kernel():
    """It gets its words, whatever their sign, and the status words behind them; what it writes there is the result."""
    entry = library.native_library().entry
    assert entry is not None
    start, code = entry.start_function(), link([emit_object(WORDS)], ["kernel"], {})
    found = np.zeros(2, np.int64)
    for word in (5, -1, 2**63 - 1, -(2**63), 2**64 - 1, 2**63):
        assert start(0, code["kernel"], 1, 1, found.ctypes.data, word, 1, 1, 1) is None
        assert found.tolist() == [word - (2**64 if word >= 2**63 else 0), 1]
    stopped = start(0, code["kernel"], 1, 1, found.ctypes.data, 77, 1, 1, 1)
    assert np.frombuffer(stopped, np.int64).tolist() == [2, 0, 0, 0, 77]
    with pytest.raises(TypeError):
        start(0, code["kernel"], 1, 1, found.ctypes.data, "5", 1, 1, 1)
    found[:] = 3
    assert start(0, code["kernel"], 0, 1, found.ctypes.data, 5, 0, 1, 1) is None  # no program
    assert found.tolist() == [3, 3]


def test_code_generation_is_deterministic():
    text = library.entry_text(sys.platform)
    assert emit_object(text) == emit_object(text)
    assert "llvm" in target_key()


def test_bad_text_and_missing_symbols_are_our_errors():
    with pytest.raises(InternalError, match="LLVM refuses a module"):
        emit_object("define void @f( {")
    with pytest.raises(InternalError, match="LLVM refuses a module"):
        emit_assembly("define i32 @f() {\n  %b = add i32 %a, 1\n  %a = add i32 1, 1\n  ret i32 %b\n}")
    calls = emit_object(
        "declare void @jn_nowhere()\ndefine void @f() {\n  call void @jn_nowhere()\n  ret void\n}"
    )
    with pytest.raises(InternalError, match="cannot be linked"):
        link([calls], ["f"], {})
    with pytest.raises(InternalError, match="cannot be linked"):
        link([emit_object("define void @f() {\n  ret void\n}")], ["g"], {})


def test_the_c_library_functions_code_may_call():
    symbols = library.library_symbols()
    assert {"memcpy", "memset", "expf", "pow", "fmod"} <= set(symbols)
    code = link([emit_object(
        "declare double @pow(double, double)\ndefine double @f(double %x) {\n"
        "  %r = call double @pow(double %x, double 3.0)\n  ret double %r\n}"
    )], ["f"], symbols)  # fmt: skip
    import ctypes

    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code["f"])(2.0) == 8.0
