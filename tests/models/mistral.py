# SPDX-License-Identifier: Apache-2.0
"""Mistral in PyTorch."""

import torch.nn.functional as F
import torch

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    x, mask = p["wte"][tokens], llm.window(d["seq"], d["reach"])
    kv, group, head = d["kv"], d["group"], d["head"]
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.%s" % (i, name)]
        n = llm.rms(x, q("n1.gain"))
        b, s, _ = n.shape
        queries = llm.rope(llm.grouped(n, q("attention.wq.w"))).reshape(b, s, kv, group, head)
        keys = llm.rope(torch.einsum("bse,ekh->bskh", n, q("attention.wk.w")))
        values = torch.einsum("bse,ekh->bskh", n, q("attention.wv.w"))
        o = llm.attend(queries, keys, values, head**-0.5, mask)
        x = x + torch.einsum("bskgh,kghe->bse", o, q("attention.wo.w"))
        n = llm.rms(x, q("n2.gain"))
        x = x + (F.silu(n @ q("mlp.gate.w")) * (n @ q("mlp.up.w"))) @ q("mlp.down.w")
    return llm.cross_entropy(llm.rms(x, p["norm.gain"]) @ p["out.w"], labels)
