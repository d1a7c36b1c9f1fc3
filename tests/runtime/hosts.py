# SPDX-License-Identifier: Apache-2.0
"""Ranks on processors of several hosts:  hosts.py DTC DTRUN few|all [COMM ...]

Hosts are network namespaces joined by veth; where this process may not make them, they are this machine alone, and the test says
so. Eight ranks under layouts of data, ZeRO 3, tensor and pipeline parallelism have the losses and the checkpoints of eight ranks
on one host, to the last bit, by each transport. A rank that is killed ends the run on all hosts. Without `all`: two hosts, two
layouts."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from runs import NET, bytes_of, check, failures, write_tokens

RANKS, STEPS = 8, 4
os.environ["DTRUN_KEY"] = "the key of these tests"
CLUSTER = 'cluster eight { gpus = 8; gpu = "cpu" }\n'
LAYOUTS = {
    "zero3": "mesh data = 8; shard batch on data; zero 3 on data",
    "pipe": "mesh pipe = 2, data = 2, tensor = 2; shard batch on data; shard mid on tensor; pipeline h on pipe; micro batch = 2; "
            "zero 1 on data",
    "data": "mesh data = 8; shard batch on data",
    "tensor": "mesh tensor = 4, data = 2; shard batch on data; shard mid on tensor; shard vocab on tensor",
    "across": "mesh data = 2, tensor = 4; shard batch on data; shard mid on tensor; zero 2 on data",
    "stages": 'mesh data = 4, pipe = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 2',
    "context": "mesh context = 8; shard seq on context",
    "bf16": "mesh data = 8; shard batch on data; zero 3 on data",
}
FEW = ("zero3", "pipe")


def program(layout, name):
    precision = "  precision = mixed(compute = bf16, params = f32, grads = bf16)\n" if name == "bf16" else ""
    net = NET.replace("batch = 4, seq = 4", "batch = 16, seq = 8").replace("embed = 8", "embed = 16")
    return net + precision + "  optimizer = adamw(lr = 1e-2, clip = 1.0)\n  steps = %d\n}\n" % STEPS + CLUSTER + \
        "parallel layout on eight { %s }\n" % layout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def hosts(n):
    """Names of n network namespaces with addresses 10.77.0.1 and so on, or Nones for this machine alone."""
    tag = "dt%d" % os.getpid()
    names = ["%s-%d" % (tag, i) for i in range(n)]
    made = []

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True)

    try:
        good = shutil.which("ip") and os.geteuid() == 0 and ip("netns", "add", tag).returncode == 0
        if good:
            made.append(tag)
            good = ip("-n", tag, "link", "add", "hub", "type", "bridge").returncode == 0
            ip("-n", tag, "link", "set", "hub", "up")
        for i, name in enumerate(names if good else []):
            good = good and ip("netns", "add", name).returncode == 0
            made.append(name)
            good = good and ip("-n", tag, "link", "add", "p%d" % i, "type", "veth", "peer", "name", "eth0", "netns",
                               name).returncode == 0
            ip("-n", tag, "link", "set", "p%d" % i, "master", "hub", "up")
            ip("-n", name, "addr", "add", "10.77.0.%d/24" % (i + 1), "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        if not good:
            print("skipped: no network namespaces here (they need root and iproute2); all hosts are this machine", flush=True)
        yield (names, "10.77.0.1") if good else ([None] * n, "127.0.0.1")
    finally:
        for name in made:
            ip("netns", "del", name)


def start(dtrun, plan, names, address, comm, *options, env=None):
    port = free_port()
    started = []
    for i, name in enumerate(names):
        inside = ["ip", "netns", "exec", name] if name else []
        started.append(subprocess.Popen(
            [*inside, dtrun, plan, "--quiet", "--nodes", str(len(names)), "--node", str(i), "--meet", "%s:%d" % (address, port),
             "--comm", comm, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=dict(os.environ, **(env or {}))))
    return started


def end(what, started, codes):
    said = []
    for process in started:
        try:
            said.append(process.communicate(timeout=100)[0])
        except subprocess.TimeoutExpired:
            process.kill()
            said.append(process.communicate()[0] + " (did not end)")
    got = [process.returncode for process in started]
    check(got == codes, "%s: exit codes %s instead of %s\n%s" % (what, got, codes, "\n".join(said)))
    return said


def losses(path):
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines if line["event"] == "step"]


def saved(folder):
    return [bytes_of(os.path.join(folder, "step-%08d" % STEPS, part + ".safetensors")) for part in ("model", "optimizer")]


def outputs(name):
    return ["--overwrite", "--log", name + ".log", "--save", name]


def compile_plan(dtc, name):
    with open(name + ".dsl", "w") as file:
        file.write(program(LAYOUTS[name], name))
    done = subprocess.run([dtc, name + ".dsl", "-o", name + ".plan"], capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s" % (name, done.stdout + done.stderr))
    return name + ".plan"


def check_layout(dtc, dtrun, name, names, address, comms):
    plan = compile_plan(dtc, name)
    one = name + ".one"
    subprocess.run([dtrun, plan, "--quiet", *outputs(one)], check=True)
    for comm in comms:
        what = "%s on %d hosts by %s" % (name, len(names), comm)
        many = "%s.%s" % (name, comm)
        end(what, start(dtrun, plan, names, address, comm, *outputs(many)), [0] * len(names))
        check(losses(many + ".log") == losses(one + ".log") and len(losses(one + ".log")) == STEPS, what + ": other losses")
        check(saved(many) == saved(one), what + ": another checkpoint")
        shutil.rmtree(many, ignore_errors=True)
        print("ok", what, flush=True)
    return len(comms)


def wait_for(path, steps):
    for _ in range(1000):
        if os.path.exists(path) and len(losses(path)) >= steps:
            return
        time.sleep(0.05)
    sys.exit("%s never had %d steps" % (path, steps))


def ranks_of(process):
    """The rank processes of a host: children of its dtrun, which ip has become by exec."""
    return [int(pid) for pid in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()]


def has_ucx():
    try:
        ctypes.CDLL("libucp.so.0")
    except OSError:
        print("skipped: no libucp.so.0 here (package libucx0)", flush=True)
        return False
    if not os.path.isdir("/sys/class/net"):
        print("skipped: UCX finds no network without /sys", flush=True)
        return False
    return True


def check_missing(dtrun, names, address):
    """Without the library the run ends before its first step, and says what would help."""
    started = start(dtrun, "zero3.plan", names, address, "ucx", env={"DT_UCX_LIBRARY": "/nowhere/libucp.so.0"})
    said = end("no library", started, [1] * len(names))
    check(all("libucx0" in text and "--comm tcp" in text for text in said), "what is said without UCX: %s" % said)
    for words, wanted in ((["--comm", "ucx"], "several machines"), (["--comm", "rdma"], "no communicator `rdma`"),
                          (["--nodes", "2", "--node", "0", "--meet", "127.0.0.1:1", "--comm", "shm"], "ranks of one machine")):
        done = subprocess.run([dtrun, "zero3.plan", *words], capture_output=True, text=True)
        check(done.returncode == 2 and wanted in done.stderr, "%s: %d, %s" % (words, done.returncode, done.stderr))
    print("ok what is said of communicators", flush=True)
    return 4


def check_failures(dtrun, names, address, comm):
    more = ["--steps", "1000000", "--timeout", "20"]
    with contextlib.suppress(FileNotFoundError):
        os.remove("dead.log")
    started = start(dtrun, "zero3.plan", names, address, comm, *outputs("dead"), *more)
    wait_for("dead.log", 2)
    for pid in [process.pid for process in started] + ranks_of(started[0]):
        check(os.environ["DTRUN_KEY"].encode() not in bytes_of("/proc/%d/environ" % pid), "process %d shows the key" % pid)
    os.kill(ranks_of(started[-1])[0], signal.SIGKILL)
    said = end("a killed rank by " + comm, started, [75] * len(names))
    check("was ended by signal 9" in said[0], "a killed rank is not named: " + said[0])
    print("ok a rank is killed, by", comm, flush=True)
    return 1


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    is_all, n = sys.argv[3] == "all", 0
    comms = [comm for comm in sys.argv[4:] if comm != "ucx" or has_ucx()]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        for count in (2, 4) if is_all else (2,):
            with hosts(count) as (names, address):
                for name in LAYOUTS if is_all else FEW:
                    n += check_layout(dtc, dtrun, name, names, address, comms)
                for comm in comms:
                    n += check_failures(dtrun, names, address, comm)
                if count == 2:
                    n += check_missing(dtrun, names, address)
    print("%d passed, %d failed" % (n, len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
