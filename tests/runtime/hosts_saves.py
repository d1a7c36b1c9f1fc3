# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of ranks on several hosts:  hosts_saves.py DTC DTRUN few|all [COMM ...]

Hosts are network namespaces, as in hosts.py. Shares have several chunks. Ranks of two hosts (all: four, too) save in each step while
training goes on; files are those of the same ranks on one host, to the last bit."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import hosts
from runs import bytes_of, check, failures

RANKS, STEPS = 4, 2
PROGRAM = """include "std.dsl"
dim batch = 4, seq = 4, vocab = 64, embed = 320, mid = 1280, layers = 4
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
    check(sum(map(len, files_of(one, 1))) > 2 * RANKS << 22, "shares have few chunks")
    for comm in comms:
        what, many = "%s on %d hosts by %s" % (name, len(names), comm), "many"
        shutil.rmtree(many, ignore_errors=True)
        hosts.end(what, hosts.start(dtrun, plan, names, address, comm, "--save", many), [0] * len(names))
        check_saves(what, many, one)
        found = subprocess.run([dtc, "inspect", many, "--verify", "--json"], capture_output=True, text=True).stdout
        check(all(file["digests"] == "right" for file in json.loads(found)["files"]), "%s: digests: %s" % (what, found))
        print("ok", what, flush=True)
    return len(comms)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    is_all, n = sys.argv[3] == "all", 0
    comms = [comm for comm in sys.argv[4:] if comm != "ucx" or hosts.has_ucx()]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for count in (2, 4) if is_all else (2,):
            with hosts.hosts(count) as (names, address):
                for name in LAYOUTS if is_all else FEW:
                    n += check_layout(dtc, dtrun, name, names, address, comms)
    print("%d passed, %d failed" % (n, len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
