# SPDX-License-Identifier: Apache-2.0
"""NeRF in PyTorch."""

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    b, n = d["batch"], d["depth"]
    eye, toward = (draw(name, (b, 3), -1.0, 1.0) for name in ("eye", "toward"))
    jitter, pixel = draw("jitter", (b, n), 0.0, 1.0), draw("pixel", (b, 3), 0.0, 1.0)
    linear = lambda x, name: x @ p[name + ".w"] + p[name + ".b0"]

    def waves(x, name):
        y = x @ p[name + ".w"]
        for k in range(p[name + ".u"].shape[1]):
            y = y + torch.sin(x * 2**k) @ p[name + ".u"][0, k] + torch.cos(x * 2**k) @ p[name + ".u"][1, k]
        return y

    at = 2 + 4 * (torch.arange(n) + jitter) / n
    gap = torch.cat([at[:, 1:] - at[:, :-1], torch.ones(b, 1)], 1)
    x = eye[:, None] + at[..., None] * toward[:, None]
    h = F.relu(waves(x, "first") + p["b"])
    for i in range(4):
        h = F.relu(linear(h, "f.%d.dense.linear" % i))
    h = F.relu(linear(h, "middle") + waves(x, "again"))
    for i in range(2):
        h = F.relu(linear(h, "g.%d.dense.linear" % i))
    thick = F.relu(h @ p["thick"] + p["much"])
    c = F.relu(linear(linear(h, "feature"), "view.own") + waves(toward, "view")[:, None])
    c = torch.sigmoid(linear(c, "tint"))
    opaque = 1 - torch.exp(-thick * gap)
    clear = torch.cumprod(torch.cat([torch.ones(b, 1), 1 - opaque[:, :-1]], 1), 1)
    return F.mse_loss(((clear * opaque)[..., None] * c).sum(1), pixel)
