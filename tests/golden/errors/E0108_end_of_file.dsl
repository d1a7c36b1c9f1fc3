train {
  steps = 3
  loss = mean[batch](l
