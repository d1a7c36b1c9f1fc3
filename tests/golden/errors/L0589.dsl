# dtc --target=sm_90a --emit=cuda --no-kernels
include "std.dsl"
dim batch = 512, words = 100, embed = 8
model m(i32 word[batch]) -> [batch, embed] {
  param table[words, embed] = normal(1)
  return table[words = word] # its gradient: a sum by index
}
train {
  i32 word[batch] = synthetic(0, words)
  loss = sum[batch, embed](m(word))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
