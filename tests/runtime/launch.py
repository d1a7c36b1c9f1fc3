#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks of launchers:  launch.py DTC DTRUN

Tasks that torchrun, Open MPI, MPICH or Slurm start (here with their variables, and by mpirun where it is installed) are one
run, a task for each rank or one for the host, with the bits of `dtrun` alone. Variables that contradict each other, or the
plan, are refused and quoted. A signal to any task stops the run with a common checkpoint; a task that is killed ends it, and
nothing is left behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from runs import CLUSTERS, NET, PIPE, bytes_of, check, failures, run, write_tokens

CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith(("OMPI_", "PMI", "MPI_", "SLURM_", "MASTER_", "LOCAL_", "WORLD_")) and name != "RANK"}
NAMES = {  # by launcher: variables of a task's number, how many there are, the same on the host; others
    "env": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}),
    "openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "9"}),
    "mpich": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {}),
    "slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", None,
              {"SLURM_STEP_ID": "3", "SLURM_JOB_ID": "17", "SLURM_NODEID": "0", "SLURM_STEP_NUM_NODES": "1",
               "SLURM_STEP_NODELIST": "n1"}),
}
RANKS, STEPS = 4, 8


def variables(kind, task, tasks):
    number, count, here, on_host, more = NAMES[kind]
    env = {number: str(task), count: str(tasks), here: str(task), **more}
    if on_host:
        env[on_host] = str(tasks)
    else:
        env["SLURM_STEP_TASKS_PER_NODE"] = str(tasks)
    return dict(CLEAN, **env)


def start(kind, tools, *options, plan="pipe.plan", tasks=RANKS, wrap=False):
    command = [tools[1], plan, "--quiet", *options]
    if wrap:  # a shell between launcher and task
        command = ["sh", "-c", '"$@"; exit $?', "sh"] + command
    return [subprocess.Popen(command, env=variables(kind, i, tasks), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for i in range(tasks)]


def end(what, started, code):
    said = [task.communicate(timeout=100)[0] for task in started]
    check([task.returncode for task in started] == [code] * len(started),
          "%s: exit codes %s, not %d: %s" % (what, [task.returncode for task in started], code, said))
    return "".join(said)


def same(what, folder, step=STEPS):
    for name in ("model", "optimizer"):
        path = "step-%08d/%s.safetensors" % (step, name)
        check(bytes_of("%s/%s" % (folder, path)) == bytes_of("alone/" + path), "%s: %s has other bits" % (what, path))


def test_launchers(tools):
    run([tools[1], "pipe.plan", "--quiet", "--save", "alone", "--launch", "local"])
    for kind in NAMES:
        end(kind, start(kind, tools, "--save", kind, wrap=kind == "mpich"), 0)
        same(kind, kind)
        end(kind, start(kind, tools, "--save", kind + "1", tasks=1), 0)
        same(kind + ", one task", kind + "1")
    found = False
    for program, options in (("mpirun.openmpi", ["--allow-run-as-root", "--oversubscribe"]), ("mpirun.mpich", [])):
        if shutil.which(program):
            found = True
            subprocess.run([program, *options, "-n", str(RANKS), tools[1], "pipe.plan", "--quiet", "--save", program],
                           env=CLEAN, check=True, timeout=100)
            same(program, program)
    if not found:
        print("launch: no mpirun here: its variables only")


def test_refused(tools):
    """Each of these ends with 2, and quotes what is wrong."""
    torch = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    step = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_STEP_NUM_NODES": "1",
            "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "5"}
    ompi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    cases = [
        (torch, {"RANK": "x"}, "RANK=x is no count"), (torch, {"RANK": "-1"}, "RANK=-1 is no count"),
        (torch, {"RANK": "99999999999999999999"}, "is no count"), (torch, {"RANK": "4"}, "RANK=4 and WORLD_SIZE=4"),
        (torch, {"RANK": None}, "WORLD_SIZE is set and RANK is not"), (torch, {"WORLD_SIZE": None}, "RANK is set and WORLD_SIZE is not"),
        (torch, {"WORLD_SIZE": "0"}, "RANK=1 and WORLD_SIZE=0"), (torch, {"LOCAL_RANK": "4"}, "LOCAL_RANK=4 and LOCAL_WORLD_SIZE=4"),
        (torch, {"LOCAL_WORLD_SIZE": "0"}, "WORLD_SIZE=4 and LOCAL_WORLD_SIZE=0"),
        (torch, {"LOCAL_WORLD_SIZE": "3"}, "WORLD_SIZE=4 and LOCAL_WORLD_SIZE=3"),
        (torch, {"LOCAL_WORLD_SIZE": None}, "LOCAL_RANK=1 without LOCAL_WORLD_SIZE"),
        (torch, {"LOCAL_RANK": "0"}, "RANK=1 and LOCAL_RANK=0"), (torch, {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, "there are 2 tasks"),
        (torch, {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, "there are 8 tasks"),
        (torch, {"LOCAL_WORLD_SIZE": "2"}, "MASTER_ADDR"), (torch, {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "0"},
                                                            "MASTER_PORT=0 is no port"),
        (torch, {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "port"}, "MASTER_PORT=port is no count"),
        (ompi, {"OMPI_COMM_WORLD_SIZE": None}, "OMPI_COMM_WORLD_RANK is set"), (ompi, {"OMPI_COMM_WORLD_LOCAL_RANK": "0"}, "--map-by slot"),
        (ompi, {"OMPI_COMM_WORLD_SIZE": "6"}, "OMPI_COMM_WORLD_SIZE=6 and OMPI_COMM_WORLD_LOCAL_SIZE=4"),
        (step, {"SLURM_STEP_TASKS_PER_NODE": "2(x2),1"}, "SLURM_STEP_TASKS_PER_NODE=2(x2),1: hosts have different"),
        (step, {"SLURM_STEP_TASKS_PER_NODE": "4(x1"}, "SLURM_STEP_TASKS_PER_NODE=4(x1: hosts have different"),
        (step, {"SLURM_STEP_TASKS_PER_NODE": "many"}, "hosts have different"), (step, {"SLURM_NODEID": "1"}, "SLURM_PROCID=1 and SLURM_NODEID=1"),
        (step, {"SLURM_STEP_NUM_NODES": "2"}, "SLURM_STEP_NUM_TASKS=4 and SLURM_STEP_NUM_NODES=2"),
        (step, {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "3"}, "there are 3 tasks"),
    ]
    for base, changes, text in cases:
        env = dict(CLEAN, **{name: value for name, value in dict(base, **changes).items() if value is not None})
        done = subprocess.run([tools[1], "pipe.plan", "--quiet"], env=env, capture_output=True, text=True, timeout=50)
        check(done.returncode == 2 and text in done.stderr, "%s: %d, %s" % (changes, done.returncode, done.stderr))
    for options, text in ((("--launch", "slurm"), "has none of its variables"), (("--launch", "pbs"), "wants local, env, mpi or slurm"),
                          (("--launch", "env", "--nodes", "2"), "--launch and --nodes exclude each other"),
                          (("--launch", "env", "--show-samples", "1"), "--launch and --show-samples exclude each other")):
        said = run(["env", "-i", tools[1], "pipe.plan", *options], wants=2)
        check(text in said, "%s: %s" % (options, said))


def test_ignored(tools):
    """A batch script has variables of its job, but is no step; --launch local and a later launcher count before them."""
    job = dict(CLEAN, SLURM_PROCID="0", SLURM_NTASKS="9", SLURM_JOB_ID="4", SLURM_STEP_NUM_TASKS="9")
    for env, options in ((job, ()), (variables("env", 0, 9), ("--launch", "local"))):
        done = subprocess.run([tools[1], "pipe.plan", "--quiet", "--steps", "1", *options], env=env, capture_output=True, text=True)
        check(done.returncode == 0, "%s: %s" % (options, done.stderr))


def until(what, holds):
    for _ in range(400):
        if holds():
            return
        time.sleep(0.05)
    check(False, "waited 20 s for " + what)


def long_run(kind, tools, folder):
    """Starts a run that does not end by itself, and returns it when it trains."""
    started = start(kind, tools, "--steps", "100000000", "--save", folder, "--log", folder + ".jsonl")
    until("step 1 of " + folder, lambda: os.path.exists(folder + ".jsonl") and os.path.getsize(folder + ".jsonl") > 1000)
    return started


def ranks_of(task):
    return [int(pid) for pid in subprocess.run(["pgrep", "-P", str(task.pid)], capture_output=True, text=True).stdout.split()]


def test_signals(tools):
    for number, (name, which) in enumerate(((signal.SIGTERM, (2,)), (signal.SIGUSR1, range(RANKS)))):
        folder = "stopped%d" % number
        started = long_run("slurm", tools, folder)
        for i in which:
            started[i].send_signal(name)
        said = end("%s to %s" % (name, list(which)), started, 130)
        check(said.count("the ranks finish their step and save") == 1, said)
        check(len([entry for entry in os.listdir(folder) if entry.startswith("step-")]) == 1, "%s: %s" % (folder, os.listdir(folder)))


def test_killed(tools):
    started = long_run("env", tools, "killed")
    ranks = ranks_of(started[0])
    check(len(ranks) == RANKS, "the first task has %d ranks" % len(ranks))
    started[3].kill()
    said = [task.communicate(timeout=50)[0] for task in started]
    check([task.returncode for task in started] == [75, 75, 75, -9], "a killed task: %s" % [task.returncode for task in started])
    check("task 3 of this host has ended" in said[0], said[0])
    started = long_run("env", tools, "headless")
    ranks = ranks_of(started[0])
    started[0].kill()
    for task in started:
        task.communicate(timeout=50)
    check([task.returncode for task in started] == [-9, 75, 75, 75], "no first task: %s" % [task.returncode for task in started])
    until("the ranks to end", lambda: not any(os.path.exists("/proc/%d" % pid) for pid in ranks))


def test_differ(tools):
    """A task with other words ends all, also those that come after it."""
    started = {}
    for i in (0, 3, 1, 2):
        started[i] = subprocess.Popen([tools[1], "pipe.plan", "--quiet", "--steps", str(3 + i // 3)], env=variables("env", i, RANKS),
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if i == 3:
            check(started[3].wait(timeout=50) == 2, "a task with other words: %d" % started[3].returncode)
    said = end("other words", [started[i] for i in range(RANKS)], 2)
    check("has another command line than task 0" in said, said)


def test_two_runs(tools):
    """Runs that one process starts at once: with a MASTER_PORT each they are apart; else the error says that they need it."""
    def begin(task, steps, port):
        return subprocess.Popen([tools[1], "pipe.plan", "--quiet", "--steps", str(steps)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=dict(variables("env", task, RANKS), MASTER_PORT=str(port)))
    started = [begin(task, 2 + run_of, 29511 + run_of) for task in range(RANKS) for run_of in (0, 1)]
    end("two runs", started, 0)
    first = begin(0, 2, 29511)
    until("the first task", lambda: "@dtrun.%d.%d." % (os.getuid(), os.getpid()) in open("/proc/net/unix").read())
    said = end("a second first task", [begin(0, 3, 29511)], 75)
    check("need a MASTER_PORT each" in said, said)
    first.kill()
    first.communicate(timeout=50)


def sockets_of_tasks():
    with open("/proc/net/unix") as file:
        return {line.split()[-1] for line in file if "@dtrun." in line}


def test_silent(tools):
    """Processes of the same user that connect and say nothing delay no task."""
    def begin(task):
        return subprocess.Popen([tools[1], "pipe.plan", "--quiet", "--steps", "1"], env=variables("mpich", task, RANKS),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    before = sockets_of_tasks()
    first = begin(0)
    until("the first task", lambda: sockets_of_tasks() - before)
    silent = []
    for name in sockets_of_tasks() - before:
        for _ in range(40):
            silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            silent[-1].connect("\0" + name[1:])
        silent[-1].send(b"half of a hello")
    began = time.time()
    end("silent processes", [first] + [begin(i) for i in range(1, RANKS)], 0)
    check(len(silent) >= 40 and time.time() - began < 20, "%d silent processes: %.1f s" % (len(silent), time.time() - began))
    for one in silent:
        one.close()


def test_processors(tools):
    """A rank has the processors of its task."""
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < 2:
        print("launch: one processor: whether ranks have those of their tasks is not tested")
        return
    started = []
    for i in range(RANKS):
        os.sched_setaffinity(0, {mine[i % 2]})
        started += [subprocess.Popen([tools[1], "pipe.plan", "--quiet", "--steps", "100000000", "--log", "bound.jsonl"],
                                     env=variables("env", i, RANKS), stderr=subprocess.DEVNULL)]
    os.sched_setaffinity(0, set(mine))
    until("step 1", lambda: os.path.exists("bound.jsonl") and os.path.getsize("bound.jsonl") > 1000)
    got = [sorted(os.sched_getaffinity(pid)) for pid in sorted(ranks_of(started[0]))]
    check(got == [[mine[i % 2]] for i in range(RANKS)], "ranks have processors %s of %s" % (got, mine))
    started[0].terminate()
    for task in started:
        task.wait(timeout=50)


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        text = NET + "  optimizer = adamw(lr = 0.01)\n  steps = %d\n}\n" % STEPS + CLUSTERS + PIPE
        with open("pipe.dsl", "w") as file:
            file.write(text)
        run([tools[0], "pipe.dsl", "--parallel", "pipe", "-o", "pipe.plan"])
        for test in (test_launchers, test_refused, test_ignored, test_signals, test_killed, test_differ, test_two_runs, test_silent,
                     test_processors):
            test(tools)
    print("launch: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:]]))
