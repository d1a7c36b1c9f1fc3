# SPDX-License-Identifier: Apache-2.0
"""Pipelines whose messages go over NCCL beside kernels, on stand-ins of CUDA's libraries:  pipelines.py DTC DTRUN [KIND]

Each pipeline is trained on the processor, with --comm shm, and with NCCL where streams run in various orders that events
allow (standin.h): losses are the processor's but for roundings, and those of shm, with norms, checkpoints and bytes
received, to the last bit. So are they where a kernel of NCCL that waits leaves no room for another one, and where a device
does all its work in the order in which it was begun. Kinds: `few` and `more` pipelines; `waits`: streams that do not
wait for an event are noticed, all at once and each alone; `failures`: a rank that ends, or hangs, in a message.

With DT_SHARE=K/N in the environment (tests/share.py) one of N pipelines of `few` runs, and one of N ranks that die."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from training import INTERPRETED, ROOT, STEPS, bytes_of, numbers, run, share, train

sys.path.insert(0, os.path.join(ROOT, "tests/runtime"))
sys.path.insert(0, os.path.join(ROOT, "tests/verify"))
from layouts import PROGRAM, events  # noqa: E402
from planmutants import splice  # noqa: E402

ORDERS = ("resident=1", "resident=1 oldest", "resident=1 newest", "begun", "resident=1 chance=7", "resident=1 newest nccl=22000")
PIPELINES = {  # ranks, layers, directives
    "two": (2, 2, 'mesh pipe = 2; pipeline h on pipe (schedule = "1f1b"); micro batch = 4'),
    "turns": (2, 4, 'mesh pipe = 2; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4'),
    "apart": (4, 2, 'mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "zb_h1"); micro batch = 4; zero 1 on data'),
    "three": (3, 3, 'mesh pipe = 3; pipeline h on pipe (schedule = "zb_h1"); micro batch = 8'),
    "long": (3, 3, 'mesh pipe = 3; pipeline h on pipe (schedule = "1f1b"); micro batch = 8'),
    "back": (4, 4, 'mesh pipe = 2, tensor = 2; shard heads, ffn on tensor; pipeline h on pipe (schedule = "zb_v"); micro batch = 4'),
    "dual": (2, 4, 'mesh pipe = 2; pipeline h on pipe (schedule = "dualpipe_v"); micro batch = 8'),
    "gathers": (4, 4, 'mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 4; '
                      "zero 3 on data (prefetch = 1)"),
    "eight": (8, 8, 'mesh pipe = 8; pipeline h on pipe (schedule = "1f1b"); micro batch = 8'),
    "cube": (8, 4, 'mesh pipe = 2, data = 2, tensor = 2; shard batch on data; shard heads, ffn on tensor; '
                   'pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4; zero 1 on data, tensor'),
}
# pipelines for which streams that do not wait are tested, too: with buckets of gradients, with
# gathers ahead
COLLECTIVES = {
    "buckets": (2, 3, "mesh data = 2; shard batch on data; micro batch = 2"),
    "ahead": (4, 3, "mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data (prefetch = 1)"),
}
DEAF = ("two", "buckets", "ahead", "gathers")
FEW, MORE = ("two", "turns", "apart"), ("three", "long", "back", "dual", "gathers", "eight", "cube")
ONE = 'cluster here { nodes = 1; gpus = %d; gpu = "cpu" }\nparallel %s on here { %s }\n'
SIZES = ["-D", "batch=8", "-D", "seq=4", "-D", "vocab=11", "-D", "embed=8", "-D", "heads=2", "-D", "ffn=8"]
OFF = 1e-5  # as in nccl.py
# Waits of streams of one rank: looked at; noticed at least. Behind others stands what another one holds back, too, or what
# touches nothing that is on its way. Each wait of a plan counts: tests/verify/planwaits.py.
WAITS, NOTICED = 16, {"two": 10, "buckets": 4}


def compile_plan(dtc, name, target):
    ranks, layers, layout = {**PIPELINES, **COLLECTIVES}[name]
    with open(name + ".dsl", "w") as file:
        file.write(PROGRAM + ONE % (ranks, name, layout))
    plan = "%s.%s.plan" % (name, target)
    run(dtc, name + ".dsl", "--parallel", name, "--target=" + target, "--epilogues=all", "-o", plan, *SIZES, "-D", "layers=%d" % layers)
    return plan


def moved(plan):
    return [(e["groups"], e["channels"]) for e in events(plan + ".jsonl") if e["event"] == "traffic"]


def check(dtc, dtrun, name):
    os.environ["DT_STANDIN"] = "gpus=%d" % PIPELINES[name][0]
    there, plan = compile_plan(dtc, name, "cpu"), compile_plan(dtc, name, INTERPRETED)
    channels = [line for line in run(dtc, "dump", plan).splitlines() if line.startswith("CHAN")]
    assert sum("direct=1" in line for line in channels) * 2 >= len(channels), "%s: channels are %s" % (name, channels)
    processor = train(dtrun, there, "--overwrite")[0]
    wanted, traffic = train(dtrun, plan, "--overwrite", "--comm", "shm"), moved(plan)
    assert len(processor) == STEPS and all(abs(x - y) <= OFF * abs(x) for a, b in zip(processor, wanted[0]) for x, y in zip(a, b)), \
        "%s: steps are %s instead of %s" % (name, wanted[0], processor)
    for order in ORDERS:
        os.environ["DT_STANDIN"] = "gpus=%d %s" % (PIPELINES[name][0], order)
        got = train(dtrun, plan, "--overwrite")
        assert got == wanted, "%s, %s: steps are %s instead of %s" % (name, order, got[0], wanted[0])
        assert moved(plan) == traffic, "%s: moved %s instead of %s" % (name, moved(plan), traffic)
        print("ok", name, order, flush=True)
    return len(ORDERS)


def steps_of(dtrun, plan, standin):
    """The result of a run that may fail: its losses, and what it saved."""
    os.environ["DT_STANDIN"] = "gpus=4 " + standin
    shutil.rmtree("deaf.saved", ignore_errors=True)
    done = subprocess.run([dtrun, plan, "--unproved", "--quiet", "--steps", "1", "--overwrite", "--log", "deaf.jsonl",
                           "--save", "deaf.saved", "--timeout", "10"], capture_output=True, timeout=300)
    folder = os.path.join("deaf.saved", "step-00000001")
    saved = [name for name in sorted(os.listdir(folder) if os.path.exists(folder) else []) if name.endswith(".safetensors")]
    return done.returncode, numbers("deaf.jsonl"), [bytes_of(os.path.join(folder, name)) for name in saved]


def check_waits(dtc, dtrun, name, single):
    plan = compile_plan(dtc, name, INTERPRETED)
    wanted, noticed = steps_of(dtrun, plan, ""), 0
    assert wanted[0] == 0 and len(wanted[1]) == 1 and wanted[2], wanted[:2]
    for order, deaf in (("oldest", "deaf_oldest"), ("newest", "deaf_others")):
        assert steps_of(dtrun, plan, order) == wanted, order
        assert steps_of(dtrun, plan, order + " " + deaf) != wanted, "%s, %s: nobody notices" % (name, deaf)
        print("ok", name, order, deaf, flush=True)
    for wait in range(1, WAITS + 1 if single else 1):
        noticed += any(steps_of(dtrun, plan, "%s only=0 deaf=%d" % (order, wait)) != wanted for order in ("newest", "oldest"))
    assert not single or noticed >= NOTICED[name], "%s: %d of %d waits are noticed" % (name, noticed, WAITS)
    return 3 if single else 2


def in_other_order(dump):
    """The plan's text after a change: stage 0 starts to receive before a message for which the sender
    waits before it sends."""
    items, insts, bodies = (re.findall(r"^%s (.*?)(?: # \d+)?$" % tag, dump, re.M) for tag in ("SCHD", "INST", "BODY"))

    def number(word, line):
        return int((re.search(r"\b%s=(\d+)" % word, line) or [0, 0])[1])

    def only(body, kind, starts):
        inst = insts[number("first_inst", bodies[body])]
        return number("n_insts", bodies[body]) == 1 and "kind=" + kind in inst and ("event=" in inst) == starts

    def runs(item, kind, starts):
        return "kind=run" in item and only(number("body", item), kind, starts)

    at = next(i for i in range(len(items) - 3) if runs(items[i], "send", True) and runs(items[i + 3], "recv", False))
    start = next(body for body in range(len(bodies)) if only(body, "recv", True))
    # micro-batch and slot of one message, and of the other
    here, there = items[at - 3:at - 1], items[at + 1:at + 3]
    assert all("kind=set" in item for item in here + there), (here, there)
    event = number("event", insts[number("first_inst", bodies[start])])
    dump = splice(dump, at, there + ["kind=run body=%d" % start] + here, []).split("\n")
    where = [i for i, line in enumerate(dump) if line.startswith("SCHD ")][at + 8]
    dump[where] = "SCHD kind=run body=%d" % len(bodies)
    for tag, line in (("BODY", 'BODY name="wait" first_inst=%d n_insts=1' % len(insts)), ("INST", "INST kind=wait event=%d" % event)):
        dump.insert(max(i for i, old in enumerate(dump) if old.startswith(tag + " ")) + 1, line)
    return "\n".join(dump)


def check_order(dtc, dtrun):
    """Such a plan is refused. It waits for ever if one kernel of NCCL leaves no room for another one,
    but not otherwise."""
    plan = compile_plan(dtc, "long", INTERPRETED)
    wanted = steps_of(dtrun, plan, "")
    with open("other.txt", "w") as file:
        file.write(in_other_order(run(dtc, "dump", plan)))
    run(dtc, "asm", "other.txt", "-o", "other.plan")
    run(dtc, "verify", "other.plan", wants=1)
    assert steps_of(dtrun, "other.plan", "") == wanted, "the other order computes something else"
    os.environ["DT_STANDIN"] = "gpus=3 resident=1"
    said = run(dtrun, "other.plan", "--unproved", "--quiet", "--steps", "1", "--timeout", "3", wants=75)
    assert "than --timeout allows" in said, said
    print("ok another order", flush=True)
    return 3


def fails(dtrun, plan, standin, wanted, *arguments):
    os.environ["DT_STANDIN"] = standin
    said = run(dtrun, plan, "--quiet", "--steps", "2", *arguments, wants=75)
    assert re.search(wanted, said), "%s %s: said %s" % (standin, " ".join(arguments), said)
    assert "stand-in" not in said and "NCCL reports" not in said, said
    print("ok", standin, *arguments, flush=True)


def check_failures(dtc, dtrun):
    plan = compile_plan(dtc, "three", INTERPRETED)
    deaths = share.of(((0, 9), (1, 20), (2, 12)))
    for rank, number in deaths:
        fails(dtrun, plan, "gpus=3 only=%d message_dies=%d" % (rank, number), r"rank %d was ended by signal 9 \(Killed\)" % rank)
        fails(dtrun, plan, "gpus=3 resident=1 only=%d message_dies=%d" % (rank, number), r"rank %d was ended by signal 9 \(Killed\)" % rank)
    fails(dtrun, plan, "gpus=3 only=1 message_hangs=20",
          r"all ranks have come to this (send|recv) of `.*`, stage \d to \d, which takes longer than --timeout allows\n"
          r" +in step 1, instruction \d+ \((send|receive) `.*`, stage \d to \d\)\n +.*dsl:\d+:\d+", "--timeout", "5")
    fails(dtrun, plan, "gpus=3 only=1 hang=90", "rank 1 .*--timeout", "--timeout", "5")
    fails(dtrun, plan, "gpus=3 only=2 die=60", r"rank 2 was ended by signal 9 \(Killed\)")
    return 3 + 2 * len(deaths)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    kinds = sys.argv[3:] or ["few", "more", "waits", "failures"]
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for kind in kinds:
            names = share.of(FEW) if kind == "few" else MORE if kind == "more" else (kind,) if kind in PIPELINES else ()
            n += sum(check(dtc, dtrun, name) for name in names)
        if "waits" in kinds or "few" in kinds:
            for name in DEAF if "waits" in kinds else DEAF[:2]:
                n += check_waits(dtc, dtrun, name, "waits" in kinds and name in NOTICED)
            n += check_order(dtc, dtrun)
        if "failures" in kinds:
            n += check_failures(dtc, dtrun)
    print("%d passed, 0 failed" % n)


main()
