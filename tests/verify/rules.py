#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate's local rules on programs of a line or two: rules.py PROVE. Each row says what a rank does with its
part of what the serial program has whole, and whether that may hold."""
import os
import re
import subprocess
import sys
import tempfile

MESH = "mesh m=2, n=2\n"
X = "  %x.0 = input() : f32[{0}] text=x @1:1-2\n"
ROWS = [  # holds, type of the input, the op, type of its result
    (True, "b=4/m, h=8", "window[h, w](%x.0)", "f32[b=4/m, h=8, w=3]", "ranges=(1 1 1 3)"),
    (False, "b=4, h=8/m", "window[h, w](%x.0)", "f32[b=4, h=8/m, w=3]", "ranges=(1 1 1 3)"),
    (False, "b=4, h=8/m", "window[h, w](%x.0)", "f32[b=4, h=8/m, w=3]", "ranges=(0 2 1 3)"),
    (True, "b=4, h=8/m", "window[h, w](%x.0)", "f32[b=4, h=8/m, w=1]", "ranges=(0 0 1 1)"),
    (True, "b=4/m, h=8, w=3", "fold[h, w](%x.0)", "f32[b=4/m, h=8]", "ranges=(1 1 1 3)"),
    (False, "h=8/m, w=3", "fold[h, w](%x.0)", "f32[h=8/m]", "ranges=(1 1 1 3)"),
    (False, "b=4, h=8/m", "scan[h](%x.0)", "f32[b=4, h=8/m]", ""),
    (True, "h=8/m~", "relabel(%x.0)", "f32[s=8/m~]", "relabel(h -> s=8)"),
    (False, "h=8/m~", "relabel(%x.0)", "f32[s=8/m]", "relabel(h -> s=8)"),
    (False, "h=8/m", "relabel(%x.0)", "f32[s=8/m~]", "relabel(h -> s=8)"),
    (True, "h=8/m", "relabel(%x.0)", "f32[s=2/m, t=4]", "relabel(h -> s=2, t=4)"),
    (False, "h=8/m~", "relabel(%x.0)", "f32[s=2/m, t=4]", "relabel(h -> s=2, t=4)"),
    (False, "s=2/m, t=4", "relabel(%x.0)", "f32[h=8/m~]", "relabel(s, t -> h=8)"),
    (True, "h=16/m.n", "all_gather(%x.0)", "f32[h=16/m]", "mesh={n}"),
    (False, "h=16/m.n", "all_gather(%x.0)", "f32[h=16/m~]", "mesh={n}"),
    (False, "h=16/m.n~", "all_gather(%x.0)", "f32[h=16/m]", "mesh={n}"),
    (True, "h=16/m~", "all_gather(%x.0)", "f32[h=16]", "mesh={m}"),
    (False, "h=16/m", "shard(%x.0)", "f32[h=16/m.n~]", "mesh={n}"),
    (True, "b=4/m, h=8", "topk[h, k](%x.0)", "f32[b=4/m, k=2], i32[b=4/m, k=2]", ""),
    (False, "b=4, h=8", "topk[h, k](%x.0)", "f32[b=4, k=2], i32[b=4/m, k=2]", ""),
]
STORE = "store 0 : param f32[h=8] path=p\n"


def program(row, mesh):
    _, operand, op, types, attributes = row
    results = types.count("[")
    names = ", ".join("%%%d" % (1 + i) for i in range(results))
    body = X.format(operand) + "  %s = %s : %s %s @1:1-2\n" % (names, op, types, attributes)
    text = "func predict : entry @1:1-2 {\n%s  return %%%d\n}\n" % (body, results)
    return mesh + text + "entry predict : predict {\n  result name=y\n}\n"


def serial(text):
    """The same without placement."""
    return re.sub(r"/[mn.]+~?", "", text) if "mesh={" not in text else re.sub(
        r" = (?:all_gather|shard)\(", " = stop(", re.sub(r"/[mn.]+~?| mesh=\{\w\}", "", text))


def prove(prover, folder, first, final):
    paths = [os.path.join(folder, name) for name in ("serial.ir", "final.ir")]
    for path, text in zip(paths, (first, final)):
        with open(path, "w") as file:
            file.write(text)
    return subprocess.run([prover] + paths, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


def main(prover):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            first, final = program(row, ""), program(row, MESH)
            if "mesh={" in final:  # a value that is only moved
                first = re.sub(r"return %1", "return %x.0", serial(first))
            verdict = prove(prover, folder, serial(first), final)
            if (verdict == "holds") != row[0]:
                failed += 1
                print("FAIL %s of %s: %s" % (row[2], row[1], verdict))
        keeps = STORE + program(ROWS[0], "")
        writes = keeps.replace("  return %1", "  %2 = param() : f32[h=8] text=p store=0 @1:1-2\n  %3 = neg(%2) : f32[h=8] @1:1-2\n"
                               "  return %1, %3").replace("name=y\n", "name=y\n  result store=0\n")
        verdict = prove(prover, folder, serial(keeps), serial(writes))
        if "does not" not in verdict:
            failed += 1
            print("FAIL a parameter is overwritten: %s" % verdict)
    print("%d passed, %d failed" % (len(ROWS) + 1 - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
