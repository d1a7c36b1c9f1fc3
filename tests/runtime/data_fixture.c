/* SPDX-License-Identifier: Apache-2.0 */
#include "data_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

DtPlanStr fixture_str(DataFixture *fixture, const char *text)
{
    size_t len = strlen(text) + 1;
    uint32_t at = fixture->plan.n_strings;
    cr_assert_lt(at + len, sizeof fixture->text);
    memcpy(fixture->text + at, text, len);
    fixture->plan.n_strings += (uint32_t)len;
    return at;
}

void fixture_glob(DataFixture *fixture, uint32_t source, DtPlanDtype dtype, const char *glob)
{
    fixture->reader.source = source;
    fixture->reader.dtype = dtype;
    fixture->reader.glob = fixture_str(fixture, glob);
}

void fixture_open(DataFixture *f, int64_t row, int64_t batch)
{
    *f = (DataFixture){.folder = "/tmp/dt_dataXXXXXX"};
    cr_assert_not_null(mkdtemp(f->folder));
    f->plan = (DtPlan){.meta = &f->meta,
                       .n_meta = 1,
                       .readers = &f->reader,
                       .n_readers = 1,
                       .inputs = f->inputs,
                       .n_inputs = 2,
                       .axes = f->axes,
                       .n_axes = 2,
                       .spans = f->spans,
                       .n_spans = 1,
                       .strings = f->text,
                       .n_strings = 1};
    f->meta = (DtPlanMeta){.n_ranks = 1, .n_micro = 1, .seed = 7, .batch = batch};
    f->axes[0] = (DtPlanAxis){.name = fixture_str(f, "batch"), .extent = batch, .local = batch};
    f->axes[1] = (DtPlanAxis){.name = fixture_str(f, "seq"), .extent = row, .local = row};
    f->spans[0] = (DtPlanSpan){.file = fixture_str(f, "tiny.dsl"), .line = 12, .column = 3};
    for (int i = 0; i < 5; i++)
        f->inputs[i] = (DtPlanInput){.name = fixture_str(f, i == 0   ? "tokens"
                                                            : i == 1 ? "labels"
                                                                     : "more"),
                                     .dtype = DT_PLAN_I32,
                                     .first_axis = 0,
                                     .n_axes = 2,
                                     .row_elements = row};
    f->reader = (DtPlanReader){
        .sample = DT_PLAN_NEXT_TOKEN, .folder = fixture_str(f, "."), .n_inputs = 2, .to = 1};
    fixture_glob(f, DT_PLAN_TEXT, DT_PLAN_U8, "data.bin");
    snprintf(f->plan_path, sizeof f->plan_path, "%s/a.plan", f->folder);
    f->options = (DtRunOptions){.plan_path = f->plan_path};
}

void fixture_close(DataFixture *fixture)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", fixture->folder);
    cr_assert_eq(system(command), 0);
}

const char *fixture_path(const DataFixture *fixture, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", fixture->folder, name);
    return path;
}

void fixture_file(const DataFixture *fixture, const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(fixture_path(fixture, name), "wb");
    cr_assert_not_null(file, "%s", name);
    cr_assert_eq(fwrite(bytes, 1, len, file), len);
    cr_assert_eq(fclose(file), 0);
}

void fixture_count(const DataFixture *fixture, const char *name, uint32_t first, uint32_t n)
{
    uint32_t *tokens = malloc(n * sizeof *tokens + 1);
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = first + i;
    fixture_file(fixture, name, tokens, n * sizeof *tokens);
    free(tokens);
}

DtData *fixture_data(DataFixture *fixture)
{
    DtData *data = NULL;
    DtStatus status = dt_data_open(&fixture->options, &fixture->plan, 0, &data);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    return data;
}

void fixture_refused(DataFixture *fixture, const char *said)
{
    DtData *data = NULL;
    DtStatus status = dt_data_open(&fixture->options, &fixture->plan, 0, &data);
    cr_assert(!dt_status_ok(&status), "opened; expected: %s", said);
    cr_assert(strstr(status.message, said), "said: %s\nexpected: %s", status.message, said);
}

void fixture_read(DtData *data, int64_t step, int64_t first, int64_t rows, int32_t *tokens,
                  int32_t *labels)
{
    char *inputs[] = {(char *)tokens, (char *)labels};
    DtStatus status = dt_data_read(data, step, first, rows, inputs);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}
