#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a generated token with weights in f32, 8 and 4 bits:  codes.py DTC DTRUN

CPU time of one rank (the machine may be busy), from runs of two lengths, the least of two each. If PyTorch is there: the
same products, of one row, in f32 and as its dynamic int8 linear layers, one thread."""

import os
import resource
import subprocess
import sys
import tempfile
import time

INNER = '"h.*.wq.w", "h.*.wk.w", "h.*.wv.w", "h.*.up.w", "h.*.down.w", "wte"'
KINDS = (("f32", ""), ("int8, groups of 64", 'quantize = int8(("h.*.w", "wte"), group = 64)'),
         ("int4, groups of 32", 'quantize = int4(("h.*.w", "wte"), group = 32)'),
         ("int4, groups of 128", 'quantize = (int4((%s), group = 128), int4("h.*.wo.w", group = 64))' % INNER))
FEW, MANY = 5, 105


def seconds(command):
    least = float("inf")
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least


def ours(dtc, dtrun):
    here, first = os.path.dirname(os.path.abspath(__file__)), None
    with open(os.path.join(here, "codes.dsl")) as file:
        program = file.read()
    for name, line in KINDS:
        with open("codes.dsl", "w") as file:
            file.write(program.replace("  steps = 1\n", "  steps = 1\n  %s\n" % line))
        subprocess.run([dtc, "codes.dsl", "-o", "codes.plan"], check=True)
        run = [dtrun, "codes.plan", "--unproved", "--quiet", "--generate", "1", "--temperature", "0", "--tokens"]
        token = (seconds([*run, str(MANY)]) - seconds([*run, str(FEW)])) / (MANY - FEW) * 1e3
        first = first or token
        print("%-20s %6.1f ms per token, %.2f of f32" % (name, token, token / first), flush=True)


def peer():
    try:
        import torch
    except ImportError:
        print("PyTorch: skipped, it is not installed")
        return
    torch.set_num_threads(1)
    shapes = [(768, 768)] * 4 + [(768, 3072), (3072, 768)]
    layers = torch.nn.ModuleList([torch.nn.Linear(i, o) for _ in range(12) for i, o in shapes] +
                                 [torch.nn.Linear(768, 50257, bias=False)])
    small = torch.ao.quantization.quantize_dynamic(layers, {torch.nn.Linear}, dtype=torch.qint8)
    for name, of in (("f32", layers), ("dynamic int8", small)):
        given, least = {i: torch.randn(1, i) for i in (768, 3072)}, float("inf")
        for _ in range(20):
            begin = time.process_time()
            with torch.no_grad():
                for layer in of:
                    layer(given[layer.in_features])
            least = min(least, time.process_time() - begin)
        print("PyTorch, products alone, %-14s %6.1f ms" % (name, least * 1e3))


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        ours(*tools)
    peer()


if __name__ == "__main__":
    main([os.path.abspath(path) for path in sys.argv[1:]])
