#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How near the closed forms of `auto` are: every layout of the examples at its full size, and pipelines of few
micro-batches, estimated from the card of its class and compiled and simulated. Usage: bench/cards.py [DTC], from the root
of the tree; exit status 1 if times are off by more than 3 % (median) or 10 %, memory by more than 25 %, or if a bound is
above the simulation."""
import glob
import json
import re
import statistics
import subprocess
import sys

DTC = sys.argv[1] if len(sys.argv) > 1 else 'build/release/dtc'


# Chunks, stages, micro-batches: as many micro-batches as stages, fewer, a few more.
FEW = [(2, 2, 4), (8, 2, 4), (8, 2, 2), (4, 4, 4), (4, 4, 2), (8, 4, 8), (2, 4, 8), (4, 8, 8), (4, 8, 4), (2, 8, 16)]
LLAMA = 'examples/llama3_8b.dsl'


def trials(path, layout, lines=()):
    """With `auto` added, a layout that is written in full leaves nothing to choose but what lines do not say."""
    run = subprocess.run([DTC, path, '--parallel', layout, '--json', '--emit=layout', '--data=synthetic', '--library',
                          'lib'] + [word for line in lines for word in ('--add', line)], capture_output=True, text=True)
    for line in run.stderr.splitlines():
        if line.startswith('{"auto"'):
            return [t for t in json.loads(line)['auto']['trials'] if t['step']]
    print(f'{path} {layout}: none', run.stderr[:200])
    return []


def cases():
    for path in sorted(glob.glob('examples/*.dsl')):
        for layout in re.findall(r'^parallel (\w+) on', open(path).read(), re.M):
            yield path, layout, ['auto']
    for chunks, stages, micro in FEW:
        yield LLAMA, 'auto', [f'mesh pipe = {stages}, data = {128 // stages}', 'shard batch on data', 'zero 1 on data',
                              f'pipeline h on pipe (schedule = "interleaved_1f1b", chunks = {chunks})',
                              f'micro batch = {micro}']


def main():
    times, sizes, above = [], [], 0
    for path, layout, lines in cases():
        for t in trials(path, layout, lines):
            off, large = t['estimate'] / t['step'] - 1, t['estimated_bytes'] / t['bytes'] - 1
            times.append(abs(off))
            sizes.append(abs(large))
            above += t['bound'] > t['step']
            print(f'{path[9:-4]:>12} {layout:>9} {t["step"]:10.4g} s, estimated {t["estimate"]:10.4g} {100 * off:+6.1f} %, '
                  f'memory {100 * large:+6.1f} %, bound {t["bound"]:10.4g}  {t["layout"]}', flush=True)
    median, worst, largest = statistics.median(times), max(times), max(sizes)
    print(f'{len(times)} layouts: off by {100 * median:.1f} % (median), {100 * worst:.1f} % at most; '
          f'memory {100 * statistics.median(sizes):.1f} % and {100 * largest:.1f} %; {above} bounds above the simulation')
    sys.exit(median > 0.03 or worst > 0.1 or largest > 0.25 or above > 0)


main()
