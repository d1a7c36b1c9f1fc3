# ---- latin1
# Straﬂe
dim n = 4
# ---- overlong
include "¿Øetc"
dim n = Ì†Ä
