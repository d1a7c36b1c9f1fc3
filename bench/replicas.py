#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learning curves of replicas beside those of exact data parallelism, and what they cost on slow links:

  replicas.py DTC DTRUN [STEPS]

A small language model learns the text of the library on four ranks. Each line has the held-out loss of the average after each tenth of
the steps, and the bytes that a rank receives in a step. Below are predicted times of a step of GPT-2 on four machines, by the rate of
the links between them."""

import json
import os
import sys
import tempfile

from compress import ROOT, SMALL, run

OUTER = "(outer = sgd(lr = 0.7, momentum = 0.9, nesterov = true))"
METHODS = {
    "exact": "shard batch on data",
    "local 4": "local 4 on data",
    "local 20": "local 20 on data",
    "local 20, outer": "local 20 on data " + OUTER,
    "gossip ring": "gossip ring on data",
    "gossip pairs": "gossip pairs on data",
}
HELD_OUT = "  eval = every(%d, steps = 8, data = next_token(text(\"%s/lib/*.dsl\", from = 0.9)))\n"


def curve(dtc, dtrun, steps, line):
    text = (SMALL % (ROOT, steps, line)).replace("shard batch on data; " + line, line).replace('*.dsl"))', '*.dsl", to = 0.9))')
    with open("p.dsl", "w") as file:
        file.write(text.replace("  steps =", HELD_OUT % (max(steps // 10, 1), ROOT) + "  steps ="))
    run(dtc, "p.dsl", "-o", "p.plan")
    run(dtrun, "p.plan", "--quiet", "--log", "log", "--overwrite")
    with open("log") as file:
        events = [json.loads(each) for each in file]
    received = sum(group["received"] for event in events if event["event"] == "traffic" for group in event["groups"])
    return [event["loss"] for event in events if event["event"] == "eval"], received / steps / 4


def predicted(dtc, line, rate):
    with open(os.path.join(ROOT, "examples/gpt2.dsl")) as file:
        text = file.read()
    with open("g.dsl", "w") as file:
        file.write(text + '\ncluster far { nodes = 4; gpus = 1; gpu = "h100-sxm"; inter = link(%s, 50us) }\n'
                   "parallel thin on far { mesh data = 4; %s }\n" % (rate, line))
    return json.loads(run(dtc, "g.dsl", "-D", "batch=64", "--parallel", "thin", "--no-kernels", "--report=json"))["time"]["step"]


def main(dtc, dtrun, steps):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, line in METHODS.items():
            losses, received = curve(dtc, dtrun, steps, line)
            print("%-15s %s  %.0f bytes" % (name, " ".join("%.3f" % loss for loss in losses), received), flush=True)
        for rate in ("12.5GB/s", "1.25GB/s", "125MB/s"):
            times = ("%s %.3f s" % (name, predicted(dtc, line, rate)) for name, line in METHODS.items())
            print("GPT-2, 4 machines, %-9s" % rate, "  ".join(times), flush=True)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 200)
