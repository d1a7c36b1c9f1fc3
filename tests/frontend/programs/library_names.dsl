# Laws of a program whose dims and axes have names that the library uses for its own ones: every result must be 0.
# `height`, `width` and `chan` are axes of what `conv` takes; the other names are those of axes in bodies of the library.
include "std.dsl"
dim batch = 3, chan = 4, kh = 5, kw = 7, out = 6, chan_each = 9, phase = 11
axis height, width, chan_group, out_each, phase_each

model taken(x[batch, height = 4, width = 6, chan], y[batch, height = 4, width = 6, chan], z[batch, kh, kw, phase]) {
  a = x[height = 2, width = 4]
  b = x[height = 3, width = 4]
  c = x[height = 2, width = 5]
  d = x[height = 3, width = 5]
  plain = p:conv
  far = f:conv
  groups = g:groupnorm[(height, width), chan](x, groups = 2)
  return abs(avgpool(x)[height = 1, width = 2] - (a + b + c + d) / 4),
         abs(maxpool(x)[height = 1, width = 2] - max(max(a, b), max(c, d))),
         abs(plain(x + y, chan, bias = false) - plain(x, chan, bias = false) - plain(y, chan, bias = false)),
         abs(far(x + y, chan, 3, 1, 2, bias = false) - far(x, chan, 3, 1, 2, bias = false)
             - far(y, chan, 3, 1, 2, bias = false)),
         abs(mean[height, width](groups[chan = 2] + groups[chan = 3])), abs(lin:linear[(kh, kw, phase), out](0 * z))
}
