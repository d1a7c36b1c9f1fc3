include "std.dsl"
dim batch = 4, seq = 8, embed = 16
layer norm(x[..., embed]) -> [..., embed] { return x - mean[batch](x) + mean[embed](x) }
layer pool(x[..., embed]) -> [..., embed] { return mean[seq](x) }
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return pool(norm(x)) }
