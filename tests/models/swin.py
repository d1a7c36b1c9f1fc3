# SPDX-License-Identifier: Apache-2.0
"""Swin in PyTorch, with torch.roll and a mask for each window, as in the authors' program."""

import torch
import torch.nn.functional as F


def windows(x, w):
    """[batch, r, s, ...] -> [batch, windows, w * w, ...]"""
    b, r, s = x.shape[:3]
    x = x.reshape(b, r // w, w, s // w, w, *x.shape[3:]).transpose(2, 3)
    return x.reshape(b, (r // w) * (s // w), w * w, *x.shape[5:])


def loss(p, draw, d, states):
    image = draw("image", (d["batch"], d["side"], d["side"], 3), -1.0, 1.0)
    label = draw("label", (d["batch"],), 0, d["classes"])
    w, scale = d["win"], d["head"] ** -0.5
    layer = lambda x, name: x @ p[name + ".w"] + p[name + ".b0"]
    ln = lambda x, name: F.layer_norm(x, (x.shape[-1],), p[name + ".gain"], p[name + ".shift"])

    def attention(x, name, moved):
        b, r, s, e = x.shape
        y = windows(torch.roll(x, (-moved, -moved), (1, 2)), w)
        q, k, v = (
            torch.einsum("bnte,ehd->bnhtd", y, p[name + ".w%s.w" % c]) + p[name + ".w%s.b0" % c][:, None] for c in "qkv"
        )
        at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij"), -1).reshape(-1, 2)
        at = at[:, None] - at[None, :] + w - 1
        z = torch.einsum("bnhtd,bnud->bnhtu" if k.dim() == 4 else "bnhtd,bnhud->bnhtu", q, k) * scale
        z = z + p[name + ".table"][at[..., 0], at[..., 1]].permute(2, 0, 1)
        if moved:
            part, n = torch.zeros(1, r, s), 0
            for rows in (slice(0, -w), slice(-w, -moved), slice(-moved, None)):
                for cols in (slice(0, -w), slice(-w, -moved), slice(-moved, None)):
                    part[:, rows, cols] = n
                    n += 1
            part = windows(part, w)
            z = z.masked_fill((part[..., :, None] != part[..., None, :])[:, :, None], float("-inf"))
        o = torch.einsum("bnhtu,bnhud,hde->bnte", torch.softmax(z, -1), v, p[name + ".wo.w"]) + p[name + ".wo.b0"]
        o = o.reshape(b, r // w, s // w, w, w, e).transpose(2, 3).reshape(b, r, s, e)
        return torch.roll(o, (moved, moved), (1, 2))

    def block(x, name, moved):
        x = x + attention(ln(x, name + ".l1"), name + ".attention", moved)
        return x + layer(F.gelu(layer(ln(x, name + ".l2"), name + ".up")), name + ".down")

    x = F.conv2d(image.permute(0, 3, 1, 2), p["stem.w"].permute(3, 2, 0, 1), p["stem.b"], 4).permute(0, 2, 3, 1)
    x = ln(x, "norm")
    for i in range(1, 5):
        if i > 1:
            x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
            x = ln(x, "t%d.norm" % i) @ p["t%d.c.w" % i]
        for k in range(d["n%d" % i]):
            x = block(x, "h%d.%d.b" % (i, k), 0)
            x = block(x, "h%d.%d.b0" % (i, k), w // 2 if i < 4 else 0)
    return F.cross_entropy(layer(ln(x, "last").mean((1, 2)), "out"), label)
