import joinery as jn, numpy as np
# sanitised names: %a-b and %a_b
for head in ("%a-b: i32, %a_b: i32", "%n_2: i32, %n_1: i32", "%n_2: i32, %n: i32", "%n.1: i32, %n_1: i32"):
    names = [h.split(":")[0].strip() for h in head.split(",")]
    try:
        k = jn.kernel.from_ttir("tt.func public @k(%%x: !tt.ptr<i32>, %s) {\n %%p = tt.addptr %%x, %s : !tt.ptr<i32>, i32\n tt.store %%p, %s : !tt.ptr<i32>\n tt.return\n}" % (head, names[0], names[1]))
        from joinery.lowering.prove.preparation import parameter_names
        print(head, "->", parameter_names(k._function))
    except Exception as e: print(head, type(e), str(e)[:100])
