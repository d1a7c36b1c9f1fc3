# SPDX-License-Identifier: Apache-2.0
"""What convolutional models share, in PyTorch: tensors are [batch, height, width, chan], weights [kh, kw, chan, out]."""

import torch
import torch.nn.functional as F


def conv(x, p, name, stride=1, dilation=1, groups=1):
    w = p[name + ".w"].permute(3, 2, 0, 1)
    pad = dilation * (w.shape[-1] // 2)
    y = F.conv2d(x.permute(0, 3, 1, 2), w, p.get(name + ".b"), stride, pad, dilation, groups)
    return y.permute(0, 2, 3, 1)


def pool(x, *sizes):
    return F.max_pool2d(x.permute(0, 3, 1, 2), *sizes).permute(0, 2, 3, 1)


def batchnorm(x, p, name, states, rate=0.1):
    """Over all axes but the last; running statistics go to states."""
    over = tuple(range(x.dim() - 1))
    n = x.numel() // x.shape[-1]
    m, v = x.mean(over), x.var(over, unbiased=False)
    states[name + ".mu"] = (1 - rate) * p[name + ".mu"] + rate * m.detach()
    states[name + ".var"] = (1 - rate) * p[name + ".var"] + rate * v.detach() * n / (n - 1)
    return (x - m) / torch.sqrt(v + 1e-5) * p[name + ".gain"] + p[name + ".shift"]


def groupnorm(x, p, name, groups, eps=1e-5):
    y = F.group_norm(x.permute(0, 3, 1, 2), groups, p[name + ".gain"], p[name + ".shift"], eps)
    return y.permute(0, 2, 3, 1)
