# SPDX-License-Identifier: Apache-2.0
"""RNNsearch in PyTorch."""

import torch

import llm


def loss(p, draw, d, states):
    source = draw("source", (d["batch"], d["src"]), 0, d["vocab"])
    tokens, labels = llm.next_token(draw, {**d, "seq": d["tgt"]})
    linear = lambda x, name: x @ p[name + ".w"].flatten(1) + p.get(name + ".b0", torch.zeros(())).flatten()
    gates = lambda x, name: [linear(x, name + "." + part) for part in "zrn"]

    def step(reads, h, name):
        z = torch.sigmoid(reads[0] + h @ p[name + ".uz"])
        r = torch.sigmoid(reads[1] + h @ p[name + ".ur"])
        return torch.lerp(h, torch.tanh(reads[2] + (r * h) @ p[name + ".un"]), z)

    def read(x, name, cell):  # [batch, src, hidden]
        reads, h, all_h = gates(x, name), torch.zeros(d["batch"], d["hidden"]), []
        for t in range(d["src"]):
            h = step([part[:, t] for part in reads], h, cell)
            all_h.append(h)
        return torch.stack(all_h, 1)

    x, y = p["words"][source], p["said"][tokens]
    behind = read(x.flip(1), "behind", "backward").flip(1)
    notes = torch.cat([read(x, "ahead", "forward"), behind], -1)
    s = torch.tanh(linear(behind[:, 0], "first"))
    keys, word, results = linear(notes, "wk"), gates(y, "word"), []
    for u in range(d["tgt"]):
        near = torch.softmax(torch.tanh(keys + linear(s, "wq")[:, None]) @ p["v"], 1)
        c = torch.einsum("bs,bsn->bn", near, notes)
        o = linear(s, "a") + linear(y[:, u], "b") + linear(c, "c")
        results.append(o.reshape(d["batch"], d["maxout"], 2).amax(-1))
        s = step([a[:, u] + b for a, b in zip(word, gates(c, "context"))], s, "decoder")
    return llm.cross_entropy(linear(torch.stack(results, 1), "out"), labels)
