# ---- unmasked
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return attend[seq, kseq, embed](x, x[seq -> kseq], x[seq -> kseq], scale = embed ** -0.5)
}
# ---- other_mask
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return attend[seq, kseq, embed](x, x[seq -> kseq], x[seq -> kseq], scale = 1.0,
                                  mask = iota[kseq] <= iota[seq] + 1)
}
# ---- rounded_mask
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return attend[seq, kseq, embed](x, x[seq -> kseq], x[seq -> kseq], scale = 1.0,
                                  mask = i32(iota[kseq] - 0.5) <= iota[seq])
}
# ---- bf16_mask
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return attend[seq, kseq, embed](x, x[seq -> kseq], x[seq -> kseq], scale = 1.0,
                                  mask = bf16(iota[kseq]) <= bf16(iota[seq]))
}
# ---- rounded_choice
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  hidden = where(iota[kseq] <= iota[seq], 0, 0.5)
  return sum[kseq](where(bool(i32(hidden)), 0, x[seq -> kseq])) + x
}
# ---- divided_by_later
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  z = where(iota[kseq] <= iota[seq], x @embed x[seq -> kseq], 0)
  return z / sum[embed](x[seq -> kseq] ** 2) @kseq x[seq -> kseq]
}
# ---- exchanged
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  z = where(iota[kseq] <= iota[seq], x @embed x[seq -> kseq], 0)
  return z[seq -> kseq, kseq -> seq] @kseq x[seq -> kseq]
}
# ---- all_positions
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  m = x - mean[seq](x)
  return m + sum[kseq](x[seq -> kseq]) * 0
}
# ---- backwards
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  s[batch, embed] = 0.0
  k = x[seq -> kseq]
  repeat t in seq {
    s = s + x[seq = size[seq] - 1 - t]
    y[seq = t] = s + sum[kseq](where(iota[kseq] <= t, k, 0))
  }
  return y
}
# ---- window
include "std.dsl"
include "mini/decoder.dsl"
axis tap
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return sum[tap](window[seq, tap](x, 3, pad = (1, 1))) + sum[kseq](x[seq -> kseq]) * 0
}
# ---- samples
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x - mean[batch](x) + sum[kseq](x[seq -> kseq]) * 0
}
# ---- number_of_sample
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x + iota[batch] + sum[kseq](x[seq -> kseq]) * 0
}
# ---- parameter_of_sample
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  param each[batch, embed] = normal(0.1)
  return x + each + sum[kseq](x[seq -> kseq]) * 0
}
# ---- sum_of_experts
include "std.dsl"
include "mini/decoder.dsl"
dim experts = 4, route = experts, choice = 2, slot = seq
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(0.1)
  g, e = topk[route, choice](x @embed router)
  place = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  y = scatter[seq, choice](x, experts = e, slot = place)
  y = y - mean[experts](y)
  return sum[choice](g * y[experts = e, slot = place])
}
# ---- renamed_experts
include "std.dsl"
include "mini/decoder.dsl"
dim experts = 4, route = experts, other = experts, choice = 2, slot = seq
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(0.1)
  g, e = topk[route, choice](x @embed router)
  place = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  y = scatter[seq, choice](x, experts = e, slot = place)
  y = y + mean[other](y[experts -> other])
  return sum[choice](g * y[experts = e, slot = place])
}
# ---- loop_over_slots
include "std.dsl"
include "mini/decoder.dsl"
dim experts = 4, route = experts, choice = 2, slot = seq
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(0.1)
  g, e = topk[route, choice](x @embed router)
  place = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  y = scatter[seq, choice](x, experts = e, slot = place)
  s[batch, experts, embed] = 0.0
  repeat t in slot {
    s = s + y[slot = t]
    z[slot = t] = s
  }
  y = z
  return sum[choice](g * y[experts = e, slot = place])
}
# ---- last_position
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x + x[seq = 7] + sum[kseq](x[seq -> kseq]) * 0
}
# ---- draws
include "std.dsl"
include "mini/decoder.dsl"
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x + normal[batch, seq, embed](0.0, 0.1) + sum[kseq](x[seq -> kseq]) * 0
}
# ---- no_logits
include "std.dsl"
dim batch = 4, seq = 8, vocab = 16, embed = 8
model scores(i32 tokens[batch, seq]) -> [batch, seq] {
  param wte[vocab, embed] = normal(0.1)
  return sum[embed](wte[vocab = tokens])
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, 16))
  loss = mean[batch, seq]((scores(tokens) - labels) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 10
  generate = cached()
}
# ---- other_input
include "std.dsl"
dim batch = 4, seq = 8, vocab = 16
model squares(x[batch, seq]) -> [batch, seq, vocab] {
  param w[vocab] = normal(0.1)
  return x * w  # lint: allow L0301
}
train {
  x[batch, seq] = synthetic(0.0, 1.0)
  loss = mean[batch, seq, vocab](squares(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 10
  generate = cached()
}
