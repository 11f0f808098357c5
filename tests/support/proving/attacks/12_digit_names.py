import joinery as jn, numpy as np, json
k = jn.kernel.from_ttir("""
tt.func public @k(%0: !tt.ptr<i32>, %9: i32) {
  %c = arith.constant 8 : i32
  %p = tt.addptr %0, %c : !tt.ptr<i32>, i32
  tt.store %p, %9 : !tt.ptr<i32>
  tt.return
}
""")
for args in ((np.zeros(7, np.int32), 7),):
    try:
        pr = k.prove.like(1, *args); print(pr)
    except Exception as e: print(type(e), e)
    print(k.sanitize(1, *args))
j = json.loads(k.prove(extents={"arg0": "n"} if 0 else {}, grid="1").as_json())
print(j["verdicts"])
j["verdicts"] = {"bounds": "proven", "races": "proven", "overflow": "proven"}; j["trusted"] = []
p = k.prove.verify(json.dumps(j)); print("verify accepts", p.verdict("bounds"))
