"""races of y proven for all n, while the read of x is inside x only under n <= bound: beyond it it may read y."""
import joinery as jn
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i64) {
  %b = arith.constant 128 : i32
  %p = tt.get_program_id x : i32
  %f = arith.muli %p, %b : i32
  %l = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  %s = tt.splat %f : i32 -> tensor<128xi32>
  %i = arith.addi %s, %l : tensor<128xi32>
  %i64 = arith.extsi %i : tensor<128xi32> to tensor<128xi64>
  %ns = tt.splat %n : i64 -> tensor<128xi64>
  %m = arith.cmpi slt, %i64, %ns : tensor<128xi64>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %at = tt.addptr %xs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %v = tt.load %at, %m : tensor<128x!tt.ptr<f32>>
  %o = tt.addptr %y, %p : !tt.ptr<f32>, i32
  %c = arith.constant 1.0 : f32
  tt.store %o, %c : !tt.ptr<f32>
  tt.return
}
""")
proof = k.prove(extents={"x": "n", "y": "g"}, grid="g", assume=["g == cdiv(n, 128)"])
print(proof)
for a in proof.accesses: print(a)
only = k.prove(extents={"x": "n", "y": "g"}, grid="g", assume=["g == cdiv(n, 128)"], properties=("races",))
print("races alone: verdict", only.verdict("races"), "ok", only.ok)
n, p = 2**31 + 1, 2**24
wrapped = (p * 128 + 2**31) % 2**32 - 2**31
print(f"n={n}, g={-(-n//128)}, program {p}: reads x[{wrapped}] (mask {wrapped} < n), 8 GiB before x: may be y, which others write")
