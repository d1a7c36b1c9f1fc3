dim batch = 4
fn sum(x[batch]) -> [batch] { return x }
model m(x[batch]) -> [batch] { return sum(x) }
