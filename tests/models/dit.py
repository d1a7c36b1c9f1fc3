# SPDX-License-Identifier: Apache-2.0
"""DiT in PyTorch."""

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    b, e, gh, gw = d["batch"], d["embed"], d["gh"], d["gw"]
    shape = (b, gh, d["ph"], gw, d["pw"], d["chan4"])
    image, noise = draw("image", shape, -1.0, 1.0), draw("noise", shape, -2.0, 2.0)
    t, label = draw("t", (b,), 0.0, 1.0), draw("label", (b,), 0, d["classes"])
    keep = torch.cos(1.5 * t).view(-1, 1, 1, 1, 1, 1)
    noisy = image * keep + noise * torch.sqrt(1 - keep * keep)
    norm = lambda x: F.layer_norm(x, (e,), eps=1e-6)
    layer = lambda x, name: x @ p[name + ".w"] + p[name + ".b0"]
    x = torch.einsum("bgphqc,pqce->bghe", noisy, p["stem.w"]).reshape(b, gh * gw, e) + p["stem.b0"]
    quarter = e // 4
    omega = 10000.0 ** (-torch.arange(quarter) / quarter)
    rows, columns = torch.arange(gh).repeat_interleave(gw), torch.arange(gw).repeat(gh)
    waves = lambda at: torch.cat([(at[:, None] * omega).sin(), (at[:, None] * omega).cos()], 1)
    x = x + torch.cat([waves(rows), waves(columns)], 1)
    wave = d["freq"] // 2
    angle = 1000 * t[:, None] * 10000.0 ** (-torch.arange(wave) / wave)
    c = layer(F.silu(layer(torch.cat([angle.cos(), angle.sin()], 1), "t1")), "t2")
    c = F.silu(c + p["table"][label])
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.%s" % (i, name)]
        ada = torch.einsum("be,exo->xbo", c, q("ada.w")) + q("ada.b0")[:, None]
        s1, c1, g1, s2, c2, g2 = (v[:, None] for v in ada)
        n = norm(x) * (1 + c1) + s1
        k3 = [
            torch.einsum("bse,ehd->bhsd", n, q("attention.w%s.w" % w)) + q("attention.w%s.b0" % w)[None, :, None]
            for w in "qkv"
        ]
        o = F.scaled_dot_product_attention(*k3)
        x = x + g1 * (torch.einsum("bhsd,hde->bse", o, q("attention.wo.w")) + q("attention.wo.b0"))
        n = norm(x) * (1 + c2) + s2
        n = F.gelu(n @ q("mlp.up.w") + q("mlp.up.b0"), approximate="tanh") @ q("mlp.down.w") + q("mlp.down.b0")
        x = x + g2 * n
    s, r = (torch.einsum("be,exo->xbo", c, p["last_ada.w"]) + p["last_ada.b0"][:, None]).unsqueeze(2)
    y = torch.einsum("bse,epqr->bspqr", norm(x) * (1 + r) + s, p["last.w"]) + p["last.b0"]
    y = y.reshape(b, gh, gw, d["ph"], d["pw"], -1).permute(0, 1, 3, 2, 4, 5)
    return F.mse_loss(y[..., : d["chan4"]], noise)
