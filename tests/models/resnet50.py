# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 in PyTorch."""

import torch.nn.functional as F

from images import batchnorm, conv, pool


def loss(p, draw, d, states):
    image = draw("image", (d["batch"], d["side"], d["side"], 3), -1.0, 1.0)
    label = draw("label", (d["batch"],), 0, d["classes"])
    norm = lambda x, name: batchnorm(x, p, name, states)

    def block(x, name, stride, project):
        y = F.relu(norm(conv(x, p, name + ".c1"), name + ".n1"))
        y = F.relu(norm(conv(y, p, name + ".c2", stride), name + ".n2"))
        y = norm(conv(y, p, name + ".c3"), name + ".n3")
        x = norm(conv(x, p, name + ".c4", stride), name + ".n4") if project else x
        return F.relu(x + y)

    x = pool(F.relu(norm(conv(image, p, "stem", 2), "norm")), 3, 2, 1)
    for i in range(4):
        x = block(x, "s%d" % (i + 1), 2 if i else 1, True)
        for k in range(d["more%d" % (i + 1)]):
            x = block(x, "h%d.%d.bottleneck" % (i + 1, k), 1, False)
    return F.cross_entropy(x.mean((1, 2)) @ p["head.w"] + p["head.b0"], label)
