#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's training step of the Mamba in examples/mamba.dsl: forward, backward, clipping, AdamW,
float32, on the CPU.

    peer_mamba_step.py --seq 256 --threads 1 [--scan] [--compile]

The selective scan as a Python loop over positions, or with --scan over all positions at once:
log2(seq) rounds in each of which every position is combined with the position 1, 2, 4, .. before
it. Prints one line: the median of the steps' milliseconds after warm-up."""
import argparse
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

TAPS = 4


def by_loop(decay, update):
    """h[t] = decay[t] h[t - 1] + update[t], along axis 1."""
    h, all_h = torch.zeros_like(update[:, 0]), []
    for t in range(update.shape[1]):
        h = decay[:, t] * h + update[:, t]
        all_h.append(h)
    return torch.stack(all_h, 1)


def by_doubling(decay, update):
    n, reach = update.shape[1], 1
    while reach < n:
        update = torch.cat([update[:, :reach], update[:, reach:] + decay[:, reach:] * update[:, :-reach]], 1)
        decay = torch.cat([decay[:, :reach], decay[:, reach:] * decay[:, :-reach]], 1)
        reach *= 2
    return update


class Mixer(nn.Module):
    def __init__(self, embed, cell, scan):
        super().__init__()
        inner, low = 2 * embed, (embed + 15) // 16
        self.norm, self.scan = nn.RMSNorm(embed, eps=1e-5), scan
        self.signal, self.gate = nn.Linear(embed, inner, bias=False), nn.Linear(embed, inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, TAPS, groups=inner)
        self.down, self.dt = nn.Linear(inner, low, bias=False), nn.Linear(low, inner)
        self.b, self.c = nn.Linear(inner, cell, bias=False), nn.Linear(inner, cell, bias=False)
        self.log_a, self.d = nn.Parameter(torch.zeros(inner, cell)), nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, embed, bias=False)
        nn.init.uniform_(self.dt.bias, -6.9, -2.25)

    def forward(self, x):
        n = self.norm(x)
        u = F.silu(self.conv(F.pad(self.signal(n).transpose(1, 2), (TAPS - 1, 0))).transpose(1, 2))
        delta = F.softplus(self.dt(self.down(u)))
        a = -torch.arange(1, self.log_a.shape[1] + 1) * torch.exp(self.log_a)
        decay = torch.exp(delta[..., None] * a)
        h = self.scan(decay, (delta * u)[..., None] * self.b(u)[:, :, None, :])
        y = torch.einsum("bsic,bsc->bsi", h, self.c(u)) + self.d * u
        return x + self.out(y * F.silu(self.gate(n)))


class Mamba(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.wte = nn.Embedding(args.vocab, args.embed)
        scan = by_doubling if args.scan else by_loop
        self.mixers = nn.ModuleList(Mixer(args.embed, 16, scan) for _ in range(args.layers))
        self.norm = nn.RMSNorm(args.embed, eps=1e-5)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens)
        for mixer in self.mixers:
            x = mixer(x)
        z = self.norm(x) @ self.wte.weight.t()
        return F.cross_entropy(z.view(-1, z.shape[-1]), labels.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("seq", 256), ("batch", 4), ("embed", 64), ("layers", 2), ("vocab", 256), ("threads", 1),
                          ("steps", 5), ("warmup", 2)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--scan", action="store_true")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    net = Mamba(args)
    step_of = torch.compile(net) if args.compile else net
    opt = torch.optim.AdamW(net.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    times = []
    for step in range(args.warmup + args.steps):
        data = torch.randint(0, args.vocab, (args.batch, args.seq + 1))
        begin = time.perf_counter()
        loss = step_of(data[:, :-1], data[:, 1:].contiguous())
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
