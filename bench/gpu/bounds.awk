# SPDX-License-Identifier: Apache-2.0
# What a step could take and takes, from the table of `dtrun PLAN --profile`:
#
#   awk -v ms=110.2 -v copies=4300 -v best=770 -v peak=989 -v flops=9.1e13 -f bounds.awk TABLE
#
# ms: of a step without --profile; copies: GB/s of a large copy; best: TFLOP/s of the fastest large product; peak: TFLOP/s of
# the data sheet; flops: of the model in a step. What is 0 is not known, and what needs it is not said.
#
# Byte bound: the time in which all that is no product or attention can be copied; product bound: that in which products and
# attention go at the best rate. No step of these kernels takes less than both together. A kernel is bound by memory if at the
# best rates its bytes take longer than its operations.
function known(x) { return x + 0 > 0 }
$1 + 0 > 0 && $2 ~ /%$/ {
    name = $6
    for (i = 7; i <= NF; i++) name = name " " $i
    bytes = $1 * $4  # GB/s times ms: MB
    work = $1 * $5   # TFLOP/s times ms: GFLOP
    is_product = $6 == "gemm" || ($6 ~ /dot/ && $6 ~ /exp/)
    if (is_product) {
        products += work
        in_products += $1
    } else {
        moved += bytes
        in_rest += $1
        least = known(copies) ? bytes / copies : 0
        by_bytes = !known(best) || work / best < least
        if (known(copies) && by_bytes && $4 > 0) {
            n_kernels++
            if ($4 < 0.9 * copies) {
                n_slow++
                lost[n_slow] = $1 - least / 0.9
                all_lost += lost[n_slow]
                text[n_slow] = sprintf("%.3f ms at %.0f GB/s, %.0f%% of a copy: %s", $1, $4, 100 * $4 / copies, name)
            }
        }
    }
}
END {
    if (known(peak) && known(flops) && known(ms)) printf "MFU %.1f%%: %.3g FLOP of the model a step, of %g TFLOP/s\n", flops / (ms * 1e7 * peak), flops, peak
    else print "MFU not known: " (known(peak) ? "no step" : "no peak of this GPU; PEAK=TFLOP/s says it")
    if (known(copies)) printf "byte bound %.3f ms: %.3f GB at %g GB/s; takes %.3f ms\n", moved / copies, moved / 1e3, copies, in_rest
    if (known(best)) printf "product bound %.3f ms: %.3f TFLOP at %g TFLOP/s; takes %.3f ms\n", products / best, products / 1e3, best, in_products
    if (known(copies) && known(best) && known(ms)) printf "both %.3f ms, %.1f%% of the step\n", moved / copies + products / best, 100 * (moved / copies + products / best) / ms
    if (!known(copies)) exit
    printf "%d of %d kernels bound by memory are under 90%% of the rate of copies", n_slow, n_kernels
    print n_slow ? sprintf(", which costs %.3f ms:", all_lost) : ""
    for (k = 1; k <= n_slow && k <= 12; k++) {
        worst = 0
        for (i = 1; i <= n_slow; i++) if (!(i in said) && (!worst || lost[i] > lost[worst])) worst = i
        said[worst] = 1
        print "  " text[worst]
    }
}
