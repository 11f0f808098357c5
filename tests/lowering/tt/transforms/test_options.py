"""What the options of passes may be: whatever else a text gives is refused, with pass, option, value and what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import joinery as jn
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.facts import divisibility
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.transforms import registry
from joinery.lowering.tt.transforms.function_pass import Allowed, FunctionPass
from joinery.lowering.tt.transforms.pipeline import Pipeline
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

KERNELS = Path(__file__).resolve().parents[4] / "benchmarks" / "kernels"
CORPUS = Path(__file__).resolve().parents[3] / "data" / "ttir"
MANY = "9" * 5000
WARPS = "expected one of 1, 2, 4, 8, 16, 32"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(f"mark-few-pointers{{warps={each}}}", f"pass 'mark-few-pointers': option warps={each}: {WARPS}")
          for each in ("0", "-4", "3", "64", "1000000000000000")],
        ("mark-few-pointers{warps=true}", "option warps=true: expected an integer"),
        ("mark-few-pointers{warps=1,2}", "option warps=1,2: expected an integer"),
        ("mark-few-pointers{warps=x}", "option warps=x: expected an integer"),
        ("mark-few-pointers{warps}", "option warps=: expected an integer"),
        ("mark-few-pointers{warps=2.0}", "option warps=2.0: expected an integer"),
        (f"mark-few-pointers{{warps={MANY}}}", "expected a text as a,b{option=1,2},c"),
        ("cse,mark-few-pointers{warps=1 warps=2},dce", "pass 'mark-few-pointers': option warps is given twice"),
        ("expand-library{library=a,b,a library=b}", "pass 'expand-library': option library is given twice"),
        ("expand-descriptors{keep=true}", "option keep=true: expected integers"),
        ("non-negative-dividends{divisions=0,false}", "option divisions=0,false: expected integers"),
        ("assume-divisibility{only=1}", "option only=1: expected true or false"),
        ("assume-divisibility{parameters=0 divisors=4294967296}",
         "option divisors=4294967296: expected a power of two from 1 to 1073741824 for each of 1 parameters"),
        ("assume-divisibility{parameters=0 divisors=3}", "option divisors=3: expected a power of two"),
        ("assume-divisibility{parameters=0 divisors=0}", "option divisors=0: expected a power of two"),
        ("assume-divisibility{parameters=0,1 divisors=4}", "option divisors=4: expected a power of two"),
        ("expand-library{library=foo}", "pass 'expand-library': option library=foo: expected symbols of libdevice"),
        ("expand-library{library=__nv_expf,__nv_expf}", "expected symbols of libdevice, each once"),
    ],
)  # fmt: skip
def test_options_that_fit_no_function(text: str, expected: str) -> None:
    with pytest.raises(jn.UserError) as error:
        Pipeline.parse(text)
    assert expected in str(error.value)


NUMBERS = [
    ("gpu_matmul_described_f16", "expand-descriptors", ("keep=99", "keep=-1", "keep=3", "along=5", "keep=0,0"), "0, 1, 2"),
    ("gpu_matmul_described_f16", "expand-descriptors", ("along=0,4",), "0, 1, 2"),
    ("gpu_matmul_described_f16", "assume-divisibility", ("parameters=0 divisors=4",), "3"),
    ("matmul", "assume-divisibility", ("parameters=99 divisors=4", "parameters=-1 divisors=4"), "0, 1, 2"),
    ("matmul", "assume-divisibility", ("parameters=0,0 divisors=4,8",), "0, 1, 2"),
    ("matmul", "expand-descriptors", ("keep=0", "along=0", "keep=999"), "there are no descriptors of @"),
    ("matmul", "non-negative-dividends", ("divisions=999", "divisions=-1"), "signed divisions of blocks in @"),
]


@pytest.mark.parametrize(
    ("kernel", "name", "options", "known"),
    [(kernel, name, each, known) for kernel, name, options, known in NUMBERS for each in options],
)
def test_options_that_do_not_fit_the_function(kernel: str, name: str, options: str, known: str) -> None:
    """They are refused wherever a pass runs, even if it would have had nothing to do."""
    text = f"{name}{{{options}}}"
    one = jn.kernel.from_ttir(KERNELS / f"{kernel}.ttir")
    module = parse((KERNELS / f"{kernel}.ttir").read_text())
    (only,) = Pipeline.parse(text).passes
    for run in (
        lambda: one.ttir_through(text),
        lambda: one.ptx("sm_90a", passes=f"cse,{text}"),
        lambda: Pipeline.parse(text).run(find_function(module)),
        lambda: only.apply(Context(), module),
    ):
        with pytest.raises(jn.UserError) as error:
            run()
        message = str(error.value)
        assert message.startswith(f"pass {name!r}: option {options.split()[0]}: expected n")
        assert known in message


def test_numbers_that_the_function_has() -> None:
    for case, text in (
        ("gpu_matmul_described_f16", "expand-descriptors{keep=0,2 along=1}"),
        ("gpu_matmul_described_f16", "assume-divisibility{parameters=3 divisors=1073741824}"),
        ("matmul", "assume-divisibility{parameters=2,0 divisors=16,16}"),
        ("matmul", "mark-few-pointers{warps=32}"),
    ):
        assert jn.kernel.from_ttir(KERNELS / f"{case}.ttir").ttir_through(text)


def test_a_divisor_of_a_text_is_the_power_of_two_in_it() -> None:
    """A text may state any number; what a pass makes of it is a power of two, of 32 bits."""
    for stated, known in (
        ("48 : i32", 16), ("4294967296 : i64", 1 << 30), ("4294967300 : i64", 4), ("0 : i32", 1), ("-8 : i32", 1),
    ):  # fmt: skip
        text = f"module {{ tt.func public @f(%x: !tt.ptr<f32> {{tt.divisibility = {stated}}}) {{ tt.return }} }}"
        function = find_function(parse(text))
        assert divisibility(function, 0) == known
        Pipeline.parse("assume-divisibility{parameters=0 divisors=8}").run(function)
        assert divisibility(function, 0) == max(8, known)


@dataclass(frozen=True)
class Stepped(FunctionPass):
    """Has an option of each kind."""

    name = "stepped"
    step: int = 1
    names: tuple[str, ...] = ()
    exact: bool = False
    limit: int | None = None

    def allowed(self) -> dict[str, Allowed]:
        return {"step": Allowed("a positive number", lambda step: step > 0)}

    def allowed_in(self, function: object) -> dict[str, Allowed]:
        return {"names": Allowed("f alone", lambda names: set(names) <= {"f"})}

    def run(self, function: object) -> None:
        pass


def test_a_pass_says_what_its_options_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for make, expected in (
        (lambda: Stepped(0), "pass 'stepped': option step=0: expected a positive number"),
        (lambda: Stepped(True), "option step=true: expected an integer"),
        (lambda: Stepped("1"), "option step=1: expected an integer"),  # type: ignore[arg-type]
        (lambda: Stepped(names=("a", 1)), "option names=a,1: expected texts"),  # type: ignore[arg-type]
        (lambda: Stepped(exact=1), "option exact=1: expected true or false"),  # type: ignore[arg-type]
    ):
        with pytest.raises(jn.UserError) as error:
            make()
        assert expected in str(error.value)
    assert Stepped(2, ("a", "b"), True, 3) == Stepped(2, ("a", "b"), True, 3)
    monkeypatch.setattr(registry, "own_passes", lambda: {"stepped": __name__})
    registry.find_pass.cache_clear()
    try:
        text = 'stepped{step=2 names="f" exact=true limit=3}'
        assert str(Pipeline.parse(text)) == text
        with pytest.raises(jn.UserError, match="has no option 'stop'; its options are step, names, exact, limit"):
            Pipeline.parse("stepped{stop=1}")
    finally:
        registry.find_pass.cache_clear()
    module = parse("module { tt.func public @f() { tt.return } }")
    assert isinstance(module, ModuleOp)
    Pipeline((Stepped(names=("f",)),)).run(find_function(module))
    with pytest.raises(jn.UserError, match="pass 'stepped': option names=g: expected f alone"):
        Pipeline((Stepped(names=("g",)),)).run_on_copy(find_function(module))
