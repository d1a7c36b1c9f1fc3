#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dtc calibrate: the block of this machine reads back as a device, and programs are priced for it. How near it is to the
# truth is for an idle machine to say. Usage: calibrate.sh DTC, from the root of the tree.
tree=$PWD
dtc=$(realpath "$1")
. "$tree/tests/cli/cases.sh"
run "$dtc" calibrate mine -o mine.dsl
exits 0; says "not fitted on"; says "products, off by"
holds grep -q '^device "mine" {' mine.dsl
holds grep -q 'gpu = false' mine.dsl
holds test -z "$(ls -d "${TMPDIR:-/tmp}"/dtc-?????? 2>/dev/null | xargs -r -n1 sh -c 'test -O "$0" && find "$0" -newer mine.dsl')"
{ cat mine.dsl; sed -e '/^parallel/d' -e 's/^cluster two .*/cluster two { nodes = 1; gpus = 2; gpu = "mine" }/' \
    "$tree/tests/cli/auto.dsl"; echo 'parallel both on two { mesh data = 2; shard batch on data }'; } >priced.dsl
run "$dtc" priced.dsl --library "$tree/lib" --parallel both --target=cpu --report
exits 0; prints "step  "; prints "2 mine"
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
