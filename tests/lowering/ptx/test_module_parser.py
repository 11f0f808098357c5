"""PTX modules as text: what producers write, and text that is no PTX."""

from __future__ import annotations

import time

import pytest
from joinery.lowering.ptx.module_parser import parse_module
from joinery.lowering.ptx.modules import SymbolValue
from joinery.lowering.ptx.parser import MAX_DEPTH
from joinery.lowering.ptx.syntax import Address, Name
from joinery.promotion.errors import JoineryError, UnsupportedError, UserError

HEADER = ".version 8.8\n.target sm_90a, debug\n.address_size 64\n"
WHOLE = """
.extern .shared .align 16 .b8 global_smem[];
.global .align 4 .b8 zeros[40];
.visible .global .align 8 .u64 g[3] = {1, 18446744073709551614, zeros};
.const .align 1 .b8 fmt[12] = {120, 0x3D, 10};
.const .align 8 .u64 tab[2] = {helper, generic(zeros)+8};
.extern .func __assertfail ( .param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e ) .noreturn ;
.func (.param .b32 func_retval0) helper (.param .b32 helper_param_0, .param .align 4 .b8 helper_param_1[8]) ;
.visible .entry k(
	.param .u64 .ptr .global .align 16 k_param_0, // comment
	.param .u32 k_param_1,
	.param .align 64 .b8 k_param_2[128]
)
.reqntid 128
.minnctapersm 1
.maxnreg 168
.reqnctapercluster 2,1,1
.explicitcluster
{
	.reg .pred 	%p<4>; .reg .b32 	%r<10>; .reg .b64 	%rd<7>; .reg .b64 %SP, %SPL;
	.shared .align 16 .b8 tile[256];
	.local .align 16 .b8 __local_depot0[64];
	.loc	1 65 1                          // k.py:65:1
$L__func_begin0:
	ld.param.b64 	%rd1, [k_param_0]; /* two
lines */ mov.u32 %r1, %tid.x;
	.pragma "used_bytes_mask 0xfff";
	ld.global.v4.b32 {%r2, _, %r3, %r4}, [%rd1+-16];
	.loc	1 70 3, function_name $L__info_string0, inlined_at 1 65 1
	@!%p1 bra 	$L__BB0_2;
	{
	.reg .pred complete; .param .b32 param0; .param .b32 retval0;
	waitLoop:
	.loc 2 3 4
	mbarrier.try_wait.parity.shared::cta.b64 complete, [%r1], %r2;
	@!complete bra.uni waitLoop;
	st.param.b32 [param0+0], %r1;
	}
	{
	.reg .pred complete;
	waitLoop:
	@!complete bra.uni waitLoop;
	}
$L_brx_0: .branchtargets $L__BB0_2, $L__func_begin0;
	brx.idx %r2, $L_brx_0;
prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
$L__BB0_2:
	mov.b64 %rd2, g;
	ret;
$L__tmp1:
}
.func (.param .b32 func_retval0) helper (.param .b32 helper_param_0, .param .align 4 .b8 helper_param_1[8])
{ ret; }
	.file	1 "k.py"
	.file	2 "m.py"
	.section	.debug_abbrev
	{
.b8 1                                   // { an unbalanced one in a comment
$L__info_string0:
.b32 .debug_info
	}
	.section	.debug_macinfo	{	}
"""


def test_everything_that_producers_write() -> None:
    module = parse_module(HEADER + WHOLE)
    assert (module.version, module.target) == ((8, 8), ("sm_90a", "debug"))
    assert module.variables["global_smem"].size is None
    assert module.variables["zeros"].size == 40
    assert module.variables["g"].values == (1, 18446744073709551614, SymbolValue("zeros", 0))
    assert module.variables["fmt"].values == (120, 61, 10)
    assert module.variables["tab"].values == (SymbolValue("helper", 0), SymbolValue("zeros", 8))
    (kernel,) = module.entries
    assert [(p.name, p.size, p.pointer) for p in kernel.parameters] == [
        ("k_param_0", 8, True), ("k_param_1", 4, False), ("k_param_2", 128, False),
    ]  # fmt: skip
    assert kernel.bounds == {
        "reqntid": (128,), "minnctapersm": (1,), "maxnreg": (168,), "reqnctapercluster": (2, 1, 1), "explicitcluster": (),
    }  # fmt: skip
    assert set(kernel.variables) == {"tile", "__local_depot0"}
    assert kernel.code is not None
    names = [i.spelling for i in kernel.code]
    assert names[:3] == ["ld.param.b64", "mov.u32", "ld.global.v4.b32"]
    assert kernel.pragmas == {2: ("used_bytes_mask 0xfff",)}
    address = kernel.code[2].operands[1]
    assert isinstance(address, Address)
    assert address.offset == -16
    assert kernel.locations[0] == ("k.py", 65)
    assert kernel.locations[3] == ("k.py", 70)
    loops = [i for i in kernel.code if i.spelling == "bra.uni"]
    first, second = (i.operands[0] for i in loops)
    assert isinstance(first, Name)
    assert isinstance(second, Name)
    assert first != second, "labels of scopes are apart"
    assert kernel.labels[first.text] < kernel.labels[second.text]
    (table,) = kernel.tables.values()
    assert table == ("$L__BB0_2", "$L__func_begin0")
    assert [len(p.parameters) for p in kernel.prototypes.values()] == [2]
    assert module.functions["helper"].code is not None
    assert module.functions["__assertfail"].code is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "starts with .version"),
        (".version 8.8\n", "starts with .version and .target"),
        (HEADER + ".entry k( .param .u64 a ) {", "line 4.*'{' without '}'"),
        (HEADER + ".entry k( .param .u64 a", "between parameters"),
        (HEADER + ".entry k() { ret; ", "without"),
        (HEADER + ".entry k() { bra; } }", "no declaration"),
        (HEADER + ".entry k() { .reg .b33 x; }", "no register type"),
        (HEADER + ".entry k() { a: a: ret; }", "a is declared twice"),
        (HEADER + ".entry k() { ret }", "expected"),
        (HEADER + ".entry k() { ret; }\n.entry k() { ret; }", "k is defined twice"),
        (HEADER + '.entry k() {\n.pragma "x" }', "does not end|expected"),
        (HEADER + ".entry k() { t: .branchtargets nowhere; }", "no label nowhere"),
        (HEADER + ".tex .u32 t;", "no declaration that is known"),
        (HEADER + ".entry k() .frobnicate 3 { ret; }", "frobnicate"),
        (HEADER + ".global .b8 x[3] = {1,2,3,4};", "more initial values"),
        (HEADER + ".global .b8 x[99999999999];", "an extent"),
        (HEADER + ".global .align 3 .b8 x[4];", "no power of two"),
        (HEADER + ".entry k( .reg .u32 a ) { ret; }", "in .param space"),
        (HEADER + "/* never closed", "a comment that does not end"),
        (HEADER + ".section .debug_x { .b8 1", "without '}'"),
        (HEADER + ".global .u32 g = {{{1}};", "between initial values"),
        (".version 8\n", "no version"),
        (HEADER + ".entry k() { mov.u32 \x00, 1; }", "no token"),
        (HEADER + ".address_size 32", "address_size 64"),
    ],
)
def test_what_is_no_module_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises((UserError, UnsupportedError), match=problem) as error:
        parse_module(text)
    assert "line" in str(error.value)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UserError, match=f"deeper than {MAX_DEPTH}"):
        parse_module(HEADER + ".entry k() {" + "{" * 100_000)
    with pytest.raises(UserError, match=f"deeper than {MAX_DEPTH}"):
        parse_module(HEADER + ".global .u32 g[2] = " + "{" * 100_000)
    with pytest.raises(UserError, match="deeper"):
        parse_module(HEADER + ".entry k() { mov.u32 " + "{" * 100_000)


@pytest.mark.slow
def test_every_prefix_and_every_dropped_token_ends_in_an_error_or_a_module() -> None:
    """Cut off, and with single characters gone or doubled: never anything but our errors."""
    text = HEADER + WHOLE
    for cut in range(0, len(text), 7):
        for damaged in (text[:cut], text[:cut] + text[cut + 1 :], text[: cut + 3] + text[cut:]):
            try:
                parse_module(damaged)
            except JoineryError:
                continue


@pytest.mark.slow
def test_a_large_module_is_read_in_time() -> None:
    body = "".join(f"  add.s32 %r{i % 100}, %r{(i + 1) % 100}, {i};\n" for i in range(20_000))
    start = time.process_time()
    module = parse_module(f"{HEADER}.entry k() {{ .reg .b32 %r<100>;\n{body} ret; }}")
    assert len(module.functions["k"].code or ()) == 20_001
    assert time.process_time() - start < 10


def test_too_much_text_is_refused() -> None:
    with pytest.raises(UserError, match="at most"):
        parse_module(HEADER + " " * ((1 << 25) + 1))
