dim batch = 4, route = 4, choice = 6
model m(x[batch, route]) -> [batch] {
  g, i = topk[route, choice](x)
  return sum[choice](g) + sum[choice](i)
}
