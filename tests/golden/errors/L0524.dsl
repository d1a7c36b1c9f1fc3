# ---- split
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 6, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  repeat t in seq {
    h = 0.5 * h + x[seq = size[seq] - 1 - t]
    y[seq = t] = h
  }
  return y
}
train { x[batch, seq, embed] = synthetic(0, 1); loss = mean[batch, seq, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
cluster c { nodes = 1; gpus = 2; gpu = "cpu" }
parallel p on c { mesh context = 2; shard seq on context }
