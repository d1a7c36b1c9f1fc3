/* SPDX-License-Identifier: Apache-2.0 */
/* A plan with one reader, made by hand, and a folder with data files that is removed after the
 * test. */
#ifndef DT_TESTS_DATA_FIXTURE_H
#define DT_TESTS_DATA_FIXTURE_H

#include "runtime/data.h"

enum { FIXTURE_MAX_ROW = 64 };

typedef struct DataFixture {
    char folder[64];
    char text[8192]; /* text of the strings */
    DtPlanMeta meta;
    DtPlanReader reader;
    DtPlanInput inputs[5];
    DtPlanAxis axes[2];
    DtPlanSpan spans[1];
    DtPlan plan;
    char plan_path[128];
    DtRunOptions options;
} DataFixture;

/* The reader next_token(text("data.bin")), with rows of `row` i32 in batches of `batch`; the plan
 * is in the folder. */
void fixture_open(DataFixture *fixture, int64_t row, int64_t batch);
void fixture_close(DataFixture *fixture);
DtPlanStr fixture_str(DataFixture *fixture, const char *text);
void fixture_glob(DataFixture *fixture, uint32_t source, DtPlanDtype dtype, const char *glob);

/* Writes a file of the folder. */
const char *fixture_path(const DataFixture *fixture, const char *name);
void fixture_file(const DataFixture *fixture, const char *name, const void *bytes, size_t len);
/* Writes n u32 tokens that count up from `first`. */
void fixture_count(const DataFixture *fixture, const char *name, uint32_t first, uint32_t n);

/* Opens the reader, which must succeed */
DtData *fixture_data(DataFixture *fixture);
/* Opens the reader, which must fail with a message that contains these words */
void fixture_refused(DataFixture *fixture, const char *said);

/* Reads rows of a step from number `first` on: tokens and labels, each [rows, row]. */
void fixture_read(DtData *data, int64_t step, int64_t first, int64_t rows, int32_t *tokens,
                  int32_t *labels);

#endif
