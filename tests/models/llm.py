# SPDX-License-Identifier: Apache-2.0
"""What decoders share, in PyTorch."""

import torch


def rms(x, gain, eps=1e-5):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * gain


def rope(x, theta=10000.0):
    """x: [batch, seq, heads, head]; rotates pairs of an element of the first half of a head and one of
    the second."""
    seq, half = x.shape[1], x.shape[-1] // 2
    angle = torch.arange(seq)[:, None] * theta ** (-torch.arange(half) / half)[None, :]
    cos, sin = angle.cos()[None, :, None, :], angle.sin()[None, :, None, :]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, scale, mask, cap=None):
    """Attention of queries q: [batch, seq, kv, group, head] to keys and values k, v: [batch, kseq, kv,
    head]."""
    z = torch.einsum("bskgh,btkh->bkgst", q, k) * scale
    if cap is not None:
        z = cap * torch.tanh(z / cap)
    z = z.masked_fill(~mask, float("-inf"))
    return torch.einsum("bkgst,btkh->bskgh", torch.softmax(z, -1), v)


def window(n, reach):
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    return (j <= i) & (i - j < reach)


def grouped(x, w):
    """q of shape [batch, seq, kv, group, head] from w[embed, kv, group, head], with its rotation."""
    q = torch.einsum("bse,ekgh->bskgh", x, w)
    b, s, kv, group, head = q.shape
    return q.reshape(b, s, kv * group, head)


def next_token(draw, d):
    """Tokens and labels that `next_token(synthetic(0, vocab))` gives: a row of seq + 1 numbers without
    its last, and without its first."""
    row = draw("tokens", (d["batch"], d["seq"] + 1), 0, d["vocab"])
    return row[:, :-1], row[:, 1:]


def cross_entropy(z, y):
    return torch.nn.functional.cross_entropy(z.reshape(-1, z.shape[-1]), y.reshape(-1))
