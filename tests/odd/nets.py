# SPDX-License-Identifier: Apache-2.0
"""Random networks for combined.py: small language models with odd extents, whose train blocks combine what a program may
say of data, optimizers, precision, adapters, averages and pruned weights. Net(rng) has the text, with places for SEED, and a
line `NUDGE x`; the files that it reads; and what layouts may split."""

import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))

ATTENTION = """layer NAME(x[batch, seq, embed]DOCARG) -> [batch, seq, embed] {
  q = wq:linear[embed, (kv, group, head)](x, std = 0.4, bias = false)
  k = wk:linear[embed, (kv, head)](x, std = 0.4, bias = false)
  v = wv:linear[embed, (kv, head)](x, std = 0.4, bias = BIAS)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = 0.5MASK)
  return wo:linear[(kv, group, head), embed](o, std = 0.3)
}"""
MLP = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn](std = 0.4) |> gelu |> down:linear[ffn, embed](std = 0.3, bias = BIAS)DROP
}"""
GLU = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  return silu(wg:linear[embed, ffn](x, std = 0.4, bias = false)) * wu:linear[embed, ffn](x, std = 0.4, bias = false)
    |> wd:linear[ffn, embed](std = 0.3, bias = false)
}"""
STACKED = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  param both[two, embed, ffn] = normal(0.4)
  a, b = unstack[two](x @embed both)
  return tanh(a) * b |> wd:linear[ffn, embed](std = 0.3)
}"""
MIXTURE = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(1)
  param w1[experts, embed, ffn], w2[experts, ffn, embed] = normal(0.4)
  g, e = topk[route, choice](softmax[route](f32(x @embed router)))
  g = g / sum[choice](g)
  place = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  taken = scatter[seq, choice](x, experts = e, slot = place)
  y = gelu(taken @embed w1) @ffn w2
  return sum[choice](g * y[experts = e, slot = place])
}"""
DENSE = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w1[experts, embed, ffn], w2[experts, ffn, embed] = normal(0.4)
  p = softmax[experts](r:linear[embed, experts](x, std = 0.7))
  return sum[experts](p * (silu(x @embed w1) @ffn w2))
}"""
CONV = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  return c:conv1d[seq, embed](x, embed, k = TAPS, causal = true) |> tanh
}"""
CARRIED = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  f = r:linear[embed_row, embed]
  s[batch, embed] = 0.0
  repeat t in seq {
    s = tanh(0.5 * f(s[embed -> embed_row], std = 0.3) + x[seq = t])
    y[seq = t] = s
  }
  return y
}"""
BLOCKS = """layer NAME(x[batch, seq, embed]) -> [batch, seq, embed] {
  param rate[embed] = uniform(-1, 1)
  return NAMEfn[seq, embed](x, -abs(tanh(x) + rate))
}
fn NAMEfn[t, d](x[..., t, d], decay[..., t, d]) -> [..., t, d] {
  h = x[t = 0] * 0
  repeat i in size[t] {
    h = exp(decay[t = i]) * h + x[t = i]
    y[t = i] = h
  }
  return y
  scan[t = TAPS] {
    all, so_far = sum[t](decay), cumsum[t](decay)
    return all, sum[t](x * exp(all - so_far))
  }
  neutral() { return 0, 0 }
  merge(all, h, more, g) { return all + more, h * exp(more) + g }
  emit(all, h) {
    repeat i in size[t] {
      h = exp(decay[t = i]) * h + x[t = i]
      y[t = i] = h
    }
    return y
  }
}"""
CROSS = """layer crossed(x[batch, seq, embed], s[batch, src, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (kv, head)](x, std = 0.4)
  k = wk:linear[embed, (kv, head)](s, std = 0.4)
  v = wv:linear[embed, (kv, head)](s, std = 0.4, bias = false)
  return wo:linear[(kv, head), embed](attend[seq, src, head](q, k, v, scale = 0.5), std = 0.3)
}"""
PARTS = {  # text, and the parameters with their axes
    "att": (ATTENTION, {"wq.w": "embed kv group head", "wk.w": "embed kv head", "wv.w": "embed kv head",
                        "wv.b0": "kv head", "wo.w": "kv group head embed", "wo.b0": "embed"}),
    "mlp": (MLP, {"up.w": "embed ffn", "up.b0": "ffn", "down.w": "ffn embed", "down.b0": "embed"}),
    "glu": (GLU, {"wg.w": "embed ffn", "wu.w": "embed ffn", "wd.w": "ffn embed"}),
    "two": (STACKED, {"both": "two embed ffn", "wd.w": "ffn embed", "wd.b0": "embed"}),
    "moe": (MIXTURE, {"router": "embed route", "w1": "experts embed ffn", "w2": "experts ffn embed"}),
    "all": (DENSE, {"w1": "experts embed ffn", "w2": "experts ffn embed", "r.w": "embed experts", "r.b0": "experts"}),
    "conv": (CONV, None),
    "rnn": (CARRIED, {"r.w": "embed_row embed", "r.b0": "embed"}),
    "blk": (BLOCKS, {"rate": "embed"}),
}
LIBRARY = {
    "gpt2": ("heads = 4, positions = 12", "constant drop = 0.0", "heads"),
    "llama": ("heads = 4, kv = 2", "", "kv"),
    "mistral": ("heads = 4, kv = 2", "constant reach = 3", "kv"),
    "qwen3": ("heads = 4, kv = 2, head = 4", "", "kv"),
    "gemma3": ("heads = 4, kv = 2, head = 4", "constant reach = 3, interval = 2", "kv"),
    "mixtral": ("heads = 4, kv = 2, experts = 4, choice = 2", "", "kv"),
    "olmo2": ("heads = 4, kv = 2", "", "kv"),
    "smollm3": ("heads = 4, kv = 2", "", "kv"),
}
OPTIMIZERS = (
    "sgd(lr = 0.1)",
    "sgd(lr = 0.3, momentum = 0.9, clip = 1.0)",
    "adamw(lr = 0.01, eps = 1e-2, decay = 0.1, decay_if = rank > 1)",
    "adamw(lr = 0.01, eps = 1e-2, clip = 0.5)",
    "adamw(lr = warmup_cosine(0.02, warmup = 2, total = 9), eps = 1e-2, clip = 0.5)",
)
WHOLE = (  # updates that are not elementwise
    "lamb(lr = 0.02, decay = 0.1, eps = 1e-2, decay_if = rank >= 2)",
    "adafactor(lr = 0.05, decay = 0.01, threshold = 0.5)",
)


def stream(rng, n, below):
    """A stream of tokens that a network can learn a little of."""
    return [(7 * i * i + i // 3 + rng.randrange(3)) % below for i in range(n)]


class Net:
    """dims: extents; text: the program; files: name -> bytes; loops: labels of loops over layers, with their extents; causal;
    splits: dims that tensor parallelism may split; parameters: (path, axes); notes: features, which are counted."""

    def __init__(self, rng, kind):
        self.rng, self.kind, self.files, self.notes, self.parameters = rng, kind, {}, set(), []
        self.loops, self.tied, self.patterns = [], False, []
        self.dims = {"batch": rng.choice((2, 3, 4, 4, 6, 8, 8, 12)), "seq": rng.choice((1, 2, 4, 5, 6, 8, 8, 8))}
        self.data = rng.choice(("synthetic", "bin", "bin", "mix", "mlm", "chat", "span"))
        if kind == "ramp":
            self.dims["batch"] = rng.choice((8, 12, 16))
        if self.data in ("mlm", "mix", "bin"):
            self.dims["seq"] = max(2, self.dims["seq"])
        library = kind != "ramp" and rng.random() < 0.2
        if library and self.data in ("mlm", "chat", "span"):
            self.data = "bin"
        self.library = library
        self.model_text = self.from_library() if library else self.own()
        self.train()

    # ---- models ----

    def from_library(self):
        rng, d = self.rng, self.dims
        name = rng.choice(sorted(LIBRARY))
        sizes, constants, heads = LIBRARY[name]
        layers = rng.choice((1, 2, 3, 4)) if name != "gemma3" else rng.choice((2, 4))
        d.update(vocab=rng.choice((16, 13, 24)), embed=rng.choice((8, 16)), ffn=rng.choice((12, 10)), layers=layers)
        own = ", ".join("%s = %d" % item for item in d.items())
        d[heads] = 4 if name == "gpt2" else 2
        self.name, self.causal, self.splits = name, True, [heads, "ffn", "vocab"]
        if name == "mixtral":
            d["experts"] = 4
            self.splits.append("experts")
        if name not in ("gemma3", "smollm3"):
            self.loops = [("h", layers)]
        self.notes.add("library " + name)
        self.keys = "kseq"
        self.patterns = ["*.wq", "*.wv"]
        self.names = True
        return ['include "models/%s.dsl"' % name, "dim %s, %s" % (own, sizes), constants]

    def part(self, kind):
        """The name of a new layer of this kind."""
        rng, (text, own) = self.rng, PARTS[kind]
        name = "%s%d" % (kind, self.count)
        self.count += 1
        bias, own = rng.random() < 0.5, dict(own) if own is not None else None
        text = text.replace("NAME", name).replace("BIAS", "true" if bias else "false")
        text = text.replace("TAPS", str(rng.choice((2, 3, 4))))
        if kind == "conv":
            self.names = False
        if not bias:
            for gone in {"att": ("wv.b0",), "mlp": ("down.b0",)}.get(kind, ()):
                own.pop(gone)
        drop = rng.random() < 0.15
        self.notes |= {"dropout"} if drop and "DROP" in text else set()
        text = text.replace("DROP", " |> dropout(0.2)" if drop else "")
        masks = [", mask = iota[kseq] <= iota[seq]"] * 3 + [", mask = iota[kseq] <= iota[seq] and iota[seq] - iota[kseq] < 3"]
        if self.data == "mlm":
            masks.append("")
        mask = rng.choice(masks)
        if self.data == "chat" and mask:
            mask += " and document == document[seq -> kseq]"
        text = text.replace("MASK", mask).replace("DOCARG", ", i32 document[batch, seq]" if self.data == "chat" else "")
        self.layers.append(text)
        return name, own

    def body(self, label, extent):
        rng, lines = self.rng, []
        kinds = rng.sample(sorted(PARTS), rng.choice((1, 2, 2, 3)))
        if rng.random() < 0.6 and "att" not in kinds:
            kinds[0] = "att"
        prefix = [label] if label else []
        for kind in kinds:
            if kind == "moe" and self.data == "span":
                kind = "mlp"
            name, own = self.part(kind)
            self.notes.add("layer " + kind)
            norm = rng.choice(("rmsnorm", "layernorm", ""))
            n = "n" + name
            value = "%s:%s[embed](x)" % (n, norm) if norm else "x"
            more = ", document" if self.data == "chat" and kind == "att" else ""
            lines.append("x = x + 0.5 * %s(%s%s)" % (name, value, more))
            if norm:
                self.parameters.append((prefix + [n, "gain"], ["embed"]))
                if norm == "layernorm":
                    self.parameters.append((prefix + [n, "shift"], ["embed"]))
            for path, axes in (own or {}).items():
                self.parameters.append((prefix + [name] + path.split("."), axes.split()))
        return lines

    def own(self):
        rng, d = self.rng, self.dims
        self.count, self.layers, self.names, self.name = 0, [], True, "m"
        vocab = {"span": 24, "chat": 512, "mlm": 14}.get(self.data) or rng.choice((11, 16, 12, 13))
        d.update(vocab=vocab, embed=rng.choice((4, 6, 8, 12, 1)), ffn=rng.choice((3, 8, 12, 16)))
        d.update(kv=rng.choice((1, 2, 3, 4)), group=rng.choice((1, 2)), head=rng.choice((2, 3, 4)))
        d["experts"] = d["route"] = rng.choice((2, 3, 4))
        d.update(choice=rng.choice((1, 2)), slot=rng.choice((1, 2, d["seq"] * 2)), two=2)
        if self.data == "chat":
            d["seq"] = rng.choice((16, 24))
        lines = ["param wte[vocab, embed] = normal(0.6)", "x = wte[vocab = tokens]", "NUDGE x"]
        self.parameters.append((["wte"], ["vocab", "embed"]))
        arguments = "i32 tokens[batch, seq]"
        if self.data == "chat":
            arguments += ", i32 document[batch, seq], i32 position[batch, seq]"
        if rng.random() < 0.4:
            lines += ["param wpe[seq, embed] = normal(0.4)", "x = x + wpe" + ("[seq = position]" if self.data == "chat" else "")]
            self.parameters.append((["wpe"], ["seq", "embed"]))
        elif self.data == "chat":
            lines.append("x = x * (1 + 0.05 * f32(position))")
        if self.data == "span":
            d.update(src=rng.choice((10, 12)), seq=8)
            arguments = "i32 source[batch, src], i32 tokens[batch, seq]"
            lines += ["s = tanh(se:linear[embed_row, embed](wte[vocab = source][embed -> embed_row], std = 0.5))"]
            self.layers.append(CROSS)
            self.parameters += [(["se", "w"], ["embed_row", "embed"]), (["se", "b0"], ["embed"])]
            self.names = False
        for label, stem in (("h", "layers"), ("g", "more"))[: rng.choice((1, 1, 1, 2))]:
            extent = rng.choice((1, 2, 3, 4, 4, 5, 6, 8))
            d[stem] = extent
            self.loops.append((label, extent))
            inner = self.body(label, extent)
            if self.data == "span" and label == "h":
                inner.append("x = x + 0.5 * crossed(x, s)")
            lines += ["repeat %s in %s {" % (label, stem)] + ["  " + line for line in inner] + ["}"]
            if rng.random() < 0.2:
                lines += self.body("", 1)
        head = rng.choice(("tied", "linear", "norm"))
        self.tied = head == "tied"
        if head == "norm":
            lines.append("x = last:rmsnorm[embed](x)")
            self.parameters.append((["last", "gain"], ["embed"]))
        if self.tied:
            lines.append("return x @embed wte")
            self.notes.add("tied")
        else:
            lines.append("return out:linear[embed, vocab](x, std = 0.5, bias = false)")
            self.parameters.append((["out", "w"], ["embed", "vocab"]))
        self.causal = self.data not in ("mlm", "span", "chat")
        self.splits = ["kv", "ffn", "vocab", "experts", "group", "head", "embed"]
        self.keys = "kseq"
        linears = sorted({".".join(["*"] + path[-2:-1]) for path, _ in self.parameters if path[-1] == "w" and len(path) > 2})
        self.patterns = linears
        d["kseq"], d["embed_row"] = d["seq"], d["embed"]
        text = "dim " + ", ".join("%s = %d" % item for item in d.items())
        model = ["model m(%s) -> [batch, seq, vocab] {" % arguments] + ["  " + line for line in lines] + ["}"]
        names = self.names_block() if self.names and rng.random() < 0.7 else []
        self.names = bool(names)
        return ['include "std.dsl"', text, "axis narrow, o, both_of"] + self.layers + model + names

    def names_block(self):
        """Each parameter by one of the forms of an entry."""
        rng, lines, left = self.rng, [], list(self.parameters)
        loops = {label for label, _ in self.loops}
        rng.shuffle(left)
        while left:
            path, axes = left.pop()
            name, right, axes = "t%d" % len(lines), ".".join(path), list(axes)
            twin = next((p for p in left if p[1] == axes and p[0][0] == path[0] and len(p[0]) == len(path)), None)
            if twin and rng.random() < 0.4:
                left.remove(twin)
                form = rng.choice(("stack", "concat"))
                if form == "stack":
                    right, axes = "stack[both_of](%s, %s)" % (right, ".".join(twin[0])), axes + ["both_of"]
                else:
                    at = rng.randrange(len(axes))
                    right = "concat[o](%s[%s -> o], %s[%s -> o])" % (right, axes[at], ".".join(twin[0]), axes[at])
                    axes[at] = "o"
            elif len(axes) > 1 and rng.random() < 0.5:
                at = rng.randrange(len(axes) - 1)
                pair = axes[at : at + 2]
                if rng.random() < 0.3:
                    pair.reverse()
                right += "[(%s, %s) -> o]" % tuple(pair)
                axes[at : at + 2] = ["o"]
            if path[0] in loops:
                if rng.random() < 0.6:
                    name += ".{%s%s}.w" % (path[0], rng.choice(("", " + 2")))
                else:
                    axes.append(path[0])
            rng.shuffle(axes)
            lines.append('  "%s"[%s] = %s' % (name, ", ".join(axes), right))
        return ["names other on m {"] + lines + ["}"]

    # ---- train blocks ----

    def write_tokens(self, name, n, below, dtype="H"):
        self.files[name] = struct.pack("<%d%s" % (n, dtype), *stream(self.rng, n, below))

    def source(self):
        """Lines of inputs, the call of the model, and the loss."""
        rng, d, data = self.rng, self.dims, self.data
        self.notes.add("data " + data)
        pair, vocab = "i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(%s)", d["vocab"]
        mean = "mean[batch, seq](xent[vocab](z, labels))"
        n = 4 * max(d["batch"], 4) * d["seq"] + 7
        if data == "bin":
            self.write_tokens("tokens.bin", n, vocab)
            return [pair % 'bin("tokens.bin", u16)'], "tokens", mean
        if data == "mix":
            self.write_tokens("tokens.bin", n, vocab)
            self.write_tokens("more.bin", n // 3 + d["seq"], vocab, "B")
            a, b = rng.choice(((0.7, 0.3), (1, 2), (0.5, 0.5), (0.9, 0.013)))
            return [pair % ('mix(%g * bin("tokens.bin", u16), %g * bin("more.bin", u8))' % (a, b))], "tokens", mean
        if data == "mlm":
            self.write_tokens("tokens.bin", n, vocab - 1)
            line = ("i32 tokens[batch, seq], i32 kind[batch, seq], bool valid[batch, seq], i32 labels[batch, seq], "
                    'bool masked[batch, seq] = mlm(bin("tokens.bin", u16), mask_id = %d, rate = 0.3)' % (vocab - 1))
            loss = "sum[batch, seq](where(masked, xent[vocab](z, labels), 0)) / max(sum[batch, seq](f32(masked)), 1)"
            return [line], "tokens", loss
        if data == "span":
            self.write_tokens("tokens.bin", 40 * d["src"], 16)
            line = ("i32 source[batch, src], i32 tokens[batch, seq], i32 labels[batch, seq], bool valid[batch, seq] = "
                    'span_corruption(bin("tokens.bin", u16), rate = 0.2, mean_span = 2)')
            loss = "sum[batch, seq](xent[vocab](z, labels)) / max(sum[batch, seq](f32(valid)), 1)"
            return [line], "source, tokens", loss
        if data == "chat":
            words = "a shard is part of the whole and ranks add what they have then go on to next step".split()
            rows = []
            for i in range(4 * d["batch"]):
                text = " ".join(rng.choice(words) for _ in range(rng.choice((1, 2, 3, 5, 9))))
                rows.append({"text": text} if rng.random() < 0.5 else {"prompt": text, "completion": " " + rng.choice(words)})
            self.files["d.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
            with open(os.path.join(HERE, "../tokenizer/fixtures/gpt2.json"), "rb") as file:
                self.files["tok/tokenizer.json"] = file.read()
            pack = ", pack = true" if rng.random() < 0.7 else ""
            line = ("i32 tokens[batch, seq], i32 labels[batch, seq], i32 document[batch, seq], i32 position[batch, seq] = "
                    'chat("d.jsonl", tokenizer = "tok", end = "<|endoftext|>"%s)' % pack)
            loss = "sum[batch, seq](xent[vocab](z, labels)) / max(sum[batch, seq](f32(labels >= 0)), 1)"
            return [line], "tokens, document, position", loss
        return [pair % "synthetic(0, vocab)"], "tokens", mean

    def train(self):
        rng, kind = self.rng, self.kind
        inputs, arguments, loss = self.source()
        lines = inputs + ["z = %s(%s)" % (self.name, arguments)] + (["NUDGE z"] if self.library else [])
        loss = [loss + (" + 0.1 * mean[batch, seq, vocab](tanh(z) * z)" if rng.random() < 0.2 and self.data != "chat" else "")]
        lines += ["loss = " + loss[0]]
        exact = kind == "exact"
        self.optimizer = "sgd(lr = 0.1)" if exact else rng.choice(OPTIMIZERS)
        if kind == "serial" and rng.random() < 0.12:
            self.optimizer = rng.choice(WHOLE)
        self.adapted = False
        if self.patterns and rng.random() < 0.25:
            self.adapted = True
            self.notes.add("adapt")
            some = rng.sample(self.patterns, min(len(self.patterns), rng.choice((1, 2))))
            lines.append("adapt %s = %s" % (", ".join('"%s"' % p for p in some), rng.choice(
                ("lora(rank = 2)", "lora(rank = 1, alpha = 4, std = 0.3)", "lora(rank = 3, drop = 0.2)", "ia3()"))))
            if rng.random() < 0.4:
                lines.append("trained = " + rng.choice(('"*.gain"', '"wte"', '"*"')))
        elif len(self.parameters) > 3 and rng.random() < 0.25:
            self.notes.add("frozen")
            lines.append('frozen = "%s"' % rng.choice((".".join(rng.choice(self.parameters)[0]).replace("h.", "*.", 1), "wte")))
        elif self.parameters and rng.random() < 0.2 and not exact:
            self.notes.add("groups")
            path, _ = rng.choice(self.parameters)
            lines.append('apart = %s, params = "%s")' % (
                rng.choice(("sgd(lr = 0.2, momentum = 0.9, nesterov = true", "adamw(lr = 0.02, eps = 1e-2, clip = 0.7, own_norm = true")),
                ".".join(["*" if part in ("h", "g") else part for part in path])))
        if kind in ("serial", "ramp", "compress") and rng.random() < 0.25:
            self.notes.add("average")
            lines.append("average = " + rng.choice(("ema(0.9)", "swa()", "swa(from = 1)")))
        if not self.adapted and kind == "serial" and rng.random() < 0.12 and not self.tied:
            self.notes.add("keep_zeros")
            lines.append('keep_zeros = "wte"')
        if rng.random() < 0.25 and self.data in ("synthetic", "bin"):
            self.notes.add("eval")
            source = inputs[0].rsplit(" = ", 1)[1]
            lines.append("eval = every(%d, steps = %d, data = %s)" % (rng.choice((1, 2)), rng.choice((1, 2)), source))
        if rng.random() < 0.3:
            lines += ["most = mean[batch, seq](max[vocab](z))", "metrics = most"]
        self.micro = 1
        if kind == "ramp":
            self.ramp(lines)
        lines += ["optimizer = OPTIMIZER", "seed = SEED", "steps = 9"]
        self.text = "\n".join(self.model_text + ["train {"] + [line if line.startswith("NUDGE") else "  " + line for line in lines]
                              + ["}", ""])

    def ramp(self, lines):
        batch = self.dims["batch"]
        self.micro = self.rng.choice([m for m in (2, 4, 8) if batch % m == 0 and batch // m > 0])
        size = batch // self.micro
        first = size * self.rng.choice(range(1, self.micro))
        by = self.rng.choice([n * size for n in range(1, self.micro + 1) if (batch - first) % (n * size) == 0])
        lines.append("ramp = batch(from = %d, by = %d, over = %d)" % (first, by, self.rng.choice((1, batch, 2 * batch))))
