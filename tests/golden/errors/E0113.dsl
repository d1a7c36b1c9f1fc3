# ---- brace
{ dim n = 4 }
# ---- comment
// a comment of another language
dim n = 4
# ---- misspelt
include "std.dsl"
lyer mlp(x[a]) -> [a] {
  return x
}
def f(x) { return x }
fn g(x) { return x }
# ---- statement
dim n = 4
x = 3
param w[n] = zeros
