/* SPDX-License-Identifier: Apache-2.0 */
/* One rank that runs a plan made by hand: registers and order of the schedule, the training loop
 * compared with plain arithmetic, evaluation, stopping, saving, a loss that is not a number,
 * generation, log and trace. */
#include "tiny.h"

#include "base/half.h"
#include "base/hostcc.h"
#include "base/philox.h"
#include "runtime/rank.h"
#include "tests/look.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static Tiny tiny;

static void setup(void)
{
    tiny = (Tiny){.arena = dt_arena_new()};
    tiny_open(&tiny, tiny_build(tiny.arena, dt_hostcc_native(), 0.3));
}

static void teardown(void)
{
    tiny_close(&tiny);
    dt_arena_free(tiny.arena);
}

TestSuite(rank, .init = setup, .fini = teardown);

static void load(void)
{
    DtStatus status = tiny_load(&tiny);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static const float *weights(void)
{
    return (const float *)(const void *)look_at(&tiny.run.rank, 0, 0);
}

Test(rank, schedule_sets_registers_in_order)
{
    static const int64_t expected[6][3] = {{7, 0, 2}, {7, 0, 1}, {7, 0, 0},
                                           {7, 1, 2}, {7, 1, 1}, {7, 1, 0}};
    load();
    tiny.run.rank.step = 7;
    cr_assert(dt_exec_entry(&tiny.run.rank, "step"));
    const int64_t *journal = (const int64_t *)(const void *)look_at(&tiny.run.rank, 2, 32768);
    cr_assert_eq(journal[0], 6);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 3; k++)
            cr_assert_eq(journal[1 + 3 * i + k], expected[i][k], "run %d argument %d", i, k);
    for (int micro = 0; micro < 2; micro++)
        for (int layer = 0; layer < 3; layer++)
            cr_assert_eq(*(const int64_t *)(const void *)look_at(&tiny.run.rank, 2,
                                                                 40000 + 80 * micro + 8 * layer),
                         micro * 10 + layer);
}

/* A register that is set modulo a count is never negative; a loop's register is 0 after its END
 * (SCHD in plan/plan.h). */
Test(rank, registers_are_set_as_the_plan_says)
{
    static const DtPlanSchedule items[] = {
        {.kind = DT_SCHED_LOOP, .reg = 1, .first = 2, .step = -1, .count = 3},
        {.kind = DT_SCHED_SET, .reg = 0, .body = 1, .step = 1, .first = -4, .count = 3},
        {.kind = DT_SCHED_RUN, .body = 2},
        {.kind = DT_SCHED_END},
        {.kind = DT_SCHED_SET, .reg = 0, .body = 1, .step = 1, .first = 5},
        {.kind = DT_SCHED_RUN, .body = 2},
    };
    static const int64_t expected[4][2] = {{1, 2}, {0, 1}, {2, 0}, {5, 0}};
    load();
    DtPlanEntry entry = *tiny.plan.entries;
    entry.first = 0, entry.count = DT_COUNT(items);
    DtPlan plan = tiny.plan;
    plan.schedule = items, plan.n_schedule = DT_COUNT(items);
    plan.entries = &entry, plan.n_entries = 1;
    tiny.run.rank.plan = &plan;
    cr_assert(dt_exec_entry(&tiny.run.rank, dt_plan_str(&plan, entry.name)));
    const int64_t *journal = (const int64_t *)(const void *)look_at(&tiny.run.rank, 2, 32768);
    cr_assert_eq(journal[0], 4);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            cr_assert_eq(journal[2 + 3 * i + k], expected[i][k], "run %d register %d", i, k);
    tiny.run.rank.plan = &tiny.plan;
}

/* Trains in plain arithmetic in the same way, and returns the loss of the last step. */
static double reference(float w[TINY_IN][TINY_OUT], int64_t steps, double lr)
{
    double loss = 0;
    for (int64_t step = 0; step < steps; step++) {
        double dw[TINY_IN][TINY_OUT] = {{0}}, scale = 1.0 / (TINY_BATCH * TINY_OUT);
        loss = 0;
        for (int64_t s = step * TINY_BATCH; s < (step + 1) * TINY_BATCH; s++)
            for (int o = 0; o < TINY_OUT; o++) {
                double d = 0;
                for (int i = 0; i < TINY_IN; i++)
                    d += (double)tiny_x(s, i) * ((double)w[i][o] - (double)tiny_truth(i, o));
                loss += d * d * scale;
                for (int i = 0; i < TINY_IN; i++)
                    dw[i][o] += 2 * d * scale * (double)tiny_x(s, i);
            }
        for (int i = 0; i < TINY_IN; i++)
            for (int o = 0; o < TINY_OUT; o++)
                w[i][o] -= (float)(lr * dw[i][o]);
    }
    return loss;
}

Test(rank, trains_as_plain_arithmetic_does)
{
    float w[TINY_IN][TINY_OUT];
    load();
    cr_assert(dt_init_stores(&tiny.run.rank));
    memcpy(w, weights(), sizeof w);
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    double loss = reference(w, 40, 0.3);
    cr_assert_float_eq(dt_exec_scalar(&tiny.run.rank, tiny.run.loss[0]), loss, 1e-5 * loss + 1e-9);
    for (int i = 0; i < TINY_IN * TINY_OUT; i++)
        cr_assert_float_eq(weights()[i], w[i / TINY_OUT][i % TINY_OUT], 1e-5);
    cr_assert_lt(loss, 0.05);
    cr_assert_eq(tiny_saves, 0, "nobody asked for checkpoints");
}

Test(rank, every_library_trains_alike)
{
    static const DtGemmKind kinds[] = {DT_GEMM_PLAIN, DT_GEMM_ONEDNN, DT_GEMM_OPENBLAS};
    float first[TINY_IN * TINY_OUT];
    for (int k = 0; k < 3; k++) {
        tiny.options.gemm = kinds[k];
        load();
        cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
        if (k == 0)
            memcpy(first, weights(), sizeof first);
        for (int i = 0; i < TINY_IN * TINY_OUT; i++)
            cr_assert_float_eq(weights()[i], first[i], 1e-5);
        tiny_close(&tiny);
    }
}

Test(rank, saves_as_the_plan_says_and_at_the_end)
{
    tiny.options.save = "somewhere";
    load();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    cr_assert_eq(tiny_saves, 3); /* after steps 16, 32, 40 */
    cr_assert_eq(tiny_saved_step, 40);
    cr_assert_eq(atomic_load(&tiny.run.rank.shared->saved_step), 40);
}

Test(rank, resumes_at_the_saved_step)
{
    tiny.options.resume = "somewhere";
    tiny.options.steps = 33;
    load();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    cr_assert_eq(tiny.run.first_step, 30);
    cr_assert_eq(tiny_saved_step, 33);
    for (int i = 0; i < TINY_IN * TINY_OUT; i++) /* the checkpoint holds the solution */
        cr_assert_float_eq(weights()[i], tiny_truth(i / TINY_OUT, i % TINY_OUT), 1e-6);
}

Test(rank, stops_when_asked_and_saves)
{
    tiny.options.save = "somewhere";
    load();
    atomic_store(&tiny.run.rank.shared->stop, 1);
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_INTERRUPTED);
    cr_assert_eq(tiny_saved_step, 1, "the step that was begun is finished and saved");
    cr_assert_eq(atomic_load(&tiny.run.rank.slot->phase), DT_PHASE_DONE);
}

Test(rank, stops_when_another_rank_failed)
{
    load();
    dt_shared_abort(tiny.run.rank.shared, DT_BY_SUPERVISOR);
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_RETRY);
    cr_assert(dt_status_ok(&tiny.run.rank.failure), "it did not fail itself");
}

Test(rank, a_loss_that_is_no_number_ends_the_run)
{
    tiny_close(&tiny);
    tiny_open(&tiny, tiny_build(tiny.arena, dt_hostcc_native(), 1e30));
    load();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_FAILED);
    DtSlot *slot = tiny.run.rank.slot;
    cr_assert(strstr(slot->message, "the loss of step") ||
                  strstr(slot->message, "the gradient norm of step"),
              "%s", slot->message);
    cr_assert_eq(atomic_load(&slot->phase), DT_PHASE_FAILED);
    cr_assert_eq(dt_shared_aborter(tiny.run.rank.shared), 0);
}

Test(rank, initial_values_are_drawn_by_logical_index)
{
    load();
    cr_assert(dt_init_stores(&tiny.run.rank));
    for (uint64_t i = 0; i < TINY_IN * TINY_OUT;
         i++) /* axes sorted by name are in, out, so this is row-major */
        cr_assert_eq(weights()[i], (float)(0.5 * dt_philox_normal(dt_philox(99, i, 0, 0))));
}

/* The parts that two ranks draw make up what one draws; sorted names, loop axes and padding count.
 */
Test(rank, initial_values_do_not_depend_on_the_layout)
{
    DtArena *arena = tiny.arena;
    DtPlanMeshAxis mesh = {.size = 2};
    char strings[] = "\0loop\0zz\0aa";
    DtPlanAxis whole[3] = {{1, {0}, 3, 3, 0, 0}, {6, {0}, 5, 5, 0, 0}, {9, {0}, 4, 4, 0, 0}},
               split[3] = {{1, {0}, 3, 3, 0, 0}, {6, {1}, 5, 3, 0, 0}, {9, {0}, 4, 4, 0, 0}};
    DtPlanStore store = {.dtype = DT_PLAN_F32,
                         .n_axes = 3,
                         .n_loops = 1,
                         .init = DT_PLAN_UNIFORM,
                         .init_a = -1,
                         .init_b = 2,
                         .key = 5,
                         .bytes = 4 * 3 * 5 * 4};
    DtPlan one = {.axes = whole, .n_axes = 3, .strings = strings},
           two = {.axes = split, .n_axes = 3, .strings = strings, .mesh = &mesh, .n_mesh = 1};
    float all[3][5][4], part[3][3][4];
    DtRank rank = {.plan = &one};
    dt_init_store(&rank, &store, all);
    for (uint32_t l = 0; l < 3; l++)
        for (uint64_t z = 0; z < 5; z++)
            for (uint64_t a = 0; a < 4; a++)
                cr_assert_eq(all[l][z][a],
                             (float)(-1 + 3 * dt_philox_uniform(dt_philox(5, a * 5 + z, 0, l))));
    store.bytes = 4 * 3 * 3 * 4;
    static const uint32_t kinds[] = {DT_PLAN_PARAM, DT_PLAN_STATE, DT_PLAN_MASTER};
    for (int k = 0; k < 6; k++) {
        int r = k % 2;
        store.kind = kinds[k / 2];
        rank = (DtRank){.plan = &two, .coord = {r}};
        dt_init_store(&rank, &store, part);
        for (int l = 0; l < 3; l++)
            for (int z = 0; z < 3; z++)
                for (int a = 0; a < 4; a++)
                    cr_assert_eq(part[l][z][a], 3 * r + z < 5 ? all[l][3 * r + z][a] : 0.0f);
    }
    (void)arena;
}

/* Several threads draw the same values as one, padding included. */
Test(rank, initial_values_of_large_stores)
{
    enum { ROWS = 700, WIDTH = 601, LOCAL = 351 };
    char strings[] = "\0aa\0zz";
    DtPlanMeshAxis mesh = {.size = 2};
    DtPlanAxis axes[2] = {{4, {1}, ROWS - 1, LOCAL, 0, 0}, {1, {0}, WIDTH, WIDTH, 0, 0}};
    DtPlan plan = {.axes = axes, .n_axes = 2, .strings = strings, .mesh = &mesh, .n_mesh = 1};
    DtPlanStore store = {.dtype = DT_PLAN_BF16, .n_axes = 2, .init = DT_PLAN_NORMAL, .init_a = 3,
                         .key = 11, .bytes = (int64_t)LOCAL * WIDTH * 2};
    DtRank rank = {.plan = &plan, .coord = {1}};
    uint16_t *values = malloc((size_t)store.bytes);
    dt_init_store(&rank, &store, values);
    for (uint64_t z = 0; z < LOCAL; z++)
        for (uint64_t a = 0; a < WIDTH; a++) {
            const uint64_t row = LOCAL + z, element = a * (ROWS - 1) + row;
            const float wanted =
                row < ROWS - 1 ? (float)(3 * dt_philox_normal(dt_philox(11, element, 0, 0))) : 0;
            cr_assert_eq(values[z * WIDTH + a], dt_half_to_bf16(wanted), "%llu %llu",
                         (unsigned long long)z, (unsigned long long)a);
        }
    free(values);
}

/* The iteration counts over all loops that stack a store, so that no two layers share random
 * numbers; padding is not counted. */
Test(rank, initial_values_of_stacked_loops)
{
    char strings[] = "\0outer\0inner\0aa";
    DtPlanAxis axes[3] = {{1, {0}, 3, 3, 0, 0}, {7, {0}, 4, 4, 0, 0}, {13, {0}, 2, 2, 0, 0}};
    DtPlan plan = {.axes = axes, .n_axes = 3, .strings = strings};
    DtPlanStore store = {.dtype = DT_PLAN_F32, .n_axes = 3, .n_loops = 2, .init = DT_PLAN_NORMAL,
                         .init_a = 2, .key = 7, .bytes = 3 * 4 * 2 * 4};
    float values[3][4][2];
    DtRank rank = {.plan = &plan};
    dt_init_store(&rank, &store, values);
    for (uint32_t o = 0; o < 3; o++)
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t a = 0; a < 2; a++)
                cr_assert_eq(values[o][i][a],
                             (float)(2 * dt_philox_normal(dt_philox(7, a, 0, o * 4 + i))));
}

Test(rank, generates)
{
    cr_redirect_stdout();
    tiny.options.generate = "abc";
    tiny.options.sampling.tokens = 8;
    tiny.options.sampling.temperature = 0;
    load();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    cr_assert_stdout_eq_str("abcdefghijk\n"); /* longer than the window of 6 tokens */
}

Test(rank, temperature_samples_alike_for_equal_seeds)
{
    cr_redirect_stdout();
    tiny.options.generate = "a";
    tiny.options.sampling.tokens = 30;
    tiny.options.sampling.temperature = 3;
    for (int i = 0; i < 2; i++) {
        load();
        cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
        tiny_close(&tiny);
    }
    char text[200];
    FILE *out = cr_get_redirected_stdout();
    size_t n = fread(text, 1, sizeof text, out);
    cr_assert_eq(n, 2 * 32);
    cr_assert_eq(memcmp(text, text + 32, 32), 0);
    cr_assert(memcmp(text, "abcdefghijklmnopqrstuvwxyz", 26) != 0,
              "at temperature 3 other letters must occur");
}

static json_t *read_json_line(FILE *file)
{
    char line[4000];
    if (fgets(line, sizeof line, file) == NULL)
        return NULL;
    json_t *object = json_loads(line, 0, NULL);
    cr_assert_not_null(object, "%s", line);
    return object;
}

Test(rank, log_has_every_step)
{
    char path[] = "/tmp/dt_logXXXXXX";
    close(mkstemp(path));
    tiny.options.log = path;
    load();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    FILE *file = fopen(path, "r");
    int64_t steps = 0, evals = 0;
    double first = 0, last = 0;
    for (json_t *line; (line = read_json_line(file)) != NULL; json_decref(line)) {
        const char *event = json_string_value(json_object_get(line, "event"));
        if (strcmp(event, "step") == 0) {
            cr_assert_eq(json_integer_value(json_object_get(line, "step")), ++steps);
            last = json_number_value(json_object_get(line, "loss"));
            first = steps == 1 ? last : first;
            cr_assert_gt(json_number_value(json_object_get(line, "grad_norm")), 0);
            cr_assert_float_eq(json_number_value(json_object_get(line, "lr")), 0.3, 1e-6);
        }
        evals += strcmp(event, "eval") == 0;
    }
    fclose(file);
    unlink(path);
    cr_assert_eq(steps, 40);
    cr_assert_eq(evals, 2);
    cr_assert_lt(last, 0.1 * first);
}

Test(rank, trace_is_json_with_lines_of_the_program)
{
    char path[] = "/tmp/dt_traceXXXXXX";
    close(mkstemp(path));
    tiny.options.trace = path;
    tiny.options.steps = 2;
    load();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    cr_assert_not_null(root, "%s", error.text);
    json_t *events = json_object_get(root, "traceEvents");
    size_t slices = 0, named = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        const char *line =
            json_string_value(json_object_get(json_object_get(event, "args"), "line"));
        slices += json_object_get(event, "dur") != NULL;
        named += line != NULL && strcmp(line, "tiny.dsl:3:5") == 0;
    }
    /* The slices: two steps of 2 + 2 x (4 + 3) + 1 instructions and 1 of the update, an evaluation
     * of 5 x 7 (three whole batches and two for the rest), 9 entries. */
    cr_assert_eq(slices, 2 * 18 + 5 * 7 + 9, "%zu", slices);
    cr_assert_eq(named, 2 * 18 + 5 * 7);
    json_decref(root);
    unlink(path);
}

Test(rank, evaluates)
{
    tiny.options.eval = true;
    tiny.options.resume = "somewhere";
    load();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    const DtPlanMetric *metric = dt_exec_metric(&tiny.plan, "eval", "loss");
    cr_assert_lt(dt_exec_scalar(&tiny.run.rank, metric), 1e-9);
}

/* 27 samples held out, 8 a batch: the mean is over all of them, also the three that fill no batch.
 */
Test(rank, evaluates_every_held_out_sample)
{
    char path[] = "/tmp/dt_logXXXXXX";
    close(mkstemp(path));
    tiny.options.log = path;
    tiny.options.eval = true;
    load();
    cr_redirect_stdout();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK);
    double expected = 0;
    for (int64_t s = 0; s < TINY_HELD_OUT; s++)
        for (int o = 0; o < TINY_OUT; o++) {
            double d = 0;
            for (int i = 0; i < TINY_IN; i++)
                d += (double)tiny_x(s, i) *
                     ((double)weights()[i * TINY_OUT + o] - (double)tiny_truth(i, o));
            expected += d * d / (TINY_HELD_OUT * TINY_OUT);
        }
    FILE *file = fopen(path, "r");
    json_decref(read_json_line(file)); /* start */
    json_t *line = read_json_line(file);
    cr_assert_str_eq(json_string_value(json_object_get(line, "event")), "eval");
    cr_assert_eq(json_integer_value(json_object_get(line, "samples")), TINY_HELD_OUT);
    cr_assert_float_eq(json_number_value(json_object_get(line, "loss")), expected, 1e-6 * expected);
    json_decref(line);
    fclose(file);
    unlink(path);
}

/* ---- what cannot be loaded ---- */

Test(rank, other_targets_are_refused)
{
    static const struct { const char *target, *said; int code; } cases[] = {
        {"sm_90a", "code for sm_90a, and none for device `cpu`: compile it with --target=cpu",
         DT_EXIT_USAGE},
        {"cpu-v9", "cannot run", DT_EXIT_FAILED}};
    for (int i = 0; i < 2; i++) {
        tiny_close(&tiny);
        tiny_open(&tiny, tiny_build(tiny.arena, cases[i].target, 0.1));
        tiny.options.device = "cpu";
        DtStatus status = tiny_load(&tiny);
        cr_assert_eq(status.code, cases[i].code);
        cr_assert(strstr(status.message, cases[i].said), "%s", status.message);
    }
}

Test(rank, a_plan_without_code_says_so)
{
    DtPlanBuilder *b = tiny_build(tiny.arena, dt_hostcc_native(), 0.1);
    b->codes.at[0].binary_len = 0;
    tiny_open(&tiny, b);
    DtStatus status = tiny_load(&tiny);
    cr_assert(strstr(status.message, "--no-kernels"), "%s", status.message);
}

Test(rank, a_missing_kernel_says_so)
{
    DtPlanBuilder *b = tiny_build(tiny.arena, dt_hostcc_native(), 0.1);
    b->kernels.at[1].symbol = dt_write_str(b, "absent");
    tiny_open(&tiny, b);
    DtStatus status = tiny_load(&tiny);
    cr_assert(strstr(status.message, "lacks kernel `absent`"), "%s", status.message);
}

Test(rank, settings_are_checked)
{
    static const char *const wrong[][2] = {{"lr.bas=1", "did you mean `lr.base`"},
                                           {"lr.base=x", "no number"},
                                           {"train.steps=-1", "no count"},
                                           {"nonsense", "block.key=value"},
                                           {"quantum=1", "there are train.steps"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        DtPlanMeta meta;
        DtRunSettings settings;
        tiny.options.settings[0] = wrong[i][0];
        tiny.options.n_settings = 1;
        DtStatus status = dt_settings_apply(&tiny.options, &tiny.plan, &meta, &settings);
        cr_assert_eq(status.code, DT_EXIT_USAGE);
        cr_assert(strstr(status.message, wrong[i][1]), "%s", status.message);
    }
}

/* Arenas end at inaccessible pages: the processor stops a kernel that writes beyond the end. */
Test(rank, arenas_have_guard_pages)
{
    load();
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO); /* the sanitizer would report the signal itself */
        volatile char *end =
            look_at(&tiny.run.rank, 3, 4096); /* the arena of inputs has the size of exactly one
                                               * page */
        *end = 1;
        _exit(0);
    }
    int how;
    waitpid(child, &how, 0);
    cr_assert(!WIFEXITED(how) || WEXITSTATUS(how) != 0, "a write behind the arena went through");
}

Test(scale, adapts)
{
    const DtPlanScalar scalar = {.name = 1};
    const DtPlan plan = {.scalars = &scalar, .n_scalars = 1, .strings = "\0@loss_scale",
                         .n_strings = 13};
    const DtPlan without = {0};
    DtScale scale;
    dt_scale_begin(&plan, &scale);
    cr_expect(dt_scale_step(&scale, INFINITY) && dt_scale_step(&scale, NAN));
    cr_expect_eq(scale.factor, 65536 / 4);
    cr_expect_eq(scale.skipped, 2);
    for (int i = 0; i < 1999; i++)
        cr_assert(dt_scale_step(&scale, 1.5));
    cr_expect_eq(scale.factor, 65536 / 4);
    cr_expect(dt_scale_step(&scale, 0));
    cr_expect_eq(scale.factor, 65536 / 2);
    cr_expect(dt_scale_is_valid(&scale));
    while (scale.factor > 1)
        cr_assert(dt_scale_step(&scale, NAN));
    cr_expect_not(dt_scale_step(&scale, NAN), "no smaller scale");
    dt_scale_begin(&without, &scale);
    cr_expect_not(dt_scale_step(&scale, NAN), "no scale");
    cr_expect(dt_scale_step(&scale, 1));
}
