#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that is disturbed again and again:  kills.py DTC DTRUN KILLS [SEED]

Ranks, agents and node 0 are killed, and links taken down, at random moments: while nodes meet, ranks load, train and save. A loop like
that of a launcher, which starts the same command again after 75, is all that helps. At the end each run has the checkpoint of one that
nobody disturbed, to the last bit. Hosts are two to four network namespaces; without namespaces, links stay up."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from hosts import free_port, hosts, ranks_of
from lost import join_link, said_by
from runs import NET, bytes_of, check, failures, run, write_tokens

STEPS, AT_ONCE = 60, 10  # kills of one run
RANKS = {2: 4, 3: 6, 4: 4}  # by number of hosts


def prepare(dtc, dtrun, ranks):
    """A plan, and the checkpoint of a run that nobody disturbs."""
    name = "plan%d" % ranks
    if os.path.exists(name):
        return
    with open(name + ".dsl", "w") as file:
        file.write(NET.replace("batch = 4", "batch = 12") + "  optimizer = adamw(lr = 1e-2, clip = 1.0)\n  steps = %d\n}\n" % STEPS +
                   'cluster some { gpus = %d; gpu = "cpu" }\n' % ranks +
                   "parallel layout on some { mesh data = %d; shard batch on data; zero 2 on data }\n" % ranks)
    run([dtc, name + ".dsl", "-o", name])
    run([dtrun, name, "--quiet", "--save", "alone%d" % ranks, "--steps", str(STEPS)])


def start(dtrun, names, address, folder):
    port, started = free_port(), []
    for i, name in enumerate(names):
        inside = ["ip", "netns", "exec", name] if name else []
        with open("said%d" % i, "w") as said:
            started.append(subprocess.Popen(
                [*inside, dtrun, "plan%d" % RANKS[len(names)], "--quiet", "--nodes", str(len(names)), "--node", str(i),
                 "--meet", "%s:%d" % (address, port), "--comm", "tcp", "--resume", folder, "--or-start", "--restarts", "1000", "--set", "save.every=3", "--steps", str(STEPS)],
                stdout=said, stderr=said))
    return started


def disturb(kind, started, names, draw):
    """Returns which hosts do not end by themselves with a code of the run, and the host whose link is down."""
    lost = draw.randrange(1, len(names))
    if kind == "rank":
        ranks = ranks_of(started[draw.randrange(len(names))])
        if ranks:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(draw.choice(ranks), signal.SIGKILL)
        return [], None
    if kind == "link":
        subprocess.run(["ip", "-n", names[lost], "link", "set", "eth0", "down"], check=True)
        return [], lost
    lost = 0 if kind == "root" else lost
    started[lost].kill()
    return [lost], None


def await_end(process, node, is_lost):
    """Returns the exit code. Nodes that meet wait for one that has gone, since it may come again; a launcher ends them."""
    for patience in (8, 20, 20):
        try:
            code = process.wait(timeout=patience)
            return 75 if code == 130 and "stopped while it waited" in said_by(node) else code
        except subprocess.TimeoutExpired:
            if is_lost and "waits " in said_by(node) and "starting again" not in said_by(node):
                process.terminate()
    process.kill()
    process.wait()
    return "did not end"


def finish(started, killed, what):
    """Whether the run is over; else it is to be started again."""
    codes = [await_end(process, i, bool(killed)) for i, process in enumerate(started)]
    good = all(code in (0, 75) or (i in killed and code == -9) for i, code in enumerate(codes))
    check(good, "%s: exit codes %s\n%s" % (what, codes, "\n".join(said_by(i) for i in range(len(started)))))
    return not good or codes == [0] * len(codes)


def run_disturbed(dtrun, names, address, kinds, draw, number):
    folder = "run%d" % number
    done, left = [], list(kinds)
    while True:
        started, killed, cut = start(dtrun, names, address, folder), [], None
        try:
            while left and not killed and cut is None and all(process.poll() is None for process in started):
                time.sleep(draw.random() * draw.choice((0.3, 1, 3)))
                if any(process.poll() is not None for process in started):
                    break
                done.append(left.pop())
                killed, cut = disturb(done[-1], started, names, draw)
            if cut is not None:
                for i, process in enumerate(started):
                    if i != cut:
                        await_end(process, i, True)
                join_link(names, cut)
            is_over = finish(started, killed or [cut] * (cut is not None), "after %s" % done)
        finally:
            for process in started:
                process.kill()
                process.wait()
        if is_over:
            break
    step, alone = "step-%08d" % STEPS, "alone%d" % RANKS[len(names)]
    same = [bytes_of(os.path.join(folder, step, part)) == bytes_of(os.path.join(alone, step, part))
            for part in ("model.safetensors", "optimizer.safetensors") if not failures]
    check(all(same), "other bits after %s" % done)
    shutil.rmtree(folder, ignore_errors=True)
    return done


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    wanted, draw = int(sys.argv[3]), random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    counts, number = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        while sum(counts.values()) < wanted and not failures:
            count = draw.choice((2, 3, 4)) if wanted > AT_ONCE else 2
            prepare(dtc, dtrun, RANKS[count])
            with hosts(count) as (names, address):
                kinds = ["rank", "agent", "root", "rank"] + (["link"] if names[0] else [])
                n = min(AT_ONCE, wanted - sum(counts.values()))
                plan = (kinds * AT_ONCE)[:n] if n < AT_ONCE else [draw.choice(kinds) for _ in range(n)]
                draw.shuffle(plan)
                for kind in run_disturbed(dtrun, names, address, plan, draw, number):
                    counts[kind] = counts.get(kind, 0) + 1
            number += 1
            print("ok", counts, flush=True)
    print("%d kills, %d failed" % (sum(counts.values()), len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
