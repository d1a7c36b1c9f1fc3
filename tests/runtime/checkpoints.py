#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints from layout to layout:  checkpoints.py DTC DTRUN few|all

  - what one layout saves, another loads and saves again: tensors, moments and the place in the data are the same to the last
    bit. Layouts of a dense model and of one with experts, in f32 and in mixed precision, of one to eight ranks.
  - a checkpoint of format 1, which versions before shares wrote, loads to the same bits, and the run goes on to the same numbers.
  - a rank that copies late is waited for; what is written is what was there when the save began.
  - a call of the system that fails in every rank, one after the other, does no harm.
  - a disk with too little space is noticed before anything is written, one that becomes full in the midst is, too; training
    goes on, and the last checkpoint stays.
  - `dtc inspect` says what a checkpoint is, and finds a flipped bit, a cut and a swap, as a run does.

few: some pairs of layouts; all: every pair."""

import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from runs import NET, Bench, bytes_of, write_tokens

FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checkpoint_1")
STEPS = 4
DENSE = NET.replace("batch = 4, seq = 4", "batch = 16, seq = 4").replace("layers = 2", "layers = 4") + """
  optimizer = adamw(lr = 0.01, decay = 0.1, clip = 1.0)
  seed = 3
  steps = %d
PRECISION
}
cluster many { gpus = 8; gpu = "cpu" }
""" % STEPS
EXPERTS = """include "std.dsl"
dim batch = 8, seq = 4, embed = 8, ffn = 8, vocab = 16, layers = 2
dim experts = 4, route = experts, choice = 1, slot = 4
layer moe(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(0.5)
  param up[experts, embed, ffn], down[experts, ffn, embed] = normal(0.05)
  g, e = topk[route, choice](softmax[route](x @embed router))
  pos = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  y = relu(scatter[seq, choice](x, experts = e, slot = pos) @embed up) @ffn down
  return sum[choice](g * y[experts = e, slot = pos])
}
model mixture(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + moe(x) }
  return out:linear[embed, vocab](x, std = 0.3)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u16))
  loss = mean[batch, seq](xent[vocab](mixture(tokens), labels))
  optimizer = adamw(lr = 0.01)
  seed = 3
  steps = %d
}
cluster many { gpus = 8; gpu = "cpu" }
""" % STEPS
BF16 = "  precision = mixed(compute = bf16, params = f32, grads = f32)"
F16 = "  precision = mixed(compute = f16, params = f16, master = f32, grads = f32, loss_scale = 256)"
LAYOUTS = {
    "one": (1, "mesh data = 1; shard batch on data"),
    "data2": (2, "mesh data = 2; shard batch on data"),
    "data8": (8, "mesh data = 8; shard batch on data"),
    "zero1": (4, "mesh data = 4; shard batch on data; zero 1 on data"),
    "zero2": (2, "mesh data = 2; shard batch on data; zero 2 on data"),
    "zero3": (4, "mesh data = 4; shard batch on data; zero 3 on data"),
    "zero3of3": (3, "mesh data = 3; shard batch on data (pad = 3); zero 3 on data"),
    "zero8": (8, "mesh data = 8; shard batch on data; zero 3 on data"),
    "tensor2": (2, "mesh tensor = 2; shard mid, vocab on tensor"),
    "tensor4": (4, "mesh tensor = 4; shard mid, vocab on tensor"),
    "tensor3": (3, "mesh tensor = 3; shard mid, vocab on tensor (pad = 3)"),
    "rows": (4, "mesh row = 2, column = 2; shard embed on row; shard mid on column"),
    "pipe2": (2, "mesh pipe = 2; pipeline h on pipe; micro batch = 2"),
    "pipe4": (4, 'mesh pipe = 4; pipeline h on pipe (schedule = "1f1b"); micro batch = 4'),
    "inter": (2, 'mesh pipe = 2; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4'),
    "pipe_zero": (4, "mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe; micro batch = 2; zero 1 on data"),
    "three": (8, "mesh pipe = 2, data = 2, tensor = 2; shard batch on data; shard mid on tensor; pipeline h on pipe; "
                 "micro batch = 2; zero 1 on data"),
    "tensor_zero": (4, "mesh data = 2, tensor = 2; shard batch on data; shard mid, vocab on tensor; zero 3 on data"),
    "context": (2, "mesh context = 2; shard seq on context"),
    "ahead": (4, "mesh data = 4; shard batch on data; zero 3 on data (prefetch = 1); micro batch = 2"),
}
OF_EXPERTS = {
    "e_one": (1, "mesh data = 1; shard batch on data"),
    "e_experts": (4, "mesh expert = 4; shard experts on expert; shard batch on expert"),
    "e_both": (4, "mesh data = 2, expert = 2; shard experts on expert; shard batch on data, expert"),
    "e_zero": (4, "mesh data = 4; shard batch on data; zero 3 on data"),
}
FEW = ("one", "zero3", "tensor4", "three")


def tensors(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            data = bytes_of(os.path.join(folder, name))
            n = struct.unpack("<Q", data[:8])[0]
            for tensor, about in json.loads(data[8:8 + n]).items():
                if tensor != "__metadata__":
                    begin, end = about["data_offsets"]
                    found[tensor] = (about["dtype"], about["shape"], data[8 + n + begin:8 + n + end])
    return found


def farthest(found, wanted):
    """The largest difference, relative to the largest number of its tensor. The fixture's steps were taken on another processor,
    whose products add up in another order: about 1e-6 after two steps in f32."""
    far = 0.0
    for name, (_, _, data) in wanted.items():
        there, here = array.array("f", data), array.array("f", found[name][2])
        far = max(far, max(abs(x - y) for x, y in zip(here, there)) / (max(map(abs, there)) or 1.0))
    return far if found.keys() == wanted.keys() else float("inf")


def manifest(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def newest(folder):
    return os.path.join(folder, open(os.path.join(folder, "latest"), encoding="utf-8").read().strip())


class Test(Bench):
    def compile(self, program, layouts, name, precision=""):
        with open("p.dsl", "w", encoding="utf-8") as file:
            file.write(program.replace("PRECISION", precision).replace("gpus = 8", "gpus = %d" % layouts[name][0]) +
                       "parallel it on many { %s }\n" % layouts[name][1])
        plan = "%s%s.plan" % (name, precision[-6:-2].strip())
        code, said = self.run(self.dtc, "p.dsl", "--parallel", "it", "-o", plan)
        self.check("%s compiles" % name, code == 0, said)
        return plan if code == 0 else None

    def train(self, plan, *words):
        return self.run(self.dtrun, plan, "-q", *words)

    def pairs(self, program, layouts, precisions):
        plans = [plan for precision in precisions for name in layouts
                 if (plan := self.compile(program, layouts, name, precision))]
        for plan in plans:
            code, said = self.train(plan, "--save", plan + ".saved", "--overwrite", "--steps", "2")
            self.check("%s saves" % plan, code == 0, said)
        for source in plans:
            for target in plans:
                self.pair(source, target)

    def pair(self, source, target):
        """What the target loads and saves is what it has been given; in 16 bits without a master copy it cannot be."""
        shutil.rmtree("again", ignore_errors=True)
        code, said = self.train(target, "--resume", source + ".saved", "--save", "again", "--steps", "0")
        name = "%s to %s" % (source, target)
        if not self.passes(name, code == 0, said):
            return
        before, after = newest(source + ".saved"), newest("again")
        self.check(name + ": tensors and moments", tensors(before) == tensors(after))
        same = all(manifest(before)[key] == manifest(after)[key] for key in ("steps", "samples", "updates", "seed"))
        self.check(name + ": place in the data", same)

    def passes(self, name, good, said):
        self.check(name, good, said)
        return good

    # ---- versions before ----

    def format_1(self, plan):
        code, said = self.train(plan, "--resume", FIXTURE, "--save", "newer", "--steps", str(STEPS))
        if not self.passes("format 1 loads", code == 0, said):
            return
        code, said = self.train(plan, "--resume", FIXTURE, "--save", "copied", "--steps", "0")
        self.check("format 1 loads to the same bits", code == 0 and tensors(newest("copied")) == tensors(newest(FIXTURE)), said)
        code, said = self.train(plan, "--save", "straight", "--steps", str(STEPS))
        far = farthest(tensors(newest("newer")), tensors(newest("straight")))
        self.check("format 1 goes on to the same numbers", code == 0 and far < 1e-5, "%g\n%s" % (far, said))
        code, said = self.run(self.dtc, "inspect", FIXTURE, "--verify")
        self.check("inspect knows format 1", code == 0 and "digests right" in said and "XXH3" in said, said)
        shutil.copytree(FIXTURE, "hurt1")
        path = os.path.join(newest("hurt1"), "model.safetensors")
        self.flip(path, os.path.getsize(path) - 5)
        code, said = self.train(plan, "--resume", "hurt1", "--save", "hurt2", "--steps", str(STEPS))
        self.check("damage in format 1 is found", code == 5 and "is damaged: tensor" in said, said)

    @staticmethod
    def flip(path, at):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 4]))

    # ---- while training goes on ----

    def late(self, plan):
        code, said = self.train(plan, "--save", "plain", "--steps", "3", "--set", "save.every=1", "--set", "save.keep=0")
        self.check("a save in each step", code == 0, said)
        os.environ["DT_FAULT"] = "late:1"
        code, said = self.train(plan, "--save", "late", "--steps", "3", "--set", "save.every=1", "--set", "save.keep=0")
        del os.environ["DT_FAULT"]
        self.check("rank 1 copies late", code == 0, said)
        for step in (1, 2, 3):
            folder = "step-%08d" % step
            same = tensors(os.path.join("late", folder)) == tensors(os.path.join("plain", folder))
            self.check("what a late rank copies is of that step: %d" % step, same)

    def full(self, plan):
        """A fault stands for a disk that is full before a save."""
        code, said = self.train(plan, "--save", "full", "--steps", "2")
        self.check("a run before the disk is full", code == 0, said)
        os.environ["DT_FAULT"] = "space:1"
        code, said = self.train(plan, "--resume", "full", "--steps", "3", "--set", "save.every=3")
        del os.environ["DT_FAULT"]
        self.check("a full disk: exit code 5", code == 5, said)
        self.check("bytes needed and free", "it needs " in said and " has 0 B free; free some space" in said, said)
        self.check("training goes on", "goes on and tries again" in said or "1 checkpoint was not saved" in said, said)
        self.check("the last one is kept", os.path.isdir("full/step-%08d" % 2), os.listdir("full"))

    def small_disk(self, plan):
        """A disk that is really full, before a save and in the midst of one: a small tmpfs in a mount namespace of its own."""
        alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
        os.makedirs("small", exist_ok=True)
        mount = "mount -t tmpfs -o size=1m none small"
        if not shutil.which("unshare") or subprocess.run(alone + ["sh", "-c", mount], capture_output=True).returncode != 0:
            print("skipped: no mount namespaces here", flush=True)
            return

        def run(words, name):
            return "%s %s -q %s > small.%s 2>&1; echo $? > small.%s.code; ls -A small/run > small.%s.left" % (
                self.dtrun, plan, words, name, name, name)
        fill = "head -c $(($(df --output=avail -B1 small | tail -1) %s)) /dev/zero > small/fill"
        script = "\n".join([
            mount,
            run("--save small/run --steps 1", "begun"),
            fill % "- 40960",
            run("--resume small/run --steps 3 --set save.every=1", "before"),
            "rm small/fill",
            # rank 1 copies late, so the space goes after it was found to be enough and before files are written
            "(until ls -d small/run/.step-*.tmp; do :; done; %s) > small.filler 2>&1 &" % (fill % "- 0"),
            "export DT_FAULT=late:1",
            run("--resume small/run --steps 2 --set save.every=2", "midst"),
            "unset DT_FAULT; kill $! 2> small.killed; rm -f small/fill",
            run("--resume small/run --steps %d" % STEPS, "after"),
            "cp -r small/run small.run"])
        done = subprocess.run(alone + ["sh", "-c", script], capture_output=True, text=True)
        self.check("the script of a small disk", done.returncode == 0, done.stderr)
        for name, code, words, left in (
                ("begun", 0, (), ["latest", "step-00000001"]),
                ("before", 5, ("it needs ", " KiB free; free some space there", "goes on and tries again",
                               "checkpoints were not saved; the newest has 1 of 3 steps"), ["latest", "step-00000001"]),
                ("midst", 5, ("cannot reserve ", "No space left on device; free some space on that disk", "was not saved"),
                 ["latest", "step-00000001"]),
                ("after", 0, (), ["latest", "step-00000001", "step-%08d" % STEPS])):
            said, got, kept = (open("small." + name + end, encoding="utf-8").read() for end in ("", ".code", ".left"))
            self.check("small disk, %s: code" % name, int(got) == code, got + said)
            self.check("small disk, %s: what is said" % name, all(word in said for word in words), said)
            self.check("small disk, %s: what is left" % name, kept.split() == left, kept)
        code, said = self.train(plan, "--save", "whole", "--steps", str(STEPS))
        self.check("small disk: the same bits", code == 0 and tensors(newest("small.run")) == tensors(newest("whole")), said)

    def faults(self, plan, most):
        """The n-th call of a kind fails in each rank: the run ends with 5 or 0, and goes on to the same bits."""
        code, said = self.train(plan, "--save", "good", "--steps", str(STEPS))
        self.check("a run without faults", code == 0, said)
        for kind in ("write", "fsync", "open", "rename"):
            for n in range(1, most + 1):
                shutil.rmtree("faulty", ignore_errors=True)
                code, said = self.train(plan, "--save", "faulty", "--steps", "1")
                os.environ["DT_FAULT"] = "%s:%d" % (kind, n)
                code, said = self.train(plan, "--resume", "faulty", "--steps", "3", "--set", "save.every=1")
                del os.environ["DT_FAULT"]
                what = "%s %d fails" % (kind, n)
                self.check(what + ": code", code in (0, 1, 5), said)
                code, said = self.train(plan, "--resume", "faulty", "--steps", str(STEPS))
                self.check(what + ": it goes on", code == 0, said)
                self.check(what + ": the same bits", tensors(newest("faulty")) == tensors(newest("good")))
                left = [name for name in os.listdir("faulty") if name.startswith(".")]
                self.check(what + ": nothing is left", not left, left)

    # ---- damage ----

    def inspect(self, folder, *words):
        return self.run(self.dtc, "inspect", folder, *words)

    def inspected(self, plan):
        code, said = self.train(plan, "--save", "look", "--steps", "3", "--set", "save.every=1", "--set", "save.keep=0")
        self.check("a run to look at", code == 0, said)
        code, said = self.inspect("look")
        self.check("inspect: text", code == 0 and "step        3," in said and "not compared" in said, said)
        code, said = self.inspect("look/step-%08d" % 2, "--verify", "--json")
        about = json.loads(said) if code == 0 else {}
        self.check("inspect: JSON", about.get("steps") == 2 and not about.get("damaged"), said)
        files = {file["name"]: file for file in about.get("files", [])}
        self.check("inspect: files", sorted(files) == ["model.safetensors", "optimizer.safetensors"] and all(
            file["digests"] == "right" and file["bytes"] == os.path.getsize("look/step-%08d/%s" % (2, name))
            for name, file in files.items()), said)
        elements = sum(len(data) // 4 for _, _, data in tensors("look/step-%08d" % 2).values())
        self.check("inspect: elements", sum(file["elements"] for file in files.values()) == elements, said)
        code, said = self.inspect("nowhere")
        self.check("inspect: nothing there", code == 5 and "nowhere" in said, said)
        code, said = self.inspect("look", "look")
        self.check("inspect: two", code == 2, said)

    def damage(self, plan, rounds):
        """Flips, cuts and swaps: refused by inspect and by a run, which takes the checkpoint before."""
        rng = random.Random(5)
        for i in range(rounds):
            shutil.rmtree("hurt", ignore_errors=True)
            shutil.copytree("look", "hurt")
            path = "hurt/step-%08d/%s" % (3, rng.choice(["model.safetensors", "optimizer.safetensors", "manifest.json"]))
            size, how = os.path.getsize(path), ("flip", "cut", "swap", "zero")[i % 4]
            if how == "flip":
                self.flip(path, rng.randrange(size))
            elif how == "cut":
                os.truncate(path, rng.randrange(size))
            elif how == "swap":
                os.replace("hurt/step-%08d/%s" % (2, os.path.basename(path)), path)
            else:
                with open(path, "r+b") as file:
                    at = rng.randrange(size - 8)
                    file.seek(at)
                    before = file.read(8)
                    file.seek(at)
                    file.write(bytes(b ^ 255 for b in before))
            what = "%s of %s" % (how, os.path.basename(path))
            code, said = self.inspect("hurt/step-%08d" % 3, "--verify")
            swapped_all = how == "swap" and path.endswith("manifest.json")
            self.check("inspect finds a " + what, code == 5 and os.path.basename(path if not swapped_all else "safetensors")
                       in said, said)
            if i % 5 == 0:
                code, said = self.train(plan, "--resume", "hurt", "--save", "mended", "--overwrite", "--steps", "4")
                good = code == 0 and "is passed over" in said
                self.check("a run takes the one before: " + what, good, said)


def main():
    test = Test(os.path.abspath(sys.argv[1]) if os.sep in sys.argv[1] else sys.argv[1], os.path.abspath(sys.argv[2]))
    complete = sys.argv[3] == "all"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        names = LAYOUTS if complete else {name: LAYOUTS[name] for name in FEW}
        test.pairs(DENSE, names, ("",))
        if complete:
            test.pairs(DENSE, {name: LAYOUTS[name] for name in FEW}, ("", BF16, F16))
        test.pairs(EXPERTS, OF_EXPERTS if complete else {name: OF_EXPERTS[name] for name in ("e_one", "e_experts")}, ("",))
        plan = test.compile(DENSE, LAYOUTS, "zero3")
        test.format_1(plan)
        test.late(plan)
        test.full(plan)
        test.small_disk(plan)
        test.faults(plan, 40 if complete else 2)
        test.inspected(plan)
        test.damage(plan, 1000 if complete else 20)
    print("checkpoints: %d passed, %d failed" % (test.passed, test.failed))
    sys.exit(test.failed > 0)


if __name__ == "__main__":
    main()
