# SPDX-License-Identifier: Apache-2.0
"""Mamba-2 in PyTorch, by its dual form: a masked product of c and b."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    n = d["seq"]
    x = p["wte"][tokens]
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.ssm.%s" % (i, name)]

        def causal(v, name):  # w: [win, chan]
            w = q(name + ".w").T[:, None]
            return F.silu(
                F.conv1d(F.pad(v.transpose(1, 2), (3, 0)), w, q(name + ".b"), groups=w.shape[0]).transpose(1, 2)
            )

        u = llm.rms(x, p["h.%d.n.gain" % i])
        z, v = u @ q("wz.w"), causal(u @ q("wx.w"), "cx")
        v = v.reshape(*v.shape[:2], d["heads"], d["head"])
        b, c = causal(u @ q("wb.w"), "cb"), causal(u @ q("wc.w"), "cc")
        dt = F.softplus(u @ q("wd.w") + q("dt_bias"))
        total = torch.cumsum(-dt * torch.exp(q("a_log")), 1)  # logarithms of decays
        decay = (total[:, :, None] - total[:, None]).masked_fill(~llm.window(n, n)[..., None], float("-inf")).exp()
        y = torch.einsum("bsn,btn,bsth,bth,bthd->bshd", c, b, decay, dt, v) + q("skip")[:, None] * v
        x = x + llm.rms(y.flatten(2) * F.silu(z), q("norm.gain")) @ q("wo.w")
    return llm.cross_entropy(llm.rms(x, p["last.gain"]) @ p["wte"].T, labels)
