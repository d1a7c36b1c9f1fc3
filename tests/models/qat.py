# SPDX-License-Identifier: Apache-2.0
"""Quantisation-aware training in PyTorch."""

import torch
import torch.nn.functional as F


def rounded(x, scale):
    return x + (torch.floor(x / scale + 0.5) * scale - x).detach()


def loss(p, draw, d, states):
    x = draw("x", (d["batch"], d["pixel"]), -1.0, 1.0)
    label = draw("label", (d["batch"],), 0, d["classes"])
    for i, (s, w) in enumerate((("s0", "q1.w"), ("s1", "q2.w"), ("s2", "q3.w"))):
        now = x.detach().abs().max()
        states[s + ".top"] = 0.9 * p[s + ".top"] + 0.1 * now
        x = rounded(x, now / 127) @ rounded(p[w], p[w].detach().abs().max() / 127)
        x = F.relu(x) if i < 2 else x
    return F.cross_entropy(x, label)
