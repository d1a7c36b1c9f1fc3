/* SPDX-License-Identifier: Apache-2.0 */
/* boxed PLACED.ir FINAL.ir...: proves that the code which pass `expand` wrote in FINAL means the
 * same as the calls in PLACED; for each FINAL it prints a line "holds", with the numbers of boxes
 * met and proved, or "fails: why". */
#include "base/file.h"
#include "base/intern.h"
#include "verify/box.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX = 1 << 28 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    DtArena *texts = dt_arena_new();
    char *placed, *final;
    size_t len;
    const bool timed = argc > 1 && strcmp(argv[1], "--time") == 0;
    if (argc < 3 + timed)
        return 2;
    argv += timed;
    argc -= timed;
    DtStatus status = dt_file_read(texts, argv[1], MAX, &placed, &len);
    for (int i = 2; i < argc && dt_status_ok(&status); i++) {
        status = dt_file_read(texts, argv[i], MAX, &final, &len);
        if (!dt_status_ok(&status))
            break;
        DtArena *arena = dt_arena_new();
        DtText problem = {0};
        DtBoxCounts counts;
        const double begin = now();
        const bool holds = dt_box_prove(arena, placed, final, &counts, &problem);
        if (holds)
            printf("holds: %u boxes, %u proved\n", counts.boxes, counts.proved);
        else
            printf("fails: %s\n", problem.at);
        if (timed)
            printf("%.2f ms, %zu KiB\n", now() - begin, dt_arena_peak(arena) / 1024);
        dt_text_free(&problem);
        dt_arena_free(arena);
    }
    dt_arena_free(texts);
    if (!dt_status_ok(&status))
        fprintf(stderr, "boxed: %s\n", status.message);
    return dt_status_ok(&status) ? 0 : 1;
}
