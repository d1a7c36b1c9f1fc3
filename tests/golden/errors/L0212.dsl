dim batch = 4, embed = 96, heads = 5, head = embed // heads, half = embed // 2, ffn = 8 * embed // heads
model m(x[batch, heads, head], y[half, ffn]) -> [batch, heads, head, half, ffn] { return x * y }
