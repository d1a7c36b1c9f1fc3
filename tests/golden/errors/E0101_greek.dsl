dim α = 4
