# SPDX-License-Identifier: Apache-2.0
"""Which algorithms of cuBLASLt do products, on its stand-in, whose algorithms add up in different orders:
algorithms.py DTC DTRUN

Two ranks compute the embedding's gradient twice, so it stays the same on both only if they use the same algorithms; that
a GPU which takes others than it is told is found shows that this can be seen. A run that goes on uses those that its
checkpoint has, and a later run those that were kept, though others would be the fastest now. What a checkpoint or the
cache has and this GPU has not is said or passed over, and nothing wrong is used."""

import json
import os
import re
import shutil
import sys
import tempfile

import manifests
from training import INTERPRETED, ROOT, bytes_of, run

STEPS = 3
LAYOUT = """
cluster twins { gpus = 2; gpu = "cpu" }
parallel twice on twins { mesh twin = 2; shard ffn on twin }
"""
ODD = re.compile(r"algorithm [34]\b")  # their parts are rounded to the results' type; they want too large a workspace


class Trainer:
    def __init__(self, dtrun, plan):
        self.dtrun, self.plan, self.n = dtrun, plan, 0

    def train(self, standin, *arguments, cache=None, steps=STEPS, wants=0):
        """Runs with a new cache, unless one is given. Returns the folder of the run."""
        self.n += 1
        folder = "run%d" % self.n
        os.mkdir(folder)
        os.environ.update(DT_STANDIN="gpus=2 " + standin, DT_STANDIN_LEFT=folder + "/left",
                          XDG_CACHE_HOME=os.path.abspath(cache or folder))
        self.said = run(self.dtrun, self.plan, "--quiet", "--steps", str(steps), "--log", folder + "/log", "--save",
                        folder + "/saved", *arguments, wants=wants)
        return folder


def saved(folder, steps=STEPS):
    return os.path.join(folder, "saved", "step-%08d" % steps)


def tensors(folder):
    return [bytes_of(os.path.join(saved(folder), name)) for name in ("model.safetensors", "optimizer.safetensors")]


def embedding(folder):
    """The embedding in the checkpoint. Each rank wrote a part of the file, the first one rank 0."""
    model = tensors(folder)[0]
    length = int.from_bytes(model[:8], "little")
    begin, end = json.loads(model[8:8 + length])["wte"]["data_offsets"]
    return model[8 + length + begin:8 + length + end]


def replicas_agree(folder):
    """Whether both ranks have the same embedding at the end, in their memory."""
    wanted = embedding(folder)
    for name in os.listdir(folder):
        mine = bytes_of(os.path.join(folder, name)) if name.startswith("left.0.") else b""
        at = mine.find(wanted[:32])
        if at >= 0:
            other = bytes_of(os.path.join(folder, name.replace("left.0.", "left.1.")))
            return other[at:at + len(wanted)] == mine[at:at + len(wanted)]
    sys.exit("rank 0 has no embedding")


def products(folder):
    with open(folder + "/log") as file:
        lines = [json.loads(line) for line in file]
    found = [line["text"] for line in lines if line["event"] == "product" and "algorithm " in line["text"]]
    assert found and not any(ODD.search(line) for line in found), found
    return found


def all_by(folder, algorithm, why):
    lines = products(folder)
    assert all("algorithm %d" % algorithm in line and why in line for line in lines), lines


def check_ranks(t):
    """Rank 0 chooses for both ranks."""
    plain, other = t.train("fast=0"), t.train("fast=1")
    all_by(plain, 0, "fastest of 3")
    all_by(other, 1, "fastest of 3")
    assert tensors(plain) != tensors(other), "the stand-in's algorithms give the same bits"
    assert replicas_agree(plain) and replicas_agree(other)
    for more in ((), ("--comm", "shm")):
        apart = t.train("fast0=0 fast1=1", *more)
        assert replicas_agree(apart), "replicas drift apart"
        assert tensors(apart) == tensors(plain), "rank 0 has not chosen for all"
        t.train("fast0=0 fast1=1 stubborn=1", *more, wants=75)
        assert "replicas differ after step 3: ranks" in t.said, "a rank that chooses alone is not found: " + t.said
    t.train("fast=1 gone1=1", wants=1)
    assert re.search(r"rank 1 failed: the GPU \(stand-in 0, sm_90, 4 multiprocessors, cuBLASLt 13\.1\.0\) does not do "
                     "product 0 of the plan by the algorithm that rank 0 has chosen for such GPUs", t.said), t.said
    kinds = t.train("fast0=0 fast1=1 kinds=2")
    assert "note: 2 kinds of GPUs are there" in t.said, t.said
    assert len(manifest(kinds)["products"]) == 2 * len(manifest(plain)["products"])
    assert not replicas_agree(kinds)  # as the message says
    return plain, other


def manifest(folder, steps=STEPS):
    with open(os.path.join(saved(folder, steps), "manifest.json")) as file:
        return json.load(file)


def forge(folder, steps, products):
    """Changes the products in the checkpoint."""
    manifests.rewrite(os.path.join(saved(folder, steps), "manifest.json"), lambda said: said.update(products=products))


def check_resumed(t, plain, other):
    begun = t.train("fast=1", steps=1)
    recorded = manifest(begun, 1)["products"]
    lines = len(products(begun))
    assert len(recorded) == lines and all(len(key) == 64 and len(value) == 128 for key, value in recorded.items())
    again = t.train("fast=0", "--resume", begun + "/saved")
    all_by(again, 1, "of the checkpoint")
    assert tensors(again) == tensors(other), "a run that goes on has other bits"
    assert manifest(again)["products"] == recorded
    newer = t.train("fast=0 patch=1", "--resume", begun + "/saved")
    assert "note: %d products of this plan have no algorithm in the checkpoint" % lines in t.said, t.said
    assert tensors(newer) != tensors(other), "what the checkpoint has does not matter"
    gone = t.train("fast=0 gone=1", "--resume", begun + "/saved")
    assert "note: %d products have an algorithm in the checkpoint that this GPU does not" % lines in t.said, t.said
    all_by(gone, 0, "fastest of 2")
    too_much = {key: value[:80] + "04" + value[82:] for key, value in recorded.items()}  # algorithm 4
    for forged in (too_much, {key: "ff" * 64 for key in recorded}, {key: "00" * 64 for key in recorded}):
        forge(begun, 1, forged)
        all_by(t.train("fast=0", "--resume", begun + "/saved"), 0, "fastest of 3")
        assert "that this GPU does not do them by" in t.said, t.said
    most = {"%064x" % i: "00" * 64 for i in range(65537)}
    for forged in ({"00": "00"}, {key: "0" * 127 for key in recorded}, {key: "g" * 128 for key in recorded}, [], most,
                   {key: 1 for key in recorded}):
        forge(begun, 1, forged)
        t.train("fast=0", "--resume", begun + "/saved", wants=5)
        assert "manifest.json is damaged: its digest or a field is wrong" in t.said, t.said
    forge(begun, 1, recorded)
    assert "stay with" not in t.said, t.said
    assert tensors(t.train("fast=0", "--resume", begun + "/saved", "--algorithms", "first")) == tensors(other)
    assert "note: %d products stay with the algorithm of the checkpoint" % lines in t.said, t.said


def check_kept(t, plain, other):
    os.mkdir("cache")
    t.train("fast=1", cache="cache")
    kept = t.train("fast=0", cache="cache")
    all_by(kept, 1, "kept from an earlier run")
    assert tensors(kept) == tensors(other)
    all_by(t.train("fast=0 patch=1", cache="cache"), 0, "fastest of 3")
    gone = t.train("fast=0 gone=1", cache="cache")
    all_by(gone, 0, "fastest of 2")
    for damage in (lambda old: b"", lambda old: os.urandom(len(old)), lambda old: old[:-1], lambda old: old + b"0"):
        shutil.rmtree("cache")
        os.mkdir("cache")
        t.train("fast=1", cache="cache")
        for name in os.listdir("cache/dtc"):
            path = os.path.join("cache/dtc", name)
            old = bytes_of(path)
            with open(path, "wb") as file:
                file.write(damage(old))
        all_by(t.train("fast=0", cache="cache"), 0, "fastest of 3")
    first = t.train("fast=1", "--algorithms", "first", cache="cache")
    all_by(first, 0, "the library's first")
    assert tensors(first) == tensors(plain)


def check_others(t, dtc):
    """An invalid algorithm is never the fastest; too little memory; other devices."""
    for odd in (3, 4):
        products(t.train("fast=%d" % odd))
    need = 0
    with open(t.train("") + "/log") as file:
        need = json.loads(file.readline())["memory"]
    full = t.train("fast=1 memory=%d" % (need + 256))
    all_by(full, 0, "since the GPU has no room to time it")
    assert re.search(r"note: \d+ products are not timed, since the GPU has no room", t.said), t.said
    run(dtc, "twice.dsl", "--parallel", "twice", "--target=cpu", "-o", "cpu.plan")
    said = run(t.dtrun, "cpu.plan", "--algorithms", "first", wants=2)
    assert "--algorithms says nothing of device `cpu`" in said, said
    said = run(t.dtrun, "cpu.plan", "--algorithms", "best", wants=2)
    assert "--algorithms wants timed or first, not `best`" in said, said


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(os.path.join(ROOT, "tests/runtime/zero.dsl")) as file, open("twice.dsl", "w") as out:
            out.write(file.read() + LAYOUT)
        os.environ["XDG_CACHE_HOME"] = folder
        run(dtc, "twice.dsl", "--parallel", "twice", "--target=" + INTERPRETED, "--epilogues=all", "-o", "twice.plan")
        t = Trainer(dtrun, "twice.plan")
        plain, other = check_ranks(t)
        check_resumed(t, plain, other)
        check_kept(t, plain, other)
        check_others(t, dtc)
    print("%d runs, 0 failed" % t.n)


if __name__ == "__main__":
    main()
