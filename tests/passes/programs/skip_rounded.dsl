# A parameter in front of a pipeline, half of which is subtracted from what goes past the pipeline, too: its gradient is
# a sum that is rounded to 16 bits before it is halved. Stages round the sum, not its terms.
include "std.dsl"
dim batch = 8, embed = 8, layers = 4
model m(x[batch, embed]) -> [batch, embed] {
  param p[embed] = uniform(-1, 1)
  v = x - 0.5 * p
  c = v
  repeat h in layers {
    param s[embed] = ones
    c = c * s
  }
  return c + 0.4 * v
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y ** 2)
  optimizer = sgd(lr = 0.3)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)
  steps = 3
}
cluster k { gpus = 2; gpu = "cpu" }
cluster l { gpus = 4; gpu = "cpu" }
parallel pipes on k { mesh pipe = 2; pipeline h on pipe }
parallel chunks on k { mesh pipe = 2; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 2 }
parallel bubbles on k { mesh pipe = 2; pipeline h on pipe (schedule = "zb_h1"); micro batch = 4 }
parallel shared on l { mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe; zero 2 on data; micro batch = 2 }
