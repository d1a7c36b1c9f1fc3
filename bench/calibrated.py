#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted and measured steps of programs that `dtc calibrate` does not measure: calibrated.py BUILD
[DEVICE]

`dtc calibrate` measures the machine, unless DEVICE is a file with its block. Each program below is
compiled for one rank of that device, trained for some steps, and the median step is compared with
`--report`'s. The machine must be idle. Prints a row per program, the median and the worst of the
differences. With --keep FOLDER plans, traces and reports stay."""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS, WARM = 12, 3
BF16 = ["--set", "train.precision=mixed(compute = bf16, params = f32, grads = f32)"]
F32 = ["--set", "train.precision=mixed(compute = f32)"]
PROGRAMS = {  # none of these sizes occurs in lib/calibrate.dsl
    "shakespeare": ("examples/shakespeare.dsl", "", []),
    "GPT, 4 layers": ("bench/gpt_step.dsl", "", []),
    "GPT, 4 layers, bf16": ("bench/gpt_step.dsl", "", BF16),
    "GPT-2, wide vocabulary": ("examples/gpt2.dsl", "layers=2 embed=384 heads=6 seq=128 batch=4 vocab=8192", []),
    "Llama, 2 layers": ("examples/llama3_8b.dsl", "layers=2 embed=256 ffn=896 kv=2 group=2 head=64 seq=256 batch=2 vocab=2048", []),
    "BERT": ("examples/bert.dsl", "batch=4 seq=128 vocab=2048 layers=3 embed=256 heads=4 ffn=1024", F32),
    "T5": ("examples/t5.dsl", "batch=4 src=128 tgt=128 vocab=1024 enc=2 dec=2 embed=256 heads=4 ffn=1024", []),
    "ViT": ("examples/vit.dsl", "batch=8 layers=4 embed=256 heads=4 ffn=1024", []),
    "mixture of experts": ("examples/moe.dsl", "batch=16 seq=128 vocab=1000 layers=2 embed=256 ffn=512 kv=2 group=2 head=64", []),
    "LSTM": ("examples/lstm.dsl", "batch=16 seq=64 embed=128 hidden=256", []),
    "Mamba": ("examples/mamba.dsl", "batch=4 seq=256 vocab=256 layers=2 embed=64", []),
    "diffusion": ("examples/diffusion.dsl", "batch=2048 embed=128", []),
    "ResNet": ("examples/resnet.dsl", "batch=16", []),
    "MLP mixer": ("tests/models/mlp_mixer.dsl", "batch=4 layers=2 embed=256 tokens=128 ffn=512 classes=100", []),
    "radiance field": ("tests/models/nerf.dsl", "batch=64", []),
}


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, **more)


def compile_plan(dtc, folder, name, block):
    """Compiles the program with the device. Returns its plan, and the predicted seconds of a
    step."""
    path, dims, options = PROGRAMS[name]
    source = os.path.join(folder, name + ".dsl")
    with open(os.path.join(ROOT, path)) as file:
        text = file.read()
    for other in re.findall(r'^include "(\w+\.dsl)"', text, re.M):
        beside = os.path.join(ROOT, os.path.dirname(path), other)
        if os.path.exists(beside):
            shutil.copy(beside, folder)
    with open(source, "w") as file:
        file.write(text + "\n" + block + '\ncluster one_core { nodes = 1; gpus = 1; gpu = "here" }\n')
    words = [dtc, source, "--parallel", "none", "--cluster", "one_core", "--data=synthetic"] + options
    words += [word for dim in dims.split() for word in ("-D", dim)]
    plan = os.path.join(folder, name + ".plan")
    if not os.path.exists(plan):
        run(*words, "-o", plan)
    report = json.loads(run(*words, "--report=json").stdout)
    return plan, report


def measure(dtrun, plan, folder):
    log = os.path.join(folder, "log.jsonl")
    run(dtrun, plan, "--steps", str(STEPS), "--overwrite", "--log", log, "--quiet")
    with open(log) as file:
        events = [json.loads(line) for line in file]
    return statistics.median(event["seconds"] for event in events if event["event"] == "step" and event["step"] > WARM)


def main(arguments):
    keep = arguments[arguments.index("--keep") + 1] if "--keep" in arguments else None
    arguments = [word for word in arguments if word not in ("--keep", keep)]
    dtc, dtrun = (os.path.join(os.path.abspath(arguments[0]), tool) for tool in ("dtc", "dtrun"))
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.abspath(keep) if keep else folder
        os.makedirs(folder, exist_ok=True)
        if len(arguments) > 1:
            with open(arguments[1]) as file:
                block = file.read()
        else:
            block = run(dtc, "calibrate", "here").stdout
        off = []
        for name in PROGRAMS:
            plan, report = compile_plan(dtc, folder, name, block)
            seconds, said = measure(dtrun, plan, folder), report["time"]["step"]
            off.append(said / seconds - 1)
            print("%-24s %8.1f ms   predicted %8.1f ms   %+6.1f %%" % (name, seconds * 1e3, said * 1e3, 100 * off[-1]), flush=True)
        size = sorted(abs(each) for each in off)
        print("%d programs: median %.1f %%, worst %.1f %%" % (len(size), 100 * statistics.median(size), 100 * size[-1]))


if __name__ == "__main__":
    main(sys.argv[1:])
