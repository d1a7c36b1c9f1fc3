#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts that are lost:  lost.py DTC DTRUN [ROUNDS]

Four hosts, network namespaces joined by veth, train on processors. An agent is stopped; the same while a rank of another host is
killed; node 0 is killed; a link goes down. Every host that is left names the lost one within 5 s, ends with 75, and leaves no
process. Where namespaces cannot be made, links stay up. ROUNDS: how often each case runs (1)."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from hosts import compile_plan, free_port, hosts, outputs, ranks_of, wait_for
from runs import check, failures, write_tokens

NODES, LIMIT_S = 4, 5.0
SILENT, GONE = "nothing was heard of it for 3.5 s", "it has gone: its dtrun has ended"


def start(dtrun, names, address, folder):
    """Each node writes to a file, so that the time of a line can be seen."""
    port, started = free_port(), []
    for i, name in enumerate(names):
        inside = ["ip", "netns", "exec", name] if name else []
        with open("said%d" % i, "w") as said:
            started.append(subprocess.Popen(
                [*inside, dtrun, "zero3.plan", "--quiet", "--nodes", str(NODES), "--node", str(i), "--meet", "%s:%d" % (address, port),
                 "--comm", "tcp", *outputs(folder), "--steps", "1000000"], stdout=said, stderr=said))
    return started


def said_by(node):
    with open("said%d" % node) as file:
        return file.read()


def processes():
    found = subprocess.run(["pgrep", "-f", "zero3.plan.*%d" % os.getpid()], capture_output=True, text=True).stdout.split()
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
    """How long it took until each of the others had said it; None: one has not within 30 s."""
    while time.time() - began < 30:
        if all(re.search(wanted, said_by(i)) for i in others):
            return time.time() - began
        time.sleep(0.02)
    return None


def lose(dtrun, names, address, what, act, lost, wanted):
    folder = "run-%d" % os.getpid()
    subprocess.run(["rm", "-rf", folder, folder + ".log"], check=True)
    started = start(dtrun, names, address, folder)
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
    for process in started:
        process.kill()
        process.wait()
    for _ in range(100):
        if not processes():
            break
        time.sleep(0.05)
    check(not processes(), "%s: processes stay: %s" % (what, processes()))
    print("ok %s: named after %.1f s" % (what, took or -1), flush=True)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    rounds, n = int(sys.argv[3]) if len(sys.argv) > 3 else 1, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        compile_plan(dtc, "zero3")
        with hosts(NODES) as (names, address):
            for _ in range(rounds):
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
