# SPDX-License-Identifier: Apache-2.0
"""Statements of odd programs with functions of their own: functions that stream over keys, that go along an axis in
blocks, that state their gradients; parameters used twice; a second input. A mixin of programs.Maker; as there, each
takes a value and gives another."""

import math

SOFTMAX = """fn NAME[s, t, d, h](q[..., s, h, d], k[..., t, h, d], v[..., t, h, d]SINKARG NEARARG, mask = true) -> [..., s, h, d] {
  c = SCORE
  z = where(mask, c, -inf)
  top = TOP
  e = exp(z - top)
  den = DEN
  o = (e / den) @t v
  return o
  stream[t] {
    z = where(mask, SCORE, -inf)
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e @t v))
  }
  merge(m, l, u, m2, l2, u2) {
    most = max(m, m2)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(m2, -1e30) - max(most, -1e30))
    return (most, l * a + l2 * b, u * a + u2 * b)
  }
  finish(m, l, u) { FINISH }
GRADIENT}"""
SOFTMAX_GRADIENT = """  gradient(dy) {
    MOST
    p = exp(z - most) / n
    w = sum[d](f32(dy) * f32(o))
    dr = p * (f32(dy @d v) - w)SLOPE
    dz = dr * 0.5
    return (dz @t k, dz @s q, p @s dySINKGRAD NEARGRAD, 0)
  }
"""
SIGMOID = """fn NAME[s, t, d, h](q[..., s, h, d], k[..., t, h, d], v[..., t, h, d] NEARARG, mask = true) -> [..., s, h, d] {
  c = SCORE
  p = where(mask, 1 / (1 + exp(-c)), 0)
  return p @t v
  stream[t] { return f32(where(mask, 1 / (1 + exp(-SCORE)), 0) @t v) }
GRADIENT}"""
SIGMOID_GRADIENT = """  gradient(dy) {
    dr = p * (1 - p) * f32(dy @d v)SLOPE
    dz = dr * 0.5
    return (dz @t k, dz @s q, p @s dy NEARGRAD, 0)
  }
"""
POOLED = """fn NAME[t](x[..., t], g[..., t]) -> [...] {
  top = max(max[t](g), -1e30)
  e = exp(g - top)
  return sum[t](e * x) / sum[t](e)
  stream[t] {
    m = max[t](g)
    e = exp(g - max(m, -1e30))
    return (m, sum[t](e), sum[t](e * x))
  }
  merge(m, l, u, m2, l2, u2) {
    most = max(m, m2)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(m2, -1e30) - max(most, -1e30))
    return (most, l * a + l2 * b, u * a + u2 * b)
  }
  finish(m, l, u) { return u / l }
}"""
LINEAR_ATTENTION = """fn NAME[t, d, e](q[..., t, d], k[..., t, d], v[..., t, e]) -> [..., t, e] {
  h = k[t = 0] * v[t = 0] * 0
  repeat i in size[t] {
    h = h + k[t = i] * v[t = i]
    y[t = i] = q[t = i] @d h
  }
  return y
  scan[t = LENGTH] { return k @t v }
  emit(h) {
    seen = where(iota[t][t -> past] <= iota[t], q @d k[t -> past], 0)
    return q @d h + seen @past v[t -> past]
  }
}"""
RETENTION = """fn NAME[t, d, e, h](q[..., t, h, d], k[..., t, h, d], v[..., t, h, e], a[h]) -> [..., t, h, e] {
  s = k[t = 0] * v[t = 0] * 0
  repeat i in size[t] {
    s = exp(a) * s + k[t = i] * v[t = i]
    y[t = i] = q[t = i] @d s
  }
  return y
  scan[t = LENGTH] {
    w = exp(a * (size[t] - 1 - iota[t]))
    return (exp(a * size[t]), (w * k) @t v)
  }
  neutral() { return (1, 0) }
  merge(p, s, r, g) { return (p * r, r * s + g) }
  emit(p, s) {
    far = where(iota[t][t -> past] <= iota[t], exp(a * max(iota[t] - iota[t][t -> past], 0)), 0)
    return (q * exp(a * (iota[t] + 1))) @d s + ((q @d k[t -> past]) * far) @past v[t -> past]
  }
}"""
GATED = """fn NAME[t](a[..., t], b[..., t], first[...]) -> [..., t] {
  h = first + a[t = 0] * b[t = 0] * 0
  repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
  return y
  scan[t = LENGTH] {
    h = a[t = 0] * b[t = 0] * 0
    all = h + 1
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; all = all * a[t = i] }
    return (all, h)
  }
  neutral() { return (1, first) }
  merge(p, h, q, g) { return (p * q, q * h + g) }
  emit(p, h) {
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
    return y
  }
}"""
LARGEST = """fn NAME[t](x[..., t]) -> [..., t] {
  h = x[t = 0]
  repeat i in size[t] { h = max(h, x[t = i]); y[t = i] = h }
  return y
  scan[t = LENGTH] { return max[t](x) }
  neutral() { return -inf }
  merge(h, g) { return max(h, g) }
  emit(h) {
    repeat i in size[t] { h = max(h, x[t = i]); y[t = i] = h }
    return y
  }
}"""
STATED = (
    """fn NAME(x[...], w[...]) -> [...] {
  e = exp(0.3 * tanh(x))
  return e * w
  gradient(dy) {
    u = tanh(x)
    return (dy * w * e * 0.3 * (1 - u * u), dy * e)
  }
}""",
    """fn NAME(x[...], w[...]) -> [...], [...] {
  s = sigmoid(x)
  return s * w, s + 0.2 * w
  gradient(dy, dz) { return ((dy * w + dz) * s * (1 - s), dy * s + 0.2 * dz) }
}""",
    """fn NAME(x[...], w[...]) -> [...] {
  return x + 0.25 * sin(3 * x) + w
  surrogate(dy) { return (dy / (1 + x * x), 0.5 * dy) }
}""",
)


class Forms:
    def function(self, text, **words):
        """The name of the second input in the program."""
        name = self.fresh("fn")
        for word, put in dict(words, NAME=name).items():
            text = text.replace(word, put)
        self.layers.append(text)
        return name

    # ---- attention and what streams like it ----

    def heads_of(self, x):
        """q, k, v made from a value with the axes `seq` and `embed`, as texts, and names of axes;
        None: it has no such axes."""
        name, axes = x
        if not ("seq" in axes and "embed" in axes) or "heads" in axes or "head" in axes:
            return None
        heads, head = self.dim("heads", self.rng_heads), self.dim("head", 4)
        labels = [self.fresh("w" + c) for c in "qkv"]
        self.places += labels[:1]
        std = 1.0 / math.sqrt(self.extent("embed"))
        values = []
        for label in labels:
            form = "%s:linear[embed, (%s, %s)](%s, std = %.3f, bias = false)"
            values.append(self.let(axes, form % (label, heads, head, name, std))[0])
        return values, heads, head

    def out_of_heads(self, axes, o, heads, head):
        label = self.fresh("wo")
        return self.let(axes, "%s:linear[(%s, %s), embed](%s, std = 0.3)" % (label, heads, head, o))

    def streamed(self, x):
        """Attention by a function that the program defines itself."""
        found = self.heads_of(x)
        if not found:
            return self.pooled(x)
        rng, ((q, k, v), heads, head) = self.rng, found
        self.has_keys = True
        kseq = self.dim("kseq", self.dims["seq"])
        near, arguments = rng.choice((None, None, "table", "positions")), ["%s[seq -> %s]" % (n, kseq) for n in (k, v)]
        capped, soft = rng.random() < 0.3, rng.random() < 0.75
        sink = soft and rng.random() < 0.5
        score = "(f32(q @d k) * 0.5%s)" % (" + near" if near else "")
        words = {"SCORE": "2 * tanh(%s / 2)" % score if capped else score}
        words["GRADIENT"] = (SOFTMAX_GRADIENT if soft else SIGMOID_GRADIENT) if rng.random() < 0.7 else ""
        words["SLOPE"] = " * (1 - (c / 2) ** 2)" if capped else ""
        words["NEARARG"], words["NEARGRAD"] = (", near[..., s, t]", ", dr") if near else ("", "")
        words["SINKARG"], words["SINKGRAD"] = (", sink[h]", ", -w * exp(sink - most) / n") if sink else ("", "")
        words["TOP"] = "max(max[t](z), %s)" % ("sink" if sink else "-1e30")
        words["DEN"] = "sum[t](e) + exp(sink - top)" if sink else "max(sum[t](e), 1e-30)"
        most = "most = max(max(m, -1e30), sink)" if sink else "most = max(m, -1e30)"
        words["MOST"] = most + "\n    n = " + (
            "l * exp(max(m, -1e30) - most) + exp(sink - most)" if sink else "max(l, 1e-30)"
        )
        words["FINISH"] = (
            "%s; a = exp(max(m, -1e30) - most); return u * a / (l * a + exp(sink - most))" % most
            if sink
            else "return u / max(l, 1e-30)"
        )
        text = SOFTMAX if soft else SIGMOID
        name = self.function(text.replace("GRADIENT}", words.pop("GRADIENT") + "}"), **words)
        arguments = [q] + arguments
        if sink:
            p = self.fresh("p")
            self.say("param %s[%s] = normal(0.5)" % (p, heads))
            arguments.append(p)
        if near == "table":
            n, p = self.dims["seq"], self.fresh("p")
            own = rng.choice((heads + ", ", ""))
            self.say("param %s[%sfar = %d] = normal(0.3)" % (p, own, 2 * n - 1))
            arguments.append("%s[far = iota[seq] - iota[%s] + %d]" % (p, kseq, n - 1))
        elif near:
            arguments.append("0.1 * f32(iota[%s] - iota[seq])" % kseq)
        mask = rng.choice(
            (
                "iota[%s] <= iota[seq]" % kseq,
                "iota[%s] <= iota[seq]" % kseq,
                "iota[seq] - iota[%s] < 3 and iota[%s] <= iota[seq]" % (kseq, kseq),
                "abs(iota[seq] - iota[%s]) < 2" % kseq,
                None,
            )
        )
        arguments += ["mask = " + mask] if mask else []
        o = self.let(x[1], "%s[seq, %s, %s, %s](%s)" % (name, kseq, head, heads, ", ".join(arguments)))
        return self.out_of_heads(x[1], o[0], heads, head)

    def pooled(self, x):
        """A weighted mean along an axis, with weights computed from the value itself."""
        name, axes = x
        own = self.own_axes(x, 2)
        if not own:
            return self.pointwise(x)
        axis = self.rng.choice(own)
        f = self.function(POOLED)
        self.places.append(f)
        r = self.let([a for a in axes if a != axis], "%s[%s](%s, sin(2 * %s))" % (f, axis, name, name))
        return self.let(axes, "%s - 0.5 * %s" % (name, r[0]))

    # ---- along an axis in blocks ----

    def in_blocks(self, x):
        name, axes = x
        rng = self.rng
        length = str(rng.choice((2, 3, 4)))
        kind = rng.choice(("attention", "retention", "gated", "gated", "gated", "largest"))
        if self.going:
            return self.pointwise(x)
        found = self.heads_of(x) if kind in ("attention", "retention") else None
        if found:
            (q, k, v), heads, head = found
            value = self.dim("value", 4)
            more, text = "", LINEAR_ATTENTION
            axis_names = "seq, %s, %s" % (head, value)
            if kind == "retention":
                p = self.fresh("p")
                self.say("param %s[%s] = uniform(-1, -0.1)" % (p, heads))
                more, text, axis_names = ", " + p, RETENTION, axis_names + ", " + heads
            f = self.function(text, LENGTH=length)
            self.places.append(f)
            y = self.let(axes, "%s[%s](%s, %s, %s[%s -> %s]%s)" % (f, axis_names, q, k, v, head, value, more))
            return self.out_of_heads(axes, "0.3 * %s[%s -> %s]" % (y[0], value, head), heads, head)
        own = self.own_axes(x, 2)
        if not own:
            return self.pointwise(x)
        axis = rng.choice([a for a in own if a == "seq"] or own)
        if kind == "largest":
            return self.let(axes, "%s - 0.5 * %s[%s](%s)" % (name, self.function(LARGEST, LENGTH=length), axis, name))
        f = self.function(GATED, LENGTH=length)
        self.places.append(f)
        rest = [a for a in axes if a != axis]
        first = [a for a in rest if a in self.dims and a not in ("batch", "pool", "each")]
        p = self.fresh("p")
        self.say("param %s[%s] = normal(0.5)" % (p, ", ".join(first)))
        gate = rng.choice(("sigmoid(%s)", "sigmoid(2 * %s + 1)", "0.9 * tanh(%s)")) % name
        return self.let(axes, "%s[%s](%s, 0.5 * sin(%s), %s)" % (f, axis, gate, name, p))

    # ---- gradients that are stated ----

    def stated_gradient(self, x):
        name, axes = x
        own = [a for a in self.own_axes(x) if self.rng.random() < 0.6 and a not in ("pool", "each")]
        text = self.rng.choice(STATED)
        f, p = self.function(text), self.fresh("p")
        self.say("param %s[%s] = uniform(0.5, 1)" % (p, ", ".join(own)))
        if "[...], [...]" in text:
            a, b = self.fresh(), self.fresh()
            self.say("%s, %s = %s(%s, %s)" % (a, b, f, name, p))
            return self.let(axes, self.rng.choice(("%s + %s", "%s * %s")) % (a, b))
        return self.let(axes, "%s(%s, %s)" % (f, name, p))

    # ---- what is used in several places ----

    def tied(self, x):
        """Uses a parameter of the top level that other statements use, too."""
        name, axes = x
        near = [p for p, own in self.top if set(own) <= set(axes)]
        if near:
            form = self.rng.choice(("%s * %s", "%s + %s", "%s - 0.5 * tanh(%s)"))
            return self.let(axes, form % (name, self.rng.choice(near)))
        own = [a for a in self.own_axes(x) if self.rng.random() < 0.6 and a not in ("pool", "each")]
        if self.depth or self.going or self.top is self.nothing:
            return self.pointwise(x)
        p = self.fresh("p")
        self.say("param %s[%s] = normal(0.5)" % (p, ", ".join(own)))
        self.top.append((p, own))
        return self.let(axes, "%s * (1 + 0.5 * %s)" % (name, p))

    def beside(self, x):
        """Uses the second input."""
        name, axes = x
        if not self.second or not set(self.second[1]) <= set(axes):
            return self.pointwise(x)
        form = self.rng.choice(("%s + 0.5 * %s", "%s * %s", "where(%s > 0, OTHER, 0.3)", "%s * (1 - sin(%s))"))
        if "OTHER" in form:
            return self.let(axes, (form % self.second[0]).replace("OTHER", name))
        return self.let(axes, form % (name, self.second[0]))
