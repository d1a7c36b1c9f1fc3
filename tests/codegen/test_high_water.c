/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of whole programs on one rank. Every byte of every arena is poisoned, twice with other patterns, and all
 * entries run: a byte that kept its pattern both times was not written. The highest byte that was is the high-water
 * mark of the arena, which must be what the plan says, to the alignment. And between steps 2 and 6, evaluation
 * included, neither our code nor a library for products calls the allocator. */
#include "base/intern.h"
#include "codegen/codegen.h"
#include "frontend/lower.h"
#include "passes/passes.h"
#include "plan/read.h"
#include "runtime/device.h"
#include "runtime/rank.h"
#ifdef COUNT_CALLS /* not under sanitizers */
#include "tests/count_calls.h"
#endif

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- plans ---- */

typedef struct Case {
    const char *path;
    const DtOption dims[8];
    uint32_t n_dims;
    const char *precision;
    int64_t micro;
} Case;

static const Case cases[] = {
    {"examples/quickstart.dsl",
     {{"batch", "4"}, {"seq", "70"}, {"layers", "2"}, {"embed", "16"}, {"heads", "2"}},
     5,
     NULL,
     1},
    {"examples/quickstart.dsl",
     {{"batch", "4"}, {"seq", "70"}, {"layers", "2"}, {"embed", "16"}, {"heads", "2"}},
     5,
     "mixed(compute = bf16)",
     2},
    {"examples/vgg16.dsl",
     {{"batch", "2"}, {"side", "32"}, {"c0", "2"}, {"classes", "5"}, {"fc", "6"}},
     5,
     "mixed(compute = f16, loss_scale = 1)",
     1},
};

static void compile(DtArena *arena, const Case *c, DtPlan *ret_plan)
{
    DtDiags *diags = dt_diag_new(arena);
    const DtOption precision = {"train.precision", c->precision};
    DtProgram *program = dt_lower(arena, diags,
                                  &(DtLowerOptions){.path = c->path,
                                                    .library = "lib",
                                                    .dims = c->dims,
                                                    .n_dims = c->n_dims,
                                                    .parallel = "none",
                                                    .synthetic = true,
                                                    .sets = &precision,
                                                    .n_sets = c->precision != NULL});
    cr_assert_not_null(program);
    DtParallelConfig parallel = {.name = "cut", .micro_axis = dt_intern("batch"), .micro = c->micro};
    program->parallel = c->micro > 1 ? &parallel : NULL;
    DtPassContext context = {.train = program->train, .parallel = program->parallel};
    dt_passes_run(program->module, &context, NULL, NULL);
    cr_assert_eq(dt_diag_errors(diags), 0);
    DtPlanBuilder *builder = dt_write_new(arena);
    DtStatus status = dt_codegen_plan(
        program, &(DtCodegenOptions){.target = "cpu", .source = "t", .source_folder = "", .compiler = "t"}, builder);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    uint8_t *bytes;
    size_t len;
    dt_write_bytes(builder, &bytes, &len);
    status = dt_read_bytes(bytes, len, ret_plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static void load(const DtPlan *plan, DtGemmKind gemm, DtRunOptions *options, DtRank *rank, int *ret_fd)
{
    *options =
        (DtRunOptions){.plan_path = "test.plan", .steps = -1, .quiet = true, .gemm = gemm, .data_synthetic = true,
                       .generate = ""}; /* predictions have memory, too */
    memset(rank, 0, sizeof *rank);
    DtStatus status = dt_shared_create(plan, 0, ret_fd);
    if (dt_status_ok(&status))
        status = dt_load_rank(options, plan, 0, *ret_fd, rank);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static void run_entries(DtRank *rank, bool all)
{
    static const char *const entries[] = {"step", "update", "eval", "predict"};
    for (size_t i = 0; i < (all ? DT_COUNT(entries) : 2); i++) {
        bool present = false;
        for (uint32_t k = 0; k < rank->plan->n_entries; k++)
            present |= !strcmp(dt_plan_str(rank->plan, rank->plan->entries[k].name), entries[i]);
        if (present && !dt_exec_entry(rank, entries[i])) /* the asserting macro allocates */
            cr_assert_fail("%s: %s", entries[i], rank->failure.message);
    }
}

/* ---- high-water marks ---- */

/* Marks the bytes of each arena that differ from the pattern after all entries have run. */
static void mark(const DtPlan *plan, int pattern, bool **touched)
{
    DtRunOptions options;
    DtRank rank;
    int fd;
    load(plan, DT_GEMM_DEFAULT, &options, &rank, &fd);
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        if (plan->arenas[a].bytes)
            memset(dt_device_look(&rank, a, 0), pattern, (size_t)plan->arenas[a].bytes);
    cr_assert(dt_init_stores(&rank), "%s", rank.failure.message);
    run_entries(&rank, true);
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        for (int64_t i = 0; i < plan->arenas[a].bytes; i++)
            touched[a][i] |= (unsigned char)*dt_device_look(&rank, a, i) != pattern;
    dt_load_close(&rank);
    close(fd);
}

Test(high_water, marks_are_what_the_plan_says)
{
    for (size_t c = 0; c < DT_COUNT(cases); c++) {
        DtArena *arena = dt_arena_new();
        DtPlan plan;
        compile(arena, &cases[c], &plan);
        bool **touched = DT_NEW_ARRAY(arena, bool *, plan.n_arenas + 1);
        for (uint32_t a = 0; a < plan.n_arenas; a++)
            touched[a] = DT_NEW_ARRAY(arena, bool, plan.arenas[a].bytes + 1);
        mark(&plan, 0xff, touched);
        mark(&plan, 0x35, touched);
        for (uint32_t a = 0; a < plan.n_arenas; a++) {
            int64_t high = plan.arenas[a].bytes;
            while (high > 0 && !touched[a][high - 1])
                high--;
            bool scalars = plan.arenas[a].kind == DT_ARENA_SCALARS; /* written by the runtime between entries */
            cr_expect(scalars || plan.arenas[a].bytes - high < DT_PLAN_ALIGN,
                      "%s, arena `%s`: %lld bytes planned, %lld used", cases[c].path,
                      dt_plan_str(&plan, plan.arenas[a].name), (long long)plan.arenas[a].bytes, (long long)high);
        }
        dt_arena_free(arena);
    }
}

/* ---- the allocator ---- */

#ifdef COUNT_CALLS
static void count_calls(DtGemmKind gemm)
{
    for (size_t c = 0; c < DT_COUNT(cases); c++) {
        DtArena *arena = dt_arena_new();
        DtPlan plan;
        DtRunOptions options;
        DtRank rank;
        int fd;
        long first = 0;
        compile(arena, &cases[c], &plan);
        load(&plan, gemm, &options, &rank, &fd);
        cr_assert(dt_init_stores(&rank), "%s", rank.failure.message);
        for (rank.step = 0; rank.step < 6; rank.step++) {
            first = rank.step == 2 ? calls : first;
            run_entries(&rank, true);
        }
        long during = calls - first;
        cr_expect_eq(during, 0, "%s: %ld calls of the allocator", cases[c].path, during);
        dt_load_close(&rank);
        close(fd);
        dt_arena_free(arena);
    }
}

Test(high_water, steps_allocate_nothing_with_onednn) { count_calls(DT_GEMM_ONEDNN); }
Test(high_water, steps_allocate_nothing_with_openblas) { count_calls(DT_GEMM_OPENBLAS); }

Test(high_water, the_counter_counts)
{
    long before = calls;
    void *volatile at = malloc(10);
    free(at);
    cr_assert_eq(calls, before + 1);
}
#endif
