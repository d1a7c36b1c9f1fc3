#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How near the closed forms of `auto` are: every layout of the examples at its full size, estimated from the card of its
class and compiled and simulated. Usage: bench/cards.py [DTC], from the root of the tree; exit status 1 if the median
is above 3 %."""
import glob
import json
import re
import statistics
import subprocess
import sys

DTC = sys.argv[1] if len(sys.argv) > 1 else 'build/release/dtc'


def trials(path, layout):
    """With `auto` added, a layout that is written in full leaves nothing to choose but what lines do not say."""
    run = subprocess.run([DTC, path, '--parallel', layout, '--add', 'auto', '--json', '--emit=layout', '--data=synthetic',
                          '--library', 'lib'], capture_output=True, text=True)
    for line in run.stderr.splitlines():
        if line.startswith('{"auto"'):
            return [t for t in json.loads(line)['auto']['trials'] if t['step']]
    print(f'{path} {layout}: none', run.stderr[:200])
    return []


def main():
    errors = []
    for path in sorted(glob.glob('examples/*.dsl')):
        for layout in re.findall(r'^parallel (\w+) on', open(path).read(), re.M):
            for t in trials(path, layout):
                off = t['estimate'] / t['step'] - 1
                errors.append(abs(off))
                print(f'{path[9:-4]:>12} {layout:>9} {t["step"]:10.4g} s, estimated {t["estimate"]:10.4g} {100 * off:+6.1f} %, '
                      f'bound {t["bound"]:10.4g}  {t["layout"]}', flush=True)
    median = statistics.median(errors)
    print(f'{len(errors)} layouts: off by {100 * median:.1f} % (median), {100 * max(errors):.1f} % at most')
    sys.exit(median > 0.03)


main()
