#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that go on without hosts that are lost:  elastic_hosts.py DTC DTRUN few|all

Hosts are network namespaces joined by veth; where this process may not make them, they are this machine alone. `few`: of two hosts
of two ranks one is killed; the run goes on with two ranks, and its losses are those of a run that loses nothing. Steps after the
last checkpoint are run again, each sample counts once."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from hosts import free_port, hosts, ranks_of
from runs import NET, Bench, write_tokens

NEAR = 1e-5
# seconds to the next step, with the plan made ahead, or without it; times as long where the machine is busy
BUSY = max(1.0, os.getloadavg()[0] / os.cpu_count())
FAST, SLOW = 3 * BUSY, 15 * BUSY
WIDE = NET.replace("batch = 4", "batch = 24")
PROGRAM = WIDE + """  optimizer = adamw(lr = 0.01, clip = 1.0)
  save = every(5, keep = 3)
  steps = 10
}
cluster eight { nodes = 4; gpus = 2; gpu = "cpu" }
cluster four { nodes = 2; gpus = 2; gpu = "cpu" }
parallel eight on eight { mesh data = 8; shard batch on data; zero 1 on data }
parallel four on four { mesh data = 4; shard batch on data; zero 1 on data }
"""


def events(log):
    """The last event of each kind and step, and how often a step was taken."""
    found, times = {}, {}
    with contextlib.suppress(OSError), open(log) as file:
        for line in file:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if event.get("event") == "step":
                    found[event["step"]] = event["loss"]
                    times[event["step"]] = times.get(event["step"], 0) + 1
    return found, times


class Hosts(Bench):
    """A run over hosts, each of which writes what it says to a file."""

    def __init__(self, dtc, dtrun, names, address):
        super().__init__(dtc, dtrun)
        self.names, self.address = names, address
        self.started, self.key = {}, "a key of the elastic test %d" % os.getpid()

    def begin(self, plan, nodes, *options, leave=()):
        """Starts the agents of all hosts but some."""
        self.stop_all()
        self.port = free_port()
        self.words = [plan, "--quiet", "--nodes", str(nodes), "--meet", "%s:%d" % (self.address, self.port), "--comm", "tcp", *options]
        self.folders = {}
        if "--log" in options:
            with contextlib.suppress(OSError):
                os.remove(options[options.index("--log") + 1])
        for i in range(nodes):
            with contextlib.suppress(OSError):
                os.remove("said%d" % i)
        for i in range(nodes):
            if i not in leave:
                self.start(i)

    def start(self, i, dtrun=None, env=None):
        inside = ["ip", "netns", "exec", self.names[i]] if self.names[i] else []
        with open("said%d" % i, "a") as said:
            self.started[i] = subprocess.Popen([*inside, dtrun or self.dtrun, *self.words, "--node", str(i)], stdout=said, stderr=said,
                                               cwd=self.folders.get(i), stdin=subprocess.DEVNULL,
                                               env=dict(os.environ, DTRUN_KEY=self.key, **(env or {})))

    def stop_all(self):
        for process in self.started.values():
            process.kill()
            process.wait()
        self.started = {}

    def said(self, i=0):
        with open("said%d" % i) as file:
            return file.read()

    def all_said(self):
        return "\n".join("host %d: %s" % (i, self.said(i)) for i in sorted(self.started))

    def wait_until(self, what, holds, seconds=40):
        until = time.time() + seconds
        while time.time() < until:
            if holds():
                return True
            time.sleep(0.01)
        self.check(what, False, self.all_said())
        return False

    def wait_for_steps(self, log, n):
        return self.wait_until("%s has %d steps" % (log, n), lambda: max(events(log)[0], default=0) >= n)

    def wait_said(self, i, text, seconds=40):
        return self.wait_until("host %d says `%s`" % (i, text), lambda: re.search(text, self.said(i)), seconds)

    def end(self, what, codes, seconds=60):
        """Waits for the hosts, and compares their exit codes."""
        got = {}
        for i in sorted(codes):
            try:
                got[i] = self.started[i].wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                got[i] = "did not end"
        self.check("%s: exit codes" % what, got == codes, (got, self.all_said()))

    def kill(self, i, number=signal.SIGKILL):
        self.started[i].send_signal(number)

    def compare(self, what, log, folder, steps, want):
        got, times = events(log)
        far = [(step, got[step], want[step]) for step in got if not abs(got[step] - want[step]) <= NEAR]
        self.check("%s: all steps" % what, sorted(got) == list(range(1, steps + 1)), sorted(got))
        self.check("%s: losses" % what, not far, far[:3])
        with open("%s/step-%08d/manifest.json" % (folder, steps)) as file:
            samples = json.load(file)["samples"]
        self.check("%s: each sample once" % what, samples == 24 * steps, samples)
        return times


def compile_plan(b, layout):
    code, said = b.run(b.dtc, "net.dsl", "--parallel", layout, "--target=interpreted", "-o", layout + ".plan")
    b.check("%s compiles" % layout, code == 0, said)


def reference(b, plan, steps):
    """Losses of a run that loses nothing, on one host."""
    code, said = b.run(b.dtrun, plan, "--quiet", "--launch", "local", "--log", "want.log", "--steps", str(steps), "--overwrite")
    b.check("a run on one host", code == 0, said)
    return events("want.log")[0]


def options(name, steps, *more):
    return ["--save", name, "--log", name + ".log", "--overwrite", "--steps", str(steps), *more]


def test_two(b):
    """Two hosts of two ranks; the second is killed."""
    compile_plan(b, "four")
    want = reference(b, "four.plan", 120)
    b.begin("four.plan", 2, *options("two", 120, "--elastic"))
    if b.wait_for_steps("two.log", 12):
        b.kill(1)
    b.end("a host is killed", {0: 0, 1: -9})
    b.check("what is said", re.search(r"going on with 2 of 4 ranks on 1 host \(four.plan.2\) from the checkpoint after \d+ steps", b.said()),
            b.said())
    b.compare("a host is killed", "two.log", "two", 120, want)


def named_and_on(b, what, log, act, wanted):
    """Loses a host, or brings one back: how long it takes to name it, and from then to the next step."""
    before = len(b.said())
    act()
    began = time.time()
    if not b.wait_until(what + ": is named", lambda: re.search(wanted, b.said()[before:]), 120):
        return
    named = time.time()
    b.wait_until(what + ": goes on", lambda: re.search("going on with", b.said()[before:]), 120)
    again, size = time.time(), os.path.getsize(log)
    b.wait_until(what + ": next step", lambda: os.path.getsize(log) > size + 1000)
    took, limit = time.time() - named, SLOW if "compiling for" in b.said()[before:] else FAST
    print("   %s: named after %.2f s, chosen after %.2f s, next step after %.2f s" % (what, named - began, again - named, took), flush=True)
    b.check("%s: the next step comes %.1f s later" % (what, took), took < limit)


def test_spare(b):
    """Two hosts and a spare, which takes the place of the one that is killed: no other plan is made."""
    want = reference(b, "four.plan", 400)
    b.begin("four.plan", 3, *options("spare", 400, "--spares", "1"))
    if b.wait_for_steps("spare.log", 12):
        named_and_on(b, "a host with a spare", "spare.log", lambda: b.kill(1), "node 1: it has gone")
    b.end("a spare", {0: 0, 1: -9, 2: 0})
    b.check("the spare has ranks", "going on with 4 of 4 ranks on 2 hosts (four.plan)" in b.said(), b.all_said())
    b.compare("a spare", "spare.log", "spare", 400, want)


def test_down_and_up(b):
    """Four hosts of two ranks. One is killed, one is stopped, a rank is killed; then they come back, one after the other."""
    compile_plan(b, "eight")
    want = reference(b, "eight.plan", 1000)
    b.begin("eight.plan", 4, *options("down", 1000, "--elastic", "--set", "save.every=20"))
    for plan in (6, 4, 3):
        b.run(b.dtc, "recompile", "eight.plan", "--ranks", str(plan), "-o", "warm.plan")
    if b.wait_for_steps("down.log", 12):
        named_and_on(b, "8 to 6 ranks", "down.log", lambda: b.kill(3), "node 3: it has gone")
        named_and_on(b, "6 to 4 ranks", "down.log", lambda: b.kill(2, signal.SIGSTOP), "node 2: nothing was heard of it for 3.5 s")
        named_and_on(b, "4 to 3 ranks", "down.log", lambda: os.kill(ranks_of(b.started[1])[0], signal.SIGKILL),
                     "rank [23] was ended by signal 9")
        named_and_on(b, "a stopped host goes on", "down.log", lambda: b.kill(2, signal.SIGCONT),
                     "there can be 5 ranks; the run goes on with them after its next save")
        named_and_on(b, "a killed one is started again", "down.log", lambda: b.start(3),
                     "there can be 7 ranks; the run goes on with them after its next save")
        named_and_on(b, "7 to 6 ranks", "down.log", lambda: b.kill(1), "node 3: it has gone") # it has one rank less
        named_and_on(b, "6 to 8 ranks", "down.log", lambda: b.start(1), "there can be 8 ranks")
    b.end("8 to 3 ranks and back", {0: 0, 1: 0, 2: 0, 3: 0})
    b.compare("8 to 3 ranks and back", "down.log", "down", 1000, want)


def main():
    is_all = sys.argv[3] == "all"
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="elastic-hosts-") as folder:
        os.chdir(folder)
        write_tokens()
        with open("net.dsl", "w") as file:
            file.write(PROGRAM)
        with hosts(5 if is_all else 2) as (names, address):
            b = Hosts(dtc, dtrun, names, address)
            try:
                test_two(b)
                if is_all:
                    test_spare(b)
                    test_down_and_up(b)
            finally:
                b.stop_all()
        os.chdir("/")
    print("%d passed, %d failed, 0 skipped" % (b.passed, b.failed))
    return b.failed > 0


if __name__ == "__main__":
    sys.exit(main())
