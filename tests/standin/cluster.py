# SPDX-License-Identifier: Apache-2.0
"""A run over several machines, all of them this one, on stand-ins of CUDA's libraries:  cluster.py DTC DTRUN [KIND]

Layouts whose ranks are cut over two or four nodes have the losses, checkpoints, exports and counts of the same ranks on one, also when
they go on from a checkpoint. `failures`: a rank or a whole node ends, Ctrl-C on either node, a restart, another plan or number, a node that
does not come, and strangers at the port where the nodes meet."""

import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from nccl import ONE_BY_ONE, compile_plan
from training import ROOT, bytes_of, numbers

sys.path.insert(0, os.path.join(ROOT, "tests/runtime"))
from layouts import PROGRAM  # noqa: E402

STEPS = 4
KEY = os.environ["DTRUN_KEY"] = "the key of these tests"
NAMES = """names file on gpt {
  "wte"[vocab, embed] = wte
  "h.{h}.q"[o, embed] = h.attention.wq.w[(heads, head) -> o]
  "h.{h}.up"[ffn, embed] = h.mlp.up.w
  "norms"[embed, h] = h.ln1.gain
  initial "*"
}
"""
LAYOUTS = {  # ranks, nodes, layout
    "data": (4, 2, "mesh data = 4; shard batch on data; zero 2 on data"),
    "tensor": (4, 2, "mesh data = 2, tensor = 2; shard batch on data; shard heads, ffn on tensor; zero 1 on data"),
    "across": (4, 2, "mesh tensor = 2, data = 2; shard batch on data; shard heads, ffn on tensor"),
    "pipes": (4, 4, 'mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 4; '
                    "zero 1 on data"),
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def begin(dtrun, plan, nodes, ranks, arguments, port=None, node=None, standin=None, small_files=None, folder=None, key=KEY):
    """Starts one dtrun for each node, or only for one of them."""
    port = port or free_port()
    started = []
    for i in range(nodes) if node is None else [node]:
        env = dict(os.environ, DT_STANDIN="gpus=%d host=%d %s" % (ranks // nodes, i, (standin or {}).get(i, "")), DTRUN_KEY=key)
        started.append(subprocess.Popen([dtrun, plan, "--nodes", str(nodes), "--node", str(i), "--meet", "127.0.0.1:%d" % port,
                                         *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=folder,
                                        preexec_fn=limit_files if i == small_files else None))
    return started


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def ranks_of(process):
    return [int(pid) for pid in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()]


def end(started, wants, said=None):
    outputs = [process.communicate(timeout=240)[0] for process in started]
    codes = [process.returncode for process in started]
    assert codes == wants, "exit codes %s instead of %s\n%s" % (codes, wants, "\n".join(outputs))
    for output, wanted in zip(outputs, said or []):
        assert re.search(wanted, output), "said %s instead of %s" % (output, wanted)
    return outputs


def options(name, steps):
    return ["--quiet", "--overwrite", "--steps", str(steps), "--log", name + ".log", "--save", name]


def saved(name, steps):
    folder = os.path.join(name, "step-%08d" % steps)
    return [bytes_of(os.path.join(folder, file)) for file in ("model.safetensors", "optimizer.safetensors")]


def check(dtc, dtrun, name, ranks, nodes, layout):
    plan = compile_plan(dtc, PROGRAM + NAMES + ONE_BY_ONE % (ranks, name, layout), name)
    env = dict(os.environ, DT_STANDIN="gpus=%d" % ranks)
    subprocess.run([dtrun, plan, *options("one", STEPS), "--export", name + ".one"], env=env, check=True)
    end(begin(dtrun, plan, nodes, ranks, [*options("all", STEPS), "--export", name + ".all"]), [0] * nodes)
    assert len(set(bytes_of(f"{name}.{of}/model.safetensors") for of in ("one", "all"))) == 1, name + ": exports differ"
    assert numbers("all.log") == numbers("one.log") and len(numbers("one.log")) == STEPS, (numbers("all.log"), numbers("one.log"))
    assert saved("all", STEPS) == saved("one", STEPS), name + ": checkpoints differ"
    end(begin(dtrun, plan, nodes, ranks, options("half", 2)), [0] * nodes)
    end(begin(dtrun, plan, nodes, ranks, ["--quiet", "--steps", str(STEPS), "--resume", "half"]), [0] * nodes)
    assert saved("half", STEPS) == saved("one", STEPS), name + ": going on differs"
    if name == "data":
        end(begin(dtrun, plan, nodes, ranks, [*options("all", STEPS), "--windows"]), [0] * nodes)
        assert saved("all", STEPS) == saved("one", STEPS), name + ": with windows checkpoints differ"
    print("ok", name, flush=True)


def kubernetes_command():
    """The command of the example's job, with the variables that it sets; Kubernetes adds JOB_COMPLETION_INDEX."""
    with open(os.path.join(ROOT, "examples/kubernetes/job.yaml")) as file:
        text = file.read()
    assert len(text.splitlines()) <= 25, "examples/kubernetes/job.yaml has more than 25 lines"
    command = re.search(r'command: \[sh, -c, "(.*)"\]', text).group(1)
    return command, dict(re.findall(r'\{name: (\w+), value: "?([^}"]+)"?\}', text))


def check_tasks(dtc, dtrun):
    """Tasks of launchers on two hosts: one for each rank, one for each host, and those of the example for Kubernetes."""
    ranks, hosts, layout = LAYOUTS["tensor"]
    plan = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (ranks, "tasks", layout), "tasks")
    subprocess.run([dtrun, plan, *options("one", STEPS)], env=dict(os.environ, DT_STANDIN="gpus=%d" % ranks), check=True)
    for share, numbers_of in ((ranks // hosts, lambda task, here: {"RANK": task, "LOCAL_RANK": here, "WORLD_SIZE": ranks,
                                                                   "LOCAL_WORLD_SIZE": ranks // hosts}),
                              (1, lambda task, here: {"RANK": task, "WORLD_SIZE": hosts}),
                              (ranks // hosts, lambda task, here: {
                                  "SLURM_PROCID": task, "SLURM_STEP_NUM_TASKS": ranks, "SLURM_LOCALID": here, "SLURM_NODEID": task // 2,
                                  "SLURM_STEP_NUM_NODES": hosts, "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_ID": 1})):
        port, started = free_port(), []
        for task in range(share * hosts):
            env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **numbers_of(task, task % share),
                   "DT_STANDIN": "gpus=%d host=%d" % (ranks // hosts, task // share)}
            started.append(subprocess.Popen([dtrun, plan, *options("all", STEPS)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                            text=True, env=dict(os.environ, **{name: str(value) for name, value in env.items()})))
        end(started, [0] * len(started))
        assert saved("all", STEPS) == saved("one", STEPS), "tasks: checkpoints differ"
        shutil.rmtree("all")
    command, variables = kubernetes_command()
    variables.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    command = command.replace("dtrun my.plan", "%s %s --quiet --steps %d" % (dtrun, plan, STEPS)).replace(" run", " all")
    started = [subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=dict(os.environ, **variables, JOB_COMPLETION_INDEX=str(i), DT_STANDIN="gpus=2 host=%d" % i))
               for i in range(hosts)]
    end(started, [0] * hosts)
    assert saved("all", STEPS) == saved("one", STEPS), "Kubernetes: checkpoints differ"
    print("ok tasks of launchers", flush=True)


def wait_for(path, steps):
    for _ in range(2000):
        if os.path.exists(path):
            with open(path) as file:
                if len(re.findall(r'"event": *"step"', file.read())) >= steps:
                    return
        time.sleep(0.05)
    sys.exit("%s never had %d steps" % (path, steps))


def check_stop(dtrun, plan, node, which):
    """Ctrl-C on any node: all nodes finish the step and save it."""
    name = "stopped%d" % node
    started = begin(dtrun, plan, 2, 4, options(name, 100000))
    wait_for(name + ".log", 3)
    started[node].send_signal(which)
    end(started, [130, 130])
    steps = len(numbers(name + ".log"))
    assert 3 <= steps < 100000 and len(saved(name, steps)) == 2
    print("ok", which.name, "on node", node, flush=True)


def check_failures(dtc, dtrun):
    ranks, nodes, layout = LAYOUTS["data"]
    plan = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (ranks, "data", layout), "data")
    other = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (ranks, "other", "mesh data = 4; shard batch on data"), "other")
    for node in (0, 1):
        check_stop(dtrun, plan, node, signal.SIGINT)
    end(begin(dtrun, plan, 2, 4, options("dead", STEPS), standin={1: "only=1 die=60"}), [75, 75],
        [r"node 1: rank 3 was ended by signal 9 \(Killed\).*\n +(in step|before its)", r"rank 3 was ended by signal 9"])
    print("ok a rank ends", flush=True)
    end(begin(dtrun, plan, 2, 4, options("faulty", STEPS), standin={0: "only=0 fault=60"}), [1, 1],
        [r"rank 0 failed: the GPU failed", r"node 0: rank 0 failed: the GPU failed .*\n.*instruction \d+ \(kernel"])
    print("ok a GPU fails", flush=True)

    started = begin(dtrun, plan, 2, 4, options("gone", 100000))
    wait_for("gone.log", 2)
    started[1].kill()
    end(started, [75, -9], [r"node 1: it has gone: its dtrun has ended, or the network to it"])
    print("ok a node ends", flush=True)

    started = begin(dtrun, plan, 2, 4, [*options("again", 10), "--set", "save.every=2", "--restarts", "2"])
    wait_for("again.log", 5)
    os.kill(ranks_of(started[1])[0], signal.SIGKILL)
    outputs = end(started, [0, 0], [r"node 1: rank [23] was ended by signal 9(.|\n)*starting again \(1 of 2\) from the checkpoint after \d+ steps"])
    assert len(saved("again", 10)) == 2, outputs
    print("ok a restart", flush=True)
    started = begin(dtrun, plan, 2, 4, [*options("stopping", 100000), "--restarts", "2"])
    wait_for("stopping.log", 2)
    # and Ctrl-C after the first, before the other ranks have ended
    os.kill(ranks_of(started[1])[1], signal.SIGKILL)
    started[1].send_signal(signal.SIGINT)
    outputs = end(started, [75, 75])
    assert "starting again" not in outputs[0] + outputs[1], outputs
    print("ok Ctrl-C after a failure", flush=True)

    end(begin(dtrun, plan, 2, 4, options("small", STEPS), small_files=1), [4, 4],
        [r"node 1: cannot create \d+ bytes of shared memory", r"cannot create \d+ bytes of shared memory"])
    print("ok a node that cannot start", flush=True)
    check_four(dtc, dtrun)
    check_data(dtc, dtrun)
    check_meeting(dtrun, plan, other)
    return 13


def check_four(dtc, dtrun):
    ranks, nodes, layout = LAYOUTS["pipes"]
    plan = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (ranks, "pipes", layout), "pipes")
    started = begin(dtrun, plan, 4, 4, options("four", 100000))
    wait_for("four.log", 2)
    began = time.time()
    started[2].kill()
    gone = "node 2: it has gone"
    end(started, [75, 75, -9, 75], [gone, gone, "", gone])
    assert time.time() - began < 30
    print("ok one of four nodes ends", flush=True)
    started = begin(dtrun, plan, 4, 4, options("quiet", 100000))
    wait_for("quiet.log", 2)
    os.kill(ranks_of(started[1])[0], signal.SIGSTOP)
    end(started, [75, 75, 75, 75], ["node 1: rank 1 is stopped", "rank 1 is stopped and has made no progress"])
    print("ok a rank of one of four nodes is stopped", flush=True)


def check_predictions(dtrun, plan, ranks, nodes):
    """What the model predicts over two nodes has the bytes that it has on one; both read the same files."""
    for place, first in (("", 0), ("elsewhere/", 1)):
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (11, 16), }\n"
        with open(place + "ids.npy", "wb") as file:
            file.write(b"\x93NUMPY\1\0" + bytes([len(header), 0]) + header + bytes((first + 5 * i) % 61 for i in range(176)))
    predict = ["--quiet", "--resume", os.path.abspath("read"), "--predict", "ids.npy", "--out"]
    subprocess.run([dtrun, plan, *predict, "one.npy"], env=dict(os.environ, DT_STANDIN="gpus=%d" % ranks), check=True)
    end(begin(dtrun, plan, nodes, ranks, [*predict, "all.npy"]), [0, 0])
    assert bytes_of("one.npy") == bytes_of("all.npy") and len(bytes_of("all.npy")) > 11 * 16 * 61 * 4
    port = free_port()
    end(begin(dtrun, plan, nodes, ranks, [*predict, "other.npy"], port, 0) +
        begin(dtrun, plan, nodes, ranks, [*predict, "other.npy"], port, 1, folder="elsewhere"), [5, 5],
        ["reads other contents of ids.npy than rank 0"] * 2)
    assert not os.path.exists("other.npy")
    print("ok predictions over nodes", flush=True)


def check_changed(run_both):
    """A file of node 1 that is another one when the ranks start again."""
    shutil.copy("tokens.bin", "elsewhere/tokens.bin")
    started = run_both("elsewhere/", *options("changed", 100000), "--restarts", "1")
    wait_for("changed.log", 2)
    with open("elsewhere/other.bin", "wb") as file:
        file.write(bytes(2001))
    os.rename("elsewhere/other.bin", "elsewhere/tokens.bin")
    os.kill(ranks_of(started[0])[0], signal.SIGKILL)
    end(started, [5, 5], ["starting again", r"`tokens` reads 2001 bytes on node 1 \(.*\) and 2000 bytes on node 0"])


def check_data(dtc, dtrun):
    """Each node reads its own files: they must be the same as those of node 0, and as those of the
    checkpoint."""
    ranks, nodes, layout = LAYOUTS["data"]
    source = 'next_token(bin("tokens.bin", u8))\n  loss'
    text = PROGRAM.replace("next_token(synthetic(0, vocab))\n  loss", source)
    assert text != PROGRAM
    for place, first in (("", 0), ("elsewhere/", 1)):
        if place:
            os.mkdir(place)
        with open(place + "tokens.bin", "wb") as file:
            file.write(bytes((first + 7 * i) % 61 for i in range(2000)))
    plan = compile_plan(dtc, text + ONE_BY_ONE % (ranks, "files", layout), "files")
    shutil.copy(plan, "elsewhere")

    def refused(started, values):
        """Node 1 ends; node 0 waits on for a node with its data."""
        end(started[1:], [2], [r"node 1 on \S+ has other data than node 0 on \S+ %s: all nodes need the same files" % values])
        started[0].send_signal(signal.SIGINT)
        end(started[:1], [130], ["refused: node 1 on .* has other data"])

    def run_both(second, *arguments):
        port = free_port()
        return begin(dtrun, plan, nodes, ranks, list(arguments), port, 0) + \
            begin(dtrun, second + plan, nodes, ranks, list(arguments), port, 1)

    end(run_both("", *options("read", 1)), [0, 0])
    refused(run_both("elsewhere/", *options("other", 1)), r"\(2000 bytes, \w{16}, there 2000 bytes, \w{16}\)")
    check_predictions(dtrun, plan, ranks, nodes)
    resumed = ["--quiet", "--resume", "read"]
    other = "`tokens` reads other data .*than when read/step-00000001 was saved: other contents"
    end(run_both("elsewhere/", *resumed), [5, 5], ["node 1: .*" + other, other])
    with open("elsewhere/tokens.bin", "ab") as file:
        file.write(b"1")
    refused(run_both("elsewhere/", *options("longer", 1)), r"\(2001 bytes, \w{16}, there 2000 bytes, \w{16}\)")
    check_changed(run_both)
    print("ok files of nodes differ", flush=True)


def check_meeting(dtrun, plan, other):
    port = free_port()
    first = begin(dtrun, plan, 2, 4, options("met", STEPS), port, 0)
    end(begin(dtrun, other, 2, 4, ["--quiet"], port, 1), [2], [r"node 1 on \S+ has another plan than node 0 on \S+ \(\w{16}, there \w{16}\): all nodes need the same file"])
    end(begin(dtrun, plan, 4, 4, options("met", STEPS), port, 1), [2], [r"node 1 on \S+ has another number of nodes than node 0 on \S+ \(4, there 2\)"])
    end(begin(dtrun, plan, 2, 4, options("met", STEPS)[:-2], port, 1), [2], [r"has other options than node 0 on .*: all nodes need the same ones, but for --node"])
    end(begin(dtrun, plan, 2, 4, options("met", STEPS), port, 1, key="some other text of a key"), [2],
        ["closed the connection without a word, as to a program with another key; all nodes need the same DTRUN_KEY"])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    for _ in range(20):  # unknown programs that connect
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(bytes(random.randrange(256) for _ in range(random.randrange(2000))))
    second = begin(dtrun, os.path.abspath(plan), 2, 4, options("met", STEPS), port, 1)
    end(first + second, [0, 0], ["(?s)refused: node 1 on .* another plan.*a program on 127.0.0.1 was refused: it knows another key"])
    for stranger in silent:
        stranger.close()
    waiting = begin(dtrun, plan, 2, 4, options("alone", STEPS), node=0)
    time.sleep(6)
    waiting[0].send_signal(signal.SIGINT)
    end(waiting, [130], [r"waits for node 1 of 2, which are to be started with --meet 127\.0\.0\.1:\d+(.|\n)*stopped while it waited"])
    waiting = begin(dtrun, plan, 2, 4, ["--quiet"], node=1)
    time.sleep(6)
    waiting[0].send_signal(signal.SIGTERM)
    end(waiting, [130], [r"waits for node 0 at 127\.0\.0\.1:\d+ \(Connection refused\)(.|\n)*stopped while it waited"])
    for arguments, wanted in (
            (["--nodes", "2", "--node", "0"], "--nodes 2 needs --meet HOST:PORT"),
            (["--nodes", "2", "--node", "2", "--meet", "a:1"], "needs --node I on each machine, from 0 to 1"),
            (["--nodes", "3", "--node", "0", "--meet", "a:1"], "the plan has 4 ranks, which are not the same number on each of 3 nodes"),
            (["--nodes", "1", "--node", "1", "--meet", "a:1"], "needs --node I on each machine, from 0 to 0"),
            (["--node", "1"], "--node and --meet are of a run over several machines"),
            (["--nodes", "2", "--node", "0", "--meet", "a"], "`a` is no place where machines can meet"),
            (["--nodes", "2", "--node", "0", "--meet", "a:99999"], "no place where machines can meet"),
            (["--nodes", "2", "--node", "0", "--meet", "a:1", "--comm", "shm"], "have a GPU each and talk by NCCL")):
        done = subprocess.run([dtrun, plan, "--quiet", *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and wanted in done.stderr, (arguments, done)
    print("ok meeting", flush=True)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    kinds = sys.argv[3:] or ["layouts", "failures"]  # `few`: only two of the layouts
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in LAYOUTS if "layouts" in kinds else ("data", "pipes") if "few" in kinds else ():
            check(dtc, dtrun, name, *LAYOUTS[name])
            n += 1
        if "few" in kinds:
            check_tasks(dtc, dtrun)
            n += 1
        if "failures" in kinds:
            n += check_failures(dtc, dtrun)
    print("%d passed, 0 failed" % n)


if __name__ == "__main__":
    main()
