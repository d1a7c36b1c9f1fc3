# SPDX-License-Identifier: Apache-2.0
"""Attention of all examples, planned by cuDNN itself where it is installed:  examples.py DTC PLANS EXAMPLES

Each example is compiled for GPUs in each of its layouts, and cuDNN plans each form of attention in
them (SDPA), forward for an H200, backward also for an A100 and a B200, none of which need be here.
Forward it has all of them. Backward, heads of more than 128 elements take Hopper, and a workspace without the gradients of all
scores takes Blackwell and 9.18.1, or Hopper and 9.25. Exit status 77: there is no cuDNN."""

import os
import re
import subprocess
import sys
import tempfile

# DT_PLAN_SDPA_WORKSPACE_MOST; devices whose backward pass adds in one order without keeping the
# gradients of all scores
CAP = 1 << 32
OLDEST = {80: 91600, 90: 91600, 100: 91801}  # backward, in one order
LINEAR = {90: 92500, 100: 91801}  # and without the gradients of all scores


def compile_one(dtc, path, plan, *layout):
    """With the last of several train blocks."""
    with open(path) as file:
        trains = re.findall(r"^train (\w+) \{", file.read(), re.M)
    layout += ("--train", trains[-1]) if trains else ()
    return subprocess.run([dtc, path, "--target=sm_90a-interpreted", "--data=synthetic", "-o", plan, *layout],
                          capture_output=True, text=True, timeout=300)


def plans_of(dtc, path, name):
    """The plans of an example: one, or one for each of its layouts."""
    done = compile_one(dtc, path, name + ".plan")
    if done.returncode == 0:
        return [name + ".plan"]
    layouts = re.findall(r"help: --parallel (\w+) \(", done.stderr)
    plans = []
    for layout in layouts:
        plans.append("%s.%s.plan" % (name, layout))
        more = compile_one(dtc, path, plans[-1], "--parallel", layout)
        assert more.returncode == 0, "%s %s: %s" % (name, layout, more.stderr)
    assert layouts or "model" not in open(path).read(), done.stderr
    return plans


def scores(record):
    """The bytes that the gradients of all scores need."""
    of = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)\b", record)}
    return 2 * of["batch"] * of["heads"] * (-(-of["queries"] // 64) * 64) * (-(-of["keys"] // 128) * 128)


def check(line, records):
    version, capability, plan, number, said = line.split("\t")
    version, capability, number = int(version), int(capability), int(number)
    record = records[plan][number]
    wanted = True
    if said.startswith("backward"):
        oldest = (LINEAR if scores(record) > CAP else OLDEST).get(capability)
        is_long = int(re.search(r"\bhead=(\d+)", record).group(1)) > 128
        wanted = oldest is not None and version >= oldest and (capability == 90 or not is_long)
    got = "none:" not in said
    if got != wanted:
        print("FAIL %d, capability %d, %s record %d: %s\n%s" % (version, capability, plan, number, said, record))
    return got == wanted


def main():
    dtc, tool, examples = map(os.path.abspath, sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        plans = []
        for name in sorted(os.listdir(examples)):
            if name.endswith(".dsl"):
                plans += plans_of(dtc, os.path.join(examples, name), name[:-4])
        records = {plan: [line for line in subprocess.run([dtc, "dump", plan], capture_output=True, text=True,
                                                          check=True).stdout.splitlines()
                          if line.startswith("SDPA ")] for plan in plans}
        done = subprocess.run([tool, *plans], capture_output=True, text=True, timeout=500)
    if done.returncode == 77:
        print("skipped: there is no libcudnn.so.9 of version 9.16 or later")
        return 77
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    with_attention = sorted(plan for plan in plans if records[plan])
    backward = sum("\tbackward" in line for line in lines)
    assert backward and backward % 3 == 0 and len(lines) > backward, done.stdout
    assert {plan.split(".")[0] for plan in with_attention} >= {"gpt2", "gpt_1t", "llama3_8b", "moe", "t5", "vit"}
    failed = sum(not check(line, records) for line in lines)
    print("%d graphs of %d plans, %d as they should not be" % (len(lines), len(with_attention), failed))
    return 1 if failed else 0


sys.exit(main())
