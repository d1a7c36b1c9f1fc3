# SPDX-License-Identifier: Apache-2.0
"""A GAN with a gradient reversal in PyTorch."""

import torch
import torch.nn.functional as F


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return -grad


def loss(p, draw, d, states):
    z = draw("z", (d["batch"], d["noise"]), -1.0, 1.0)
    real = draw("real", (d["batch"], d["pixel"]), -1.0, 1.0)
    layer = lambda x, name: x @ p[name + ".w"] + p[name + ".b0"]

    def judge(x):
        x = F.leaky_relu(layer(x, "d.l1"), 0.2)
        return layer(F.leaky_relu(layer(x, "d.l2"), 0.2), "d.l3")[:, 0]

    fake = torch.tanh(layer(F.relu(layer(F.relu(layer(z, "generator.l1")), "generator.l2")), "generator.l3"))
    return (F.softplus(-judge(real)) + F.softplus(judge(Reverse.apply(fake)))).mean()
