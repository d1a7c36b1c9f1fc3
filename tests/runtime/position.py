#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a run that goes on reads its data:  position.py DTC DTRUN

Sample k is the number 2 ** k, so that the sum over a batch says which samples it has, exactly in f32.

  - with another batch size, also on more ranks, every sample of an epoch is read once, and the manifest
    counts samples; with the same one the run reads what the undisturbed run does;
  - data that grew, shrank or has other contents is an error that says so, and --data-changed goes on;
  - a file that is cut short while a rank reads it is named with the place.
"""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = """include "std.dsl"
dim batch = 4, one = 1
model m(i32 x[batch, one]) -> [batch] {
  param w[] = ones
  y = sum[one](f32(x)) * w
  return y
}
train {
  i32 x[batch, one] = bin("ids.bin", i32)
  y = m(x)
  loss = sum[batch](y)
  optimizer = sgd(lr = 0)
  steps = 1000
}
cluster two { gpus = 2; gpu = "cpu" }
parallel dp on two { mesh data = 2; shard batch on data }
"""
TURNS = """include "std.dsl"
dim batch = 4, one = 1
model m(i32 x[batch, one], i32 y[batch, one]) -> [batch], [batch] {
  param w[] = ones
  param v[] = ones
  return sum[one](f32(x)) * w, sum[one](f32(y)) * v
}
train {
  i32 x[batch, one] = bin("ids.bin", i32)
  i32 y[batch, one] = bin("ids.bin", i32)
  a, b = m(x, y)
  near = sum[batch](a)
  far = sum[batch](b)
  first = sgd(lr = 0, params = "w", loss = near)
  second = sgd(lr = 0, params = "v", loss = far, every = 3)
  steps = 12
}
"""
SAMPLES = 24
failures = passed = 0


def check(name, good, shown=""):
    global failures, passed
    passed += bool(good)
    failures += not good
    if not good:
        print(f"FAIL {name}\n{shown}")


def train(dtrun, batch, *options):
    """Returns the exit status, the output, and the samples of each step, as a set of bits."""
    if os.path.exists("log"):
        os.unlink("log")
    ran = subprocess.run([dtrun, f"b{batch}.plan", "--log", "log", *options], capture_output=True, text=True)
    masks = []
    if ran.returncode == 0:
        with open("log", encoding="utf-8") as file:
            masks = [int(line["loss"]) for line in map(json.loads, file) if line["event"] == "step"]
    return ran.returncode, ran.stderr, masks


def samples_of(masks):
    """The numbers of samples in the order of steps; the order within a step is not known."""
    return [k for mask in masks for k in range(SAMPLES) if mask >> k & 1]


def manifest(steps):
    with open(f"d/step-{steps:08d}/manifest.json", encoding="utf-8") as file:
        return json.load(file)


def batch_sizes(dtrun):
    whole = train(dtrun, "4", "--steps", "12")[2]
    check("an epoch has each sample once", sorted(samples_of(whole[:6])) == list(range(SAMPLES)), whole)
    for first, second in (("4", "2"), ("2", "4"), ("4", "8"), ("8", "2"), ("4", "2two"), ("2two", "4")):
        shutil.rmtree("d", ignore_errors=True)
        a, b = int(first[0]), int(second[0])
        steps = (8 if 8 in (a, b) else 12) // a
        read = train(dtrun, first, "--steps", str(steps), "--save", "d")[2]
        steps += (48 - steps * a) // b
        code, said, more = train(dtrun, second, "--steps", str(steps), "--resume", "d")
        name = f"batches of {first}, then {second}"
        numbers = samples_of(read + more)
        check(name, code == 0 and sorted(numbers[:24]) == sorted(numbers[24:]) == list(range(SAMPLES)),
              f"{said}{numbers}")
        check(f"{name}: the count", manifest(steps)["samples"] == 48, manifest(steps)["samples"])
        check(f"{name}: a note", f"trained with batches of {a} samples, this plan has {b}" in said, said)
    shutil.rmtree("d", ignore_errors=True)
    read = train(dtrun, "4", "--steps", "5", "--save", "d")[2]
    more = train(dtrun, "4", "--steps", "12", "--resume", "d")[2]
    check("the same batch size", read + more == whole, (read + more, whole))


def turns(dtc, dtrun):
    """A loss with `every = 3` reads the batches of its steps, also from a source of its own: those
    in between are left out, in each epoch others."""
    with open("turns.dsl", "w", encoding="utf-8") as file:
        file.write(TURNS)
    subprocess.run([dtc, "turns.dsl", "--parallel", "none", "-o", "turns.plan"], check=True)
    subprocess.run([dtrun, "turns.plan", "-q", "--log", "turns"], check=True)
    with open("turns", encoding="utf-8") as file:
        steps = [line["losses"] for line in map(json.loads, file) if line["event"] == "step"]
    near = [int(step["near"]["loss"]) for step in steps]
    far = [int(step["far"]["loss"]) for step in steps if "far" in step]
    check("batches of a loss in turn", far == near[2::3] and sum(near[:6]) == sum(near[6:])
          == (1 << SAMPLES) - 1 and far[:2] != far[2:], (near, far))


def write(name, numbers):
    with open(name, "wb") as file:
        file.write(struct.pack(f"<{len(numbers)}i", *numbers))


def changes(dtrun):
    ids = [1 << k for k in range(SAMPLES)]
    shutil.rmtree("d", ignore_errors=True)
    train(dtrun, "4", "--steps", "3", "--save", "d")
    facts = manifest(3)["data"]["x"]
    check("facts", facts["samples"] == 24 and facts["bytes"] == 96 and facts["values"] == 1, facts)
    write("same.bin", ids)
    write("grown.bin", ids + [7])
    write("other.bin", ids[:-1] + [3])
    cases = (("grown.bin", "96 bytes, now 100; 24 samples, now 25"), ("other.bin", "other contents of the same size"),
             ("synthetic", "files, now random numbers"))
    for new, said in cases:
        shutil.copytree("d", "saved")
        code, told, _ = train(dtrun, "4", "--steps", "4", "--resume", "d", "--data", f"ids.bin={new}")
        check(new, code == 5 and f"than when d/step-00000003 was saved: {said}. --data-changed goes on" in told
              and "rank" not in told, told)
        code, told, _ = train(dtrun, "4", "--steps", "4", "--resume", "d", "--data", f"ids.bin={new}", "--data-changed")
        check(f"{new} is meant", code == 0 and f"was saved: {said}" in told, told)
        code, told, _ = train(dtrun, "4", "--steps", "5", "--resume", "d", "--data", f"ids.bin={new}")
        check(f"{new} is known afterwards", code == 0 and "was saved" not in told, told)
        shutil.rmtree("d")
        os.rename("saved", "d")
    code, told, _ = train(dtrun, "4", "--steps", "4", "--resume", "d", "--data", "ids.bin=same.bin")
    check("the same data by another name", code == 0 and "was saved" not in told, told)
    shutil.rmtree("d/step-00000003")
    # otherwise a rank would report it first
    with open("d/step-00000004/model.safetensors", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    code, told, _ = train(dtrun, "4", "--steps", "5", "--resume", "d", "--data",
                          "ids.bin=grown.bin")
    check("before ranks start", code == 5 and "96 bytes, now 100" in told and "damaged" not in told,
          told)
    code, told, _ = train(dtrun, "4", "--steps", "5", "--resume", "d")
    check("ranks look at tensors", code == 5 and "damaged" in told, told)
    code, told, _ = train(dtrun, "4", "--data-changed")
    check("--data-changed alone", code == 2 and "--data-changed belongs to --resume" in told, told)


def cut_short(dtrun):
    """65,536 samples. During the run the file loses all but 10,000 of them; it then ends in the middle
    of a page."""
    write("ids.bin", [1] * 65536)
    run = subprocess.Popen([dtrun, "b2two.plan", "--steps", "100000000", "-q", "--save", "e"], stderr=subprocess.PIPE,
                           text=True)
    while not glob.glob("/proc/%d/task/%d/children" % (run.pid, run.pid)):
        time.sleep(0.01)
    time.sleep(1)
    os.truncate("ids.bin", 40000)
    try:
        said = run.communicate(timeout=100)[1]
    except subprocess.TimeoutExpired:
        run.kill()
        said = run.communicate()[1]
    place = "ids.bin was cut short while the run reads it: value 10000 (byte 40000) and what follows is gone"
    check("a file that is cut short", run.returncode == 5 and place in said and "the file had 262144 bytes" in said
          and "signal" not in said, f"{run.returncode} {said}")


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("p.dsl", "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        write("ids.bin", [1 << k for k in range(SAMPLES)])
        for name in ("2", "4", "8", "2two"):
            layout = "dp" if name.endswith("two") else "none"
            subprocess.run([dtc, "p.dsl", "-D", f"batch={name[0]}", "--parallel", layout, "-o", f"b{name}.plan"], check=True)
        batch_sizes(dtrun)
        turns(dtc, dtrun)
        changes(dtrun)
        cut_short(dtrun)
        os.chdir("/")
    print(f"{passed} passed, {failures} failed, 0 skipped")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
