# SPDX-License-Identifier: Apache-2.0
"""Mamba in PyTorch, without a loop: every position reads every earlier one through the product of the
decays between them."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    n = d["seq"]
    x = p["wte"][tokens]
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.ssm.%s" % (i, name)]
        u = llm.rms(x, p["h.%d.n.gain" % i])
        z, v = u @ q("wz.w"), u @ q("wx.w")
        w = q("cx.w").permute(2, 1, 0)  # [kw, 1, out]
        v = F.conv1d(F.pad(v.transpose(1, 2), (3, 0)), w, q("cx.b"), groups=w.shape[0]).transpose(1, 2)
        v = F.silu(v)
        dt = F.softplus(v @ q("wd.w") @ q("dt.w") + q("dt.b0"))
        total = torch.cumsum(dt[..., None] * -torch.exp(q("a_log")), 1)  # logarithms of decays: [batch, seq, inner, state]
        decay = total[:, :, None] - total[:, None]
        decay = decay.masked_fill(~llm.window(n, n)[..., None, None], float("-inf")).exp()
        y = torch.einsum("bsn,btn,bstin,bti,bti->bsi", v @ q("wc.w"), v @ q("wb.w"), decay, dt, v) + q("skip") * v
        x = x + (y * F.silu(z)) @ q("wo.w")
    return llm.cross_entropy(llm.rms(x, p["last.gain"]) @ p["wte"].T, labels)
