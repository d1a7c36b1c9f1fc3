#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate of plan files against seeded bugs in plans: planmutants.py DTC PLANMUTANTS [DTRUN] [COUNT [SEED]].

Plans of the layouts below must hold; then planmutants puts single faults into their records, COUNT of each kind.
Faults of the kinds of STRICT change what ranks compute: every one must be rejected. Of the kinds of LOOSE some do not:
without an instruction whose result nobody needs, with two such results in each other's place, with two that have nothing to do with each other in the other order,
with another step in a loop of one iteration, with a slot more or a channel that is shorter, with another slot of a ring
that is as free as the one it was, with a span that reads otherwise in the text, with
what an instruction makes in other memory that is free. With DTRUN the plans that were accepted
are run, and must compute the same losses and norms, bit for bit: then one or two of hundreds of a strict kind may be
among them. Of what is started, and of what is done meanwhile (kind `event`), ranks that run one instruction after the
other notice nothing: in a plan that is accepted planraces.py must find no race. Nor do they of the order of messages
(kind `message`): planorder.py must find that all stages end; where it does not, the certificate refuses. With all iterations of its loops, also those that do the same again, a mutant has the same verdict (tried for
what is accepted, and for a quarter of the rest). `dtc verify` accepts the plan, and refuses a mutant of each kind as a
file. Those of a strict kind that were accepted so far (3 or 4 of 15,000) change what nobody
reads: the copy of what a ring hands on, in a loop of one turn; a maximum that attention leaves in a function that is
computed again, before that memory is another's; a copy that is made twice, of what is still there. Into the schedule of one plan items are put that repeat, guard or move what they stand before: each is rejected, but
for slots that are set where nobody needs them, and not in a block of attention.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "sweep"))
import plan  # noqa: E402

import planorder
import planraces

CLASS = "quickstart none 1f1b 2 0 - f32"  # on four stages, of which two are alike
RING = "gpt2 r - 1 0 - f32"  # over four ranks: in the last of two rounds nobody reads what is handed on
LARGER = {CLASS: ("pipe = 2", "pipe = 4"), RING: ("context = 2", "context = 4")}
RARE = {"channel": 0, "prologue": 1}  # kinds of which EACH finds fewer than AT_LEAST
AHEAD = "quickstart d - 2 3+2 - f32"  # with guards and a ring
TEXTS = {}
# Two tables at both ends: stages add up two gradients of one size, and two scalars.
TEXTS["tied"] = """include "std.dsl"
dim batch = 8, vocab = 16, embed = 8, layers = 4, hidden = 8
model m(i32 tokens[batch]) -> [batch, vocab], f32[] {
  param wte[vocab, embed], wtf[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens] + wtf[vocab = tokens]
  repeat h in layers { x = x + fc:linear[embed, hidden](x)[hidden -> embed] }
  return x @embed (wte * wtf), sum[embed](mean[batch](x))
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  z, r = m(tokens)
  loss = mean[batch](xent[vocab](z, labels)) + r
  optimizer = adamw(lr = 0.1, clip = 1.0)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
parallel p on c { mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 2 }
"""
# Ranks exchange the largest elements of gradients, and where they are.
TEXTS["thin"] = """include "std.dsl"
dim batch = 8, inputs = 6, hidden = 4
model m(x[batch, inputs]) -> [batch, hidden] { return one:linear[inputs, hidden](x) }
train {
  x[batch, inputs] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, hidden](y * y)
  optimizer = sgd(lr = 0.1, momentum = 0.9)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
parallel p on c { mesh data = 2, near = 2; shard batch on data, near; compress top_k on data (fraction = 0.3) }
"""
# Long loops: over positions, layers and micro-batches, whose iterations do the same again.
EXAMPLES = {
    "mamba": ("examples/mamba.dsl", "batch=16 seq=9 vocab=16 layers=8 embed=8 cell=4",
              "cluster.gpus=2 parallel.mesh.data=2 parallel.micro.batch=8"),
    "lstm": ("examples/lstm.dsl", "batch=8 seq=12 vocab=16 embed=8 hidden=8", "cluster.gpus=2 parallel.mesh.data=2"),
    "joined": ("examples/gpt2.dsl", "batch=4 seq=8 vocab=16 layers=3 embed=16 heads=2",
               "cluster.nodes=1 cluster.gpus=2 parallel.mesh.data=2 parallel.micro.batch=2"), # products with epilogues
    # for GPUs, with attention of a library; no ranks run it here
    "library": ("examples/gpt2.dsl", "batch=8 seq=64 vocab=128 layers=2 embed=128 heads=2",
                "cluster.nodes=1 cluster.gpus=2 parallel.mesh.data=2 parallel.micro.batch=2"),
}
LAYOUTS = list(EXAMPLES) + list(TEXTS) + ["quickstart d4 - 1 0 - f32", "gpt2 ut - 1 0 - f32", "quickstart d - 1 3 - f32", AHEAD,
           "quickstart d 1f1b 4 3+1 - f32", "moe none - 4 0 all f32",
           "quickstart dc dualpipe_v 2 2 keep master", "t5 d zb_v 2 1 all master", RING,
           CLASS]
STRICT = ["offset", "reuse", "length", "peer", "double", "group", "count", "reduce", "dtype", "blocks", "product", "epilogue",
          "accumulate", "kernel", "operands", "guard", "store", "loop", "integer", "metric", "axis", "stage", "hoist",
          "scratch", "prologue", "record", "code", "start", "stale", "sdpa", "narrow"]
LOOSE = ["results", "drop", "entry", "stride", "coordinate", "slot", "swap", "actions", "channel", "ring", "event", "text", "message",
         "moved"]
INSERTED = [(["kind=loop reg=8 step=1 count=2"], ["kind=end reg=8"]), (["kind=set reg=4 first=1"], []),
            (["kind=set reg=7 count=3"], []), (["kind=set reg=7 body=7 step=1 first=1 count=3"], []),
            (["kind=when body=1 count=1"], []), (["kind=when reg=1 body=1 count=1"], [])]
EACH, AT_LEAST, RUNS, STEPS = 8, 8, 6, 3


def compile_plan(dtc, folder, name, kernels):
    """Makes the plan; returns its path."""
    path, dims, settings = EXAMPLES.get(name, ("", "", ""))
    row = None if name in TEXTS or path else plan.parse(name)
    source, out = (os.path.join(folder, name) for name in ("layout.dsl", "layout.plan"))
    with open(source, "w") as file:
        text = plan.layout(row, ROOT) if row else open(os.path.join(ROOT, path)).read() if path else TEXTS[name]
        if name in LARGER:
            text = text.replace(*LARGER[name]).replace("gpus = 2", "gpus = 4")
        file.write(text)
    command = [dtc, source, "-o", out, "--data=synthetic"] + (plan.options(row) if row else [])
    command += [] if name == "library" else ["--target=cpu"]
    command += ["--epilogues=all"] if name == "joined" else []
    command += [word for dim in dims.split() for word in ("-D", dim)]
    command += [word for setting in settings.split() for word in ("--set", setting)]
    subprocess.run(command + ([] if kernels and name != "library" else ["--no-kernels"]), capture_output=True, text=True, check=True)
    return out


def refuses(dtc, out, folder, kinds):
    """What is wrong with `dtc verify`: it must accept the plan, and refuse all mutants that
    planmutants left as rejected."""
    wrong = []
    for path, want in [(out, 0)] + [(os.path.join(folder, "kept-%s.plan" % kind), 1) for kind in kinds]:
        done = subprocess.run([dtc, "verify", path], capture_output=True, text=True)
        if done.returncode != want or (want and "is not proved to do what it says: " not in done.stderr):
            wrong.append("dtc verify %s ends with %d: %s" % (os.path.basename(path), done.returncode, done.stderr[:200]))
    return wrong


def losses(dtrun, path, folder):
    """The output of each step, or how the run failed."""
    log = os.path.join(folder, "log.jsonl")
    done = subprocess.run([dtrun, path, "--unproved", "--steps", str(STEPS), "--overwrite", "--log", log, "--quiet",
                           "--timeout", "20"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return "dtrun %d: %s" % (done.returncode, done.stderr[:200])
    with open(log) as file:
        events = [json.loads(line) for line in file]
    return [(event["loss"], event["grad_norm"]) for event in events if event["event"] == "step"]


def run_accepted(dtrun, out, folder):
    """What is wrong with plans that were accepted."""
    wrong, seen = [], collections.Counter()
    want = losses(dtrun, out, folder)
    for name in sorted(os.listdir(folder)):
        kind = name.split("-")[1] if re.match(r"kept-\w+-\d", name) else None
        if kind is None or seen[kind] == (RUNS if kind in LOOSE else 1000):
            continue
        seen[kind] += 1
        got = losses(dtrun, os.path.join(folder, name), folder)
        if got != want:
            wrong.append("%s computes %s, not %s" % (name, got, want))
    return wrong


def races(dtc, path):
    try:
        return None if planraces.starts(dtc, path) else "nothing is started"
    except planraces.Race as race:
        return str(race)


def judge_races(dtc, out, folder):
    """What is wrong with plans in which other operations run beside each other; one such mutant of
    kind `start` is known."""
    wrong = []
    if races(dtc, out) in (None, "nothing is started"):
        wrong += ["%s: %s" % (name, races(dtc, os.path.join(folder, name))) for name in sorted(os.listdir(folder))
                  if re.match(r"kept-event-\d", name) and races(dtc, os.path.join(folder, name))]
    else:
        wrong.append("the plan itself: %s" % races(dtc, out))
    refused = os.path.join(folder, "kept-start.plan")
    if os.path.exists(refused) and not races(dtc, refused):
        wrong.append("no race is found in a plan of kind start")
    return wrong


def judge_order(dtc, out, folder):
    """What is wrong with plans whose stages may wait for each other."""
    plans = [out] + [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if re.match(r"kept-message-\d", name)]
    return ["%s: %s" % (os.path.basename(path), said) for path in plans for said in [planorder.waits(dtc, path)] if said]


def tangle(tools, totals):
    """What is wrong with the certificate of plans in which two messages of a stage change places, so that stages wait for
    each other."""
    dtc, planmutants, dtrun = tools
    wrong, found = [], 0
    with tempfile.TemporaryDirectory() as folder:
        out = compile_plan(dtc, folder, CLASS, False)
        lines = subprocess.run([dtc, "dump", out], capture_output=True, text=True, check=True).stdout.split("\n")
        for i in range(len(lines) - 1):
            if not all(re.match("INST kind=(send|recv)", line) for line in lines[i:i + 2]):
                continue
            with open(os.path.join(folder, "tangled"), "w") as file:
                file.write("\n".join(lines[:i] + [lines[i + 1], lines[i]] + lines[i + 2:]))
            subprocess.run([dtc, "asm", os.path.join(folder, "tangled"), "-o", out], capture_output=True, check=True)
            if planorder.waits(dtc, out):
                found += 1
                done = subprocess.run([planmutants, out, "1", "0"], capture_output=True, text=True)
                totals["tangle"] += done.stdout.startswith("fails: ")
                if not done.stdout.startswith("fails: "):
                    wrong.append("stages wait for each other with line %d before %d, and the plan is accepted" % (i + 2, i + 1))
    return wrong + ([] if found else ["no two messages make stages wait for each other"])


def splice(dump, at, before, behind):
    """The plan's text with additional items around item number `at` of its schedules."""
    lines, items, more = dump.split("\n"), 0, len(before) + len(behind)
    for i, line in enumerate(lines):
        if line.startswith("SCHD "):
            if items == at:
                lines[i] = "\n".join(["SCHD " + item for item in before] + [line] + ["SCHD " + item for item in behind])
            items += 1
        elif line.startswith("ENTR "):
            first, count = (int((re.search(r" %s=(\d+)" % name, line) or [0, 0])[1]) for name in ("first", "count"))
            line = re.sub(r" first=\d+| count=\d+", "", line.split(" # ")[0])
            lines[i] = "%s first=%d count=%d" % (line, first + (more if first > at else 0),
                                                 count + (more if first <= at < first + count else 0))
    return "\n".join(lines)


def insert(tools, totals):
    """Puts additional items around each item of the step that runs unguarded. Returns what is wrong
    with the certificate's verdicts."""
    dtc, planmutants, dtrun = tools
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        out = compile_plan(dtc, folder, AHEAD, dtrun is not None)
        want = losses(dtrun, out, folder) if dtrun else None
        dump = subprocess.run([dtc, "dump", out], capture_output=True, text=True, check=True).stdout
        items = re.findall(r"^SCHD (.*?)(?: # \d+)?$", dump, re.M)
        step = re.search(r'^ENTR name="step".* count=(\d+)', dump, re.M)
        behind, loops = 0, []
        for at, item in enumerate(items[:int(step.group(1))]):
            when = re.match(r"kind=when .*body=(\d+)", item)
            behind = max(behind, at + 1 + int(when.group(1))) if when else behind
            loops = loops + [item] if item.startswith("kind=loop") else loops[:-1] if "kind=end" in item else loops
            # an item of attention: there no slot is set
            in_blocks = any("reg=2" in loop for loop in loops)
            for before, after in INSERTED if item.startswith("kind=run") and at >= behind else []:
                with open(os.path.join(folder, "spliced"), "w") as file:
                    file.write(splice(dump, at, before, after))
                made = subprocess.run([dtc, "asm", os.path.join(folder, "spliced"), "-o", out], capture_output=True)
                done = subprocess.run([planmutants, out, "1", "0"], capture_output=True, text=True)
                totals["insert"] += made.returncode == 0 and done.stdout.startswith("fails: ")
                if made.returncode or done.returncode or ("reg=7" in before[0] and not dtrun and not in_blocks):
                    continue
                if "reg=7" not in before[0] or in_blocks or losses(dtrun, out, folder) != want:
                    wrong.append("%s before item %d of `step` is accepted" % (before, at))
    return wrong


def mutate(tools, name, count, seed, totals):
    dtc, planmutants, dtrun = tools
    dtrun = None if name == "library" else dtrun
    with tempfile.TemporaryDirectory() as folder:
        out = compile_plan(dtc, folder, name, dtrun is not None)
        done = subprocess.run([planmutants, out, str(seed), str(count), os.path.join(folder, "kept")],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return ["%s: %s" % (name, done.stdout + done.stderr)]
        wrong, kinds = [], []
        for line in done.stdout.splitlines():
            if line.startswith("differs"):
                wrong.append("%s %s" % (name, line))
                continue
            kind, _, rejected, _, accepted, _, unreadable = line.split()
            totals[kind] += int(rejected)
            kinds += [kind] if int(rejected) else []
            if kind in STRICT and int(accepted) > (count // 50 if dtrun else 0):
                wrong.append("%s: %s of kind %s accepted" % (name, accepted, kind))
        wrong += ["%s: %s" % (name, what) for what in refuses(dtc, out, folder, kinds)]
        wrong += ["%s: %s" % (name, what) for what in judge_races(dtc, out, folder) + judge_order(dtc, out, folder)]
        if dtrun:
            wrong += ["%s: %s" % (name, what) for what in run_accepted(dtrun, out, folder)]
        return wrong


def main(arguments):
    dtc, planmutants = (os.path.abspath(tool) for tool in arguments[:2])
    numbers = [int(word) for word in arguments[2:] if word.isdigit()]
    dtrun = next((os.path.abspath(word) for word in arguments[2:] if not word.isdigit()), None)
    count, seed = (numbers + [EACH, 1][len(numbers):])[:2]
    totals, wrong = collections.Counter(), []
    for name in LAYOUTS:
        wrong += mutate((dtc, planmutants, dtrun), name, count, seed, totals)
    wrong += insert((dtc, planmutants, dtrun), totals)
    wrong += tangle((dtc, planmutants, dtrun), totals)
    for kind in STRICT + LOOSE + ["insert"]:
        if totals[kind] < (RARE[kind] * count // EACH if kind in RARE else min(count, AT_LEAST)):
            wrong.append("only %d of kind %s" % (totals[kind], kind))
    for what in wrong:
        print("FAIL", what)
    print("%d faults of %d kinds rejected" % (sum(totals.values()), len(totals)))
    print("%d passed, %d failed" % (len(LAYOUTS) - min(len(wrong), len(LAYOUTS)), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
