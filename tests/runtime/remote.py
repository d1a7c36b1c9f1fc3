#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One command for several hosts:  remote.py DTC DTRUN [all]

`dtrun --hosts FILE --shell CMD`, where CMD enters a network namespace (or is this machine, where namespaces cannot be made). The
run has the bits of all ranks on one host; lines begin with the name of the host; the key is on no command line; --dry-run says who does
what, and finds missing data; Ctrl-C saves; if this dtrun is killed, all agents end. `all`: a host that cannot be reached, too."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from hosts import STEPS, compile_plan, free_port, hosts, losses, outputs, saved, wait_for
from runs import check, failures, write_tokens

NODES = 2
KEY = "a key that no command line has"
SHELL = """#!/bin/sh
# CMD HOST TEXT
case $1 in
bad*) exit 255 ;;
dt*) exec ip netns exec "$1" sh -c "$2" ;;
*) exec sh -c "$2" ;;
esac
"""


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def command(dtrun, address, *options, file="hosts"):
    return [dtrun, "zero3.plan", "--quiet", "--hosts", file, "--shell", "./enter", "--meet", "%s:%d" % (address, free_port()),
            "--comm", "tcp", *options]


def start(dtrun, address, *options, file="hosts"):
    return subprocess.Popen(command(dtrun, address, *options, file=file), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, DTRUN_KEY=KEY), stdin=subprocess.DEVNULL)


def ends(what, started, code, seconds=60):
    try:
        out, err = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        started.kill()
        out, err = started.communicate()
        err += " (did not end)"
    check(started.returncode == code, "%s: exit code %s instead of %s\n%s%s" % (what, started.returncode, code, out, err))
    return out, err


def processes(name):
    return subprocess.run(["pgrep", "-f", "zero3.plan.*%s" % name], capture_output=True, text=True).stdout.split()


def nothing_stays(what, name):
    for _ in range(140):
        if not processes(name):
            return
        time.sleep(0.05)
    check(False, "%s: processes stay: %s" % (what, processes(name)))


def check_run(dtrun, address, names):
    subprocess.run([dtrun, "zero3.plan", "--quiet", "--launch", "local", *outputs("one")], check=True)
    started = start(dtrun, address, *outputs("many"))
    out, err = ends("a run", started, 0)
    check(losses("many.log") == losses("one.log") and saved("many") == saved("one"), "a run on hosts has other results")
    check(all(line.startswith(tuple(name + ": " for name in names)) for line in (out + err).splitlines()), "lines: " + out + err)
    print("ok a run", flush=True)


def check_dry_run(dtrun, address, names):
    out, err = ends("a dry run", start(dtrun, address, "--dry-run", "--save", "many"), 0)
    check(re.search("%s: node 1 of 2, ranks 4 to 7; device cpu, .* for each rank; communication by tcp" % names[1], out) and
          re.search("%s: node 0, ranks 0 to 3, where the nodes meet: " % names[0], out) and "a checkpoint in many has" in out,
          "a dry run says: " + out + err)
    os.rename("tokens.bin", "away.bin")
    out, err = ends("a dry run without data", start(dtrun, address, "--dry-run"), 2)
    check(all("%s: dtrun: " % name in err for name in names) and "tokens.bin" in err, "a dry run without data: " + err)
    os.rename("away.bin", "tokens.bin")
    write("wide", "a slots=3\nb slots=3\n")
    _, err = ends("slots", start(dtrun, address, file="wide"), 2)
    check("8 ranks, and the 2 hosts in wide have 3 slots each" in err, "slots: " + err)
    for options, said in ((["--nodes", "2"], "--hosts is a run of its own"),):
        _, err = ends(str(options), start(dtrun, address, *options), 2)
        check(said in err, err)
    print("ok a dry run", flush=True)


def check_signals(dtrun, address):
    started = start(dtrun, address, *outputs("stopped"), "--steps", "1000000")
    wait_for("stopped.log", 2)
    lines = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    check(KEY not in lines, "the key is on a command line")
    started.send_signal(signal.SIGINT)
    out, err = ends("Ctrl-C", started, 130)
    steps = len(losses("stopped.log"))
    check(os.path.exists("stopped/step-%08d/model.safetensors" % steps), "Ctrl-C saves nothing: " + out + err)
    print("ok Ctrl-C", flush=True)
    started = start(dtrun, address, *outputs("killed-%d" % os.getpid()), "--steps", "1000000")
    wait_for("killed-%d.log" % os.getpid(), 2)
    started.kill()
    started.communicate()
    nothing_stays("dtrun is killed", "killed-%d" % os.getpid())
    print("ok dtrun is killed", flush=True)


def check_unreachable(dtrun, address, names):
    write("some", "%s\nbad\n" % names[0])
    started = start(dtrun, address, *outputs("bad-%d" % os.getpid()), file="some")
    _, err = ends("an unreachable host", started, 75)
    check("bad: the command that starts dtrun there has failed" in err, "an unreachable host: " + err)
    nothing_stays("an unreachable host", "bad-%d" % os.getpid())
    print("ok an unreachable host", flush=True)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        compile_plan(dtc, "zero3")
        write("enter", SHELL)
        os.chmod("enter", 0o755)
        with hosts(NODES) as (names, address):
            names = names if names[0] else ["here%d" % i for i in range(NODES)]
            write("hosts", "# two hosts\n" + "".join("%s slots=4\n" % name for name in names))
            check_run(dtrun, address, names)
            check_dry_run(dtrun, address, names)
            check_signals(dtrun, address)
            if sys.argv[3:] == ["all"]:
                check_unreachable(dtrun, address, names)
    print("%d passed, %d failed" % (4 + (sys.argv[3:] == ["all"]), len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
