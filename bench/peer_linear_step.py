#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's training step of bench/linear_attention.dsl: forward, backward, clipping, AdamW, float32, on the CPU.

    peer_linear_step.py --seq 1024 --threads 1 [--scan] [--compile]

Linear attention as a Python loop over positions, or with --scan in blocks of 64: sums of outer products of all blocks, a running
sum of these, and a masked product in each block. Prints one line: the median of the steps' milliseconds after warm-up."""
import argparse
import math
import statistics
import time

import torch
from torch import nn

LENGTH = 64


def by_loop(q, k, v):
    """q, k, v: batch, heads, positions, elements."""
    h, all_y = torch.zeros_like(k[..., 0, :, None] * v[..., 0, None, :]), []
    for t in range(q.shape[-2]):
        h = h + k[..., t, :, None] * v[..., t, None, :]
        all_y.append((q[..., t, None, :] @ h).squeeze(-2))
    return torch.stack(all_y, -2)


def by_block(q, k, v):
    shape = v.shape
    q, k, v = (x.unflatten(-2, (-1, min(LENGTH, shape[-2]))) for x in (q, k, v))
    part = k.transpose(-1, -2) @ v
    before = part.cumsum(-3) - part
    return (q @ before + (q @ k.transpose(-1, -2)).tril() @ v).reshape(shape)


class Block(nn.Module):
    def __init__(self, embed, heads, attend):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(embed, embed) for _ in range(4))
        self.heads, self.attend = heads, attend

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return x + self.o(self.attend(q, k, v).transpose(1, 2).flatten(-2))


def check():
    q, k, v = (torch.randn(2, 2, 192, 8, dtype=torch.float64) for _ in range(3))
    assert torch.allclose(by_loop(q, k, v), by_block(q, k, v))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("seq", 1024), ("batch", 4), ("embed", 64), ("layers", 2), ("heads", 2), ("threads", 1),
                          ("steps", 5), ("warmup", 2)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--scan", action="store_true")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    check()
    attend = by_block if args.scan else by_loop
    net = nn.Sequential(*(Block(args.embed, args.heads, attend) for _ in range(args.layers)))
    step_of = torch.compile(net) if args.compile else net
    opt = torch.optim.AdamW(net.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    times = []
    for step in range(args.warmup + args.steps):
        x = torch.rand(args.batch, args.seq, args.embed) * 2 - 1
        begin = time.perf_counter()
        loss = step_of(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step >= args.warmup:
            times.append((time.perf_counter() - begin) * 1e3)
    assert math.isfinite(loss.item())
    print("%.1f" % statistics.median(times), flush=True)


if __name__ == "__main__":
    main()
