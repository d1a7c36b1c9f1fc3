/* SPDX-License-Identifier: Apache-2.0 */
/* prove [--steps|--both|--time] SERIAL.ir FINAL.ir...: the certificate on texts of IR; for each FINAL a line "holds" or
 * "fails: why". --steps: by the certificate of steps; --both: by both, and what they say if they differ; --time: how
 * long each takes, the least of 20. */
#include "base/file.h"
#include "verify/cert.h"

#include <stdio.h>

#include <string.h>
#include <time.h>

enum { MAX = 1 << 28 };

typedef bool Prove(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts,
                   DtText *ret_problem);

static bool run(Prove *prove, const char *serial, const char *final, DtText *ret_problem)
{
    DtArena *arena = dt_arena_new();
    DtCertCounts counts;
    bool holds = prove(arena, serial, final, &counts, ret_problem);
    dt_arena_free(arena);
    return holds;
}

static void say(const char *before, bool holds, const DtText *problem)
{
    printf("%s%s%s", before, holds ? "holds" : "fails: ", holds ? "" : problem->at);
}

static double milliseconds(Prove *prove, const char *serial, const char *final)
{
    double least = 1e9;
    for (int i = 0; i < 20; i++) {
        struct timespec from, to;
        DtText problem = {0};
        clock_gettime(CLOCK_MONOTONIC, &from);
        run(prove, serial, final, &problem);
        clock_gettime(CLOCK_MONOTONIC, &to);
        dt_text_free(&problem);
        double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
        least = ms < least ? ms : least;
    }
    return least;
}

static void prove(const char *how, const char *serial, const char *final)
{
    DtText problem = {0}, other = {0};
    const bool both = !strcmp(how, "--both"), steps = !strcmp(how, "--steps");
    if (!strcmp(how, "--time")) {
        printf("numbers %.3f ms, steps %.3f ms\n", milliseconds(dt_cert_prove, serial, final),
               milliseconds(dt_cert_prove_steps, serial, final));
        return;
    }
    const bool holds = run(steps ? dt_cert_prove_steps : dt_cert_prove, serial, final, &problem);
    const bool too = both ? run(dt_cert_prove_steps, serial, final, &other) : holds;
    if (both && holds != too) {
        say("numbers ", holds, &problem);
        say("; steps ", too, &other);
    } else {
        say("", holds, &problem);
    }
    printf("\n");
    dt_text_free(&problem);
    dt_text_free(&other);
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
