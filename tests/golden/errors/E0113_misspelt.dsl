include "std.dsl"
lyer mlp(x[a]) -> [a] {
  return x
}
def f(x) { return x }
fn g(x) { return x }
