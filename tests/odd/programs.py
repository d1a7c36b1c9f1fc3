# SPDX-License-Identifier: Apache-2.0
"""Random programs of the language: odd on purpose, well typed, and tame in their numbers.

make(rng) gives a Program, whose text has places for OPTIMIZER and SEED, and a line `NUDGE x`. A
value is a name with its axes; a statement makes a new value from values of a pool. Numbers stay
near 1 (values that could grow pass through a norm or a bounded function), so that the gradients of
two right runs differ by rounding only. Decisions (`where`, `topk`, scatter positions) depend on
positions and data only, which no layout rounds."""

import math
import re

import blocks
import forms

IMAGE = ("height", "width", "chan")


class Program:
    """text: model and train block; dims: name -> extent of what may be split; loops: labels at the top level; bodies:
    label -> names of values and instances in it."""

    def __init__(self, text, dims, loops, places, has_keys, bodies):
        self.text, self.dims, self.loops, self.places, self.has_keys = text, dims, loops, places, has_keys
        self.bodies = bodies


class Maker(blocks.Blocks, forms.Forms):
    def __init__(self, rng):
        self.rng = rng
        self.dims = {}
        self.axes = {}  # for names `axis`: the extent at present
        self.lines = []
        self.indent = "  "
        self.count = 0
        self.loops, self.places, self.layers, self.bodies = [], [], [], {}
        # top level: parameters that may be used again; in a layer: none. Name and axes of the
        # second input
        self.nothing, self.top = [], []
        self.second = None  # name and axes of a second input
        self.has_keys = False
        self.depth = 0
        self.tokens = None  # name and axes of the i32 input, if there is one
        self.in_loop = False
        self.going = False  # along an axis

    # ---- names and extents ----

    def fresh(self, stem="v"):
        self.count += 1
        return "%s%d" % (stem, self.count)

    def extent(self, axis):
        return self.dims.get(axis) or self.axes[axis]

    def dim(self, stem, extent):
        """The name of a dim with this extent: an existing one, or a new one."""
        name = stem
        while name in self.dims and self.dims[name] != extent:
            name += "_"
        self.dims[name] = extent
        return name

    def say(self, text):
        self.lines.append(self.indent + text)

    def let(self, axes, expression, stem="v"):
        name = self.fresh(stem)
        self.say("%s = %s" % (name, expression))
        return name, tuple(axes)

    # ---- statements: value -> value ----

    def linear(self, x, a=None, b=None):
        name, axes = x
        a = a or self.rng.choice([axis for axis in axes if axis in self.feature])
        choices = [d for d in self.feature_dims if d not in axes or d == a]
        b = b or self.rng.choice(choices)
        if b == a:  # a product to the same axis, through a second name
            wide = self.dim("mid", self.rng.choice((4, 8, 12)))
            if wide in axes:
                return self.pointwise(x)
            x = self.linear(x, a, wide)
            return self.linear(x, wide, a)
        bias = self.rng.choice(("", "", ", bias = false"))
        label = self.fresh("l")
        std = 1.0 / math.sqrt(self.extent(a))
        self.places.append(label)
        return self.let(
            [b if axis == a else axis for axis in axes],
            "%s:linear[%s, %s](%s, std = %.3f%s)" % (label, a, b, name, std, bias),
        )

    def pointwise(self, x):
        name, axes = x
        form = self.rng.choice(
            (
                "tanh(%s)",
                "sin(%s)",
                "gelu_tanh(%s)",
                "gelu(%s)",
                "silu(%s)",
                "erf(%s)",
                "0.7 * %s + 0.1",
                "%s / (1 + abs(%s))",
                "rsqrt(1 + %s * %s)",
                "log(1 + exp(%s))",
                "cos(%s) * 0.8",
                "sqrt(1 + %s ** 2) - 1",
                "where(%s > 2.5, 2.5, %s)",
                "-%s",
                "max(%s, -0.513)",
                "exp(0.3 * tanh(%s))",
            )
        )
        return self.let(axes, form.replace("%s", name))

    def norm(self, x):
        name, axes = x
        axis = self.rng.choice([a for a in axes if a in self.dims and a != "batch"] or [None])
        if axis is None:
            return self.pointwise(x)
        label = self.fresh("n")
        kind = self.rng.choice(("layernorm", "rmsnorm", "softmax"))
        if kind == "softmax":
            return self.let(axes, "%d * softmax[%s](2 * %s)" % (self.extent(axis), axis, name))
        # Of two elements, mean and deviation only leave a sign, whose slope is that of 1 /
        # sqrt(eps) where the elements are equal.
        eps = ", eps = 0.1" if kind == "layernorm" and self.extent(axis) == 2 else ""
        return self.let(axes, "%s:%s[%s](%s%s)" % (label, kind, axis, name, eps))

    def scaled(self, x):
        """A parameter over some of its axes."""
        name, axes = x
        own = [a for a in axes if a in self.dims and a not in ("batch", "pool", "each")]
        some = [a for a in own if self.rng.random() < 0.6]
        p = self.fresh("p")
        self.say("param %s[%s] = %s" % (p, ", ".join(some), self.rng.choice(("normal(0.5)", "ones", "uniform(-1, 1)"))))
        return self.let(axes, self.rng.choice(("%s * %s", "%s + %s", "%s - 0.5 * %s")) % (name, p))

    def narrowed(self, x):
        """Reduces a value over an axis, and adds the result back, or leaves it."""
        name, axes = x
        some = [a for a in axes if a != "batch"]
        if not some:
            return self.pointwise(x)
        chosen = self.rng.sample(some, self.rng.choice((1, 1, min(2, len(some)))))
        kind = self.rng.choice(("mean", "mean", "sum", "max", "min", "lse"))
        gone = ", ".join(chosen)
        if kind == "mean" and any(a in self.axes for a in chosen):
            kind = "max"
        if kind == "lse":
            chosen = [a for a in chosen if a in self.dims][:1]
            if not chosen:
                return self.pointwise(x)
            gone = chosen[0]
        scale = 1.0 / math.sqrt(math.prod(self.extent(a) for a in chosen)) if kind == "sum" else 1.0
        rest = [a for a in axes if a not in chosen]
        r = self.let(rest, "%.4f * %s[%s](%s)" % (scale, kind, gone, name))
        if len(rest) > 1 and any(a in self.feature for a in rest) and self.rng.random() < 0.3:
            return r
        return self.let(axes, self.rng.choice(("%s - %s", "%s * tanh(%s)", "%s + 0.5 * %s")) % (name, r[0]))

    def scanned(self, x):
        name, axes = x
        axis = [a for a in axes if a in self.dims and a != "batch"]
        if not axis:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        return self.let(axes, "cumsum[%s](%s) / (1 + iota[%s])" % (axis, name, axis))

    def shifted(self, x):
        name, axes = x
        axis = [a for a in axes if a in self.dims and a != "batch"]
        if not axis:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        form = self.rng.choice(("%s[%s = iota[%s] - 1]", "%s[%s = iota[%s] + 1]", "%s[%s = %d - iota[%s]]"))
        moved = form % ((name, axis, self.extent(axis) - 1, axis) if "%d" in form else (name, axis, axis))
        return self.let(axes, "%s + 0.5 * %s" % (name, moved) if self.rng.random() < 0.7 else moved)

    def masked(self, x):
        name, axes = x
        axis = [a for a in axes if a in self.dims and a != "batch"]
        if not axis:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        other = self.rng.choice(("0", "0.5", "sin(%s)" % name))
        test = self.rng.choice(("iota[%s] < %d" % (axis, (self.extent(axis) + 1) // 2), "iota[%s] %% 2 == 0" % axis))
        return self.let(axes, "where(%s, %s, %s)" % (test, name, other))

    def windowed(self, x):
        """A causal convolution along an axis with a parameter."""
        name, axes = x
        axis = [a for a in axes if a in self.dims and a != "batch" and self.dims[a] >= 3]
        if not axis or "win" in axes:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        k = self.rng.choice((2, 3))
        p = self.fresh("p")
        before = self.rng.choice(range(k))
        self.say("param %s[win = %d] = normal(0.5)" % (p, k))
        return self.let(
            axes, "window[%s, win](%s, %d, pad = (%d, %d)) @win %s" % (axis, name, k, before, k - 1 - before, p)
        )

    def regrouped(self, x):
        """Splits an axis in two and merges it again, with a statement in between."""
        name, axes = x
        axis = [a for a in axes if a in self.dims and a != "batch" and self.dims[a] % 2 == 0 and self.dims[a] > 2]
        if not axis:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        n = self.extent(axis)
        outer = self.rng.choice([d for d in (2, 3, 4) if n % d == 0 and d < n] or [2])
        g, h = self.dim("outer%d" % outer, outer), self.dim("inner%d" % (n // outer), n // outer)
        if g in axes or h in axes:
            return self.pointwise(x)
        rest = [a for a in axes if a != axis]
        split = self.let(rest + [g, h], "%s[%s -> (%s, %s)]" % (name, axis, g, h))
        inner = self.rng.choice((self.pointwise, self.scaled, self.norm, self.scanned))(split)
        if set(inner[1]) != set(split[1]):
            inner = split
        order = self.rng.choice(((g, h), (h, g)))
        return self.let(axes, "%s[(%s, %s) -> %s]" % (inner[0], order[0], order[1], axis))

    def joined(self, x):
        name, axes = x
        if "two" in axes:
            return self.pointwise(x)
        two = self.dim("two", 2)
        other = self.pointwise(x)
        s = self.let(tuple(axes) + (two,), "stack[%s](%s, %s)" % (two, name, other[0]))
        s = self.rng.choice((self.pointwise, self.scaled, lambda y: y))(s)
        kind = self.rng.choice(("unstack", "sum", "select"))
        if kind == "unstack":
            a, b = self.fresh(), self.fresh()
            self.say("%s, %s = unstack[%s](%s)" % (a, b, two, s[0]))
            return self.let(axes, "%s - 0.3 * %s" % (a, b))
        if kind == "sum":
            return self.let(axes, "0.7 * sum[%s](%s)" % (two, s[0]))
        return self.let(axes, "%s[%s = %d]" % (s[0], two, self.rng.choice((0, 1))))

    def joined_ends(self, x):
        """Exchanges the two halves of an axis."""
        name, axes = x
        axis = [a for a in axes if a in self.dims and a != "batch" and self.dims[a] >= 4]
        if not axis:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        n = self.extent(axis)
        cut = self.rng.choice(range(1, n))
        e = self.let(axes, "%s[%s -> piece]" % (name, axis))
        return self.let(
            axes,
            "concat[piece](%s[piece = %d .. %d], %s[piece = 0 .. %d])[piece -> %s]"
            % (e[0], cut, n, self.pointwise(e)[0], cut, axis),
        )

    def attended(self, x):
        name, axes = x
        if not ("seq" in axes and "embed" in axes) or "heads" in axes or "head" in axes:
            return self.linear(x) if any(a in self.feature for a in axes) else self.pointwise(x)
        self.has_keys = True
        kseq = self.dim("kseq", self.dims["seq"])
        heads, head = self.dim("heads", self.rng_heads), self.dim("head", 4)
        q, k, v = self.fresh("wq"), self.fresh("wk"), self.fresh("wv")
        self.places += [q, "attend"]
        std = 1.0 / math.sqrt(self.extent("embed"))
        part = lambda w: "%s:linear[embed, (%s, %s)](%s, std = %.3f, bias = false)" % (w, heads, head, name, std)
        mask = self.rng.choice(
            (
                ", mask = iota[%s] <= iota[seq]" % kseq,
                ", mask = iota[%s] <= iota[seq]" % kseq,
                "",
                ", mask = iota[seq] - iota[%s] < 3 and iota[%s] <= iota[seq]" % (kseq, kseq),
                ", bias = 0.1 * (iota[%s] - iota[seq])" % kseq,
            )
        )
        o = self.let(
            axes,
            "attend[seq, %s, %s](%s, %s[seq -> %s], %s[seq -> %s], scale = 0.5%s)"
            % (kseq, head, part(q), part(k), kseq, part(v), kseq, mask),
        )
        out = self.fresh("wo")
        return self.let(axes, "%s:linear[(%s, %s), embed](%s, std = 0.3)" % (out, heads, head, o[0]))

    def looked_up(self, x):
        """Adds rows of a table, looked up by the tokens."""
        name, axes = x
        if self.tokens is None or not set(self.tokens[1]) <= set(axes):
            return self.pointwise(x)
        own = [a for a in axes if a in self.dims and a not in self.tokens[1] and a not in ("pool", "each")]
        some = [a for a in own if self.rng.random() < 0.7]
        t = self.fresh("t")
        self.say("param %s[vocab%s] = normal(0.5)" % (t, "".join(", " + a for a in some)))
        if "vocab" in some or "vocab" in axes:
            self.lines.pop()
            return self.pointwise(x)
        return self.let(axes, "%s + %s[vocab = %s]" % (name, t, self.tokens[0]))

    def routed(self, x):
        """Experts: sends tokens to slots by their position, and back."""
        name, axes = x
        if self.tokens is None or set(axes) != {"batch", "seq", "embed"} or self.in_loop and self.rng.random() < 0.5:
            return self.pointwise(x)
        experts = self.dim("experts", 4)
        route = self.dim("route", 4)
        slot = self.dim("slot", self.rng.choice((2, 3)))
        hot = self.fresh("hot")
        self.say("%s = onehot[%s](%s %% 4)" % (hot, route, self.tokens[0]))
        pos = self.fresh("pos")
        self.say("%s = cumsum[seq](%s)[%s = %s %% 4] - 1" % (pos, hot, route, self.tokens[0]))
        xe = self.let(
            ("batch", experts, slot, "embed"),
            "scatter[seq](%s, %s = %s %% 4, %s = %s)" % (name, experts, self.tokens[0], slot, pos),
        )
        w = self.fresh("w")
        self.say("param %s[%s, embed, mid] = normal(0.4)" % (w, experts))
        self.dim("mid", self.dims.get("mid", 8))
        self.say("param %sb[%s, mid, embed] = normal(0.4)" % (w, experts))
        y = self.let(xe[1], "(silu(%s @embed %s) @mid %sb)" % (xe[0], w, w))
        return self.let(axes, "%s + %s[%s = %s %% 4, %s = %s]" % (name, y[0], experts, self.tokens[0], slot, pos))

    def best(self, x):
        name, axes = x
        axis = [a for a in axes if a in self.dims and a != "batch" and self.dims[a] >= 3]
        if not axis or "few" in axes:
            return self.pointwise(x)
        axis, few = self.rng.choice(axis), self.dim("few", 2)
        v, i = self.fresh(), self.fresh("at")
        self.say("%s, %s = topk[%s, %s](%s)" % (v, i, axis, few, name))
        return self.let(axes, "%s - 0.4 * mean[%s](%s)" % (name, few, v))

    def dropped(self, x):
        name, axes = x
        return self.let(axes, "dropout(%s, %s)" % (name, self.rng.choice(("0.1", "0.5"))))

    def stated(self, x):
        """A running mean of the means of batches, which is read before it is assigned."""
        name, axes = x
        own = [a for a in axes if a != "batch" and a in self.dims]
        if "batch" not in axes or len(own) + 1 != len(axes):
            return self.pointwise(x)
        s = self.fresh("s")
        self.say("state %s[%s] = zeros" % (s, ", ".join(own)))
        r = self.let(axes, "%s - 0.5 * %s" % (name, s))
        self.say("%s = 0.9 * %s + 0.1 * mean[batch](stop(%s))" % (s, s, name))
        return r

    def multiplied(self, x):
        """A product of a value with itself under another axis name: a Gram matrix along an axis."""
        name, axes = x
        names = {"seq": "kseq", "embed": "embed2"}
        axis = [a for a in axes if a in names and names[a] not in axes]
        rest = [a for a in axes if a in self.dims and a not in names and a != "batch"]
        if not axis:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        other = self.dim(names[axis], self.dims[axis])
        inner = [a for a in axes if a not in (axis, "batch")] if not rest or self.rng.random() < 0.5 else rest
        inner = [a for a in inner if a != axis] or None
        if inner is None:
            return self.pointwise(x)
        scale = 1.0 / math.sqrt(math.prod(self.extent(a) for a in inner))
        over = inner[0] if len(inner) == 1 else "(" + ", ".join(inner) + ")"
        y = self.let(
            [a for a in axes if a not in inner] + [other],
            "tanh(%.4f * (%s @%s %s[%s -> %s]))" % (scale, name, over, name, axis, other),
        )
        return self.let(axes, "tanh(0.5 * (%s @%s %s[%s -> %s]))" % (y[0], other, name, axis, other))

    def copied(self, x):
        name, axes = x
        y = self.pointwise(x)
        return self.let(axes, self.rng.choice(("%s + %s", "%s * %s", "%s - stop(%s)")) % (name, y[0]))

    # ---- structure ----

    def step(self, x):
        """One random statement or a few; returns the value after them."""
        rng = self.rng
        options = [
            (self.pointwise, 3),
            (self.norm, 2),
            (self.scaled, 3),
            (self.narrowed, 2),
            (self.scanned, 1),
            (self.shifted, 1),
            (self.masked, 1),
            (self.windowed, 1),
            (self.regrouped, 1),
            (self.joined, 1),
            (self.joined_ends, 1),
            (self.attended, 2),
            (self.looked_up, 1),
            (self.routed, 1),
            (self.best, 1),
            (self.dropped, 0.5),
            (self.stated, 0.5),
            (self.multiplied, 1),
            (self.copied, 1),
            (self.drawn, 0.8),
            (self.along, 2),
            (self.convolved, 1),
            (self.normed, 1),
            (self.bent, 1),
            (self.cut_by_extent, 0.7),
            (self.streamed, 1.2),
            (self.pooled, 0.4),
            (self.in_blocks, 1.5),
            (self.stated_gradient, 0.8),
            (self.tied, 1),
            (self.beside, 1.5 if self.second else 0),
        ]
        if any(a in self.feature for a in x[1]):
            options.append((self.linear, 4))
        if len(x[1]) > 5:
            options = [(self.pointwise, 1), (self.narrowed, 3)]
        what = rng.choices([o for o, _ in options], [w for _, w in options])[0]
        return what(x)

    def tame(self, x):
        """Bounds a value again, after many statements."""
        return self.let(x[1], "1.5 * tanh(0.7 * %s)" % x[0])

    def back_to(self, x, axes):
        """Gives the value exactly these axes: an axis that is too much is reduced or made a feature, a
        missing one is added by broadcasting."""
        for a in [a for a in x[1] if a not in axes]:
            gone = [b for b in axes if b not in x[1] and b in self.feature]
            if a in self.feature and gone:
                x = self.linear(x, a, gone[0])
            else:
                x = self.let([b for b in x[1] if b != a], "max[%s](%s)" % (a, x[0]))
        missing = [b for b in axes if b not in x[1]]
        if missing:
            p = self.fresh("p")
            own = [b for b in missing if b not in ("batch",)]
            if own != missing:
                return None
            self.say("param %s[%s] = normal(0.6)" % (p, ", ".join(own)))
            x = self.let(axes, "%s * %s" % (x[0], p))
        return x

    def loop(self, x, extra=None):
        """A repeat over layers, which carries the value and perhaps a second one."""
        rng = self.rng
        name, axes = x
        if any(a in self.axes for a in axes):
            return x
        label, count = self.fresh("h"), self.rng.choice((2, 3, 4, 4, 4, 8))
        layers = self.dim("layers%d" % count, count)
        carried = self.fresh("c")
        self.say("%s = %s" % (carried, name))
        aux = None
        if self.depth == 0 and rng.random() < 0.25:
            aux = self.fresh("a")
            self.say("%s = f32(0)" % aux)
        self.say("repeat %s in %s {" % (label, layers))
        if self.depth == 0:
            self.loops.append(label)
        outer, self.indent, was, begin = self.indent, self.indent + "  ", self.in_loop, len(self.lines)
        self.in_loop, self.depth = True, self.depth + 1
        y = (carried, axes)
        for _ in range(rng.choice((1, 2, 3))):
            y = self.step(y)
        if self.depth == 1 and rng.random() < 0.15:
            y = self.loop(self.back_to(y, axes) or y)
        y = self.back_to(y, axes) or (carried, axes)
        if rng.random() < 0.15:
            y = self.let(axes, "%s * (1 + 0.1 * %s)" % (y[0], label))
        y = self.tame(y)
        if aux and set(axes) <= set(self.dims):
            self.say("%s = %s + 0.1 * mean[%s](%s * %s)" % (aux, aux, ", ".join(axes), y[0], y[0]))
        self.say("%s = 0.6 * %s + 0.6 * %s" % (carried, carried, y[0]))
        self.in_loop, self.depth, self.indent = was, self.depth - 1, outer
        self.bodies[label] = re.findall(r"^ *(\w+) = |\b(\w+):\w", "\n".join(self.lines[begin:]), re.M)
        self.bodies[label] = sorted({a or b for a, b in self.bodies[label]} - {carried, aux})
        self.say("}")
        if aux:
            self.extra.append(aux)
        return carried, axes

    def in_layer(self, x):
        """Some statements as a layer of their own, which is called once or twice."""
        name, axes = x
        if any(a not in self.dims for a in axes):
            return self.step(x)
        saved = self.lines, self.indent, self.tokens, self.extra, self.top, self.second
        self.lines, self.indent, self.tokens, self.extra, self.top, self.second = [], "  ", None, [], self.nothing, None
        layer = self.fresh("part")
        y = ("x", axes)
        for _ in range(self.rng.choice((1, 2, 3))):
            y = self.step(y)
        y = self.tame(y)
        head = "layer %s(x[%s]) -> [%s] {" % (layer, ", ".join(axes), ", ".join(y[1]))
        self.layers.append("\n".join([head] + self.lines + ["  return %s" % y[0], "}"]))
        self.lines, self.indent, self.tokens, self.extra, self.top, self.second = saved
        self.places.append(layer)
        label = self.fresh("b")
        has_state = re.search("state |batchnorm|ghostnorm", self.layers[-1])
        # calls one instance twice
        if set(y[1]) == set(axes) and not has_state and self.rng.random() < 0.3:
            self.say("%s = %s:%s" % (label + "f", label, layer))
            z = self.let(axes, "%sf(%s)" % (label, name))
            return self.let(axes, "%sf(%s)" % (label, z[0]))
        return self.let(y[1], "%s:%s(%s)" % (label, layer, name))

    def body(self, x, steps):
        side = [x]
        for i in range(steps):
            r = self.rng.random()
            if r < 0.2 and self.depth == 0:
                x = self.loop(x)
            elif r < 0.35:
                x = self.in_layer(x)
            else:
                x = self.step(x)
            if i % 3 == 2:
                x = self.tame(x)
            near = [s for s in side if set(s[1]) <= set(x[1]) and s[0] != x[0]]
            if near and self.rng.random() < 0.3:
                x = self.let(x[1], "%s + 0.4 * %s" % (x[0], self.rng.choice(near)[0]))
            side.append(x)
        return x


def metrics(rng, axes, xent):
    """Lines of the train block: metrics besides the loss."""
    over = ", ".join(axes)
    forms = ["mean[%s](y * tanh(y))" % over, "sum[%s](sin(y)) / 16" % over]
    forms += ["sum[batch](f32(bernoulli[batch](0.4)))", "mean[batch](mean[%s](y))" % ", ".join(axes[1:])] * (len(axes) > 1)
    if xent:
        forms.append("mean[batch, seq](y[vocab = labels])")
    if rng.random() < 0.6:
        return []
    chosen = rng.sample(forms, min(len(forms), rng.choice((1, 2))))
    names = ["metric%d" % i for i in range(len(chosen))]
    lines = ["  %s = %s" % item for item in zip(names, chosen)]
    return lines + ["  metrics = " + (names[0] if len(names) == 1 else "(%s)" % ", ".join(names))]


def parameters(text):
    """The last parts of paths that belong to one declaration each."""
    names = re.findall(r"param (\w+)\[", text)
    return names + [name + ".*" for name in re.findall(r"\b(\w+):linear", text)]


def chosen(rng, names):
    """Takes out at most a third of them; returns them as the text of an entry."""
    some = rng.sample(names, rng.choice(range(1, len(names) // 3 + 1)))
    for name in some:
        names.remove(name)
    paths = ", ".join('"*%s"' % name for name in some)
    return paths if len(some) == 1 else "(%s)" % paths


def groups(rng, names, result):
    """Lines of the train block: frozen parameters; parameters with an optimizer of their own, or with
    a loss of their own in turn."""
    lines = []
    if len(names) >= 3 and rng.random() < 0.3:
        lines.append("  frozen = " + chosen(rng, names))
    if len(names) < 3 or rng.random() < 0.6:
        return lines
    of = ""
    if rng.random() < 0.6:
        lines.append("  other = mean[%s](tanh(y - 0.1) * y)" % result)
        of = rng.choice((", loss = other", ", loss = other, every = 2"))
    call = rng.choice(("sgd(lr = 0.2, momentum = 0.9, nesterov = true", "adamw(lr = 0.02, eps = 1e-2, clip = 0.7"))
    own = rng.choice(("", ", own_norm = true")) if "clip" in call else ""
    return lines + ["  apart = %s%s, params = %s%s)" % (call, own, chosen(rng, names), of)]


def make(rng, steps=None):
    maker = Maker(rng)
    maker.extra = []
    family = rng.choice(("tokens", "tokens", "tokens", "table", "table", "image"))
    maker.dims["batch"] = rng.choice((4, 8, 8, 12))
    maker.rng_heads = rng.choice((2, 4))
    steps = steps or rng.choice((2, 3, 4, 5, 6, 8))
    maker.feature_dims = ["embed", "ffn", "wide"]
    maker.feature = set(maker.feature_dims) | {"mid"}
    maker.dims["embed"] = rng.choice((4, 8, 8, 12))
    if family == "tokens":
        maker.dims["seq"] = rng.choice((4, 6, 8, 8, 5))
        maker.dims["vocab"] = rng.choice((10, 16, 12))
    maker.dim("ffn", rng.choice((8, 16, 6)))
    maker.dim("wide", rng.choice((8, 3, 10)))
    if family == "tokens":
        maker.tokens = ("tokens", ("batch", "seq"))
        head = "model m(i32 tokens[batch, seq]) -> [%s]%s {"
        maker.say("param wte[vocab, embed] = normal(0.7)")
        x = maker.let(("batch", "seq", "embed"), "wte[vocab = tokens]")
        maker.lines.append("NUDGE " + x[0])
        inputs = "i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))"
        call = "m(tokens)"
    elif family == "table":
        extra = ["seq"] if rng.random() < 0.5 else []
        if extra:
            maker.dims["seq"] = rng.choice((4, 6, 8))
        axes = ["batch"] + extra + ["embed"]
        head = "model m(x[" + ", ".join(axes) + "]) -> [%s]%s {"
        x = ("x", tuple(axes))
        maker.lines.append("NUDGE x")
        inputs = "x[%s] = synthetic(-1, 1)" % ", ".join(axes)
        call = "m(x)"
    else:
        side, chan = rng.choice((4, 6, 8)), rng.choice((2, 3, 4))
        shape = "batch, height = %d, width = %d, chan = %d" % (side, side, chan)
        head = "model m(x[" + shape + "]) -> [%s]%s {"
        maker.axes = {"height": side, "width": side, "chan": chan}
        x = ("x", ("batch",) + IMAGE)
        maker.lines.append("NUDGE x")
        for _ in range(rng.choice((1, 2, 3))):
            n = rng.choice((2, 4, 6))
            stride = rng.choice((1, 1, 2)) if maker.axes["height"] % 2 == 0 and maker.axes["height"] > 2 else 1
            label = maker.fresh("c")
            maker.places.append(label)
            x = maker.let(x[1], "tanh(%s:conv(%s, %d, %d, %d))" % (label, x[0], n, rng.choice((1, 3)), stride))
            for a in ("height", "width"):
                maker.axes[a] = (maker.axes[a] + stride - 1) // stride
            maker.axes["chan"] = n
            if rng.random() < 0.2:
                x = maker.pointwise(x)
            if rng.random() < 0.5:
                x = maker.image_layer(x)
        if rng.random() < 0.5 and maker.axes["height"] % 2 == 0:
            x = maker.let(x[1], "maxpool(%s)" % x[0])
            maker.axes["height"] //= 2
            maker.axes["width"] //= 2
        size = ", ".join("%s = %d" % (a, maker.axes[a]) for a in IMAGE)
        maker.say("param wi[%s, embed] = normal(%.3f)" % (size, 1 / math.sqrt(math.prod(maker.axes[a] for a in IMAGE))))
        x = maker.let(("batch", "embed"), "%s @(height, width, chan) wi" % x[0])
        maker.axes = {}
        inputs = "x[%s] = synthetic(-1, 1)" % shape
        call = "m(x)"
        maker.image = True
    if rng.random() < 0.4:
        maker.second = "u", tuple(a for a in x[1] if a == "batch" or rng.random() < 0.6)
        own = "u[%s]" % ", ".join(maker.second[1])
        head, inputs = head.replace("]) ->", "], %s) ->" % own), inputs + "\n  %s = synthetic(-1, 1)" % own
    x = maker.tame(maker.body(x, steps))
    call = call.replace(")", ", u)") if maker.second else call
    xent = family == "tokens" and rng.random() < 0.6
    if xent:
        x = maker.back_to(x, ("batch", "seq", "embed")) or x
        xent = set(x[1]) == {"batch", "seq", "embed"}
    if xent and rng.random() < 0.5:
        x = maker.let(("batch", "seq", "vocab"), "%s @embed wte" % x[0])
    elif xent:
        x = maker.linear(x, "embed", "vocab")
    extras = maker.extra
    result = ", ".join(x[1])
    maker.say("return %s" % ", ".join([x[0]] + extras))
    if xent:
        loss = "mean[batch, seq](xent[vocab](y, labels))"
    else:
        loss = (
            rng.choice(("mean[%s]((y - 0.3) ** 2)", "mean[%s](sin(y) * y)", "mean[%s](log(1 + exp(y - 0.2)))")) % result
        )
    names = ["y"] + ["e%d" % i for i in range(len(extras))]
    more = metrics(rng, x[1], xent) + groups(rng, parameters("\n".join(maker.layers + maker.lines)), result)
    loss += "".join(" + 0.1 * %s" % e for e in names[1:])
    if not maker.second and rng.random() < 0.25:
        more.append("  eval = every(1, steps = 1, data = %s)" % inputs.rsplit(" = ", 1)[1])
    text = ['include "std.dsl"', "", "axis win, piece, major, minor, past, far"] + maker.layers
    text += (
        [head % (result, ", f32[]" * len(extras))]
        + maker.lines
        + [
            "}",
            "train {",
            "  " + inputs,
            "  %s = %s" % (", ".join(names), call),
            "  loss = " + loss,
        ]
        + more
        + [
            "  optimizer = OPTIMIZER",
            "  seed = SEED",
            "  steps = 3",
            "}",
            "",
        ]
    )
    body = "\n".join(text[2:])
    shards = {name: n for name, n in maker.dims.items() if re.search(r"\b%s\b" % name, body)}
    text[1] = "dim " + ", ".join("%s = %d" % item for item in shards.items())
    if family == "image":
        shards.update(height=side, width=side)
    return Program("\n".join(text), shards, maker.loops, maker.places, maker.has_keys, maker.bodies)
