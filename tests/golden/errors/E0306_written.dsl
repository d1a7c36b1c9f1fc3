dim batch = 4, embed = 12, heads = 3
axis part, more
model m(x[batch, embed]) -> [batch, embed] {
  a = x[embed -> (part = 5, more)]
  b = x[embed -> (part = 5, more = 2)]
  c = x[embed -> (heads = 4, more)]
  d = x[embed -> (part = 0, more)]
  return x
}
