dim batch = 4
layer a(x[batch]) -> [batch] { return b(x) }
layer b(x[batch]) -> [batch] { return a(x) }
model m(x[batch]) -> [batch] { return a(x) }
