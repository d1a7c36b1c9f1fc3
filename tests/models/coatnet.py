# SPDX-License-Identifier: Apache-2.0
"""CoAtNet in PyTorch."""

import torch
import torch.nn.functional as F

from images import batchnorm, conv, pool


def loss(p, draw, d, states):
    image = draw("image", (d["batch"], d["side"], d["side"], 3), -1.0, 1.0)
    label = draw("label", (d["batch"],), 0, d["classes"])
    layer = lambda x, name: x @ p[name + ".w"] + p[name + ".b0"]
    bn = lambda x, name: batchnorm(x, p, name + ".all", states)
    ln = lambda x, name: F.layer_norm(x, (x.shape[-1],), p[name + ".gain"], p[name + ".shift"])

    def mbconv(x, name, stride):
        y = conv(bn(x, name + ".bn0"), p, name + ".p1", stride)
        y = F.gelu(bn(y, name + ".bn1"))
        y = F.gelu(bn(conv(y, p, name + ".p2", groups=y.shape[-1]), name + ".bn2"))
        q = lambda w: p[name + ".squeeze." + w]
        m = y.mean((1, 2))
        y = y * torch.sigmoid(F.silu(m @ q("w1") + q("b1")) @ q("w2") + q("b2"))[:, None, None]
        y = conv(y, p, name + ".p3")
        return (conv(pool(x, 2), p, name + ".p4") if stride == 2 else x) + y

    def attention(x, name):
        n = x.shape[1]
        q = [
            torch.einsum("brse,ehd->bhrsd", x, p[name + ".w%s.w" % c]) + p[name + ".w%s.b0" % c][None, :, None, None]
            for c in "qkv"
        ]
        at = torch.arange(n)[:, None] - torch.arange(n)[None, :] + n - 1
        near = p[name + ".table"][:, at[:, None, :, None], at[None, :, None, :]]
        z = torch.einsum("bhrsd,bhuvd->bhrsuv", q[0], q[1]) * d["head"] ** -0.5 + near
        a = torch.softmax(z.flatten(-2), -1).reshape(z.shape)
        o = torch.einsum("bhrsuv,bhuvd->bhrsd", a, q[2])
        return torch.einsum("bhrsd,hde->brse", o, p[name + ".wo.w"]) + p[name + ".wo.b0"]

    def block(x, name):
        x = x + attention(ln(x, name + ".l1"), name + ".attention")
        return x + layer(F.gelu(layer(ln(x, name + ".l2"), name + ".up")), name + ".down")

    x = conv(F.gelu(bn(conv(image, p, "stem1", 2), "bn0")), p, "stem2")
    for i in (1, 2):
        x = mbconv(x, "a%d" % i, 2)
        for k in range(d["n%d" % i]):
            x = mbconv(x, "h%d.%d.mbconv" % (i, k), 1)
    for i in (3, 4):
        x = block(layer(pool(x, 2), "a%d" % i), "first%d" % i)
        for k in range(d["n%d" % i]):
            x = block(x, "h%d.%d.block" % (i, k))
    return F.cross_entropy(layer(ln(x.mean((1, 2)), "last"), "out"), label)
