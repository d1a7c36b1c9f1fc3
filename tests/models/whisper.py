# SPDX-License-Identifier: Apache-2.0
"""Whisper in PyTorch."""

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    b, e = d["batch"], d["embed"]
    sound = draw("sound", (b, 2 * d["src"], d["mel"]), -1.0, 1.0)
    row = draw("tokens", (b, d["tgt"] + 1), 0, d["vocab"])
    norm = lambda x, name: F.layer_norm(x, (e,), p[name + ".gain"], p[name + ".shift"], 1e-5)

    def attend(x, y, name, causal=False):
        q = torch.einsum("bse,ehd->bhsd", x, p[name + ".wq.w"]) + p[name + ".wq.b0"][None, :, None]
        k = torch.einsum("bse,ehd->bhsd", y, p[name + ".wk.w"])
        v = torch.einsum("bse,ehd->bhsd", y, p[name + ".wv.w"]) + p[name + ".wv.b0"][None, :, None]
        o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return torch.einsum("bhsd,hde->bse", o, p[name + ".wo.w"]) + p[name + ".wo.b0"]

    def mlp(x, name):
        x = F.gelu(x @ p[name + ".up.w"] + p[name + ".up.b0"])
        return x @ p[name + ".down.w"] + p[name + ".down.b0"]

    def conv(x, name, stride):  # w: [win, in, out]
        return F.gelu(F.conv1d(x, p[name + ".w"].permute(2, 1, 0), p[name + ".b"], stride, 1))

    y = conv(conv(sound.transpose(1, 2), "c1", 1), "c2", 2).transpose(1, 2)
    half = e // 2
    angle = torch.arange(d["src"])[:, None] * 10000.0 ** (-torch.arange(half) / (half - 1))
    y = y + torch.cat([angle.sin(), angle.cos()], 1)
    for i in range(d["enc"]):
        n = norm(y, "e.%d.n1" % i)
        y = y + attend(n, n, "e.%d.self_src" % i)
        y = y + mlp(norm(y, "e.%d.n2" % i), "e.%d.mlp" % i)
    y = norm(y, "post")
    x = p["wte"][row[:, :-1]] + p["wpe"]
    for i in range(d["dec"]):
        n = norm(x, "d.%d.n1" % i)
        x = x + attend(n, n, "d.%d.self_tgt" % i, True)
        x = x + attend(norm(x, "d.%d.n2" % i), y, "d.%d.cross" % i)
        x = x + mlp(norm(x, "d.%d.n3" % i), "d.%d.mlp" % i)
    z = norm(x, "last") @ p["wte"].T
    return F.cross_entropy(z.reshape(-1, d["vocab"]), row[:, 1:].reshape(-1))
