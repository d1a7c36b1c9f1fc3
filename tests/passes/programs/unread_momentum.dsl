# A parameter that nothing reads: its gradient is zero, which momentum is added to in a bucket of its own.
include "std.dsl"
dim batch = 4, embed = 8, mid = 12
model m(x[batch, embed]) -> [batch, embed] {
  param unread[embed] = ones
  x = up:linear[embed, mid](x)
  return down:linear[mid, embed](x)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed]((y - 0.3) ** 2)
  apart = sgd(lr = 0.2, momentum = 0.9, params = "unread")
  optimizer = sgd(lr = 0.3, momentum = 0.9, nesterov = true, clip = 1.0)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel one on c { mesh data = 2; shard batch on data; zero 1 on data }
parallel two on c { mesh data = 2; shard batch on data; zero 2 on data (bucket = 32B) }
parallel three on c { mesh data = 2; shard batch on data; zero 3 on data }
parallel same on c { mesh data = 2; zero 3 on data }
