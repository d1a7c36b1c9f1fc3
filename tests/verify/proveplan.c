/* SPDX-License-Identifier: Apache-2.0 */
/* proveplan PLAN FINAL.ir: the plan certificate on a plan file and the text of its final program: a line "holds" or
 * "fails: why". */
#include "base/file.h"
#include "plan/read.h"
#include "verify/plan.h"

#include <stdio.h>

enum { MAX = 1 << 28 };

int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    char *bytes, *final;
    size_t len, text_len;
    DtPlan plan;
    DtText problem = {0};
    if (argc != 3)
        return 2;
    DtStatus status = dt_file_read(arena, argv[1], MAX, &bytes, &len);
    if (dt_status_ok(&status))
        status = dt_file_read(arena, argv[2], MAX, &final, &text_len);
    if (dt_status_ok(&status))
        status = dt_read_bytes((const uint8_t *)bytes, len, &plan);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "proveplan: %s\n", status.message);
        return 1;
    }
    bool holds = dt_certplan_prove(arena, &plan, final, &problem);
    printf("%s%s\n", holds ? "holds" : "fails: ", holds ? "" : problem.at);
    dt_text_free(&problem);
    dt_arena_free(arena);
    return 0;
}
