/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of whole programs on one rank and on several, each a process. Every byte of every arena is
 * poisoned, twice with other patterns, and all entries run: a byte that kept its pattern both times
 * was not written. The highest byte that was written is the high-water mark of the arena. It must
 * equal the arena's size in the plan for the rank's stage, up to alignment. Besides, when a program
 * runs on one rank, neither our code nor the library for products calls the allocator between steps
 * 2 and 6, evaluations included. */
#include "base/intern.h"
#include "codegen/codegen.h"
#include "frontend/lower.h"
#include "passes/passes.h"
#include "plan/read.h"
#include "runtime/rank.h"
#include "tests/look.h"
#ifdef COUNT_CALLS /* not in builds with sanitizers */
#include "tests/count_calls.h"
#endif

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- plans ---- */

typedef struct Case {
    const char *path;
    const DtOption dims[8];
    uint32_t n_dims;
    const char *precision;
    int64_t micro;
    /* lines of a parallel block for this number of ranks; NULL: one rank */
    const char *cluster, *ranks, *layout;
} Case;

#define QUICKSTART(seq_)                                                           \
    "examples/quickstart.dsl", {{"batch", "8"},  {"seq", seq_},   {"vocab", "32"}, \
                                {"layers", "4"}, {"embed", "16"}, {"heads", "2"}}, \
        6, NULL, 1, "laptop"
#define MOE                                                                              \
    "examples/moe.dsl", {{"batch", "8"},  {"pool", "4"},  {"seq", "8"}, {"vocab", "16"}, \
                         {"layers", "2"}, {"embed", "8"}, {"kv", "2"},  {"ffn", "8"}},   \
        8, NULL, 1, "pod"

static const Case cases[] = {
    {"examples/quickstart.dsl",
     {{"batch", "4"}, {"seq", "70"}, {"layers", "2"}, {"embed", "16"}, {"heads", "2"}},
     5,
     NULL,
     1,
     NULL,
     NULL,
     NULL},
    {"examples/quickstart.dsl",
     {{"batch", "4"}, {"seq", "70"}, {"layers", "2"}, {"embed", "16"}, {"heads", "2"}},
     5,
     "mixed(compute = bf16)",
     2,
     NULL,
     NULL,
     NULL},
    {"examples/vgg16.dsl",
     {{"batch", "2"}, {"side", "32"}, {"c0", "2"}, {"classes", "5"}, {"fc", "6"}},
     5,
     "mixed(compute = f16, loss_scale = 1)",
     1,
     NULL,
     NULL,
     NULL},
};

/* Enough positions for a ring to fill whole blocks of attention: with fewer, the scratch memory of
 * a block would not be used completely. */
static const Case spread[] = {
    {QUICKSTART("16"), "4",
     "mesh data = 2, tensor = 2; shard batch on data; shard heads, ffn, vocab on tensor; "
     "zero 1 on data"},
    {QUICKSTART("16"), "2",
     "mesh tensor = 2; shard heads, ffn, vocab on tensor; shard seq on tensor; remat h"},
    {QUICKSTART("16"), "2",
     "mesh data = 2; shard batch on data; zero 2 on data; micro batch = 2; remat h"},
    {QUICKSTART("16"), "2", "mesh data = 2; shard batch on data; zero 3 on data (prefetch = 1)"},
    {QUICKSTART("256"), "2",
     "mesh context = 2; shard seq on context; shard kseq on context (ring = true)"},
    {QUICKSTART("16"), "2", "mesh pipe = 2; pipeline h on pipe; micro batch = 4; remat h"},
    {QUICKSTART("16"), "4",
     "mesh pipe = 2, tensor = 2; shard heads, ffn, vocab on tensor; micro batch = 4; "
     "pipeline h on pipe (schedule = \"interleaved_1f1b\", chunks = 2)"},
    {QUICKSTART("16"), "4",
     "mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; zero 1 on data; "
     "pipeline h on pipe (schedule = \"zb_v\", chunks = 2)"},
    {QUICKSTART("16"), "2",
     "mesh pipe = 2; pipeline h on pipe (schedule = \"zb_h1\"); micro batch = 4"},
    {MOE, "2", "mesh expert = 2; shard experts on expert; shard batch on expert"},
};

static void compile(DtArena *arena, const Case *c, DtPlan *ret_plan)
{
    DtDiags *diags = dt_diag_new(arena);
    const DtOption precision = {"train.precision", c->precision};
    const DtOption size[] = {{dt_arena_printf(arena, "%s.gpus", c->cluster), c->ranks},
                             {dt_arena_printf(arena, "%s.nodes", c->cluster), "1"}};
    const char *block =
        c->layout ? dt_arena_printf(arena, "parallel auto on %s { %s }", c->cluster, c->layout)
                  : NULL;
    DtProgram *program =
        dt_lower(arena, diags,
                 &(DtLowerOptions){.path = c->path,
                                   .library = "lib",
                                   .dims = c->dims,
                                   .n_dims = c->n_dims,
                                   .parallel = c->layout ? "auto" : "none",
                                   .block = block,
                                   .synthetic = true,
                                   .sets = c->layout ? size : &precision,
                                   .n_sets = c->layout ? DT_COUNT(size) : c->precision != NULL});
    if (!program || dt_diag_errors(diags))
        dt_diag_print(diags, stderr, false);
    cr_assert_not_null(program);
    DtParallelConfig parallel = {.name = "cut", .micro_axis = dt_intern("batch"),
                                 .micro = c->micro};
    program->parallel = c->micro > 1 ? &parallel : program->parallel;
    DtPassContext context = {.train = program->train, .parallel = program->parallel,
                             .cluster = program->cluster};
    dt_passes_run(program->module, &context, NULL, NULL);
    cr_assert_eq(dt_diag_errors(diags), 0);
    DtPlanBuilder *builder = dt_write_new(arena);
    DtStatus status = dt_codegen_plan(
        program,
        &(DtCodegenOptions){.target = "cpu", .source = "t", .source_folder = "", .compiler = "t"},
        builder);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    uint8_t *bytes;
    size_t len;
    dt_write_bytes(builder, &bytes, &len);
    status = dt_read_bytes(bytes, len, ret_plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static void load(const DtPlan *plan, uint32_t number, DtGemmKind gemm, int fd,
                 DtRunOptions *options, DtRank *rank)
{
    *options = (DtRunOptions){.plan_path = "test.plan",
                              .steps = -1,
                              .quiet = true,
                              .gemm = gemm,
                              .data_synthetic = true,
                              .generate = ""}; /* this makes memory for predictions exist */
    memset(rank, 0, sizeof *rank);
    const DtStatus status = dt_load_rank(options, plan, number, fd, rank);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static int share(const DtPlan *plan)
{
    int fd;
    const DtStatus status = dt_shared_create(plan, 0, &fd);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    return fd;
}

static void run_entries(DtRank *rank, bool all)
{
    static const char *const entries[] = {"step", "update", "eval", "predict"};
    for (size_t i = 0; i < (all ? DT_COUNT(entries) : 2); i++) {
        bool present = false;
        for (uint32_t k = 0; k < rank->plan->n_entries; k++)
            present |= !strcmp(dt_plan_str(rank->plan, rank->plan->entries[k].name), entries[i]);
        if (present && !dt_exec_entry(rank, entries[i])) /* the asserting macro allocates memory, so
                                                          * it is not used here */
            cr_assert_fail("%s: %s", entries[i], rank->failure.message);
    }
}

/* ---- high-water marks ---- */

/* Shared by all processes of a case: a byte of `touched` for each byte of each rank's arenas. */
typedef struct Marks {
    pthread_barrier_t poisoned, done;
    bool touched[];
} Marks;

static size_t bytes_of_rank(const DtPlan *plan)
{
    size_t bytes = 0;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        bytes += (size_t)plan->arenas[a].bytes;
    return bytes;
}

static Marks *open_marks(const DtPlan *plan)
{
    pthread_barrierattr_t attr;
    const size_t bytes = sizeof(Marks) + plan->meta->n_ranks * bytes_of_rank(plan);
    Marks *marks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(marks, MAP_FAILED);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&marks->poisoned, &attr, plan->meta->n_ranks);
    pthread_barrier_init(&marks->done, &attr, plan->meta->n_ranks);
    pthread_barrierattr_destroy(&attr);
    return marks;
}

/* Writes zeros into all inputs, in place of a source of data and of the files that `predict`
 * reads. */
static void write_inputs(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[i];
        const int64_t rows = plan->axes[input->first_axis].local;
        memset(look_at(rank, input->arena, input->offset), 0,
               (size_t)(rows * input->row_elements * dt_kinds_size(input->dtype)));
    }
}

/* Marks the bytes of each arena of the rank that differ from the pattern after all entries have
 * run. Other ranks may access the arena, so none is overwritten while another rank runs, or
 * freed. */
static void mark(const DtPlan *plan, uint32_t number, int fd, int pattern, Marks *marks)
{
    DtRunOptions options;
    DtRank rank;
    bool *touched = marks->touched + number * bytes_of_rank(plan);
    load(plan, number, DT_GEMM_DEFAULT, fd, &options, &rank);
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        if (dt_plan_arena_bytes(plan, a, rank.stage))
            memset(look_at(&rank, a, 0), pattern, (size_t)dt_plan_arena_bytes(plan, a, rank.stage));
    pthread_barrier_wait(&marks->poisoned);
    cr_assert(dt_init_stores(&rank), "%s", rank.failure.message);
    write_inputs(&rank);
    run_entries(&rank, true);
    pthread_barrier_wait(&marks->done);
    for (uint32_t a = 0; a < plan->n_arenas; touched += plan->arenas[a++].bytes)
        for (int64_t i = 0; i < dt_plan_arena_bytes(plan, a, rank.stage); i++)
            touched[i] |= (unsigned char)*look_at(&rank, a, i) != pattern;
    dt_load_close(&rank);
}

/* Runs all ranks, each in a process of its own. */
static void mark_all(const DtPlan *plan, int pattern, Marks *marks)
{
    const int fd = share(plan);
    int good = 0;
    for (uint32_t r = 0; r < plan->meta->n_ranks; r++)
        if (fork() == 0) {
            alarm(60);
            mark(plan, r, fd, pattern, marks);
            _exit(0);
        }
    for (uint32_t r = 0; r < plan->meta->n_ranks; r++) {
        int status;
        wait(&status);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    cr_assert_eq(good, (int)plan->meta->n_ranks, "%d ranks of %u ended well", good,
                 plan->meta->n_ranks);
    close(fd);
}

/* Returns the highest byte that any rank of the stage has written. Arenas of inputs have the same
 * size on all stages, so for these all stages are considered. */
static int64_t high_water(const DtPlan *plan, const Marks *marks, uint32_t arena, uint32_t stage)
{
    const bool common = plan->arenas[arena].kind == DT_ARENA_INPUTS;
    int64_t most = 0;
    size_t before = 0;
    for (uint32_t a = 0; a < arena; a++)
        before += (size_t)plan->arenas[a].bytes;
    for (uint32_t r = 0; r < plan->meta->n_ranks; r++) {
        const bool *touched = marks->touched + r * bytes_of_rank(plan) + before;
        int64_t high =
            common || dt_rank_stage(plan, r) == stage ? dt_plan_arena_bytes(plan, arena, stage) : 0;
        while (high > 0 && !touched[high - 1])
            high--;
        most = high > most ? high : most;
    }
    return most;
}

static void expect_marks(const Case *c)
{
    DtArena *arena = dt_arena_new();
    DtPlan plan;
    compile(arena, c, &plan);
    Marks *marks = open_marks(&plan);
    mark_all(&plan, 0xff, marks);
    mark_all(&plan, 0x35, marks);
    for (uint32_t stage = 0; stage < dt_plan_stages(&plan); stage++)
        for (uint32_t a = 0; a < plan.n_arenas; a++) {
            const int64_t bytes = dt_plan_arena_bytes(&plan, a, stage),
                          high = high_water(&plan, marks, a, stage);
            /* the runtime writes it between entries */
            const bool scalars = plan.arenas[a].kind == DT_ARENA_SCALARS;
            cr_expect(scalars || bytes - high < DT_PLAN_ALIGN,
                      "%s, %s, stage %u, arena `%s`: %lld bytes planned, %lld used", c->path,
                      c->layout ? c->layout : "one rank", stage,
                      dt_plan_str(&plan, plan.arenas[a].name), (long long)bytes, (long long)high);
        }
    munmap(marks, sizeof(Marks) + plan.meta->n_ranks * bytes_of_rank(&plan));
    dt_arena_free(arena);
}

Test(high_water, marks_are_what_the_plan_says)
{
    for (size_t c = 0; c < DT_COUNT(cases); c++)
        expect_marks(&cases[c]);
}

Test(high_water, marks_of_several_ranks_are_what_the_plan_says)
{
    for (size_t c = 0; c < DT_COUNT(spread); c++)
        expect_marks(&spread[c]);
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
        long first = 0;
        compile(arena, &cases[c], &plan);
        const int fd = share(&plan);
        load(&plan, 0, gemm, fd, &options, &rank);
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
