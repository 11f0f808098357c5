"""The line reader and the strict parser: one result for good texts, and clear refusals, in time, for all others."""

from __future__ import annotations

import functools
import random
import time
from collections import Counter

import joinery as jn
import pytest
from joinery.lowering.frontends.ttir import line_templates
from joinery.lowering.frontends.ttir.line_reader import read_lines
from joinery.lowering.frontends.ttir.parser import read_module
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.printing import print_module
from joinery.promotion.errors import UserError

from ....support.python_calls import calls
from ....support.readers import TEXTS, difference, judge, mutate

HEAD = "tt.func public @f(%x: i32, %b: i1, %f: f32, %v: tensor<4xi32>) {\n"
TAIL = "  tt.return\n}\n"


@functools.cache
def readable() -> dict[str, str]:
    """The corpus's texts that one of the readers reads."""
    found = {}
    for name, text in TEXTS.items():
        if read_lines(text) is None:
            try:
                read_module(text)
            except UserError:
                continue
        found[name] = text
    return found


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *[pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3)]])
def test_both_readers_agree_on_the_corpus(part: int) -> None:
    """Operations, attributes, names, locations; as Triton printed the texts, and as we print them."""
    assert len(readable()) >= 122
    for name, text in list(TEXTS.items())[part::4]:
        fast = read_lines(text)
        assert (fast is not None) == (name in readable()), name
        if fast is None:
            continue
        strict = read_module(text)
        assert difference(strict, fast) is None, name
        printed = print_module(fast)
        again = read_lines(printed)
        assert again is not None, name
        assert difference(read_module(printed), again) is None, name


def test_a_difference_is_noticed() -> None:
    text = TEXTS["softmax_rows"]
    module = read_module(text)
    changes = {"arith.maxnumf": "arith.maximumf", "end = 128": "end = 130", "%e_7": "%g_7", '"k_ml.py":13:18': '"q":1:2'}
    changes |= {"subf %v_5, %e_6": "subf %e_6, %v_5", "axis = 0 : i32": "axis = 1 : i32", "noinline": "inline", "slt": "sle"}
    for old, new in changes.items():
        assert old in text
        assert difference(module, read_module(text.replace(old, new))) is not None, old
    assert difference(module, read_module(text)) is None


def test_the_line_reader_is_faster() -> None:
    text = TEXTS["sort_desc_ints"]
    read_lines(text)  # makes what later ones use
    assert 3 * calls(lambda: read_lines(text)) < calls(lambda: read_module(text))


# Texts that look like lines, and mean something else or nothing.
TRICKY = {
    "an operand of the next line": "  tt.return\n  %y = arith.addi %x, %x : i32\n}\n",
    "a brace of attributes": "tt.return\n}\ntt.func private @g() attributes {\n  tt.return\n}\n",
    "an attribute over two lines": "  %y = arith.addi %x, %x {a = 1 : i32,\n b = 2 : i32} : i32\n" + TAIL,
    "a comment before a location": "  %y = arith.addi %x, %x : i32 // loc(unknown)\n" + TAIL,
    "a comment in a location": '  %y = arith.addi %x, %x : i32 loc("a" //)\n' + TAIL,
    "a comment behind an operation": "  %y = arith.addi %x, %x : i32 // note\n" + TAIL,
    "a comment in a label": "  cf.br ^bb1(%x : i32)\n^bb1(%y: i32 // ):\n" + TAIL,
    "a value's name in a string": '  tt.return {a = "%x", b = "%"}\n}\n',
    "an index where a name is due": "  scf.for %i#0 = %x to %x step %x : i32 {\n  }\n" + TAIL,
    "an index": "  %y:2 = tt.split %w : tensor<4x2xi32> -> tensor<4xi32>\n" + TAIL,
    "the first of one": "  %y = arith.addi %x#0, %x : i32\n" + TAIL,
    "a label before the entry block": "^bb0:\n" + TAIL,
    "a label twice": "  cf.br ^bb1\n^bb1:\n  cf.br ^bb1\n^bb1:\n" + TAIL,
    "no such label": "  cf.br ^bb2\n}\n",
    "a name twice": "  %y = arith.addi %x, %x : i32\n  %y = arith.addi %x, %x : i32\n" + TAIL,
    "a name of a finished region": "  scf.if %b {\n    %y = arith.addi %x, %x : i32\n  }\n"
    "  %z = arith.addi %y, %y : i32\n" + TAIL,
    "a name of a parallel region": "  scf.if %b {\n    %y = arith.addi %x, %x : i32\n"
    "  } else {\n    %y = arith.subi %x, %x : i32\n  }\n"
    + TAIL,
    "a use before the definition": "  cf.br ^bb2\n^bb1:\n  %z = arith.addi %y, %y : i32\n  tt.return\n^bb2:\n"
    "  %y = arith.addi %x, %x : i32\n  cf.br ^bb1\n}\n",
    "another type": "  %y = arith.addi %x, %x : i64\n" + TAIL,
    "two results for one": "  %y, %z = arith.addi %x, %x : i32\n" + TAIL,
    "no results for one": "  %y:0 = arith.addi %x, %x : i32\n" + TAIL,
    "a short name of an operation": "  return\n}\n",
    "a region on one line": "  scf.if %b { scf.yield }\n" + TAIL,
    "a block too large": "  %y = tt.splat %x : i32 -> tensor<2048x1024xi32>\n" + TAIL,
    "a block with the learned mark": "  %y = tt.splat %x : i32 -> tensor<7919xi32>\n" + TAIL,
    "a constant in full": "  %y = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>\n" + TAIL,
    "a constant of another shape": "  %y = arith.constant dense<[1, 2, 3]> : tensor<4xi32>\n" + TAIL,
    "an extent in hexadecimal": "  %y = tt.splat %x : i32 -> tensor<0x4xi32>\n" + TAIL,
    "an unnamed alias": "  tt.return {a = #a}\n}\n#a = 1 : i32\n",
    "a nested module": "  module {\n  }\n" + TAIL,
    "attributes behind a loop": "  scf.for %i = %x to %x step %x : i32 {\n  } {a = 1 : i32}\n" + TAIL,
    "an empty else": "  scf.if %b {\n  } else {\n  }\n" + TAIL,
    "no else": "  scf.if %b {\n  }\n" + TAIL,
    "attributes behind a branch": "  scf.if %b {\n  } else {\n  } {a = 1 : i32}\n" + TAIL,
    "a wrong end": "  scf.if %b {\n  }) : () -> ()\n" + TAIL,
    "names that cannot be printed": "  %_ = arith.addi %x, %x : i32\n  %_1 = arith.addi %_, %x : i32\n"
    "  cf.br ^_1\n^_1:\n" + TAIL,
    "odd names": "  %$ = arith.addi %x, %x : i32\n  %- = arith.addi %$, %x : i32\n  %a_1_2 = arith.addi %-, %x : i32\n" + TAIL,
    "a label that is a number": "  cf.br ^0\n^0:\n" + TAIL,
    "a shared name": "  %y:2 = tt.call @h() : () -> (i32, i32)\n  %z = arith.addi %y#0, %y#1 : i32\n" + TAIL
    + "tt.func private @h() -> (i32, i32)\n",
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", TRICKY)
def test_tricky_texts_mean_the_same_to_both_readers(name: str) -> None:
    judge(HEAD + TRICKY[name])
    judge("module {\n" + HEAD + TRICKY[name] + "}\n")


def test_what_the_tricky_texts_are() -> None:
    outcomes = {name: judge(HEAD + text) for name, text in TRICKY.items()}
    assert outcomes["a brace of attributes"] == "valid"
    assert outcomes["a comment behind an operation"] == "valid"
    assert outcomes["a name of a finished region"] == "refused"
    assert outcomes["a shared name"] == "valid"
    assert Counter(outcomes.values())["refused"] > 10
    module = parse(HEAD + TRICKY["a brace of attributes"])
    assert [len(list(op.body.blocks)) for op in module.body.block.ops] == [1, 0]


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("  %y = arith.addi %x, %undefined : i32\n" + TAIL, 2, "values used but not defined: [%undefined]"),
        ("  %y = arith.addi %x, %x : i64\n" + TAIL, 2, "operand is used with type i64"),
        ("\n  %p = tt.get_program_id w : i32\n" + TAIL, 3, "expected a program axis"),
        ("  %y = tt.splat %x : i32 -> tensor<4xf32>\n" + TAIL, 2, "tt.splat: result has element type f32, expected i32"),
        ("\n\n  scf.if %x {\n  }\n" + TAIL, 4, "i1"),
        ("  tt.return %x : i32\n}\n", 2, "1 returned values, expected 0"),
        ("  cf.br ^bb1\n  cf.br ^bb1\n^bb1:\n" + TAIL, 2, "cf.br: branches, but does not end a block"),
        ("  scf.execute_region {\n    %y = arith.addi %x, %x : i32\n  }\n" + TAIL, 3, "arith.addi: ends a block, but is no"),
        ('  tt.return loc(#loc1)\n}\n#loc1 = loc("a" at)\n', 4, "expected the end of the location"),
    ],
)
def test_an_error_names_its_line(body: str, line: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        jn.kernel.from_ttir(HEAD + body)
    assert message in str(caught.value)
    assert f"<text>:{line}:" in str(caught.value)


def nested(count: int, opening: str, closing: str) -> str:
    return HEAD + opening * count + closing * count + TAIL


N = 5000
HOSTILE = {
    "regions": nested(N, "scf.if %b {\n", "}\n"),
    "a few regions": nested(40, "scf.if %b {\n", "}\n"),
    "modules": "module {\n" * N + "}\n" * N,
    "types": HEAD.replace("f32", "tuple<" * N + "i32" + ">" * N) + TAIL,
    "attributes": HEAD + "tt.return {a = " + "[" * N + "]" * N + "}\n}",
    "locations": HEAD + "tt.return loc(" + '"a"(' * N + "unknown" + ")" * N + ")\n}",
    "a chain of locations": HEAD + "tt.return loc(#loc0)\n}\n"
    + "".join(f'#loc{i} = loc("a"(#loc{i + 1}))\n' for i in range(N)),
    "doubling locations": HEAD + "tt.return loc(#loc0)\n}\n#loc25 = loc(unknown)\n"
    + "".join(f"#loc{i} = loc(fused[#loc{i + 1}, #loc{i + 1}])\n" for i in range(25)),
    "doubling attributes": "#a0 = [1 : i32]\n" + "".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(25)) + HEAD
    + "tt.return {a = #a25}\n}",
    "doubling types": "!a0 = i32\n" + "".join(f"!a{i + 1} = (!a{i}, !a{i}) -> i32\n" for i in range(25))
    + HEAD.replace("f32", "!a25") + TAIL,
    "dense lists": HEAD + "%c = arith.constant dense<" + "[" * N + "1" + "]" * N + "> : tensor<1xi32>\n" + TAIL,
    "blocks": HEAD + "cf.br ^bb0\n" + "".join(f"^bb{i}:\ncf.br ^bb{i + 1}\n" for i in range(N)) + f"^bb{N}:\n" + TAIL,
    "a wide constant": HEAD + "%c = arith.constant dense<0> : vector<99999999999xi8>\n" + TAIL,
    "large constants": HEAD
    + "".join(f'%v{i} = arith.constant dense<"0x{i:016x}"> : tensor<1048576xi64>\n' for i in range(40)) + TAIL,
    "a long number": HEAD + "tt.return {a = " + "9" * 100_000 + " : i64}\n}",
    "a long hexadecimal number": HEAD + "tt.return {a = 0x" + "9" * 100_000 + " : index}\n}",
    "a wide integer": HEAD + "tt.return {a = 1 : i999999999999}\n}",
    "a long float": HEAD + "%c = arith.constant 1.0 : f80\n" + TAIL,
    "a long shape": HEAD.replace("f32", "tensor<" + "1x" * 20_000 + "i32>") + TAIL,
    "an open string": HEAD + '  tt.return {a = "' + "x" * 2000 + "\n}\n",
    "a string of open strings": HEAD + '  tt.return {a = "' + '\\"' * 20_000 + "\n}\n",
    "resources": '{-# dialect_resources: {builtin: {a: "0x08000000"}} #-}\n' + HEAD + TAIL,
    "other resources": "{-# external_resources: {} #-}\n" + HEAD + TAIL,
    "a resource": HEAD + "tt.return {a = dense_resource<x> : tensor<4xi32>}\n}",
    "affine maps": HEAD + "tt.return {a = affine_map<" + "(" * N + ">}\n}",
    "zeros": "\0" * 1000,
    "parentheses": "(" * 100_000,
    "angles": "!tt.ptr<" * 20_000,
    "a lone surrogate": "\ud800",
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_refused_in_time(name: str) -> None:
    start = time.process_time()
    with pytest.raises(UserError) as caught:
        jn.kernel.from_ttir(HOSTILE[name])
    assert time.process_time() - start < 2
    assert ("the text has a lone surrogate, '\\ud800', at 0" if name == "a lone surrogate" else "<text>:") in str(caught.value)
    assert len(str(caught.value)) < 2000


@pytest.mark.slow
def test_large_texts_take_linear_time() -> None:
    """Many regions, calls and blocks: nothing is copied or searched for each of them."""
    regions = "".join(f"  %v{i} = arith.addi %x, %x : i32\n  scf.if %b {{\n  }}\n" for i in range(1500))
    functions = "".join(f"tt.func @g{i}() {{\n  tt.call @g{i}() : () -> ()\n  tt.return\n}}\n" for i in range(500))
    blocks = "  cf.br ^bb0\n" + "".join(
        f"^bb{i}:\n  %w{i} = arith.addi %x, %x : i32\n  cf.cond_br %b, ^bb{i + 1}, ^bb{max(0, i - 7)}\n" for i in range(900)
    )
    for text in (HEAD + regions + TAIL, HEAD + TAIL + functions, HEAD + blocks + "^bb900:\n" + TAIL):
        start = time.process_time()
        parse(text)
        assert time.process_time() - start < 5


def test_what_nests_to_the_limit_is_printed_and_copied() -> None:
    text = nested(29, "scf.if %b {\n", "}\n").replace("  tt.return", "  tt.return {a = " + "[" * 24 + "]" * 24 + "}")
    kernel = jn.kernel.from_ttir(text)
    assert print_module(parse(kernel.ttir)) == kernel.ttir
    assert print_module(read_module(text).clone(), locations=True)


def fuzz(seeds: range, seconds: float) -> Counter[str]:
    found = readable()
    texts = [*found.values(), *(print_module(read_module(found[name])) for name in sorted(found)[::5])]
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        text = mutate(rng, rng.choice(texts), texts)
        start = time.process_time()
        try:
            outcomes[judge(text)] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        assert time.process_time() - start < seconds, f"seed {seed}"
    return outcomes


@pytest.mark.slow
def test_mutated_texts() -> None:
    outcomes = fuzz(range(80), 2)
    assert outcomes["valid"] > 10
    assert outcomes["refused"] > 50
    assert outcomes["invalid"] > 1


@pytest.mark.slow
def test_many_mutated_texts() -> None:
    fuzz(range(6000), 4)


# What one line teaches about others.


def learned(monkeypatch: pytest.MonkeyPatch, *bodies: str) -> list[int]:
    """How many templates the strict parser reads for each of the bodies, one after the other, from nothing."""
    counts: list[int] = []
    read = line_templates._read

    def counted(template: str, ending: str) -> line_templates.Template:
        counts[-1] += 1
        return read(template, ending)

    monkeypatch.setattr(line_templates, "_read", counted)
    templates = line_templates.Templates()
    monkeypatch.setattr(line_templates, "TEMPLATES", templates)
    monkeypatch.setattr("joinery.lowering.frontends.ttir.line_reader.TEMPLATES", templates)
    signature = "%x: i32, %l: i64, %f: f32, %v: tensor<4xi32>, %w: tensor<8x2xf32>, %c: i1"
    for body in bodies:
        counts.append(0)
        text = f"tt.func public @f({signature}) {{\n{body}\n  tt.return\n}}\n"
        fast = read_lines(text)
        assert fast is not None
        assert difference(read_module(text), fast) is None
    return counts


def test_lines_that_are_written_alike_are_read_once(monkeypatch) -> None:
    last = "  %z = arith.addi %x, %x : i32"
    first, *others = learned(
        monkeypatch,
        f"  %r = arith.addf %f, %f : f32\n  %s = arith.addi %x, %x : i32\n  %k = arith.constant 5 : i32\n{last}",
        "  %r = arith.mulf %w, %w : tensor<8x2xf32>\n  %s = arith.subi %l, %l : i64\n  %k = arith.constant 77 : i32\n"
        f"  %t = arith.muli %v, %v : tensor<4xi32>\n{last}",
        f"  %s = arith.addi %x, %x overflow<nsw> : i32\n  %r = tt.splat %x : i32 -> tensor<4xi32>\n{last}",
        f"  %s = arith.muli %l, %l overflow<nsw> : i64\n  %r = tt.splat %f : f32 -> tensor<16xf32>\n{last}",
    )
    assert first > 3
    assert others == [0, 2, 0]


def test_types_that_are_not_written_are_not_taken_for_those_that_are(monkeypatch) -> None:
    """Compared booleans give booleans; compared numbers do, too."""
    compared = "  %q = arith.cmpi ne, {0}, {0} : {1}\n  %s = arith.select %c, {0}, {0} : {1}\n  %z = arith.addi %x, %x : i32"
    learned(monkeypatch, *[compared.format(*each) for each in (("%c", "i1"), ("%x", "i32"), ("%v", "tensor<4xi32>"))])


@pytest.mark.parametrize(
    ("good", "wrong"),
    [
        ("%r = arith.addf %f, %f : f32", "%r = arith.mulf %x, %x : i32"),
        ("%r = arith.addi %x, %x : i32", "%r = arith.muli %f, %f : f32"),
        ("%r = tt.splat %x : i32 -> tensor<4xi32>", "%r = tt.splat %x : i32 -> tensor<4xf32>"),
        ("%r = tt.splat %x : i32 -> tensor<4xi32>", "%r = tt.splat %x : i32 -> tensor<3xi32>"),
        ("%r = arith.constant 1 : i32", "%r = arith.constant 4294967296 : i32"),
        ("%r = tt.expand_dims %v {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>",
         "%r = tt.expand_dims %v {axis = 2 : i32} : tensor<4xi32> -> tensor<4x1xi32>"),
        ("%r = math.exp %f : f32", "%r = math.sqrt %x : i32"),
        ('%r = tt.call @g(%x) : (i32) -> i32', '%r = tt.call @h(%x) : (i32) -> i32'),
    ],
)  # fmt: skip
def test_what_was_learned_excuses_nothing(good: str, wrong: str) -> None:
    """The mistake is reported as the strict parser would, whatever was read before."""
    callee = "tt.func private @g(%y: i32) -> i32 {\n  tt.return %y : i32\n}\n"
    for _ in range(2):
        parse(f"{HEAD}  {good}\n{TAIL}{callee}")
        with pytest.raises(UserError) as fast:
            parse(f"{HEAD}  {wrong}\n{TAIL}{callee}")
        with pytest.raises(UserError) as strict:
            parse(f"{HEAD}  {wrong} // a comment behind keeps the line reader away\n{TAIL}{callee}")
        assert str(fast.value).split("\n")[0] == str(strict.value).split("\n")[0]


def test_the_place_of_a_known_line_is_looked_at() -> None:
    """A return of the right type in one function, and of the wrong one in the next."""
    text = "tt.func public @f(%x: i32) -> {} {{\n  tt.return %x : i32\n}}\n"
    for _ in range(2):
        parse(text.format("i32"))
        with pytest.raises(UserError, match=r"tt\.return"):
            parse(text.format("i64"))
