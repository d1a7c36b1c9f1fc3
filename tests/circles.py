# SPDX-License-Identifier: Apache-2.0
"""Circles of files that call each other: none of more than four, but for those that are known.

    circles.py BUILD          fails on a circle that is larger than the known ones of its folder; says which of these are
                              gone or smaller: then the list below is shortened, and no circle grows back
    circles.py BUILD --all    prints every circle

Read are the symbols of the object files: whom a file needs, and who defines that. A row of a table that names a function
counts as a call."""
import glob
import os
import subprocess
import sys

MOST = 4
KNOWN = {  # folder: sizes of its circles of more than MOST files, largest first
    "frontend": [30],     # expressions, statements and calls contain each other
    # plan_*: what memory holds is known by where values are; where a value is, by what memory holds, in frames of
    # entries, calls and iterations that are made when one asks. cert_*: a step whose value is packed, padded, a sum or
    # a range of iterations is made of steps of what is in it.
    "verify": [10, 7],
}


def symbols(build):
    defined, needed, names = {}, {}, {}
    for path in sorted(glob.glob(os.path.join(build, "*", "lib*.a.p", "*.o"))):
        name = os.path.relpath(path, build).split(os.sep)
        names[path] = name[0] + "/" + name[-1][:-2]
        needed[names[path]] = set()
    lines = subprocess.run(["nm", "-A"] + list(names), capture_output=True, text=True, check=True).stdout.splitlines()
    for line in lines if names else []:
        path, line = line.split(":", 1)
        *_, kind, symbol = line.split()
        if kind == "U":
            needed[names[path]].add(symbol)
        elif kind in "TDBRVW":
            defined[symbol] = names[path]
    return {name: {defined[s] for s in wants if s in defined} - {name} for name, wants in needed.items()}


def circles(calls):
    """Strongly connected components of more than one file (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(file):
        number[file] = low[file] = len(number)
        stack.append(file)
        for other in sorted(calls[file]):
            if other not in number:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], number[other])
        if low[file] == number[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in sorted(calls):
        if file not in number:
            visit(file)
    return found


def main():
    calls = symbols(sys.argv[1])
    if len(calls) < 100:
        sys.exit("circles: only %d object files in %s" % (len(calls), sys.argv[1]))
    sys.setrecursionlimit(10000)
    found, failed = {}, False
    for circle in circles(calls):
        folders = sorted({file.split("/")[0] for file in circle})
        if "--all" in sys.argv:
            print(len(circle), " ".join(circle))
        if len(circle) > MOST:
            found.setdefault(" ".join(folders), []).append(circle)
    for folder in sorted(set(found) | set(KNOWN)):
        have = sorted(found.get(folder, []), key=len, reverse=True)
        known = KNOWN.get(folder, [])
        sizes = [len(circle) for circle in have]
        if len(sizes) <= len(known) and all(size <= most for size, most in zip(sizes, known)):
            if sizes != known:
                print("circles: those of %s are %s now, and not %s: shorten the list" % (folder, sizes, known))
            continue
        failed = True
        print("circles: in %s files call each other in circles of %s, known are %s" % (
            folder, [len(circle) for circle in have], known))
        for circle in have:
            print("   ", " ".join(file.split("/")[1] for file in circle))
    print("circles: %d files, none of more than %d but those that are known" % (len(calls), MOST) if not failed else
          "break the circle: what both need belongs into a file of its own; a smaller one: say so in %s" % sys.argv[0])
    sys.exit(failed)


if __name__ == "__main__":
    main()
