# SPDX-License-Identifier: Apache-2.0
# Losses of a log beside those of another:  awk -v first=1e-3 -v all=1e-2 -f losses.awk RECORDED LOG
# Fails if they have other steps, if one is not finite, or lies further off than that, relatively: one of the first 20, one of
# the others, the mean of the last tenth by more than half of `all`.
/"event":"step"/ {
    match($0, /"step":[0-9]+/); step = substr($0, RSTART + 7, RLENGTH - 7) + 0
    loss = "none"
    if (match($0, /"loss":[-+0-9.e]+/)) loss = substr($0, RSTART + 7, RLENGTH - 7)
    if (FNR == NR) { wanted[step] = loss; n_wanted++; last = step } else { got[step] = loss; n_got++ }
}
function off(a, b, d) { d = a > b ? a - b : b - a; return d / (b > 0 ? b : b < 0 ? -b : 1) }
END {
    if (n_wanted == 0 || n_wanted != n_got) { print "wrong: " n_got + 0 " steps, recorded " n_wanted + 0; exit 1 }
    for (step in wanted) {
        if (!(step in got) || got[step] == "none" || wanted[step] == "none") { print "wrong: no loss in step " step; bad = 1; continue }
        d = off(got[step] + 0, wanted[step] + 0)
        if (d > worst) { worst = d; at = step }
        if (d > (step <= 20 ? first : all)) { print "wrong: step " step " has loss " got[step] ", recorded " wanted[step]; bad++ }
        if (step > last * 0.9) { sum += got[step]; sum_wanted += wanted[step]; n++ }
    }
    if (n && off(sum / n, sum_wanted / n) > all / 2) { print "wrong: the last losses are " sum / n ", recorded " sum_wanted / n; bad++ }
    printf "%d losses, at most %.2g off (step %d); the last ones %.4f, recorded %.4f\n", n_got, worst, at, sum / n, sum_wanted / n
    exit bad ? 1 : 0
}
