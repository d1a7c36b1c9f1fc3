include "parts"
dim batch = 4
model m(x[batch]) -> [batch] { return x }
