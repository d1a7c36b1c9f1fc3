# ---- frozen
include "std.dsl"
dim batch = 8, embed = 4, next = embed
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed, next] = normal(0.3)
  x = a:batchnorm[batch, embed]((x @embed w)[next -> embed])
  x = b:batchnorm[batch, embed](x, rate = 0)
  return c:batchnorm[batch, embed](x)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  frozen = ("w", "a.*", "b.*", "c.gain")
  steps = 4
}
