dim n = 4
x = 3
param w[n] = zeros
