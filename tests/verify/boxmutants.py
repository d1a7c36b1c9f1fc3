#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boxes against seeded bugs of pass `expand`.

  boxmutants.py DTC BOXED JUDGED               the bugs of boxmutants.txt: each must be refused
  boxmutants.py DTC BOXED JUDGED COUNT [SEED]  COUNT random ones
  boxmutants.py DTC BOXED JUDGED --bless       judges many and writes those that count to boxmutants.txt

For each form below (forms.py) `dtc` prints the program before and behind `expand`, which must be proved equal (BOXED).
Then single faults of the kinds of KINDS are put into the functions that the pass has written, or into their calls. One
counts if the interpreter of all ranks (JUDGED) finds another loss, gradient or parameter than the serial program's: it
must be refused, and so must those that round what was not rounded. boxmutants.txt names those that count by form, kind
and a checksum of the function and the line, as mutants.txt does.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import zlib

import forms
import mutants

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FILE = os.path.join(HERE, "boxmutants.txt")
# bugs of each kind that count: in an ordinary run, in a blessed list; candidates that are judged in
# each form for the latter
AT_LEAST, MOST, EACH = 6, 24, 4

FORMS = {
    "ring": (3, "ring", "grouped heads", "causal", None),
    "ring window": (2, "ring", "one head", "window", None),
    "ring data": (2, "ring", "heads", "data and causal", None),
    "ring 16 bits": (2, "ring", "heads", "causal", "16 bits"),
    "zigzag ring 16 bits": (2, "zigzag ring", "heads", "causal", "16 bits"),
    "ring keys": (2, "ring", "heads", "keys", None),
    "ring batch": (2, "ring", "grouped heads", "distances", "batch"),
    "zigzag ring": (2, "zigzag ring", "grouped heads", "causal", None),
    "zigzag ring 3": (3, "zigzag ring", "one head", "slope", None),
    "zigzag ring data": (2, "zigzag ring", "heads", "data", "heads of all"),
    "zigzag": (2, "zigzag", "heads", "causal", None),
    "zigzag window": (3, "zigzag", "one head", "window", None),
    "several": ((2, 2), "ring", "one head", "causal", "turned"),
    "several zigzag": ((2, 2), "zigzag ring", "grouped heads", "distances", "across"),
    "several behind": ((2, 2), "zigzag ring", "one head", "data", "gathered behind"),
    "several gathered": ((2, 2), "zigzag", "one head", "causal", "in order"),
    "several heads": ((2, 2), "ring", "grouped heads", "causal", "heads"),
    # blocks so long that the proof looks only at some of their positions
    "long ring window": (2, "ring", "one head", "window", None),
    "long zigzag ring": (2, "zigzag ring", "grouped heads", "causal", None),
    "long zigzag ring data": (2, "zigzag ring", "one head", "data and causal", None),
    "long zigzag window": (2, "zigzag", "one head", "window", None),
    "long several": ((2, 2), "zigzag ring", "one head", "slope", "across"),
}
LONG = 8  # multiplies the extents

VALUE = r'%(?:[\w.@#$]+|"[^"]*"\.\d+)'


def replaced(pattern, by):
    return lambda rng, line, types: re.sub(pattern, by, line, count=1)


def numbered(pattern, choices):
    def change(rng, line, types):
        by = rng.choice(choices)
        return re.sub(pattern, lambda m: m.group(1) + str(int(m.group(2)) + by), line, count=1)
    return change


def operand(rng, line, types):
    """Replaces a value by another one of the same type."""
    if " = " not in line or not line.startswith("  %"):
        return line
    head, rest = line.split(" = ", 1)
    inside = rest[:rest.index(" : ")]
    places = list(re.finditer(VALUE, inside))
    if not places:
        return line
    place = rng.choice(places)
    number = int(place.group(0).rsplit(".", 1)[-1].lstrip("%"))
    made = int(re.split(r",", head)[0].strip().rsplit(".", 1)[-1].lstrip("%"))
    others = [n for n in types if n != number and n < made and types[n] == types.get(number)]
    if not others:
        return line
    return head + " = " + rest[:place.start()] + "%%%d" % rng.choice(others) + rest[place.end():]


def returned(rng, line, types):
    """Exchanges two results of one type, or gives one result twice."""
    if not line.startswith("  return "):
        return line
    values = line[9:].split(", ")
    pairs = [(i, k) for i in range(len(values)) for k in range(len(values)) if i != k and
             types.get(int(values[i].rsplit(".", 1)[-1].lstrip("%"))) == types.get(
                 int(values[k].rsplit(".", 1)[-1].lstrip("%")))]
    if not pairs:
        return line
    i, k = rng.choice(pairs)
    values[i] = values[k]
    return "  return " + ", ".join(values)


def other_op(rng, line, types):
    for a, b in rng.sample([("exp", "log"), ("sub", "add"), ("mul", "div"), ("max", "min"), ("lt", "le"), ("le", "lt"),
                            ("add", "sub"), ("div", "mul"), ("floordiv", "mod"), ("mod", "floordiv"), ("min", "max"),
                            ("neg", "stop"), ("and", "or")], 13):
        if "= %s(" % a in line and not (a == "mul" and ": i32" in line) and not (a == "div" and ": i32" in line):
            return line.replace("= %s(" % a, "= %s(" % b)
    return line


def branches(rng, line, types):
    return re.sub(r"= where\((%s), (%s), (%s)\)" % (VALUE, VALUE, VALUE), r"= where(\1, \3, \2)", line)


def dropped(rng, line, types):
    """Gives an operand alone, if it has the type of the result."""
    match = re.match(r"  %s = (mul|div|add|sub|max|min|and|or)\((%s), (%s)\) : " % (VALUE, VALUE, VALUE), line)
    if not match:
        return line
    type_of = re.search(r" : (\w+\[[^]]*\])", line).group(1)
    left = [v for v in match.groups()[1:] if types.get(int(v.rsplit(".", 1)[-1].lstrip("%"))) == type_of]
    return line.replace(line[line.index(" = ") + 3:line.index(" : ")], "stop(%s)" % rng.choice(left)) if left else line


def group(rng, line, types):
    names = re.findall(r"mesh=\{([^}]*)\}", line)
    if not names:
        return line
    others = [n for n in MESH.get(names[0], ())]
    return line.replace("mesh={%s}" % names[0], "mesh={%s}" % rng.choice(others)) if others else line


MESH = {"a b": ("a", "b", ), "a": ("b", "a b"), "b": ("a", "a b"), "context": ("data", "tensor")}

KINDS = {
    "step": numbered(r"(= loop\(.* count=)(\d+)", (-1, 1)),
    "first step": numbered(r"(= loop\(.* first=)(\d+)", (-1, 1)),
    "neighbour": replaced(r"(= shift\(.*?)( text=)", r"\1 reverse\2"),
    "no neighbour": replaced(r"= shift\(", "= stop("),
    "group": group,
    "integer": numbered(r"(= const\(\) : i32\[\] number=)(-?\d+)", (-2, -1, 1, 2)),
    "number": replaced(r"(= const\(\) : f32\[\] number=)([\d.]+)( |$)", r"\g<1>0.75\3"),
    "hidden": replaced(r"number=-inf", "number=1"),
    "op": other_op,
    "operand": operand,
    "result": returned,
    "swapped operands": replaced(r"= (sub|div|lt|le|floordiv|mod)\((%s), (%s)\)" % (VALUE, VALUE), r"= \1(\3, \2)"),
    "branches": branches,
    "dropped": dropped,
    "reduction": lambda rng, line, types: line.replace(" reduce=max", " reduce=min") if " reduce=max" in line else
    re.sub(r"(= reduce\[.*\])( path=| @)", r"\1 reduce=max\2", line),
    "call": operand,
    "site": replaced(r"(= rng\(\).* text=)(\S+)", r"\1other"),
    # kinds whose changes also need the lines of the function
    "round and back": mutants.round_and_back,
}


# Other programs with the same meaning: these must be accepted.
RIGHT = {
    "operands in another order": lambda text: re.sub(r"= (add|mul|max|min|and)\((%s), (%s)\)" % (VALUE, VALUE),
                                                     r"= \1(\3, \2)", text),
    "the other way round": lambda text: re.sub(r"(= shift\(.*?)( text=)", r"\1 reverse\2", re.sub(
        r"= sub\((%s), (%%step\.0)\)" % VALUE, r"= add(\1, \2)", text)),
}


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=ROOT)
    if done.returncode:
        sys.exit("%s ended with %d: %s" % (command[0], done.returncode, done.stderr[-2000:]))
    return done.stdout


def value_types(lines):
    """The types of the values of a function, by number."""
    types = {}
    for line in lines:
        if line.startswith("  arg "):
            match = re.match(r"  arg (%s) : (.*)" % VALUE, line)
            types[int(match.group(1).rsplit(".", 1)[-1].lstrip("%"))] = match.group(2)
        elif line.startswith("  %"):
            head, rest = line.split(" = ", 1)
            found = re.findall(r'\w+\[(?:[^]"]|"[^"]*")*\](?:\{[^}]*\})?', rest[rest.index(" : "):])
            for name, value_type in zip(head.strip().split(", "), found):
                types[int(name.rsplit(".", 1)[-1].lstrip("%"))] = value_type
    return types


class Form:
    """The texts of a form, and the verdicts of the tools on changed ones."""

    def __init__(self, tools, folder, name):
        self.dtc, self.boxed, self.judged = tools
        self.folder, self.name = folder, name
        self.path = os.path.join(folder, "program.dsl")
        with open(self.path, "w") as file:
            longer = LONG if name.startswith("long ") else 1
            file.write(re.sub(r"\bseq = (\d+)", lambda m: "seq = %d" % (int(m.group(1)) * longer),
                              forms.program(*FORMS[name]), count=1))
        self.placed, self.final = (lines_of([self.dtc, self.path, "--print-after=" + stage])
                                   for stage in ("reduce", "expand"))
        self.lines = self.final.split("\n")
        self.written = []  # Returns (line number, name of the function, types of its values)
        inside = None
        for i, line in enumerate(self.lines):
            if line.startswith("func "):
                name = line.split()[1]
                begin = i
                end = self.lines.index("}", i)
                types = value_types(self.lines[begin:end])
                inside = (name, types, "func %s :" % name not in self.placed)
            elif line == "}":
                inside = None
            elif inside and (inside[2] or re.search(r" func=\S*(\.ring|\.zigzag)", line)):
                self.written.append((i, inside[0], inside[1], begin))

    def files(self, texts):
        for i, text in enumerate(texts):
            path = os.path.join(self.folder, "%d.ir" % i)
            with open(path, "w") as file:
                file.write(text)
            yield path

    def prove(self, texts):
        verdicts = lines_of([self.boxed] + list(self.files([self.placed] + texts))).split("\n")[:-1]
        assert len(verdicts) == len(texts), verdicts
        return verdicts

    def judge(self, texts):
        return lines_of([self.judged, self.path] + list(self.files(texts))).splitlines() if texts else []

    def text(self, site):
        _, i, changed, _ = site
        return "\n".join(self.lines[:i] + [changed] + self.lines[i + 1:])

    def sites(self, kind, seed=""):
        """Returns (kind, line number, changed line, function), in random order."""
        found, seen = [], set()
        for i, name, types, begin in self.written:
            line = self.lines[i]
            if kind == "call" and "= call(" not in line:
                continue
            if kind in mutants.STRICT and name.endswith(".body") and '"@ring"=2/' in "".join(self.lines[begin:i]):
                # with two ranks the loop has one iteration, and nobody reads what it hands on
                continue
            if (name, line) in seen or line.startswith("  arg "):
                continue
            seen.add((name, line))
            more = self.lines[begin:i] if kind in mutants.STRICT else types
            changed = KINDS[kind](random.Random(seed + plain_name(name) + mutants.bare(line)), line, more)
            if changed != line:
                found.append((kind, i, changed, name))
        random.Random(self.name + kind + seed).shuffle(found)
        return found

    differing = mutants.Layout.differing
    known = mutants.Layout.known

    def key(self, site):
        line = re.sub(r" path=.*", "", mutants.bare(self.lines[site[1]]))
        return self.name, site[0], "%08x" % zlib.crc32((plain_name(site[3]) + line).encode())


def plain_name(func):
    return re.sub(r"\.\d+", "", func)


def check(all_forms, chosen):
    failed = 0
    for form in all_forms:
        for what, change in RIGHT.items():
            changed = list(form.lines)
            for i, _, _, _ in form.written:
                changed[i] = change(changed[i])
            verdict = form.prove(["\n".join(changed)])[0]
            if not verdict.startswith("holds"):
                failed += 1
                print("%s, %s: %s" % (form.name, what, verdict))
    for form in all_forms:
        sites = chosen[form.name]
        verdicts = form.prove([form.final] + [form.text(site) for site in sites])
        if not verdicts[0].startswith("holds"):
            failed += 1
            print("%s: the form itself: %s" % (form.name, verdicts[0]))
        accepted = [site for site, verdict in zip(sites, verdicts[1:]) if verdict.startswith("holds")]
        for site in form.differing(accepted):
            failed += 1
            print("accepted: %s, %s in %s\n  %s\n  %s" % (form.name, site[0], site[3], form.lines[site[1]][:300],
                                                        site[2][:300]))
    return failed


def ordinary(all_forms):
    known, chosen, counts = mutants.recorded(), {}, dict.fromkeys(KINDS, 0)
    for form in all_forms:
        chosen[form.name] = [site for kind in KINDS for site in form.known(kind, known)]
        for site in chosen[form.name]:
            counts[site[0]] += 1
    found = sum(counts.values())
    for kind in KINDS:  # if the compiler now writes other lines
        for form in all_forms if counts[kind] < AT_LEAST else []:
            new = form.differing(form.sites(kind)[:4])
            chosen[form.name] += new
            counts[kind] += len(new)
    failed = check(all_forms, chosen) + mutants.too_few(found, known)
    prove_damaged(all_forms)
    for kind in KINDS:
        print("%-20s %d" % (kind, counts[kind]))
        if counts[kind] < AT_LEAST:
            failed += 1
            print("%s: too few places in these forms" % kind)
    total = sum(counts.values()) + len(all_forms) + 1
    print("%d passed, %d failed" % (total - failed, failed))
    return 1 if failed else 0


def at_random(all_forms, count, seed):
    chosen, total = {}, 0
    for form in all_forms:
        sites = [site for kind in KINDS for site in form.sites(kind, str(seed))]
        random.Random(seed).shuffle(sites)
        chosen[form.name] = sites[:count // len(all_forms) + 1]
        total += len(chosen[form.name])
    failed = check(all_forms, chosen)
    print("%d passed, %d failed" % (total - failed, failed))
    return 1 if failed else 0


def prove_damaged(all_forms):
    """A text that no printer writes, because it is cut short or a piece is missing, does not crash the
    reader."""
    for form in all_forms:
        rng, texts = random.Random(form.name), []
        for _ in range(20):
            at = rng.randrange(len(form.final))
            texts.append(form.final[:at] + ("" if rng.random() < 0.3 else form.final[at + rng.randint(1, 40):]))
        form.prove(texts)


def main(arguments):
    mutants.FILE, mutants.KINDS, mutants.MOST, mutants.EACH = FILE, KINDS, MOST, EACH
    tools, rest = [os.path.abspath(tool) for tool in arguments[:3]], arguments[3:]
    with tempfile.TemporaryDirectory() as folder:
        all_forms = []
        for i, name in enumerate(FORMS):
            os.mkdir(os.path.join(folder, str(i)))
            all_forms.append(Form(tools, os.path.join(folder, str(i)), name))
        if rest == ["--bless"]:
            return mutants.bless(all_forms)
        if rest:
            return at_random(all_forms, int(rest[0]), int(rest[1]) if len(rest) > 1 else 1)
        return ordinary(all_forms)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
