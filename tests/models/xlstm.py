# SPDX-License-Identifier: Apache-2.0
"""xLSTM in PyTorch: the parallel form, all positions at once."""

import torch
import torch.nn.functional as F

import llm


def norm(q, x, name):
    return F.layer_norm(x, x.shape[-1:], q(name + ".gain"), q(name + ".shift"))


def mlstm(q, k, v, i, f):
    """q, k, v: [batch, seq, heads, head]; i, f: [batch, seq, heads]"""
    so_far = F.logsigmoid(f).cumsum(1).transpose(1, 2)
    z = so_far[..., :, None] - so_far[..., None, :] + i.transpose(1, 2)[..., None, :]
    n = q.shape[1]
    z = z.masked_fill(~llm.window(n, n), float("-inf"))
    m = z.max(-1, keepdim=True)[0]
    c = torch.einsum("bshd,bthd->bhst", q, k) * k.shape[-1] ** -0.5 * torch.exp(z - m)
    c = c / torch.maximum(c.sum(-1, keepdim=True).abs(), torch.exp(-m))
    return torch.einsum("bhst,bthd->bshd", c, v)


def cell(q, x, seen, d):
    bands = lambda v, name: torch.einsum("bsni,nio->bsno", v.unflatten(-1, (-1, 4)), q(name + ".w")).flatten(2)
    queries, k, v = bands(seen, "wq"), bands(seen, "wk"), bands(x, "wv")
    qkv = torch.stack([queries, k, v], 2)
    i, f = (torch.einsum("bsti,tih->bsh", qkv, q(w + ".w")) + q(w + ".b0") for w in ("wi", "wf"))
    y = mlstm(*(u.unflatten(-1, (d["heads"], -1)) for u in (queries, k, v)), i, f)
    return (F.layer_norm(y, y.shape[-1:]) * q("gain")).flatten(2)


def mixer(q, x, d):
    x, z = torch.einsum("bse,eti->bsti", x, q("up.w")).unbind(2)
    w = q("conv1d.w")  # [4, 1, inner]
    seen = F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), w.permute(2, 1, 0), q("conv1d.b"), groups=w.shape[2])
    seen = F.silu(seen.transpose(1, 2))
    y = cell(lambda name: q("cell." + name), x, seen, d) + q("skip") * seen
    return (y * F.silu(z)) @ q("down.w")


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    x = p["wte"][tokens]
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.%s" % (i, name)]
        x = x + mixer(lambda name: q("mixer." + name), norm(q, x, "norm"), d)
    return llm.cross_entropy(norm(p.get, x, "last") @ p["out.w"], labels)
