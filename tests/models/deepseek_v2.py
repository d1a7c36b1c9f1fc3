# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V2-Lite in PyTorch: every expert computes every token, and gates of those not chosen are 0."""

import torch
import torch.nn.functional as F

import llm


def attention(q, n, d):
    turn = lambda v: llm.rope(v)
    q1 = torch.einsum("bse,ehn->bshn", n, q("wq.w"))
    q2 = turn(torch.einsum("bse,eht->bsht", n, q("wr.w")))
    c = llm.rms(n @ q("wc.w"), q("norm.gain"), 1e-6)
    k1 = torch.einsum("bsl,lhn->bshn", c, q("wk.w"))
    v = torch.einsum("bsl,lhv->bshv", c, q("wv.w"))
    k2 = turn((n @ q("wt.w"))[:, :, None, :])[:, :, 0]
    z = torch.einsum("bshn,bthn->bhst", q1, k1) + torch.einsum("bsht,but->bhsu", q2, k2)
    z = (z * (d["nope"] + d["turned"]) ** -0.5).masked_fill(~llm.window(d["seq"], d["seq"]), float("-inf"))
    o = torch.einsum("bhst,bthv->bshv", torch.softmax(z, -1), v)
    return torch.einsum("bshv,hve->bse", o, q("wo.w"))


def swiglu(q, n):
    return (F.silu(n @ q("gate.w")) * (n @ q("up.w"))) @ q("down.w")


def moe(q, n, d):
    p = torch.softmax(n @ q("router"), -1)
    g, e = p.topk(d["choice"], -1)
    gates = torch.zeros_like(p).scatter(-1, e, g)
    y = torch.einsum("bse,xef->bsxf", n, q("w1"))
    y = torch.einsum("bsxf,xfe->bsxe", F.silu(y) * torch.einsum("bse,xef->bsxf", n, q("w3")), q("w2"))
    return torch.einsum("bsx,bsxe->bse", gates, y) + swiglu(q, n)


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    x = p["wte"][tokens]
    under = lambda path: lambda name: p[path + "." + name]
    x = x + attention(under("first"), llm.rms(x, p["first_n1.gain"], 1e-6), d)
    x = x + swiglu(under("mlp"), llm.rms(x, p["first_n2.gain"], 1e-6))
    for i in range(d["layers"]):
        x = x + attention(under("h.%d.attention" % i), llm.rms(x, p["h.%d.n1.gain" % i], 1e-6), d)
        x = x + moe(under("h.%d.moe" % i), llm.rms(x, p["h.%d.n2.gain" % i], 1e-6), d)
    return llm.cross_entropy(llm.rms(x, p["norm.gain"], 1e-6) @ p["out.w"], labels)
