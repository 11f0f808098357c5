import joinery as jn, numpy as np
from joinery.interface.tensor_arguments import TensorDescriptor
k = jn.kernel.from_ttir("""
tt.func public @k(%a.shape.0: i32, %a: !tt.tensordesc<tensor<8xi32>>) {
  %v = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  tt.descriptor_store %a[%a.shape.0], %v : !tt.tensordesc<tensor<8xi32>>, tensor<8xi32>
  tt.return
}
""")
pr = k.prove(grid="2", assume=["a.stride.0 == 1"], properties=("races","bounds"))
print(pr)
A = np.zeros(100, np.int32)
d = TensorDescriptor(A, shape=[100], strides=[1], block_shape=[8])
print(k.sanitize(2, 1, d)); print(A[:10])
