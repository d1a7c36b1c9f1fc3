/* SPDX-License-Identifier: Apache-2.0 */
/* prove [--same|--time] SERIAL.ir FINAL.ir...: runs the certificate on texts of IR; for each FINAL
 * a line "holds" or "fails: why". --same: FINAL is another serial program; --time: how long it
 * takes, too, the least of 20. */
#include "base/file.h"
#include "verify/cert.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX = 1 << 28 };

static bool run(bool same, const char *serial, const char *final, DtText *ret_problem)
{
    DtArena *arena = dt_arena_new();
    DtCertCounts counts;
    bool holds = same ? dt_cert_same(arena, serial, final, ret_problem)
                      : dt_cert_prove(arena, serial, final, &counts, ret_problem);
    dt_arena_free(arena);
    return holds;
}

static double milliseconds(bool same, const char *serial, const char *final)
{
    double least = 1e9;
    for (int i = 0; i < 20; i++) {
        struct timespec from, to;
        DtText problem = {0};
        clock_gettime(CLOCK_MONOTONIC, &from);
        run(same, serial, final, &problem);
        clock_gettime(CLOCK_MONOTONIC, &to);
        dt_text_free(&problem);
        double ms =
            (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
        least = ms < least ? ms : least;
    }
    return least;
}

static void prove(const char *how, const char *serial, const char *final)
{
    DtText problem = {0};
    const bool same = !strcmp(how, "--same");
    if (run(same, serial, final, &problem))
        printf("holds");
    else
        printf("fails: %s", problem.at);
    if (!strcmp(how, "--time"))
        printf(" (%.3f ms)", milliseconds(same, serial, final));
    printf("\n");
    dt_text_free(&problem);
}

int main(int argc, char **argv)
{
    DtArena *texts = dt_arena_new();
    char *serial, *final;
    size_t len;
    const int from = argc > 1 && argv[1][0] == '-' ? 2 : 1;
    if (argc < from + 2)
        return 2;
    DtStatus status = dt_file_read(texts, argv[from], MAX, &serial, &len);
    for (int i = from + 1; i < argc && dt_status_ok(&status); i++) {
        status = dt_file_read(texts, argv[i], MAX, &final, &len);
        if (dt_status_ok(&status))
            prove(from == 2 ? argv[1] : "", serial, final);
    }
    dt_arena_free(texts);
    if (!dt_status_ok(&status))
        fprintf(stderr, "prove: %s\n", status.message);
    return dt_status_ok(&status) ? 0 : 1;
}
