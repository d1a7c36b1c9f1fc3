# SPDX-License-Identifier: Apache-2.0
"""VQ-VAE in PyTorch."""

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    x = draw("x", (d["batch"], d["place"], d["pixel"]), -1.0, 1.0)
    layer = lambda v, name: v @ p[name + ".w"] + p[name + ".b0"]
    e = layer(F.relu(layer(x, "e1")), "e2")
    nearest = torch.cdist(e.detach(), p["code"].detach()).argmin(-1)
    q = p["code"][nearest]
    y = layer(F.relu(layer(e + (q - e).detach(), "d1")), "d2")
    moves, commits = ((e.detach() - q) ** 2).sum(-1), ((e - q.detach()) ** 2).sum(-1)
    return F.mse_loss(y, x) + moves.mean() + 0.25 * commits.mean()
