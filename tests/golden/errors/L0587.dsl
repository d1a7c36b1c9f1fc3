# dtc --target=sm_90a --emit=cuda --no-kernels --unfused
include "std.dsl"
dim batch = 4
model m(image[batch, height = 16, width = 16, chan = 16]) -> [batch, height = 16, width = 16, out = 32] {
  param w[kh = 3, kw = 3, chan = 16, out = 32] = normal(1)
  win = window[width, kw](window[height, kh](image, 3, 1, 1), 3, 1, 1)
  return win @(kh, kw, chan) w # patches lie in the image, and --unfused copies none
}
train {
  image[batch, height = 16, width = 16, chan = 16] = synthetic(-1, 1)
  loss = mean[batch, height, width, out](m(image))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
