# SPDX-License-Identifier: Apache-2.0
"""A recurrent spiking network in PyTorch."""

import torch
import torch.nn.functional as F


class Fires(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return (u > 0).to(u.dtype)

    @staticmethod
    def backward(ctx, dy):
        (u,) = ctx.saved_tensors
        return dy / (1 + 10 * u.abs()) ** 2


def loss(p, draw, d, states):
    x = draw("x", (d["batch"], d["time"], d["channel"]), 0.0, 1.0)
    label = draw("label", (d["batch"],), 0, d["classes"])
    drive = x @ p["w"]
    u = spike = torch.zeros(d["batch"], d["hidden"], dtype=x.dtype)
    read, outs = torch.zeros(d["batch"], d["classes"], dtype=x.dtype), []
    for t in range(d["time"]):
        u = 0.9 * u * (1 - spike.detach()) + drive[:, t] + spike @ p["v"]
        spike = Fires.apply(u - 1)
        read = 0.95 * read + spike @ p["o"]
        outs.append(read)
    return F.cross_entropy(torch.stack(outs, 1).max(1).values, label)
