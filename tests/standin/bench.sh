#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/gpu on stand-ins of CUDA's libraries: a small tree is packed and run, from another folder; then with one byte of what
# was recorded changed, with another loss, and with little time, which it must say.   bench.sh BUILD
set -eu
build=$1 root=$(pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export XDG_CACHE_HOME="$out" PYTHON=none DT_STANDIN=memory=200000000
fail() { echo "$*"; exit 1; }
has() { grep -q "$1" "$2" || { cat "$2"; fail "not said: $1"; }; }
"$root/bench/gpu/pack.sh" "$build" "$out/tree" --small
LD_LIBRARY_PATH=$build/tests/standin
export LD_LIBRARY_PATH
cd "$out"
tree/run.sh out >said || { cat said out/results.txt; fail "a good tree fails"; }
has '^0 phases failed' out/summary.txt
for phase in 'device and libraries' 'instructions beside recorded ones' 'rates of products' "losses beside the CPU's" \
    'layouts, ranks sharing the GPU' 'step of GPT-2' "attention of GPT-2 by cuDNN beside the plan's"; do
    has "^$phase: ok" out/summary.txt
done
has '^step of GPT-2 in PyTorch: left out' out/summary.txt
has '^layouts, ranks with a GPU each, by NCCL: left out' out/summary.txt
has '1 GPU(s), and the layouts have up to 4 ranks' out/summary.txt
PHASES=nccl DT_STANDIN="gpus=4 memory=200000000" tree/run.sh several >said || { cat several/results.txt; fail "NCCL fails"; }
has '^layouts, ranks with a GPU each, by NCCL: ok' several/summary.txt
has 'gpt: [0-9]* instructions compared, [0-9]* of them products' out/summary.txt
has 'gpt2: [0-9.]* ms a step, of 3' out/summary.txt

gzip -d tree/recorded/gpt.record.gz
printf '\377' | dd of=tree/recorded/gpt.record bs=1 seek=$(($(wc -c <tree/recorded/gpt.record) - 2)) conv=notrunc 2>/dev/null
gzip tree/recorded/gpt.record
sed 's/"loss":/"loss":1/' tree/recorded/zero-z1.jsonl >changed
mv changed tree/recorded/zero-z1.jsonl
code=0
PHASES="kernels losses layouts" tree/run.sh wrong >said || code=$?
[ $code -eq 1 ] || fail "wrong digests end with exit code $code"
has '^instructions beside recorded ones: FAILED' wrong/summary.txt
has 'different: step 1, instruction' wrong/results.txt
has '^layouts, ranks sharing the GPU: FAILED' wrong/summary.txt
has "^losses beside the CPU's: ok" wrong/summary.txt
has '^2 phases failed' wrong/summary.txt

PHASES="device kernels" BUDGET=25 tree/run.sh short >said || fail "what is left out is no failure"
has '^instructions beside recorded ones: left out, ' short/summary.txt
echo "4 passed, 0 failed"
