# ---- cycle
dim batch = 4, heads = embed // head, head = embed // heads, embed = 16
model m(x[batch, heads, head]) -> [batch, heads, head] { return x }
# ---- unset
dim batch, embed = 8
model m(x[batch, embed]) -> [batch, embed] { return x }
