# ---- direct
dim batch = 4
fn halve(x[...]) -> [...] { return halve(x / 2) }
model m(x[batch]) -> [batch] { return halve(x) }
# ---- through_another
dim batch = 4
layer a(x[batch]) -> [batch] { return b(x) }
layer b(x[batch]) -> [batch] { return a(x) }
model m(x[batch]) -> [batch] { return a(x) }
