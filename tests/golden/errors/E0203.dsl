# ---- builtin
dim batch = 4
fn sum(x[batch]) -> [batch] { return x }
model m(x[batch]) -> [batch] { return sum(x) }
# ---- dim_twice
include "std.dsl"
dim batch = 4, seq = 8
dim seq = 16
fn double(x[...]) -> [...] { return 2 * x }
model m(x[batch, seq]) -> [batch, seq] { return double(x) }
# ---- function_twice
include "std.dsl"
dim batch = 4
fn relu(x[...]) -> [...] { return max(x, 0.1 * x) }
fn relu(x[...]) -> [...] { return max(x, 0.2 * x) }
model m(x[batch]) -> [batch] { return relu(x) }
# ---- constant_and_dim
dim batch = 4, wide = 8
constant wide = 3
model m(x[batch]) -> [batch] { return x * wide }
