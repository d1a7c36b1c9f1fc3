dim n = 0xFF, m = 0b101
