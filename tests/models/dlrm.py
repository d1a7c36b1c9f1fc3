# SPDX-License-Identifier: Apache-2.0
"""DLRM in PyTorch."""

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    b, n = d["batch"], d["tables"]
    x = draw("x", (b, d["dense"]), 0.0, 1.0)
    ids = draw("id", (b, n), 0, d["rows"])
    click = draw("click", (b,), 0, 2)
    layer = lambda v, name: v @ p[name + ".w"] + p[name + ".b0"]
    for name in ("l1", "l2", "l3", "l4"):
        x = F.relu(layer(x, "bottom." + name))
    f = torch.cat([x[:, None], p["table"][torch.arange(n), ids]], 1)
    pairs = torch.tril(f @ f.transpose(1, 2), -1)
    h = F.relu(x @ p["w1"] + torch.einsum("bfo,fot->bt", pairs, p["w2"]) + p["b"])
    z = layer(F.relu(layer(h, "l2")), "l3")[:, 0]
    return F.binary_cross_entropy_with_logits(z, click.double())
