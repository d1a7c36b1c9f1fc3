# Straße
dim n = 4
