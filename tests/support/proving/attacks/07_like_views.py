import joinery as jn, numpy as np
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %v = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %ns = tt.splat %n : i32 -> tensor<8xi32>
  %m = arith.cmpi slt, %v, %ns : tensor<8xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %p = tt.addptr %xs, %v : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %p, %v, %m : tensor<8x!tt.ptr<i32>>
  tt.return
}
""")
for A in (np.zeros(10, np.int32)[::2], np.zeros(5, np.int64), np.zeros(10, np.int32)[::-1], np.zeros((1,), np.int32).repeat(5), np.broadcast_to(np.zeros(1,np.int32), (5,))):
    try:
        pr = k.prove.like(1, A, 5); print(pr.specification, [pr.verdict(p) for p in pr.properties])
        print(k.sanitize(1, A, 5))
    except Exception as e: print(type(e), e)
