# SPDX-License-Identifier: Apache-2.0
"""CLIP in PyTorch."""

import math

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    b = d["batch"]
    image = draw("image", (b, d["gh"], d["ph"], d["gw"], d["pw"], 3), -1.0, 1.0)
    tokens = draw("tokens", (b, d["seq"]), 0, d["vocab"])

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], p[name + ".gain"], p[name + ".shift"])

    def blocks(x, name, causal):
        for i in range(d["layers"]):
            at = "%s.h.%d." % (name, i)
            n = norm(x, at + "n1")
            q, k, v = (
                torch.einsum("bsa,and->bnsd", n, p[at + "attention.w%s.w" % c]) + p[at + "attention.w%s.b0" % c][:, None]
                for c in "qkv"
            )
            o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + torch.einsum("bnsd,nda->bsa", o, p[at + "attention.wo.w"]) + p[at + "attention.wo.b0"]
            u = norm(x, at + "n2") @ p[at + "mlp.up.w"] + p[at + "mlp.up.b0"]
            x = x + u * torch.sigmoid(1.702 * u) @ p[at + "mlp.down.w"] + p[at + "mlp.down.b0"]
        return x

    x = torch.einsum("bgpkqc,pqca->bgka", image, p["picture.stem.w"]).flatten(1, 2)
    x = torch.cat([p["picture.first"].expand(b, 1, -1), x], 1) + p["picture.at"]
    x = blocks(norm(x, "picture.pre"), "picture", False)
    x = norm(x[:, 0], "picture.post") @ p["picture.out.w"]
    y = norm(blocks(p["words.wte"][tokens] + p["words.at"], "words", True), "words.post")
    y = y[torch.arange(b), tokens.argmax(-1)] @ p["words.out.w"]
    z = math.exp(2.6593) * torch.exp(p["heat"]) * F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).T
    return (F.cross_entropy(z, torch.arange(b)) + F.cross_entropy(z.T, torch.arange(b))) / 2
