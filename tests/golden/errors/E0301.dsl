# ---- constant
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return softmax[embed](3.0)
}
# ---- default
dim batch = 4
axis part
layer pool(x[batch], y[part] = 0.5) -> [batch] { return x * sum[part](y) }
model m(x[batch]) -> [batch] { return pool(x) }
# ---- keys
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 16, heads = 4, head = 4
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
# ---- linear
include "std.dsl"
dim batch = 4, seq = 8, embed = 16, hidden = 32
model m(x[batch, seq, embed]) -> [batch, seq, hidden] {
  y = linear[embed, hidden](x)
  return down:linear[embed, hidden](y)
}
# ---- own_layer
dim batch = 4, seq = 8, embed = 16
layer pool(x[batch, seq, embed]) -> [batch, embed] { return sum[seq](x) }
model m(x[batch, embed]) -> [batch, embed] { return pool(x) }
