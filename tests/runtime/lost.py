#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts that are lost, and ranks that hang:  lost.py DTC FLAKY [ROUNDS [COMM ...]]

Four hosts, network namespaces joined by veth, train on processors. An agent is stopped; the same while a rank of another host is
killed; node 0 is killed; a link goes down while a slow network carries an all-reduce, by each COMM (tcp). Every host that is left names
the lost one within 5 s, ends with 75, and leaves no process. Where namespaces cannot be made, links stay up. A rank hangs, asleep or in a loop that looks (flaky.c): all hosts name it, and
a rank that waits for it; a rank that only computes for very long is named, and the run goes on. Before that, a host with another build of
the library of products is refused. ROUNDS: how often each case runs (1)."""

import glob
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

from hosts import compile_plan, free_port, has_ucx, hosts, losses, outputs, ranks_of, wait_for
from runs import CLUSTERS, NET, check, failures, run, write_tokens

NODES, LIMIT_S, SLOW_MBIT = 4, 5.0, 40
SILENT, GONE = "nothing was heard of it for 3.5 s", "it has gone: its dtrun has ended"


def compile_four(dtc, name, net):
    """A rank for each host."""
    with open(name + ".dsl", "w") as file:
        file.write(net + "  optimizer = adamw(lr = 1e-2, clip = 1.0)\n  steps = 4\n}\n" + CLUSTERS +
                   "parallel layout on four { mesh data = 4; shard batch on data }\n")
    run([dtc, name + ".dsl", "-o", name + ".plan"])


def start(dtrun, names, address, folder, plan, env, comm="tcp"):
    """Each node writes to a file, so that the time of a line can be seen."""
    port, started = free_port(), []
    for i, name in enumerate(names):
        inside = ["ip", "netns", "exec", name] if name else []
        with open("said%d" % i, "w") as said:
            started.append(subprocess.Popen(
                [*inside, dtrun, plan, "--quiet", "--nodes", str(NODES), "--node", str(i), "--meet", "%s:%d" % (address, port),
                 "--comm", comm, *outputs(folder), "--steps", "1000000"], stdout=said, stderr=said,
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


def sent(name):
    text = subprocess.run(["ip", "-n", name, "-s", "-j", "link", "show", "eth0"], capture_output=True, text=True).stdout
    return json.loads(text)[0]["stats64"]["tx"]["bytes"]


def cut_link(started, names, lost):
    """While the host sends as much as the network carries: the terms of a sum, or a sum."""
    before = 1 << 62
    for _ in range(200):
        time.sleep(0.1)
        now = sent(names[lost])
        if now - before > 0.1 * SLOW_MBIT * 125000 / 2:
            break
        before = now
    else:
        check(False, "the network was never busy")
    subprocess.run(["ip", "-n", names[lost], "link", "set", "eth0", "down"], check=True)


def slow_down(names):
    for name in names:
        subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "%dmbit" % SLOW_MBIT,
                        "burst", "64kb", "latency", "100ms"], check=True)


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


def lose(dtrun, names, address, what, act, lost, wanted, plan="zero3.plan", comm="tcp"):
    folder = "run-%d" % os.getpid()
    subprocess.run(["rm", "-rf", folder, folder + ".log"], check=True)
    started = start(dtrun, names, address, folder, plan, {}, comm)
    try:
        wait_for(folder + ".log", 2)
        act(started, names, lost)
        began = time.time()
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
    comms = [comm for comm in sys.argv[4:] or ["tcp"] if comm != "ucx" or has_ucx()]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        compile_plan(dtc, "zero3")
        compile_four(dtc, "four", NET)
        compile_four(dtc, "wide", NET.replace("mid = 16", "mid = 8192"))
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
                slow_down(names)
            for comm in comms * rounds if names[0] else []:
                lose(dtrun, names, address, "a link is down in a sum by " + comm, cut_link, 1 + n % 3, "node [123]: " + SILENT, "wide.plan",
                     comm)
                n += 1
    print("%d passed, %d failed" % (n, len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
