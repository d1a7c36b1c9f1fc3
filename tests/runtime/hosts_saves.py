# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of ranks on several hosts:  hosts_saves.py DTC DTRUN few|all [COMM ...]

Hosts are network namespaces, as in hosts.py. Shares have several chunks.

  - ranks of two hosts (all: of four, too) save in each step while training goes on, and go on from these checkpoints, also
    under another layout: files are those of the same ranks on one host, to the last bit.
  - all hosts together read a checkpoint once.
  - a damaged chunk, a share that nobody wrote, a missing file: named, and the checkpoint before is taken.
  - a host that does not see the folder: the first one writes everything; who goes on is told that a host does not see it."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

import hosts
from runs import bytes_of, check, failures, saved

RANKS, STEPS, CHUNK = 4, 2, 4 << 20
PROGRAM = """include "std.dsl"
dim batch = 4, seq = 4, vocab = 64, embed = 256, mid = 1024, layers = 4
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + (up:linear[embed, mid](x) |> gelu |> down:linear[mid, embed]) }
  return out:linear[embed, vocab](x)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 1e-4)
  save = every(1)
  steps = %d
}
cluster here { gpus = %d; gpu = "cpu" }
""" % (STEPS, RANKS)
LAYOUTS = {
    "zero3": "mesh data = 4; shard batch on data; zero 3 on data",
    "pipe": "mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe; micro batch = 2",
    "data": "mesh data = 4; shard batch on data",
    "tensor": "mesh tensor = 4; shard mid on tensor",
}
FEW = ("zero3", "pipe")


def compile_plan(dtc, name):
    with open(name + ".dsl", "w") as file:
        file.write(PROGRAM + "parallel it on here { %s }\n" % LAYOUTS[name])
    done = subprocess.run([dtc, name + ".dsl", "-o", name + ".plan"], capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s" % (name, done.stdout + done.stderr))
    return name + ".plan"


def files_of(folder, step):
    return [bytes_of(os.path.join(folder, "step-%08d" % step, part + ".safetensors")) for part in ("model", "optimizer")]


def check_saves(what, folder, one):
    for step in range(1, STEPS + 1):
        check(files_of(folder, step) == files_of(one, step), "%s: other files after step %d" % (what, step))
    check(sorted(os.listdir(folder)) == sorted(os.listdir(one)), "%s leaves %s" % (what, os.listdir(folder)))


def check_layout(dtc, dtrun, name, names, address, comms):
    plan = compile_plan(dtc, name)
    one = name + ".one"
    if not os.path.exists(one):
        subprocess.run([dtrun, plan, "--quiet", "--save", one], check=True)
    check(2 * sum(map(len, files_of(one, 1))) > 3 * RANKS * CHUNK, "shares have few chunks")
    for comm in comms:
        what, many = "%s on %d hosts by %s" % (name, len(names), comm), "many"
        shutil.rmtree(many, ignore_errors=True)
        hosts.end(what, hosts.start(dtrun, plan, names, address, comm, "--save", many), [0] * len(names))
        check_saves(what, many, one)
        found = subprocess.run([dtc, "inspect", many, "--verify", "--json"], capture_output=True, text=True).stdout
        check(all(file["digests"] == "right" for file in json.loads(found)["files"]), "%s: digests: %s" % (what, found))
        print("ok", what, flush=True)
    return len(comms)


def check_moves(dtc, dtrun, source, target, names, address, comm):
    """What one layout has saved, another loads on several hosts, and saves as it is."""
    what = "%s to %s on %d hosts by %s" % (source, target, len(names), comm)
    plan = compile_plan(dtc, target)
    shutil.rmtree("again", ignore_errors=True)
    hosts.end(what, hosts.start(dtrun, plan, names, address, comm, "--resume", source + ".one", "--save", "again", "--steps", "0"),
              [0] * len(names))
    check(os.path.isdir("again") and tensors_of("again", STEPS) == tensors_of(source + ".one", STEPS), what + ": other tensors")
    print("ok", what, flush=True)
    return 1


def tensors_of(folder, step):
    return {name: tensor.tobytes() for name, tensor in saved(folder, step).items()}


def wrapped(dtrun, what_to_mount):
    """A program that begins as dtrun does, but sees another folder on node 1."""
    path = os.path.abspath("wrapped.sh")
    with open(path, "w") as file:
        file.write("#!/bin/sh\ncase \" $* \" in *\" --node 1 \"*)\n    exec unshare -m sh -c '%s && exec \"$@\"' sh %s \"$@\";; esac\n"
                   "exec %s \"$@\"\n" % (what_to_mount, dtrun, dtrun))
    os.chmod(path, 0o755)
    return path


def check_apart(dtrun, names, address, comm):
    """The hosts have folders of one name that are not the same."""
    if names[0] is None:
        print("skipped: no folders of a host's own", flush=True)
        return 0
    for folder in ("apart", "elsewhere"):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
    own = wrapped(dtrun, "mount --bind %s %s" % (os.path.abspath("elsewhere"), os.path.abspath("apart")))
    said = hosts.end("hosts with folders of their own", hosts.start(own, "zero3.plan", names, address, comm, "--save", "apart"),
                     [0] * len(names))
    check("apart is not the folder of node 0, so node 0 writes all" in said[0], said[0])
    check_saves("the first host", "apart", "zero3.one")
    check(os.listdir("elsewhere") == [], "the other host has %s" % os.listdir("elsewhere"))
    said = hosts.end("a host without a checkpoint", hosts.start(own, "zero3.plan", names, address, comm, "--resume", "apart"),
                     [5] * len(names))
    check("No such file" in said[0] and "host " in said[0], said[0])
    print("ok hosts with folders of their own", flush=True)
    return 2


def check_reads(dtrun, names, address, comm):
    """Each host reads from a copy of its own, so that what both read counts twice."""
    if names[0] is None:
        return 0
    shutil.rmtree("copy", ignore_errors=True)
    shutil.copytree("zero3.one", "copy")
    total = sum(map(len, files_of("copy", STEPS)))
    for folder in ("copy", "zero3.one"):
        for name in os.listdir(os.path.join(folder, "step-%08d" % STEPS)):
            fd = os.open(os.path.join(folder, "step-%08d" % STEPS, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    own = wrapped(dtrun, "mount --bind %s %s" % (os.path.abspath("copy"), os.path.abspath("zero3.one")))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
    hosts.end("two copies", hosts.start(own, "zero3.plan", names, address, comm, "--resume", "zero3.one", "--save", "again",
                                        "--overwrite", "--steps", "0"), [0] * len(names))
    read = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before) * 512
    if read == 0:
        print("skipped: this disk does not count what is read", flush=True)
        return 0
    # each host reads the headers of both files, with their chunks
    check(0.9 * total < read < 1.02 * total + 2 * CHUNK, "hosts read %.3f of a checkpoint" % (read / total))
    print("ok hosts read %.2f of a checkpoint" % (read / total), flush=True)
    return 1


def check_damage(dtrun, names, address, comm, n):
    """The newest checkpoint is not whole, in n ways."""
    def flip(folder):
        with open(folder + "/optimizer.safetensors", "r+b") as file:
            file.seek(CHUNK + 1000)
            byte = file.read(1)
            file.seek(CHUNK + 1000)
            file.write(bytes([byte[0] ^ 1]))

    def clear(folder):
        with open(folder + "/model.safetensors", "r+b") as file:
            file.seek(CHUNK)
            file.write(bytes(CHUNK))

    def remove(folder):
        os.remove(folder + "/optimizer.safetensors")

    for hurt, wanted in ((flip, "optimizer.safetensors is damaged: chunk 1, bytes 4194304 to"),
                         (clear, "model.safetensors is damaged: chunk 1, bytes 4194304 to"),
                         (remove, "optimizer.safetensors: No such file"))[:n]:
        shutil.rmtree("hurt", ignore_errors=True)
        shutil.copytree("zero3.one", "hurt")
        hurt("hurt/step-%08d" % STEPS)
        said = hosts.end(hurt.__name__, hosts.start(dtrun, "zero3.plan", names, address, comm, "--resume", "hurt"), [0] * len(names))
        check("is passed over: " in said[0] and wanted in said[0], said[0])
        check_saves(hurt.__name__, "hurt", "zero3.one")
        print("ok %s: the one before is taken" % hurt.__name__, flush=True)
    return n


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    is_all, n = sys.argv[3] == "all", 0
    comms = [comm for comm in sys.argv[4:] if comm != "ucx" or hosts.has_ucx()]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for count in (2, 4) if is_all else (2,):
            with hosts.hosts(count) as (names, address):
                layouts = list(LAYOUTS if is_all else FEW)
                for name in layouts:
                    n += check_layout(dtc, dtrun, name, names, address, comms)
                for i, name in enumerate(layouts if is_all else layouts[1:], len(layouts) if is_all else 1):
                    n += check_moves(dtc, dtrun, layouts[(i - 1) % len(layouts)], name, names, address, comms[i % len(comms)])
                if count == 2:
                    n += check_apart(dtrun, names, address, comms[0])
                    n += check_reads(dtrun, names, address, comms[0])
                    n += check_damage(dtrun, names, address, comms[-1], 3 if is_all else 1)
    print("%d passed, %d failed" % (n, len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
