include "std.dsl
dim n = 4
