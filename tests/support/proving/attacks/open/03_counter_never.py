"""scf.for whose counter wraps on devices: 'never executed' / 'proven' although x[i] with i < 0 is read there."""
import sys
import numpy as np, joinery as jn
END, STEP = 2140000000, 2139998006
i = 0; seq = []
while i < END and len(seq) < 100000:
    seq.append(i); i += STEP
    i = (i + 2**31) % 2**32 - 2**31
print("device counter:", seq[:6], len(seq), "negative", sum(v < 0 for v in seq))
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32, %s: i32) {
  %c0 = arith.constant 0 : i32
  scf.for %i = %c0 to %n step %s : i32 {
    %neg = arith.cmpi slt, %i, %c0 : i32
    scf.if %neg {
      %c1 = arith.constant 1 : i32
      %r = tt.atomic_rmw add, relaxed, gpu, %x, %c1, %neg : (!tt.ptr<i32>, i32, i1) -> i32
      %far = tt.addptr %x, %i : !tt.ptr<i32>, i32
      %ok = arith.cmpi sgt, %r, %n : i32
      tt.store %far, %c1, %ok : !tt.ptr<i32>
    }
  }
  tt.return
}
""")
p = k.prove(assume=["s >= 1"], extents={"x": "1"}, grid="1")
print(p)
x = np.zeros(1, "i4")
print([m for m in dir(k) if not m.startswith("_")])
print("sanitizer", k.sanitize(1, x, END, STEP).findings, x)
x = np.zeros(1, "i4"); k.interpret(1, x, END, STEP); print("interpret", x)
for t in ("cpu", "ptxsim"):
    if len(sys.argv) > 1 and t not in sys.argv[1:]: continue
    try:
        x = np.zeros(1, "i4"); k.launch(1, x, END, STEP, device=t); print(t, x)
    except Exception as e: print(t, type(e).__name__, str(e)[:300])
