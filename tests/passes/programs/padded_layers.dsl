# Parameters of a pipelined loop, padded over ranks, whose optimizer makes something of zeros: what keeps padding as it is
# depends on no parameter, and has the loop's axis, of which each stage has its part.
include "std.dsl"
dim batch = 8, embed = 12, layers = 4
fn own(p[...], g[...], lr, factor = 0.9) -> [...] {
  state most[...] = zeros
  high = max(factor * most, abs(g)) + 0.01
  most = high
  return p - lr * g / high
}
model m(x[batch, embed]) -> [batch, embed] {
  param gain[embed] = ones
  x = x * gain
  repeat h in layers {
    param s[embed], b[embed] = normal(0.5)
    x = tanh(x * s + b)
  }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y ** 2)
  optimizer = own(lr = 0.1)
  steps = 3
}
cluster k { gpus = 4; gpu = "cpu" }
parallel pipes on k { mesh pipe = 2, rest = 2; shard embed on rest (pad = 8); pipeline h on pipe; micro batch = 2 }
parallel cuts on k { mesh pipe = 2, rest = 2; shard embed on rest (pad = 8); pipeline h on pipe (cuts = (1)); micro batch = 2 }
parallel chunks on k {
  mesh pipe = 2, rest = 2
  shard embed on rest (pad = 8)
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2)
  micro batch = 2
}
