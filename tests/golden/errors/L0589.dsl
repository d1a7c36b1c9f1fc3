# dtc --target=sm_90a --emit=cuda --no-kernels
include "std.dsl"
dim batch = 512, words = 100, embed = 8, wide = 2048
model m(i32 word[batch]) -> [batch, embed] {
  param table[words, embed], far[wide, embed] = normal(1) # far: its norm is a kernel of its own, in pieces
  return cumsum[batch](table[words = word]) + mean[wide](far * far) # a scan for each of 8
}
train {
  i32 word[batch] = synthetic(0, words)
  loss = sum[batch, embed](m(word))
  optimizer = adamw(lr = 0.1, clip = 1.0)
  steps = 1
}
