#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slurm itself:  slurm.py DTC DTRUN

Starts munged, slurmctld and four slurmd in a temporary folder, four nodes on this machine, if Slurm is installed and this is root
(apt-get install slurm-wlm). `srun` with a task for each rank and with one for the host, inside and outside of a batch script,
trains what `dtrun` alone does; examples/slurm/train.sbatch is stopped by Slurm's warning, saves, and is requeued."""

import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from launch import CLEAN, RANKS, STEPS, same
from runs import CLUSTERS, NET, PIPE, check, failures, run, write_tokens

CONFIGURATION = """ClusterName=test
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=PORT0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=DIR/munge/socket
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool_%n
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd_%n.pid
SlurmctldLogFile=DIR/slurmctld.log
SlurmdLogFile=DIR/slurmd_%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=20
NodeName=n[1-4] NodeHostname=HOST NodeAddr=127.0.0.1 Port=[PORT1-PORT4] CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=500 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverTimeLimit=0
"""


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    """The daemons of a small cluster."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        for name in ("munge", "state"):
            os.makedirs(os.path.join(folder, name), mode=0o700)
        first = next(port for port in free_ports(20) if port < 60000)
        text = CONFIGURATION.replace("HOST", socket.gethostname().split(".")[0]).replace("DIR", folder)
        for i in range(5):
            text = text.replace("PORT%d" % i, str(first + i))
        self.configuration = os.path.join(folder, "slurm.conf")
        with open(self.configuration, "w") as file:
            file.write(text)
        self.env = dict(CLEAN, SLURM_CONF=self.configuration)
        key = os.path.join(folder, "munge/key")
        with open(key, "wb") as file:
            file.write(os.urandom(128))
        os.chmod(key, 0o600)
        self.begin("munged", "-F", "--force", "-S", folder + "/munge/socket", "--key-file", key, "--pid-file",
                   folder + "/munge/pid", "--seed-file", folder + "/munge/seed", "--log-file", folder + "/munge/log")
        self.until("munged", lambda: os.path.exists(folder + "/munge/socket"))
        self.begin("slurmctld", "-D")
        for i in range(1, 5):
            self.begin("slurmd", "-D", "-N", "n%d" % i)
        self.until("four idle nodes", lambda: "idle" == self.ask("sinfo", "-h", "-o", "%t") and
                   "4" == self.ask("sinfo", "-h", "-o", "%D"))

    def begin(self, *command):
        with open(os.path.join(self.folder, "said"), "a") as said:
            self.daemons.append(subprocess.Popen(command, env=self.env, stdout=said, stderr=said, stdin=subprocess.DEVNULL))

    def ask(self, *command):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def until(self, what, holds, seconds=60):
        for _ in range(seconds * 10):
            if holds():
                return
            time.sleep(0.1)
        logs = "".join(open(path, errors="replace").read()[-1500:] for path in glob.glob(self.folder + "/*.log"))
        sys.exit("slurm: waited %d s for %s\n%s" % (seconds, what, logs))

    def end(self):
        self.ask("scancel", "--signal=KILL", "--full", "--user=root")
        self.ask("scancel", "--user=root")
        for _ in range(100):
            if self.ask("squeue", "-h") == "":
                break
            time.sleep(0.1)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=3)
            except subprocess.TimeoutExpired:
                daemon.kill()


def srun(cluster, what, arguments, command, code=0):
    done = subprocess.run(["srun", *arguments, *command], env=cluster.env, capture_output=True, text=True, timeout=120)
    check(done.returncode == code, "%s: exit code %d: %s" % (what, done.returncode, done.stderr[-1500:]))
    return done.stdout + done.stderr


def test_steps(cluster, tools):
    train = [tools[1], "pipe.plan", "--quiet", "--save"]
    srun(cluster, "a task a rank", ["-N", "1", "-n", str(RANKS)], [*train, "ranks"])
    same("a task a rank", "ranks")
    srun(cluster, "a task a host", ["-N", "1", "-n", "1", "-c", "4"], [*train, "host"])
    same("a task a host", "host")
    said = srun(cluster, "two hosts without GPUs", ["-N", "2", "--ntasks-per-node=2"], [*train, "hosts"], code=2)
    check("processors" in said or "GPU" in said, said)
    said = srun(cluster, "an uneven share", ["-N", "2", "-n", "3"], [*train, "uneven"], code=2)
    check("SLURM_STEP_TASKS_PER_NODE" in said, said)


def submit(cluster, name, text):
    with open(name, "w") as file:
        file.write(text)
    return cluster.ask("sbatch", "--parsable", name)


def state(cluster, job):
    return cluster.ask("squeue", "-h", "-j", job, "-o", "%T")


def test_script(cluster, tools):
    """Inside of a batch script, whose own variables are of no step: dtrun alone, and srun in it."""
    job = submit(cluster, "inside.sbatch", "#!/bin/sh\n#SBATCH -N 1 -n 4 -o inside.out\n%s pipe.plan --quiet --save script && "
                 "srun %s pipe.plan --quiet --save step && echo both\n" % (tools[1], tools[1]))
    cluster.until("the job", lambda: state(cluster, job) == "")
    check("both" in open("inside.out").read(), open("inside.out").read())
    same("the script alone", "script")
    same("srun in the script", "step")


def test_example(cluster, tools):
    """The example's script: the warning, a checkpoint, and again in the queue, until all steps are done."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../examples/slurm/train.sbatch")) as file:
        text = file.read()
    check(len(text.splitlines()) <= 25, "the example has more than 25 lines")
    for old, new in (("--nodes=2", "--nodes=1"), ("--ntasks-per-node=8", "--ntasks-per-node=4"), ("#SBATCH --gpus-per-node=8\n", ""),
                     ("dtrun my.plan", tools[1] + " pipe.plan --steps 100000000")):
        check(old in text, "the example has no `%s`" % old)
        text = text.replace(old, new)
    job = submit(cluster, "example.sbatch", text)
    cluster.until("step 1", lambda: os.path.exists("run.jsonl") and os.path.getsize("run.jsonl") > 1000)
    cluster.ask("scancel", "--signal=USR1", job)  # to the steps, as --signal of the script has it
    cluster.until("a checkpoint", lambda: glob.glob("run/step-*"), 30)
    first = sorted(glob.glob("run/step-*"))[-1]
    cluster.until("the queue", lambda: state(cluster, job) == "PENDING" and "Restarts=1" in cluster.ask("scontrol", "show", "job", job))
    cluster.ask("scontrol", "update", "JobId=" + job, "StartTime=now")  # Slurm waits for two minutes otherwise
    cluster.until("the second attempt", lambda: state(cluster, job) == "RUNNING")
    cluster.until("its progress", lambda: '"step":%d,' % (int(first[-8:]) + 5) in open("run.jsonl").read(), 60)
    cluster.ask("scancel", job)


def main(tools):
    if os.geteuid() or not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "srun"))):
        print("slurm: skipped: it needs root, slurm-wlm and munge")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        with open("pipe.dsl", "w") as file:
            file.write(NET + "  optimizer = adamw(lr = 0.01)\n  steps = %d\n}\n" % STEPS + CLUSTERS + PIPE)
        run([tools[0], "pipe.dsl", "--parallel", "pipe", "-o", "pipe.plan"])
        run(["env", "-i", tools[1], "pipe.plan", "--quiet", "--save", "alone"])
        cluster = Cluster(os.path.join(folder, "slurm"))
        try:
            for test in (test_steps, test_script, test_example):
                test(cluster, tools)
        finally:
            cluster.end()
    print("slurm: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:]]))
