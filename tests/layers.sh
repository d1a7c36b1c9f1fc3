#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Folders are layers: fails when a source file includes a header of a layer that its own may not see, or
# when a header of an outside library appears in a second file; also when a line of C, tests included, is longer
# than CONTRIBUTING.md allows. Run from the root of the tree, or with the root as argument.
# `layers.sh --self-test` checks that each kind of violation is found.
set -eu

# Each row: a layer, and the layers that it may include besides itself. A folder inside of another
# is a layer of its own if it has a row here, else it belongs to the outer folder.
allowed='
base:
tokenizer: base
codegen/kernels:
kir: codegen/kernels
cost: base
ir: base
plan: base
frontend: base ir cost tokenizer
passes: base ir cost
passes/check: base ir frontend passes
verify: base plan
plan/report: base plan cost
codegen: base ir plan
codegen/cpu: base ir plan codegen codegen/interpreted
codegen/cuda: base ir plan codegen codegen/interpreted
codegen/interpreted: base ir plan codegen
runtime: base kir plan plan/report tokenizer
search: base cost ir
cli: base tokenizer cost ir plan plan/report frontend passes passes/check verify codegen search
'
# headers of external libraries, which only one file of the tree may include
single='dnnl.h oneapi/dnnl/dnnl.h cblas.h nvrtc.h cuda.h cublasLt.h cudnn.h nccl.h mpi.h xxhash.h sodium.h zstd.h pcre2.h jpeglib.h png.h'

check() {
    cd "$1"
    files=$(find . \( -name build -o -name out -o -name .git -o -name tests -o -name bench \) -prune -o \
                 \( -name '*.[chly]' -o -name '*.def' \) -type f -print | LC_ALL=C sort)
    [ -n "$files" ] || { echo "layers: no source files in $1"; exit 1; }
    # shellcheck disable=SC2086
    awk -v allowed="$allowed" -v single="$single" '
        function layer_of(path, words) { # "" stands for a main program, whose file has no layer
            if (split(path, words, "/") > 2 && (words[1] "/" words[2]) in known)
                return words[1] "/" words[2]
            return path ~ /\// ? words[1] : ""
        }
        BEGIN {
            n = split(allowed, rows, "\n")
            for (i = 1; i <= n; i++) {
                m = split(rows[i], words, /[: ]+/)
                if (words[1] == "")
                    continue
                known[words[1]] = 1
                for (j = 1; j <= m; j++)
                    if (words[j] != "")
                        may[words[1], words[j]] = 1
            }
            n = split(single, words, " ")
            for (i = 1; i <= n; i++)
                once[words[i]] = 1
        }
        FNR == 1 { files++ }
        /^[ \t]*#[ \t]*include[ \t]*["<]/ {
            header = $0
            sub(/^[^"<]*["<]/, "", header)
            sub(/[">].*$/, "", header)
            path = substr(FILENAME, 3)
            layer = layer_of(path) # a main program may include every layer
            target = layer_of(header)
            if (target == "")
                target = layer
            if (header ~ /\.\./) {
                print path ":" FNR ": `" header "`: name headers from the root of the tree"
                bad = 1
            }
            if (layer != "" && !(layer in known)) {
                if (!(layer in unknown))
                    print path ": the folder `" layer "` is not a layer in tests/layers.sh"
                unknown[layer] = bad = 1
            } else if (layer != "" && (target in known) && !((layer, target) in may)) {
                print path ":" FNR ": `" layer "` may not include `" header "`"
                bad = 1
            }
            if (header in once) {
                if ((header in where) && where[header] != path) {
                    print path ":" FNR ": <" header "> is included by " where[header] " already"
                    bad = 1
                }
                where[header] = path
            }
        }
        END {
            if (!bad)
                print "layers: " files " files, every include allowed"
            exit bad
        }' $files
}

# Lines have at most 100 columns, but for tables (*.def), which have one row a line.
widths() {
    cd "$1"
    long=$(find . \( -name build -o -name out -o -name .git \) -prune -o -name '*.[chly]' -type f -exec \
               awk 'length > 100 { print substr(FILENAME, 3) ":" FNR ": " length " columns; 100 are the most" }' {} +)
    [ -z "$long" ] || { echo "$long"; exit 1; }
}

self_test() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    mkdir -p "$folder/base" "$folder/ir" "$folder/runtime" "$folder/odd" "$folder/passes/check" "$folder/passes/grad"
    expect() { # Arguments: text of the include, the file that contains it, what layers.sh must say
        printf '#include %s\n' "$1" >"$folder/$2"
        if out=$(check "$folder" && widths "$folder"); then
            echo "layers: accepted $1 in $2"
            exit 1
        fi
        case $out in *"$3"*) ;; *) echo "layers: for $1 in $2 it said: $out"; exit 1 ;; esac
        rm "$folder/$2"
    }
    echo '#include "base/arena.h"' >"$folder/ir/good.c"
    echo '#include "frontend/lower.h"' >"$folder/passes/check/good.c"
    printf '%0100d\n' 0 >"$folder/ir/wide.h"
    (check "$folder" >/dev/null && widths "$folder") || { echo "layers: refused a good tree"; exit 1; }
    printf '%0101d\n' 0 >"$folder/ir/wide.def"
    (widths "$folder" >/dev/null) || { echo "layers: refused a long row of a table"; exit 1; }
    mkdir "$folder/tests"
    expect "$(printf '%092d' 0)" tests/a.c 'tests/a.c:1: 101 columns'
    expect "$(printf '%092d' 0)" ir/a.y 'ir/a.y:1: 101 columns'
    expect '"ir/ir.h"' base/a.c 'may not include'
    expect '"ir/ir.h"' runtime/a.c 'may not include'
    expect '"frontend/lower.h"' passes/grad/a.c 'may not include'
    expect '"passes/check/judge.h"' passes/grad/a.c '`passes` may not include'
    expect '"../base/arena.h"' ir/a.c 'from the root'
    expect '"base/arena.h"' odd/a.c 'not a layer'
    echo '#include <mpi.h>' >"$folder/runtime/b.c"
    expect '<mpi.h>' runtime/c.c 'already'
    echo 'layers: self-test passed'
}

if [ "${1:-}" = --self-test ]; then
    self_test
else
    (check "${1:-.}")
    (widths "${1:-.}")
fi
