dim 2d = 4, m = 3dB
