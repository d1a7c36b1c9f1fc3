#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the tree that bench/gpu/run.sh needs on a machine with a GPU: programs, shared libraries, plans with code for GPUs,
# what each instruction of small models writes, losses of the CPU, texts. Nothing of it is built or fetched there.
#
#   bench/gpu/pack.sh BUILD TREE [--small]      TEXT=tinyshakespeare.txt: the text of examples/shakespeare.dsl
#
# BUILD: a build folder with tests, whose stand-ins for CUDA's libraries record what is compared. NVRTC has to be there.
# --small: models that the stand-ins train in seconds, with kernels that they interpret, for a test of all this.
set -eu
build=${1:?usage: bench/gpu/pack.sh BUILD TREE [--small]} tree=${2:?where to?} size=${3:-full}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$build" && pwd)
[ ! -e "$tree" ] || { echo "pack.sh: $tree is there already" >&2; exit 2; }
mkdir -p "$tree/bin" "$tree/lib" "$tree/share/dtc" "$tree/plans" "$tree/recorded" "$tree/data"
tree=$(cd "$tree" && pwd)
standins=$build/tests/standin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
say() { echo "pack.sh: $*" >&2; }

cp "$build/dtc" "$build/dtrun" "$tree/bin"
[ "$size" = --small ] || strip "$tree/bin/dtc" "$tree/bin/dtrun"
ldd "$tree/bin/dtc" "$tree/bin/dtrun" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
    grep -v '/lib\(c\|m\|dl\|pthread\|rt\)\.so' | while read -r library; do cp -L "$library" "$tree/lib"; done
cp "$root/lib/"*.dsl "$tree/share/dtc"
cp "$root/bench/gpu/run.sh" "$root/bench/gpu/losses.awk" "$root/bench/gpu/bounds.awk" "$root/bench/gpu/peer_gpt2.py" "$tree"

dtc() { "$build/dtc" "$@" 2>"$scratch/said" || { cat "$scratch/said" >&2; exit 1; }; }
shim() { LD_LIBRARY_PATH=$standins "$@"; }
if [ "$size" = --small ]; then
    targets=sm_90a-interpreted
    gpu() { shim dtc "$@" --target=$targets; }
else
    targets=sm_80,sm_90a,sm_100a
    gpu() { dtc "$@" --target=$targets; }
fi

# kernels NAME FILE ARGS...: records one step of a small model, with everything that its
# instructions write
kernels() {
    name=$1 file=$2
    shift 2
    say "instructions of $name"
    gpu "$file" -o "$tree/plans/kernels-$name.plan" --parallel none --data=synthetic "$@"
    if [ "$size" = --small ]; then
        cp "$tree/plans/kernels-$name.plan" "$scratch/shim.plan"
    else
        shim dtc "$file" -o "$scratch/shim.plan" --parallel none --data=synthetic --target=sm_90a "$@"
    fi
    shim "$build/dtrun" "$scratch/shim.plan" --quiet --steps 1 --record "$tree/recorded/$name.record" >/dev/null
    gzip -9 "$tree/recorded/$name.record"
}
# losses NAME STEPS FIRST ALL DATA FILE ARGS...: records a run and its losses on the CPU. FIRST and
# ALL: the relative error allowed for the first 20 losses, and for all losses
losses() {
    name=$1 steps=$2 first=$3 all=$4 data=$5 file=$6
    shift 6
    say "losses of $name"
    gpu "$file" -o "$tree/plans/losses-$name.plan" "$@"
    dtc "$file" -o "$scratch/cpu.plan" --target=cpu "$@"
    # shellcheck disable=SC2086
    (cd "$tree" && "$build/dtrun" "$scratch/cpu.plan" --quiet --steps "$steps" $data --log "$tree/recorded/$name.jsonl")
    echo "$name $steps $first $all $data" >>"$tree/$list"
}

small="-D batch=2 -D seq=16 -D vocab=61 -D embed=32 -D layers=1"
sixteen="train.precision=mixed(compute=bf16,params=f32,grads=f32)"
ex=$root/examples
if [ "$size" = --small ]; then
    # shellcheck disable=SC2086
    kernels gpt "$ex/quickstart.dsl" $small -D seq=8 -D embed=16
    list=losses.txt losses quickstart 2 1e-3 1e-2 "--set eval.every=0" "$ex/quickstart.dsl" --parallel none --data=synthetic $small -D seq=8 -D embed=16
    list=layouts.txt losses zero-z1 2 1e-3 1e-2 "" "$root/tests/runtime/zero.dsl" --parallel z1
    gpu "$root/bench/gpu/products.dsl" -o "$tree/plans/products.plan" -D batch=16 -D a=16 -D b=16
    # shellcheck disable=SC2086
    gpu "$ex/quickstart.dsl" -o "$tree/plans/gpt2.plan" --parallel none --data=synthetic $small --set "$sixteen"
    # shellcheck disable=SC2086
    gpu "$ex/quickstart.dsl" -o "$tree/plans/gpt2-none.plan" --parallel none --data=synthetic $small --set "$sixteen" --epilogues=none
    echo "steps=3 floor_steps=2 patience=9" >"$tree/tree.conf"
else
    # shellcheck disable=SC2086
    kernels gpt "$ex/quickstart.dsl" $small
    # shellcheck disable=SC2086
    kernels gpt16 "$ex/quickstart.dsl" $small --set "$sixteen"
    kernels recurrence "$ex/mamba.dsl" -D batch=2 -D seq=12 -D vocab=70 -D embed=16 -D cell=4 -D layers=2
    kernels images "$ex/resnet.dsl" -D batch=4 -D side=8 -D c0=4
    kernels experts "$ex/moe.dsl" -D batch=2 -D pool=2 -D seq=16 -D vocab=64 -D layers=2 -D embed=32 -D ffn=32 -D kv=2 -D group=2 -D head=8
    list=losses.txt
    if [ -n "${TEXT:-}" ]; then
        cp "$TEXT" "$tree/data/tinyshakespeare.txt"
        losses shakespeare 300 1e-3 5e-2 "--data=tinyshakespeare.txt=data/tinyshakespeare.txt --set eval.every=0" "$ex/shakespeare.dsl"
    else
        say "no TEXT: the losses on Shakespeare's plays are left out"
    fi
    losses gpt2 5 5e-3 5e-3 "" "$ex/gpt2.dsl" --parallel none --data=synthetic -D batch=1
    list=layouts.txt
    for layout in z0 z1 z2 z3 tensor pipe; do
        losses "zero-$layout" 20 1e-3 1e-2 "" "$root/tests/runtime/zero.dsl" --parallel $layout
    done
    say "products, GPT-2, Llama"
    gpu "$root/bench/gpu/products.dsl" -o "$tree/plans/products.plan"
    gpu "$ex/gpt2.dsl" -o "$tree/plans/gpt2.plan" --parallel none --data=synthetic -D batch=32 -D vocab=50304
    gpu "$ex/gpt2.dsl" -o "$tree/plans/gpt2-none.plan" --parallel none --data=synthetic -D batch=32 -D vocab=50304 --epilogues=none
    gpu "$ex/llama3_8b.dsl" -o "$tree/plans/llama_1b.plan" --parallel none --data=synthetic -D batch=4 -D seq=2048 -D layers=16 \
        -D embed=2048 -D ffn=8192 -D kv=8 -D group=4 -D head=64
    echo "steps=12 floor_steps=8" >"$tree/tree.conf"
fi
{
    "$build/dtc" --version
    echo "targets $targets"
} >"$tree/version.txt"
kib=$(du -sk "$tree" | cut -f1)
say "$tree: $((kib / 1024)) MiB"
[ "$kib" -le $((60 * 1024)) ] || { say "a tree of more than 60 MiB"; exit 1; }
