#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published training steps beside the times that `dtc --report` prints for them.

    bench/costmodel/report.py [--rows] [--check] [BUILD]    from the root of the tree; BUILD: build/release

costprograms writes each published row as a program with the stack of its software. Here dtc compiles it and prices its
plan. The mean and the worst error of each table are printed, next to those of the closed forms of `costmodel`; with
--rows each row, too. With --check only the rows of CHECKED are compiled, and the program fails if a report left the
interval that CHECKED states for it, so that the price of plans changes only with a commit that says so."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

# What --check compiles: the number of a program, and the error of its report, in percent of the measured step. A report must
# stay within SLACK points of it.
CHECKED = {'000': -5.80, '004': -4.29, '011': 1.01, '041': -7.38, '101': 1.52, '109': -5.36}
SLACK = 0.3


def rows_of(build, folder):
    """The published rows: number, table, name, measured seconds, those of the closed forms."""
    text = subprocess.run([f'{build}/bench/costprograms', '.', folder], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        file, table, name, measured, closed = line.split('\t')
        yield file[:3], table, name, float(measured), float(closed)


def report(build, folder, number):
    """The report of a program (None if dtc refused it), seconds of compiling, dtc's messages."""
    begin = time.monotonic()
    run = subprocess.run([f'{build}/dtc', os.path.join(folder, number + '.dsl'), '--report=json', '--library', 'lib'],
                         capture_output=True, text=True)
    took = time.monotonic() - begin
    return json.loads(run.stdout) if run.returncode == 0 and run.stdout else None, took, run.stderr


def percent(seconds, measured):
    return 100 * (seconds / measured - 1)


def print_table(name, errors):
    for title, at in ('report', 0), ('closed forms', 1):
        of = [e[at] for e in errors]
        print(f'{name:16} {title:13} {len(of):3} rows  mean {sum(map(abs, of)) / len(of):5.1f} %  '
              f'worst {max(map(abs, of)):5.1f} %  bias {sum(of) / len(of):+5.1f} %', end='')
        print(f'  within the band {sum(e[2] for e in errors)}' if at == 0 else '')


def main():
    options = [a for a in sys.argv[1:] if a.startswith('--')]
    build = next((a for a in sys.argv[1:] if not a.startswith('--')), 'build/release')
    tables, bad = {}, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
        rows = [r for r in rows_of(build, folder) if '--check' not in options or r[0] in CHECKED]
        reports = pool.map(lambda row: report(build, folder, row[0]), rows)
        for (number, table, name, measured, closed), (it, took, message) in zip(rows, reports):
            if it is None:
                print(f'{number} {table} {name}: dtc refuses the program\n{message}')
                bad = 1
                continue
            t = it['time']
            error = percent(t['step'], measured)
            tables.setdefault(table, []).append((error, percent(closed, measured), t['low'] <= measured <= t['high']))
            if '--rows' in options:
                print(f'{number} {table:16} {name:38} {measured:9.4f} {t["step"]:9.4f} s {error:+6.2f} %, closed forms '
                      f'{percent(closed, measured):+5.1f} %, compiled in {took:.1f} s', flush=True)
            if '--check' in options and not abs(error - CHECKED[number]) <= SLACK:
                print(f'{number} {name}: the report is {error:+.2f} % off the measured {measured} s; '
                      f'{CHECKED[number]:+.2f} % is stated')
                bad = 1
        if '--check' in options and len(rows) != len(CHECKED):
            print(f'only {len(rows)} of the rows of CHECKED are there')
            bad = 1
    for table, errors in tables.items():
        print_table(table, errors)
    return bad


if __name__ == '__main__':
    sys.exit(main())
