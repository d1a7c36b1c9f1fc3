#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's training step of the GPT in bench/gpt_step.dsl: forward, backward, AdamW, float32, on the CPU.

    peer_gpt_step.py --vocab 256 --threads 1 --steps 12 [--compile] [--ranks 2]

Prints one line: the median of the steps' milliseconds after warm-up. With --ranks 2 the batch is halved over two
processes under DistributedDataParallel with gloo, one thread each."""
import argparse
import math
import os
import statistics
import sys
import time


def model(torch, vocab):
    nn, F = torch.nn, torch.nn.functional
    layers, width, heads, context = 4, 256, 8, 256

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = (t.view(b, s, heads, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, dim=-1))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(o.transpose(1, 2).reshape(b, s, width))
            return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
            self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, tokens, labels):
            x = self.wte(tokens) + self.wpe.weight
            for block in self.blocks:
                x = block(x)
            z = self.ln_f(x) @ self.wte.weight.t()
            return F.cross_entropy(z.view(-1, vocab), labels.view(-1))

    return GPT()


def run(args, rank=0):
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(args.threads if args.ranks == 1 else 1)
    net = model(torch, args.vocab)
    batch = 8 // args.ranks
    if args.ranks > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % args.port, rank=rank, world_size=args.ranks)
        net = torch.nn.parallel.DistributedDataParallel(net)
    if args.compile:
        net = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0, foreach=not args.fused, fused=args.fused)
    times = []
    for step in range(args.warmup + args.steps):
        data = torch.randint(0, args.vocab, (batch, 257))
        begin = time.perf_counter()
        loss = net(data[:, :-1], data[:, 1:].contiguous())
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step >= args.warmup:
            times.append((time.perf_counter() - begin) * 1e3)
    assert math.isfinite(loss.item())
    if rank == 0:
        print("%.1f" % statistics.median(times), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("vocab", 256), ("threads", 1), ("steps", 10), ("warmup", 3), ("ranks", 1), ("port", 29511)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args()
    if args.ranks == 1:
        return run(args)
    children = []
    for rank in range(1, args.ranks):
        pid = os.fork()
        if pid == 0:
            run(args, rank)
            sys.exit(0)
        children.append(pid)
    run(args)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
