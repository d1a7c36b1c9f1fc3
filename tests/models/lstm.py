# SPDX-License-Identifier: Apache-2.0
"""A language model of two LSTM layers, with nn.LSTM's kernel."""

import torch

import llm


def loss(p, draw, d, states):
    tokens, labels = llm.next_token(draw, d)
    x, n = p["wte"][tokens], d["hidden"]
    # the order of gates here: in, forget, out, candidate; in PyTorch: in, forget, candidate, out
    order = (0, 1, 3, 2)
    for name in ("first", "second"):
        w, u, b = (p[name + "." + part] for part in "wub")
        w = w[:, order].reshape(w.shape[0], 4 * n).T
        u, b = u[:, order].reshape(n, 4 * n).T, b[list(order)].reshape(-1)
        zero = torch.zeros(1, d["batch"], n)
        x = torch._VF.lstm(x, (zero, zero), [w, u, b, torch.zeros_like(b)], True, 1, 0.0, True, False, True)[0]
    return llm.cross_entropy(x @ p["out.w"] + p["out.b0"], labels)
