#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of unusual form under layouts: `dtc --verify` proves each layout and its plan, and the interpreter of all
ranks computes what the serial program does.

  programs.py DTC     a commit's share of them (tests/share.py)
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share  # noqa: E402

ROOT = "tests/passes/programs"
# Loops that begin with the same value twice: a parameter, an input, a gradient of zero.
CARRIED = ["", "mesh data = 2; shard batch on data; micro batch = 2"] + [
    f"mesh pipe = {stages}; pipeline h on pipe (schedule = \"{schedule}\", chunks = {chunks}); micro batch = 2"
    for stages, schedule, chunks in [(3, "interleaved_1f1b", 2), (2, "1f1b", 1), (2, "zb_h1", 1)]]


# Bytes that an iteration of h saves on one of two ranks, for what `remat` keeps inside of the
# loop: maximum and sum of the rows of scores, which `attend` saves besides its result
ROWS = 768  # maximum and sum of the rows of scores, which `attend` leaves beside its result
SAVED = {"": 512, "(keep = attend)": 512 + 3 * 512 + ROWS, "(keep = att)": 512 + 9 * 512 + ROWS,
         "(drop = attend)": 512 + 9 * 512}
AGAIN = "mesh data = 2; shard batch on data; remat h {}"
# Values that bypass a pipelined loop. Their gradients come from several stages, and are added up
# before what is linear in them: x, what is kept of it, the end.
SKIP = """include "std.dsl"
dim batch = 4, vocab = 16, embed = 8, ffn = 12, layers = 4
layer mlp(x[batch, embed]) -> [batch, embed] {{
  return x + (up:linear[embed, ffn](x) |> relu |> down:linear[ffn, embed])
}}
model m(i32 tokens[batch], given[batch, embed]) -> [batch, vocab] {{
  param wte[vocab, embed], pos[embed], gain[embed] = normal(0.5)
  x = {}
  a = {}
  repeat h in layers {{ x = mlp(x) }}
  return {} @embed wte
}}
train {{
  i32 tokens[batch] = synthetic(0, vocab)
  given[batch, embed] = synthetic(0, 1)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](m(tokens, given), labels))
  optimizer = adamw(lr = 0.1)
  steps = 2
}}
"""
SKIPS = [("wte[vocab = tokens] + pos", "x", "(x + a)"), ("(wte[vocab = tokens] + pos) * gain", "x", "(x + a)"),
         ("dropout(wte[vocab = tokens] + pos * 2, 0.2)", "x * gain", "(x + a)"),
         ("wte[vocab = tokens] + pos + given", "-x", "(x + a * gain)"),
         ("(wte[vocab = tokens] + pos) / 3", "relu(x)", "(relu(x + a) + a)"),
         ("wte[vocab = tokens] * gain - pos", "pos", "(x + a + pos)")]
PIPES = [f"mesh pipe = 2{data}; pipeline h on pipe (schedule = \"{schedule}\", chunks = {chunks}); micro batch = 2"
         for data in ("", ", data = 2; shard batch on data; zero 2 on data")
         for schedule, chunks in [("1f1b", 1), ("interleaved_1f1b", 2), ("zb_h1", 1)]]

# A parameter that every layer of a pipelined loop reads: in 16 bits each stage rounds its own sum
# of gradients. The table at both ends also has gradients that come only from the loss: constants,
# and values that are never sent.
SHARED = """include "std.dsl"
dim batch = 8, vocab = 16, embed = 8, layers = 8
model m(i32 tokens[batch]) -> [batch, vocab], f32[] {{
  param wte[vocab, embed], gain[embed], unused[embed] = normal(0.5)
  x = wte[vocab = tokens]
  y = x
  repeat h in layers {{ x = x + gain * ln:layernorm[embed](x) }}
  return x @embed wte, f32({})
}}
train {{
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  z, more = m(tokens)
  loss = mean[batch](xent[vocab](z, labels)) + more
  optimizer = adamw(lr = 0.1, clip = 1.0)
  precision = mixed(compute = {}, params = f32, grads = f32, reduce = f32)
  steps = 2
}}
"""
SHARED_PIPES = PIPES + [layout.replace("micro batch = 2", "micro batch = 1") for layout in PIPES]
MORES = ["0", "sum[vocab, embed](wte)", "0.1 * sum[vocab, embed](wte * wte)",
         "sum[embed](mean[batch](stop(x)) * mean[vocab](wte))", "sum[embed](mean[batch](stop(y)) * mean[vocab](wte))"]

# Parameters with equal gradients: two results are the same value, and both are accumulated over
# micro-batches.
TWICE = """include "std.dsl"
dim batch = 8, vocab = 16, embed = 8, layers = 6
model m(i32 tokens[batch]) -> [batch, vocab] {
  param wte[vocab, embed], wtf[vocab, embed], last[embed], more[embed] = normal(0.5)
  x = wte[vocab = tokens] + wtf[vocab = tokens]
  repeat h in layers {
    param a[embed], b[embed] = normal(0.5)
    x = x + gelu(x + a + b)
  }
  return (x + last + more) @embed (wte * wtf)
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.1, clip = 1.0)
  steps = 2
}
"""

# Programs that contain their layouts.
OWN = ["buckets", "attend_sink", "aside", "rings_apart", "rings_within", "frame_of_called", "own_gradient_whole",
       "outer_number", "aux_from_zero", "padded_whole", "state_scaled", "state_again", "unused_labels", "padded_max",
       "padded_first", "frozen_layers", "unread_loop", "forward_again", "padded_lines", "running_sum", "zero_noise",
       "draws", "layers", "ghost", "metrics", "frozen_paths", "ring_lines", "padded_halo", "state_split",
       "sequences", "both_ways", "drawing_fns", "carried_groups", "carried_positions", "unread_params",
       "axis_params", "streamed_logits", "two_tables", "tables_of_loops", "attend_scaled", "weight_twice", "products_only",
       "loops_beside", "sum_in_loop", "max_over_two",
       "sliced_ends", "zero_part", "ring_between", "ring_events", "rings_beside", "wide_beside",
       "ring_values", "own_norms", "stages_alike", "padded_alone", "zero_nested", "many_sums", "tied16",
       "grouped_halo", "unread_momentum", "attend_alone", "skip16", "skip_rounded", "padded_layers", "merged_one",
       "norm_of_zeros", "behind_members", "ring_wide_queries",
       "padded_ahead"]
GPUS = ["one_rank"]  # the same for the plan for GPUs
# Programs with dims that are proved where dtc compiles them, but not evaluated: too large for the
# interpreter, or the same ops with other numbers of iterations.
COMPILED = [("large_batch", "")] + [("summed_forms", f"layers={layers}") for layers in (5, 6, 12)]


def ranks(layout):
    """The number of ranks: the product of the sizes of the mesh."""
    product = 1
    for word in layout.split("mesh ")[1].split(";")[0].split(",") if "mesh " in layout else []:
        product *= int(word.split("=")[1])
    return product


def read(program):
    with open(os.path.join(ROOT, program + ".dsl")) as file:
        return file.read()


def refusal(command):
    """The messages of dtc, unless it says that the layout equals the serial program."""
    made = subprocess.run(command + ["--verify", "--no-kernels"], capture_output=True, text=True, timeout=300)
    said = made.stdout + made.stderr
    proofs = 2 + ("for rings and the zigzag order" in said or "proved: in blocks" in said)
    proofs += len(re.findall(r"^proved: \d+ custom gradient", said, re.M))
    good = made.returncode == 0 and said.count("proved: ") == proofs and "\nequal to the serial program" in said
    return "" if good else made.stderr or said


def verify(dtc, folder, program, layout, counts):
    """The messages of dtc if it refuses the program; the bytes that the first loop saves, if counts."""
    path, report = (os.path.join(folder, name) for name in ("program.dsl", "report.json"))
    with open(path, "w") as file:
        file.write(program)
        if layout:
            file.write(f"cluster c {{ gpus = {ranks(layout)}; gpu = \"cpu\" }}\nparallel p on c {{ {layout} }}\n")
    said = refusal([dtc, path])
    if said or not counts:
        return said, 0
    command = [dtc, path, "--no-kernels", "--report=json", "-o", report]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    with open(report) as file:
        loops = json.load(file)["saved"]
    return "", loops[0]["saved"] if loops else 0


def main(dtc):
    cases = [("carried", read("carried"), layout, 0) for layout in CARRIED]
    cases += [("equal_gradients", read("equal_gradients"), layout, 0) for layout in CARRIED[:2]]
    cases += [("again", read("again"), AGAIN.format(names), saved) for names, saved in SAVED.items()]
    cases += [(", ".join(skip), SKIP.format(*skip), layout, 0) for skip in SKIPS for layout in PIPES]
    cases += [(f"{more}, {dtype}", SHARED.format(more, dtype), layout, 0)
              for more in MORES for dtype in ("bf16", "f16", "f32") for layout in SHARED_PIPES]
    cases += [("twice", TWICE, layout, 0) for layout in CARRIED + SHARED_PIPES]
    failed, cases = 0, share.of(cases)
    with tempfile.TemporaryDirectory() as folder:
        for name, program, layout, want in cases:
            said, saved = verify(dtc, folder, program, layout, want != 0)
            if want and not said and saved != want:
                said = f"{saved} bytes are saved instead of {want}"
            failed += said != ""
            if said:
                print(f"FAIL {name}, {layout or 'serial'}: {said.strip()}")
    for name in OWN + GPUS:
        for layout in share.of(re.findall(r"^parallel (\w+)", read(name), re.M)):
            target = ["--target=sm_90a"] if name in GPUS else []
            said = refusal([dtc, os.path.join(ROOT, name + ".dsl"), "--parallel", layout] + target)
            cases.append((name, layout))
            failed += said != ""
            if said:
                print(f"FAIL {name}, {layout}: {said.strip()}")
    for name, dim in COMPILED:
        made = subprocess.run([dtc, os.path.join(ROOT, name + ".dsl"), "--no-kernels", "-o", os.devnull]
                              + (["-D", dim] if dim else []), capture_output=True, text=True, timeout=300)
        cases.append((name, dim))
        failed += made.returncode != 0
        if made.returncode != 0:
            print(f"FAIL {name}, {dim}: {made.stderr.strip()[-500:]}")
    print(f"programs: {len(cases) - failed} of {len(cases)} proved and equal")
    return failed > 0


sys.exit(main(os.path.abspath(sys.argv[1])))
