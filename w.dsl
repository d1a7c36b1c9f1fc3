include "std.dsl"
dim batch = 8, embed = 8, seq = 6, vocab = 16, layers4 = 4, layers2 = 2, mid = 8, embed_row = 8, two = 2
axis win, piece, major, minor, past, far
model m(i32 tokens[batch, seq], u[batch, embed]) -> [batch, seq, vocab], f32[] {
  param wte[vocab, embed] = normal(0.7)
  v1 = wte[vocab = tokens]
  param p2[seq] = uniform(-1, 1)
  v3 = v1 - 0.5 * p2
  c5 = v3
  a6 = f32(0)
  repeat h4 in layers4 {
    v7 = cumsum[seq](c5) / (1 + iota[seq])
    v8 = where(u > 0, v7, 0.3)
    param t9[vocab, embed] = normal(0.5)
    v10 = v8 + t9[vocab = tokens]
    c12 = v10
    repeat h11 in layers2 {
      v13 = dropout(c12, 0.5)
      param p14[seq] = normal(0.5)
      v15 = v13 + p14
      v16 = 1.5 * tanh(0.7 * v15)
      c12 = 0.6 * c12 + 0.6 * v16
    }
    v17 = 1.5 * tanh(0.7 * c12)
    a6 = a6 + 0.1 * mean[batch, seq, embed](v17 * v17)
    c5 = 0.6 * c5 + 0.6 * v17
  }
  c19 = c5
  repeat h18 in layers4 {
    v20 = dropout(c19, 0.5)
    v21 = v20 * (1 + 0.2 * round(0.5 * f32(iota[embed])))
    v22 = v21 * (1 + 0.1 * h18)
    v23 = 1.5 * tanh(0.7 * v22)
    c19 = 0.6 * c19 + 0.6 * v23
  }
  v24 = 1.5 * tanh(0.7 * c19)
  v26 = l25:linear[embed, mid](v24, std = 0.354)
  v28 = l27:linear[mid, embed](v26, std = 0.354)
  param p29[embed_row, embed] = normal(0.354)
  r30[batch, embed] = 0.0
  repeat t31 in seq {
    v33 = 0.6 * r30 + 0.6 * v28[seq = size[seq] - 1 - t31]
    v34 = silu(v33)
    v35 = stack[two](v33, v34)
    param p36[embed, two] = normal(0.5)
    v37 = v35 * p36
    v38 = 0.7 * sum[two](v37)
    v39 = gelu(v38)
    v40 = v38 - stop(v39)
    v41 = v40 * (1 + 0.1 * f32(t31))
    v42 = 1.5 * tanh(0.7 * v41)
    r30 = v42
    y32[seq = t31] = r30
    y43[seq = t31] = v42 * v28[seq = t31]
  }
  v44 = y32 - 0.5 * y43
  v45 = v44 + 0.4 * v3
  v46 = 1.5 * tanh(0.7 * v45)
  v48 = l47:linear[embed, vocab](v46, std = 0.354, bias = false)
  return v48, a6
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  u[batch, embed] = synthetic(-1, 1)
  y, e0 = m(tokens, u)
  loss = mean[batch, seq](xent[vocab](y, labels)) + 0.1 * e0
  metric0 = sum[batch](f32(bernoulli[batch](0.4)))
  metric1 = mean[batch, seq](y[vocab = labels])
  metrics = (metric0, metric1)
  optimizer = adafactor(lr = 0.05, decay = 0.01, threshold = 0.5)
  seed = 1
  steps = 3
}
cluster odd_machine { gpus = 8; gpu = "cpu" }
parallel odd on odd_machine {
  mesh data = 4, pipe = 2
  shard batch on data
  pipeline h4, h18 on pipe (schedule = "interleaved_1f1b", chunks = 2)
  micro batch = 2
  zero 3 on data (bucket = 4KB, prefetch = 2)
}

