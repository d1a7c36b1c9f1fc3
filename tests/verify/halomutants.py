#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate against seeded bugs of halos and of padding masks: as mutants.py, with other layouts and kinds, in the
lines that passes write for these. halomutants.txt has those that count.

  halomutants.py DTC PROVE JUDGED [COUNT [SEED] | --bless]
"""
import os
import re
import sys

import mutants
import planted_bugs

SMALL = "batch=2"
QUICK = mutants.QUICK + " layers=1"


def numbered(pattern, *choices):
    return mutants.numbered(pattern, *choices)


def turned(rng, line):
    """Joins parts in another order."""
    match = re.search(r"= concat\[[^]]*\]\(([^)]*)\)", line)
    values = match.group(1).split(", ") if match else []
    if len(values) < 2:
        return line
    return line.replace("(%s)" % match.group(1), "(%s)" % ", ".join(values[1:] + values[:1]), 1)


KINDS = {
    "neighbour": lambda rng, line: (line.replace(" reverse", "") if " reverse" in line
                                    else re.sub(r" text=", " reverse text=", line, count=1))
    if "= shift(" in line else line,
    "no neighbour": lambda rng, line: line.replace("= shift(", "= stop(").replace(" reverse", ""),
    "edge": numbered(r"(= slice\[.* ranges=\()(\d+)", -1, 1),
    "place": numbered(r"(= pad\[.* ranges=\()(\d+)", -1, 1),
    "window": numbered(r"(= (?:window|fold)\[.* ranges=\()(\d+)", -1, 1),
    "stride": numbered(r"(= (?:window|fold)\[.* ranges=\(\d+ \d+ )(\d+)", -1, 1),
    "filled with": lambda rng, line: re.sub(r"(= const\(\) : f32\[\])(?! number)", r"\1 number=1", line),
    "filled otherwise": lambda rng, line: re.sub(r"number=-inf", "number=0", line),
    "not filled": lambda rng, line: re.sub(r"= where\((\S+), (\S+), (\S+)\)", r"= stop(\3)", line),
    "branches": lambda rng, line: re.sub(r"= where\((\S+), (\S+), (\S+)\)", r"= where(\1, \3, \2)", line),
    "end": numbered(r"(= const\(\) : i32\[\] number=)(\d+)", -1, 1),
    "comparison": lambda rng, line: line.replace("= eq(", "= ne(") if "= eq(" in line else line.replace("= lt(", "= le("),
    "joined": turned,
    "dropped": lambda rng, line: re.sub(r"= add\((\S+), (\S+)\)", r"= stop(\1)", line),
    "doubled": lambda rng, line: re.sub(r"= add\((\S+), (\S+)\)", r"= add(\1, \1)", line),
    "operand": mutants.operand,
}

LAYOUTS = {
    "rows and columns": ("windows", SMALL, 4, "mesh rows = 2, columns = 2\nshard height on rows\nshard width on columns"),
    "rows of four": (planted_bugs.HALO, SMALL, 4, "mesh rows = 4\nshard height on rows"),
    "columns": ("windows", SMALL, 2, "mesh half = 2\nshard width on half\nmicro batch = 2"),
    "high": ("layers", "batch=4 pool=2", 2, "mesh side = 2\nshard height on side"),
    "long": ("layers", "batch=4 pool=2", 2, "mesh side = 2\nshard time on side"),
    "padded words": ("quickstart", QUICK, 4, "mesh data = 2, tensor = 2\nshard vocab on tensor (pad = 6)\n"
                     "shard batch on data"),
    "padded heads": ("gpt2", QUICK, 4, "mesh data = 2, tensor = 2\nshard vocab on tensor (pad = 6)\n"
                     "shard batch on data\nzero 1 on data"),
}
LINES = {  # lines that passes write for these
    True: re.compile(r"vocab=18|iota\[vocab\]|: i32\[\] number=|= slice\[|= pad\["),
    False: re.compile(r'"@\w+'),
}
NUMBERS = re.compile(r"= const\(\) : (?:i32|f32)\[\]")


class Layout(mutants.Layout):
    def sites(self, kind, seed=""):
        """Changes of the lines that passes write for it, and of the constants before them."""
        own = LINES[self.name.startswith("padded")]
        return [site for site in super().sites(kind, seed) if own.search(self.lines[site[1]]) or (
            NUMBERS.search(self.lines[site[1]]) and any(own.search(line)
                                                        for line in self.lines[site[1] + 1:site[1] + 4]))]


def source(program, dims, gpus, layout):
    """An example, or the text of a program: on more than two ranks, so that the previous rank is not
    also the next one."""
    if "\n" not in program:
        return EXAMPLE(program, dims, gpus, layout)
    return program + planted_bugs.block(gpus, layout)


EXAMPLE = mutants.source


def main(arguments):
    folder = os.path.dirname(os.path.abspath(__file__))
    mutants.FILE = os.path.join(folder, "halomutants.txt")
    mutants.KINDS, mutants.LAYOUTS, mutants.Layout = KINDS, LAYOUTS, Layout
    mutants.source, mutants.AT_LEAST, mutants.MOST, mutants.EACH = source, 2, 20, 6
    return mutants.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
