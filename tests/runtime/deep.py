#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tree of nodes that is more than one step deep:  deep.py DTC DTRUN

35 nodes of one rank each, all on this machine, so nodes 33 and 34 are connected with node 1 and not with node 0. Losses and
checkpoints are
those of 35 ranks on one node, also when the run goes on from a checkpoint. A rank of node 34 is killed: all nodes name it, and
the run goes on from its last checkpoint. Node 33 is killed: all name it and end. Node 1, the parent of nodes 33 and 34, is stopped, and
killed: the nodes above and below it name it within 5 s and end."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from hosts import end, free_port, losses, outputs, ranks_of, wait_for
from lost import GONE, LIMIT_S, SILENT, said_by, wait_for_lines
from runs import NET, bytes_of, check, failures, run, write_tokens

NODES, STEPS = 35, 4


def compile_plan(dtc):
    net = NET.replace("batch = 4, seq = 4", "batch = %d, seq = 4" % NODES)
    with open("deep.dsl", "w") as file:
        file.write(net + "  optimizer = adamw(lr = 1e-2, clip = 1.0)\n  steps = %d\n}\n" % STEPS +
                   'cluster wide { gpus = %d; gpu = "cpu" }\nparallel layout on wide { mesh data = %d; shard batch on data; zero 1 on data }\n'
                   % (NODES, NODES))
    run([dtc, "deep.dsl", "-o", "deep.plan"])


def start(dtrun, *more, said=None):
    port = free_port()
    return [subprocess.Popen([dtrun, "deep.plan", "--quiet", "--nodes", str(NODES), "--node", str(i), "--meet", "127.0.0.1:%d" % port,
                              "--comm", "tcp", *more], stdout=open(said % i, "w") if said else subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
            for i in range(NODES)]


def lose_inner(dtrun, what, number, wanted):
    """Each node writes to a file, so that the time of a line can be seen."""
    if os.path.exists("inner.log"):
        os.remove("inner.log")
    started = start(dtrun, *outputs("inner"), "--steps", "1000000", said="said%d")
    try:
        wait_for("inner.log", 2)
        began = time.time()
        os.kill(started[1].pid, number)
        others = [i for i in range(NODES) if i != 1]
        took = wait_for_lines(wanted, others, began)
        check(took is not None and took < LIMIT_S, "%s: named after %s s: %s" % (what, took, [said_by(i) for i in others]))
        codes = [started[i].wait(timeout=20) for i in others]
        check(codes == [75] * len(others), "%s: exit codes %s" % (what, codes))
    finally:
        for process in started:
            process.kill()
            process.wait()
    print("ok %s: named after %.1f s" % (what, took or -1), flush=True)


def saved(folder, steps=STEPS):
    return [bytes_of("%s/step-%08d/%s.safetensors" % (folder, steps, part)) for part in ("model", "optimizer")]


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        compile_plan(dtc)
        subprocess.run([dtrun, "deep.plan", "--quiet", *outputs("one")], check=True, timeout=200)
        end("35 nodes", start(dtrun, *outputs("many")), [0] * NODES)
        check(losses("many.log") == losses("one.log") and len(losses("one.log")) == STEPS, "other losses")
        check(saved("many") == saved("one"), "another checkpoint")
        print("ok 35 nodes", flush=True)
        end("2 steps", start(dtrun, *outputs("half"), "--steps", "2"), [0] * NODES)
        end("2 more", start(dtrun, "--resume", "half", "--steps", str(STEPS)), [0] * NODES)
        check(saved("half") == saved("one"), "another checkpoint after going on")
        print("ok going on", flush=True)
        started = start(dtrun, *outputs("again"), "--set", "save.every=40", "--steps", "120", "--restarts", "1")
        wait_for("again.log", 4)
        os.kill(ranks_of(started[34])[0], signal.SIGKILL)
        said = end("a restart", started, [0] * NODES)
        check(all("rank 34 was ended by signal 9" in text for text in said), "who was killed: %s" % said)
        print("ok a restart", flush=True)
        started = start(dtrun, *outputs("lost"), "--steps", "1000000")
        wait_for("lost.log", 2)
        started[33].kill()
        said = end("a lost node", started, [75] * 33 + [-9, 75])
        check(all(re.search("node 33: it has gone", text) for i, text in enumerate(said) if i != 33), "who is lost: %s" % said)
        print("ok a lost node", flush=True)
        lose_inner(dtrun, "an inner node is stopped", signal.SIGSTOP, "node 1: " + SILENT)
        lose_inner(dtrun, "an inner node is killed", signal.SIGKILL, "node 1: " + GONE)
    print("6 passed, %d failed" % len(failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
