# SPDX-License-Identifier: Apache-2.0
"""LoRA on GPT-2 in PyTorch."""

import torch
import torch.nn.functional as F

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    e = d["embed"]
    norm = lambda x, name: F.layer_norm(x, (e,), p[name + ".gain"], p[name + ".shift"])
    x = p["wte"][tokens] + p["wpe"]
    for i in range(d["layers"]):
        q = lambda name: p["h.%d.%s" % (i, name)]
        n = norm(x, "h.%d.ln1" % i)
        w = q("attention.w") + 2 * torch.einsum("el,lthd->ethd", q("attention.lora_a"), q("attention.lora_b"))
        parts = torch.einsum("bse,ethd->tbhsd", n, w) + q("attention.b")[:, None, :, None]
        o = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + torch.einsum("bhsd,hde->bse", o, q("attention.wo.w")) + q("attention.wo.b0")
        n = F.gelu(norm(x, "h.%d.ln2" % i) @ q("mlp.up.w") + q("mlp.up.b0"), approximate="tanh")
        x = x + n @ q("mlp.down.w") + q("mlp.down.b0")
    return llm.cross_entropy(norm(x, "ln_f") @ p["wte"].T, labels)
