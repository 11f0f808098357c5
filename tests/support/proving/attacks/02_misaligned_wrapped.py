import joinery as jn, numpy as np
# y = (12*n)/3 : exactly 4n, but wrapped 12n is no multiple; i32 loads/stores at byte y of an i8 array
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i8> {tt.divisibility = 16 : i32}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c12 = arith.constant 12 : i32
  %c3 = arith.constant 3 : i32
  %lim = arith.constant 60 : i32
  %a = arith.muli %n, %c12 : i32
  %y = arith.divsi %a, %c3 : i32
  %m0 = arith.cmpi sge, %y, %c0 : i32
  %m1 = arith.cmpi sle, %y, %lim : i32
  %m = arith.andi %m0, %m1 : i1
  %p = tt.addptr %x, %y : !tt.ptr<i8>, i32
  %q = tt.bitcast %p : !tt.ptr<i8> -> !tt.ptr<i32>
  tt.store %q, %n, %m : !tt.ptr<i32>
  tt.return
}
""")
pr = k.prove(extents={"x": "64"}, grid="1")
print(pr)
for n in range(1<<28, 1<<32):
    w = (12*n) & 0xffffffff
    if w >= 1<<31: w -= 1<<32
    if 0 <= w//3 <= 60 and (w//3) % 4 and w >= 0:
        s = n if n < 1<<31 else n - (1<<32)
        print("n =", s, "y =", w//3); break
print(k.sanitize(1, np.zeros(64, np.int8), s))
