# ---- merged
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, down = 4, across = 4, embed = 8
axis tok
model m(image[batch, down, across]) -> [batch, embed] {
  param w[tok = down * across, embed] = normal(0.1)
  x = image[(down, across) -> tok]
  return cumsum[tok](x) @tok w
}
train {
  image[batch, down, across] = synthetic(0, 1)
  y = m(image)
  loss = sum[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel rows on pair { mesh half = 2; shard down on half }
