#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What may happen to runs that go on without lost hosts (elastic_hosts.py):  elastic_break.py DTC DTRUN [CASE ...]

Node 0 is killed or stopped; two hosts are lost at once, one during a save, one while node 0 compiles; a host comes back with another
build or other data, or too early; hosts have folders of their own, with old plans in them, or full disks; a link is cut and joined; an
inner node of a deep tree is lost; signals to hosts that wait."""

import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from elastic_hosts import NEAR, PROGRAM, Hosts, compile_plan, events, named_and_on, options, reference
from hosts import free_port, has_ucx, hosts, ranks_of
from remote import SHELL, write
from runs import write_tokens

HUB = "10.77.0.1"
EVERY = ("--set", "save.every=20")


def ranks_stay(b):
    """Processes of the run that are left."""
    found = subprocess.run(["pgrep", "-f", r"\.plan.* --meet %s:%d" % (b.address, b.port)], capture_output=True, text=True)
    return found.stdout.split()


def all_end(b, what, codes, limit=5.0):
    """All hosts end within so many seconds, and nothing stays."""
    began = time.time()
    b.end(what, codes, 15)
    took = time.time() - began
    b.check("%s: all end after %.1f s" % (what, took), took < limit)
    print("   %s: all end after %.1f s" % (what, took), flush=True)
    for _ in range(40):
        if not ranks_stay(b):
            break
        time.sleep(0.05)
    b.check("%s: nothing stays" % what, not ranks_stay(b), ranks_stay(b))


def test_root(b):
    for name, number, code in (("killed", signal.SIGKILL, -9), ("stopped", signal.SIGSTOP, None)):
        b.begin("four.plan", 3, *options("root", 100000, "--spares", "1", "--elastic"))
        if b.wait_for_steps("root.log", 5):
            b.kill(0, number)
        if code is None: # its ranks stay stopped with it only as long as it does
            began = time.time()
            b.end("node 0 is stopped", {1: 75, 2: 75}, 15)
            took = time.time() - began
            b.check("node 0 is stopped: all end after %.1f s" % took, took < 5)
            b.kill(0)
            b.end("node 0 is stopped", {0: -9})
        else:
            all_end(b, "node 0 is " + name, {0: code, 1: 75, 2: 75})


def test_two_at_once(b):
    want = reference(b, "eight.plan", 300)
    b.begin("eight.plan", 4, *options("twice", 300, "--elastic", *EVERY))

    def both():
        b.kill(1)
        b.kill(3, signal.SIGSTOP)

    if b.wait_for_steps("twice.log", 25):
        named_and_on(b, "two hosts at once", "twice.log", both, "it has gone|nothing was heard")
    b.wait_said(0, "has not come again within 3 s")
    b.wait_said(0, "going on with 4 of")
    b.end("two hosts at once", {0: 0, 1: -9, 2: 0})
    b.compare("two hosts at once", "twice.log", "twice", 300, want)
    b.kill(3, signal.SIGCONT)
    b.end("the stopped one", {3: 75})


def test_during_save(b):
    """The host is killed while files of a checkpoint are being written, again and again."""
    want = reference(b, "eight.plan", 300)
    b.begin("eight.plan", 4, *options("saves", 300, "--elastic", "--set", "save.every=3"))
    for host in (3, 2, 1):
        if b.wait_until("a save begins", lambda: glob.glob("saves/.step-*")):
            b.kill(host)
            b.wait_until("it goes on", lambda: b.said().count("going on with") >= 4 - host)
    b.end("hosts are killed during saves", {0: 0, 1: -9, 2: -9, 3: -9})
    b.compare("hosts are killed during saves", "saves.log", "saves", 300, want)


def test_during_compile(b):
    """One more host is killed while node 0 compiles; then dtc itself is killed, which counts as a plan that cannot be made."""
    want = reference(b, "eight.plan", 300)
    b.begin("eight.plan", 4, *options("late", 300, "--elastic", *EVERY))
    if b.wait_for_steps("late.log", 5):
        b.kill(3)
        os.kill(ranks_of(b.started[1])[0], signal.SIGKILL) # so that the plan made ahead does not fit
    if b.wait_said(0, "compiling for"):
        b.kill(2)
    b.end("a host is killed while node 0 compiles", {0: 0, 1: 0, 2: -9, 3: -9})
    b.compare("a host is killed while node 0 compiles", "late.log", "late", 300, want)


def test_other_build(b):
    """A host comes back with another build, with other data, and twice."""
    other = os.path.abspath("other")
    shutil.copy(b.dtrun, other)
    with open(other, "ab") as file:
        file.write(b"more")
    os.makedirs("apart", exist_ok=True)
    for name in ("four.plan", "tokens.bin"):
        shutil.copy(name, "apart")
    with open("apart/tokens.bin", "r+b") as file:
        file.write(b"\1")
    b.begin("four.plan", 2, *options("/tmp/elastic-%d" % os.getpid(), 100000, "--elastic", *EVERY))
    log = "/tmp/elastic-%d.log" % os.getpid()
    if not b.wait_for_steps(log, 5):
        return
    first = b.started[1]
    b.start(1)
    b.check("a second agent of a host that is there", b.started[1].wait(timeout=20) == 2 and "number 1 already" in b.said(1), b.said(1))
    first.kill()
    first.wait()
    b.wait_said(0, "going on with 2 of 4")
    b.start(1, dtrun=other)
    b.check("another build", b.started[1].wait(timeout=20) == 2 and "another build of dtrun" in b.said(1), b.said(1))
    b.folders[1] = "apart"
    b.start(1)
    b.check("other data", b.started[1].wait(timeout=20) == 2 and "other data" in b.said(1), b.said(1))
    b.folders[1] = None
    b.check("the run goes on", b.started[0].poll() is None, b.said())
    b.start(1)
    b.wait_said(0, "going on with 4 ranks instead of 2", 60)
    b.kill(0, signal.SIGINT)
    b.end("Ctrl-C at the end", {0: 130, 1: 130})
    shutil.rmtree(log[:-4], ignore_errors=True)
    os.remove(log)


def own_folders(b, *nodes):
    """Hosts with a folder of their own, in which they have the plan and the data."""
    for i in nodes:
        os.makedirs("own%d" % i, exist_ok=True)
        for name in ("eight.plan", "tokens.bin"):
            shutil.copy(name, "own%d" % i)
        b.folders[i] = "own%d" % i


def test_plans(b):
    """Hosts that do not share a folder get the plan from node 0, also where an old one or nonsense lies in its place."""
    saved = os.path.abspath("plans")
    want = reference(b, "eight.plan", 300)
    b.begin("eight.plan", 4, *options(saved, 300, "--elastic", *EVERY), leave=(0, 1, 2, 3))
    own_folders(b, 1, 2)
    with open("own1/eight.plan.6", "w") as file:
        file.write("nonsense")
    shutil.copy("four.plan", "own2/eight.plan.6")
    for i in range(4):
        b.start(i)
    if b.wait_for_steps(saved + ".log", 5):
        named_and_on(b, "hosts get the plan", saved + ".log", lambda: b.kill(3), "node 3: it has gone")
    b.end("hosts get the plan", {0: 0, 1: 0, 2: 0, 3: -9})
    b.compare("hosts get the plan", saved + ".log", saved, 300, want)
    for i in (1, 2):
        with open("own%d/eight.plan.6" % i, "rb") as mine, open("eight.plan.6", "rb") as first:
            b.check("host %d has its bytes" % i, mine.read() == first.read())


def test_folders(b):
    """Hosts do not share the folder of checkpoints, so node 0 goes on alone."""
    want = reference(b, "eight.plan", 200)
    b.begin("eight.plan", 4, *options("unshared", 200, "--elastic", *EVERY), leave=(0, 1, 2, 3))
    own_folders(b, 1, 2, 3)
    for i in range(4):
        b.start(i)
    if b.wait_for_steps("unshared.log", 45):
        b.kill(3)
    b.wait_said(1, "hosts must share that folder")
    b.wait_said(0, "going on with 2 of")
    b.end("folders that are not shared", {0: 0, 1: 5, 2: 5, 3: -9})
    b.compare("folders that are not shared", "unshared.log", "unshared", 200, want)


def test_full_disk(b):
    """The disk of a host is full, so it cannot write the plan: it counts as lost. Then that of the checkpoints is full while a host
    waits: the run goes on with those that it has, and takes the host when there is room again."""
    os.makedirs("own1", exist_ok=True)
    os.makedirs("small", exist_ok=True)
    mounted = []
    for folder, size in (("own1", 1), ("small", 2)):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm" % size, "none", folder]).returncode:
            print("skipped: no small disk can be mounted", flush=True)
            return
        mounted.append(folder)
    try:
        b.begin("eight.plan", 4, *options(os.path.abspath("small/saved"), 100000, "--elastic", "--set", "save.every=20"), leave=(0, 1, 2, 3))
        own_folders(b, 1)
        with open("own1/full", "wb") as file, open("/dev/zero", "rb") as zero:
            try:
                file.write(zero.read(1 << 20))
            except OSError:
                pass
        for i in range(4):
            b.start(i)
        log = "small/saved.log"
        if not b.wait_for_steps(log, 25):
            return
        b.kill(3)
        b.wait_said(1, "this host cannot take part")
        b.wait_said(0, "going on with 4 of")
        b.check("its exit code", b.started[1].wait(timeout=20) == 5, b.said(1))
        with open("small/full", "wb") as file, open("/dev/zero", "rb") as zero:
            try:
                file.write(zero.read(2 << 20))
            except OSError:
                pass
        b.wait_said(0, "was not saved", 60)
        b.start(3)
        b.wait_said(0, "there can be 6 ranks", 60)
        n = b.said().count("was not saved")
        b.wait_until("saves fail", lambda: b.said().count("was not saved") >= n + 3, 60)
        b.check("the run goes on without it", "going on with 6" not in b.said().split("there can be 6 ranks")[-1], b.said())
        os.remove("small/full")
        b.wait_said(0, "going on with 6 ranks instead of 4", 60)
        b.kill(0, signal.SIGINT)
        b.end("checkpoints were not saved", {0: 5, 2: 5, 3: 5})
    finally:
        b.stop_all()
        for folder in mounted:
            subprocess.run(["umount", "-l", folder])


def test_link(b):
    """A link is cut, and joined again: the host comes back by itself, or its agent ends, which is started again."""
    if not b.names[0]:
        print("skipped: no network namespaces here", flush=True)
        return
    want = reference(b, "eight.plan", 600)
    b.begin("eight.plan", 4, *options("link", 600, "--elastic", *EVERY))
    down = lambda: subprocess.run(["ip", "-n", b.names[2], "link", "set", "eth0", "down"], check=True)
    if b.wait_for_steps("link.log", 25):
        named_and_on(b, "a link is cut", "link.log", down, "node 2: nothing was heard")
    b.end("the host that was cut off", {2: 75}, 20)
    subprocess.run(["ip", "-n", b.names[2], "link", "set", "eth0", "up"], check=True)
    b.start(2)
    b.wait_said(0, "going on with 8 ranks instead of 6", 60)
    b.end("a link is cut", {0: 0, 1: 0, 2: 0, 3: 0})
    b.compare("a link is cut", "link.log", "link", 600, want)


def test_signals(b):
    """A signal to a host that waits ends the run as one to any other; Ctrl-C while node 0 compiles."""
    b.begin("four.plan", 3, *options("signals", 100000, "--spares", "1"))
    if b.wait_for_steps("signals.log", 5):
        b.kill(2, signal.SIGTERM)
    all_end(b, "SIGTERM to a spare", {0: 130, 1: 130, 2: 130}, 10)
    b.check("its checkpoint", glob.glob("signals/step-*"))
    b.begin("eight.plan", 4, *options("signals", 100000, "--elastic"))
    if b.wait_for_steps("signals.log", 2):
        os.kill(ranks_of(b.started[1])[0], signal.SIGKILL)
    if b.wait_said(0, "compiling for"):
        b.kill(0, signal.SIGINT)
    all_end(b, "Ctrl-C while node 0 compiles", {0: 130, 1: 130, 2: 130, 3: 130}, 10)


def test_ranks_die_at_start(b):
    """A host is lost before its first step, and again before the tree is whole."""
    want = reference(b, "eight.plan", 100)
    for wait in (0.0, 0.05, 0.1, 0.2, 0.3, 0.5):
        b.begin("eight.plan", 4, *options("early", 100, "--elastic", *EVERY))
        b.wait_until("ranks start", lambda: ranks_of(b.started[0]))
        time.sleep(wait)
        b.kill(3)
        b.wait_said(0, "going on with 6 of 8")
        time.sleep(wait)
        b.kill(2)
        b.end("early kills", {0: 0, 1: 0, 2: -9, 3: -9})
        b.compare("early kills", "early.log", "early", 100, want)


def test_deep(b):
    """36 hosts of one rank on this machine: those below node 1, which is killed, find node 0 again; so does a tree that lost a leaf."""
    n, names = 36, b.names
    net = PROGRAM.replace("batch = 24", "batch = 72").replace("data = 8", "data = %d" % n).replace("nodes = 4; gpus = 2", "nodes = %d; gpus = 1" % n)
    with open("deep.dsl", "w") as file:
        file.write(net)
    code, said = b.run(b.dtc, "deep.dsl", "--parallel", "eight", "--target=interpreted", "-o", "deep.plan")
    b.check("36 ranks compile", code == 0, said)
    b.names, b.address = [None] * n, "127.0.0.1"
    try:
        b.begin("deep.plan", n, *options("deep", 60, "--elastic", "--max-ranks", "100", "--set", "save.every=10"))
        if b.wait_for_steps("deep.log", 12):
            named_and_on(b, "an inner node is lost", "deep.log", lambda: b.kill(1), "node 1: it has gone")
            named_and_on(b, "a leaf is lost", "deep.log", lambda: b.kill(35), "node 34: it has gone")
        b.end("a deep tree", {i: -9 if i in (1, 35) else 0 for i in range(n)}, 200)
        with open("deep/step-00000060/manifest.json") as file:
            b.check("each sample once", json.load(file)["samples"] == 72 * 60)
    finally:
        b.stop_all()
        b.names, b.address = names, HUB if names[0] else "127.0.0.1"


def agent_of(b, node):
    """The agent that --hosts has started as this node; its ranks have further words."""
    return int(subprocess.run(["pgrep", "-f", "--", "^[^ ]*dtrun four.plan .*--leash --nodes 3 --node %d --meet %s:%d$" % (node, b.address, b.port)],
                              capture_output=True, text=True).stdout)


def test_remote(b):
    """--hosts with a spare: its agents are started again, and used."""
    write("enter", SHELL)
    os.chmod("enter", 0o755)
    named = b.names if b.names[0] else ["here%d" % i for i in range(4)]
    write("list", "".join("%s slots=2\n" % name for name in named[:3]))
    b.stop_all()
    b.port = free_port()
    b.words = ["four.plan", "--quiet", "--hosts", "list", "--shell", "./enter", "--meet", "%s:%d" % (b.address, b.port), "--comm", "tcp",
               *options("remote", 100000, "--spares", "1", "--elastic", *EVERY)]
    write("said0", "")
    with open("said0", "a") as said:
        b.started[0] = subprocess.Popen([b.dtrun, *b.words], stdout=said, stderr=said, stdin=subprocess.DEVNULL,
                                        env=dict(os.environ, DTRUN_KEY=b.key))
    if not b.wait_for_steps("remote.log", 5):
        return

    os.kill(agent_of(b, 1), signal.SIGKILL)
    b.wait_said(0, "going on with 4 of 4 ranks on 2 hosts")
    b.wait_said(0, "has come and waits")
    os.kill(agent_of(b, 2), signal.SIGKILL)
    b.wait_until("another place is taken", lambda: len(re.findall("going on with 4 of 4 ranks on 2 hosts", b.said())) == 2)
    b.wait_until("it is started again", lambda: len(re.findall("has come and waits", b.said())) == 2)
    b.kill(0, signal.SIGTERM)
    all_end(b, "SIGTERM to dtrun --hosts", {0: 130}, 10)


def test_tasks(b):
    """Tasks of a launcher: two hosts and a spare, two tasks on each. The first task of a host is killed; the other one ends with 75."""
    variables = lambda i, k: {"RANK": str(2 * i + k), "WORLD_SIZE": "6", "LOCAL_RANK": str(k), "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": b.address,
                              "MASTER_PORT": str(b.port)}
    b.begin("four.plan", 3, leave=(0, 1, 2))
    b.words = ["four.plan", "--quiet", "--comm", "tcp", *options("tasks", 600, "--spares", "1", "--elastic", *EVERY)]
    if os.path.exists("tasks.log"):
        os.remove("tasks.log")
    want = reference(b, "four.plan", 600)
    second = {}
    for i in range(3):
        for k in range(2):
            inside = ["ip", "netns", "exec", b.names[i]] if b.names[i] else []
            with open("said%d" % i, "a") as said:
                started = subprocess.Popen([*inside, b.dtrun, *b.words], stdout=said, stderr=said, stdin=subprocess.DEVNULL,
                                           env=dict(os.environ, DTRUN_KEY=b.key, **variables(i, k)))
            (second if k else b.started)[i] = started
    if b.wait_for_steps("tasks.log", 25):
        b.kill(1)
    b.wait_said(0, "going on with 4 of 4 ranks on 2 hosts")
    b.end("tasks", {0: 0, 1: -9, 2: 0})
    b.check("the second tasks", [second[i].wait(timeout=20) for i in range(3)] == [0, 75, 0], b.all_said())
    b.compare("tasks", "tasks.log", "tasks", 600, want)


def test_ucx(b):
    """The same over UCX; with one host left there is no wire."""
    if not has_ucx():
        return
    want = reference(b, "eight.plan", 300)
    b.begin("eight.plan", 3, *options("ucx", 300, "--elastic", *EVERY, "--spares", "1"), leave=(0, 1, 2))
    b.words[b.words.index("tcp")] = "ucx"
    code, said = b.run(b.dtc, "recompile", "eight.plan", "--ranks", "4", "-o", "uc.plan")
    b.check("4 ranks", code == 0, said)
    b.words[0] = "uc.plan"
    for i in range(3):
        b.start(i)
    for i, left in ((1, "4 of 4 ranks on 2"), (2, "2 of 4 ranks on 1")):
        if b.wait_for_steps("ucx.log", 25 * i):
            b.kill(i)
        b.wait_said(0, "going on with %s" % left)
    b.end("UCX", {0: 0, 1: -9, 2: -9})
    b.compare("UCX", "ucx.log", "ucx", 300, want)


def test_random(b):
    """Hosts and ranks are killed and stopped, and hosts started again, at random times; ROUNDS of it (12)."""
    rounds = int(os.environ.get("ROUNDS", "12"))
    random.seed(int(os.environ.get("SEED", "1")))
    b.begin("eight.plan", 4, *options("random", 100000, "--elastic", "--restarts", "3", *EVERY))
    done = []

    def is_up(i):
        return b.started[i].poll() is None

    for _ in range(rounds):
        time.sleep(random.choice((0.05, 0.3, 1.0, 2.0, 4.0)))
        host, what = random.randrange(1, 4), random.choice(("kill", "kill", "stop", "rank", "rank", "start", "start"))
        if b.started[0].poll() is not None:
            break
        done.append((what, host))
        if what == "start" or not is_up(host):
            for i in range(1, 4):
                if not is_up(i):
                    b.start(i)
        elif what == "kill":
            b.kill(host)
        elif what == "stop":
            b.kill(host, signal.SIGSTOP)
            time.sleep(random.choice((1.0, 3.0, 4.5)))
            b.kill(host, signal.SIGCONT)
        else:
            for pid in ranks_of(b.started[host])[:1]:
                os.kill(pid, signal.SIGKILL)
    b.check("the run goes on after %s" % done, b.started[0].poll() is None, b.all_said())
    b.wait_until("it saves", lambda: "going on with" in b.said().splitlines()[-1] or glob.glob("random/step-*"))
    b.kill(0, signal.SIGINT)
    b.check("it ends with 130 after %s" % done, b.started[0].wait(timeout=60) == 130, b.all_said())
    got, _ = events("random.log")
    last, b.limit = max(got), 1000
    want = reference(b, "eight.plan", last)
    far = [(step, got[step], want[step]) for step in got if not abs(got[step] - want[step]) <= NEAR * 10]
    b.check("losses after %s" % done, sorted(got) == list(range(1, last + 1)) and not far, (last, far[:3]))
    with open("random/step-%08d/manifest.json" % last) as file:
        b.check("each sample once", json.load(file)["samples"] == 24 * last)
    print("   random: %d events, %d steps, %d formations" % (len(done), last, b.said().count("going on with")), flush=True)


CASES = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="elastic-break-") as folder:
        os.chdir(folder)
        write_tokens()
        with open("net.dsl", "w") as file:
            file.write(PROGRAM)
        with hosts(4) as (names, address):
            b = Hosts(dtc, dtrun, names, address)
            compile_plan(b, "four")
            compile_plan(b, "eight")
            for name in sys.argv[3:] or CASES:
                try:
                    CASES[name](b)
                    print("ok", name.replace("_", " "), flush=True)
                finally:
                    b.stop_all()
        os.chdir("/")
    print("%d passed, %d failed, 0 skipped" % (b.passed, b.failed))
    return b.failed > 0


if __name__ == "__main__":
    sys.exit(main())
