# Auxiliary losses of several layers, added up from zero.
dim embed = 4, wide = 4
model net(x[wide, embed]) -> [wide, embed], f32[] {
  param w[embed] = ones
  return x * w, f32(0) + sum[embed](w * w) + sum[wide, embed](x * w)
}
train {
  x[wide, embed] = synthetic(0, 1)
  y, aux = net(x)
  loss = sum[wide, embed](x) + aux
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh tensor = 2; shard embed on tensor }
