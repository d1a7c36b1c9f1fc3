# SPDX-License-Identifier: Apache-2.0
"""Qwen 3 in PyTorch."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    x, mask = p["wte"][tokens], llm.window(d["seq"], d["seq"])
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.%s" % (i, name)]
        n = llm.rms(x, q("n1.gain"), 1e-6)
        queries = llm.rms(torch.einsum("bse,ekgh->bskgh", n, q("attention.wq.w")), q("attention.qn.gain"), 1e-6)
        b, s, kv, group, head = queries.shape
        queries = llm.rope(queries.reshape(b, s, kv * group, head), 1e6).reshape(b, s, kv, group, head)
        keys = llm.rms(torch.einsum("bse,ekh->bskh", n, q("attention.wk.w")), q("attention.kn.gain"), 1e-6)
        values = torch.einsum("bse,ekh->bskh", n, q("attention.wv.w"))
        o = llm.attend(queries, llm.rope(keys, 1e6), values, head**-0.5, mask)
        x = x + torch.einsum("bskgh,kghe->bse", o, q("attention.wo.w"))
        n = llm.rms(x, q("n2.gain"), 1e-6)
        x = x + (F.silu(n @ q("mlp.gate.w")) * (n @ q("mlp.up.w"))) @ q("mlp.down.w")
    return llm.cross_entropy(llm.rms(x, p["norm.gain"], 1e-6) @ p["wte"].T, labels)
