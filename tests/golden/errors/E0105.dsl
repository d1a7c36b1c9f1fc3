# ---- bits
cluster c { nodes = 1; gpus = 8; gpu = "h100-sxm"; intra = link(400Gb/s, 2us) }
# ---- letters
dim 2d = 4, m = 3dB
# ---- per_step
cluster c {
  intra = link(450GB/s, 2 * 3usec)
}
