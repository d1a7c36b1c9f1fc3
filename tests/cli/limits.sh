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

finish
