# SPDX-License-Identifier: Apache-2.0
"""Hyena in PyTorch: its long convolutions are products of spectra."""

import math

import torch
import torch.nn.functional as F

import llm


def filters(q, d):
    """[seq, 2, embed]"""
    n, bands = d["seq"], d["bands"]
    t = torch.linspace(0, 1, n)[:, None]
    angle = 2 * math.pi * torch.arange(n)[:, None] / n * torch.linspace(1e-4, bands - 1, bands)
    z = torch.exp(-1j * angle)
    h = torch.cat([t, z.real, z.imag], -1)
    for w in ("w1", "w2"):
        h = torch.sin(q("freq") * (h @ q(w + ".w") + q(w + ".b0")))
    h = torch.einsum("fo,ote->fte", h, q("w3.w"))
    return h * torch.exp(-t * torch.linspace(3, 15, d["embed"]))[:, None]


def convolve(x, h, skip):
    n = 2 * x.shape[1]
    y = torch.fft.irfft(torch.fft.rfft(h, n, dim=0) * torch.fft.rfft(x, n, dim=1), n, dim=1)
    return y[:, : x.shape[1]] + x * skip


def operator(q, x, d):
    z = (torch.einsum("bse,eto->bsto", x, q("win.w")) + q("win.b0")).flatten(2)
    w = q("conv1d.w")  # [3, 1, wide]
    z = F.conv1d(F.pad(z.transpose(1, 2), (2, 0)), w.permute(2, 1, 0), q("conv1d.b"), groups=w.shape[2])
    a, b, v = z.transpose(1, 2).chunk(3, -1)
    h, skip = filters(lambda name: q("filters." + name), d), q("filters.skip")
    v = convolve(convolve(v * b, h[:, 0], skip[0]) * a, h[:, 1], skip[1])
    return v @ q("wo.w") + q("wo.b0")


def mlp(q, x):
    h = F.gelu(x @ q("up.w") + q("up.b0"), approximate="tanh")
    return h @ q("down.w") + q("down.b0")


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    x = p["wte"][tokens]
    for i in range(d["layers"]):
        q = lambda part: lambda name: p["h.%d.%s.%s" % (i, part, name)]
        norm = lambda part: F.layer_norm(x, x.shape[-1:], q(part)("gain"), q(part)("shift"))
        x = x + operator(q("operator"), norm("n1"), d)
        x = x + mlp(q("mlp"), norm("n2"))
    x = F.layer_norm(x, x.shape[-1:], p["last.gain"], p["last.shift"])
    return llm.cross_entropy(x @ p["wte"].T, labels)
