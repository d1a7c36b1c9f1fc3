dim batch = 4
axis tok
layer head(x[batch, tok = 4]) -> [batch] { return sum[tok](x) }
model m(x[batch, tok = 5]) -> [batch] { return head(x) }
