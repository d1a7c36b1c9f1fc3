#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dtc told to stop, short of memory, or given programs of unusual size:  limits.sh DTC
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
. "$(dirname "$0")/cases.sh"

cat >small.dsl <<'END'
dim batch = 4, d = 3
model m(x[batch, d]) -> [batch] {
  param w[d] = normal(0.1)
  return x @d w
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch](m(x))
  optimizer = sgd(0.1)
  steps = 2
}
END

# ---- told to stop while the host compiler runs: nothing is left behind ----
cat >slow_cc <<'END'
#!/bin/sh
last=
if [ "$1" = --version ]; then
    echo slow
    exit
fi
for argument; do
    [ "$last" = -o ] && dirname "$argument" >>objects
    last=$argument
done
: >started
exec sleep 1
END
chmod +x slow_cc
for signal in TERM INT HUP KILL; do
    what="dtc ended by SIG$signal"
    rm -f started objects
    XDG_CACHE_HOME=$work/cold DT_CC=$work/slow_cc python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$dtc" small.dsl -o plan >out 2>err &
    tries=200
    while [ ! -e started ] && [ $tries -gt 0 ]; do
        sleep 0.05
        tries=$((tries - 1))
    done
    kill -s $signal $!
    wait $! 2>/dev/null
    holds test -s objects
    for folder in $(grep -v '^/proc/' objects); do
        holds test ! -e "$folder"
    done
    holds test ! -e plan
done

# ---- numbers that no plan holds ----
for steps in 9223372036854775807 70368744177665; do
    run "$dtc" small.dsl --check --set train.steps=$steps; exits 3; says 'error[E0452]'; says 'at most 2^46'
done
run "$dtc" small.dsl --check --set train.steps=70368744177664; exits 0

# ---- a maximum over more elements than i32 counts has a gradient, too ----
cat >vast.dsl <<'END'
dim batch = 2, a = 100_000, b = 100_000
model m(x[batch]) -> [] {
  param w[a, b] = normal(1.0)
  return sum[batch](x * max[a, b](w))
}
train { x[batch] = synthetic(0, 2); loss = m(x); optimizer = sgd(lr = 0.1); steps = 5 }
cluster c { gpus = 2; gpu = "cpu" }
parallel cut on c { mesh t = 2; shard b on t }
END
run "$dtc" vast.dsl --parallel cut --no-kernels -o vast; exits 0
run "$dtc" vast.dsl --parallel cut --no-kernels --verify -o vast; exits 0; prints 'equal to the serial program'

# ---- programs that are long: each statement uses the one before ----
for statement in 'y = tanh(y)' 'y = y * w'; do
    { sed '/return/,$d' small.dsl; echo '  y = x * w'; for i in $(seq 20000); do echo "  $statement"; done
      echo '  return sum[d](y)'; sed '1,/return/d' small.dsl; } >long.dsl
    run sh -c 'ulimit -s 512; "$0" long.dsl' "$dtc"; exits 0 # as 100,000 would with 8 MiB
done

# ---- statements of which each needs the one before, for one of two losses ----
{ cat <<'END'
dim a = 4
model m(x[a]) -> [], [] {
  param w[a], v[a] = normal(1.0)
  return sum[a](x * w), sum[a](x * v)
}
train {
  x[a] = synthetic(0, 2)
  y, loss = m(x)
END
  for i in $(seq 10000); do echo "  y$i = y$((i > 1 ? i - 1 : 0)) + 1"; done
  echo '  apart = y10000'
  echo '  optimizer = sgd(lr = 0.1, params = "v")'
  echo '  other = sgd(lr = 0.1, params = "w", loss = apart)'
  echo '  steps = 2'
  echo '}'; } | sed 's/= y0 /= y /' >turns.dsl
run sh -c 'ulimit -s 512; ulimit -t 10; "$0" turns.dsl --check' "$dtc"; exits 0

# ---- what is joined to what was joined before; tables of positions that exchanges need not wait for ----
{ cat <<'END'
include "std.dsl"
dim batch = 4, seq = 16, embed = 4, more = 4, all = 164, table = 16
axis part
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  y = up:linear[embed, table](x) |> gelu_tanh |> down:linear[table, embed]()
  t = f32(iota[seq])
END
  for i in $(seq 40); do echo '  t = t * cos(t)'; done
  cat <<'END'
  return y + t @seq y
}
model m(x[batch, seq, embed]) -> [batch, seq] {
  y0 = x[embed -> part]
END
  for i in $(seq 40); do echo "  y$i = concat[part](y$((i - 1)), p$i:linear[embed, more](x)[more -> part])"; done
  cat <<'END'
  z = x + a:mlp(n:layernorm[embed](x))
  z = z + b:mlp(o:layernorm[embed](z))
  return sum[embed](z * out:linear[all, embed](y40[part -> all]))
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = mean[batch, seq](m(x))
  optimizer = sgd(0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel tensor on two { mesh t = 2; shard table on t }
END
} >joined.dsl
for layout in none tensor; do
    run sh -c 'ulimit -t 10; "$0" joined.dsl --parallel "$1" --no-kernels -o joined' "$dtc" $layout; exits 0 # and proved
done
rm -f joined

# ---- a file that may not grow is like a full disk, memory that is not there is said ----
run sh -c 'ulimit -f 1; "$0" small.dsl --no-kernels -o plan' "$dtc"; exits 5; says 'File too large'; says 'ulimit -f'
holds test ! -e plan
if sh -c 'ulimit -v 1000000; "$0" --version' "$dtc" >out 2>&1; then
    for size in 1000000 20000 10000 8000 7000 6000; do # it is not ended by a signal
        run sh -c "ulimit -c 0; ulimit -v $size"' && exec "$0" small.dsl --no-kernels -o plan' "$dtc"
        holds test "$code" -lt 128
        [ "$code" -eq 0 ] || holds test -s err
    done
else
    skip 'ulimit -v: this build needs a large address space'
fi

finish
