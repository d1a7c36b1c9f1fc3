# SPDX-License-Identifier: Apache-2.0
# PPO (Schulman et al., 2017) of runs of an LSTM that acts: advantages by GAE from what was believed then, the ratio of probabilities
# clipped, so are the values; actions are numbers with one deviation for all states. 626,467 parameters.
include "std.dsl"
dim batch = 64, time = 128, seen = 376, act = 17, wide = 256, hidden = 256, again = hidden, four = 4, one = 1

layer lstm(x[batch, time, wide], begins[batch, time]) -> [batch, time, hidden] {
  param w[wide, four, hidden], u[hidden, four, again] = normal(0.3)
  param b[four, hidden] = normal(0.1)
  h[batch, hidden] = 0.0
  c[batch, hidden] = 0.0
  z = x @wide w + b
  repeat t in time {
    kept = 1 - begins[time = t]
    h, c = h * kept, c * kept
    i, f, g, o = unstack[four](z[time = t] + (h @hidden u)[again -> hidden])
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    y[time = t] = h
  }
  return y
}
model actor(x[batch, time, seen], begins[batch, time]) -> [batch, time, act], f32[act], [batch, time] {
  param f32 deviation[act] = normal(0.1)
  x = tanh(a:linear[seen, wide](x, std = 0.3))
  y = tanh(lstm(x, begins))
  return aim:linear[hidden, act](y, std = 0.3), deviation, value:linear[hidden, one](y, std = 0.3)[one = 0]
}
# Adv[t] = d[t] + gamma lambda (1 - ends[t]) Adv[t + 1], of a run from its end.
fn gae(reward[batch, time], value[batch, time], last[batch], ends[batch, time]) -> [batch, time] {
  a[batch] = 0.0
  next = last
  repeat i in time {
    goes = 1 - ends[time = size[time] - 1 - i]
    v = value[time = size[time] - 1 - i]
    d = reward[time = size[time] - 1 - i] + 0.99 * next * goes - v
    a = d + 0.99 * 0.95 * goes * a
    next = v
    y[time = size[time] - 1 - i] = a
  }
  return y
}
fn surely(x[..., act], m[..., act], s[act]) -> [...] {
  return sum[act](-0.5 * ((x - m) * exp(-s)) ** 2 - s - 0.9189385332046727)
}
train {
  sight[batch, time, seen] = synthetic(-1, 1)
  action[batch, time, act] = synthetic(-1, 1)
  old[batch, time] = synthetic(-3, -2)
  reward[batch, time] = synthetic(-1, 1)
  value[batch, time] = synthetic(-1, 1)
  last[batch] = synthetic(-1, 1)
  over[batch, time] = synthetic(0, 1)
  ends = f32(over > 0.8)
  adv = gae(reward, value, last, ends)
  aim = adv + value
  middle = mean[batch, time](adv)
  adv = (adv - middle) * rsqrt(mean[batch, time](adv * adv) - middle ** 2 + 1e-8)
  m, s, v = actor(sight, where(iota[time] == 0, 0, ends[time = iota[time] - 1]))
  ratio = exp(surely(action, m, s) - old)
  gain = mean[batch, time](min(ratio * adv, min(max(ratio, 0.8), 1.2) * adv))
  near = value + min(max(v - value, -0.2), 0.2)
  off = 0.5 * mean[batch, time](max((v - aim) ** 2, (near - aim) ** 2))
  entropy = sum[act](s + 1.4189385332046727)
  loss = -gain + 0.5 * off - 0.01 * entropy
  optimizer = adamw(lr = 3e-4, decay = 0, clip = 0.5)
  steps = 1000
}
