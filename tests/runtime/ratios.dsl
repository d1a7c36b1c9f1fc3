# Losses and metrics that are expressions of sums; ratios.py says what they are.
include "std.dsl"
dim batch = 4, seq = 8, vocab = 16, embed = 8, pair = 2, half = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.8)
  x = wte[vocab = tokens]
  repeat h in 2 {
    param gain[embed] = ones
    x = 2 * tanh(x * gain)
  }
  return x @embed wte
}
fn per(total[...], count[...]) -> [...] { return total / max(count, 1) }
train {
  i32 tokens[batch, seq] = bin("tokens.bin", i32)
  i32 labels[batch, seq] = bin("labels.bin", i32)
  z = m(tokens)
  valid = labels >= 0
  ce = where(valid, lse[vocab](z) - z[vocab = labels], 0)
  loss = sum[batch, seq](ce) / sum[batch, seq](valid)
  perplexity = exp(loss)
  guarded = per(sum[batch, seq](ce), sum[batch, seq](valid))
  rms = sqrt(mean[batch, seq](ce ** 2))
  batches = sum[batch, seq](valid)
  capped = sum[batch, seq](ce) / max(sum[batch, seq](valid), 1000)
  of = where(valid, f32(onehot[pair](labels % 2)), 0)
  balanced = mean[pair](per(sum[batch, seq](of * ce), sum[batch, seq](of)))
  worst = max[pair](sum[batch, seq](of * ce) / sum[batch, seq](of))
  share = per(sum[batch, seq](of * ce), sum[batch, seq](of))
  uneven = mean[pair]((share - mean[pair](share)) ** 2)
  table = sum[batch, seq](of * onehot[half](labels // 2 % 2) * ce)
  rows = sum[pair](max[half](table)) / sum[batch, seq](ce)
  columns = sum[half](max[pair](table)) / sum[batch, seq](ce)
  metrics = (perplexity, guarded, rms, batches, capped, balanced, worst, uneven, rows, columns)
  eval = every(1, data = (bin("tokens.bin", i32), bin("held.bin", i32)))
  optimizer = sgd(lr = 0.0)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel micro on one { mesh data = 1; shard batch on data; micro batch = 2 }
parallel data on two { mesh data = 2; shard batch on data }
parallel both on four {
  mesh data = 2, context = 2
  shard batch on data
  shard seq on context
  micro batch = 2
}
parallel pipe on two { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
