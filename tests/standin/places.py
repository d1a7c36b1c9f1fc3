# SPDX-License-Identifier: Apache-2.0
"""Which instruction a GPU has not come to the end of, on stand-ins of CUDA's libraries:  places.py DTC DTRUN

The stand-in does work late, and the host is far ahead of it. A kernel that touches what it may not, or that never ends, is
named all the same, with step, instruction and line, as --sync names it, which waits for each instruction: in the first
step itself, later one of a few that begin with what is named (position.h), in graphs one of 32. A run's trace says in which
order instructions are. What waits for others, or is slow, is not taken for a hang."""

import json
import os
import re
import sys
import tempfile

from training import INTERPRETED, ROOT, SMALL, run

PLAN = "gpt.plan"
PLACE = r"in step (\d+)(?:, in one of (\d+) instructions from this one on)?, instruction (\d+) \(.*\)\n +.*dsl:\d+:\d+"
FEW = r"It is one of (\d+) instructions from this one on; --sync names the one that it is"
N_FIRST, N_LATER, N_GRAPH = 1, 64, 32


def order_of(dtrun):
    """The instructions of a step, in order; the launches of kernels in it."""
    os.environ["DT_STANDIN"] = ""
    run(dtrun, PLAN, "--quiet", "--steps", "1", "--trace", "trace.json")
    with open("trace.json") as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    steps = [e for e in events if e.get("ph") == "X" and "inst" in e.get("args", {})]
    rows = json.loads(run(dtrun, PLAN, "--quiet", "--steps", "1", "--profile", "--json"))["rows"]
    return [e["args"]["inst"] for e in sorted(steps, key=lambda e: e["ts"])], sum(r["times"] for r in rows if r["kind"] == "kernel")


def place_of(dtrun, standin, wanted, *arguments, code=1):
    """The step, the instruction, and how many instructions it may be."""
    os.environ["DT_STANDIN"] = standin
    said = run(dtrun, PLAN, "--quiet", "--steps", "4", *arguments, wants=code)
    place, few = re.search(PLACE, said), re.search(FEW, said)
    assert re.search(wanted, said) and place, "%s %s: said %s" % (standin, arguments, said)
    return int(place[1]), int(place[3]), int(place[2] or (few[1] if few else 1))


def agrees(order, real, found, most):
    """Whether what was found is what there was, or begins a few of which it is one."""
    step, inst, n = found
    among = any(inst == at and real[1] in order[p:p + n] for p, at in enumerate(order))
    return step == real[0] and among and n <= most


def check_places(dtrun, order, launches):
    n = 0
    for launch, step in ((1, 1), (launches // 2, 1), (launches * 5 // 2, 3)):
        real = place_of(dtrun, "fault=%d" % launch, "an illegal memory access", "--sync")
        assert abs(real[0] - step) <= (step > 1), real
        for turns in ("", "chance=3"):
            found = place_of(dtrun, "fault=%d %s" % (launch, turns), "rank 0 failed: the GPU failed to do what was begun: an illegal memory access")
            assert agrees(order, real, found, N_FIRST if step == 1 else N_LATER), "launch %d: %s instead of %s" % (launch, found, real)
        found = place_of(dtrun, "hang=%d" % launch, "rank 0 has made no progress for .*--timeout", "--timeout", "2", code=75)
        assert agrees(order, real, found, N_FIRST if step == 1 else N_LATER), "launch %d: %s instead of %s" % (launch, found, real)
        print("ok launch", launch, real, flush=True)
        n += 1
    return n


def check_graphs(dtrun, order, launches):
    """The stand-in counts a launch that is captured only once; the launch then fails in each run of
    the graph."""
    for launch in (launches * 3 // 2,):
        real = place_of(dtrun, "fault=%d" % launch, "an illegal memory access", "--sync")
        found = place_of(dtrun, "fault=%d" % launch, "an illegal memory access", "--graph")
        assert real[0] == 2 and agrees(order, real, found, N_GRAPH) and found[2] == N_GRAPH, "launch %d: %s instead of %s" % (launch, found, real)
        found = place_of(dtrun, "hang=%d" % launch, "rank 0 has made no progress for .*--timeout", "--graph", "--timeout", "2", code=75)
        assert agrees(order, real, found, N_GRAPH), "launch %d: %s instead of %s" % (launch, found, real)
    return 1


def check_without(dtrun):
    """If the device cannot write to the host's memory, the message contains only what is known."""
    os.environ["DT_STANDIN"] = "unseen=1 fault=5"
    said = run(dtrun, PLAN, "--quiet", "--steps", "2", wants=1)
    assert "It may be an instruction before this one; --sync names the one that it is" in said, said
    os.environ["DT_STANDIN"] = "unseen=1"
    run(dtrun, PLAN, "--quiet", "--steps", "2")
    return 1


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run(dtc, os.path.join(ROOT, "examples/quickstart.dsl"), "--parallel", "none", "--data=synthetic", "--target=" + INTERPRETED, "-o", PLAN, *SMALL)
        order, launches = order_of(dtrun)
        n = check_places(dtrun, order, launches) + check_graphs(dtrun, order, launches) + check_without(dtrun)
    print("%d passed, 0 failed" % n)


main()
