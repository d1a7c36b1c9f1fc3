#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parts of a checkpoint that not all ranks read, or that training leaves alone:  parts.py DTC DTRUN

  - a tensor that one stage alone reads is damaged: one rank sees it, all ranks pass the checkpoint over, the run goes on
    from the one before to the bits of the undisturbed run, and asked for that checkpoint alone it ends with its name.
  - frozen parameters have the same bits in every checkpoint, with weight decay and 16 bits, in every layout; the others
    have not.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

PROGRAM = """include "std.dsl"
dim batch = 8, wide = 8, ffn = 4, layers = 4
layer f(x[batch, wide]) -> [batch, wide] {
  return x + (gelu(x) |> up:linear[wide, ffn] |> gelu |> down:linear[ffn, wide])
}
model m(x[batch, wide]) -> [batch, wide] {
  param scale[wide] = normal(0.5)
  y = first:f(x) * scale
  repeat h in layers { y = f(y) }
  return y
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, wide]((y - 1) * (y - 1))
  FROZEN
  optimizer = adamw(lr = 0.01, decay = 0.1, clip = 1.0)
  PRECISION
  steps = 4
}
cluster c { gpus = 2; gpu = "cpu" }
parallel data on c { mesh data = 2; shard batch on data; micro batch = 2 }
parallel zero on c { mesh data = 2; shard batch on data; zero 3 on data }
parallel staged on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
"""
FROZEN = 'frozen = ("first.*", "h.*.down.*", "scale")'
BF16 = "precision = mixed(compute = bf16, params = f32, grads = f32)"
F16 = "precision = mixed(compute = f16, params = f16, master = f32, grads = f32, loss_scale = 256)"


def is_frozen(name):
    return name == "scale" or name.startswith("first.") or ".down." in name


def tensors(path):
    """Returns {name: (offset in the file, bytes)}"""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    return {name: (start + entry["data_offsets"][0], data[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


class Test:
    def __init__(self, dtc, dtrun, folder):
        self.dtc, self.dtrun, self.folder = dtc, dtrun, folder
        self.failed, self.passed = 0, 0

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def holds(self, good, what):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print("FAIL " + what)

    def compile(self, layout, frozen="", precision=""):
        with open(self.path("p.dsl"), "w") as file:
            file.write(PROGRAM.replace("FROZEN", frozen).replace("PRECISION", precision))
        subprocess.run([self.dtc, self.path("p.dsl"), "--parallel", layout, "-o", self.path("p.plan")], check=True,
                       capture_output=True, timeout=120)

    def run(self, *arguments):
        return subprocess.run([self.dtrun, self.path("p.plan"), "-q", "--set", "save.every=1", "--set", "save.keep=0",
                               *arguments], capture_output=True, text=True, timeout=120)

    def saved(self, folder, step, part="model"):
        return tensors(self.path(folder, "step-%08d" % step, part + ".safetensors"))

    def damage(self, folder, step, name):
        with open(self.path(folder, "step-%08d" % step, "model.safetensors"), "r+b") as file:
            file.seek(self.saved(folder, step)[name][0])
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))

    def seen_by_one(self):
        self.compile("staged")
        self.holds(self.run("--save", self.path("want"), "--steps", "4").returncode == 0, "the undisturbed run")
        for name in ("scale", "h.3.f.up.w"):  # a tensor of the first stage, one of the last stage
            hurt = self.path("hurt-" + name)
            shutil.copytree(self.path("want"), hurt)
            shutil.rmtree(os.path.join(hurt, "step-%08d" % 4))
            with open(os.path.join(hurt, "latest"), "w") as file:
                file.write("step-%08d\n" % 3)
            self.damage(hurt, 3, name)
            alone = self.run("--resume", os.path.join(hurt, "step-%08d" % 3), "--steps", "4")
            self.holds(alone.returncode == 5 and "damaged: chunk 0, bytes" in alone.stderr,
                       "a damaged %s, asked for: %d, %s" % (name, alone.returncode, alone.stderr[:300]))
            on = self.run("--resume", hurt, "--steps", "4")
            self.holds(on.returncode == 0 and "is passed over" in on.stderr and "damaged: chunk 0" in on.stderr,
                       "a damaged %s: %d, %s" % (name, on.returncode, on.stderr[:300]))
            same = on.returncode == 0 and all(self.saved(hurt, 4, part) == self.saved("want", 4, part)
                                              for part in ("model", "optimizer"))
            self.holds(same, "a damaged %s is passed over: other bits" % name)

    def frozen_stay(self):
        for layout, precision in (("data", ""), ("zero", ""), ("staged", ""), ("zero", BF16), ("data", F16)):
            what = "%s, %s" % (layout, precision[18:32] or "f32")
            self.compile(layout, FROZEN, precision)
            shutil.rmtree(self.path("kept"), ignore_errors=True)
            done = self.run("--save", self.path("kept"), "--steps", "4")
            self.holds(done.returncode == 0, what + ": " + done.stderr[:300])
            if done.returncode:
                continue
            first, last = ({name: data for name, (_, data) in self.saved("kept", step).items()} for step in (1, 4))
            same = {name for name in last if last[name] == first[name]}
            self.holds(same == {name for name in last if is_frozen(name)},
                       "%s: not as they should be: %s" % (what, sorted(same ^ {n for n in last if is_frozen(n)})))
            moments = [name for name in self.saved("kept", 4, "optimizer") if is_frozen(name) or "first." in name]
            self.holds(not moments, "%s: moments of %s" % (what, moments))
            if not precision:  # the values before the first step
                self.before = getattr(self, "before", None) or first
                self.holds(all(first[name] == self.before[name] for name in same), what + ": frozen otherwise than elsewhere")


def main(dtc, dtrun):
    with tempfile.TemporaryDirectory(prefix="parts-") as folder:
        test = Test(os.path.abspath(dtc), os.path.abspath(dtrun), folder)
        test.seen_by_one()
        test.frozen_stay()
    print("parts: %d passed, %d failed" % (test.passed, test.failed))
    return test.failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
