# SPDX-License-Identifier: Apache-2.0
# A device and a stack of a program's own; their words stay names elsewhere.
fn twice(device, stack) {
  return device * stack
}

device "mine" {
  like = "a100-80g"
  capacity = 96GiB
  inter = link(12.5GB/s, 4us)
  product = about(0.7, within = 0.02, source = "eight products")
  launch = 2us
}

device "a100-40g" {
  like = "mine"
  units = 98
}

stack fork {
  description = "ours, with one thing less"
  fa2 = "an older library"
  eager = true
  scores = false
}

cluster two {
  gpus = 2
  gpu = "a100-40g"
  stack = fork
}
