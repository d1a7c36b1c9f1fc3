# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ again, in PyTorch and float64, as their authors' papers and codes write
them: einsum over plain tensors, no named axes, no code shared with the compiler. Constants are
doubles, as in the interpreter."""

import math

import torch
import torch.nn.functional as F

import counter


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2.0)))


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def cross_entropy(z, y):
    """The loss of each element; an element whose label is outside of the vocabulary counts
    nothing."""
    inside = (y >= 0) & (y < z.shape[-1])
    picked = z.gather(-1, y.clamp(0, z.shape[-1] - 1).unsqueeze(-1)).squeeze(-1)
    return torch.where(inside, torch.logsumexp(z, -1) - picked, torch.zeros_like(picked))


def softmax_masked(z, mask):
    """Softmax over the last axis; a row in which everything is masked is zero."""
    z = z.masked_fill(~mask, -math.inf)
    top = z.amax(-1, keepdim=True).clamp(min=max(-1e30, torch.finfo(z.dtype).min)).detach()
    e = torch.exp(z - top)
    return e / e.sum(-1, keepdim=True).clamp(min=max(1e-30, torch.finfo(z.dtype).tiny))


def causal(n, m):
    return torch.arange(m)[None, :] <= torch.arange(n)[:, None]


class Model:
    """Parameters by path, axes in the order that the caller wants, and dropout. A model has
    results(), what the model of the program returns with the order of its axes, and loss(results).

    states: values before the step, by path; new_states: what results() assigns in training.
    loops: the axis that stacks the parameters under a label. stds: standard deviations of initial
    values by the end of the path, the longest that fits; constants are not listed. adamw, sgd,
    clip: the optimizer; decay is for parameters written with more than one axis, or for all of them
    (decays_all)."""

    loops, stds, shift, decays_all = {}, {}, True, False
    adamw, sgd, clip = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}, None, 1.0

    def __init__(self, values, axes, dims, seed, step):
        own = torch.get_default_dtype()
        self.leaf = {
            k[len("param/") :]: torch.tensor(v, dtype=own, requires_grad=True)
            for k, v in values.items()
            if k.startswith("param/")
        }
        self.input, self.states = (
            {
                k[len(kind) :]: torch.tensor(v, dtype=own)
                for k, v in values.items()
                if k.startswith(kind)
            }
            for kind in ("input/", "state/")
        )
        self.new_states = {}
        self.axes = axes
        self.seed, self.step = seed, step
        self.used = set()
        self.training = True
        for name, value in dims.items():
            setattr(self, name, value)

    def p(self, path, order, iteration=None):
        """A parameter with its axes in this order; if it is stacked, that of one iteration."""
        have = self.axes["param/" + path].split()
        t = self.leaf[path]
        self.used.add(path)
        if iteration is not None:
            assert have[0] == self.loops[path.split(".")[0]], path
            have, t = have[1:], t[iteration]
        assert sorted(have) == sorted(order.split()), (path, have)
        return t.permute([have.index(a) for a in order.split()])

    def ids(self, name):
        return self.input[name].long()

    def flag(self, name):
        return self.input[name] != 0

    def dropout(self, x, order, rate, site, iteration=0):
        if not self.training:
            return x
        order = order.split()
        u = counter.draw(
            counter.key(site, self.seed),
            counter.elements(order, tuple(x.shape)),
            self.step,
            iteration,
        )
        return torch.where(torch.tensor(u >= rate), x * (1 / (1 - rate)), torch.zeros_like(x))

    def layernorm(self, x, path, eps, i=None, axis="embed"):
        u = x - x.mean(-1, keepdim=True)
        y = u * torch.rsqrt((u * u).mean(-1, keepdim=True) + eps)
        y = y * self.p(path + ".gain", axis, i)
        return y + self.p(path + ".shift", axis, i) if self.shift else y

    def rmsnorm(self, x, path, eps, i=None):
        return (
            x
            * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
            * self.p(path + ".gain", "embed", i)
        )

    def linear(self, x, path, a, b, i=None, bias=True):
        """The last axis a of x becomes the axis b, by a product with w."""
        y = x @ self.p(path + ".w", a + " " + b, i)
        return y + self.p(path + ".b0", b, i) if bias else y

    def heads_of(self, x, path, i, bias):
        """[batch, seq, embed] -> [batch, heads, seq, head]"""
        y = torch.einsum("bse,enh->bnsh", x, self.p(path + ".w", "embed heads head", i))
        return y + self.p(path + ".b0", "heads head", i)[None, :, None, :] if bias else y

    def attention(self, x, y, path, i, mask, scale, bias_of_scores=0.0, bias=True):
        q = self.heads_of(x, path + ".wq", i, bias)
        k, v = self.heads_of(y, path + ".wk", i, bias), self.heads_of(y, path + ".wv", i, bias)
        a = softmax_masked(q @ k.transpose(-1, -2) * scale + bias_of_scores, mask)
        o = torch.einsum("bnsh,nhe->bse", a @ v, self.p(path + ".wo.w", "heads head embed", i))
        return o + self.p(path + ".wo.b0", "embed", i) if bias else o

    def mlp(self, x, path, i, act, bias=True):
        h = act(self.linear(x, path + ".up", "embed", "ffn", i, bias))
        return self.linear(h, path + ".down", "ffn", "embed", i, bias)

    def rank(self, path):
        """The number of axes as declared in the program: a bias has one, even if that stands for
        (heads, head)."""
        if path.endswith(".b0"):
            return 1
        return len(self.axes["param/" + path].split()) - (path.split(".")[0] in self.loops)

    def update(self, moments, lr):
        """The optimizer's step. moments: "moment1/PATH" before it, "master/PATH" where there is a
        copy that is stepped; returns what all are then."""
        for path, leaf in self.leaf.items():
            if "master/" + path in moments:
                leaf.data = torch.tensor(moments["master/" + path])
        matrices = [p for p in self.leaf if self.decays_all or self.rank(p) > 1]
        vectors = [p for p in self.leaf if p not in matrices]
        groups = [
            {"params": [self.leaf[p] for p in matrices]},
            {"params": [self.leaf[p] for p in vectors], "weight_decay": 0.0},
        ]
        norm = torch.nn.utils.clip_grad_norm_(self.leaf.values(), self.clip or math.inf)
        if self.sgd:
            names = {"moment1": "momentum_buffer"}
            optimizer = torch.optim.SGD(groups, lr=lr, **self.sgd)
        else:
            names = {"moment1": "exp_avg", "moment2": "exp_avg_sq"}
            optimizer = torch.optim.AdamW(groups, lr=lr, **self.adamw)
        for path, leaf in self.leaf.items():
            optimizer.state[leaf] = {
                ours: torch.tensor(moments[f"{kind}/{path}"]) for kind, ours in names.items()
            }
            if not self.sgd:
                optimizer.state[leaf]["step"] = torch.tensor(float(self.step))
        optimizer.step()
        after = {"param/" + path: leaf for path, leaf in self.leaf.items()}
        copies = [path for path in self.leaf if "master/" + path in moments]
        after.update({"master/" + path: self.leaf[path] for path in copies})
        after.update({"state/" + path: value for path, value in self.new_states.items()})
        for path, leaf in self.leaf.items():
            after.update(
                {f"{kind}/{path}": optimizer.state[leaf][ours] for kind, ours in names.items()}
            )
        return float(norm), {name: tensor.detach().numpy() for name, tensor in after.items()}

    def std(self, path):
        best = max((s for s in self.stds if path.endswith(s)), key=len, default=None)
        if best is None:
            return None
        value = self.stds[best]
        return value(self) if callable(value) else value


class Gpt2(Model):
    loops = {"h": "layers"}
    stds = {
        "wte": 0.02,
        "wpe": 0.01,
        ".w": 0.02,
        "wo.w": lambda m: 0.02 / math.sqrt(2 * m.layers),
        "down.w": lambda m: 0.02 / math.sqrt(2 * m.layers),
    }
    bias, rate, act = True, 0.1, staticmethod(gelu_tanh)

    def drop(self, x, site, i=0):
        return self.dropout(x, "batch seq embed", self.rate, site, i) if self.rate else x

    def results(self):
        tokens = self.ids("tokens")
        wte = self.p("wte", "vocab embed")
        x = self.drop(wte[tokens] + self.p("wpe", "seq embed"), "dropout#0")
        for i in range(self.layers):
            n = self.layernorm(x, "h.ln1", 1e-5, i)
            o = self.attention(
                n,
                n,
                "h.attention",
                i,
                causal(self.seq, self.seq),
                (self.embed // self.heads) ** -0.5,
                bias=self.bias,
            )
            x = x + self.drop(o, "h.attention.dropout#0", i)
            n = self.layernorm(x, "h.ln2", 1e-5, i)
            x = x + self.drop(self.mlp(n, "h.mlp", i, self.act, self.bias), "h.mlp.dropout#0", i)
        return [(self.layernorm(x, "ln_f", 1e-5) @ wte.T, "batch seq vocab")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("labels")).mean()


class Quickstart(Gpt2):
    adamw = {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
    stds = {**Gpt2.stds, "wpe": 0.02}
    bias, rate = False, 0.0


class Shakespeare(Quickstart):
    shift, act = False, staticmethod(gelu)


class Llama(Model):
    loops = {"h": "layers"}
    stds = {"wte": 0.02, ".w": 0.02}
    theta = 500_000

    def rope(self, x):
        """Rotary embedding of [..., seq, head]: rotates pairs of an element of the first half and one
        of the second."""
        half = self.head // 2
        angle = torch.arange(self.seq)[:, None] * self.theta ** (
            -torch.arange(half, dtype=torch.float64) / half
        )
        a, b = x[..., :half], x[..., half:]
        cos, sin = angle.cos().to(x), angle.sin().to(x)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def grouped_attention(self, x, i):
        q = torch.einsum("bse,ekgh->bkgsh", x, self.p("h.attention.wq.w", "embed kv group head", i))
        k = torch.einsum("bse,ekh->bksh", x, self.p("h.attention.wk.w", "embed kv head", i))
        v = torch.einsum("bse,ekh->bksh", x, self.p("h.attention.wv.w", "embed kv head", i))
        z = torch.einsum("bkgsh,bkth->bkgst", self.rope(q), self.rope(k)) * self.head**-0.5
        o = torch.einsum("bkgst,bkth->bkgsh", softmax_masked(z, causal(self.seq, self.seq)), v)
        return torch.einsum(
            "bkgsh,kghe->bse", o, self.p("h.attention.wo.w", "kv group head embed", i)
        )

    def out(self, x):
        return self.linear(self.rmsnorm(x, "norm", 1e-5), "out", "embed", "vocab", bias=False)

    def results(self):
        x = self.p("wte", "vocab embed")[self.ids("tokens")]
        for i in range(self.layers):
            x = x + self.grouped_attention(self.rmsnorm(x, "h.n1", 1e-5, i), i)
            n = self.rmsnorm(x, "h.n2", 1e-5, i)
            g = self.linear(n, "h.swiglu.gate", "embed", "ffn", i, bias=False)
            u = self.linear(n, "h.swiglu.up", "embed", "ffn", i, bias=False)
            x = x + self.linear(F.silu(g) * u, "h.swiglu.down", "ffn", "embed", i, bias=False)
        return [(self.out(x), "batch seq vocab")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("labels")).mean()


class Moe(Llama):
    stds = {"wte": 0.02, ".w": 0.02, "router": 0.02, "w1": 0.02, "w2": 0.02, "w3": 0.02}
    theta = 1_000_000
    choice = 2

    def experts_of(self, x, i):
        """Goes from token to token: each expert has a queue, and tokens that do not fit are
        dropped."""
        w1, w3 = (self.p("h.moe." + w, "experts embed ffn", i) for w in ("w1", "w3"))
        w2 = self.p("h.moe.w2", "experts ffn embed", i)
        slots = 5 * self.seq * self.choice // (4 * self.experts)
        p = torch.softmax(x @ self.p("h.moe.router", "embed route", i), -1)
        gates, chosen = torch.topk(p, self.choice, dim=-1)
        gates = gates / gates.sum(-1, keepdim=True)
        rows, dropped = [], 0
        for b in range(self.batch):
            taken = [0] * self.experts
            for s in range(self.seq):
                y = torch.zeros(self.embed, dtype=torch.float64)
                for c in range(self.choice):
                    e = int(chosen[b, s, c])
                    if taken[e] < slots:
                        y = y + gates[b, s, c] * (
                            (F.silu(x[b, s] @ w1[e]) * (x[b, s] @ w3[e])) @ w2[e]
                        )
                    else:
                        dropped += 1
                    taken[e] += 1
                rows.append(y)
        self.dropped = getattr(self, "dropped", 0) + dropped
        hot = F.one_hot(chosen, self.experts).sum(2).double()
        groups = (self.pool, self.batch // self.pool, self.seq, self.experts)
        each = p.reshape(groups).mean((1, 2)) * hot.reshape(groups).mean((1, 2))
        return torch.stack(rows).reshape(x.shape), self.experts * each.sum(-1).mean()

    def results(self):
        x, aux = self.p("wte", "vocab embed")[self.ids("tokens")], 0.0
        for i in range(self.layers):
            x = x + self.grouped_attention(self.rmsnorm(x, "h.n1", 1e-5, i), i)
            y, a = self.experts_of(self.rmsnorm(x, "h.n2", 1e-5, i), i)
            x, aux = x + y, aux + a
        assert self.dropped > 0, "no token is dropped: the case tests too little"
        return [(self.out(x), "batch seq vocab"), (aux, "")]

    def loss(self, results):
        return super().loss(results) + 0.02 * results[1][0] / self.layers


class Bert(Model):
    adamw, clip = {"betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.01}, None
    loops = {"h": "layers"}
    stds = {"word": 0.02, "place": 0.02, "segment": 0.02, ".w": 0.02}

    def drop(self, x, site, i=0):
        return self.dropout(x, "batch seq embed", 0.1, site, i)

    def results(self):
        word, mask = self.p("word", "vocab embed"), self.flag("valid")[:, None, None, :]
        x = (
            word[self.ids("tokens")]
            + self.p("place", "seq embed")
            + self.p("segment", "kinds embed")[self.ids("kind")]
        )
        x = self.drop(self.layernorm(x, "ln", 1e-12), "dropout#0")
        for i in range(self.layers):
            o = self.attention(x, x, "h.attention", i, mask, self.head**-0.5)
            x = self.layernorm(x + self.drop(o, "h.attention.dropout#0", i), "h.ln1", 1e-12, i)
            o = self.mlp(x, "h.mlp", i, gelu)
            x = self.layernorm(x + self.drop(o, "h.mlp.dropout#0", i), "h.ln2", 1e-12, i)
        x = self.layernorm(
            gelu(self.linear(x, "t", "embed", "embed2")), "t_ln", 1e-12, axis="embed2"
        )
        return [(x @ word.T + self.p("b", "vocab"), "batch seq vocab")]

    def loss(self, results):
        l = cross_entropy(results[0][0], self.ids("labels"))
        masked = self.flag("masked")
        return l[masked].sum() / max(int(masked.sum()), 1)


class T5(Model):
    adamw = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    loops = {"e": "enc", "d": "dec"}
    stds = {
        "word": 1.0,
        "rel_e": lambda m: m.embed**-0.5,
        "rel_d": lambda m: m.embed**-0.5,
        "wq.w": lambda m: (m.embed * m.head) ** -0.5,
        "wk.w": lambda m: m.embed**-0.5,
        "wv.w": lambda m: m.embed**-0.5,
        "wo.w": lambda m: (m.heads * m.head) ** -0.5,
        "up.w": lambda m: m.embed**-0.5,
        "down.w": lambda m: m.ffn**-0.5,
    }

    def bucket(self, d, both):
        """The relative position bias of the paper; d: key minus query."""
        n = self.buckets // 2 if both else self.buckets
        near = n // 2
        r = abs(d) if both else max(-d, 0)
        side = n if both and d > 0 else 0
        if r < near:
            return side + r
        return side + min(near + int(math.log(r / near) / math.log(128 / near) * (n - near)), n - 1)

    def relative(self, path, n, both):
        """[heads, n, n]"""
        table = torch.tensor([[self.bucket(t - s, both) for t in range(n)] for s in range(n)])
        assert len(set(table.flatten().tolist())) > self.buckets // 2
        return self.p(path, "buckets heads")[table].permute(2, 0, 1)

    def drop(self, x, axes, site, i=0):
        return self.dropout(x, axes, 0.1, site, i)

    def feed(self, x, path, s, i):
        h = torch.relu(self.linear(x, path + ".up", "embed", "ffn", i, bias=False))
        h = self.drop(h, f"batch {s} ffn", path + ".dropout#0", i)
        h = self.linear(h, path + ".down", "ffn", "embed", i, bias=False)
        return self.drop(h, f"batch {s} embed", path + ".dropout#1", i)

    def attend(self, x, y, path, s, i, mask, bias):
        o = self.attention(x, y, path, i, mask, 1.0, bias, bias=False)
        return self.drop(o, f"batch {s} embed", path + ".dropout#0", i)

    def results(self):
        word, every = self.p("word", "vocab embed"), torch.tensor(True)
        x = self.drop(word[self.ids("source")], "batch src embed", "dropout#0")
        bias = self.relative("rel_e", self.src, True)
        for i in range(self.enc):
            n = self.rmsnorm(x, "e.n1", 1e-6, i)
            x = x + self.attend(n, n, "e.attention", "src", i, every, bias)
            x = x + self.feed(self.rmsnorm(x, "e.n2", 1e-6, i), "e.mlp", "src", i)
        m = self.rmsnorm(x, "norm_e", 1e-6)
        y = self.drop(word[self.ids("target")], "batch tgt embed", "dropout#1")
        bias = self.relative("rel_d", self.tgt, False)
        for i in range(self.dec):
            n = self.rmsnorm(y, "d.n1", 1e-6, i)
            y = y + self.attend(n, n, "d.self", "tgt", i, causal(self.tgt, self.tgt), bias)
            y = y + self.attend(
                self.rmsnorm(y, "d.n2", 1e-6, i), m, "d.cross", "tgt", i, every, 0.0
            )
            y = y + self.feed(self.rmsnorm(y, "d.n3", 1e-6, i), "d.mlp", "tgt", i)
        return [(self.rmsnorm(y, "norm_d", 1e-6) * self.embed**-0.5 @ word.T, "batch tgt vocab")]

    def loss(self, results):
        valid = self.flag("valid")
        return cross_entropy(results[0][0], self.ids("labels"))[valid].sum() / max(
            int(valid.sum()), 1
        )


class Vit(Model):
    adamw = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.3}
    loops = {"h": "layers"}
    stds = {"pos": 0.02, ".w": 0.02}

    def results(self):
        image = self.input["image"].reshape(
            self.batch, self.gh, self.ph, self.gw, self.pw, self.rgb
        )
        x = torch.einsum("bypxqc,pqce->byxe", image, self.p("proj.w", "ph pw rgb embed")) + self.p(
            "proj.b0", "embed"
        )
        x = x.reshape(self.batch, self.gh * self.gw, self.embed)
        cls = self.p("cls", "tok embed").expand(self.batch, 1, self.embed)
        x = torch.cat([cls, x], 1) + self.p("pos", "tok embed")
        for i in range(self.layers):
            n = self.layernorm(x, "h.ln1", 1e-6, i)
            x = x + self.attention(n, n, "h.attention", i, torch.tensor(True), self.head**-0.5)
            x = x + self.mlp(self.layernorm(x, "h.ln2", 1e-6, i), "h.mlp", i, gelu)
        return [
            (
                self.linear(self.layernorm(x, "ln", 1e-6)[:, 0], "head", "embed", "classes"),
                "batch classes",
            )
        ]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("label")).mean()


class Vgg16(Model):
    sgd, clip, decays_all = {"momentum": 0.9, "weight_decay": 5e-4}, None, True
    stds = {
        "c1.w": lambda m: None,
        "c2.w": lambda m: None,
        "c3.w": lambda m: None,
        "f1.w": 0.01,
        "f2.w": 0.01,
        "f3.w": 0.01,
    }

    def std(self, path):
        if path.split(".")[-2].startswith("c"):
            return math.sqrt(2 / (9 * self.leaf[path].shape[-1])) if path.endswith(".w") else None
        return super().std(path)

    def conv(self, x, path):
        w, b = self.p(path + ".w", "out chan kh kw"), self.p(path + ".b", "out")
        return torch.relu(F.conv2d(x, w, b, padding=1))

    def results(self):
        x = self.input["image"].permute(0, 3, 1, 2)
        for stage, convs in (("s.0", 2), ("s.1", 2), ("t.0", 3), ("t.1", 3), ("t.2", 3)):
            for c in range(1, convs + 1):
                x = self.conv(x, f"{stage}.c{c}")
            x = F.max_pool2d(x, 2)
        x = torch.einsum("bcyx,yxcf->bf", x, self.p("f1.w", "height width chan fc")) + self.p(
            "f1.b0", "fc"
        )
        x = self.dropout(torch.relu(x), "batch fc", 0.5, "dropout#0")
        x = self.dropout(torch.relu(self.linear(x, "f2", "fc", "fd")), "batch fd", 0.5, "dropout#1")
        return [(self.linear(x, "f3", "fd", "classes"), "batch classes")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("label")).mean()


class States(Model):
    """tests/sweep/states.dsl: batch norm with running statistics."""

    sgd, clip = {"momentum": 0.9, "weight_decay": 0.01}, 1.0
    loops = {"h": "layers"}
    stds = {".w": 0.02}

    def norm(self, x, path, i=None):
        mean, square, count = (
            self.states[path + "." + name] if i is None else self.states[path + "." + name][i]
            for name in ("mu", "square", "count")
        )
        if not self.training:
            return (x - mean) * torch.rsqrt(square + 1e-3) * self.p(path + ".gain", "embed", i)
        g = x.reshape(self.pool, self.batch // self.pool, self.embed)
        m, s = g.mean(1, keepdim=True), (g * g).mean(1, keepdim=True)
        new = {
            "mu": 0.9 * mean + 0.1 * m.mean((0, 1)),
            "square": 0.9 * square + 0.1 * s.mean((0, 1)),
            "count": count + 1,
        }
        for name, value in new.items():
            self.new_states.setdefault(path + "." + name, []).append(value.detach())
        y = (g - m) * torch.rsqrt(s - m * m + 1e-3)
        return y.reshape(x.shape) * self.p(path + ".gain", "embed", i)

    def results(self):
        if self.training:
            self.new_states = {}
        x = self.norm(self.input["x"], "first")
        for i in range(self.layers):
            y = torch.relu(self.linear(self.norm(x, "h.norm", i), "h.up", "embed", "ffn", i))
            y = self.dropout(y, "batch ffn", 0.2, "h.dropout#0", i)
            x = x + self.linear(y, "h.down", "ffn", "embed", i)
        y = self.linear(x, "out", "embed", "classes")
        self.new_states = {
            path: torch.stack(values) if path.startswith("h.") else values[0]
            for path, values in self.new_states.items()
        }
        return [(y, "batch classes")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("label")).mean()


class Draws(Model):
    """tests/passes/programs/draws.dsl: random numbers in the train block, a model and its loop."""

    adamw = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    decays_all = True
    loops = {"i": "layers"}
    stds = {".w": 0.2, "w": 0.5, "b": 0.5}

    def uniform(self, order, site, iteration=0):
        order = order.split()
        return torch.tensor(
            counter.draw(
                counter.key(site, self.seed),
                counter.elements(order, tuple(getattr(self, name) for name in order)),
                self.step,
                iteration,
            )
        )

    def normal(self, order, site, first, iteration=0):
        u, v = (self.uniform(order, f"{site}#{first + k}", iteration) for k in (0, 1))
        return torch.sqrt(-2 * torch.log(1 - u)) * torch.cos(2 * math.pi * v)

    def results(self):
        self.row = self.wide
        x, t = self.input["x"], self.uniform("batch", "train.uniform#0")[:, None]
        h = torch.sqrt(1 - t) * x + torch.sqrt(t) * self.normal("batch wide", "normal", 0)
        lo = torch.clamp(h, max=0)
        h = h + (lo + (1 - lo) * self.uniform("batch row", "uniform#2")) * self.p("b", "wide")
        for i in range(self.layers):
            mean = self.linear(h, "i.noisy.m", "wide", "latent", i)
            std = torch.exp(0.5 * torch.tanh(self.linear(h, "i.noisy.s", "wide", "latent", i)))
            z = mean + std * self.normal("batch latent", "i.noisy.normal", 0, i)
            z = z * (self.uniform("batch latent", "i.noisy.bernoulli#2", i) < 0.7)
            gate = -0.1 + 1.1 * self.uniform("wide", "i.noisy.uniform#3", i)
            h = h + self.linear(z, "i.noisy.down", "latent", "wide", i) * gate
        return [(h @ self.p("w", "wide"), "batch")]

    def loss(self, results):
        other = self.input["x"] + 0.5 * self.normal("batch wide", "other.normal", 0)
        y = results[0][0] + 0.1 * other.sum(1)
        p = 0.4 + 0.2 * self.uniform("batch", "train.uniform#0")
        mask = self.uniform("batch", "train.bernoulli#1") < p
        return (y * y * mask).sum() / max(mask.sum(), 1)


class Layers(Model):
    """tests/passes/programs/layers.dsl: layers of the library for images and signals, as torch.nn has them."""

    sgd, clip, decays_all = {"momentum": 0.9, "weight_decay": 0.0}, None, True

    def std(self, path):
        if not path.endswith(".w") or path in ("head.w", "tail.w"):
            return {"head.w": 0.5, "tail.w": 1.0}.get(path)
        groups = {"c1": 2, "c2": 8, "d0": 4, "d2": 4}.get(path.split(".")[0], 1)
        have = dict(zip(self.axes["param/" + path].split(), self.leaf[path].shape))
        return math.sqrt(2 * groups / (have.get("kh", 1) * have["kw"] * have["out"]))

    def weight(self, path, order):
        bias = path + ".b"
        b = self.p(bias, "out") if bias in self.leaf else None
        return self.p(path + ".w", order), b

    def conv(self, x, path, **how):
        return F.conv2d(x, *self.weight(path, "out chan kh kw"), **how)

    def conv1d(self, x, path, **how):
        return F.conv1d(x, *self.weight(path, "out chan kw"), **how)

    def batchnorm(self, x, path):
        """Channels are the second axis."""
        mean, var = (self.states[path + name].clone() for name in (".mu", ".var"))
        gain, shift = self.p(path + ".gain", "chan"), self.p(path + ".shift", "chan")
        y = F.batch_norm(x, mean, var, gain, shift, self.training, 0.1, 1e-5)
        self.new_states.update({path + ".mu": mean.detach(), path + ".var": var.detach()})
        return y

    def ghostnorm(self, x, path):
        """Statistics of batch norms by pools of samples; a running statistic is the average of what
        each pool alone would have given."""
        new, parts = [], []
        for part in x.split(self.batch // self.pool):
            parts.append(self.batchnorm(part, path))
            new.append([self.new_states[path + name] for name in (".mu", ".var")])
        for name, values in zip((".mu", ".var"), zip(*new)):
            self.new_states[path + name] = sum(values) / len(values)
        return torch.cat(parts)

    def results(self):
        self.new_states = {}
        x, s = self.input["x"].permute(0, 3, 1, 2), self.input["s"].permute(0, 2, 1)
        y = torch.relu(self.batchnorm(self.conv(x, "c0", padding=1), "batchnorm"))
        z = self.conv(y, "c1", padding=2, dilation=2, groups=2)
        gain, shift = self.p("groupnorm.gain", "chan"), self.p("groupnorm.shift", "chan")
        y = y + F.softplus(F.group_norm(z, 4, gain, shift, 1e-5))
        y = y + torch.sigmoid(self.conv(y, "c2", padding=1, groups=8))
        y = self.conv(y, "c3", stride=2, padding=4, dilation=3)
        y = y + F.max_pool2d(F.avg_pool2d(y, 3, 1, 1), 3, 1, 1)
        z = F.adaptive_avg_pool2d(y, (self.rows, self.cols)).permute(0, 2, 3, 1)
        t = self.conv1d(F.pad(s, (6, 0)), "d0", dilation=2, groups=4)
        t = self.conv1d(t, "d1", stride=2, padding=2).mean(-1)
        v = self.conv1d(self.ghostnorm(s, "ghostnorm"), "d2", padding=2, dilation=2, groups=4)
        w = self.p("head.w", "rows cols chan classes")
        y = torch.einsum("brkc,rkcn->bn", z + t[:, None, None], w)
        y = y + self.p("head.b0", "classes")
        y = y + self.linear((torch.round(3 * s) * v).mean(2), "tail", "chan", "classes")
        return [(y, "batch classes")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("label")).mean()


class Lstm(Model):
    """PyTorch's own nn.LSTM, whose second bias is zero."""

    adamw = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    decays_all = True
    stds = {"wte": 0.1, "out.w": 0.02}

    def lstm(self, x, path, a, h):
        size = getattr(self, h)
        weights = {
            "weight_ih_l0": self.p(path + ".w", f"gate {h} {a}").reshape(4 * size, -1),
            "weight_hh_l0": self.p(path + ".u", f"gate {h} row").reshape(4 * size, size),
            "bias_ih_l0": self.p(path + ".b", f"gate {h}").reshape(4 * size),
            "bias_hh_l0": torch.zeros(4 * size),
        }
        module = torch.nn.LSTM(getattr(self, a), size, batch_first=True)
        return torch.func.functional_call(module, weights, (x,))[0]

    def results(self):
        x = self.p("wte", "vocab embed")[self.ids("tokens")]
        x = self.lstm(self.lstm(x, "first", "embed", "hidden"), "second", "hidden", "embed")
        return [(self.linear(x, "out", "embed", "vocab"), "batch seq vocab")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("labels")).mean()


class Gru(Model):
    """PyTorch's own nn.GRU, forwards and over the reversed sequence."""

    adamw = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    decays_all = True
    stds = {".w": 0.3, ".u": 0.3, ".b": 0.1, ".d": 0.1, "out.w": 0.02}

    def gru(self, x, path):
        n = 3 * self.hidden
        weights = {
            "weight_ih_l0": self.p(path + ".w", "gate hidden embed").reshape(n, -1),
            "weight_hh_l0": self.p(path + ".u", "gate hidden row").reshape(n, -1),
            "bias_ih_l0": self.p(path + ".b", "gate hidden").reshape(n),
            "bias_hh_l0": self.p(path + ".d", "gate hidden").reshape(n),
        }
        module = torch.nn.GRU(self.embed, self.hidden, batch_first=True)
        return torch.func.functional_call(module, weights, (x,))[0]

    def results(self):
        x = self.input["x"]
        y = self.gru(x, "gru") * self.gru(x.flip(1), "back").flip(1)
        return [(self.linear(y, "out", "hidden", "classes"), "batch seq classes")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("label")).mean()


class Mamba(Model):
    """The recurrence of the paper, one position after the other."""

    loops = {"h": "layers"}
    stds = {"wte": 0.02, ".w": 0.02, "out.w": lambda m: 0.02 / math.sqrt(m.layers)}

    def std(self, path):
        uniform = path.endswith((".conv.w", ".conv.b", ".dt.w", ".dt.b"))
        return None if uniform else super().std(path)

    def mixer(self, x, i):
        at, scan = "h.mixer", "h.mixer.selective_scan"
        inner, cell = 2 * self.embed, self.cell
        low = (self.embed + 15) // 16
        u = x @ self.p(at + ".signal.w", "embed inner", i)
        taps = self.p(at + ".conv.w", "inner tap", i)[:, None, :]
        u = F.conv1d(F.pad(u.transpose(1, 2), (3, 0)), taps, groups=inner).transpose(1, 2)
        u = F.silu(u + self.p(at + ".conv.b", "inner", i))
        step = u @ self.p(scan + ".down.w", "inner low", i) @ self.p(scan + ".dt.w", "low inner", i)
        step = F.softplus(step + self.p(scan + ".dt.b", "inner", i), threshold=100)
        assert step.shape == (self.batch, self.seq, inner) and low > 0
        b = u @ self.p(scan + ".b.w", "inner cell", i)
        c = u @ self.p(scan + ".c.w", "inner cell", i)
        start = torch.arange(1, cell + 1).to(u.dtype)
        a = -start * torch.exp(self.p(scan + ".log_a", "inner cell", i))
        h, ys = torch.zeros(self.batch, inner, cell), []
        for t in range(self.seq):
            decay = torch.exp(step[:, t, :, None] * a)
            h = decay * h + (step[:, t] * u[:, t])[:, :, None] * b[:, t, None, :]
            ys.append((h * c[:, t, None, :]).sum(-1))
        y = torch.stack(ys, 1) + u * self.p(scan + ".d", "inner", i)
        y = y * F.silu(x @ self.p(at + ".gate.w", "embed inner", i))
        return y @ self.p(at + ".out.w", "inner embed", i)

    def results(self):
        wte = self.p("wte", "vocab embed")
        x = wte[self.ids("tokens")]
        for i in range(self.layers):
            x = x + self.mixer(self.rmsnorm(x, "h.norm", 1e-5, i), i)
        return [(self.rmsnorm(x, "ln_f", 1e-5) @ wte.T, "batch seq vocab")]

    def loss(self, results):
        return cross_entropy(results[0][0], self.ids("labels")).mean()


MODELS = {
    "gpt2": Gpt2,
    "quickstart": Quickstart,
    "shakespeare": Shakespeare,
    "llama3_8b": Llama,
    "moe": Moe,
    "bert": Bert,
    "t5": T5,
    "vit": Vit,
    "vgg16": Vgg16,
    "states": States,
    "draws": Draws,
    "layers": Layers,
    "lstm": Lstm,
    "gru": Gru,
    "mamba": Mamba,
}
DEFAULTS = {"vit": {"rgb": 3}}
