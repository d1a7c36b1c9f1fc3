# ---- stack
dim batch = 4, two = 2
model m(x[batch]) -> [batch] {
  return sum[two](stack[two](x, x, x))
}
# ---- topk
dim batch = 4, route = 4, choice = 6
model m(x[batch, route]) -> [batch] {
  g, i = topk[route, choice](x)
  return sum[choice](g) + sum[choice](i)
}
# ---- window
dim batch = 4
axis tok, part
model m(x[batch, tok = 9]) -> [batch] {
  return sum[tok, part](window[tok, part](x, 12))
}
