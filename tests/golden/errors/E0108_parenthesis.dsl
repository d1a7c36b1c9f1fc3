include "std.dsl"
layer mlp(x[batch, embed]) {
  h = relu(up:linear[embed, ffn](x)
  return down:linear[ffn, embed](h)
}
