#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate against seeded bugs: mutants.py DTC PROVE [COUNT [SEED]].

For each layout below `dtc` prints the serial program and the placed one; the certificate must hold. Then single
faults are put into the text of the placed program, of the kinds of KINDS; each must be refused. With COUNT, so many
random faults of all kinds instead of the fixed ones. Texts that are cut short or garbled must be refused too, and not
crash the reader.
"""
import os
import random
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PER_KIND = 12  # of each layout, where there are so many places
AT_LEAST = 8   # of each kind over all layouts

LAYOUTS = {
    "tensor": ("quickstart", 4, "mesh data = 2, tensor = 2\nshard heads, ffn, vocab on tensor\nshard seq on tensor\n"
               "shard batch on data\nmicro batch = 2\nremat h"),
    "pipeline": ("quickstart", 8, "mesh pipe = 2, data = 2, tensor = 2\nshard heads, ffn, vocab on tensor\n"
                 "shard batch on data\npipeline h on pipe\nmicro batch = 4\nzero 2 on data"),
    "stages": ("t5", 4, "mesh pipe = 4\npipeline e, d on pipe (schedule = zb_h1)\nmicro batch = 4"),
    "experts": ("moe", 4, "mesh data = 2, expert = 2\nshard experts on expert\nshard batch on data, expert\n"
                "micro batch = 2\nzero 3 on data"),
    "padded": ("quickstart", 4, "mesh data = 2, tensor = 2\nshard vocab on tensor (pad = 6)\nshard batch on data\n"
               "micro batch = 2"),
    "padded stages": ("gpt2", 8, "mesh pipe = 2, data = 2, tensor = 2\nshard vocab on tensor (pad = 6)\n"
                      "shard batch on data\npipeline h on pipe\nmicro batch = 4\nzero 1 on data"),
}


def replace_operand(rng, line):
    if not line.startswith("  %") or " = " not in line:
        return line
    head, rest = line.split(" = ", 1)
    inside = rest[:rest.index(" : ")] if " : " in rest else rest
    places = list(re.finditer(r'%(?:[\w.@#$]+|"[^"]*"\.\d+)', inside))
    if len(places) < 2 or re.match(r"(add|mul|max|min|eq|ne|and|or)\(", rest):
        return line
    a, b = rng.sample(places, 2)
    if rest.startswith("where("):  # of a zero, often: where(c, 0, 0) is where(c, x, 0) then
        return line
    return head + " = " + rest[:a.start()] + b.group(0) + rest[a.end():]


def drop_communication(rng, line):
    """A local op in its place: the types say that something moved, and nothing does."""
    return re.sub(r"= (all_reduce|reduce_scatter|all_gather|all_to_all)\(", "= stop(", line)


KINDS = {
    "operand": replace_operand,
    "dropped collective": drop_communication,
    "doubled collective": lambda rng, line: re.sub(r" = stop\(", " = all_reduce(", line),
    "other collective": lambda rng, line: line.replace("= all_gather(", "= shard(") if "all_gather(" in line
    else line.replace("= reduce_scatter(", "= all_to_all(") if "reduce_scatter(" in line
    else line.replace("= all_reduce(", "= all_gather("),
    "mesh axis": lambda rng, line: re.sub(r"mesh=\{(\w+)", lambda m: "mesh={" + ("data" if m.group(1) != "data" else "micro"), line),
    "reduction": lambda rng, line: re.sub(r"(= (?:all_reduce|reduce)\b.*?)( path=| text=| mesh=| @)", r"\1 reduce=min\2", line, count=1)
    if "reduce=" not in line else re.sub(r" reduce=max", "", line),
    "pending": lambda rng, line: re.sub(r"\{sum [^}]*\}", "", line, count=1),
    "pending axis": lambda rng, line: re.sub(r"\{sum (\w+) ", r"{sum ", line, count=1),
    "split": lambda rng, line: re.sub(r"/(\w+)(?=[,\]])", "", line, count=1),
    "scale": lambda rng, line: re.sub(r"(= const\(\).*number=)([-\w.+]+)", lambda m: m.group(1) + "%g" % (float(m.group(2)) * 2 + 3), line),
    "op": lambda rng, line: line.replace("= exp(", "= log(").replace("= sub(", "= add(").replace("= mul(", "= div(")
    .replace("= rsqrt(", "= sqrt(").replace("= tanh(", "= erf("),
    "store": lambda rng, line: re.sub(r"store=(\d+)", lambda m: "store=%d" % (int(m.group(1)) + 1), line),
    "iterations": lambda rng, line: re.sub(r"first=(\d+)", lambda m: "first=%d" % (int(m.group(1)) + 1), line),
    "mask": lambda rng, line: re.sub(r"= where\((%\S+), (%\S+), (%\S+)\) : (f32\S*\[.*vocab=(?:258|50262))", r"= stop(\2) : \4", line),
    "mask extent": lambda rng, line: re.sub(r"(const\(\) : i32\[\]) number=(256|50257)",
                                             lambda m: "%s number=%d" % (m.group(1), int(m.group(2)) + rng.choice((-1, 1))), line),
    "mask identity": lambda rng, line: re.sub(r"number=-inf|number=inf", "number=1", line),
    "accumulate": lambda rng, line: line.replace(" accumulate", ""),
    "stages": lambda rng, line: re.sub(r" stages=\((\d+), ", " stages=(", line),
    "bucket": lambda rng, line: re.sub(r"(= unpack.* number=)(\d+)", lambda m: m.group(1) + str(int(m.group(2)) + 1), line),
    "direction": lambda rng, line: line if "_w loop(" in line  # only adds up: the order is free
    else re.sub(r"(loop\(.*) reverse( carried=)", r"\1\2", line),
    "saved value": lambda rng, line: re.sub(r"(  return .*?)(%\S+), (%\S+)$", r"\1\3, \2", line),
}


def source(example, gpus, layout):
    text = open(os.path.join(ROOT, "examples", example + ".dsl")).read()
    text = re.sub(r"\ncluster .*", "\n", text, flags=re.S)
    return text + 'cluster c { nodes = 1; gpus = %d; gpu = "cpu" }\nparallel p on c {\n%s\n}\n' % (gpus, layout)


def programs(dtc, folder, name):
    path = os.path.join(folder, name + ".dsl")
    with open(path, "w") as file:
        file.write(source(*LAYOUTS[name]))
    for other in ("llama_block.dsl",):
        with open(os.path.join(folder, other), "w") as file:
            file.write(open(os.path.join(ROOT, "examples", other)).read())
    last = subprocess.run([dtc, "--list-passes"], capture_output=True, text=True, check=True).stdout.split("\n")[-2].split()[0]
    texts = []
    for stage in ("cse", last):
        done = subprocess.run([dtc, path, "--data=synthetic", "--print-after=" + stage], capture_output=True, text=True,
                              timeout=60)
        if done.returncode:
            sys.exit(done.stderr)
        texts.append(done.stdout)
    return texts


def prove(prover, folder, serial, finals):
    paths = []
    for i, text in enumerate([serial] + finals):
        paths.append(os.path.join(folder, "%d.ir" % i))
        with open(paths[-1], "w") as file:
            file.write(text)
    done = subprocess.run([prover] + paths, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit("prove ended with %d: %s" % (done.returncode, done.stderr))
    return done.stdout.splitlines()


def damage(rng, text):
    """A text that no printer makes: cut short, or with a piece gone."""
    at = rng.randrange(len(text))
    return text[:at] if rng.random() < 0.3 else text[:at] + text[at + rng.randint(1, 40):]


def mutate(rng, lines, kind, count):
    found = []
    where = [i for i, line in enumerate(lines) if line.startswith(("  ", "store ")) and not line.startswith("  run ")]
    rng.shuffle(where)
    for i in where:
        if len(found) == count:
            break
        changed = KINDS[kind](rng, lines[i])
        if changed != lines[i]:
            found.append((i, changed))
    return found


def main(arguments):
    dtc, prover = os.path.abspath(arguments[0]), os.path.abspath(arguments[1])
    count = int(arguments[2]) if len(arguments) > 2 else 0
    rng = random.Random(int(arguments[3]) if len(arguments) > 3 else 1)
    refused, accepted, bad = {}, [], 0
    for name in LAYOUTS:
        with tempfile.TemporaryDirectory() as folder:
            serial, final = programs(dtc, folder, name)
            lines = final.split("\n")
            mutants = []
            for kind in KINDS:
                each = PER_KIND if not count else max(1, count // len(KINDS) // len(LAYOUTS))
                mutants += [(kind, i, line) for i, line in mutate(rng, lines, kind, each)]
            mangled = [damage(rng, final) for _ in range(40)]
            prove(prover, folder, serial, mangled)  # whatever it says: a dropped letter of a name changes nothing
            texts = ["\n".join(lines[:i] + [line] + lines[i + 1:]) for _, i, line in mutants]
            verdicts = prove(prover, folder, serial, [final] + texts)
            if verdicts[0] != "holds":
                bad += 1
                print("%s: the layout itself: %s" % (name, verdicts[0]))
            for (kind, i, line), verdict in zip(mutants, verdicts[1:]):
                refused.setdefault(kind, 0)
                if verdict == "holds":
                    accepted.append((name, kind, lines[i], line))
                else:
                    refused[kind] += 1
    for name, kind, before, after in accepted:
        print("accepted: %s, %s\n  %s\n  %s" % (name, kind, before[:200], after[:200]))
    for kind in KINDS:
        if refused.get(kind, 0) < AT_LEAST and not count:
            bad += 1
            print("%s: too few places in these layouts" % kind)
        print("%-20s %d refused" % (kind, refused.get(kind, 0)))
    total = sum(refused.values())
    failed = len(accepted) + bad
    print("%d passed, %d failed" % (total + len(LAYOUTS) - bad, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
