# SPDX-License-Identifier: Apache-2.0
"""The same as reduce.c by Gloo: RANK and WORLD_SIZE in the environment, peer_gloo.py BYTES.."""
import os
import sys
import time

import torch
import torch.distributed as dist

ROUNDS = 7
torch.set_num_threads(1)
dist.init_process_group("gloo")
for size in map(int, sys.argv[1:]):
    tensor, n, took = torch.zeros(size // 4), 20000000 // (size + 20000) + 2, []
    for turn in range(-1, ROUNDS):
        used = time.process_time() if turn <= 0 else used
        began = time.perf_counter()
        for _ in range(n):
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        if turn >= 0:
            took.append((time.perf_counter() - began) * 1e6 / n)
    line = "%d %.2f %.2f\n" % (size, sorted(took)[ROUNDS // 2], (time.process_time() - used) * 1e6 / (n * ROUNDS))
    os.write(1, line.encode())  # at once, so that lines of several ranks stay whole
