dim batch = 4, two = 2
model m(x[batch]) -> [batch] {
  return sum[two](stack[two](x, x, x))
}
