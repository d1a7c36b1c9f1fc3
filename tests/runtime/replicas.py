#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the memory of a rank:  replicas.py DTC DTRUN [N]

While ranks train, this test changes one bit of a parameter in the memory of one of them. The run ends with 75, names the rank (of two
replicas both) and the parameter, and has not saved; with --restarts it goes on from the checkpoint before. Without a flip nothing is
reported. N: how many flips, at random ranks, bits and places (default: one for each layout)."""

import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time

from runs import CLUSTERS, NET, check, failures, run, saved, write_tokens

PROGRAM = NET.replace("batch = 4", "batch = 8") + """  optimizer = sgd(lr = 0.0)
  steps = 100000000
}
""" + CLUSTERS + """parallel pair on two { mesh data = 2; shard batch on data }
parallel many on four { mesh data = 4; shard batch on data }
parallel mixed on four { mesh data = 2, tensor = 2; shard batch on data; shard mid on tensor }
parallel zero on four { mesh data = 2, tensor = 2; shard batch on data; shard mid on tensor; zero 1 on data }
"""
runs_of_test = []
LAYOUTS = {"pair": 2, "many": 4, "mixed": 4}


def rank_processes(supervisor):
    """Process numbers of the ranks, by rank."""
    found = {}
    for pid in subprocess.run(["pgrep", "-P", str(supervisor.pid)], capture_output=True, text=True).stdout.split():
        with open("/proc/%s/cmdline" % pid, "rb") as file:
            words = file.read().split(b"\0")
        if b"--rank" in words:
            found[int(words[words.index(b"--rank") + 1])] = int(pid)
    return found


def places(pid, pattern):
    """Addresses at which the bytes stand in memory that the process may write."""
    found = []
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            first, last, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            first, last = int(first, 16), int(last, 16)
            if not rights.startswith("rw") or last - first > 1 << 28:
                continue
            try:
                memory.seek(first)
                content = memory.read(last - first)
            except (OSError, ValueError):
                continue
            at = content.find(pattern)
            while at >= 0:
                found.append(first + at)
                at = content.find(pattern, at + 1)
    return found


def flip(pid, address, bit):
    with open("/proc/%d/mem" % pid, "r+b", 0) as memory:
        memory.seek(address + bit // 8)
        byte = memory.read(1)[0]
        memory.seek(address + bit // 8)
        memory.write(bytes([byte ^ 1 << bit % 8]))


def until(what, holds):
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    for started in runs_of_test:
        started.kill()
    sys.exit("replicas: waited a minute for " + what)


def steps_in(log):
    if not os.path.exists(log):
        return 0
    with open(log) as file:
        return file.read().count('"event":"step"')


def start(tools, layout, *options):
    log = layout + ".jsonl"
    if os.path.exists(log):
        os.remove(log)
    started = subprocess.Popen([tools[1], layout + ".plan", "--quiet", "--resume", "begin", "--save", layout, "--overwrite",
                                "--log", log, "--check-replicas", "20", *options], stderr=subprocess.PIPE, text=True)
    runs_of_test.append(started)
    until("steps", lambda: steps_in(log) > 5)
    return started


def spoil(started, rank, values, draw):
    """Flips a bit of the parameter in the memory of that rank."""
    pid = rank_processes(started)[rank]
    found = places(pid, struct.pack("<%df" % len(values), *values))
    check(found, "rank %d has the parameter nowhere" % rank)
    # arenas of all ranks may be mapped, in their order
    flip(pid, found[rank] if len(found) > rank and len(found) > 1 else found[0], draw.randrange(32 * len(values)))


def test_flip(tools, layout, rank, begin, draw):
    started = start(tools, layout)
    spoil(started, rank, begin["wte"], draw)
    said = started.communicate(timeout=60)[1]
    check(started.returncode == 75, "%s: exit code %d: %s" % (layout, started.returncode, said))
    if re.search(r"step \d+ is not finite on rank \d, and it is on others", said):
        return  # the flip made it infinite before the ranks compared their parameters
    named = re.search(r"replicas differ after step (\d+): (ranks (\d) and (\d) have|rank (\d) has) other bits in `(\S+)`", said)
    check(named and named.group(6) == "wte", "%s: %s" % (layout, said))
    if named and LAYOUTS[layout] == 2:
        check({named.group(3), named.group(4)} == {"0", "1"}, said)
    elif named:
        check(named.group(5) == str(rank), "%s: it was rank %d: %s" % (layout, rank, said))
    check(not os.path.isdir(layout) or not any(name.startswith("step-") for name in os.listdir(layout)), "%s: it was saved" % layout)


def test_restart(tools, begin, draw):
    """The run begins again from its checkpoint, and trains on."""
    started = start(tools, "many", "--restarts", "1", "--set", "save.every=100", "--set", "save.keep=2")
    until("a checkpoint", lambda: os.path.isdir("many") and any(name.startswith("step-") for name in os.listdir("many")))
    spoil(started, 1, begin["wte"], draw)
    log = "many.jsonl"
    until("a restart", lambda: os.path.exists(log) and open(log).read().count('"event":"start"') == 2 or started.poll() is not None)
    before = steps_in(log)
    until("steps", lambda: steps_in(log) > before + 30 or started.poll() is not None)
    check(started.poll() is None, "it did not go on")
    started.terminate()
    said = started.communicate(timeout=60)[1]
    check(started.returncode == 130 and "starting again (1 of 1)" in said, said)
    check(list(saved_last("many")["wte"]) == list(begin["wte"]), "the flip was saved")


def saved_last(folder):
    return saved(folder, max(int(name[5:]) for name in os.listdir(folder) if name.startswith("step-")))


def test_quiet(tools):
    """Nothing is reported without a flip, in any layout."""
    for layout in (*LAYOUTS, "zero"):
        said = run([tools[1], layout + ".plan", "--quiet", "--steps", "200", "--check-replicas", "1", "--set", "lr.base=0.1"])
        check("replicas" not in said, said)


def main(tools, n):
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        with open("p.dsl", "w") as file:
            file.write(PROGRAM)
        for layout in (*LAYOUTS, "zero"):
            run([tools[0], "p.dsl", "--parallel", layout, "-o", layout + ".plan"])
        run([tools[1], "many.plan", "--quiet", "--steps", "0", "--save", "begin"])
        begin = saved("begin", 0)
        try:
            with open("/proc/self/mem", "r+b", 0), open("/proc/sys/kernel/yama/ptrace_scope") as scope:
                allowed = os.geteuid() == 0 or scope.read().strip() == "0"
        except OSError:
            allowed = os.geteuid() == 0
        test_quiet(tools)
        if not allowed:
            print("replicas: this system does not let a process write into another one's memory: no bit is flipped")
        for i in range(n or len(LAYOUTS)):
            layout = list(LAYOUTS)[i % len(LAYOUTS)]
            if allowed:
                test_flip(tools, layout, draw.randrange(LAYOUTS[layout]), begin, draw)
        if allowed:
            test_restart(tools, begin, draw)
        for started in runs_of_test:
            started.wait(timeout=60)
    print("replicas: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]], int(sys.argv[3]) if len(sys.argv) > 3 else 0))
