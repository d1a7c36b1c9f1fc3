# SPDX-License-Identifier: Apache-2.0
"""A graph convolutional network in PyTorch, with the matrix of neighbours."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    b, n = d["batch"], d["node"]
    x = draw("x", (b, n, d["word"]), 0.0, 1.0)
    one, other = (draw(name, (b, d["edge"]), 0, n) for name in ("one", "other"))
    label = draw("label", (b, n), 0, d["classes"])
    a = torch.eye(n).repeat(b, 1, 1)
    row = torch.arange(b)[:, None].expand_as(one)
    for i, j in ((one, other), (other, one)):
        a = a.index_put((row, i, j), torch.ones(()), accumulate=True)
    root = a.sum(-1) ** -0.5
    a = root[:, :, None] * a * root[:, None]
    h = F.relu(a @ x @ p["l1.w"] + p["b1.b"])
    return llm.cross_entropy(a @ h @ p["l2.w"] + p["b2.b"], label)
