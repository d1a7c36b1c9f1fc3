/* SPDX-License-Identifier: Apache-2.0 */
/* The judge accepts a layout that is right, and refuses a placed program with one fault. It also
 * shrinks a large program to a small one with the same layout. */
#include "passes/check/internal.h"
#include "tests/share.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>


typedef struct Pair {
    DtArena *arena;
    DtJudgeCase c;
} Pair;

static DtLowerOptions options_of(const char *parallel)
{
    static const DtOption dims[] = {{"batch", "8"}, {"seq", "6"},    {"vocab", "7"},
                                    {"embed", "8"}, {"layers", "2"}, {"heads", "2"}};
    return (DtLowerOptions){.path = "tests/check/wide.dsl",
                            .library = "lib",
                            .dims = dims,
                            .n_dims = DT_COUNT(dims),
                            .parallel = parallel,
                            .synthetic = true};
}

/* The serial and the placed module of tests/check/wide.dsl under `parallel some`. */
static Pair make_pair(void)
{
    DtArena *arena = dt_arena_new();
    DtLowerOptions options = options_of("some");
    DtDiags *diags = dt_diag_new(arena);
    const DtProgram *program = dt_judge_place(arena, diags, &options);
    if (!program)
        dt_diag_print(diags, stderr, false);
    cr_assert(program != NULL);
    const DtProgram *plain = dt_lower(arena, dt_diag_new(arena), &options);
    return (Pair){arena,
                  {.arena = arena,
                   .serial = dt_judge_serial(arena, &options),
                   .placed = program->module,
                   .loss = plain->module,
                   .train = program->train,
                   .steps = 2}};
}

/* Returns the problem that the judge reports; empty: none. */
static const char *judge(Pair *pair)
{
    DtJudgement judgement;
    bool equal = dt_judge_compare(&pair->c, &judgement);
    cr_expect_eq(equal, judgement.problem.len == 0);
    const char *said =
        equal ? "" : dt_arena_strndup(pair->arena, judgement.problem.at, judgement.problem.len);
    dt_text_free(&judgement.problem);
    return said;
}

Test(judge, a_right_layout)
{
    Pair pair = make_pair();
    DtJudgement judgement;
    cr_assert(dt_judge_compare(&pair.c, &judgement), "%s", judgement.problem.at);
    cr_expect_eq(judgement.ranks, 4);
    cr_expect_eq(judgement.micro, 2);
    cr_assert_eq(judgement.rows.n, 4, "grad, update, eval, predict");
    for (uint32_t i = 0; i < judgement.rows.n; i++) {
        cr_expect(judgement.rows.at[i].values > 0 && judgement.rows.at[i].worst < 1e-13);
        cr_expect_eq(judgement.rows.at[i].zeros, 0, "%s", judgement.rows.at[i].entry);
    }
    dt_arena_free(pair.arena);
}

/* ---- one thing wrong ---- */

static DtEntryPoint *entry(Pair *pair, const char *name)
{
    return dt_entry_named(pair->c.placed, name);
}

/* Returns the first op of this kind in a function of this entry, or in its loops. */
static DtOp *find_op(const DtFunc *func, DtOpKind kind)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i], *inner = op->func ? find_op(op->func, kind) : NULL;
        if (op->kind == kind || inner)
            return op->kind == kind ? op : inner;
    }
    return NULL;
}

Test(judge, a_result_that_does_not_add_up)
{
    Pair pair = make_pair();
    entry(&pair, "grad")->results.at[1].accumulate ^= true;
    cr_expect(strstr(judge(&pair), "entry grad, step 0"), "%s", judge(&pair));
    dt_arena_free(pair.arena);
}

Test(judge, another_random_draw)
{
    Pair pair = make_pair();
    find_op(entry(&pair, "grad")->func, DT_OP_RNG)->text = "elsewhere";
    cr_expect(strstr(judge(&pair), "loss differs"), "%s", judge(&pair));
    dt_arena_free(pair.arena);
}

/* If ranks hold different copies of a value, the judge names the value's line, even if results are
 * not compared. */
Test(judge, copies_that_differ)
{
    Pair pair = make_pair();
    DtFunc *func = entry(&pair, "grad.prologue")->func;
    DtOp *iota = find_op(func, DT_OP_REDUCE);
    cr_assert(iota != NULL);
    const DtType *type = iota->out[0]->type;
    cr_assert(type->partial != 0, "the number of valid labels is a sum over ranks");
    iota->out[0]->type = dt_type_scalar(type->dtype); /* "complete" */
    const char *said = judge(&pair);
    cr_expect(strstr(said, "ranks hold different copies") && strstr(said, "wide.dsl:"), "%s", said);
    dt_arena_free(pair.arena);
}

/* Changes a factor of the update: the last constant of the multiplications, which belongs to weight
 * decay. */
static bool decays_more(const DtFunc *func, double by)
{
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i], *number = op->kind == DT_OP_MUL ? op->in[0]->op : NULL;
        if (op->func && decays_more(op->func, by))
            return true;
        if (!number || number->kind != DT_OP_CONST || op->out[0]->type->rank == 0)
            continue;
        ((DtOp *)(uintptr_t)number)->number += by;
        return true;
    }
    return false;
}

Test(judge, a_wrong_factor_in_the_update)
{
    Pair pair = make_pair();
    cr_assert(decays_more(entry(&pair, "update")->func, 1e-6));
    cr_expect(strstr(judge(&pair), "entry update, step 0: parameter"), "%s", judge(&pair));
    dt_arena_free(pair.arena);
}

Test(judge, a_constant_of_the_backward_part)
{
    Pair pair = make_pair();
    const DtFunc *func = entry(&pair, "grad")->func;
    DtOp *sign = NULL; /* the last op of a kernel */
    for (uint32_t i = func->ops.n; i-- > 0 && !sign;)
        sign =
            func->ops.at[i]->kind == DT_OP_FUSED ? find_op(func->ops.at[i]->func, DT_OP_NEG) : NULL;
    cr_assert_not_null(sign);
    sign->kind = DT_OP_ABS; /* one cotangent loses its sign */
    cr_expect(strstr(judge(&pair), "differs by"), "%s", judge(&pair));
    dt_arena_free(pair.arena);
}

/* ---- roundings ---- */

/* Returns the first constant with this value in a function of this entry, or in its loops. */
static DtOp *find_constant(const DtFunc *func, double number)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i], *inner = op->func ? find_constant(op->func, number) : NULL;
        if (inner || (op->kind == DT_OP_CONST && op->number == number))
            return inner ? inner : op;
    }
    return NULL;
}

/* Judges a program under its layout `both`, after adding a number to a factor in the placed copy.
 * layers: NULL, or a text. */
static DtJudgement judge_changed(Pair *pair, const char *path, const char *layers, double factor,
                                 double added)
{
    DtJudgement judgement;
    const DtOption dims[] = {{"layers", layers}};
    DtLowerOptions options = {.path = path,
                              .library = "lib",
                              .dims = dims,
                              .n_dims = layers != NULL,
                              .parallel = "both",
                              .synthetic = true};
    pair->arena = dt_arena_new();
    DtProgram *program = dt_judge_place(pair->arena, dt_diag_new(pair->arena), &options);
    cr_assert(program != NULL);
    DtModule *serial = dt_judge_serial(pair->arena, &options);
    find_constant(dt_entry_named(program->module, "grad")->func, factor)->number += added;
    pair->c = (DtJudgeCase){.arena = pair->arena,
                            .serial = serial,
                            .placed = program->module,
                            .train = program->train,
                            .steps = 2};
    dt_judge_compare(&pair->c, &judgement);
    return judgement;
}

/* centred.dsl keeps the mean of centred values in a state. It is about 1e-17, and every order of
 * additions gives another number, so the judge must not compare it. */
Test(judge, roundings_of_zero)
{
    Pair pair;
    DtJudgement judgement = judge_changed(&pair, "tests/check/centred.dsl", NULL, 1.5, 0);
    cr_expect_eq(judgement.problem.len, 0, "%s", judgement.problem.at);
    cr_expect_eq(judgement.rows.at[0].zeros, 2, "the state in both steps: %u",
                 judgement.rows.at[0].zeros);
    cr_expect(judgement.rows.at[0].worst < 1e-13);
    dt_arena_free(pair.arena);
    judgement = judge_changed(&pair, "tests/check/centred.dsl", NULL, 1.5, 1e-9);
    cr_expect(judgement.problem.len && strstr(judgement.problem.at, "differs by"),
              "a wrong factor");
    dt_text_free(&judgement.problem);
    dt_arena_free(pair.arena);
}

/* deep.dsl magnifies rounding errors. So differences are compared with those that the serial
 * program itself shows. A factor that is wrong by 1e-7 is still found. If the program magnifies too
 * much, the judge must not call the layout equal. */
Test(judge, roundings_that_are_magnified)
{
    Pair pair;
    DtJudgement judgement = judge_changed(&pair, "tests/check/deep.dsl", NULL, 0.25, 0);
    cr_expect_eq(judgement.problem.len, 0, "%s", judgement.problem.at);
    cr_expect(judgement.rows.at[0].magnified > 0 && judgement.rows.at[0].most > 1e-10);
    cr_expect(judgement.rows.at[0].worst <= 1e-10);
    dt_arena_free(pair.arena);
    judgement = judge_changed(&pair, "tests/check/deep.dsl", NULL, 0.25, 1e-7);
    cr_expect(judgement.problem.len && strstr(judgement.problem.at, "differs by"),
              "a wrong factor");
    cr_expect(!judgement.not_stable, "%s", judgement.problem.at);
    dt_text_free(&judgement.problem);
    dt_arena_free(pair.arena);
    judgement = judge_changed(&pair, "tests/check/deep.dsl", "240", 0.25, 0);
    cr_expect(judgement.not_stable && strstr(judgement.problem.at, "proves nothing"), "%s",
              judgement.problem.at);
    dt_text_free(&judgement.problem);
    dt_arena_free(pair.arena);
}

/* ---- 16 bits ---- */

/* The verdict on a layout of sixteen.dsl in a precision; ret_worst: the largest difference. */
static DtJudgeVerdict judge_rounding(const char *layout, const char *precision, double *ret_worst)
{
    static const DtOption dims[] = {
        {.name = "batch", .value = "8"},  {.name = "seq", .value = "8"},
        {.name = "vocab", .value = "16"}, {.name = "embed", .value = "16"},
        {.name = "heads", .value = "4"},  {.name = "layers", .value = "4"}};
    DtArena *arena = dt_arena_new();
    const DtOption set = {.name = "train.precision", .value = precision};
    DtLowerOptions options = {.path = "tests/check/sixteen.dsl",
                              .library = "lib",
                              .dims = dims,
                              .n_dims = DT_COUNT(dims),
                              .sets = &set,
                              .n_sets = 1,
                              .parallel = layout};
    const DtJudgeProgram task = {.options = &options,
                                 .steps = 1,
                                 .as_it_is = true,
                                 .rounds = true};
    DtJudgement judgement;
    DtText shrunk = {0};
    DtDiags *diags = dt_diag_new(arena);
    DtJudgeVerdict verdict = dt_judge_program(arena, diags, &task, &judgement, &shrunk);
    *ret_worst = 0;
    for (uint32_t i = 0; i < judgement.rows.n; i++)
        *ret_worst = fmax(*ret_worst, judgement.rows.at[i].worst);
    if (verdict != DT_JUDGE_EQUAL)
        fprintf(stderr, "%s, %s: %s\n", layout, precision,
                judgement.problem.len ? judgement.problem.at : "rejected");
    dt_text_free(&judgement.problem);
    dt_text_free(&shrunk);
    dt_arena_free(arena);
    return verdict;
}

/* A layout rounds in other places than one rank does. Its results may differ by a few roundings,
 * and must not be required to be equal. */
Test(judge, layouts_in_16_bits)
{
    static const char *const layouts[] = {"tensor", "ulysses", "ring", "shared", "stages"};
    static const char *const precisions[] = {
        "mixed(compute = bf16, params = f32, grads = f32)",
        "mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)",
        "mixed(compute = f16, params = f32, grads = f32, loss_scale = dynamic)"};
    double worst, most = 0;
    for (size_t i = 0; i < DT_COUNT(layouts); i++)
        for (size_t k = 0; k < DT_COUNT(precisions); k++) {
            if (!share_has((unsigned)(i * DT_COUNT(precisions) + k)))
                continue;
            cr_expect_eq(judge_rounding(layouts[i], precisions[k], &worst), DT_JUDGE_EQUAL,
                         "%s, %s", layouts[i], precisions[k]);
            most = fmax(most, worst);
        }
    cr_expect_gt(most, 1e-4, "nothing was rounded: %g", most);
}

/* ---- the serial program itself ---- */

/* Doubles result i of the serial entry in the placed copy. */
static void double_result(Pair *pair, const char *name, uint32_t i)
{
    DtFunc *func = dt_entry_named(pair->c.serial, name)->func;
    DtBuilder b = {.func = func};
    func->results.at[i] = dt_graph_binary(&b, DT_OP_ADD, func->results.at[i], func->results.at[i]);
    dt_graph_renumber(func);
}

/* Doubles, one at a time, each value of the serial entry that belongs to a store of this kind: the
 * judge must name that value. */
static void expect_found(const char *name, DtStoreKind kind, const char *why)
{
    const Pair right = make_pair();
    const uint32_t n = dt_entry_named(right.c.serial, name)->results.n;
    dt_arena_free(right.arena);
    for (uint32_t i = 0; i < n; i++) {
        Pair pair = make_pair();
        const DtStore *store = dt_entry_named(pair.c.serial, name)->results.at[i].store;
        if (store && store->kind == kind) {
            double_result(&pair, name, i);
            const char *said = judge(&pair);
            cr_expect(strstr(said, why) &&
                          strstr(said, dt_arena_printf(pair.arena, "`%s`", store->path)),
                      "%s: %s", store->path, said);
        }
        dt_arena_free(pair.arena);
    }
}

Test(judge, a_wrong_gradient_is_named)
{
    expect_found("grad", DT_STORE_GRAD, "is not the derivative of the loss");
}
Test(judge, a_wrong_update_is_named)
{
    expect_found("update", DT_STORE_PARAM, "the formulas of the optimizer");
}
Test(judge, a_wrong_moment_is_named)
{
    expect_found("update", DT_STORE_MOMENT2, "the formulas of the optimizer");
}

/* Replaces a product by a sum in the backward function of one library function: the judge must name
 * that function, and not those that call it. */
Test(judge, the_function_whose_derivative_is_wrong_is_named)
{
    Pair pair = make_pair();
    const char *name = NULL;
    uint32_t changed = 0;
    for (uint32_t i = 0; i < pair.c.serial->funcs.n; i++) {
        const DtFunc *func = pair.c.serial->funcs.at[i];
        bool calls = false;
        for (uint32_t k = 0; k < func->ops.n; k++)
            calls = calls || func->ops.at[k]->func;
        if (!func->library || calls || !func->bwd || func->bwd->primal != func || changed)
            continue;
        for (uint32_t k = 0; k < func->bwd->ops.n && !changed; k++)
            if (func->bwd->ops.at[k]->kind == DT_OP_MUL) {
                func->bwd->ops.at[k]->kind = DT_OP_ADD;
                name = dt_graph_source_name(func);
                changed++;
            }
    }
    cr_assert_eq(changed, 1, "no derivative of a library function with a product");
    const char *said = judge(&pair);
    cr_expect(strstr(said, "is not the derivative of the loss") &&
                  strstr(said, dt_arena_printf(pair.arena, "and `%s` alone", name)),
              "%s", said);
    dt_arena_free(pair.arena);
}

Test(judge, a_parameter_that_decays_more_than_it_should)
{
    Pair pair = make_pair();
    cr_assert(decays_more(dt_entry_named(pair.c.serial, "update")->func, 0.1));
    cr_expect(strstr(judge(&pair), "the formulas of the optimizer"));
    dt_arena_free(pair.arena);
}

/* ---- sums over stages ---- */

/* T5 on three stages. On the first stage alone, one term of the gradients' norm is in no bucket:
 * that of `rel_d`, to whose gradient no other stage contributes. So this stage's term of the sum
 * over stages is already complete over the replicas. */
Test(judge, stages_add_what_is_complete)
{
    static const DtOption dims[] = {{.name = "batch", .value = "16"}, {.name = "src", .value = "8"},
                                    {.name = "tgt", .value = "8"}, {.name = "vocab", .value = "16"},
                                    {.name = "enc", .value = "3"}, {.name = "dec", .value = "3"},
                                    {.name = "embed", .value = "8"},
                                    {.name = "heads", .value = "4"}, {.name = "head", .value = "4"},
                                    {.name = "ffn", .value = "8"},
                                    {.name = "buckets", .value = "8"}};
    static const DtOption sets[] = {{.name = "parallel.mesh.pipe", .value = "3"},
                                    {.name = "parallel.mesh.data", .value = "2"},
                                    {.name = "parallel.mesh.tensor", .value = "1"},
                                    {.name = "parallel.micro.batch", .value = "2"},
                                    {.name = "cluster.nodes", .value = "1"},
                                    {.name = "cluster.gpus", .value = "6"}};
    DtArena *arena = dt_arena_new();
    DtLowerOptions options = {.path = "examples/t5.dsl",
                              .library = "lib",
                              .dims = dims,
                              .n_dims = DT_COUNT(dims),
                              .sets = sets,
                              .n_sets = DT_COUNT(sets),
                              .parallel = "pp",
                              .synthetic = true};
    const DtJudgeProgram task = {
        .options = &options, .steps = 2, .as_it_is = true};
    DtJudgement judgement;
    DtText shrunk = {0};
    DtDiags *diags = dt_diag_new(arena);
    cr_expect_eq(dt_judge_program(arena, diags, &task, &judgement, &shrunk), DT_JUDGE_EQUAL, "%s",
                 judgement.problem.len ? judgement.problem.at : "rejected");
    dt_text_free(&judgement.problem);
    dt_text_free(&shrunk);
    dt_arena_free(arena);
}

/* ---- shrinking ---- */

Test(judge, a_large_program_becomes_small)
{
    DtArena *arena = dt_arena_new();
    DtLowerOptions options = {.path = "tests/check/wide.dsl", .library = "lib", .parallel = "all"};
    const DtJudgeProgram task = {
        .options = &options, .steps = 1};
    DtJudgement judgement;
    DtText shrunk = {0};
    DtDiags *diags = dt_diag_new(arena);
    DtJudgeVerdict verdict = dt_judge_program(arena, diags, &task, &judgement, &shrunk);
    cr_assert_eq(verdict, DT_JUDGE_EQUAL);
    cr_expect_eq(judgement.ranks, 4);
    cr_expect_eq(judgement.micro, 2);
    cr_expect(strstr(shrunk.at, "outer=2 (4) inner=2 (16) micro=2 (8)"), "%s", shrunk.at);
    cr_expect(strstr(shrunk.at, "batch=8"), "8 parts of the batch: %s", shrunk.at);
    dt_text_free(&judgement.problem);
    dt_text_free(&shrunk);
    dt_arena_free(arena);
}
