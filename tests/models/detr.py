# SPDX-License-Identifier: Apache-2.0
"""DETR in PyTorch."""

import math

import torch
import torch.nn.functional as F


def norm(p, x, name):
    return F.layer_norm(x, x.shape[-1:], p[name + ".gain"], p[name + ".shift"])


def dot(p, x, name):
    return torch.tensordot(x, p[name + ".w"], dims=([-1], [0])) + p[name + ".b0"]


def attention(p, path, q, k, v):
    q, k, v = dot(p, q, path + ".wq"), dot(p, k, path + ".wk"), dot(p, v, path + ".wv")
    z = torch.einsum("bshd,bthd->bhst", q, k) * q.shape[-1] ** -0.5
    o = torch.einsum("bhst,bthd->bshd", torch.softmax(z, -1), v)
    return torch.einsum("bshd,hde->bse", o, p[path + ".wo.w"]) + p[path + ".wo.b0"]


def mlp(p, path, x):
    return dot(p, F.relu(dot(p, x, path + ".up")), path + ".down")


def places(d):
    def sine(at):
        n = d["embed"] // 4
        angle = at[:, None] * 10000.0 ** (-torch.arange(n) / n)
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)

    y, x = (1 + torch.arange(d[n]) for n in ("rows", "cols"))
    y, x = y / d["rows"] * 2 * math.pi, x / d["cols"] * 2 * math.pi
    return torch.cat([sine(y.repeat_interleave(d["cols"])), sine(x.repeat(d["rows"]))], -1)


def giou(a, b):
    a, b = (torch.cat([v[..., :2] - v[..., 2:] / 2, v[..., :2] + v[..., 2:] / 2], -1) for v in (a, b))
    area = lambda lo, hi: (hi - lo).clamp(min=0).prod(-1)
    inner = area(torch.max(a[..., :2], b[..., :2]), torch.min(a[..., 2:], b[..., 2:]))
    union = area(a[..., :2], a[..., 2:]) + area(b[..., :2], b[..., 2:]) - inner
    outer = area(torch.min(a[..., :2], b[..., :2]), torch.max(a[..., 2:], b[..., 2:]))
    return inner / union - (outer - union) / outer


def matched(cost):
    found = torch.zeros(cost.shape[0], cost.shape[2], dtype=torch.long)
    for i, c in enumerate(cost.detach().clone()):
        for _ in range(c.shape[1]):
            q, b = divmod(int(c.argmin()), c.shape[1])
            found[i, b] = q
            c[q], c[:, b] = math.inf, math.inf
    return found


def loss(p, draw, d, states):
    image = draw("image", (d["batch"], d["rows"], d["cols"], d["feature"]), -1.0, 1.0)
    boxes = draw("boxes", (d["batch"], d["box"], 4), 0.2, 0.8)
    kinds = draw("kinds", (d["batch"], d["box"]), 1, d["classes"])
    x, at = dot(p, image, "into").flatten(1, 2), places(d)
    for i in range(d["enc"]):
        path = "e.%d." % i
        x = norm(p, x + attention(p, path + "attention", x + at, x + at, x), path + "n1")
        x = norm(p, x + mlp(p, path + "mlp", x), path + "n2")
    o = torch.zeros(d["batch"], d["query"], d["embed"])
    for i in range(d["dec"]):
        path = "d.%d." % i
        q = o + p["asked"]
        o = norm(p, o + attention(p, path + "self", q, q, o), path + "n1")
        o = norm(p, o + attention(p, path + "cross", o + p["asked"], x + at, x), path + "n2")
        o = norm(p, o + mlp(p, path + "mlp", o), path + "n3")
    o = norm(p, o, "norm")
    z = dot(p, o, "class")
    b = torch.sigmoid(dot(p, F.relu(dot(p, F.relu(dot(p, o, "b1")), "b2")), "b3"))
    row = torch.arange(d["batch"])[:, None]
    cost = -torch.softmax(z, -1).gather(-1, kinds[:, None].expand(-1, d["query"], -1))
    cost = cost + 5 * (b[:, :, None] - boxes[:, None]).abs().sum(-1) - 2 * giou(b[:, :, None], boxes[:, None])
    of = matched(cost)
    wanted = torch.zeros(d["batch"], d["query"], dtype=torch.long)
    wanted[row, of] = kinds
    weight = torch.ones(d["classes"])
    weight[0] = 0.1
    hit = b[row, of]
    off = 5 * (hit - boxes).abs().sum(-1) + 2 * (1 - giou(hit, boxes))
    return F.cross_entropy(z.transpose(1, 2), wanted, weight) + off.mean()
