# SPDX-License-Identifier: Apache-2.0
"""MLP-Mixer in PyTorch."""

import torch
import torch.nn.functional as F


def loss(p, draw, d, states):
    b = d["batch"]
    image = draw("image", (b, d["gh"], d["ph"], d["gw"], d["pw"], d["colour"]), -1.0, 1.0)
    label = draw("label", (b,), 0, d["classes"])
    e, patch = d["embed"], d["gh"] * d["gw"]
    x = torch.einsum("bgphqc,pqce->bghe", image, p["stem.w"]) + p["stem.b0"]
    x = x.reshape(b, patch, e)
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.%s" % (i, name)]
        n = F.layer_norm(x, (e,), q("n1.gain"), q("n1.shift"), 1e-5).transpose(1, 2)
        n = F.gelu(n @ q("mix_patches.up.w") + q("mix_patches.up.b0")) @ q("mix_patches.down.w") + q(
            "mix_patches.down.b0"
        )
        x = x + n.transpose(1, 2)
        n = F.layer_norm(x, (e,), q("n2.gain"), q("n2.shift"), 1e-5)
        x = (
            x
            + F.gelu(n @ q("mix_channels.up.w") + q("mix_channels.up.b0")) @ q("mix_channels.down.w")
            + q("mix_channels.down.b0")
        )
    x = F.layer_norm(x, (e,), p["norm.gain"], p["norm.shift"], 1e-5).mean(1)
    return F.cross_entropy(x @ p["head.w"] + p["head.b0"], label)
