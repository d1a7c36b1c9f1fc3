# SPDX-License-Identifier: Apache-2.0
"""PPO in PyTorch."""

import torch


def advantages(reward, value, last, ends):
    a, following, found = torch.zeros_like(last), last, []
    for t in reversed(range(reward.shape[1])):
        goes = 1 - ends[:, t]
        a = reward[:, t] + 0.99 * following * goes - value[:, t] + 0.99 * 0.95 * goes * a
        following = value[:, t]
        found.append(a)
    return torch.stack(found[::-1], 1)


def lstm(p, x, ends):
    z = torch.einsum("btw,wfh->btfh", x, p["lstm.w"]) + p["lstm.b"]
    h = c = torch.zeros(x.shape[0], z.shape[-1])
    found = []
    for t in range(x.shape[1]):
        if t:
            kept = (1 - ends[:, t - 1])[:, None]
            h, c = h * kept, c * kept
        i, f, g, o = (z[:, t] + torch.einsum("bh,hfk->bfk", h, p["lstm.u"])).unbind(1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        found.append(h)
    return torch.stack(found, 1)


def loss(p, draw, d, states):
    runs = d["batch"], d["time"]
    x = draw("sight", (*runs, d["seen"]), -1.0, 1.0)
    action = draw("action", (*runs, d["act"]), -1.0, 1.0)
    old, reward, value = draw("old", runs, -3.0, -2.0), draw("reward", runs, -1.0, 1.0), draw("value", runs, -1.0, 1.0)
    ends = (draw("over", runs, 0.0, 1.0) > 0.8).double()
    adv = advantages(reward, value, draw("last", runs[:1], -1.0, 1.0), ends)
    wanted = adv + value
    adv = (adv - adv.mean()) / torch.sqrt(adv.var(unbiased=False) + 1e-8)
    y = lstm(p, torch.tanh(x @ p["a.w"] + p["a.b0"]), ends).tanh()
    m, v = y @ p["aim.w"] + p["aim.b0"], (y @ p["value.w"] + p["value.b0"])[..., 0]
    says = torch.distributions.Normal(m, p["deviation"].exp())
    ratio = (says.log_prob(action).sum(-1) - old).exp()
    gain = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    near = value + (v - value).clamp(-0.2, 0.2)
    off = 0.5 * torch.max((v - wanted) ** 2, (near - wanted) ** 2).mean()
    return -gain + 0.5 * off - 0.01 * says.entropy()[0, 0].sum()
