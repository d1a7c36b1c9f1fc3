#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the price of a plan has of a stack:  stack.py DTC

Each flag alone: cost/stack.def says whether prices of plans have it. Those that do change the step of a program with
all that flags are about; the others change nothing, and the report names them."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """include "std.dsl"
dim batch = 64, seq = 1024, kseq = seq, vocab = 8192, layers = 8
dim embed = 1024, heads = 16, head = embed // heads, ffn = 4 * embed
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o) |> dropout(0.1)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed] |> dropout(0.1)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = constant(1e-3))
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = f32)
  steps = 10
}
stack one { FLAGS }
cluster pod { nodes = 2; gpus = 4; gpu = "a100-80g"; stack = STACK }
parallel it on pod {
  mesh pipe = 2, data = 2, tensor = 2
  shard heads, ffn, vocab on tensor
  shard batch on data
  pipeline h on pipe (schedule = "1f1b")
  micro batch = 8
  zero 1 on data
  remat h (keep = (up, attend))
}
"""


def report(dtc, folder, flags, stack, *options):
    path = Path(folder) / "it.dsl"
    path.write_text(PROGRAM.replace("FLAGS", flags).replace("STACK", stack))
    run = subprocess.run([dtc, path, "--no-kernels", "--report", *options], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def main():
    dtc = sys.argv[1]
    rows = re.findall(r'^DT_STACK_FLAG\((\w+), (NULL|"[^"]*"),', (ROOT / "cost/stack.def").read_text(), re.M)
    assert len(rows) > 10, rows
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        ours = json.loads(report(dtc, folder, "scores = true", "ours", "--json"))
        assert ours["stack_left_out"] == [] and "NOT in these times" not in report(dtc, folder, "scores = true", "ours")
        for name, in_plan in rows:
            after = json.loads(report(dtc, folder, f"{name} = true", "one", "--json"))
            has, left_out = in_plan != "NULL", after["stack_left_out"]
            differs = after["time"]["step"] != ours["time"]["step"]
            good = left_out == ([] if has else [name])
            # for some flags only part of it matters: here it may have no effect
            good = good and (differs == has or in_plan not in ("NULL", '""'))
            text = report(dtc, folder, f"{name} = true", "one")
            good = good and (f"NOT in these times: {name}" in text) != has
            # nor may the error band change
            good = good and ("if what is NOT in these times takes none" in text) != has
            if not good:
                print(f"{name}: the price of a plan has {'it' if has else 'nothing of it'}, cost/stack.def says, but the "
                      f"step is {ours['time']['step']} without and {after['time']['step']} with it; {left_out}")
            failed += not good
    print(f"{len(rows) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
