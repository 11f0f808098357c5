"""Names of parameters in texts that have numbers for them: the program's names, where it is certain which is which."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

compiler = pytest.importorskip("triton.compiler.compiler")

TEXT = """module {
  tt.func private @part(%arg0: i32) -> i32 {
    tt.return %arg0 : i32
  }
  tt.func public @kernel(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<f32>, %arg2: i32) {
    %0 = tt.load %arg0 : !tt.ptr<f32>
    %1 = scf.for %arg3 = %arg2 to %arg2 step %arg2 iter_args(%arg10 = %0) -> (f32) : i32 {
      scf.yield %arg10 : f32
    }
    tt.store %arg1, %1 : !tt.ptr<f32>
    tt.return
  }
  tt.func private @other(%arg1: i32) -> i32 {
    tt.return %arg1 : i32
  }
}
"""


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch):
    """Compile a source with a signature, and name the parameters of its text."""
    from joinery.interface.triton.patches import names

    monkeypatch.setattr(compiler.ASTSource, "make_ir", lambda self, *args: TEXT)
    names.note_names()
    names.note_names()

    def compiled(signature: dict, kernel: str = "kernel") -> str:
        return names.named(compiler.ASTSource.make_ir(SimpleNamespace(signature=signature)), kernel)

    return compiled


def test_parameters_are_named_in_the_kernel_alone(named) -> None:
    found = named({"src": "*fp32", "SIZE": "constexpr", "pair": ("*fp32", "constexpr", "i32"), "FLAG": "constexpr"})
    head, _, rest = found.partition("tt.func public")
    kernel, _, last = rest.partition("tt.func private @other")
    assert "@part(%arg0: i32)" in head
    assert "(%arg1: i32)" in last
    assert "@kernel(%src: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %pair.0: !tt.ptr<f32>, %pair.2: i32)" in kernel
    assert "tt.load %src :" in kernel
    assert "tt.store %pair.0, %1" in kernel
    assert "scf.for %arg3 = %pair.2 to %pair.2 step %pair.2 iter_args(%arg10 = %0)" in kernel
    assert "scf.yield %arg10" in kernel


@pytest.mark.parametrize(
    "signature",
    [
        {"x": "*fp32", "y": "*fp32"},  # others than the text has, as of a descriptor
        {"x": "tensordesc<fp32[4]>", "y": "*fp32", "z": "i32", "w": "i32"},
        {"x": "*fp32", "y": "*fp32", "0": "i32"},  # a name that the text has for something else
    ],
)
def test_texts_stay_as_they_are_in_doubt(named, signature: dict) -> None:
    assert named(signature) == TEXT
    assert named({"x": "*fp32", "y": "*fp32", "z": "i32"}, "another") == TEXT


def test_names_are_those_of_the_thread(named) -> None:
    from joinery.interface.triton.patches import names

    named({"x": "*fp32", "y": "*fp32", "z": "i32"})
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(names.named(TEXT, "kernel")))
    thread.start()
    thread.join()
    assert seen == [TEXT]
    assert names.named(TEXT, "kernel") != TEXT
