# SPDX-License-Identifier: Apache-2.0
"""U-Net in PyTorch."""

import torch
import torch.nn.functional as F

from images import conv, pool


def loss(p, draw, d, states):
    size = (d["batch"], d["side"], d["side"])
    image, inside = draw("image", size + (3,), -1.0, 1.0), draw("inside", size, 0, 2)
    double = lambda x, name: F.relu(conv(F.relu(conv(x, p, name + ".c1")), p, name + ".c2"))

    def up(x, name):  # w: [chan, rise, run, out]
        y = F.conv_transpose2d(x.permute(0, 3, 1, 2), p[name + ".w"].permute(0, 3, 1, 2), p[name + ".b"], 2)
        return y.permute(0, 2, 3, 1)

    left = [double(image, "d1")]
    for i in range(2, 6):
        left.append(double(pool(left[-1], 2), "d%d" % i))
    x = left.pop()
    for i in (4, 3, 2, 1):
        x = double(torch.cat([left.pop(), up(x, "t%d" % i)], -1), "u%d" % i)
    return F.binary_cross_entropy_with_logits(conv(x, p, "head")[..., 0], inside.double())
