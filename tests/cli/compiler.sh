#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# C compilers that build kernels wrongly, and caches that others could have filled:  compiler.sh DTC DTRUN
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dtrun=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
. "$(dirname "$0")/cases.sh"
unset DT_CC DT_CC_CHECK

cat >small.dsl <<'END'
dim batch = 4, d = 3
model m(x[batch, d]) -> [batch] {
  param w[d] = normal(0.1)
  return tanh(x @d w)
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch](exp(m(x)))
  optimizer = sgd(0.1)
  steps = 2
}
END

# A C compiler that miscompiles with some flags: it changes a constant of exp, or does what $1
# says. Arguments: its name, the flags with which it miscompiles, and the sed expression that makes
# the error
wrapper() { # name, flags that it errs with, what sed does to the text
    cat >"$1" <<END
#!/bin/sh
if [ "\$1" = --version ]; then exec cc --version; fi
echo run >>$work/runs
case " \$* " in
$2) sed '$3' | cc "\$@" ;;
*) exec cc "\$@" ;;
esac
END
    chmod +x "$1"
}
wrapper errs '*" -O3 "*' 's/0.166666667f/0.2f/'
wrapper crashes '*" -O3 "*' 's/^    (void)p, (void)q;/    *(volatile int *)8 = 0;/'
wrapper strays '*" -O3 "*' 's/^    (void)p, (void)q;/    p = p + (q == p);  ((char *)p[0])[-1] = 1;/'
wrapper errs_always '*' 's/0.166666667f/0.2f/'
export XDG_CACHE_HOME=$work/cache

# ---- the right one ----
run "$dtc" small.dsl -o right.plan
exits 0
silent err
run "$dtrun" right.plan --steps 2
exits 0
grep -o 'loss [0-9.e-]*' out err | sed 's/.*://' >right
holds test -s right
losses() { # Checks that a plan compiled with these options equals the right one
    run "$dtrun" "$@"
    exits 0
    grep -ho 'loss [0-9.e-]*' out err >losses
    holds cmp losses right
}
losses right.plan

# ---- wrong ones: the safe build takes their place, and says so, from the cache too ----
for compiler in errs crashes strays; do
    XDG_CACHE_HOME=$work/cache_$compiler
    for again in no yes; do
        : >runs
        DT_CC=$work/$compiler run "$dtc" small.dsl -o wrong.plan
        exits 0
        says 'warning[L0598]: the C compiler builds kernel `'
        says 'small.dsl:'
        says "as \`$(cc --version | head -n 1)\` builds it"
        losses wrong.plan
        [ $again = no ] || holds test ! -s runs
    done
done

# Only the check of compiled code finds the error: without the check, the plan is wrong.
XDG_CACHE_HOME=$work/cache_none
DT_CC_CHECK=none DT_CC=$work/errs run "$dtc" small.dsl -o wrong.plan
exits 0
silent err
run "$dtrun" wrong.plan
holds sh -c "grep -ho 'loss [0-9.e-]*' out err | cmp -s - right; test \$? = 1"
# A compiler that was not compared yet is compared when a comparison is asked for.
DT_CC=$work/errs run "$dtc" small.dsl -o wrong.plan
says 'warning[L0598]'
losses wrong.plan

# ---- a plan's kernels compiled again ----
XDG_CACHE_HOME=$work/cache_rebuild
DT_CC=$work/errs losses right.plan --rebuild
says 'builds kernel `'
says 'small.dsl:'
DT_CC=$work/errs losses right.plan --rebuild
says 'builds kernel `'

# ---- wrong without optimization too: which of them errs is not known ----
if command -v clang >/dev/null 2>&1; then
    XDG_CACHE_HOME=$work/cache_always
    DT_CC=$work/errs_always DT_CC_CHECK=clang run "$dtc" small.dsl -o wrong.plan
    exits 1
    says 'name another compiler in DT_CC'
    says 'small.dsl:'
else
    skip "clang is not installed"
fi

# ---- another processor's code ----
highest=$(gcc -Q --help=target 2>/dev/null | sed -n 's/.*x86-64-v4.*/cpu-v4/p' | head -n 1)
XDG_CACHE_HOME=$work/cache_cross
if [ "$(uname -m)" = x86_64 ] && ! grep -q avx512vl /proc/cpuinfo; then
    run "$dtc" small.dsl --target=cpu-v4 -o cross.plan
    exits 0
    says 'warning[L0599]'
    says 'dtrun --rebuild'
else
    skip "this processor runs code for every target${highest:+ ($highest)}"
fi

# ---- the cache ----
# What a wrong compiler made, with no check: entries whose digests are right and whose code is not.
XDG_CACHE_HOME=$work/planted
DT_CC_CHECK=none DT_CC=$work/errs run "$dtc" small.dsl -o wrong.plan
planted() { # A new cache folder that contains these entries
    rm -rf victim
    mkdir -m 700 victim victim/dtc
    cp planted/dtc/* victim/dtc/
    chmod 600 victim/dtc/*
}
XDG_CACHE_HOME=$work/victim
export DT_CC_CHECK=none
planted # First, good entries are used: so the cases below test something.
: >runs
run "$dtc" small.dsl -o plan
exits 0
holds cmp plan wrong.plan
rebuilt() { # The bad entries were not used: the output is right.
    run "$dtc" small.dsl -o plan
    exits 0
    losses plan
}
planted
chmod g+w victim/dtc/*
rebuilt
planted
for entry in victim/dtc/*; do
    mv "$entry" "planted/$(basename "$entry").own"
    ln -s "$work/planted/$(basename "$entry").own" "$entry"
done
rebuilt
for entry in planted/*.own; do rm "$entry"; done
planted
for entry in victim/dtc/*; do # an entry under another key
    mv "$entry" "$entry.x"
done
set -- $(ls victim/dtc)
[ $# -eq 4 ] && {
    mv "victim/dtc/$1" "victim/dtc/${2%.x}"
    mv "victim/dtc/$2" "victim/dtc/${1%.x}"
    mv "victim/dtc/$3" "victim/dtc/${4%.x}"
    mv "victim/dtc/$4" "victim/dtc/${3%.x}"
}
rebuilt
for mode in 770 702 777; do
    planted
    chmod $mode victim/dtc
    rebuilt
    run "$dtc" small.dsl -o plan
    says 'warning[L0004]: the kernel cache is not used'
    says 'others may write'
    holds test "$(stat -c %a victim/dtc)" = $mode
done
planted
mv victim/dtc victim/real
ln -s real victim/dtc
rebuilt
run "$dtc" small.dsl -o plan
says 'is a link'
if [ "$(id -u)" = 0 ]; then
    planted
    chown 65534 victim/dtc/*
    rebuilt
    planted
    chown -R 65534 victim/dtc
    run "$dtc" small.dsl -o plan
    says 'belongs to another user'
    losses plan
else
    skip "only root can give files to another user"
fi
# A folder that dtc makes can only be used by its owner, whatever the umask.
rm -rf victim
(umask 0 && "$dtc" small.dsl -o plan)
holds test "$(stat -c %a victim/dtc)" = 700
holds test -z "$(find victim/dtc -type f ! -perm 600)"
finish
