# SPDX-License-Identifier: Apache-2.0
"""Statements of odd programs that are made of whole blocks: loops along an axis, random numbers,
layers of the library with their options. A mixin of programs.Maker; as there, each method takes a
value and returns another."""


class Blocks:
    def own_axes(self, x, least=1):
        """Axes, other than that of the samples, that have an extent which no other axis has."""
        return [a for a in x[1] if a in self.dims and a != "batch" and self.dims[a] >= least]

    # ---- random numbers ----

    def drawn(self, x):
        """Random numbers of the step over some of the axes. Probabilities depend on positions only,
        which no layout rounds."""
        name, axes = x
        some = [a for a in axes if a in self.dims and self.rng.random() < 0.7]
        if not some:
            return self.pointwise(x)
        over = ", ".join(some)
        form = self.rng.choice(
            (
                "%s + 0.3 * normal[OVER]()",
                "%s * uniform[OVER](0.5, 1.5)",
                "%s + normal[OVER](0.1, 0.2 * sigmoid(%s))",
                "%s + 0.5 * uniform[OVER](-1, tanh(%s))",
                "where(bernoulli[OVER](0.3), 0.2, %s)",
                "where(bernoulli[OVER](1 / (2 + iota[FIRST])), %s, -0.5 * %s)",
            )
        )
        if form.count("%s") > 1 and "bernoulli" not in form and len(some) < len(axes):
            form = "%s + 0.3 * normal[OVER]()"  # an argument has no axes that the draw lacks
        return self.let(axes, form.replace("OVER", over).replace("FIRST", some[0]).replace("%s", name))

    # ---- loops along an axis ----

    def read_at(self, name, axis, t):
        """One element of a value, mostly the one of the current iteration."""
        n = self.dims[axis]
        at = (t,) * 4 + ("%s - 1", "%s + 1", "size[AXIS] - 1 - %s", "%d - %%s" % n, "2 * %s", "(3 * %%s + 1) %% %d" % n)
        return "%s[%s = %s]" % (name, axis, self.rng.choice(at).replace("AXIS", axis).replace("%s", t))

    def written_at(self, axis, t):
        return "%s = %s" % (axis, t if self.rng.random() < 0.7 else "size[%s] - 1 - %s" % (axis, t))

    def turn(self, h, axes, outside):
        """A statement for such a loop: uses a part of the carried value, and values from
        outside."""
        rng = self.rng
        if outside["weights"] and rng.random() < 0.4:
            return self.let(axes, outside["weights"].replace("%s", h))
        if axes and rng.random() < 0.15:
            return self.drawn((h, axes))
        what = rng.choice((self.pointwise, self.pointwise, self.shifted, self.masked, self.joined, self.scanned, self.copied))
        return what((h, axes))

    def weights_for(self, axes):
        """A product from an axis to itself with a parameter or an instance from outside of the loop;
        None: the value has no such axis."""
        axis = [a for a in axes if a in self.feature and a in self.dims]
        if not axis or self.rng.random() < 0.3:
            return None
        axis = self.rng.choice(axis)
        row = self.dim(axis + "_row", self.dims[axis])
        if row in axes:
            return None
        std = 1.0 / self.dims[axis] ** 0.5
        if self.rng.random() < 0.5:
            p = self.fresh("p")
            self.say("param %s[%s, %s] = normal(%.3f)" % (p, row, axis, std))
            return "%%s[%s -> %s] @%s %s" % (axis, row, row, p)
        label = self.fresh("l")
        self.places.append(label)
        self.say("%sf = %s:linear[%s, %s]" % (label, label, row, axis))
        return "%sf(%%s[%s -> %s], std = %.3f)" % (label, axis, row, std)

    def along(self, x):
        """A loop along an axis, with carried values and a result from each iteration."""
        rng = self.rng
        axes = x[1]
        if any(a not in self.dims for a in axes) or self.going:
            return self.pointwise(x)
        choices = [a for a in axes if a != "batch"] * 6 + [a for a in axes if a == "batch"]
        if not choices:
            return self.pointwise(x)
        axis = rng.choice(choices)
        rest = tuple(a for a in axes if a != axis)
        outside = {"weights": self.weights_for(rest)}
        h, t, left = self.fresh("r"), self.fresh("t"), [self.fresh("y")]
        self.say("%s[%s] = %s" % (h, ", ".join(rest), rng.choice(("0.0", "0.0", "0.3"))))
        self.say("repeat %s in %s {" % (t, axis))
        self.indent, outer, self.going, was = self.indent + "  ", self.indent, True, self.in_loop
        self.in_loop = True
        y = self.let(rest, "0.6 * %s + 0.6 * %s" % (h, self.read_at(x[0], axis, t)))
        for _ in range(rng.choice((0, 1, 1, 2))):
            y = self.turn(y[0], rest, outside)
        if rng.random() < 0.25:
            y = self.let(rest, "%s * (1 + 0.3 * %s)" % (y[0], self.read_at(x[0], axis, t)))
        if rng.random() < 0.1:
            y = self.let(rest, "%s * (1 + 0.1 * f32(%s))" % (y[0], t))
        y = self.tame(y)
        before = rng.random() < 0.2  # the result of an iteration is the value with which it began
        if not before:
            self.say("%s = %s" % (h, y[0]))
        self.say("%s[%s] = %s" % (left[0], self.written_at(axis, t), h))
        if rng.random() < 0.25:
            left.append(self.fresh("y"))
            self.say("%s[%s] = %s * %s" % (left[1], self.written_at(axis, t), y[0], self.read_at(x[0], axis, t)))
        if before:
            self.say("%s = %s" % (h, y[0]))
        self.indent, self.going, self.in_loop = outer, False, was
        self.say("}")
        form = rng.choice(("LEFT", "LEFT", "LEFT + 0.5 * %s" % x[0], "LEFT * %s" % h))
        return self.let(axes, form.replace("LEFT", left[0]) + "".join(" - 0.5 * %s" % y for y in left[1:]))

    # ---- layers and functions of the library ----

    def convolved(self, x):
        """conv1d along an axis, which keeps its extent."""
        name, axes = x
        along = self.own_axes(x, 4)
        channels = [a for a in along if a in self.feature]
        along = [a for a in along if a not in channels[:1]]
        if not channels or not along:
            return self.pointwise(x)
        c, t = self.rng.choice(channels), self.rng.choice(along)
        if c == t:
            return self.pointwise(x)
        n, label = self.dims[c], self.fresh("k")
        groups = self.rng.choice([1, 1, n] + [d for d in (2, 3) if n % d == 0])
        dilation = self.rng.choice((1, 1, 2))
        options = [self.rng.choice(("k = 3", "k = 2, causal = true", "k = 3, causal = true"))]
        options += ["dilation = 2"] * (dilation == 2) + ["groups = %d" % groups] * (groups > 1)
        options += ["bias = false"] * (self.rng.random() < 0.3)
        self.places.append(label)
        return self.let(axes, "tanh(%s:conv1d[%s, %s](%s, %d, %s))" % (label, t, c, name, n, ", ".join(options)))

    def normed(self, x):
        """A norm over samples, pools of them, or groups of channels."""
        name, axes = x
        own = self.own_axes(x, 2)
        if not own or any(a not in self.dims for a in axes):
            return self.pointwise(x)
        d, label = self.rng.choice(own), self.fresh("n")
        others = [a for a in own if a != d]
        spread = lambda names: names[0] if len(names) == 1 else "(" + ", ".join(names) + ")"
        kind = self.rng.choice(("batch", "ghost", "group"))
        self.places.append(label)
        if kind == "group" and others:
            groups = self.rng.choice([g for g in (1, 2, 3, 4) if self.dims[d] % g == 0])
            return self.let(
                axes, "%s:groupnorm[%s, %s](%s, groups = %d, eps = 0.1)" % (label, spread(others), d, name, groups)
            )
        if "batch" not in axes or self.going:
            return self.norm(x)
        if kind == "ghost" and self.dims["batch"] % 4 == 0:
            pool, each = self.dim("pool", 4), self.dim("each", self.dims["batch"] // 4)
            if pool in axes or each in axes or self.dims["batch"] == 4:
                return self.norm(x)
            return self.let(
                axes,
                "(%s[batch -> (%s, %s)] |> %s:ghostnorm[%s, %s, %s](eps = 0.1))[(%s, %s) -> batch]"
                % (name, pool, each, label, pool, spread([each] + others), d, pool, each),
            )
        over = spread(["batch"] + others)
        return self.let(axes, "%s:batchnorm[%s, %s](%s, eps = 0.1)" % (label, over, d, name))

    def bent(self, x):
        """The functions of the library that no other method uses."""
        name, axes = x
        form = self.rng.choice(("sigmoid(2 * %s)", "softplus(%s) - 0.7", "log1p(%s * %s)", "relu(%s + 0.0137)"))
        axis = self.own_axes(x)
        if axis and self.rng.random() < 0.25:
            form = "%%s * (1 + 0.2 * round(0.5 * f32(iota[%s])))" % self.rng.choice(axis)
        return self.let(axes, form.replace("%s", name))

    def cut_by_extent(self, x):
        """Splits an axis into parts whose extents the program gives, and merges them again."""
        name, axes = x
        axis = [a for a in self.own_axes(x, 4) if self.dims[a] % 2 == 0]
        if not axis or "major" in axes:
            return self.pointwise(x)
        axis = self.rng.choice(axis)
        n = self.rng.choice([d for d in (2, 3, 4) if self.dims[axis] % d == 0])
        rest = tuple(a for a in axes if a != axis)
        first = self.rng.random() < 0.5
        parts = "major = %d, minor" % n if first else "major, minor = %d" % n
        self.axes = dict(self.axes, major=n if first else self.dims[axis] // n)
        self.axes["minor"] = self.dims[axis] // self.axes["major"]
        y = self.let(rest + ("major", "minor"), "%s[%s -> (%s)]" % (name, axis, parts))
        y = self.rng.choice((self.pointwise, self.scaled, self.narrowed, self.copied))(y)
        if set(y[1]) != set(rest) | {"major", "minor"}:
            y = self.let(rest + ("major", "minor"), "%s[%s -> (%s)]" % (name, axis, parts))
        self.axes = {a: n for a, n in self.axes.items() if a not in ("major", "minor")}
        order = "major, minor" if self.rng.random() < 0.6 else "minor, major"
        return self.let(axes, "%s[(%s) -> %s]" % (y[0], order, axis))

    # ---- pictures ----

    def image_layer(self, x):
        """A convolution with options, a pool or a norm of a picture whose extents are self.axes."""
        rng, (name, axes) = self.rng, x
        height, width, chan = (self.axes[a] for a in ("height", "width", "chan"))
        label = self.fresh("c")
        kind = rng.choice(("conv", "conv", "conv", "maxpool", "avgpool", "norm"))
        if kind == "norm":
            self.places.append(label)
            if rng.random() < 0.5:
                return self.let(axes, "%s:batchnorm[(batch, height, width), chan](%s, eps = 0.1)" % (label, name))
            groups = rng.choice([g for g in (1, 2, 3) if chan % g == 0])
            return self.let(
                axes, "%s:groupnorm[(height, width), chan](%s, groups = %d, eps = 0.1)" % (label, name, groups)
            )
        if kind != "conv":
            k, stride, pad = rng.choice(((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0)))
            dilation, n, text = 1, chan, "%s(%s, k = %d, stride = %d, pad = %d)" % (kind, name, k, stride, pad)
        else:
            k, stride, dilation = rng.choice((1, 2, 3, 3)), rng.choice((1, 1, 2)), rng.choice((1, 1, 1, 2))
            pad, n = rng.choice((0, 1, dilation * (k // 2), dilation * (k // 2))), rng.choice((2, 4, 6))
            groups = rng.choice([1, 1] + [g for g in (2, 3, chan) if chan % g == 0 and n % g == 0])
            text = "tanh(%s:conv(%s, %d, %d, stride = %d, dilation = %d, pad = %d, groups = %d%s))" % (
                (label, name, n, k, stride, dilation, pad, groups) + (rng.choice(("", ", bias = false")),)
            )
        new = [(extent + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for extent in (height, width)]
        if min(new) < 2:
            return self.pointwise(x)
        if kind == "conv":
            self.places.append(label)
        self.axes.update(height=new[0], width=new[1], chan=n)
        return self.let(axes, text)
