# SPDX-License-Identifier: Apache-2.0
"""BYOL in PyTorch."""

import torch.nn.functional as F


def unit(x):
    return x * (x * x).sum(-1, keepdim=True).add(1e-6).rsqrt()


def loss(p, draw, d, states):
    a, b = (draw(name, (d["batch"], d["pixel"]), -1.0, 1.0) for name in "ab")
    x = F.relu(F.relu(a @ p["w1"]) @ p["w2"]) @ p["w3"]
    x = F.relu(x @ p["up.w"] + p["up.b0"]) @ p["down.w"] + p["down.b0"]
    y = (F.relu(F.relu(b @ p["t1"]) @ p["t2"]) @ p["t3"]).detach()
    for i in "123":
        states["t" + i] = 0.99 * p["t" + i] + 0.01 * p["w" + i].detach()
    return (2 - 2 * (unit(x) * unit(y)).sum(-1)).mean()
