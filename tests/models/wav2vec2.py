# SPDX-License-Identifier: Apache-2.0
"""wav2vec 2.0 in PyTorch."""

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    b, e, n, bands = d["batch"], d["embed"], d["frames"], d["bands"]
    sound = draw("sound", (b, 320 * n + 80, 1), -1.0, 1.0)
    letter = draw("letter", (b, n), 0, d["letters"])
    x = F.conv1d(sound.transpose(1, 2), p["listen.c0.w"].permute(2, 1, 0), stride=5)
    x = F.gelu(F.group_norm(x, d["narrow"], p["listen.groupnorm.gain"], p["listen.groupnorm.shift"]))
    for i in range(6):
        x = F.gelu(F.conv1d(x, p["listen.k.%d.c.w" % i].permute(2, 1, 0), stride=2))
    norm = lambda x, name: F.layer_norm(x, (x.shape[-1],), p[name + ".gain"], p[name + ".shift"])
    x = norm(x.transpose(1, 2), "n0") @ p["proj.w"] + p["proj.b0"]
    v = p["places.v"]
    w = p["places.g"][:, None, None, None] * v / v.pow(2).sum((1, 2, 3), keepdim=True).sqrt()
    w = w.permute(2, 3, 1, 0).reshape(e, e // bands, 128)
    y = F.conv1d(x.transpose(1, 2), w, p["places.b"], padding=64, groups=bands)[..., :-1]
    x = norm(x + F.gelu(y).transpose(1, 2), "n1")
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.%s" % (i, name)]
        a = [
            torch.einsum("bse,ehd->bhsd", x, q("attention.w%s.w" % c)) + q("attention.w%s.b0" % c)[None, :, None]
            for c in "qkv"
        ]
        o = torch.einsum("bhsd,hde->bse", F.scaled_dot_product_attention(*a), q("attention.wo.w")) + q(
            "attention.wo.b0"
        )
        x = norm(x + o, "h.%d.n1" % i)
        y = F.gelu(x @ q("mlp.up.w") + q("mlp.up.b0")) @ q("mlp.down.w") + q("mlp.down.b0")
        x = norm(x + y, "h.%d.n2" % i)
    z = x @ p["out.w"] + p["out.b0"]
    return F.cross_entropy(z.reshape(-1, d["letters"]), letter.reshape(-1))
