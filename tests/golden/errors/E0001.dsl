# ---- folder
include "parts"
dim batch = 4
model m(x[batch]) -> [batch] { return x }
# ---- model
include "models/qwen2.dsl"
# ---- folder_of_models
include "mixtral.dsl"
# ---- include
include "std.dsl"
include "parts/ropes.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return relu(x) }
