# ---- library
# A library: what its definitions are called with is not known.
include "std.dsl"
dim embed = 8
fn apply(f, x[...]) { return f(x) }
fn as_embed[a](x[..., a]) { return x[a -> embed] }
