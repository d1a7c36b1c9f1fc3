# SPDX-License-Identifier: Apache-2.0
"""Conformer with PyTorch's own CTC loss."""

import torch
import torch.nn.functional as F

import images


def norm(q, x, name):
    return F.layer_norm(x, x.shape[-1:], q(name + ".gain"), q(name + ".shift"))


def dot(q, x, name):
    w = q(name + ".w")
    y = torch.tensordot(x, w, dims=([-1], [0]))
    return y + q(name + ".b0") if name != "wp" else y


def mlp(q, x):
    return dot(q, F.silu(dot(q, norm(q, x, "norm"), "up")), "down")


def attention(q, x):
    x = norm(q, x, "norm")
    queries, k, v = dot(q, x, "wq"), dot(q, x, "wk"), dot(q, x, "wv")
    n, e = x.shape[1:]
    far = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    angle = far[..., None] * 10000.0 ** (-torch.arange(0, e, 2) / e)
    p = dot(q, torch.stack([angle.sin(), angle.cos()], -1).flatten(-2), "wp")  # [n, n, heads, head]
    z = torch.einsum("bshd,bthd->bhst", queries + q("u"), k) + torch.einsum("bshd,sthd->bhst", queries + q("v"), p)
    o = torch.einsum("bhst,bthd->bshd", torch.softmax(z * k.shape[-1] ** -0.5, -1), v)
    return torch.einsum("bshd,hde->bse", o, q("wo.w")) + q("wo.b0")


def convolve(q, x, path, p, states):
    y = dot(q, norm(q, x, "n1"), "up")
    y = y[:, :, 0] * torch.sigmoid(y[:, :, 1])
    w = q("conv1d.w")  # [kernel, 1, wide]
    y = F.conv1d(y.transpose(1, 2), w.permute(2, 1, 0), q("conv1d.b"), padding=w.shape[0] // 2, groups=w.shape[2])
    return dot(q, F.silu(images.batchnorm(y.transpose(1, 2), p, path + ".n2", states)), "down")


def loss(p, draw, d, states):
    sound = draw("sound", (d["batch"], 4 * d["frames"], d["mels"], 1), -1.0, 1.0)
    label = draw("label", (d["batch"], d["target"]), 1, d["letters"])
    x = F.relu(images.conv(sound, p, "c1", 2))
    x = F.relu(images.conv(x, p, "c2", 2))
    x = torch.einsum("bfnw,nwe->bfe", x, p["into.w"]) + p["into.b0"]
    for i in range(d["layers"]):
        path = "h.%d." % i
        q = lambda part: lambda name: p[path + part + "." + name]
        x = x + 0.5 * mlp(q("m1"), x)
        x = x + attention(q("attention"), x)
        x = x + convolve(q("convolve"), x, path + "convolve", p, states)
        x = norm(lambda name: p[path + name], x + 0.5 * mlp(q("m2"), x), "norm")
    z = x @ p["out.w"] + p["out.b0"]
    sizes = [torch.full((d["batch"],), n) for n in (d["frames"], d["target"])]
    return F.ctc_loss(torch.log_softmax(z, -1).transpose(0, 1), label, *sizes, reduction="sum") / d["batch"]
