dim batch = 4, seq = 8
axis part
model m(x[batch, seq]) -> [batch, seq] {
  return x * sum[part](uniform[part]())
}
