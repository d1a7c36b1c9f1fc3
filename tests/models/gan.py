# SPDX-License-Identifier: Apache-2.0
"""A GAN in PyTorch: one function for each loss."""

import torch
import torch.nn.functional as F


def judged(p, draw, d):
    """The discriminator's output for generated images and for real ones."""
    z = draw("z", (d["batch"], d["noise"]), -1.0, 1.0)
    real = draw("real", (d["batch"], d["pixel"]), -1.0, 1.0)
    layer = lambda x, name: x @ p[name + ".w"] + p[name + ".b0"]

    def judge(x):
        x = F.leaky_relu(layer(x, "d.l1"), 0.2)
        return layer(F.leaky_relu(layer(x, "d.l2"), 0.2), "d.l3")[:, 0]

    fake = torch.tanh(layer(F.relu(layer(F.relu(layer(z, "generator.l1")), "generator.l2")), "generator.l3"))
    return judge(fake), judge(real)


def apart(p, draw, d, states):
    of_fake, of_real = judged(p, draw, d)
    return (F.softplus(-of_real) + F.softplus(of_fake)).mean()


def fooled(p, draw, d, states):
    return F.softplus(-judged(p, draw, d)[0]).mean()
