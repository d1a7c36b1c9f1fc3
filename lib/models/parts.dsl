# SPDX-License-Identifier: Apache-2.0
# What the decoders of this folder share. The file that includes this one gives these dims their extents.
include "std.dsl"
dim batch, seq, embed, head, ffn
dim kseq = seq, two = 2, half = head // 2

# Rotary positions (Su et al., 2021): elements i of the first and of the second half of a head are a point,
# which position t turns by the angle t * frequency[i]. Files of Hugging Face pair the halves so; Meta's own
# files pair neighbours.
fn frequencies(theta) -> [half] { return theta ** (-iota[half] / half) }
fn rotate(x[..., seq, head], frequency[half]) -> [..., seq, head] {
  angle = iota[seq] * frequency
  a, b = unstack[two](x[head -> (two, half)])
  return stack[two](a * cos(angle) - b * sin(angle), b * cos(angle) + a * sin(angle))[(two, half) -> head]
}
layer swiglu(x[batch, seq, embed]) -> [batch, seq, embed] {
  g = silu(gate:linear[embed, ffn](x, bias = false))
  return down:linear[ffn, embed](g * up:linear[embed, ffn](x, bias = false), bias = false)
}
