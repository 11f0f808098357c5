"""prove(properties=("races",)).ok is True for all n; a launch within the specification has a read-write race between two programs."""
import sys
import numpy as np, joinery as jn
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i8>, %y: !tt.ptr<i8>, %z: !tt.ptr<i8>, %n: i64) {
  %c1 = arith.constant 1 : i8
  %p = tt.get_program_id x : i32
  %c = arith.constant 65536 : i32
  %o = arith.muli %p, %c : i32
  %w = arith.extsi %o : i32 to i64
  %m = arith.cmpi slt, %w, %n : i64
  %at = tt.addptr %x, %o : !tt.ptr<i8>, i32
  %v = tt.load %at, %m : !tt.ptr<i8>
  %to = tt.addptr %y, %p : !tt.ptr<i8>, i32
  tt.store %to, %c1 : !tt.ptr<i8>
  %out = tt.addptr %z, %p : !tt.ptr<i8>, i32
  tt.store %out, %v : !tt.ptr<i8>
  tt.return
}
""")
p = k.prove(extents={"x": "n", "y": "g", "z": "g"}, grid="g", assume=["g == cdiv(n, 65536)"], properties=("races",))
print("races:", p.verdict("races"), "ok:", p.ok, [str(a) for a in p.accesses])
if "run" in sys.argv:
    n = 2**31 + 65536
    buf = np.zeros(2**31 + n, "i1")     # lazily mapped; y and x are disjoint parts of it
    y, z, x = buf[:32769], np.zeros(32769, "i1"), buf[2**31:]
    print("overlap:", np.may_share_memory(x, y), np.may_share_memory(x, z))
    k.launch(32769, x, y, z, n)
    print("x is all 0, and program 32768 loaded", z[32768], "which program 0 had stored to y[0]")
