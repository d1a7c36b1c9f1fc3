# SPDX-License-Identifier: Apache-2.0
"""Graph attention in PyTorch, with a softmax over a list of edges and nodes for each node."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    b, n = d["batch"], d["node"]
    x = draw("x", (b, n, d["word"]), 0.0, 1.0)
    start, end = (draw(name, (b, d["edge"]), 0, n) for name in ("from", "into"))
    label = draw("label", (b, n), 0, d["classes"])

    def attention(x, name):
        y = torch.tensordot(x, p[name + ".w.w"], x.dim() - 2)
        s, t = (y * p[name + ".source"]).sum(-1), (y * p[name + ".target"]).sum(-1)
        rows = []
        for i in range(b):
            for node in range(n):
                near = torch.cat([start[i][end[i] == node], torch.tensor([node])])
                a = torch.softmax(F.leaky_relu(s[i, near] + t[i, node], 0.2), 0)
                rows.append((a[:, :, None] * y[i, near]).sum(0))
        return torch.stack(rows).reshape(y.shape) + p[name + ".b"]

    z = attention(F.elu(attention(x, "a1")), "a2")[:, :, 0]
    return llm.cross_entropy(z, label)
