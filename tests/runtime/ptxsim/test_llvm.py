"""What LLVM makes of the same functions for NVPTX and for the host: bits agree."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from joinery.runtime.ptxsim import Module, TensorMap

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
THREADS = 128


@pytest.fixture(scope="module")
def targets() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def to_ptx(text: str, cpu: str = "sm_80", features: str = "+ptx80") -> str:
    module = llvm.parse_assembly(f'target datalayout = "{LAYOUT}"\ntarget triple = "{TRIPLE}"\n{text}')
    module.verify()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, features=features, opt=3)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


def host_functions(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    return llvm.create_mcjit_compiler(module, machine)


# -- one operation per function

INTEGER_OPS = {
    **{name: f"%r = {name} T %a, %b" for name in ("add", "sub", "mul", "and", "or", "xor")},
    **{name: f"%z = or T %b, 1\n %n = icmp eq T %z, -1\n %d = select i1 %n, T 3, T %z\n %r = {name} T %a, %d"
       for name in ("sdiv", "udiv", "srem", "urem")},
    **{name: f"%n = and T %b, W1\n %r = {name} T %a, %n" for name in ("shl", "lshr", "ashr")},
    **{name: f"%r = call T @llvm.{name}.T(T %a, T %b)" for name in ("smax", "umin", "sadd.sat", "usub.sat")},
    **{name: f"%r = call T @llvm.{name}.T(T %a, T %b, T %b)" for name in ("fshl", "fshr")},
    **{name: f"%r = call T @llvm.{name}.T(T %a)" for name in ("ctpop", "bitreverse")},
    **{name: f"%r = call T @llvm.{name}.T(T %a, i1 false)" for name in ("ctlz", "cttz", "abs")},
    **{f"icmp-{p}": f"%c = icmp {p} T %a, %b\n %r = select i1 %c, T %a, T 77" for p in ("eq", "slt", "sge", "ult", "ugt")},
    "umul-overflow": "%s = call {T, i1} @llvm.umul.with.overflow.T(T %a, T %b)\n %o = extractvalue {T, i1} %s, 1\n"
                     " %r = zext i1 %o to T",
    "to-f32": "%f = sitofp T %a to float\n %g = fadd float %f, 1.0\n %r = call T @llvm.fptosi.sat.T.f32(float %g)",
    "to-f64": "%f = uitofp T %a to double\n %r = call T @llvm.fptoui.sat.T.f64(double %f)",
    "branches": "%c = icmp slt T %a, %b\n br i1 %c, label %x, label %y\nx:\n %p = mul T %a, 3\n br label %z\ny:\n"
                " %q = sub T %b, %a\n"
                " br label %z\nz:\n %r = phi T [%p, %x], [%q, %y]",
}  # fmt: skip
FLOAT_OPS = {
    **{name: f"%r = {name} T %a, %b" for name in ("fadd", "fsub", "fmul", "fdiv")},
    **{name: f"%r = call T @llvm.{name}.T(T %a)" for name in ("floor", "ceil", "trunc", "fabs", "rint")},
    **{name: f"%r = call T @llvm.{name}.T(T %a, T %b)" for name in ("minnum", "maxnum", "maximum", "minimum", "copysign")},
    "fma": "%r = call T @llvm.fma.T(T %a, T %b, T %a)",
    "sqrt": "%c = call T @llvm.fabs.T(T %a)\n %r = call T @llvm.sqrt.T(T %c)",
    "fneg": "%r = fneg T %a", "round": "%r = call T @llvm.round.T(T %a)",
    **{f"fcmp-{p}": f"%c = fcmp {p} T %a, %b\n %r = select i1 %c, T %a, T 77.0"
       for p in ("oeq", "one", "olt", "uge", "une", "ord", "ueq")},
    "to-int": "%i = call i32 @llvm.fptosi.sat.i32.T(T %a)\n %r = sitofp i32 %i to T",
    "to-long": "%i = call i64 @llvm.fptoui.sat.i64.T(T %a)\n %r = uitofp i64 %i to T",
}  # fmt: skip
TYPES = {
    "i8": np.uint8,
    "i16": np.uint16,
    "i32": np.uint32,
    "i64": np.uint64,
    "float": np.float32,
    "double": np.float64,
}
SUFFIX = {"float": "f32", "double": "f64"}


def function_text(name: str, type_: str, body: str) -> str:
    body = body.replace(".T", f".{SUFFIX.get(type_, type_)}").replace(
        "W1", str(8 * np.dtype(TYPES[type_]).itemsize - 1)
    )
    for before, after in (
        (" T ", f" {type_} "),
        ("(T ", f"({type_} "),
        ("{T,", f"{{{type_},"),
        (" to T", f" to {type_}"),
    ):
        body = body.replace(before, after)
    return f"define internal {type_} @{name}({type_} %a, {type_} %b) alwaysinline {{\n {body}\n ret {type_} %r\n}}\n"


def values(type_: str, rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(TYPES[type_])
    if dtype.kind == "f":
        special = np.array(
            [0.0, -0.0, 1.5, -2.5, 0.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 3e9, -7.0, 2.0**-126, 2.0**-140]
        )
        return np.concatenate(
            [rng.permutation(np.tile(special, 5)), rng.standard_normal(THREADS - 70) * 100]
        ).astype(dtype)
    low = rng.integers(0, 1 << 8 * dtype.itemsize, THREADS, dtype=np.uint64)
    low[:50] = rng.choice(
        np.array([0, 1, 2, 127, 128, 255, (1 << 64) - 1, 1 << 63, 1 << 31, 5], np.uint64), 50
    )
    return low.astype(dtype)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("type_", list(TYPES))
def test_operations_agree_with_the_host(targets: None, type_: str) -> None:
    ops = FLOAT_OPS if type_ in SUFFIX else INTEGER_OPS
    dtype = np.dtype(TYPES[type_])
    names = {name: name.replace("-", "_").replace(".", "_") for name in ops}
    device = host = ""
    for name, plain in names.items():
        function = function_text(f"op_{plain}", type_, ops[name])
        device += (
            function
            + f"""
define ptx_kernel void @k_{plain}(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z) {{
 %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
 %px = getelementptr {type_}, ptr addrspace(1) %x, i32 %t
 %py = getelementptr {type_}, ptr addrspace(1) %y, i32 %t
 %pz = getelementptr {type_}, ptr addrspace(1) %z, i32 %t
 %a = load {type_}, ptr addrspace(1) %px
 %b = load {type_}, ptr addrspace(1) %py
 %r = call {type_} @op_{plain}({type_} %a, {type_} %b)
 store {type_} %r, ptr addrspace(1) %pz
 ret void
}}
"""
        )
        host += (
            function
            + f"""
define void @k_{plain}(ptr %x, ptr %y, ptr %z) {{
 br label %loop
loop:
 %t = phi i32 [0, %0], [%n, %loop]
 %px = getelementptr {type_}, ptr %x, i32 %t
 %py = getelementptr {type_}, ptr %y, i32 %t
 %pz = getelementptr {type_}, ptr %z, i32 %t
 %a = load {type_}, ptr %px
 %b = load {type_}, ptr %py
 %r = call {type_} @op_{plain}({type_} %a, {type_} %b)
 store {type_} %r, ptr %pz
 %n = add i32 %t, 1
 %c = icmp ult i32 %n, {THREADS}
 br i1 %c, label %loop, label %end
end:
 ret void
}}
"""
        )
    module = Module(to_ptx(device))
    engine = host_functions(host)
    rng = np.random.default_rng(dtype.itemsize)
    x, y = values(type_, rng), values(type_, rng)
    for name, plain in names.items():
        got, want = np.zeros_like(x), np.zeros_like(x)
        module.kernel(f"k_{plain}").launch(1, THREADS, [x, y, got])
        address = engine.get_function_address(f"k_{plain}")
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(address)(*(v.ctypes.data for v in (x, y, want)))
        same = got.view(f"u{dtype.itemsize}") == want.view(f"u{dtype.itemsize}")
        if dtype.kind == "f":
            same |= np.isnan(got) & np.isnan(want)
            if name in ("minnum", "maxnum"):  # which zero is open
                same |= (got == 0) & (want == 0)
        assert same.all(), (name, x[~same][:3], y[~same][:3], got[~same][:3], want[~same][:3])


# -- whole kernels

SOFTMAX = """
@part = internal addrspace(3) global [4 x float] undef, align 16
define internal float @reduce(float %v, i1 %sum) alwaysinline convergent {
entry:
  br label %loop
loop:
  %m = phi i32 [16, %entry], [%half, %loop]
  %x = phi float [%v, %entry], [%next, %loop]
  %o = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %x, i32 %m, i32 31)
  %s = fadd float %x, %o
  %g = call float @llvm.maxnum.f32(float %x, float %o)
  %next = select i1 %sum, float %s, float %g
  %half = lshr i32 %m, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %loop, label %warp
warp:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %w = lshr i32 %t, 5
  %p = getelementptr float, ptr addrspace(3) @part, i32 %w
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  store float %next, ptr addrspace(3) %p
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %all = load <4 x float>, ptr addrspace(3) @part, align 16
  %e0 = extractelement <4 x float> %all, i32 0
  %e1 = extractelement <4 x float> %all, i32 1
  %e2 = extractelement <4 x float> %all, i32 2
  %e3 = extractelement <4 x float> %all, i32 3
  %s01 = fadd float %e0, %e1
  %s23 = fadd float %e2, %e3
  %s4 = fadd float %s01, %s23
  %g01 = call float @llvm.maxnum.f32(float %e0, float %e1)
  %g23 = call float @llvm.maxnum.f32(float %e2, float %e3)
  %g4 = call float @llvm.maxnum.f32(float %g01, float %g23)
  %r = select i1 %sum, float %s4, float %g4
  ret float %r
}
define ptx_kernel void @softmax(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y, i32 %n)
    convergent "nvvm.reqntid"="128" {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %row = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %row, %n
  %i = add i32 %base, %t
  %in = icmp ult i32 %t, %n
  br i1 %in, label %load, label %join
load:
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %lv = load float, ptr addrspace(1) %p
  br label %join
join:
  %v = phi float [%lv, %load], [0xFFF0000000000000, %0]
  %max = call float @reduce(float %v, i1 false) convergent
  %d = fsub float %v, %max
  %l = fmul float %d, 0x3FF7154760000000
  %e = call float @llvm.nvvm.ex2.approx.ftz.f(float %l)
  %sum = call float @reduce(float %e, i1 true) convergent
  %r = fdiv float %e, %sum
  br i1 %in, label %store, label %end
store:
  %q = getelementptr float, ptr addrspace(1) %y, i32 %i
  store float %r, ptr addrspace(1) %q
  br label %end
end:
  ret void
}
"""


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_softmax_over_rows(targets: None, level: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 100)).astype(np.float32)
    y = np.zeros_like(x)
    x.flags.writeable = False
    result = Module(to_ptx(SOFTMAX)).kernel().launch(5, None, [x, y, 100], level=level)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
    assert not result.findings
    assert result.families["shfl"] >= 5 * 10


def test_a_tile_through_copies_matrices_and_mma(targets: None) -> None:
    """16 × 16 by 16 × 8 in bf16: cp.async, ldmatrix with and without .trans, mma, by the intrinsics of LLVM."""
    text = """
@sm = internal addrspace(3) global [768 x i8] undef, align 128
define ptx_kernel void @tile(ptr addrspace(1) %A, ptr addrspace(1) %B, ptr addrspace(1) %C) "nvvm.reqntid"="32" {
  %l = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %l64 = zext i32 %l to i64
  %o = shl i64 %l64, 4
  %ga = getelementptr i8, ptr addrspace(1) %A, i64 %o
  %sa = getelementptr i8, ptr addrspace(3) @sm, i64 %o
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %sa, ptr addrspace(1) %ga)
  %l15 = and i32 %l, 15
  %p64 = zext i32 %l15 to i64
  %po = shl i64 %p64, 4
  %gb = getelementptr i8, ptr addrspace(1) %B, i64 %po
  %sb0 = getelementptr i8, ptr addrspace(3) @sm, i64 %po
  %sb = getelementptr i8, ptr addrspace(3) %sb0, i64 512
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %sb, ptr addrspace(1) %gb)
  call void @llvm.nvvm.cp.async.commit.group()
  call void @llvm.nvvm.cp.async.wait.group(i32 0)
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %hi = lshr i32 %l, 4
  %r = shl i32 %l15, 5
  %h = shl i32 %hi, 4
  %ao = or i32 %r, %h
  %ao64 = zext i32 %ao to i64
  %la = getelementptr i8, ptr addrspace(3) @sm, i64 %ao64
  %fa = call {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %la)
  %fb = call {i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3) %sb)
  %a0 = extractvalue {i32, i32, i32, i32} %fa, 0
  %a1 = extractvalue {i32, i32, i32, i32} %fa, 1
  %a2 = extractvalue {i32, i32, i32, i32} %fa, 2
  %a3 = extractvalue {i32, i32, i32, i32} %fa, 3
  %b0 = extractvalue {i32, i32} %fb, 0
  %b1 = extractvalue {i32, i32} %fb, 1
  %d = call {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0,
     i32 %b1, float 0.0, float 0.0, float 0.0, float 0.0)
  %d0 = extractvalue {float, float, float, float} %d, 0
  %d1 = extractvalue {float, float, float, float} %d, 1
  %d2 = extractvalue {float, float, float, float} %d, 2
  %d3 = extractvalue {float, float, float, float} %d, 3
  %c = shl i64 %l64, 3
  %pc = getelementptr i8, ptr addrspace(1) %C, i64 %c
  store float %d0, ptr addrspace(1) %pc
  %p1 = getelementptr i8, ptr addrspace(1) %pc, i64 4
  store float %d1, ptr addrspace(1) %p1
  %p2 = getelementptr i8, ptr addrspace(1) %pc, i64 256
  store float %d2, ptr addrspace(1) %p2
  %p3 = getelementptr i8, ptr addrspace(1) %pc, i64 260
  store float %d3, ptr addrspace(1) %p3
  ret void
}
"""
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((16, 16), (16, 8)))
    bits = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in (a, b)]
    kernel = Module(to_ptx(text)).kernel()
    for delivery in ("late", "early", "random"):
        c = np.zeros((16, 8), np.float32)
        kernel.launch(1, None, [*bits, c], level=3, delivery=delivery)
        assert np.array_equal(c, a @ b)


def test_a_box_by_the_intrinsics_of_hopper(targets: None) -> None:
    text = """
@sm = external addrspace(3) global [0 x i8], align 1024
define ptx_kernel void @box(ptr byval([16 x i64]) align 64 "nvvm.grid_constant" %d, ptr addrspace(1) %out) "nvvm.reqntid"="64" {
entry:
  %bar = getelementptr i8, ptr addrspace(3) @sm, i32 1024
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %z = icmp eq i32 %t, 0
  br i1 %z, label %init, label %sync
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 1)
  call void @llvm.nvvm.fence.mbarrier_init.release.cluster()
  %st = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 1024)
  %s7 = addrspacecast ptr addrspace(3) @sm to ptr addrspace(7)
  call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7) %s7, ptr addrspace(3) %bar, ptr %d, i32 16,
     i32 4, i16 0, i64 0, i1 0, i1 0, i32 0)
  br label %sync
sync:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %wait
wait:
  %ok = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) %bar, i32 0)
  br i1 %ok, label %go, label %wait
go:
  %p = getelementptr i64, ptr addrspace(3) @sm, i32 %t
  %v = load i64, ptr addrspace(3) %p
  %q = getelementptr i64, ptr addrspace(1) %out, i32 %t
  store i64 %v, ptr addrspace(1) %q
  ret void
}
"""
    x = np.arange(32 * 48, dtype=np.float32).reshape(32, 48)
    out = np.zeros((8, 16), np.float32)
    tensor_map = TensorMap(x, (32, 48), None, (16, 16), "f32")
    kernel = Module(to_ptx(text, "sm_90a")).kernel()
    for level in (1, 2, 3):
        kernel.launch(1, None, [tensor_map, out], shared=1032, level=level)
        assert np.array_equal(out, x[4:12, 16:32])
