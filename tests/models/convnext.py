# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt in PyTorch."""

import torch.nn.functional as F


def loss(p, draw, d, states):
    image = draw("image", (d["batch"], d["side"], d["side"], 3), -1.0, 1.0)
    label = draw("label", (d["batch"],), 0, d["classes"])
    ln = lambda x, name: F.layer_norm(x, (x.shape[-1],), p[name + ".gain"], p[name + ".shift"], 1e-6)

    def conv(x, name, stride=1, pad=0, groups=1):
        w = p[name + ".w"].permute(3, 2, 0, 1)
        return F.conv2d(x.permute(0, 3, 1, 2), w, p[name + ".b"], stride, pad, 1, groups).permute(0, 2, 3, 1)

    def block(x, name):
        y = ln(conv(x, name + ".deep", 1, 3, x.shape[-1]), name + ".norm")
        return x + p[name + ".scale"] * conv(F.gelu(conv(y, name + ".up")), name + ".down")

    x = ln(conv(image, "stem", 4), "norm")
    for i in range(1, 5):
        if i > 1:
            x = conv(ln(x, "t%d.norm" % i), "t%d.c" % i, 2)
        for k in range(d["n%d" % i]):
            x = block(x, "h%d.%d.block" % (i, k))
    return F.cross_entropy(ln(x.mean((1, 2)), "last") @ p["out.w"] + p["out.b0"], label)
