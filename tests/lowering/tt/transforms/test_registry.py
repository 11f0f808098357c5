"""The registry of passes, pipelines as texts, and what pipelines share."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import joinery as jn
import pytest
from joinery.interface import texts as texts_module
from joinery.interface.cli.main import main
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.interpreter import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms import pipeline as pipeline_module
from joinery.lowering.tt.transforms import registry
from joinery.lowering.tt.transforms.function_pass import FunctionPass
from joinery.lowering.tt.transforms.pipeline import FunctionStages, Pipeline, copy_function, pipeline_of
from joinery.lowering.tt.transforms.pipelines import TEXTS, TILED
from xdsl.ir import Block

from ....support.tiers import both_tiers, each, share

CORPUS = Path(__file__).resolve().parents[3] / "data" / "ttir"
SOME = ("call_chain", "desc_copy_scale", "matmul_masked", "raw_softmax_rows", "vec_add")
NAMES = tuple(registry.own_passes())


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_is_a_frozen_dataclass_with_a_summary(name: str) -> None:
    found = registry.find_pass(name)
    assert found.name == name
    assert dataclasses.is_dataclass(found)
    one = found()  # its name alone is a pass
    assert str(one) == name
    assert one == found()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.keep = (1,)  # type: ignore[attr-defined]
    assert found.summary().endswith(".")
    assert found.summary()[0].isupper()
    for option, (values, meaning) in found.options().items():
        assert values in ("true or false", "an integer", "a text", "integers", "texts"), option
        assert meaning.endswith("."), option


def test_every_pipeline_is_its_text_and_of_joinerys_own_passes() -> None:
    for text in (*TEXTS.values(), *TILED.values()):
        assert str(Pipeline.parse(text)) == text
        assert {each.name for each in Pipeline.parse(text).passes} <= set(NAMES)


def test_options_survive_the_text() -> None:
    text = 'expand-library{library="__nv_expf","__nv_sinf"},expand-descriptors{keep=3,4 along=1},assume-divisibility{only=true}'
    pipeline = Pipeline.parse(text)
    assert str(pipeline) == text
    assert Pipeline.parse(str(pipeline)) == pipeline
    assert Pipeline.parse("expand-descriptors{keep=7}").passes[0] == registry.find_pass("expand-descriptors")(keep=(7,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inline,canonicalise", "no pass 'canonicalise'; fix: 'canonicalize'; the passes are canonicalize, cse, dce"),
        ("cse{fast=true}", "pass 'cse' has no option 'fast'; it has none"),
        ("expand-descriptors{kept=1}", "pass 'expand-descriptors' has no option 'kept'; its options are keep, along"),
        ("expand-descriptors{keep=x}", "pass 'expand-descriptors': option keep=x: expected integers"),
        ("inline cse", "pipeline 'inline cse': Expected a comma or pass arguments here"),
        ("inline{", "pipeline 'inline{': Expected argument name here; expected a text as a,b{option=1,2},c"),
    ],
)
def test_mistakes_in_a_pipeline(text: str, expected: str) -> None:
    with pytest.raises(jn.UserError) as error:
        Pipeline.parse(text)
    assert expected in str(error.value)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "case"), each(NAMES, SOME))
def test_every_pass_runs_alone_from_the_command_line(name: str, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(CORPUS / case / "kernel.ttir"), "--passes", name]) == 0
    printed = capsys.readouterr().out
    assert print_module(parse(printed), locations=True) == printed


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_pass_runs_alone_on_the_corpus(name: str) -> None:
    for path in sorted(CORPUS.glob("*/kernel.ttir")):
        function = next(op for op in parse(path.read_text()).body.block.ops if op.regions and op.regions[0].blocks)
        if name == "fix-order" and "tt.atomic_rmw fadd" in print_module(function):
            with pytest.raises(jn.UnsupportedError, match="fadd"):
                Pipeline.parse(name).run(function)
            continue
        Pipeline.parse(name).run(function)
        function.verify()


def test_commands_about_passes(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CORPUS / "matmul_masked" / "kernel.ttir")
    kernel = jn.kernel.from_ttir(Path(path))
    assert main(["compile", "--list-passes"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name}: " in f"\n{listed}" for name in NAMES)
    assert "\n  divisors (integers): a power of two for each of them.\n" in listed
    assert main(["compile", path, "--print-pipeline", "--target", "sm_90a"]) == 0
    printed = capsys.readouterr().out.strip()
    assert printed == kernel.pipeline("sm_90a")
    assert main(["compile", path, "--passes", printed, "--emit", "ptx", "--target", "sm_90a"]) == 0
    assert capsys.readouterr().out == kernel.ptx("sm_90a")
    assert main(["compile", path, "--passes", kernel.pipeline(), "--emit", "llvm"]) == 0
    assert capsys.readouterr().out.strip() == kernel.llvm_ir().strip()
    assert main(["compile"]) == 2
    assert main(["compile", path, "--passes", "cse", "--numerics", "fast"]) == 2
    assert "fix: one of the two" in capsys.readouterr().err


def test_a_pass_that_a_kernel_lacks_is_named() -> None:
    """A back end refuses what a pipeline left over."""
    kernel = jn.kernel.from_ttir(CORPUS / "call_chain" / "kernel.ttir")
    for make in (kernel.llvm_ir, kernel.asm, kernel.ptx):
        with pytest.raises(jn.UnsupportedError, match=r"tt\.call"):
            make(passes="canonicalize")


# What is shared


@dataclass(frozen=True)
class Counted(FunctionPass):
    """Counts how often it runs."""

    name = "counted"
    label: str = ""
    runs: ClassVar[list[str]] = []

    def run(self, function: object) -> None:
        self.runs.append(self.label)


def test_what_pipelines_have_in_common_runs_once() -> None:
    Counted.runs.clear()
    a, b, c, d = (Counted(label) for label in "abcd")
    function = find_function(parse((CORPUS / "vec_add" / "kernel.ttir").read_text()), None)
    before = print_module(function)
    stages = FunctionStages(function)
    shared = stages.after(Pipeline((a, b)))
    first, second = stages.after(Pipeline((a, b, c))), stages.after(Pipeline((a, b, d)))
    assert Counted.runs == ["a", "b", "c", "d"]
    assert stages.after(Pipeline((a, b))) is shared
    assert len({id(each) for each in (function, shared, first, second)}) == 4
    assert print_module(function) == before


@pytest.mark.slow
@both_tiers
def test_copies_are_equal_and_apart(in_full: bool) -> None:
    """Of functions with structured control flow, with branches between blocks, and with calls."""
    for path in [*share(sorted(CORPUS.glob("*/kernel.ttir")), 0, 5, in_full), CORPUS / "call_chain" / "kernel.ttir"]:
        module = parse(path.read_text())
        before = print_module(module)
        function = next(op for op in module.body.block.ops if op.regions and op.regions[0].blocks)
        copy = copy_function(function)
        assert print_module(copy) == print_module(function)
        assert [op.location for op in copy.walk()] == [op.location for op in function.walk()]
        own = set(copy.walk())
        assert own.isdisjoint(function.walk())
        assert all(isinstance(value.owner, Block) or value.owner in own for op in own for value in op.operands)
        copy.verify()
        pipeline_of("sm_80").run(copy)
        assert print_module(module) == before


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", SOME)
def test_a_text_is_parsed_once(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []

    def counted(*args: object) -> object:
        texts.append(args)
        return parse(*args)

    monkeypatch.setattr(texts_module, "parse", counted)
    kernel = jn.kernel.from_ttir(CORPUS / case / "kernel.ttir", numerics="reproducible" if case == "vec_add" else "strict")
    printed = kernel.ttir
    for made in (kernel.ptx("sm_90a"), kernel.ptx("sm_80"), kernel.asm(), kernel.stages(), kernel.ttir_after("licm")):
        assert made
    assert kernel.text() == printed
    assert len(texts) == 1


# Other packages, and what loads when

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "passes.md").read_text(encoding="utf-8")
PASS = PAGE[PAGE.index("# my_package/remove_prints.py") :].partition("```")[0]
"""The example of the page of passes."""
PRINTING = """
tt.func public @f(%n: i32) {
  tt.print " one: " {hex = false, isSigned = array<i32: 1>} : %n : i32
  tt.print " two: " {hex = false, isSigned = array<i32: 1>} : %n : i32
  tt.return
}
"""


def installed(folder: Path, entries: str) -> None:
    (folder / "remove_prints.py").write_text(PASS)
    (folder / "more-1.0.dist-info").mkdir()
    (folder / "more-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 1.0\n")
    (folder / "more-1.0.dist-info" / "entry_points.txt").write_text(f"[joinery.passes]\n{entries}\n")


def test_a_pass_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("other-name = remove_prints:RemovePrints", "missing = remove_prints:Nothing", "cse = remove_prints:RemovePrints",
             "no-pass = remove_prints:dataclass")  # fmt: skip
    installed(tmp_path, "\n".join(("remove-prints = remove_prints:RemovePrints", *names)))
    monkeypatch.syspath_prepend(str(tmp_path))
    kernel = jn.kernel.from_ttir(PRINTING)
    assert kernel.ttir_through('inline,remove-prints{only="one"}').count("tt.print") == 1
    assert registry.pass_names()[-4:] == ("missing", "no-pass", "other-name", "remove-prints")
    assert registry.find_pass("cse").__module__.startswith("joinery.")
    for name, expected in (
        ("other-name", "calls itself 'remove-prints'"), ("missing", "cannot be loaded"), ("no-pass", "is no subclass"),
    ):  # fmt: skip
        with pytest.raises(jn.UserError, match=expected):
            Pipeline.parse(name)
    registry.find_pass.cache_clear()
    pipeline_module._parsed.cache_clear()


@pytest.mark.slow
def test_a_graph_loads_no_pass_that_it_does_not_run() -> None:
    code = """
import sys, joinery as jn
graph = jn.Graph("g")
x = graph.input("float32", ("n",), name="x")
graph.output(jn.tanh(x) + x)
jn.compile(graph, "cpu", cache=False)
assert "xdsl.passes" not in sys.modules
assert not [name for name in sys.modules if "transforms.expand." in name or name.endswith("function_pass")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pipelines_of_targets() -> None:
    host, gpu = pipeline_of("host"), pipeline_of("sm_80")
    assert gpu.names[: len(host.names)] == host.names
    assert "cse#2" in host.names
    assert host.through("cse").names[-1] == "cse"
    assert "fast-math" in pipeline_of("host", "fast").names
    assert "contract" not in pipeline_of("sm_80", "reproducible").names
