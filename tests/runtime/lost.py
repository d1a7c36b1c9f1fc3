#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts that are lost, and ranks that hang:  lost.py DTC FLAKY [ROUNDS]

Four hosts, network namespaces joined by veth, train on processors. An agent is stopped; the same while a rank of another host is
killed; node 0 is killed; a link goes down. Every host that is left names the lost one within 5 s, ends with 75, and leaves no
process. Where namespaces cannot be made, links stay up. A rank hangs, asleep or in a loop that looks (flaky.c): all hosts name it, and
a rank that waits for it; a rank that only computes for very long is named, and the run goes on. Before that, a host with another build of
the library of products is refused. ROUNDS: how often each case runs (1)."""

import glob
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

from hosts import compile_plan, free_port, hosts, losses, outputs, ranks_of, wait_for
from runs import CLUSTERS, NET, check, failures, run, write_tokens

NODES, LIMIT_S = 4, 5.0
SILENT, GONE = "nothing was heard of it for 3.5 s", "it has gone: its dtrun has ended"


def compile_four(dtc):
    """A rank for each host."""
    with open("four.dsl", "w") as file:
        file.write(NET + "  optimizer = adamw(lr = 1e-2, clip = 1.0)\n  steps = 4\n}\n" + CLUSTERS +
                   "parallel layout on four { mesh data = 4; shard batch on data }\n")
    run([dtc, "four.dsl", "-o", "four.plan"])


def start(dtrun, names, address, folder, plan, env):
    """Each node writes to a file, so that the time of a line can be seen."""
    port, started = free_port(), []
    for i, name in enumerate(names):
        inside = ["ip", "netns", "exec", name] if name else []
        with open("said%d" % i, "w") as said:
            started.append(subprocess.Popen(
                [*inside, dtrun, plan, "--quiet", "--nodes", str(NODES), "--node", str(i), "--meet", "%s:%d" % (address, port),
                 "--comm", "tcp", *outputs(folder), "--steps", "1000000"], stdout=said, stderr=said,
                env=dict(os.environ, **env.get(i, {}))))
    return started


def said_by(node):
    with open("said%d" % node) as file:
        return file.read()


def said_at(node):
    """When the node has said its last line."""
    return os.stat("said%d" % node).st_mtime


def processes():
    found = subprocess.run(["pgrep", "-f", "[.]plan --quiet .*run-%d" % os.getpid()], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid in found]


def stop_agent(started, names, lost):
    os.kill(started[lost].pid, signal.SIGSTOP)


def stop_and_kill(started, names, lost):
    stop_agent(started, names, lost)
    os.kill(ranks_of(started[(lost + 1) % NODES])[0], signal.SIGKILL)


def kill_agent(started, names, lost):
    os.kill(started[lost].pid, signal.SIGKILL)


def cut_link(started, names, lost):
    subprocess.run(["ip", "-n", names[lost], "link", "set", "eth0", "down"], check=True)


def join_link(names, lost):
    if names[lost]:
        subprocess.run(["ip", "-n", names[lost], "link", "set", "eth0", "up"], check=True)


def wait_for_lines(wanted, others, began):
    """How long it took until each of the others had said it; None: one has not within 30 s. This process may get no core, so the times
    of their files count."""
    while time.time() - began < 30:
        if all(re.search(wanted, said_by(i)) for i in others):
            return max(said_at(i) for i in others) - began
        time.sleep(0.02)
    return None


def copy_library(folder):
    """A copy of oneDNN with another digest of the linker, under each name that its folder has for it; False: the system has none, or
    without a digest."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libdnnl\.so\.\d\S* .* => (\S+)", listed)
    if not found:
        return False
    with open(found.group(1), "rb") as file:
        code = bytearray(file.read())
    note = code.find(struct.pack("<III4s", 4, 20, 3, b"GNU"))
    code[note + 16] ^= 1
    os.mkdir(folder)
    for path in glob.glob(os.path.join(os.path.dirname(found.group(1)), "libdnnl.so.*")):
        with open(os.path.join(folder, os.path.basename(path)), "wb") as file:
            file.write(code)
    return note >= 0


def refuse_library(dtrun, names, address):
    if not copy_library("other"):
        print("skipped: no libdnnl here", flush=True)
        return
    path = os.path.abspath("other") + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    started = start(dtrun, names, address, "run-%d" % os.getpid(), "four.plan", {2: {"LD_LIBRARY_PATH": path}})
    try:
        codes = [process.wait(timeout=40) for process in started]
    finally:
        for process in started:
            process.kill()
    check(codes == [2] * NODES and all("rank 2 on host" in said_by(i) and "another build of the library" in said_by(i)
                                       for i in range(NODES)), "another library: %s\n%s" % (codes, said_by(0)))
    print("ok another library", flush=True)


def lose(dtrun, names, address, what, act, lost, wanted):
    folder = "run-%d" % os.getpid()
    subprocess.run(["rm", "-rf", folder, folder + ".log"], check=True)
    started = start(dtrun, names, address, folder, "zero3.plan", {})
    try:
        wait_for(folder + ".log", 2)
        began = time.time()
        act(started, names, lost)
        others = [i for i in range(NODES) if i != lost]
        took = wait_for_lines(wanted, others, began)
        texts = "\n".join(said_by(i) for i in range(NODES))
        check(took is not None and took < LIMIT_S, "%s: named after %s s\n%s" % (what, took, texts))
        codes = []
        for i in others:
            try:
                codes.append(started[i].wait(timeout=10))
            except subprocess.TimeoutExpired:
                codes.append("did not end")
        check(codes == [75] * len(others), "%s: exit codes %s\n%s" % (what, codes, texts))
        if act is cut_link:
            check(started[lost].wait(timeout=15) == 75, "%s: the host that was cut off" % what)
            join_link(names, lost)
    finally:
        for process in started:
            process.kill()
            process.wait()
    for _ in range(100):
        if not processes():
            break
        time.sleep(0.05)
    check(not processes(), "%s: processes stay: %s" % (what, processes()))
    print("ok %s: named after %.1f s" % (what, took or -1), flush=True)


def hang(dtrun, names, address, how, rank):
    """Eight ranks, two on each host. A rank that spins is only named, and goes on when its file is removed."""
    what, folder, wanted = "a rank %s" % how, "run-%d" % os.getpid(), [75] * NODES
    subprocess.run(["rm", "-rf", folder, folder + ".log", "hang"], check=True)
    env = {rank // 2: {"FLAKY_HANG": "%d %s %s" % (rank, how, os.path.abspath("hang"))}}
    started = start(dtrun, names, address, folder, "zero3.plan", env)
    named = r"rank %d (hangs: no progress and almost no processor time|is slow: it computes) .*while rank \d+ waits for it" % rank
    try:
        wait_for(folder + ".log", 2)
        began = time.time()
        with open("hang", "w"):
            pass
        took = wait_for_lines(named, [rank // 2] if how == "spins" else range(NODES), began)
        texts = "\n".join(said_by(i) for i in range(NODES))
        check(took is not None and took < LIMIT_S, "%s: named after %s s\n%s" % (what, took, texts))
        if how == "spins":
            os.remove("hang")
            steps = len(losses(folder + ".log"))
            wait_for(folder + ".log", steps + 2)
            started[1].send_signal(signal.SIGTERM)
            wanted = [130] * NODES
        codes = [process.wait(timeout=20) for process in started]
        check(codes == wanted, "%s: exit codes %s\n%s" % (what, codes, texts))
    finally:
        for process in started:
            process.kill()
            process.wait()
    print("ok %s: named after %.1f s" % (what, took or -1), flush=True)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    rounds, n = int(sys.argv[3]) if len(sys.argv) > 3 else 1, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        compile_plan(dtc, "zero3")
        compile_four(dtc)
        with hosts(NODES) as (names, address):
            refuse_library(dtrun, names, address)
            for i in range(rounds):
                hang(dtrun, names, address, ("looks", "sleeps", "spins")[i % 3], i * 3 % 8)
                n += 1
                lose(dtrun, names, address, "an agent is stopped", stop_agent, 1 + n % 3, "node [123]: " + SILENT)
                lose(dtrun, names, address, "an agent is stopped, a rank killed", stop_and_kill, 2,
                     r"(node 2: %s|rank \d was ended by signal 9)" % SILENT)
                lose(dtrun, names, address, "node 0 is killed", kill_agent, 0, "node 0: " + GONE)
                n += 3
                if names[0]:
                    lose(dtrun, names, address, "a link is down", cut_link, 3, "node 3: " + SILENT)
                    n += 1
    print("%d passed, %d failed" % (n, len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
