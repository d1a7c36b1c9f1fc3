# ---- one_line
# dtc --report
dim batch = 16777216, embed = 4, ffn = 8, layers = 4
layer mlp(x[batch, embed]) -> [batch, embed] {
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}
model tiny(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + mlp(x) }
  return x
}
train {
  f32 x[batch, embed] = synthetic(-1.0, 1.0)
  loss = sum[batch, embed](tiny(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
device "tiny" { like = "a100-80g"; capacity = 2GiB }
cluster few { gpus = 2; gpu = "tiny" }
parallel two on few {
  mesh data = 2
  shard batch on data
}
# ---- nothing_fits
# dtc --no-kernels -o plan
dim batch = 16777216, embed = 4, ffn = 8, layers = 4
layer mlp(x[batch, embed]) -> [batch, embed] {
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}
model tiny(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + mlp(x) }
  return x
}
train {
  f32 x[batch, embed] = synthetic(-1.0, 1.0)
  loss = sum[batch, embed](tiny(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
device "tiny" { like = "a100-80g"; capacity = 600MiB }
cluster few { gpus = 2; gpu = "tiny" }
parallel two on few {
  mesh data = 2
  shard batch on data
}
# ---- stage_of_a_kind
# dtc --no-kernels -o plan
dim batch = 16777216, embed = 4, ffn = 8, layers = 4
layer mlp(x[batch, embed]) -> [batch, embed] {
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}
model tiny(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + mlp(x) }
  return x
}
train {
  f32 x[batch, embed] = synthetic(-1.0, 1.0)
  loss = sum[batch, embed](tiny(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
device "tiny" { like = "a100-80g"; capacity = 1GiB }
cluster cramped { nodes = (1, 1); gpus = 1; gpu = ("a100-80g", "tiny") }
parallel two on cramped {
  mesh pipe = 2
  pipeline h on pipe
  micro batch = 4
}
# ---- another_layout
# dtc --no-kernels -o plan
dim batch = 16, seq = 4, embed = 4096, ffn = 8192, layers = 8
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}
model wide(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = x + mlp(x) }
  return x
}
train {
  f32 x[batch, seq, embed] = synthetic(-1.0, 1.0)
  loss = sum[batch, seq, embed](wide(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
device "tiny" { like = "a100-80g"; capacity = 2GiB }
cluster few { gpus = 4; gpu = "tiny" }
parallel two on few {
  mesh data = 2, rows = 2
  shard batch on data
  shard seq on rows
}
# ---- wide_slots
# dtc --no-kernels -o plan
dim batch = 68719476736, embed = 4, ffn = 8, layers = 4
layer mlp(x[batch, embed]) -> [batch, embed] {
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}
model tiny(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + mlp(x) }
  return x
}
train {
  f32 x[batch, embed] = synthetic(-1.0, 1.0)
  loss = sum[batch, embed](tiny(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
cluster two { gpus = 2; gpu = "a100-80g" }
parallel deep on two {
  mesh pipe = 2
  pipeline h on pipe
  micro batch = 16
}
