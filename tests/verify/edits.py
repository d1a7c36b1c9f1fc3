#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate against edits of any line.

  edits.py DTC PROVE JUDGED COUNT [SEED]  COUNT random ones of each layout of mutants.py

Where a kind of mutants.py is a bug that someone could make, these take whatever fits: another value of the same type,
an attribute or a type of another line with the same op, the same axes in another order, another exchange, other
results, another record of a store. What is accepted is judged by the interpreter of all ranks: it must compute what the
serial program does. `broken` texts mean nothing to the interpreter's reader; they are counted."""
import collections
import os
import random
import re
import sys
import tempfile

import mutants

AT_ONCE = 100
VALUE, TYPE = mutants.VALUE, r'\w+\[(?:[^\]"]|"[^"]*")*\](?:\{[^}]*\})?'
OP = re.compile(r'  ((?:%s(?:, )?)+) = (\w+)(\[(?:[^\]"]|"[^"]*")*\])?\(([^)]*)\) : ((?:%s(?:, )?)+)(.*)$' %
                (VALUE, TYPE))
KEYS = ("text path store func mesh ranges number draws reduce relabel stages label axis count first step carried "
        "invariant stacked stacked_out")
ATTRIBUTE = re.compile(r' (%s)(=\{[^}]*\}|=\([^)]*\)|\([^)]*\)|="[^"]*"|=[^\s)]*)' % KEYS.replace(" ", "|"))
RECORD = re.compile(r" (path|pattern|init|of|stage|first|bucket|at|loops|to|step)=(\w+\([^)]*\)|\"[^\"]*\"|\S+)")
MOVES = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "shard", "shift", "stop")
ORDERLESS = ("add", "mul", "max", "min", "eq", "ne", "and", "or")


class Op:
    def __init__(self, line):
        results, self.kind, self.axes, operands, types, self.rest = OP.match(line).groups()
        self.results, self.axes = results.split(", "), self.axes or ""
        self.operands = [name for name in operands.split(", ") if name]
        self.types = re.findall(TYPE, types)

    def line(self):
        return "  %s = %s%s(%s) : %s%s" % (", ".join(self.results), self.kind, self.axes, ", ".join(self.operands),
                                           ", ".join(self.types), self.rest)


class Text:
    """A placed program: the function of each line, the values of each function with their types and
    lines, and the lines of ops by kind."""

    def __init__(self, text):
        self.lines, self.func = text.split("\n"), []
        self.values, self.kinds = collections.defaultdict(list), collections.defaultdict(list)
        func = None
        for i, line in enumerate(self.lines):
            func = line.split()[1] if line.startswith("func ") else None if line == "}" else func
            self.func.append(func)
            arg = re.match(r"  (?:arg|param) (%s) : (%s)" % (VALUE, TYPE), line)
            if arg:
                self.values[func].append((*arg.groups(), i))
            elif func and OP.match(line):
                op = Op(line)
                self.kinds[op.kind].append(i)
                self.values[func] += [(name, type_, i) for name, type_ in zip(op.results, op.types)]

    def type_of(self, i, name):
        return next((type_ for value, type_, _ in self.values[self.func[i]] if value == name), None)

    def like(self, i, name):
        """Other values of the same type from before line i."""
        type_ = self.type_of(i, name)
        return [value for value, other, at in self.values[self.func[i]] if other == type_ and at < i and value != name]


def operands(rng, text, i, op):
    if op.kind in ORDERLESS:
        return
    a, b = rng.sample(range(len(op.operands)), 2)
    op.operands[a], op.operands[b] = op.operands[b], op.operands[a]


def other_value(rng, text, i, op):
    k = rng.randrange(len(op.operands))
    op.operands[k] = rng.choice(text.like(i, op.operands[k]))


def attribute(rng, text, i, op):
    """An attribute of another line with the same op."""
    key, value = rng.choice(ATTRIBUTE.findall(op.rest))
    others = {found for at in text.kinds[op.kind] for found in ATTRIBUTE.findall(text.lines[at]) if found[0] == key}
    op.rest = op.rest.replace(" " + key + value, " " + "".join(rng.choice(sorted(others - {(key, value)}))), 1)


def digit(rng, text, i, op):
    found = rng.choice([m for m in ATTRIBUTE.finditer(op.rest) if re.search(r"\d", m.group(2))])
    at = rng.choice([m.start() for m in re.finditer(r"\d", found.group(2))]) + found.start(2)
    op.rest = op.rest[:at] + str((int(op.rest[at]) + rng.choice((1, 9))) % 10) + op.rest[at + 1:]


def axes(rng, text, i, op):
    names = re.findall(r'"[^"]*"|[\w.@]+', op.axes)
    known = {name for value in op.operands for name in re.findall(r'("[^"]*"|[\w.@]+)=', text.type_of(i, value) or "")}
    changed = [names[::-1], names[1:], [rng.choice(sorted(known))] + names[1:]]
    op.axes = "[%s]" % ", ".join(rng.choice(changed))


def type_(rng, text, i, op):
    """A type that is split or pending in another way, or has another order of axes, as on another line
    with the same op."""
    k = rng.randrange(len(op.types))
    mine, names = op.types[k], sorted(re.findall(r'("[^"]*"|[\w.@]+)=', op.types[k]))
    others = {found for at in text.kinds[op.kind] for found in Op(text.lines[at]).types
              if sorted(re.findall(r'("[^"]*"|[\w.@]+)=', found)) == names}
    others |= {re.sub(r"/[\w.]+~?", "", mine, count=1), re.sub(r"/(\w+)\.(\w+)", r"/\2.\1", mine, count=1),
               mine.replace("~", ""), mine.replace("{sum", "{max"), re.sub(r"\{.*\}", "", mine)}
    op.types[k] = rng.choice(sorted(others - {mine}))


def exchange(rng, text, i, op):
    """Another exchange, over other mesh axes; or none."""
    mesh = re.search(r" mesh=\{([^}]*)\}", op.rest)
    known = re.findall(r"(\w+)=\d+", next(line for line in text.lines if line.startswith("mesh ")))
    if rng.random() < 0.4:
        some = rng.sample(known, rng.choice((1, min(2, len(known)))))
        op.rest = op.rest.replace(mesh.group(), " mesh={%s}" % " ".join(some))
        return
    op.kind = rng.choice(MOVES)
    if op.kind == "stop":
        op.rest = re.sub(r" mesh=\{[^}]*\}| stages=\([^)]*\)| gradients", "", op.rest)
        op.operands = [rng.choice(text.like(i, op.results[0]) + op.operands)]


def direction(rng, text, i, op):
    if op.kind == "loop":
        turned = re.sub(r"(loop\([^)]*)\)", r"\1 reverse)", op.rest)
        op.rest = op.rest.replace(" reverse", "") if " reverse" in op.rest else turned
    elif op.kind in ("scan", "shift"):
        op.rest = op.rest.replace(" reverse", "") if " reverse" in op.rest else " reverse" + op.rest


def reduction(rng, text, i, op):
    if op.kind in ("reduce", "all_reduce", "reduce_scatter"):
        op.rest = rng.choice(("", " reduce=max", " reduce=min")) + re.sub(r" reduce=\w+", "", op.rest)


def left_out(rng, text, i, op):
    """The result becomes an operand, or twice that."""
    name = rng.choice([value for value in op.operands if text.type_of(i, value) == op.types[0]])
    means = re.search(r" means=\d+", op.rest)
    op.kind, op.axes, op.rest = rng.choice(("stop", "relabel", "add")), "", means.group() if means else ""
    op.operands = [name] * (2 if op.kind == "add" else 1)


def returned(rng, text, i, line):
    values = line[9:].split(", ")
    k = rng.randrange(len(values))
    values[k] = rng.choice(text.like(i, values[k]))
    return "  return " + ", ".join(values)


def result(rng, text, i, line):
    if rng.random() < 0.3:
        return line.replace(" accumulate", "") if " accumulate" in line else line + " accumulate"
    goes = [" ".join(other.split()[1:2]) for other in text.lines if other.startswith("  result ")]
    return re.sub(r"(  result )\S+", lambda m: m.group(1) + rng.choice(goes), line)


def record(rng, text, i, line):
    """The record of another store, in part."""
    mine, other = RECORD.findall(line), rng.choice([each for each in text.lines if each.startswith("store ")])
    if rng.random() < 0.3:
        its = re.search(r" : \w+ (%s)" % TYPE, other).group(1)
        return re.sub(r"( : \w+ )" + TYPE, lambda m: m.group(1) + its, line)
    key, value = rng.choice(mine)
    its = rng.choice([v for k, v in RECORD.findall(other) if k == key])
    return line.replace(" %s=%s" % (key, value), " %s=%s" % (key, its))


OPS = (operands, other_value, attribute, digit, axes, type_, exchange, direction, reduction, left_out)
LINES = {returned: "  return ", result: "  result ", record: "store "}


def edit(rng, text, streams):
    """Returns (kind, line number, changed line); None: no change is possible."""
    kind = rng.choice(OPS + tuple(LINES))
    if kind in LINES:
        i = rng.choice([i for i, line in enumerate(text.lines) if line.startswith(LINES[kind])])
    else:
        kinds = {exchange: MOVES[:6], direction: ("scan", "shift", "loop")}.get(kind, sorted(text.kinds))
        i = rng.choice([i for name in kinds for i in text.kinds[name]] or [0])
    if text.func[i] in streams:
        return None
    try:
        if kind in LINES:
            changed = kind(rng, text, i, text.lines[i])
        else:
            op = Op(text.lines[i])
            kind(rng, text, i, op)
            changed = op.line()
    except (AttributeError, IndexError, ValueError):  # there is nothing else to choose
        return None
    return (kind.__name__, i, changed) if changed != text.lines[i] else None


def check(layout, count, seed, counts):
    """Returns the failures: texts that are accepted and differ."""
    rng, text, sites, failed = random.Random(layout.name + seed), Text(layout.final), {}, 0
    streams = set(re.findall(r' (?:part|merge|finish)=("[^"]*"|\S+)', layout.final))
    for _ in range(20 * count):
        site = edit(rng, text, streams) if len(sites) < count else None
        if site:
            sites[site] = layout.text(site)
    sites = list(sites.items())
    for begin in range(0, len(sites), AT_ONCE):
        part = sites[begin:begin + AT_ONCE]
        verdicts = layout.prove([changed for _, changed in part])
        accepted = [each for each, verdict in zip(part, verdicts) if verdict == "holds"]
        for (kind, _, _), _ in part:
            counts[kind, "refused"] += 1
        for (site, _), verdict in zip(accepted, layout.judge([changed for _, changed in accepted])):
            counts[site[0], "refused"] -= 1
            counts[site[0], verdict] += 1
            if verdict == "differs":
                failed += 1
                lines = layout.lines[site[1]][:300], site[2][:300]
                print("accepted: %s, %s\n  %s\n  %s" % (layout.name, site[0], *lines))
    return failed


def main(tools, count, seed="1"):
    counts, failed = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for i, name in enumerate(mutants.LAYOUTS):
            os.mkdir(os.path.join(folder, str(i)))
            layout = mutants.Layout(tools, os.path.join(folder, str(i)), name)
            failed += check(layout, int(count), seed, counts)
    for kind in sorted({kind for kind, _ in counts}):
        shown = ["%s %d" % (what, counts[kind, what]) for what in ("refused", "equal", "broken", "differs")]
        print("%-12s" % kind, ", ".join(shown))
    print("%d edits, %d failed" % (sum(counts.values()), failed))
    return 1 if failed or not counts else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(tool) for tool in sys.argv[1:4]], *sys.argv[4:]))
