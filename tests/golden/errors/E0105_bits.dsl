cluster c { nodes = 1; gpus = 8; gpu = "h100-sxm"; intra = link(400Gb/s, 2us) }
