/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of tables: any bytes are a table or are refused; rows read in one order are those
 * read in another. */
#include "runtime/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];
const char *const fuzz_corpus[] = {"tests/fuzz/corpus/*.csv", NULL};

static void compare(const DtTokenFormat *format, DtTokenFile *file)
{
    const int64_t n = file->n < 512 ? file->n : 512;
    int32_t *line = calloc((size_t)n + 1, sizeof *line), one = 0;
    DtStatus status = dt_datacsv_read(format, file, 0, n, line);
    for (int64_t i = n; i-- > 0 && dt_status_ok(&status);) {
        DtStatus alone = dt_datacsv_read(format, file, i, 1, &one);
        if (!dt_status_ok(&alone) || memcmp(&one, &line[i], sizeof one) != 0) {
            fprintf(stderr, "fuzz_csv: number %lld differs when it is read alone\n", (long long)i);
            abort();
        }
    }
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const columns[] = {"", "a", "b*\n!b1", "!a"};
    for (size_t i = 0; i < 2 * DT_COUNT(columns); i++) {
        DtArena *memory = dt_arena_new();
        const DtTokenFormat format = {.dtype = i % 2 ? DT_PLAN_I64 : DT_PLAN_F64,
                                      .columns = columns[i / 2],
                                      .separator = i % 3 ? ',' : ';',
                                      .header = i / 2 > 0,
                                      .stream = true,
                                      .input = "x"};
        DtTokenFile file = {.view = {data, size}, .path = "fuzz.csv"};
        DtStatus status = dt_datacsv_layout(memory, &format, &file);
        if (dt_status_ok(&status))
            compare(&format, &file);
        dt_arena_free(memory);
    }
    return 0;
}
