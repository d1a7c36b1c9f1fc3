dim batch = 4
fn halve(x[...]) -> [...] { return halve(x / 2) }
model m(x[batch]) -> [batch] { return halve(x) }
