dim layer = 12, heads = 4
fn f(x[in, out]) { return x }
