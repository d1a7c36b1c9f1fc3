#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dtc calibrate: the block of this machine reads back as a device, and programs are priced for it. How near it is to the
# truth is for an idle machine to say. The programs that are measured are those of the library with shorter sequences and
# fewer steps, which a copy of the library has. They are measured in one commit of four only (tests/share.py: DT_SHARE,
# place 1); what calibrate refuses always is tried. Usage: calibrate.sh DTC, from the root of the tree.
tree=$PWD
dtc=$(realpath "$1")
. "$tree/tests/cli/cases.sh"
. "$tree/tests/share.sh"
if share_has 1; then
    cp -r "$tree/lib" lib
    sed -e 's/seq = 256,/seq = 32,/; s/  steps = 6$/  steps = 2/' "$tree/lib/calibrate.dsl" >lib/calibrate.dsl
    sed -e 's/  steps = 16$/  steps = 3/' "$tree/lib/calibrate_small.dsl" >lib/calibrate_small.dsl
    for program in calibrate calibrate_small; do
        holds test "$(diff "$tree/lib/$program.dsl" lib/$program.dsl | grep -c '^<')" -ge 1
    done
    run "$dtc" calibrate mine --library lib -o mine.dsl
    exits 0; says "not fitted on"; says "products, off by"
    holds grep -q '^device "mine" {' mine.dsl
    holds grep -q 'gpu = false' mine.dsl
    holds test -z "$(ls -d "${TMPDIR:-/tmp}"/dtc-?????? 2>/dev/null | xargs -r -n1 sh -c 'test -O "$0" && find "$0" -newer mine.dsl')"
    { cat mine.dsl; sed -e '/^parallel/d' -e 's/^cluster two .*/cluster two { nodes = 1; gpus = 2; gpu = "mine" }/' \
        "$tree/tests/cli/auto.dsl"; echo 'parallel both on two { mesh data = 2; shard batch on data }'; } >priced.dsl
    run "$dtc" priced.dsl --library "$tree/lib" --parallel both --target=cpu --report
    exits 0; prints "step  "; prints "2 mine"
else
    skip "this machine is measured in the turn of another commit (DT_SHARE=$DT_SHARE)"
fi
run "$dtc" calibrate one two
exits 2; says "one name"
run "$dtc" calibrate --device tpu
exits 2; says "--device cpu or cuda, not"
run "$dtc" calibrate '../x'
exits 2; says "one name"
run "$dtc" calibrate --target=sm_90a
exits 2; says "measures this processor; --device cuda"
TMPDIR=/nowhere run "$dtc" calibrate
exits 5; says "cannot make a folder"
finish
