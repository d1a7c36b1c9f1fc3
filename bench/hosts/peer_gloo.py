# SPDX-License-Identifier: Apache-2.0
"""The same as reduce.c by Gloo: RANK and WORLD_SIZE in the environment, peer_gloo.py BYTES.."""
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
        began = time.perf_counter()
        for _ in range(n):
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        if turn >= 0:
            took.append((time.perf_counter() - began) * 1e6 / n)
    if dist.get_rank() == 0:
        print(size, "%.2f" % sorted(took)[ROUNDS // 2], flush=True)
