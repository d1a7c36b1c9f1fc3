#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's training step of examples/gpt2.dsl on one GPU: forward, backward, clipping, AdamW; bf16 by autocast, parameters in
f32, fused AdamW, flash attention, dropout as there (0.1 behind embeddings, attention and MLP), vocabulary padded to 50304.

    peer_gpt2.py [--steps 24] [--batch 32] [--only eager|compile]

Prints the median of the steps in milliseconds, eager and with torch.compile, each line when it is known."""
import argparse
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, DROP = 12, 768, 12, 1024, 50304, 0.1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (t.view(b, s, HEADS, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, dim=-1))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.out(o.transpose(1, 2).reshape(b, s, WIDTH)), DROP, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh")), DROP, self.training)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = F.dropout(self.wte(tokens) + self.wpe.weight, DROP, self.training)
        for block in self.blocks:
            x = block(x)
        z = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(z.view(-1, VOCAB), labels.view(-1))


def run(args, compiled):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    net = GPT().cuda().train()
    step_of = torch.compile(net) if compiled else net
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    times = []
    for step in range(args.warmup + args.steps):
        data = torch.randint(0, 50257, (args.batch, CONTEXT + 1), device="cuda")
        tokens, labels = data[:, :-1].contiguous(), data[:, 1:].contiguous()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = step_of(tokens, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= args.warmup:
            times.append((time.perf_counter() - begin) * 1e3)
    assert math.isfinite(loss.item())
    print("PyTorch %s, %s: %.3f ms a step, of %d" % (torch.__version__, "torch.compile" if compiled else "eager",
                                                    statistics.median(times), len(times)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("batch", 32), ("steps", 24), ("warmup", 4)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--only", choices=("eager", "compile"))
    args = parser.parse_args()
    for compiled in (False, True):
        if args.only in (None, "compile" if compiled else "eager"):
            run(args, compiled)


main()
