# SPDX-License-Identifier: Apache-2.0
# Four families of programs, small enough that all their layouts can be compiled. test_search.c says on how many devices.
include "std.dsl"
dim batch = 64, seq = 512, kseq = seq, vocab = 8192, layers = 8
dim embed = 1024, heads = 16, head = embed // heads, ffn = 4 * embed
dim classes = 1000, hidden = 8192
dim experts = 4, route = experts

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed]
}
layer mixed(x[batch, seq, embed]) -> [batch, seq, embed] { # each token through all experts
  p = softmax[route](gate:linear[embed, route](x))
  param w1[experts, embed, ffn] = normal(0.02)
  param w2[experts, ffn, embed] = normal(0.02)
  y = relu(x @embed w1) @ffn w2
  return sum[experts](y * p[route -> experts])
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
model mixture(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mixed(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
model wide(x[batch, embed]) -> [batch, classes] {
  return x |> a:linear[embed, hidden] |> gelu |> b:linear[hidden, embed] |> gelu |> c:linear[embed, classes]
}
model deep(x[batch, embed]) -> [batch, classes] {
  y = x
  repeat h in layers { y = y + (n:layernorm[embed](y) |> a:linear[embed, hidden] |> gelu |> b:linear[hidden, embed]) }
  return y |> c:linear[embed, classes]
}
train gpt {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = constant(1e-3))
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = f32)
  steps = 10
}
train mixture {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](mixture(tokens), labels))
  optimizer = adamw(lr = constant(1e-3))
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = f32)
  steps = 10
}
train wide {
  x[batch, embed] = synthetic(0, 1)
  i32 labels[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](wide(x), labels))
  optimizer = sgd(lr = constant(1e-2), momentum = 0.9)
  steps = 10
}
train deep {
  x[batch, embed] = synthetic(0, 1)
  i32 labels[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](deep(x), labels))
  optimizer = adamw(lr = constant(1e-3))
  steps = 10
}
cluster pod { nodes = 1; gpus = 4; gpu = "a100-80g" }
parallel any on pod { auto }
