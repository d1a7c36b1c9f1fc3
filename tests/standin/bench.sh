#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/gpu on stand-ins of CUDA's libraries: a small tree is packed and run, from another folder; then with one byte of what
# was recorded changed, with another loss, and with little time, which it must say.   bench.sh BUILD
set -eu
build=$1 root=$(pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export PYTHON=none DT_STANDIN=memory=200000000
fail() { echo "$*"; exit 1; }
has() { grep -q "$1" "$2" || { cat "$2"; fail "not said: $1"; }; }
DT_CUDA_LIBRARIES="$build/tests/standin" "$root/bench/gpu/pack.sh" "$build" "$out/tree" --small
export LD_LIBRARY_PATH="$build/tests/standin" DT_CUDA_LIBRARIES="$build/tests/standin"
cd "$out"
tree/run.sh out >said || { cat said out/results.txt; fail "a good tree fails"; }
has '^0 phases failed' out/summary.txt
for phase in 'device and libraries' 'instructions beside recorded ones' 'rates of products' "losses beside the CPU's" \
    'layouts, ranks sharing the GPU' 'step of GPT-2' "attention of GPT-2 by cuDNN beside the plan's"; do
    has "^$phase: ok" out/summary.txt
done
has '^step of GPT-2 in PyTorch: left out' out/summary.txt
has '^layouts, ranks with a GPU each, by NCCL: left out' out/summary.txt
has '^the same with windows: left out' out/summary.txt
has '1 GPU(s), and the layouts have up to 4 ranks' out/summary.txt
PHASES="nccl windows" DT_STANDIN="gpus=4 memory=200000000" tree/run.sh several >said || { cat several/results.txt; fail "NCCL fails"; }
has '^layouts, ranks with a GPU each, by NCCL: ok' several/summary.txt
has '^the same with windows: ok' several/summary.txt
PHASES=windows DT_STANDIN="gpus=4 memory=200000000 nccl=22605" tree/run.sh old >said || { cat old/results.txt; fail "an old NCCL is no failure"; }
has '^the same with windows: left out' old/summary.txt
has 'gpt: [0-9]* instructions compared, [0-9]* of them products' out/summary.txt
has 'gpt2: [0-9.]* ms a step, of 3' out/summary.txt
has 'MFU not known: no peak of this GPU' out/summary.txt
has 'byte bound [0-9.]* ms: [0-9.]* GB at [0-9.]* GB/s; takes [0-9.]* ms' out/summary.txt
has 'kernels bound by memory are under 90% of the rate of copies' out/summary.txt
has '^losses, steps as graphs: ok' out/summary.txt
has '^step of GPT-2 without epilogues: ok' out/summary.txt
has 'with epilogues [0-9.]* of the time without' out/summary.txt
# In place of PyTorch's step, a program that prints one; then a table whose numbers are known
mkdir fake
printf '#!/bin/sh\n[ "$1" = -c ] || echo "PyTorch 2.9, torch.compile: 1.000 ms a step, of 24"\n' >fake/python
chmod +x fake/python
PYTHON=$out/fake/python PEAK=100 PHASES="gpt2 pytorch" tree/run.sh beside >said || { cat beside/results.txt; fail "PyTorch fails"; }
has 'our step is [0-9.]* of that of torch.compile' beside/summary.txt
has 'MFU [0-9.]*%: [0-9.e+]* FLOP of the model a step, of 100 TFLOP/s' beside/summary.txt
cat >table <<'END'
rank 0 on cuda, steps 3 to 4: 10.000 ms a step, of which instructions take 90.0%
        ms   share     times      GB/s   TFLOP/s  what
     4.000   40.0%         2    1000.0    500.00  gemm 64x32x32  std.dsl:49
     1.000   10.0%         2     100.0    300.00  dot+mul+exp+dot  std.dsl:25
     2.000   20.0%         4    1900.0      1.00  add+mul  std.dsl:57
     2.000   20.0%         4    1000.0      1.00  mul+reduce  std.dsl:42
     0.500    5.0%         1      50.0    700.00  pow  std.dsl:20
END
awk -v ms=10 -v copies=2000 -v best=800 -v peak=1000 -v flops=5e12 -f tree/bounds.awk table >bounds
has '^MFU 50.0%: 5e+12 FLOP of the model a step, of 1000 TFLOP/s' bounds
has '^byte bound 2.913 ms: 5.825 GB at 2000 GB/s; takes 4.500 ms' bounds
has '^product bound 2.875 ms: 2.300 TFLOP at 800 TFLOP/s; takes 5.000 ms' bounds
has '^both 5.787 ms, 57.9% of the step' bounds
has '^1 of 2 kernels bound by memory are under 90% of the rate of copies, which costs 0.889 ms:' bounds
has '^  2.000 ms at 1000 GB/s, 50% of a copy: mul+reduce std.dsl:42' bounds

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
echo "6 passed, 0 failed"
