#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate against seeded bugs.

  mutants.py DTC PROVE JUDGED               the bugs of mutants.txt: each must be refused
  mutants.py DTC PROVE JUDGED COUNT [SEED]  COUNT random ones
  mutants.py DTC PROVE JUDGED --bless       judges many and writes those that count to mutants.txt

For each layout below `dtc` prints the serial program and the placed one; the certificate must hold. Then single faults
of the kinds of KINDS are put into the text of the placed program. One counts if the interpreter of all ranks (JUDGED)
finds another loss, gradient or parameter than the serial program's: the certificate must refuse it. Of those of STRICT,
which round what was not rounded, the interpreter sees nothing; all of them count. mutants.txt names those that count by
layout, kind and a checksum of the line that is changed, without numbers of values, functions and stores: so an ordinary
run judges only those that are accepted. Where the compiler writes other lines by now, others are judged in their place;
where fewer than APPLIES of the recorded ones are found, the test fails (--bless keeps those that are, and fills up).
Texts that are cut short or garbled must not crash the reader.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FILE = os.path.join(HERE, "mutants.txt")
# bugs of each kind in each layout that count: in an ordinary run, in a blessed list; candidates
# that are judged for the latter; the part of the recorded ones that must be found
MEANINGS = 12
AT_LEAST, MOST, EACH = 8, 14, 4  # counting ones of each kind: an ordinary run, a blessed list; judged of each layout for it
APPLIES = 0.8  # of the recorded ones are found
QUICK = "batch=8 seq=4 vocab=16 embed=8 heads=2"

LAYOUTS = {  # example, dims, ranks, layout
    "tensor": ("quickstart", QUICK + " layers=2", 4,
               "mesh data = 2, tensor = 2\nshard heads, ffn, vocab on tensor\nshard seq on tensor\n"
               "shard batch on data\nmicro batch = 2\nremat h"),
    "pipeline": ("quickstart", QUICK + " layers=4", 8,
                 "mesh pipe = 2, data = 2, tensor = 2\nshard heads, ffn, vocab on tensor\n"
                 "shard batch on data\npipeline h on pipe\nmicro batch = 4\nzero 2 on data"),
    "class": ("quickstart", QUICK + " layers=10", 10,
              "mesh pipe = 10\npipeline h on pipe (cuts = (1, 2, 3, 4, 5, 6, 7, 8, 9))\nmicro batch = 4"),
    "stages": ("t5", "batch=8 src=4 tgt=4 vocab=16 enc=2 dec=2 embed=8 heads=2 head=4 ffn=8 buckets=4", 4,
               "mesh pipe = 4\npipeline e, d on pipe (schedule = zb_h1)\nmicro batch = 4"),
    "unlike stages": ("t5", "batch=24 src=4 tgt=6 vocab=12 enc=4 dec=4 embed=4 heads=4 head=4 ffn=12 buckets=8", 4,
                      "mesh pipe = 2, m = 2\nshard attend.heads, attend.head on m\nshard batch on m\n"
                      "pipeline e, d on pipe (schedule = interleaved_1f1b, chunks = 2)\nmicro batch = 4\n"
                      "zero 1 on m (bucket = 1KiB)"),
    "experts": ("moe", "batch=16 seq=4 vocab=16 layers=2 pool=8 experts=4 embed=8 kv=2 group=1 head=4 ffn=8", 4,
                "mesh data = 2, expert = 2\nshard experts on expert\nshard batch on data, expert\n"
                "micro batch = 2\nzero 3 on data"),
    "ring": ("quickstart", QUICK.replace("seq=4", "seq=8") + " layers=2", 8,
             "mesh data = 2, context = 2, tensor = 2\nshard heads, ffn, vocab on tensor\n"
             "shard seq on context (order = zigzag)\nshard kseq on context (ring = true, order = zigzag)\n"
             "shard batch on data\nmicro batch = 2"),
    "halo": ("windows", "batch=2", 4, "mesh rows = 2, columns = 2\nshard height on rows\nshard width on columns"),
    "padded": ("quickstart", QUICK + " layers=2", 4,
               "mesh data = 2, tensor = 2\nshard vocab on tensor (pad = 6)\nshard batch on data\nmicro batch = 2"),
    "padded stages": ("gpt2", QUICK + " layers=2", 4,
                      "mesh pipe = 2, tensor = 2\nshard vocab on tensor (pad = 6)\n"
                      "pipeline h on pipe\nmicro batch = 4\nzero 1 on tensor"),
}


def operand(rng, line):
    """Replaces an operand by another one."""
    if not line.startswith("  %") or " = " not in line:
        return line
    head, rest = line.split(" = ", 1)
    inside = rest[:rest.index(" : ")] if " : " in rest else rest
    places = list(re.finditer(r'%(?:[\w.@#$]+|"[^"]*"\.\d+)', inside))
    if len(places) < 2 or re.match(r"(add|mul|max|min|eq|ne|and|or)\(", rest):
        return line
    a, b = rng.sample(places, 2)
    return head + " = " + rest[:a.start()] + b.group(0) + rest[a.end():]


def swapped(rng, line):
    """Exchanges two operands of an op whose order matters."""
    return re.sub(r"= (sub|div|lt|pow|floordiv)\((%\S+), (%\S+)\)", r"= \1(\3, \2)", line)


def other_mesh(rng, line):
    return re.sub(r"(= (?:all_reduce|call\[).* )mesh=\{(\w+)", lambda m: m.group(1) + "mesh={" + (
        "tensor" if m.group(2) == "data" else "data"), line)


def numbered(pattern, low, high):
    """Another number in the group that the pattern finds."""
    def change(rng, line):
        by = rng.choice([n for n in range(low, high + 1) if n])
        return re.sub(pattern, lambda m: m.group(1) + str(int(m.group(2)) + by), line, count=1)
    return change


def scale(rng, line):
    return re.sub(r"(= const\(\) : (?:f32|bf16)\[\].*number=)([-\w.+]+)",
                  lambda m: m.group(1) + "%g" % (float(m.group(2)) * rng.choice((0.5, 2, 4))), line)


def other_op(rng, line):
    for a, b in (("exp", "log"), ("sub", "add"), ("mul", "div"), ("rsqrt", "sqrt"), ("tanh", "erf"), ("max", "min"),
                 ("lt", "le"), ("add", "sub")):
        if "= %s(" % a in line:
            return line.replace("= %s(" % a, "= %s(" % b)
    return line


def iterations(rng, line):
    """Other ones, or the same in another order."""
    if rng.random() < 0.5 and " reverse" in line:
        return line.replace(" reverse", "")
    return numbered(r"((?:= loop.*|^store .*)(?:first|step)=)(\d+)", -1, 1)(rng, line)


def halo(rng, line):
    """From the other neighbour, or from none; another edge of a part; windows that begin at another
    place."""
    if "= shift(" in line:
        if rng.random() < 0.5:
            return line.replace("= shift(", "= stop(").replace(" reverse", "")
        return line.replace(" reverse", "") if " reverse" in line else re.sub(r"( mesh=)", r" reverse\1", line)
    return numbered(r"(= (?:window|pad|fold).* ranges=\()(\d+)", -1, 1)(rng, line)


def mask(rng, line):
    """Left out, or with another number in the padding."""
    line = re.sub(r"= where\((%\S+), (%\S+), (%\S+)\) : (\S+\[.*vocab=18)", r"= stop(\2) : \4", line)
    return re.sub(r"number=-inf|number=inf", "number=1", line)


VALUE = r'%(?:[\w.@#$-]+|"[^"]*"\.\d+)'


def value_types(lines):
    """The types of the values of a function by number; of casts and constants none."""
    types = {}
    for line in lines:
        head, _, rest = line.partition(" = ")
        if line.startswith("  arg "):
            head, _, rest = line[4:].partition(" : ")
            rest = " : " + rest
        if not head.startswith("  %") or re.match(r"(cast|const|expand)\b", rest):
            continue
        found = re.findall(r'\w+\[(?:[^]"]|"[^"]*")*\](?:\{[^}]*\})?', rest[rest.index(" : "):])
        for name, value_type in zip(head.strip().split(", "), found):
            types[number_of(name)] = value_type
    return types


def number_of(value):
    return int(value.rsplit(".", 1)[-1].lstrip("%"))


def round_and_back(rng, line, lines):
    """Rounds a result of a function to 16 bits and back. lines: those of the function up to this
    one."""
    values, types = line[9:].split(", ") if line.startswith("  return ") else [], value_types(lines)
    some = [i for i, value in enumerate(values) if types.get(number_of(value), "").startswith("f32[")]
    if not some:
        return line
    i, n = rng.choice(some), 1 + max(number_of(value) for each in lines for value in re.findall(VALUE, each))
    axes = types[number_of(values[i])][3:]
    made = "  %%%d = cast(%s) : bf16%s @1:1-2\n  %%%d = cast(%%%d) : f32%s @1:1-2\n" % (n, values[i], axes, n + 1, n, axes)
    values[i] = "%%%d" % (n + 1)
    return made + "  return " + ", ".join(values)


# kinds whose changes also need the lines of the function
STRICT = {"round and back": round_and_back}
KINDS = {
    "operand": operand,
    "swapped operands": swapped,
    "op": other_op,
    "scale": scale,
    # Replaces a sum over ranks by a local op: its type says that ranks have added up, although
    # they have not.
    "dropped sum": lambda rng, line: re.sub(r"= all_reduce\((?!.*stages=)", "= stop(", line),
    "doubled sum": lambda rng, line: re.sub(
        r"= all_reduce\((\S+)\) : (\w+\[[^]]*\])(?!.*stages=)", r"= add(\1, \1) : \2", line),
    "other group": other_mesh,
    "reduction": lambda rng, line: re.sub(r"(= (?:all_reduce|reduce)\b.*?)( path=| text=| mesh=| @)", r"\1 reduce=min\2",
                                          line, count=1)
    if "reduce=" not in line else re.sub(r" reduce=max", "", line),
    "store": numbered(r"(= param\(\).*store=)(\d+)", -2, 2),
    "result": numbered(r"(  result store=)(\d+)", -2, 2),
    "iterations": iterations,
    "accumulate": lambda rng, line: line.replace(" accumulate", ""),
    "tied weights": lambda rng, line: re.sub(r"= all_reduce\((?=.*stages=)", "= stop(", line),
    "stages": lambda rng, line: re.sub(r" stages=\((\d+), ", " stages=(", line),
    "bucket": numbered(r"(= unpack.* number=)(\d+)", -3, 3),
    "saved value": lambda rng, line: re.sub(r"(  return .*?)(%\S+), (%\S+)$", r"\1\3, \2", line),
    "channel": numbered(r"(store \d+ : channel .* of=)(\d+)", -3, 3),
    "slice": numbered(r"(ranges=\()(\d+)", 1, 2),
    "halo": halo,
    "mask": mask,
    "mask extent": numbered(r"(const\(\) : i32\[\] number=)(16)\b", -1, 2),
    "round and back": round_and_back,
}


def plain(line):
    """The line without spans and without the numbers of the values that it means."""
    return re.sub(r" means=(\d+|\([\d ]*\))| @\d+:\d+-\d+$", "", line)


def bare(line):
    """The part of a line that stays the same if other lines before it are added or removed."""
    line = re.sub(VALUE, lambda found: re.sub(r"\.?\d+$", "", found.group()), plain(line))
    line = re.sub(r"(func|part|merge|finish)=(\S+?)(\.\d+)*(?= |$)", r"\1=\2", line)
    return re.sub(r"^store \d+|\b(store|of|bucket)=\d+", r"\1", line)


def crc(line):
    return "%08x" % zlib.crc32(bare(line).encode())


def example(name, dims):
    """The text of the program with other dims."""
    folder = "tests/passes/programs" if name in ("windows", "layers") else "examples"
    with open(os.path.join(ROOT, folder, name + ".dsl")) as file:
        lines = file.read().split("\n")
    for name, value in (dim.split("=") for dim in dims.split()):
        for i, line in enumerate(lines):
            if line.startswith("dim "):
                lines[i] = re.sub(r"\b%s = [^,#]*[^,# ]" % name, "%s = %s" % (name, value), line)
    return "\n".join(lines)


def source(name, dims, gpus, layout):
    text = re.sub(r"\ncluster .*", "\n", example(name, dims), flags=re.S)
    return text + 'cluster c { nodes = 1; gpus = %d; gpu = "cpu" }\nparallel p on c {\n%s\n}\n' % (gpus, layout)


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=ROOT)
    if done.returncode:
        sys.exit("%s ended with %d: %s" % (command[0], done.returncode, done.stderr[-2000:]))
    return done.stdout


class Layout:
    """The texts of a layout, and the verdicts of the tools on changed ones."""

    def __init__(self, tools, folder, name):
        self.dtc, self.prover, self.judged = tools
        self.folder, self.name = folder, name
        self.path = os.path.join(folder, "program.dsl")
        with open(os.path.join(folder, "llama_block.dsl"), "w") as file:
            file.write(example("llama_block", LAYOUTS[name][1]))
        with open(self.path, "w") as file:
            file.write(source(*LAYOUTS[name]))
        self.serial, self.final = (lines_of([self.dtc, self.path, "--data=synthetic", "--print-after=" + stage])
                                   for stage in ("narrow", "reduce"))  # the last pass but `expand`
        self.lines = self.final.split("\n")

    def files(self, texts):
        for i, text in enumerate(texts):
            path = os.path.join(self.folder, "%d.ir" % i)
            with open(path, "w") as file:
                file.write(text)
            yield path

    def prove(self, texts):
        verdicts = lines_of([self.prover] + list(self.files([self.serial] + texts))).split("\n")[:-1]
        assert len(verdicts) == len(texts)
        return verdicts

    def judge(self, texts):
        return lines_of([self.judged, self.path] + list(self.files(texts))).splitlines() if texts else []

    def text(self, site):
        _, i, changed = site
        return "\n".join(self.lines[:i] + [changed] + self.lines[i + 1:])

    def sites(self, kind, seed=""):
        """(kind, line number, changed line), in random order; the change depends on the line alone. Functions of
        streams are only read by `expand`, and what that makes of them is judged behind it (boxmutants.py)."""
        found, seen, func, begin = [], set(), "", 0
        streams = set(re.findall(r' (?:part|merge|finish)=("[^"]*"|\S+)', self.final))
        for i, line in enumerate(self.lines):
            begin, func = (i, line.split()[1]) if line.startswith("func ") else (begin, func)
            if func not in streams and line.startswith(("  ", "store ")) and not line.startswith("  run ") and line not in seen:
                args = [self.lines[begin:i]] if kind in STRICT else []
                changed = KINDS[kind](random.Random(seed + bare(line)), line, *args)
                if changed != line:
                    found.append((kind, i, changed))
                seen.add(line)
        random.Random(self.name + kind + seed).shuffle(found)
        return found

    def differing(self, sites):
        judged = [site for site in sites if site[0] not in STRICT]
        verdicts = dict(zip(judged, self.judge([self.text(s) for s in judged])))
        return [site for site in sites if verdicts.get(site, "differs") == "differs"]

    def key(self, site):
        return self.name, site[0], crc(self.lines[site[1]])

    def known(self, kind, keys):
        """Those sites whose keys are recorded, one for each key."""
        return list({self.key(site): site for site in self.sites(kind) if self.key(site) in keys}.values())


def recorded():
    with open(FILE) as file:
        rows = [line.strip().split(", ") for line in file if not line.startswith("#")]
    return {tuple(row) for row in rows if len(row) == 3}


def bless(layouts):
    """The file is written after each kind, so that a run that is ended early has not run for
    nothing."""
    known = recorded()
    rows = set(known)
    for kind in KINDS:
        kept = [row for layout in layouts for row in map(layout.key, layout.differing(layout.known(kind, known)))]
        for layout in layouts if len(kept) < MOST else []:
            kept += [layout.key(site) for site in layout.differing(layout.sites(kind)[:EACH]) if layout.key(site) not in kept]
        kept = sorted(set(kept), key=lambda row: (row not in known, zlib.crc32(repr(row).encode())))[:MOST]
        rows = {row for row in rows if row[1] != kind} | set(kept)
        write(rows)
        print("%-20s %d" % (kind, len(kept)), flush=True)
    return 0


def write(rows):
    with open(FILE, "w") as file:
        file.write("# layout, kind, checksum of the line: bugs that the interpreter sees (%s --bless)\n" % os.path.basename(sys.argv[0]))
        file.writelines(", ".join(row) + "\n" for row in sorted(rows, key=lambda row: zlib.crc32(repr(row).encode())))


def too_few(found, known):
    """Whether too few of the recorded bugs were found; prints how many were."""
    if found < len(known):
        print("%d of %d that are recorded are found" % (found, len(known)))
    return found < APPLIES * len(known)


def other_meaning(rng, line):
    """Changes which value a value says that it means: to one near by, or in another function."""
    numbers = list(re.finditer(r"(?<= means=)\d+", line))
    if not numbers:
        return line
    number = rng.choice(numbers)
    other = max(0, int(number.group()) + rng.choice((-300, -40, -3, -2, -1, 1, 2, 3, 40, 300)))
    return line[:number.start()] + str(other) + line[number.end():]


def meanings(layouts, chosen):
    """Returns the failures. The certificate must not trust what a value says that it means: a bug
    stays a bug, whatever values say."""
    sites = failed = 0
    for layout in layouts:
        texts = []
        for site in chosen[layout.name][:MEANINGS]:
            rng = random.Random(layout.name + plain(site[2]))
            lines = layout.text(site).split("\n")
            texts.append("\n".join(other_meaning(rng, line) if rng.random() < 0.3 else line for line in lines))
        for site, verdict in zip(chosen[layout.name], layout.prove(texts) if texts else []):
            sites += 1
            failed += verdict == "holds"
            if verdict == "holds":
                print("accepted as values mean others: %s, %s\n  %s" % (layout.name, site[0], site[2][:300]))
    print("%-20s %d" % ("meanings", sites))
    return failed


def check(layouts, chosen):
    """Returns the failures: layouts that are not proved, and bugs that are."""
    failed = 0
    for layout in layouts:
        sites = chosen[layout.name]
        verdicts = layout.prove([layout.final] + [layout.text(site) for site in sites])
        if verdicts[0] != "holds":
            failed += 1
            print("%s: the layout itself: %s" % (layout.name, verdicts[0]))
        accepted = [site for site, verdict in zip(sites, verdicts[1:]) if verdict == "holds"]
        for site in layout.differing(accepted):
            failed += 1
            print("accepted: %s, %s\n  %s\n  %s" % (layout.name, site[0], layout.lines[site[1]][:300], site[2][:300]))
    return failed


def ordinary(layouts):
    known, chosen, counts = recorded(), {}, dict.fromkeys(KINDS, 0)
    for layout in layouts:
        chosen[layout.name] = [site for kind in KINDS for site in layout.known(kind, known)]
        for site in chosen[layout.name]:
            counts[site[0]] += 1
    fresh, found = 0, sum(counts.values())
    for kind in KINDS:
        for layout in layouts:
            if counts[kind] < AT_LEAST:
                new = [s for s in layout.sites(kind) if s not in chosen[layout.name]]
                new = layout.differing(new[:2 * AT_LEAST])
                chosen[layout.name] += new
                counts[kind] += len(new)
                fresh += len(new)
    failed = check(layouts, chosen) + meanings(layouts, chosen) + too_few(found, known)
    prove_damaged(layouts)
    for kind in KINDS:
        print("%-20s %d" % (kind, counts[kind]))
        if counts[kind] < AT_LEAST:
            failed += 1
            print("%s: too few places in these layouts" % kind)
    if fresh:
        print("%d of them were judged anew: --bless makes this test shorter" % fresh)
    total = sum(counts.values()) + len(layouts) + 1
    print("%d passed, %d failed" % (total - failed, failed))
    return 1 if failed else 0


def at_random(layouts, count, seed):
    rng, chosen, total = random.Random(seed), {}, 0
    for layout in layouts:
        sites = [site for kind in KINDS for site in layout.sites(kind, str(seed))[:2 * AT_LEAST]]
        rng.shuffle(sites)
        chosen[layout.name] = sites[:count // len(layouts) + 1]
        total += len(chosen[layout.name])
    failed = check(layouts, chosen)
    prove_damaged(layouts)
    print("%d passed, %d failed" % (total - failed, failed))
    return 1 if failed else 0


def damage(rng, text):
    """A text that no printer writes: cut short, or with a piece missing."""
    at = rng.randrange(len(text))
    return text[:at] if rng.random() < 0.3 else text[:at] + text[at + rng.randint(1, 40):]


def prove_damaged(layouts):
    """Whatever the verdict is, the reader does not crash."""
    for layout in layouts:
        rng = random.Random(layout.name)
        layout.prove([damage(rng, layout.final) for _ in range(20)])


def main(arguments):
    tools, rest = [os.path.abspath(tool) for tool in arguments[:3]], arguments[3:]
    with tempfile.TemporaryDirectory() as folder:
        layouts = []
        for i, name in enumerate(LAYOUTS):
            os.mkdir(os.path.join(folder, str(i)))
            layouts.append(Layout(tools, os.path.join(folder, str(i)), name))
        if rest == ["--bless"]:
            return bless(layouts)
        if rest:
            return at_random(layouts, int(rest[0]), int(rest[1]) if len(rest) > 1 else 1)
        return ordinary(layouts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
