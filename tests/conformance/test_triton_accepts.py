"""Triton's own parser accepts what joinery prints. Needs triton (`make test-triton`); skipped without it."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import pytest

ir = pytest.importorskip("triton._C.libtriton").ir

ROOT = Path(__file__).resolve().parents[1] / "data"
CASES = sorted(ROOT.glob("ttir*/*/kernel.ttir"))
# Operations and address spaces that only older versions of Triton have.
OLDER = ("tt.make_tensor_ptr", "!tt.ptr<i8, 0>")


def accept(text: str, path: Path) -> None:
    path.write_text(text)
    context = ir.context()
    ir.load_dialects(context)
    module = ir.parse_mlir_module(str(path), context)
    assert module.verify()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_triton_reads_what_joinery_prints(path: Path, tmp_path: Path) -> None:
    text = jn.kernel.from_ttir(path).text()
    if any(older in text for older in OLDER):
        pytest.skip("of an older version of Triton")
    accept(text, tmp_path / "printed.ttir")


def test_the_check_can_fail(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        accept("module { tt.func public @k() { tt.nothing } }", tmp_path / "wrong.ttir")
