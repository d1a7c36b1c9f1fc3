# SPDX-License-Identifier: Apache-2.0
# A small convolutional network for handwritten digits, which reads PNG files in folders of classes. The 1,797 images of
# 8 x 8 pixels come with scikit-learn; examples/digits.py writes them to files:
#
#   python3 examples/digits.py out/digits
#   dtc examples/digits.dsl --parallel none -o out/digits.plan
#   dtrun out/digits.plan --data digits=out/digits --save out/digits.run
#
# Of the 360 images that it has not seen it knows 97 to 99 % after 400 steps, some seconds of one core.
include "std.dsl"
dim batch = 64, side = 8, grey = 1, classes = 10, c0 = 16, found = 1

model digits(image[batch, height = side, width = side, chan = grey]) -> [batch, classes] {
  x = image |> c1:conv(c0) |> relu |> maxpool
  x = x |> c2:conv(2 * c0) |> relu
  return x |> out:linear[(height, width, chan), classes]
}
train {
  # `digits/train/3/0017.png` is of class 3: the class is the name of the folder, numbered in byte order.
  image[batch, height = side, width = side, chan = grey], i32 label[batch] =
    images("digits/train", mean = 0.3, std = 0.35)
  z = digits(image)
  loss = mean[batch](xent[classes](z, label))
  best, guess = topk[classes, found](z)
  accuracy = mean[batch](f32(guess[found = 0] == label))
  metrics = accuracy
  optimizer = adamw(lr = warmup_cosine(3e-3, warmup = 20, total = 400), decay = 0.01)
  eval = every(100, data = images("digits/test", mean = 0.3, std = 0.35))
  steps = 400
}
cluster cores { nodes = 1; gpus = 2; gpu = "cpu" }
parallel two on cores {
  mesh data = 2
  shard batch on data                # each rank decodes the images of its half of the batch
}
