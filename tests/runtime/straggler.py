#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that compute slowly:  straggler.py DTC FLAKY

flaky.c lets kernels of one rank take twice as long: that rank is named, once, with its host, on the terminal and in the log; at 95 % of
the speed it is not. A rank that is stopped for half of the time is named, too, and one that shares its processor with another process.
Where all ranks do nobody is named.

Two idle processors are needed, since programs that slow down one of the ranks spoil the verdict: so this is in the suite `slow`. The rule
itself is tested on times that are made up, by test_straggler.c."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from replicas import rank_processes, runs_of_test, steps_in, until
from runs import CLUSTERS, NET, check, failures, run, write_tokens

PROGRAM = NET.replace("batch = 4, seq = 4", "batch = 32, seq = 4") + """  optimizer = sgd(lr = 0.0)
  steps = 100000000
}
""" + CLUSTERS + """parallel pair on two { mesh data = 2; shard batch on data }
parallel pipe on two { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
"""


def start(tools, layout, slow):
    log = layout + ".jsonl"
    if os.path.exists(log):
        os.remove(log)
    started = subprocess.Popen([tools[1], layout + ".plan", "--quiet", "--log", log], stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, FLAKY_SLOW=slow))
    runs_of_test.append(started)  # ended if the test waits in vain
    return log, started


def events(log):
    with open(log) as file:
        return [event for event in map(json.loads, file.read().splitlines()) if event["event"] == "slow"]


def end(started, log):
    started.terminate()
    said = started.communicate(timeout=60)[1]
    return re.findall(r"rank (\d) on host (\S+) is slow: it computes (\S+) times as long", said), events(log), said


def test_slow(tools, layout, rank, share):
    log, started = start(tools, layout, "%d %g 100" % (rank, share))
    until("a slow rank", lambda: steps_in(log) > 0 and events(log))
    named, logged, said = end(started, log)
    check(len(named) == 1 and named[0][:2] == (str(rank), socket.gethostname()), "%s, rank %d: %s" % (layout, rank, said))
    check(len(logged) == 1 and logged[0]["text"] in said, str(logged))


def test_good(tools, layout):
    log, started = start(tools, layout, "1 0.95 20")
    until("steps", lambda: steps_in(log) > 200)
    time.sleep(2.5)
    check(end(started, log)[0] == [], layout + ": a rank at 95 % is named")


def test_stopped(tools):
    log, started = start(tools, "pair", "9 1 0")
    until("steps", lambda: steps_in(log) > 100)
    pid = rank_processes(started)[1]
    for _ in range(600):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.03)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
        if events(log):
            break
    named, _, said = end(started, log)
    check(len(named) == 1 and named[0][0] == "1", "stopped: " + said)


def test_shared(tools, processors):
    """Rank i has processor i; on each of the given ones another process computes, too, which counts more (so that it is one that counts
    where the machine is busy, as well)."""
    log, started = start(tools, "pair", "9 1 0")
    until("steps", lambda: steps_in(log) > 100)
    here = sorted(os.sched_getaffinity(0))
    for rank, pid in rank_processes(started).items():
        os.sched_setaffinity(pid, {here[rank]})
        if rank in processors:
            os.setpriority(os.PRIO_PROCESS, pid, 5)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in processors]
    for i, process in zip(processors, others):
        os.sched_setaffinity(process.pid, {here[i]})
    if len(processors) == 1:
        until("a slow rank", lambda: events(log))
    else:
        time.sleep(15)
    for process in others:
        process.kill()
        process.wait()
    named, _, said = end(started, log)
    wanted = [str(i) for i in processors if len(processors) == 1]
    check([rank for rank, _, _ in named] == wanted and said.count("other processes use its processor") == len(wanted),
          "shared processors %s: %s" % (processors, said))


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        with open("p.dsl", "w") as file:
            file.write(PROGRAM)
        for layout in ("pair", "pipe"):
            run([tools[0], "p.dsl", "--parallel", layout, "-o", layout + ".plan"])
        test_slow(tools, "pipe", 1, 0.4)
        test_good(tools, "pair")
        test_stopped(tools)
        if len(os.sched_getaffinity(0)) > 1:
            test_shared(tools, [1])
            test_shared(tools, [0, 1])
        print("straggler: two processors are needed" if len(os.sched_getaffinity(0)) < 2 else "straggler: shared processors")
    print("straggler: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]]))
