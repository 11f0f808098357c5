"""races of a LOAD of y proven for all sizes, while a STORE of x stays inside x only under a bound."""
import joinery as jn
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i8>, %y: !tt.ptr<i32>, %n: i64) {
  %c1 = arith.constant 1 : i8
  %p = tt.get_program_id x : i32
  %c = arith.constant 65536 : i32
  %o = arith.muli %p, %c : i32
  %w = arith.extsi %o : i32 to i64
  %m = arith.cmpi slt, %w, %n : i64
  %at = tt.addptr %x, %o : !tt.ptr<i8>, i32
  tt.store %at, %c1, %m : !tt.ptr<i8>
  %v = tt.load %y : !tt.ptr<i32>
  tt.return
}
""")
p = k.prove(extents={"x": "n", "y": "1"}, grid="cdiv(n, 65536)", properties=("bounds", "races"))
for a in p.accesses: print(str(a).replace("\n", " "))
n = 2**31 + 65536; pid = 2**15; o = (pid * 65536 + 2**31) % 2**32 - 2**31
print(f"n={n}: program {pid} of {-(-n // 65536)} stores x[{o}]: 2 GiB before x, which may be y, that every program loads")
import sys
if "run" in sys.argv:
    import numpy as np
    buf = np.zeros(2**31 + n, "i1")          # lazily mapped; y and x are disjoint parts of it
    y, x = buf[:4].view("i4"), buf[2**31:]
    print("disjoint:", not np.may_share_memory(x, y), x.size == n, "y before", y)
    k.launch(32769, x, y, n)
    print("y after", y, "- written by program 32768, loaded by all 32769")
