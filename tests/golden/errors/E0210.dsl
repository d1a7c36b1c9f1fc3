# ---- cycle
dim batch = 4, heads = embed // head, head = embed // heads, embed = 16
model m(x[batch, heads, head]) -> [batch, heads, head] { return x }
# ---- unset
dim batch, embed = 8
model m(x[batch, embed]) -> [batch, embed] { return x }
# ---- constant_cycle
include "std.dsl"
dim batch = 4
constant theta = base * 2, base = theta / 2
model m(x[batch]) -> [batch] { return x * theta }
# ---- constant_unset
include "std.dsl"
dim batch = 4
constant theta, tied = true
model m(x[batch]) -> [batch] { return if tied then x * theta else x }
