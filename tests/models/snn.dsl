# SPDX-License-Identifier: Apache-2.0
# A recurrent network of spiking neurons for the Heidelberg digits (Cramer et al., 2020), trained by surrogate gradients (Neftci,
# Mostafa and Zenke, 2019): a neuron leaks, integrates its input, and fires at 1, where it is reset; on the way back the step is
# a fast sigmoid's derivative (Zenke and Ganguli, 2018). What is read out integrates without firing; its maximum decides.
include "std.dsl"
dim batch = 256, time = 100, channel = 700, hidden = 200, from = hidden, classes = 20

fn fires(u[...]) -> [...] {
  return where(u > 0, 1.0, 0.0)
  surrogate(dy) {
    s = 1 + 10 * abs(u)
    return dy / (s * s)
  }
}
model net(x[batch, time, channel]) -> [batch, classes] {
  param w[channel, hidden] = normal(0.1)
  param v[from, hidden] = normal(0.05)
  param o[hidden, classes] = normal(0.1)
  drive = x @channel w
  u[batch, hidden] = 0.0
  spike[batch, hidden] = 0.0
  read[batch, classes] = 0.0
  repeat t in time {
    u = 0.9 * u * (1 - stop(spike)) + drive[time = t] + spike[hidden -> from] @from v
    spike = fires(u - 1)
    read = 0.95 * read + spike @hidden o
    out_at[time = t] = read
  }
  return max[time](out_at)
}
train {
  x[batch, time, channel] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](net(x), label))
  optimizer = adamw(lr = 1e-3)
  steps = 10_000
}
