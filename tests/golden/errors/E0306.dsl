# ---- remainder
dim batch = 4, seq = 8, embed = 16, three = 3
axis rest
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = x[embed -> (three, rest)]
  return u[(three, rest) -> embed]
}
# ---- split
dim batch = 4, seq = 8, embed = 16, heads = 3, head = 5
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = x[embed -> (heads, head)]
  return u[(heads, head) -> embed]
}
# ---- two_open
dim batch = 4, seq = 8, embed = 16
axis p, q
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = x[embed -> (p, q)]
  return u[(p, q) -> embed]
}
# ---- written
dim batch = 4, embed = 12, heads = 3
axis part, more
model m(x[batch, embed]) -> [batch, embed] {
  a = x[embed -> (part = 5, more)]
  b = x[embed -> (part = 5, more = 2)]
  c = x[embed -> (heads = 4, more)]
  d = x[embed -> (part = 0, more)]
  return x
}
