/* SPDX-License-Identifier: Apache-2.0 */
/* A module that is cut into two stages, with data parallelism, through codegen and four ranks
 * (threads): loss, both gradients, gradient norm and the update against the closed form in double.
 * The model is loss = sum (tanh(x) g0 g1)^2, its parameters the two iterations of one loop.
 *
 * Tolerance: sums of 64 products of a few roundings of 2^-24 each, relative to the largest:
 * 1e-5. */
#include "codegen/codegen.h"
#include "plan/read.h"
#include "passes/passes.h"
#include "runtime/runtime.h"
#include "tests/look.h"

#include "base/intern.h"
#include "ir/pipeline.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 16, WIDTH = 4, RANKS = 4 };
#define X  "f32[batch=16/micro.data, e=4]"
#define DW "f32[e=4]{sum micro.data}"
#define DG "f32[h=1, e=4]{sum micro.data}"
#define PARAMETER "f32[h=1, e=4] path=h.g pattern=h.#.g loops=1"

static const char text[] =
    "mesh micro=4 time, pipe=2, data=2\n"
    "store 0 : param " PARAMETER " init=normal(1, 0) stage=0 whole=2\n"
    "store 1 : param " PARAMETER " init=normal(1, 0) stage=1 first=1 whole=2\n"
    "store 2 : grad " PARAMETER " init=const(0, 0) of=0 stage=0 whole=2\n"
    "store 3 : grad " PARAMETER " init=const(0, 0) of=1 stage=1 first=1 whole=2\n"
    "store 4 : saved " X " path=y pattern=y init=const(0, 0) stage=0 depth=1\n"
    "store 5 : channel " X " path=y pattern=y init=const(0, 0) of=4 stage=1 depth=1\n"
    "store 6 : saved " X " path=dy pattern=dy init=const(0, 0) stage=1 depth=1\n"
    "store 7 : channel " X " path=dy pattern=dy init=const(0, 0) of=6 stage=0 depth=1\n"
    "store 8 : saved " X " path=t pattern=t init=const(0, 0) stage=0 depth=2\n"
    "func f0 : entry {\n"
    "  %x.0 = input() : " X " text=x\n"
    "  %w.1 = param() : f32[h=1, e=4] text=h.g store=0\n"
    "  %2 = relabel(%w.1) : f32[e=4] relabel(h ->)\n"
    "  %t.3 = tanh(%x.0) : " X "\n"
    "  %4 = mul(%t.3, %2) : " X "\n"
    "  return %4, %t.3\n"
    "}\n"
    "func f1 : entry {\n"
    "  %y.0 = param() : " X " text=y store=5\n"
    "  %w.1 = param() : f32[h=1, e=4] text=h.g store=1\n"
    "  %2 = relabel(%w.1) : f32[e=4] relabel(h ->)\n"
    "  %3 = mul(%y.0, %2) : " X "\n"
    "  %4 = mul(%3, %3) : " X "\n"
    "  %5 = reduce[batch, e](%4) : f32[]{sum micro.data}\n"
    "  return %5\n"
    "}\n"
    "func b1 : entry {\n"
    "  %y.0 = param() : " X " text=y store=5\n"
    "  %w.1 = param() : f32[h=1, e=4] text=h.g store=1\n"
    "  %2 = relabel(%w.1) : f32[e=4] relabel(h ->)\n"
    "  %3 = mul(%y.0, %2) : " X "\n"
    "  %4 = add(%3, %3) : " X "\n"
    "  %5 = mul(%4, %y.0) : " X "\n"
    "  %6 = reduce[batch](%5) : " DW "\n"
    "  %7 = relabel(%6) : " DG " relabel(-> h=1)\n"
    "  %8 = mul(%4, %2) : " X "\n"
    "  return %7, %8\n"
    "}\n"
    "func b0 : entry {\n"
    "  %dy.0 = param() : " X " text=dy store=7\n"
    "  %t.1 = param() : " X " text=t store=8\n"
    "  %2 = mul(%dy.0, %t.1) : " X "\n"
    "  %3 = reduce[batch](%2) : " DW "\n"
    "  %4 = relabel(%3) : " DG " relabel(-> h=1)\n"
    "  return %4\n"
    "}\n"
#define UPDATE(stage, w, g)                                       \
    "func u" stage " : entry {\n"                                 \
    "  %w.0 = param() : f32[h=1, e=4] text=h.g store=" w "\n"     \
    "  %g.1 = param() : f32[h=1, e=4] text=h.g store=" g "\n"     \
    "  %2 = const() : f32[] number=0.1\n"                         \
    "  %3 = mul(%g.1, %2) : f32[h=1, e=4]\n"                      \
    "  %4 = sub(%w.0, %3) : f32[h=1, e=4]\n"                      \
    "  %5 = mul(%g.1, %g.1) : f32[h=1, e=4]\n"                    \
    "  %6 = reduce[h, e](%5) : f32[]\n"                           \
    "  %7 = all_reduce(%6) : f32[] mesh={pipe} stages=(0, 1)\n"   \
    "  %8 = sqrt(%7) : f32[]\n"                                   \
    "  return %4, %8\n"                                           \
    "}\n"
    UPDATE("0", "0", "2") UPDATE("1", "1", "3")
    "entry grad.f0 : f0 stage=0 {\n  result store=4\n  result store=8\n}\n"
    "entry grad.f1 : f1 stage=1 {\n  result name=loss accumulate\n}\n"
    "entry grad.b1 : b1 stage=1 {\n  result store=3 accumulate\n  result store=6\n}\n"
    "entry grad.b0 : b0 stage=0 {\n  result store=2 accumulate\n}\n"
    "entry update.0 : u0 stage=0 {\n  result store=0\n  result name=grad_norm\n}\n"
    "entry update.1 : u1 stage=1 {\n  result store=1\n  result name=grad_norm\n}\n"
    "pipeline \"1f1b\" mesh=pipe stages=(0, 1) micro=4 {\n"
    "  run grad {\n"
    "    piece 0 : f=grad.f0 b=grad.b0\n"
    "    piece 1 : f=grad.f1 b=grad.b1\n"
    "    channel 0 : 0 -> 1 slots=2 stores=(5)\n"
    "    channel 1 : 1 -> 0 slots=1 stores=(7)\n"
    "    stage 0 : \"0F0 0SEND_F0 (0F1 0SEND_F1 0RECV_B0 0B0)*3+1 0RECV_B3 0B3\"\n"
    "    stage 1 : \"(1RECV_F0 1F0 1B0 1SEND_B0)*4+1\"\n"
    "  }\n"
    "}\n";

/* ---- the plan ---- */

static DtProgram *make_program(DtArena *arena)
{
    DtDiags *diags = dt_diag_new(arena);
    DtProgram *program = DT_NEW(arena, DtProgram);
    DtAxis axes[2] = {{.name = dt_intern("batch"), .extent = BATCH},
                      {.name = dt_intern("e"), .extent = WIDTH}};
    program->module = dt_irtext_read(arena, diags, text, strlen(text));
    if (!program->module)
        dt_diag_print(diags, stderr, false);
    cr_assert_not_null(program->module);
    program->train = DT_NEW(arena, DtTrainConfig);
    program->train->seed = 3;
    DtReader reader = {.kind = DT_SAMPLE_RAW,
                       .source = {.kind = DT_SOURCE_SYNTHETIC, .dtype = DT_F32, .lo = -1, .hi = 1,
                                  .to = 1}, .n_inputs = 1, .inputs = {dt_intern("x")},
                       .types = {dt_type_plain(DT_F32, 2, axes)}};
    DT_PUSH(arena, program->train->readers, reader);
    return program;
}

static void make_plan(DtArena *arena, DtPlan *ret_plan)
{
    uint8_t *bytes;
    size_t len;
    DtPlanBuilder *builder = dt_write_new(arena);
    DtCodegenOptions options = {.target = "cpu", .source = "test.dsl", .compiler = "test"};
    DtProgram *program = make_program(arena);
    dt_pass_fuse(program->module, &(DtPassContext){.train = program->train});
    dt_pass_memory(program->module, &(DtPassContext){.train = program->train});
    DtStatus status = dt_codegen_plan(program, &options, builder);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    dt_write_bytes(builder, &bytes, &len);
    status = dt_read_bytes(bytes, len, ret_plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

/* ---- the ranks ---- */

static void *run_step(void *context)
{
    DtRank *rank = context;
    dt_init_stores(rank);
    for (rank->step = 0; rank->step < 3; rank->step++)
        if (!dt_exec_entry(rank, "step") || (rank->step < 2 && !dt_exec_entry(rank, "update")))
            break;
    return NULL;
}

/* ---- the reference ---- */

typedef struct Model {
    double g[2][WIDTH], grad[2][WIDTH], loss;
} Model;

static void reference_step(const DtPlan *plan, const DtRunOptions *options, int64_t step,
                           Model *model)
{
    static float x[BATCH * WIDTH];
    DtData *data;
    char *inputs[1] = {(char *)x};
    DtStatus status = dt_data_open(options, plan, 0, &data);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_data_read(data, step, 0, BATCH, inputs);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    dt_data_close(data);
    memset(model->grad, 0, sizeof model->grad);
    model->loss = 0;
    for (int i = 0; i < BATCH * WIDTH; i++) {
        int e = i % WIDTH;
        double t = tanh((double)x[i]), z = t * model->g[0][e] * model->g[1][e];
        model->loss += z * z;
        model->grad[0][e] += 2 * z * t * model->g[1][e];
        model->grad[1][e] += 2 * z * t * model->g[0][e];
    }
}

static double update(Model *model)
{
    double squares = 0;
    for (int i = 0; i < 2 * WIDTH; i++) {
        double grad = model->grad[i / WIDTH][i % WIDTH];
        squares += grad * grad;
        model->g[i / WIDTH][i % WIDTH] -= 0.1 * grad;
    }
    return sqrt(squares);
}

static const float *store_of(const DtRank *rank, DtPlanStoreKind kind)
{
    for (uint32_t i = 0; i < rank->plan->n_stores; i++) {
        const DtPlanStore *store = &rank->plan->stores[i];
        if (store->kind == kind && dt_plan_on_stage(store->stage, rank->stage))
            return (const float *)(const void *)look_at(rank, store->arena, store->offset);
    }
    return NULL;
}

Test(stages, two_stages_by_two_replicas_train, .timeout = 60)
{
    DtArena *arena = dt_arena_new();
    DtPlan plan;
    DtRank ranks[RANKS] = {0};
    pthread_t threads[RANKS];
    DtRunOptions options = {.plan_path = "test.plan", .steps = -1, .quiet = true,
                            .gemm = DT_GEMM_PLAIN};
    Model model;
    int fd;
    make_plan(arena, &plan);
    cr_assert_eq(plan.meta->pipeline, 1);
    cr_assert_eq(plan.meta->parameters, 8);
    DtStatus status = dt_shared_create(&plan, 0, &fd);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (uint32_t r = 0; r < RANKS; r++) {
        status = dt_load_rank(&options, &plan, r, fd, &ranks[r]);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        dt_init_stores(&ranks[r]);
        cr_assert_eq(ranks[r].stage, r / 2);
        for (int e = 0; e < WIDTH; e++)
            model.g[r / 2][e] = (double)store_of(&ranks[r], DT_PLAN_PARAM)[e];
    }
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(pthread_create(&threads[r], NULL, run_step, &ranks[r]), 0);
    double norm = 0;
    for (int64_t step = 0; step < 3; step++) {
        reference_step(&plan, &options, step, &model);
        norm = step < 2 ? update(&model) : norm;
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        const DtRank *rank = &ranks[r];
        cr_assert(dt_status_ok(&rank->failure), "rank %u: %s", r, rank->failure.message);
        double loss = dt_exec_scalar(rank, dt_exec_metric(&plan, "step", "loss"));
        double grad_norm = dt_exec_scalar(rank, dt_exec_metric(&plan, "update", "grad_norm"));
        cr_expect_float_eq(loss, model.loss, 1e-5 * model.loss, "rank %u: loss %g, not %g", r, loss,
                           model.loss);
        cr_expect_float_eq(grad_norm, norm, 1e-5 * norm, "rank %u: norm %g, not %g", r, grad_norm,
                           norm);
        for (int e = 0; e < WIDTH; e++) {
            double g = (double)store_of(rank, DT_PLAN_PARAM)[e],
                   dg = (double)store_of(rank, DT_PLAN_GRAD)[e];
            cr_expect_float_eq(g, model.g[rank->stage][e], 1e-5, "rank %u: g %g, not %g", r, g,
                               model.g[rank->stage][e]);
            cr_expect_float_eq(dg, model.grad[rank->stage][e], 1e-5 * norm,
                               "rank %u: dg %g, not %g", r, dg, model.grad[rank->stage][e]);
        }
    }
    for (uint32_t r = 0; r < RANKS; r++)
        dt_load_close(&ranks[r]);
    close(fd);
    dt_arena_free(arena);
}

static DtArena *memory;
static DtPlan plan;

static void open_plan(void)
{
    memory = dt_arena_new();
    make_plan(memory, &plan);
}

static void close_plan(void) { dt_arena_free(memory); }

TestSuite(plan_of_stages, .init = open_plan, .fini = close_plan);

/* The repeated part of a schedule becomes one loop, in which a register selects the slots. */
Test(plan_of_stages, schedules_are_compressed)
{
    uint32_t loops = 0, sets = 0;
    for (uint32_t i = 0; i < plan.n_schedule; i++) {
        loops += plan.schedule[i].kind == DT_SCHED_LOOP;
        sets += plan.schedule[i].kind == DT_SCHED_SET && plan.schedule[i].reg == DT_PLAN_REG_SLOTS;
        if (plan.schedule[i].kind == DT_SCHED_LOOP)
            cr_expect_eq(plan.schedule[i].reg, DT_PLAN_REG_PERIOD);
        if (plan.schedule[i].kind == DT_SCHED_SET && plan.schedule[i].reg == DT_PLAN_REG_SLOTS)
            cr_expect_eq(plan.schedule[i].count, 2);
    }
    cr_expect_eq(loops, 2);
    cr_expect_eq(sets, 4); /* the calls: F0; F and B of the period; B3 */
    cr_expect_eq(plan.n_channels, 2);
    cr_expect_eq(plan.channels[0].slots, 2);
    cr_expect_lt(dt_plan_arena_bytes(&plan, DT_ARENA_KINDS, 1),
                 dt_plan_arena_bytes(&plan, DT_ARENA_KINDS, 0));
}

/* The schedules of stages differ only slightly. */
Test(plan_of_stages, equal_arguments_are_there_once)
{
    uint32_t n_args = 0, n_shared = 0;
    for (uint32_t i = 0; i < plan.n_insts; i++) {
        const DtPlanInst *a = &plan.insts[i];
        n_args += a->n_args;
        for (uint32_t k = 0; k < i; k++) {
            const DtPlanInst *b = &plan.insts[k];
            bool equal = a->n_args && a->n_args == b->n_args &&
                         memcmp(plan.args + a->first_arg, plan.args + b->first_arg,
                                a->n_args * sizeof(DtPlanArg)) == 0;
            n_shared += equal;
            cr_expect(!equal || a->first_arg == b->first_arg, "instructions %u and %u", k, i);
        }
    }
    cr_expect_gt(n_shared, 0);
    cr_expect_lt(plan.n_args, n_args);
}
