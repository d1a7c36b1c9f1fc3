# Functions that draw random numbers, alone, in each other, in loops and layers: `shard` lines for their calls leave
# the numbers as they are where they are evaluated in place.
include "std.dsl"
dim batch = 8, wide = 12, last = 6, times = 4
fn noisy(x[..., wide], p) -> [..., wide] { return dropout(x, p) + x * (1 + normal[wide](0, 0.1)) }
fn both(x[..., wide]) -> [..., wide] { return noisy(x, 0.2) + 0.1 * noisy(dropout(x, 0.5), 0.2) }
fn often(x[..., wide]) -> [..., wide] {
  repeat h in times { x = 0.5 * x + 0.5 * dropout(noisy(x, 0.1), 0.4) }
  return x
}
layer mix(x[batch, wide]) -> [batch, wide] { return dropout(both(x), 0.1) + uniform[batch, wide](0, 1) }
model m(x[batch, wide]) -> [batch, last] {
  x = dropout(x, 0.3)
  repeat k in times { x = 0.3 * mix(x) + 0.3 * noisy(x, 0.1) }
  x = often(noisy(x, 0.2)) + x
  return x |> f:linear[wide, last](bias = false, std = 0.2)
}
train {
  x[batch, wide] = synthetic(0, 1)
  loss = mean[batch, last]((m(x) - 1) ** 2)
  optimizer = adamw(lr = 0.01, clip = 1.0)
  steps = 6
  eval = every(2, steps = 2, data = synthetic(0, 1))
}
cluster c { gpus = 2; gpu = "cpu" }
cluster c4 { gpus = 4; gpu = "cpu" }
parallel alone on c { mesh tensor = 2; shard noisy.wide, often.wide on tensor; shard batch on tensor }
parallel nested on c { mesh tensor = 2; shard both.wide on tensor; shard noisy.batch on tensor; shard wide on tensor }
parallel micro on c {
  mesh tensor = 2; shard both.wide, noisy.wide on tensor; shard batch on tensor; micro batch = 2; remat k
}
parallel pipe on c4 {
  mesh pipe = 2, tensor = 2; shard noisy.wide on tensor; shard batch on tensor; pipeline k on pipe; micro batch = 2
}
