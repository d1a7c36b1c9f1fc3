#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Constants of a file, lines that replace those of included files, and the layout that a program chooses:
#   constants.sh DTC
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
unset NO_COLOR DTC_LIBRARY
. "$root/tests/cli/cases.sh"

dsl() { # option...: what the checks below look at
    what="dtc $*"
    "$dtc" "$@" >out 2>err
    code=$?
}

mkdir part
cat >part/base.dsl <<'END'
include "deep.dsl"
dim batch = 8, wide = batch * 2, narrow
constant rate = 1e-3, tied = true, twice = rate * 2, odd
model m(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  y = if tied then x * w else linear[wide, narrow](x) |> back:linear[narrow, wide]
  return y * twice + depth + odd
}
END
cat >part/deep.dsl <<'END'
include "std.dsl"
constant depth = 7, tied = false
END
# The lines stand before and after the include.
cat >program.dsl <<'END'
dim batch = 4
constant odd = 0.5
include "part/base.dsl"
dim narrow = 3
constant depth = 9
train { x[batch, wide] = synthetic(0, 1); loss = mean[batch, wide](m(x)); optimizer = sgd(lr = constant(rate)); steps = 1 }
END
dsl program.dsl --check; exits 0; silent err
dsl program.dsl --params; exits 0; prints '8 parameters'
dsl program.dsl --params -D tied=false; exits 0; prints '67 parameters'
dsl program.dsl --params -D wide=5; exits 0; prints '5 parameters'
dsl program.dsl --emit=ir; exits 0; prints 'number=0.002'; prints 'number=9'; prints 'number=0.5'
dsl program.dsl --emit=ir -D rate=3 -D depth=2 -D odd=-1.5e1; exits 0; prints 'number=6'; prints 'number=2'; prints 'number=-15'
dsl program.dsl --check -D tied=maybe; exits 3; says 'E0216'; says 'a number, `true` or `false`'
for number in 1e999 nan inf 0x10 '' 1e 1.5.2; do
    dsl program.dsl --check -D "rate=$number"; holds test "$code" -ge 2; holds test "$code" -le 3
done
dsl program.dsl --check -D tied=2; exits 3; says 'E0401'
dsl program.dsl --check -D deepth=2; exits 3; says 'did you mean `-D depth='
dsl program.dsl --emit=ast; exits 0; prints 'constant'; prints 'bind odd'
dsl fmt program.dsl; exits 0; prints 'constant depth = 9'

# ---- errors ----
dsl part/base.dsl --check; exits 3; says 'E0210'; says 'the constant `odd` has no value'
one() { # LINE...: checks a program of these lines
    printf '%s\n' "$@" >one.dsl
    dsl one.dsl --check
}
model='model m(x[batch]) -> [batch] { return x * a }'
one 'constant a = 2, spare = 1' 'dim batch = 2' "$model"; exits 0; says 'the constant `spare` is used nowhere'
one 'constant a = b, b = a' 'dim batch = 2' "$model"; exits 3; says 'E0210'; says 'the value of `a` depends on itself'
one 'constant a = "text"' 'dim batch = 2' "$model"; exits 3; says 'E04'
one 'constant a = 2' 'dim batch = 2' 'model m(x[batch]) -> [batch] { return a(x) }'; exits 3
one 'constant a = 2' 'dim batch = 2' 'model m(x[batch]) -> [batch] { return b:a(x) }'; exits 3
one 'constant a = 2' 'dim batch = 2' 'model m(x[a]) -> [a] { return x }'; exits 3; says 'E0202'
one 'const a = 2'; exits 3; says '`constant`'
one 'dim batch = 2' 'constant batch = 3'; exits 3; says 'E0203'
one 'constant a = 1' 'constant a = 3'; exits 3; says 'E0203'
one 'include "part/deep.dsl"' 'dim depth = 3'; exits 3; says 'E0203'
# neither of two files includes the other
printf 'constant depth = 3\n' >other.dsl
one 'include "part/deep.dsl"' 'include "other.dsl"'; exits 3; says 'E0203'
# each includes the other
printf '%s\n' 'include "one.dsl"' 'constant depth = 4' >other.dsl
one 'include "other.dsl"' 'constant depth = 3'; exits 3; says 'E0203'
# elsewhere the word is a name
one 'dim constant = 2' 'model m(x[constant]) -> [constant] { device = 1; stack = device; return x * stack }'; exits 0

# ---- the layout that a program chooses ----
cat >layouts.dsl <<'END'
include "std.dsl"
dim batch = 4
model m(x[batch]) -> [batch] { param w[] = ones; return x * w }
train { x[batch] = synthetic(0, 1); loss = mean[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
cluster here { gpus = 1; gpu = "cpu" }
cluster pair { gpus = 2; gpu = "cpu" }
parallel one on here { mesh data = 1 }
parallel two on pair { mesh data = 2; shard batch on data }
END
dsl layouts.dsl --emit=plan; exits 3; says '2 parallel blocks'; says 'the line `default`'
sed 's/mesh data = 1 }/mesh data = 1; default }/' layouts.dsl >chosen.dsl
dsl chosen.dsl --emit=plan; exits 0; lacks 'data = 2'; cp out whole
dsl chosen.dsl --emit=plan --parallel two; exits 0; holds sh -c '! cmp -s out whole'
dsl chosen.dsl --emit=plan --parallel one; exits 0
dsl chosen.dsl --check --set parallel.mesh.data=2; exits 3; says 'E0501'
sed 's/shard batch on data/&; default/' chosen.dsl >both.dsl
dsl both.dsl --check; exits 3; says 'E0511'; says 'a second block says `default`'
sed 's/default/default 2/' chosen.dsl >odd.dsl
dsl odd.dsl --check; exits 3; says 'E0511'; says '`default` stands alone'
dsl explain default; exits 0; prints 'the command line names none'
finish
