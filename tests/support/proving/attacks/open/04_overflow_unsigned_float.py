"""overflow 'proven' though numbers are read as unsigned and may be negative, and their unsigned sum wraps."""
import numpy as np, joinery as jn
def kernel(reader):
    return jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = arith.addi %n, %c1 : i32
""" + reader + """
  tt.store %x, %c1, %m : !tt.ptr<i32>
  tt.return
}
""")
CMP = "  %big = arith.constant 1.0e9 : f32\n  %m = arith.cmpf ogt, %f, %big : f32"
READERS = {
  "arith.cmpi ugt (for comparison)": "  %m = arith.cmpi ugt, %s, %c1 : i32",
  "arith.uitofp": "  %f = arith.uitofp %s : i32 to f32\n" + CMP,
  "__nv_uint2float_rn": '  %f = tt.extern_elementwise %s {libname = "libdevice", libpath = "", pure = true, symbol = "__nv_uint2float_rn"} : (i32) -> f32\n' + CMP,
  "inline asm": '  %f = tt.elementwise_inline_asm "{ .reg .u32 a; add.u32 a, $1, $1; cvt.rn.f32.u32 $0, a; }" {constraints = "=f,r", packed_element = 1 : i32, pure = true} %s : i32 -> f32\n' + CMP,
}
for name, reader in READERS.items():
    try:
        k = kernel(reader)
        print(name, "->", k.prove(assume=["n <= 2**31 - 2"], extents={"x": "1"}, grid="1", properties=("overflow",)).verdict("overflow"))
        for n in (-1, -2):
            x = np.zeros(1, "i4"); k.interpret(1, x, n); print(f"   n={n}: uint32(n)+1 =", (n % 2**32) + 1, "stored", x)
    except Exception as e: print(name, type(e).__name__, str(e)[:200])
for name in ("arith.cmpi ugt (for comparison)", "arith.uitofp"):
    for n in (-1, -2): print("sanitizer,", name, "n =", n, [str(f).splitlines()[0] for f in kernel(READERS[name]).sanitize(1, np.zeros(1, "i4"), n).findings])
