include "std.dsl"
dim batch = 4, seq = 8
axis chans
model m(x[batch, seq, chans = 3]) -> [batch, seq, chans] {
  return x / chans
}
