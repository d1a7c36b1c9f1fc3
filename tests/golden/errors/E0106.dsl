# ---- escaped
train {
  data = text("C:\")
  steps = 3
}
# ---- in_call
train {
  data = text("corpus/*.txt)
  steps = 3
}
# ---- open
include "std.dsl
dim n = 4
