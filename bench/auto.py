#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layouts that `auto` chooses beside published ones: the ten models of Megatron-LM's table 1 (SC21) on their GPUs.

Both are compiled and simulated with the same costs (stack `ours`), so that only the layouts differ; the time that was
measured in 2021, with another software, is shown beside them. Usage: bench/auto.py [DTC], from the root of the tree."""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time

DTC = sys.argv[1] if len(sys.argv) > 1 else 'build/release/dtc'


def program(row, block):
    """The program examples/gpt_1t.dsl with the extents of the table's row, its cluster and the
    block."""
    text = open('examples/gpt_1t.dsl').read()
    head, rest = text.split('parallel megatron', 1)
    nodes = max(1, int(row['gpus']) // 8)
    head = re.sub(r'nodes = \d+', f'nodes = {nodes}', head)
    for name, key in ('batch', 'global_batch'), ('seq', 'seq'), ('layers', 'layers'), ('embed', 'hidden'), ('heads', 'heads'):
        head = re.sub(rf'\b{name} = \d+', f'{name} = {row[key]}', head, count=1)
    return head + block


def sizes(row):
    """The published layout: stages, ranks of a tensor, replicas, pieces of a stage."""
    pipe, tensor = int(row['pp']), int(row['tp'])
    return pipe, tensor, int(row['gpus']) // pipe // tensor, int(row['virtual_stages'] or 1)


def published(row):
    """The layout as Megatron-LM used it: layers are recomputed. The optimizer's state is split over
    replicas, which it was not then."""
    pipe, tensor, data, chunks = sizes(row)
    micro = int(row['global_batch']) // data // int(row['micro_batch'])
    mesh = [f'{n} = {s}' for n, s in (('pipe', pipe), ('data', data), ('tensor', tensor)) if s > 1]
    lines = ['mesh ' + ', '.join(mesh)]
    if tensor > 1:
        lines += ['shard heads, ffn, vocab on tensor']
    lines += ['shard batch on data'] if data > 1 else []
    if pipe > 1:
        lines += [f'pipeline h on pipe (schedule = "{"interleaved_1f1b" if chunks > 1 else "1f1b"}"' +
                  (f', chunks = {chunks})' if chunks > 1 else ')')]
    lines += [f'micro batch = {micro}'] if micro > 1 else []
    lines += ['zero 1 on data'] if data > 1 else []
    lines += ['remat h']
    return 'parallel it on superpod {\n  ' + '\n  '.join(lines) + '\n}\n'


def report(row, block):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'it.dsl')
        open(path, 'w').write(program(row, block))
        begin = time.monotonic()
        run = subprocess.run([DTC, path, '--report=json', '--library', 'lib'], capture_output=True, text=True)
        took = time.monotonic() - begin
        if not run.stdout:
            return None, run.stderr, took
        return json.loads(run.stdout), run.stderr, took


def layout(text):
    """The lines of the printed block, shortened."""
    block = re.search(r'parallel it on superpod \{\n(.*?)\}\n', text, re.S).group(1)
    return '; '.join(line.strip() for line in block.splitlines())


def paper_flops(row):
    """Operations of a step, including recomputed layers, as the paper counts them (section 5.1)."""
    layers, hidden, vocab, seq, batch = (int(row[k]) for k in ('layers', 'hidden', 'vocab', 'seq', 'global_batch'))
    return 96 * batch * seq * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden))


def main():
    rows = list(csv.DictReader(open('bench/published/megatron_sc21_table1.csv')))
    print(f'{"model":>10} {"GPUs":>5} {"2021":>8} {"its layout":>11} {"auto":>8} {"ratio":>6} {"search":>7}  '
          f'{"pp/tp/dp/chunks":>16}  chosen')
    for row in rows:
        theirs, said, _ = report(row, published(row))
        ours, chosen, took = report(row, 'parallel it on superpod { auto }\n')
        if not theirs or not ours:
            print(f'{row["model"]:>10} {row["gpus"]:>5} failed: {(said if not theirs else chosen).splitlines()[0]}')
            continue
        a, b = theirs['time']['step'], ours['time']['step']
        rate = float(row[next(k for k in row if k.startswith('measured_tflops'))])
        was = paper_flops(row) / (rate * 1e12 * int(row['gpus']))
        fits = '' if theirs['memory']['fits'] else ' (does not fit)'
        print(f'{row["model"]:>10} {row["gpus"]:>5} {was:7.2f}s {a:10.2f}s{fits} {b:7.2f}s {b / a:6.3f} {took:6.2f}s  '
              f'{"/".join(map(str, sizes(row))):>16}  {layout(chosen)}', flush=True)


main()
