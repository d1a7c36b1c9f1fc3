# All that the loop's body makes is kept for the backward pass: in its frame is only what the ring's function makes, which it calls once.
include "std.dsl"
dim batch = 12, embed = 8, seq = 8, layers = 4, kseq = 8, heads = 4, head = 4
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers {
    q = wq:linear[embed, (heads, head)](x, std = 0.354, bias = false)
    k = wk:linear[embed, (heads, head)](x, std = 0.354, bias = false)[seq -> kseq]
    v = wv:linear[embed, (heads, head)](x, std = 0.354, bias = false)[seq -> kseq]
    o = attend[seq, kseq, head](q, k, v, scale = 0.5)
    x = 0.6 * x + 0.9 * tanh(0.7 * wo:linear[(heads, head), embed](o, std = 0.3))
  }
  repeat g in layers {
    param shift[embed] = normal(0.5)
    x = 0.6 * x + 0.6 * tanh(x - shift)
  }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, seq, embed](sin(y) * y)
  optimizer = adamw(lr = 0.01, eps = 1e-2, clip = 1.0)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)
  steps = 3
}
cluster four { gpus = 4; gpu = "cpu" }
parallel ring on four {
  mesh data = 2, context = 2
  shard batch on data
  shard seq on context
  shard kseq on context (ring = true)
  zero 3 on data, context (prefetch = 3)
}
