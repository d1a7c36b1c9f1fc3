# Dtypes under mixed precision: the name of each value says what it must be (its last part), test_lower.c compares.
include "std.dsl"
dim batch = 4, seq = 6, embed = 8, hidden = 8
layer plain(x[batch, seq, embed], scale) -> [batch, seq, embed] {
  inner_bf16 = x * 1.0
  factor_bf16 = 1.0 * scale
  return x * f32(2)
}
layer exact(f32 x[batch, seq, embed]) -> f32[batch, seq, embed] {
  whole_f32 = x * 1.5
  return x + 1
}
model m(i32 ids[batch, seq], x[batch, seq, embed]) -> f32[] {
  param w[embed, hidden] = normal(0.02)
  param f32 r[embed, hidden] = normal(0.02)
  state mu[embed] = zeros
  dot_bf16 = x @embed w
  accumulator_f32 = f32(x @embed w)
  cast_f32 = f32((x @embed w) + 0)
  narrower_bf16 = f32(x) @embed w
  both_f32 = f32(x) @embed r
  mixed_bf16 = x @embed r
  literal_bf16 = x * 0.5
  literal_i32 = ids * 3
  weak_f32 = ids * 0.5
  made_bf16 = x * weak_f32
  ratio_f32 = ids / 2
  ratio_bf16 = x / ids
  floor_i32 = ids // 2
  sum_f32 = sum[embed](x)
  max_bf16 = max[embed](x)
  join_f32 = x * sum_f32
  test_bool = x > 0
  test2_bool = test_bool and ids == 3
  count_i32 = sum[seq](test_bool)
  running_i32 = cumsum[seq](test_bool)
  times_bf16 = x * test_bool
  more_i32 = test_bool + test2_bool
  chosen_bf16 = where(test_bool, x, 0)
  chosen_f32 = where(test_bool, x, sum_f32)
  chosen_i32 = where(test_bool, ids, 0)
  power_bf16 = x ** 3
  power_f32 = ids ** 0.5
  square_i32 = ids ** 2
  state_f32 = mu * 0.5
  to_i32 = i32(x)
  iota_i32 = iota[embed] + 1
  gathered_bf16 = w[embed = ids]
  layer_bf16 = a:plain(f32(x), sum_f32)
  layer_f32 = b:exact(x)
  log_f32 = lse[embed](x) * f32(1)
  carried = x * 1.5
  repeat h in 2 { carried = carried * sum_f32 }
  after_bf16 = carried * 2.0
  return sum[batch, seq](xent[hidden](dot_bf16, ids)) + sum[batch, seq, embed](layer_f32)
}
train {
  i32 ids[batch, seq] = npy("ids.npy")
  x[batch, seq, embed] = npy("x.npy")
  loss = m(ids, x)
  precision = mixed(compute = bf16, params = f32, grads = f32)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
