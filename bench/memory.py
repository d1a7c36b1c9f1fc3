#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the memory of plans with published peaks: the 1F1B rows of "Zero Bubble Pipeline
Parallelism" (ICLR 2024).

Their software keeps the scores of attention in memory, so the program here writes attention out;
layers lie on stages as theirs did, one fewer on the first and the last. Allocated is what the plan
lays out, without what a device takes for itself; beside it what they keep and our plans make again,
the masks of dropout: a byte for each score and for each element behind attention and behind the
layer (stack flag `dropout_masks`). Usage: bench/memory.py [DTC], from the root of the tree; exit
status 1 if the mean error is above 7 %."""
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

DTC = sys.argv[1] if len(sys.argv) > 1 else 'build/release/dtc'
PROGRAM = '''include "std.dsl"
dim batch = BATCH, seq = SEQ, kseq = seq, vocab = 51200
dim layers = LAYERS, embed = EMBED, heads = HEADS, head = embed // heads, ffn = 4 * embed
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  s = (q @head k) * head ** -0.5
  p = softmax[kseq](where(iota[kseq] <= iota[seq], s, -10000.0))
  o = dropout(p, 0.1) @kseq v
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed]
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  x = dropout(wte[vocab = tokens] + wpe, 0.1)
  repeat h in layers {
    x = x + dropout(attention(ln1:layernorm[embed](x)), 0.1)
    x = x + dropout(mlp(ln2:layernorm[embed](x)), 0.1)
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = constant(1e-4))
  precision = mixed(compute = f16, params = f16, master = f32, grads = f32, reduce = f32, loss_scale = 1024)
  steps = 10
}
cluster pod { nodes = NODES; gpus = 8; gpu = "a100-80g" }
parallel it on pod {
  mesh pipe = STAGES
  pipeline h on pipe (schedule = "1f1b", cuts = CUTS)
  micro batch = MICRO
}
'''


def memory(row):
    stages, layers = int(row['pp']), int(row['layers'])
    micro = int(row['global_batch']) // int(row['micro_batch'])
    each = (layers + 2) // stages
    cuts = [each - 1 + each * i for i in range(stages - 1)]
    text = PROGRAM
    for key, value in (('BATCH', row['global_batch']), ('SEQ', row['seq']), ('LAYERS', layers), ('EMBED', row['hidden']),
                       ('HEADS', row['heads']), ('NODES', max(1, stages // 8)), ('STAGES', stages),
                       ('CUTS', '(' + ', '.join(map(str, cuts)) + ')'), ('MICRO', micro)):
        text = text.replace(key, str(value))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'it.dsl')
        open(path, 'w').write(text)
        run = subprocess.run([DTC, path, '--report=json', '--library', 'lib'], capture_output=True, text=True)
    if not run.stdout:
        sys.exit(run.stderr)
    return json.loads(run.stdout)['memory']


def masks(row, stage):
    """Saved values of the micro-batches in flight on the stage; the last stages have few."""
    stages, samples, seq = int(row['pp']), int(row['micro_batch']), int(row['seq'])
    each = (int(row['layers']) + 2) // stages - (stage in (0, stages - 1))
    micro = int(row['global_batch']) // samples
    layer = int(row['heads']) * seq * seq * samples + 2 * seq * samples * int(row['hidden'])
    return each * layer * min(micro, stages - stage)


def main():
    seen, errors = set(), []
    print(f'{"model":>10} {"micro":>6} {"of":>3} {"published":>10} {"allocated":>10} {"with masks":>11} {"off":>7}  stage')
    for row in csv.DictReader(open('bench/published/zero_bubble.csv')):
        if not row['notes'].startswith('1F1B;') or not row['measured_peak_mem_gb']:
            continue
        micro = int(row['global_batch']) // int(row['micro_batch'])
        key = (row['model'], min(micro, int(row['pp'])), row['micro_batch'])
        # if there are more micro-batches than stages, as many are in flight as there are stages
        if key in seen:
            continue
        seen.add(key)
        m = memory(row)
        whole = [s['allocated'] + masks(row, i) for i, s in enumerate(m['stages'])]
        worst = whole.index(max(whole))
        got, want = whole[worst] / 2**30, float(row['measured_peak_mem_gb'])
        errors.append(got / want - 1)
        own = m['stages'][worst]['allocated'] / 2**30
        print(f'{row["model"]:>10} {micro:6d} {row["micro_batch"]:>3} {want:8.0f}GB {own:7.1f}GiB {got:8.1f}GiB '
              f'{100 * (got / want - 1):+6.1f}%  {worst}', flush=True)
    mean = statistics.mean(abs(e) for e in errors)
    print(f'{len(errors)} rows: off by {100 * mean:.1f} % in the mean, {100 * max(abs(e) for e in errors):.1f} % at most')
    sys.exit(mean > 0.07)


main()
