"""Writes texts of block kernels for GPUs with given block sizes: matrix products, attention, softmax and layer norm.

Products and attention have two forms: with descriptors, whose blocks TMA copies where there is TMA, and with pointers.
"""

from __future__ import annotations

LOG2_E = 1.4426950408889634


def _grouped(m: int, n: int, group: int) -> str:
    """Computes %m and %n, the start of this program's tile; `group` rows of tiles are traversed together, for
    the L2 cache."""
    return f"""
  %pid = tt.get_program_id x : i32
  %group = arith.constant {group} : i32
  %bm = arith.constant {m} : i32
  %bn = arith.constant {n} : i32
  %per_group = arith.muli %group, %columns : i32
  %which = arith.divsi %pid, %per_group : i32
  %first = arith.muli %which, %group : i32
  %left = arith.subi %rows, %first : i32
  %height = arith.minsi %left, %group : i32
  %inside = arith.remsi %pid, %per_group : i32
  %down = arith.remsi %inside, %height : i32
  %tile_m = arith.addi %first, %down : i32
  %tile_n = arith.divsi %inside, %height : i32
  %m = arith.muli %tile_m, %bm : i32
  %n = arith.muli %tile_n, %bn : i32"""


def matmul_described(m: int, n: int, k: int, elem: str = "bf16", group: int = 8) -> str:
    """Writes C = A B, all row-major: (a, b, c, K, tiles along M, tiles along N), one program per tile."""
    a, b, c = f"{m}x{k}x{elem}", f"{k}x{n}x{elem}", f"{m}x{n}x{elem}"
    total = f"tensor<{m}x{n}xf32>"
    return f"""
tt.func public @matmul(%a: !tt.tensordesc<{a}>, %b: !tt.tensordesc<{b}>, %c: !tt.tensordesc<{c}>, %K: i32, %rows: i32,
    %columns: i32) {{{_grouped(m, n, group)}
  %zero = arith.constant 0 : i32
  %step = arith.constant {k} : i32
  %none = arith.constant dense<0.0> : {total}
  %sum = scf.for %at = %zero to %K step %step iter_args(%acc = %none) -> ({total}) : i32 {{
    %x = tt.descriptor_load %a[%m, %at] : !tt.tensordesc<{a}> -> tensor<{a}>
    %y = tt.descriptor_load %b[%at, %n] : !tt.tensordesc<{b}> -> tensor<{b}>
    %next = tt.dot %x, %y, %acc : tensor<{a}> * tensor<{b}> -> {total}
    scf.yield %next : {total}
  }}
  %out = arith.truncf %sum : {total} to tensor<{c}>
  tt.descriptor_store %c[%m, %n], %out : !tt.tensordesc<{c}>, tensor<{c}>
  tt.return
}}
"""


def _block(name: str, rows: int, columns: int, elem: str, row: str, column: str, stride: str) -> str:
    """Computes %{name}_at, pointers to the block of %{name} at (row, column), and %{name}_r and %{name}_c,
    its indices."""
    shape, pointers = f"tensor<{rows}x{columns}x", f"tensor<{rows}x{columns}x!tt.ptr<{elem}>>"
    lines = []
    for axis, extent, start, letter in ((1, rows, row, "r"), (0, columns, column, "c")):
        line, thin = f"tensor<{extent}xi32>", f"tensor<{rows}x1xi32>" if axis else f"tensor<1x{columns}xi32>"
        lines += [
            f"%{name}_{letter}0 = tt.make_range {{start = 0 : i32, end = {extent} : i32}} : {line}",
            f"%{name}_{letter}1 = tt.splat {start} : i32 -> {line}",
            f"%{name}_{letter}2 = arith.addi %{name}_{letter}1, %{name}_{letter}0 : {line}",
            f"%{name}_{letter} = tt.expand_dims %{name}_{letter}2 {{axis = {axis} : i32}} : {line} -> {thin}",
        ]
    lines += [
        f"%{name}_s = tt.splat {stride} : i32 -> tensor<{rows}x1xi32>",
        f"%{name}_o = arith.muli %{name}_r, %{name}_s : tensor<{rows}x1xi32>",
        f"%{name}_p = tt.splat %{name} : !tt.ptr<{elem}> -> tensor<{rows}x1x!tt.ptr<{elem}>>",
        f"%{name}_q = tt.addptr %{name}_p, %{name}_o : tensor<{rows}x1x!tt.ptr<{elem}>>, tensor<{rows}x1xi32>",
        f"%{name}_w = tt.broadcast %{name}_q : tensor<{rows}x1x!tt.ptr<{elem}>> -> {pointers}",
        f"%{name}_v = tt.broadcast %{name}_c : tensor<1x{columns}xi32> -> {shape}i32>",
        f"%{name}_at = tt.addptr %{name}_w, %{name}_v : {pointers}, {shape}i32>",
    ]
    return "\n  " + "\n  ".join(lines)


def _mask(name: str, index: str, axis: int, limit: str, rows: int, columns: int) -> str:
    """Computes %{name}: whether the index along one axis of a block is below a limit."""
    thin = f"{rows}x1x" if axis == 0 else f"1x{columns}x"
    return f"""
  %{name}_l = tt.splat {limit} : i32 -> tensor<{thin}i32>
  %{name}_t = arith.cmpi slt, {index}, %{name}_l : tensor<{thin}i32>
  %{name} = tt.broadcast %{name}_t : tensor<{thin}i1> -> tensor<{rows}x{columns}xi1>"""


def matmul_persistent(m: int, n: int, k: int, elem: str = "bf16", group: int = 8) -> str:
    """Writes `matmul_described` for as many programs as there are multiprocessors, each of which computes
    several tiles."""
    text = matmul_described(m, n, k, elem, group)
    head, rest = text.split("\n  %pid = tt.get_program_id x : i32", 1)
    body, tail = rest.split("  tt.return", 1)
    return f"""{head}
  %self = tt.get_program_id x : i32
  %programs = tt.get_num_programs x : i32
  %tiles = arith.muli %rows, %columns : i32
  scf.for %pid = %self to %tiles step %programs : i32 {{{body}  }}
  tt.return{tail}"""


def matmul_pointers(m: int, n: int, k: int, elem: str = "bf16", group: int = 8) -> str:
    """Writes C = A B, all row-major: (a, b, c, K, tiles along M, tiles along N, M, N), one program per tile."""
    a, b, c = f"{m}x{k}x", f"{k}x{n}x", f"{m}x{n}x"
    total, pa, pb = f"tensor<{c}f32>", f"tensor<{a}!tt.ptr<{elem}>>", f"tensor<{b}!tt.ptr<{elem}>>"
    return f"""
tt.func public @matmul(%a: !tt.ptr<{elem}>, %b: !tt.ptr<{elem}>, %c: !tt.ptr<{elem}>, %K: i32, %rows: i32, %columns: i32,
    %M: i32, %N: i32) {{{_grouped(m, n, group)}
  %zero = arith.constant 0 : i32
  %step = arith.constant {k} : i32
  %none = arith.constant dense<0.0> : {total}
  %no_a = arith.constant dense<0.0> : tensor<{a}{elem}>
  %no_b = arith.constant dense<0.0> : tensor<{b}{elem}>
  %steps_a = arith.constant dense<{k}> : tensor<{a}i32>
  %rows_b = arith.muli %step, %N : i32
  %steps_b = tt.splat %rows_b : i32 -> tensor<{b}i32>
  {_block("a", m, k, elem, "%m", "%zero", "%K")}
  {_block("b", k, n, elem, "%zero", "%n", "%N")}
  {_block("c", m, n, elem, "%m", "%n", "%N")}
  {_mask("in_m", "%a_r", 0, "%M", m, k)}
  {_mask("in_n", "%b_c", 1, "%N", k, n)}
  %sum:3 = scf.for %at = %zero to %K step %step
      iter_args(%acc = %none, %pa = %a_at, %pb = %b_at) -> ({total}, {pa}, {pb}) : i32 {{
    %k_left = arith.subi %K, %at : i32
    {_mask("in_ka", "%a_c", 1, "%k_left", m, k)}
    {_mask("in_kb", "%b_r", 0, "%k_left", k, n)}
    %mask_a = arith.andi %in_m, %in_ka : tensor<{a}i1>
    %mask_b = arith.andi %in_n, %in_kb : tensor<{b}i1>
    %x = tt.load %pa, %mask_a, %no_a : {pa}
    %y = tt.load %pb, %mask_b, %no_b : {pb}
    %next = tt.dot %x, %y, %acc : tensor<{a}{elem}> * tensor<{b}{elem}> -> {total}
    %next_a = tt.addptr %pa, %steps_a : {pa}, tensor<{a}i32>
    %next_b = tt.addptr %pb, %steps_b : {pb}, tensor<{b}i32>
    scf.yield %next, %next_a, %next_b : {total}, {pa}, {pb}
  }}
  %out = arith.truncf %sum#0 : {total} to tensor<{c}{elem}>
  {_mask("out_m", "%c_r", 0, "%M", m, n)}
  {_mask("out_n", "%c_c", 1, "%N", m, n)}
  %mask_c = arith.andi %out_m, %out_n : tensor<{c}i1>
  tt.store %c_at, %out, %mask_c : tensor<{c}!tt.ptr<{elem}>>
  tt.return
}}
"""


def attention(q: int, k: int, width: int, elem: str = "bf16", causal: bool = False, described: bool = True) -> str:
    """Writes softmax(scale Q Kᵀ) V for heads that follow each other as rows of four matrices: (q, k, v, o,
    rows of a head, scale · log2 e), programs (blocks of rows, heads). The rows of a head must be a
    multiple of both block sizes. Causal: the last rows, which take longest, come first; only blocks with
    hidden scores are masked."""
    score, part, out = f"tensor<{q}x{k}xf32>", f"tensor<{q}x{k}x{elem}>", f"tensor<{q}x{width}xf32>"
    line, thin = f"tensor<{q}xf32>", f"tensor<{q}x1xf32>"
    qt, kt, vt = f"tensor<{q}x{width}x{elem}>", f"tensor<{width}x{k}x{elem}>", f"tensor<{k}x{width}x{elem}>"
    rows, keys = f"!tt.tensordesc<{q}x{width}x{elem}>", f"!tt.tensordesc<{k}x{width}x{elem}>"
    if not described:
        rows = keys = f"!tt.ptr<{elem}>"
    pointers = f"tensor<{k}x{width}x!tt.ptr<{elem}>>"

    def load(name: str) -> str:
        if described:
            return f"%{name}_x = tt.descriptor_load %{name}[%at, %zero] : {keys} -> {vt}"
        return f"%{name}_x = tt.load %{name}_now : {pointers}"

    def own(name: str) -> str:
        return "" if described else _block(name, q, width, elem, "%row", "%zero", "%width")

    per_head = "" if described else f"""
  %width = arith.constant {width} : i32
  %steps = arith.constant dense<{k * width}> : tensor<{k}x{width}xi32>
  {_block("k", k, width, elem, "%head", "%zero", "%width")}
  {_block("v", k, width, elem, "%head", "%zero", "%width")}"""
    more = ("", "", "", "") if described else (
        ", %k_now = %k_at, %v_now = %v_at", f", {pointers}, {pointers}",
        f"""%k_next = tt.addptr %k_now, %steps : {pointers}, tensor<{k}x{width}xi32>
    %v_next = tt.addptr %v_now, %steps : {pointers}, tensor<{k}x{width}xi32>""", ", %k_next, %v_next")  # fmt: skip
    masked = f"""
    %keys_end = arith.addi %j, %bk : i32
    %hides = arith.cmpi sgt, %keys_end, %block : i32
    %shown = scf.if %hides -> ({score}) {{
      %key_s = tt.splat %j : i32 -> tensor<1x{k}xi32>
      %key_i = arith.addi %key_s, %keys : tensor<1x{k}xi32>
      %key_w = tt.broadcast %key_i : tensor<1x{k}xi32> -> tensor<{q}x{k}xi32>
      %seen = arith.cmpi sle, %key_w, %query_w : tensor<{q}x{k}xi32>
      %visible = arith.select %seen, %scaled, %never : tensor<{q}x{k}xi1>, {score}
      scf.yield %visible : {score}
    }} else {{
      scf.yield %scaled : {score}
    }}""" if causal else ""
    indices = f"""
  %key_r = tt.make_range {{start = 0 : i32, end = {k} : i32}} : tensor<{k}xi32>
  %keys = tt.expand_dims %key_r {{axis = 0 : i32}} : tensor<{k}xi32> -> tensor<1x{k}xi32>
  %query_r = tt.make_range {{start = 0 : i32, end = {q} : i32}} : tensor<{q}xi32>
  %query_s = tt.splat %block : i32 -> tensor<{q}xi32>
  %query_i = arith.addi %query_s, %query_r : tensor<{q}xi32>
  %query_t = tt.expand_dims %query_i {{axis = 1 : i32}} : tensor<{q}xi32> -> tensor<{q}x1xi32>
  %query_w = tt.broadcast %query_t : tensor<{q}x1xi32> -> tensor<{q}x{k}xi32>
  %never = arith.constant dense<-1.0e30> : {score}
  %behind = arith.addi %block, %bq : i32
  %end = arith.minsi %behind, %T : i32""" if causal else ""
    heavy_first = """
  %behind_it = arith.addi %block_before, %bq : i32
  %block = arith.subi %T, %behind_it : i32""" if causal else ""
    carried = f"({line}, {line}, {out}{more[1]})"
    end, shown = ("%end", "%shown") if causal else ("%T", "%scaled")
    own_rows = f"tensor<{q}x{width}x!tt.ptr<{elem}>>"
    first, last = f"%q_x = tt.load %q_at : {own_rows}", f"tt.store %o_at, %result : {own_rows}"
    if described:
        first = f"%q_x = tt.descriptor_load %q[%row, %zero] : {rows} -> {qt}"
        last = f"tt.descriptor_store %o[%row, %zero], %result : {rows}, {qt}"
    return f"""
tt.func public @attention(%q: {rows}, %k: {keys}, %v: {keys}, %o: {rows}, %T: i32, %scale: f32) {{
  %zero = arith.constant 0 : i32
  %bq = arith.constant {q} : i32
  %bk = arith.constant {k} : i32
  %x = tt.get_program_id x : i32
  %y = tt.get_program_id y : i32
  %block{"_before" if causal else ""} = arith.muli %x, %bq : i32{heavy_first}
  %head = arith.muli %y, %T : i32
  %row = arith.addi %head, %block : i32
  %factor = tt.splat %scale : f32 -> {score}
  %clear = arith.constant dense<0.0> : {score}
  %lowest = arith.constant dense<0xFF800000> : {line}
  %nothing = arith.constant dense<0.0> : {line}
  %none = arith.constant dense<0.0> : {out}{indices}{per_head}{own("q")}
  {first}
  %sum:{3 if described else 5} = scf.for %j = %zero to {end} step %bk
      iter_args(%top = %lowest, %den = %nothing, %acc = %none{more[0]}) -> {carried} : i32 {{
    %at = arith.addi %head, %j : i32
    {load("k")}
    %turned = tt.trans %k_x {{order = array<i32: 1, 0>}} : {vt} -> {kt}
    %s = tt.dot %q_x, %turned, %clear : {qt} * {kt} -> {score}
    %scaled = arith.mulf %s, %factor : {score}{masked}
    %high = "tt.reduce"({shown}) <{{axis = 1 : i32}}> ({{
    ^bb0(%m0: f32, %m1: f32):
      %m2 = arith.maxnumf %m0, %m1 : f32
      tt.reduce.return %m2 : f32
    }}) : ({score}) -> {line}
    %new = arith.maxnumf %top, %high : {line}
    %fall = arith.subf %top, %new : {line}
    %alpha = math.exp2 %fall : {line}
    %new_t = tt.expand_dims %new {{axis = 1 : i32}} : {line} -> {thin}
    %new_w = tt.broadcast %new_t : {thin} -> {score}
    %below = arith.subf {shown}, %new_w : {score}
    %p = math.exp2 %below : {score}
    %mass = "tt.reduce"(%p) <{{axis = 1 : i32}}> ({{
    ^bb0(%n0: f32, %n1: f32):
      %n2 = arith.addf %n0, %n1 : f32
      tt.reduce.return %n2 : f32
    }}) : ({score}) -> {line}
    %kept = arith.mulf %den, %alpha : {line}
    %den_next = arith.addf %kept, %mass : {line}
    {load("v")}
    %p_x = arith.truncf %p : {score} to {part}
    %alpha_t = tt.expand_dims %alpha {{axis = 1 : i32}} : {line} -> {thin}
    %alpha_w = tt.broadcast %alpha_t : {thin} -> {out}
    %less = arith.mulf %acc, %alpha_w : {out}
    %acc_next = tt.dot %p_x, %v_x, %less : {part} * {vt} -> {out}
    {more[2]}
    scf.yield %new, %den_next, %acc_next{more[3]} : {carried[1:-1]}
  }}
  %den_t = tt.expand_dims %sum#1 {{axis = 1 : i32}} : {line} -> {thin}
  %den_w = tt.broadcast %den_t : {thin} -> {out}
  %quotient = arith.divf %sum#2, %den_w : {out}
  %result = arith.truncf %quotient : {out} to {qt}{own("o")}
  {last}
  tt.return
}}
"""


def _row(block: int, elem: str, pointer: str) -> str:
    """Computes %{pointer}_at, pointers to the row of this program."""
    pointers = f"tensor<{block}x!tt.ptr<{elem}>>"
    return f"""
  %{pointer}_p = tt.addptr %{pointer}, %start : !tt.ptr<{elem}>, i32
  %{pointer}_s = tt.splat %{pointer}_p : !tt.ptr<{elem}> -> {pointers}
  %{pointer}_at = tt.addptr %{pointer}_s, %column : {pointers}, tensor<{block}xi32>"""


def _reduce(result: str, operand: str, block: int, combine: str) -> str:
    return f"""
  {result} = "tt.reduce"({operand}) <{{axis = 0 : i32}}> ({{
  ^bb0(%x0: f32, %x1: f32):
    %x2 = {combine} %x0, %x1 : f32
    tt.reduce.return %x2 : f32
  }}) : (tensor<{block}xf32>) -> f32"""


def _load(result: str, pointers: str, block: int, elem: str) -> str:
    """Loads a row as float32; 0 where the mask is off."""
    if elem == "f32":
        return f"\n  {result} = tt.load {pointers}, %mask, %zeros : tensor<{block}x!tt.ptr<f32>>"
    return f"""
  {result}_h = tt.load {pointers}, %mask, %halves : tensor<{block}x!tt.ptr<{elem}>>
  {result} = arith.extf {result}_h : tensor<{block}x{elem}> to tensor<{block}xf32>"""


def _store(value: str, block: int, elem: str) -> str:
    if elem == "f32":
        return f"\n  tt.store %o_at, {value}, %mask : tensor<{block}x!tt.ptr<f32>>"
    return f"""
  %stored = arith.truncf {value} : tensor<{block}xf32> to tensor<{block}x{elem}>
  tt.store %o_at, %stored, %mask : tensor<{block}x!tt.ptr<{elem}>>"""


def _rows(block: int, elem: str) -> str:
    halves = "" if elem == "f32" else f"\n  %halves = arith.constant dense<0.0> : tensor<{block}x{elem}>"
    return f"""
  %zeros = arith.constant dense<0.0> : tensor<{block}xf32>{halves}
  %row = tt.get_program_id x : i32
  %start = arith.muli %row, %n : i32
  %column = tt.make_range {{start = 0 : i32, end = {block} : i32}} : tensor<{block}xi32>
  %limit = tt.splat %n : i32 -> tensor<{block}xi32>
  %mask = arith.cmpi slt, %column, %limit : tensor<{block}xi32>"""


def softmax(block: int, elem: str = "f32") -> str:
    """Writes softmax of rows of at most `block` elements: (x, o, columns), one program per row."""
    line = f"tensor<{block}xf32>"
    return f"""
tt.func public @softmax(%x: !tt.ptr<{elem}>, %o: !tt.ptr<{elem}>, %n: i32) {{{_rows(block, elem)}
  %lowest = arith.constant dense<0xFF800000> : {line}{_row(block, elem, "x")}{_load("%value", "%x_at", block, elem)}
  %seen = arith.select %mask, %value, %lowest : tensor<{block}xi1>, {line}{_reduce("%top", "%seen", block, "arith.maxnumf")}
  %top_s = tt.splat %top : f32 -> {line}
  %below = arith.subf %seen, %top_s : {line}
  %power = math.exp %below : {line}{_reduce("%sum", "%power", block, "arith.addf")}
  %sum_s = tt.splat %sum : f32 -> {line}
  %result = arith.divf %power, %sum_s : {line}{_row(block, elem, "o")}{_store("%result", block, elem)}
  tt.return
}}
"""


def layer_norm(block: int, elem: str = "f32") -> str:
    """Writes layer norm of rows of at most `block` elements: (x, weight, bias, o, columns, epsilon), one
    program per row."""
    line, pointers = f"tensor<{block}xf32>", f"tensor<{block}x!tt.ptr<{elem}>>"
    shared = "".join(
        f"\n  %{name}_s = tt.splat %{name} : !tt.ptr<{elem}> -> {pointers}"
        f"\n  %{name}_at = tt.addptr %{name}_s, %column : {pointers}, tensor<{block}xi32>"
        + _load(f"%{name}_x", f"%{name}_at", block, elem)
        for name in ("w", "b")
    )
    return f"""
tt.func public @layer_norm(%x: !tt.ptr<{elem}>, %w: !tt.ptr<{elem}>, %b: !tt.ptr<{elem}>, %o: !tt.ptr<{elem}>, %n: i32,
    %eps: f32) {{{_rows(block, elem)}{_row(block, elem, "x")}{_load("%value", "%x_at", block, elem)}
  %count = arith.sitofp %n : i32 to f32{_reduce("%sum", "%value", block, "arith.addf")}
  %mean = arith.divf %sum, %count : f32
  %mean_s = tt.splat %mean : f32 -> {line}
  %off = arith.subf %value, %mean_s : {line}
  %centred = arith.select %mask, %off, %zeros : tensor<{block}xi1>, {line}
  %square = arith.mulf %centred, %centred : {line}{_reduce("%squares", "%square", block, "arith.addf")}
  %variance = arith.divf %squares, %count : f32
  %moved = arith.addf %variance, %eps : f32
  %scale = math.rsqrt %moved : f32
  %scale_s = tt.splat %scale : f32 -> {line}{shared}
  %scaled = arith.mulf %centred, %scale_s : {line}
  %weighted = arith.mulf %scaled, %w_x : {line}
  %result = arith.addf %weighted, %b_x : {line}{_row(block, elem, "o")}{_store("%result", block, elem)}
  tt.return
}}
"""
