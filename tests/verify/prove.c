/* SPDX-License-Identifier: Apache-2.0 */
/* prove SERIAL.ir FINAL.ir...: the certificate on texts of IR; for each FINAL a line "holds" or "fails: why". */
#include "base/file.h"
#include "verify/cert.h"

#include <stdio.h>

enum { MAX = 1 << 28 };

int main(int argc, char **argv)
{
    DtArena *texts = dt_arena_new();
    char *serial, *final;
    size_t len;
    if (argc < 3)
        return 2;
    DtStatus status = dt_file_read(texts, argv[1], MAX, &serial, &len);
    for (int i = 2; i < argc && dt_status_ok(&status); i++) {
        status = dt_file_read(texts, argv[i], MAX, &final, &len);
        if (!dt_status_ok(&status))
            break;
        DtArena *arena = dt_arena_new();
        DtText problem = {0};
        DtCertCounts counts;
        bool holds = dt_cert_prove(arena, serial, final, &counts, &problem);
        printf("%s%s\n", holds ? "holds" : "fails: ", holds ? "" : problem.at);
        dt_text_free(&problem);
        dt_arena_free(arena);
    }
    dt_arena_free(texts);
    if (!dt_status_ok(&status))
        fprintf(stderr, "prove: %s\n", status.message);
    return dt_status_ok(&status) ? 0 : 1;
}
