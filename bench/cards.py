#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How near the closed forms of `auto` are: every layout of the examples at its full size, and pipelines of few
micro-batches, estimated from the card of its class and compiled and simulated. Usage: bench/cards.py [DTC], from the root
of the tree; exit status 1 if times are off by more than 3 % (median) or 10 %, memory by more than 25 %, or if a bound is
above the simulation.

bench/cards.py DTC --sweep [N [FIRST]]: the same of the layouts of tests/sweep, every N-th of them, with their programs at
full size, on A100s with as much memory as they need; exit status 1 if a bound is above the simulation. Those that
`auto` cannot take as they are written (several mesh axes of one sort, lines for single places) are counted by the
diagnostic that says so."""
import collections
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

DTC = sys.argv[1] if len(sys.argv) > 1 else 'build/release/dtc'


# Chunks, stages, micro-batches: as many micro-batches as stages, fewer, a few more.
FEW = [(2, 2, 4), (8, 2, 4), (8, 2, 2), (4, 4, 4), (4, 4, 2), (8, 4, 8), (2, 4, 8), (4, 8, 8), (4, 8, 4), (2, 8, 16)]
LLAMA = 'examples/llama3_8b.dsl'


def said_of(path, layout, lines, options):
    return subprocess.run([DTC, path, '--parallel', layout, '--json', '--emit=layout', '--data=synthetic', '--library',
                           'lib', *options] + [word for line in lines for word in ('--add', line)],
                          capture_output=True, text=True).stderr


def trials(path, layout, lines=(), options=(), refused=None):
    """Adds `auto` to a layout that is written in full: then only what the lines do not say is left to
    choose."""
    said = said_of(path, layout, lines, options)
    for line in said.splitlines():
        if line.startswith('{"auto"'):
            return [t for t in json.loads(line)['auto']['trials'] if t['step']]
    if refused is None:
        print(f'{path} {layout}: none', said[:200])
    else:
        refused[(re.search('"code":"(E[0-9]+)"', said) or ['', 'E????'])[1]] += 1
    return []


def cases():
    for path in sorted(glob.glob('examples/*.dsl')):
        for layout in re.findall(r'^parallel (\w+) on', open(path).read(), re.M):
            yield path, layout, ['auto']
    for chunks, stages, micro in FEW:
        yield LLAMA, 'auto', [f'mesh pipe = {stages}, data = {128 // stages}', 'shard batch on data', 'zero 1 on data',
                              f'pipeline h on pipe (schedule = "interleaved_1f1b", chunks = {chunks})',
                              f'micro batch = {micro}']


def sweep(every, first):
    """Returns (name, its trials); at the end the layouts that were refused."""
    sys.path.insert(0, 'tests/sweep')
    import plan
    import sweep as rows
    refused = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'swept.dsl')
        for number, _, row, verdict in rows.read()[first::every]:
            if verdict != 'equal':
                continue
            text = plan.layout(row, rows.ROOT).replace('gpu = "cpu"', 'gpu = "large"')
            open(path, 'w').write(text + 'device "large" { like = "a100-80g"; capacity = 1000TiB }\n')
            precision = ('--set', 'train.precision=' + plan.PRECISIONS[row['precision']])
            yield f'{number:03} {row["program"]}', row['kind'], trials(path, 'swept', ['auto'], precision, refused)
    print('not for auto:', dict(refused))


def figures(times, sizes):
    return (f'{len(times)} layouts: off by {100 * statistics.median(times):.1f} % (median), {100 * max(times):.1f} % at '
            f'most; memory {100 * statistics.median(sizes):.1f} % and {100 * max(sizes):.1f} %')


def judge(cases, by_program):
    """Prints each trial and a summary; returns the errors of times and of sizes, and how many bounds
    are above the simulation."""
    times, sizes, above = collections.defaultdict(list), collections.defaultdict(list), 0
    for what, layout, tried in cases:
        for t in tried:
            off, large = t['estimate'] / t['step'] - 1, t['estimated_bytes'] / t['bytes'] - 1
            for of in (what.split()[-1], 'all'):
                times[of].append(abs(off))
                sizes[of].append(abs(large))
            above += t['bound'] > t['step']
            print(f'{what:>14} {layout:>9} {t["step"]:10.4g} s, estimated {t["estimate"]:10.4g} {100 * off:+6.1f} %, '
                  f'memory {100 * large:+6.1f} %, bound {t["bound"]:10.4g}  {t["layout"]}', flush=True)
    for of in times if by_program else ['all']:
        print(f'{of}: {figures(times[of], sizes[of])}')
    print(f'{above} bounds above the simulation')
    return times['all'], sizes['all'], above


def main():
    if '--sweep' in sys.argv:
        numbers = [int(word) for word in sys.argv[sys.argv.index('--sweep') + 1:]]
        every, first = (numbers + [1, 0][len(numbers):])[:2]
        sys.exit(judge(sweep(every, first), True)[2] > 0)
    times, sizes, above = judge(((path[9:-4], layout, trials(path, layout, lines)) for path, layout, lines in cases()),
                                False)
    sys.exit(statistics.median(times) > 0.03 or max(times) > 0.1 or max(sizes) > 0.25 or above > 0)


main()
