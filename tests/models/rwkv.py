# SPDX-License-Identifier: Apache-2.0
"""RWKV in PyTorch; the recurrence as sums over all positions before."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    n, e = d["seq"], d["embed"]
    norm = lambda x, name: F.layer_norm(x, (e,), p[name + ".gain"], p[name + ".shift"])
    mixed = lambda x, m: x * m + F.pad(x, (0, 0, 1, 0))[:, :-1] * (1 - m)
    x = norm(p["wte"][tokens], "n0")
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    for layer in range(d["layers"]):
        q = lambda name: p["h.%d.time_mix.%s" % (layer, name)]
        y = norm(x, "h.%d.n1" % layer)
        k, v = mixed(y, q("mk")) @ q("wk.w"), mixed(y, q("mv")) @ q("wv.w")
        r = torch.sigmoid(mixed(y, q("mr")) @ q("wr.w"))
        # weight of position j for position i: its key, decayed since then; the present position
        # has a bonus instead
        since = (i - j - 1)[..., None] * -torch.exp(q("decay"))
        bias = torch.where((i == j)[..., None], q("bonus"), since).masked_fill((j > i)[..., None], float("-inf"))
        w = torch.softmax(bias + k[:, None], 2)
        x = x + (r * torch.einsum("bije,bje->bie", w, v)) @ q("wo.w")
        q = lambda name: p["h.%d.channel_mix.%s" % (layer, name)]
        y = norm(x, "h.%d.n2" % layer)
        k = F.relu(mixed(y, q("mk")) @ q("wk.w")) ** 2
        x = x + torch.sigmoid(mixed(y, q("mr")) @ q("wr.w")) * (k @ q("wv.w"))
    return llm.cross_entropy(norm(x, "last") @ p["head.w"], labels)
