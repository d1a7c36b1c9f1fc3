/* SPDX-License-Identifier: Apache-2.0 */
/* Progress lines in a file: after certain numbers of steps, and after some time if steps are slow;
 * and the command that continues the run. */
#include "runtime/command.h"
#include "runtime/runtime.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns how many lines 40 of 100,000 steps print if a line is due every period_ns. */
static int lines_of(uint64_t period_ns)
{
    static const DtPlanMeta meta = {.n_ranks = 1, .batch = 1};
    const DtPlan plan = {.meta = &meta};
    const DtRank rank = {.plan = &plan};
    FILE *out = tmpfile();
    DtProgress progress;
    int lines = 0;
    cr_assert(out != NULL);
    dt_progress_open(&progress, &rank, out, 0, 100000);
    cr_assert(!progress.terminal);
    if (period_ns)
        progress.period_ns = period_ns;
    for (int64_t step = 1; step <= 40; step++) {
        const uint64_t before = dt_now_ns();
        const DtStepReport report = {.step = step, .n_losses = 1, .seconds = 0.01};
        while (dt_now_ns() - before < 100000)
            ;
        dt_progress_step(&progress, &report);
    }
    dt_progress_close(&progress);
    rewind(out);
    for (int c; (c = fgetc(out)) != EOF;)
        lines += c == '\n';
    fclose(out);
    return lines;
}

/* the first line: the next one is that of step 2000 */
Test(progress, by_steps) { cr_assert(lines_of(0) == 1); }
Test(progress, by_time) { cr_assert(lines_of(1) == 40); }

Test(progress, half_a_minute)
{
    static const DtPlanMeta meta = {.n_ranks = 1};
    const DtPlan plan = {.meta = &meta};
    const DtRank rank = {.plan = &plan};
    DtProgress progress;
    FILE *out = tmpfile();
    cr_assert(out != NULL);
    dt_progress_open(&progress, &rank, out, 0, 1);
    cr_assert(progress.period_ns == 30000000000u);
    dt_progress_close(&progress);
    fclose(out);
}

/* If the norm of a skipped step is not a number, it is in the log and in the progress line; a plan
 * without norms has none in either. */
Test(progress, a_norm_that_is_no_number_is_shown)
{
    static const DtPlanMeta meta = {.n_ranks = 1, .batch = 1};
    const DtPlan plan = {.meta = &meta};
    const DtRank rank = {.plan = &plan};
    for (int has = 0; has < 2; has++) {
        char path[] = "/tmp/dt_progressXXXXXX", text[2][4096] = {"", ""};
        const int fd = mkstemp(path);
        FILE *out = tmpfile(), *file = fdopen(fd, "r");
        DtProgress progress;
        DtLog *log;
        DtStepReport report = {.step = 1, .n_losses = 1, .seconds = 0.01};
        report.losses[0].grad_norm = has ? NAN : -1;
        cr_assert(out && file && dt_log_open(path, true, &log).code == DT_EXIT_OK);
        dt_progress_open(&progress, &rank, out, 0, 1);
        dt_progress_step(&progress, &report);
        dt_progress_close(&progress);
        dt_log_step(log, &report, &plan);
        cr_assert(dt_log_close(log).code == DT_EXIT_OK);
        rewind(out);
        cr_assert(fread(text[0], 1, sizeof text[0] - 1, out) > 0);
        cr_assert(fread(text[1], 1, sizeof text[1] - 1, file) > 0);
        cr_expect_eq(strstr(text[0], "norm nan") != NULL, has, "%s", text[0]);
        cr_expect_eq(strstr(text[1], "\"grad_norm\":null") != NULL, has, "%s", text[1]);
        fclose(out);
        fclose(file);
        unlink(path);
    }
}

/* ---- the command that goes on ---- */

Test(command, has_what_decides_the_numbers)
{
    DtRunOptions options = {.plan_path = "my plan", .steps = -1};
    DtText text = {0};
    dt_command_resume(&options, "out", options.steps, &text);
    cr_assert_str_eq(text.at, "dtrun 'my plan' --resume out");
    dt_text_free(&text);
    options = (DtRunOptions){.plan_path = "p",
                             .device = "cuda",
                             .share_gpu = true,
                             .comm = "shm",
                             .windows = true,
                             .algorithms_first = true,
                             .attention = DT_ATTENTION_GENERATED,
                             .epilogues = DT_EPILOGUES_APART};
    dt_command_resume(&options, "out", 8, &text);
    cr_assert_str_eq(text.at, "dtrun p --steps 8 --device cuda --share-gpu --comm shm --windows "
                              "--algorithms first --attention generated --epilogues none "
                              "--resume out");
    dt_text_free(&text);
    options = (DtRunOptions){.plan_path = "p", .attention = DT_ATTENTION_CUDNN};
    dt_command_resume(&options, "out", -1, &text);
    cr_assert_str_eq(text.at, "dtrun p --attention cudnn --resume out");
    dt_text_free(&text);
}
