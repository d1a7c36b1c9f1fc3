include "std.dsl"
dim batch = 4, side = 8
model m(x[batch, height = side, width = side, chan = 3, kh = 2]) -> [batch] {
  y = x |> conv(4)
  return sum[height, width, kh, chan](y)
}
