# SPDX-License-Identifier: Apache-2.0
"""Gemma 2 in PyTorch."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    x = p["wte"][tokens] * d["embed"] ** 0.5
    for i in range(2 * d["pairs"]):
        q = lambda name: p["h.%d.%s.%s" % (i // 2, "far" if i % 2 else "near", name)]
        norm = lambda v, name: llm.rms(v, 1 + q(name + ".gain"), 1e-6)
        n = norm(x, "n1")
        queries = torch.einsum("bse,ekgh->bskgh", n, q("attention.wq.w"))
        b, s, kv, group, head = queries.shape
        queries = llm.rope(queries.reshape(b, s, kv * group, head)).reshape(b, s, kv, group, head)
        keys = llm.rope(torch.einsum("bse,ekh->bskh", n, q("attention.wk.w")))
        values = torch.einsum("bse,ekh->bskh", n, q("attention.wv.w"))
        o = llm.attend(queries, keys, values, head**-0.5, llm.window(s, s if i % 2 else d["reach"]), 50.0)
        x = x + norm(torch.einsum("bskgh,kghe->bse", o, q("attention.wo.w")), "n2")
        n = norm(x, "n3")
        x = x + norm((F.gelu(n @ q("mlp.gate.w"), approximate="tanh") * (n @ q("mlp.up.w"))) @ q("mlp.down.w"), "n4")
    z = llm.rms(x, 1 + p["last.gain"], 1e-6) @ p["wte"].T
    return llm.cross_entropy(30 * torch.tanh(z / 30), labels)
