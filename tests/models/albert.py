# SPDX-License-Identifier: Apache-2.0
"""ALBERT in PyTorch."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    shape = d["batch"], d["seq"]
    tokens, kind, labels = (draw(*a) for a in (("tokens", shape, 0, d["vocab"]), ("kind", shape, 0, 2), ("labels", shape, 0, d["vocab"])))
    layer = lambda x, name: x @ p[name + ".w"] + p[name + ".b0"]
    ln = lambda x, name: F.layer_norm(x, (x.shape[-1],), p[name + ".gain"], p[name + ".shift"], 1e-12)
    gelu = lambda x: F.gelu(x, approximate="tanh")

    x = layer(ln(p["word"][tokens] + p["place"] + p["segment"][kind], "l0"), "widened")
    for _ in range(d["layers"]):
        q, k, v = (
            torch.einsum("bse,ehd->bhsd", x, p["block.w%s.w" % c]) + p["block.w%s.b0" % c][:, None] for c in "qkv"
        )
        o = F.scaled_dot_product_attention(q, k, v)
        x = ln(x + torch.einsum("bhsd,hde->bse", o, p["block.wo.w"]) + p["block.wo.b0"], "block.l1")
        x = ln(x + layer(gelu(layer(x, "block.up")), "block.down"), "block.l2")
    x = ln(gelu(layer(x, "t")), "lt")
    return llm.cross_entropy(x @ p["word"].T + p["shift"], labels)
