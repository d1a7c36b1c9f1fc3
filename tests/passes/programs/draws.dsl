# Random numbers as values: in the train block, a model, a loop; of arguments with and without gradients, over axes
# that arguments have and have not.
include "std.dsl"
dim batch = 8, wide = 6, latent = 4, layers = 4
axis row
layer noisy(x[batch, wide]) -> [batch, wide] {
  z = normal[batch, latent](m:linear[wide, latent](x, std = 0.2), exp(0.5 * tanh(s:linear[wide, latent](x, std = 0.2))))
  keep = bernoulli[batch, latent](0.7)
  return x + down:linear[latent, wide](where(keep, z, 0), std = 0.2) * uniform[wide](-0.1, 1)
}
model net(x[batch, wide], t[batch]) -> [batch] {
  param w[wide], b[wide] = normal(0.5)
  h = sqrt(1 - t) * x + sqrt(t) * normal[batch, wide]()
  r = h[wide -> row]
  h = h + uniform[batch, row](min(r, 0), 1)[row -> wide] * b
  repeat i in layers { h = noisy(h) }
  return h @wide w
}
model other(x[batch, wide]) -> [batch] { return sum[wide](normal[batch, wide](x, 0.5)) }
train {
  x[batch, wide] = synthetic(0, 1)
  t = uniform[batch]()
  mask = bernoulli[batch](0.4 + 0.2 * t)
  y = net(x, t) + 0.1 * other(x)
  loss = sum[batch](where(mask, y * y, 0)) / max(sum[batch](f32(mask)), 1)
  optimizer = adamw(lr = 0.01, clip = 1.0)
  steps = 6
  eval = every(2, steps = 2, data = synthetic(0, 1))
}
cluster c { gpus = 2; gpu = "cpu" }
cluster c4 { gpus = 4; gpu = "cpu" }
parallel data on c { mesh data = 2; shard batch on data }
parallel micro on c { mesh data = 2; shard batch on data; micro batch = 2; remat i }
parallel tensor on c { mesh tensor = 2; shard latent, wide on tensor }
parallel pipe on c { mesh pipe = 2; pipeline i on pipe; micro batch = 2 }
parallel zero on c { mesh data = 2; shard batch on data; zero 3 on data; micro batch = 4 }
parallel pads on c4 { mesh tensor = 4; shard wide on tensor (pad = 4); shard latent on tensor }
parallel both on c4 { mesh data = 2, tensor = 2; shard batch on data; shard latent on tensor; remat i }
