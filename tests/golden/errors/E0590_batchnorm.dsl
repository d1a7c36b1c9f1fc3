include "std.dsl"
dim batch = 8, wide = 4
model m(x[batch, wide]) -> [batch, wide] { return x |> batchnorm[batch, wide]() }
train {
  x[batch, wide] = synthetic(0, 1)
  loss = mean[batch, wide](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
parallel cut on one { mesh data = 1; micro batch = 2 }
