/* SPDX-License-Identifier: Apache-2.0 */
/* Whole programs, from source text through the lowering and all passes: the gradient of every
 * parameter against central differences of the loss, for every library function
 * (tests/passes/programs) and for the programs of examples/, shrunk. Parameters get their initial
 * values plus noise, so that no gain is 1 and no bias
 * 0. Then inlining and merging must not change a bit. */
#include "program_run.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Evaluates the function that the frontend made, and returns its first result, the loss. */
static double loss(Run *run, const DtFunc *func)
{
    dt_arena_reset(run->scratch);
    return *evaluate(run, func, run->scratch)[0]->at;
}

static void check_gradient(Run *run, const DtFunc *plain, const DtStore *store,
                           const DtTensor *gradient)
{
    static const double step = 1e-6, tolerance = 1e-6;
    DtTensor *p = run->stores[store->index];
    DtTensor *direction = dt_interp_tensor(run->arena, gradient->type);
    cr_assert_eq(gradient->type, dt_type_with_dtype(p->type, DT_F32), "`grads` is f32");
    double *kept = p->at, side[2];
    double *moved = DT_NEW_ARRAY(run->arena, double, dt_type_elements(p->type));
    unsigned seed = 100 + store->index;
    fill_lattice(direction, -1, 1, &seed);
    p->at = moved;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < dt_type_elements(p->type); i++)
            moved[i] = kept[i] + (k == 0 ? step : -step) * direction->at[i];
        side[k] = loss(run, plain);
    }
    p->at = kept;
    const double want = (side[0] - side[1]) / (2 * step), got = dot_tensors(gradient, direction);
    const double scale = fmax(fabs(want), fmax(fabs(got), 1e-2));
    const double rounded = 8 * DBL_EPSILON * fabs(side[0]) / step; /* the losses are sums */
    cr_expect(fabs(got - want) <= tolerance * scale + rounded,
              "`%s`: backward %.12g, difference quotient %.12g", store->path, got, want);
}

static void check_program(const Program *p)
{
    Run run;
    run_begin(&run, p);
    const DtFunc *plain = entry(&run, "loss")->func;
    const DtPassContext context = {.train = run.program->train};
    dt_pass_differentiate(run.module, &context);
    expect_valid(run.module);
    init_stores(&run);
    const DtEntryPoint *grad = entry(&run, "grad");
    DtTensor **results = evaluate(&run, grad->func, run.arena);
    cr_expect_eq(*results[0]->at, loss(&run, plain), "the loss differs");
    uint32_t n = 0;
    for (uint32_t i = 0; i < grad->results.n; i++) {
        const DtStore *s = grad->results.at[i].store;
        if (s == NULL || s->kind != DT_STORE_GRAD)
            continue;
        n++;
        check_gradient(&run, plain, s->of, results[i]);
    }
    cr_expect(n > 0, "no gradients");
    dt_pass_inline(run.module, &context);
    expect_valid(run.module);
    dt_pass_cse(run.module, &context);
    expect_valid(run.module);
    DtTensor **again = evaluate(&run, grad->func, run.arena);
    for (uint32_t i = 0; i < grad->results.n; i++)
        cr_expect(max_difference(results[i], again[i]) == 0,
                  "inlining and merging change result %u", i);
    run_end(&run);
}

/* ---- every function by itself ---- */

static DtTensor *random_input(Run *run, const DtType *type, unsigned *seed)
{
    DtTensor *tensor = dt_interp_tensor(run->arena, type);
    const bool is_float = dt_dtype_is_float(type->dtype);
    fill_lattice(tensor, is_float ? -1 : 0, 1, seed);
    for (int64_t i = 0; !is_float && i < dt_type_elements(type); i++)
        tensor->at[i] = floor(tensor->at[i] * (type->dtype == DT_BOOL ? 2 : run->integers));
    return tensor;
}

/* Compares bwd_x followed by bwd_w with bwd. Every second parameter of a model, and all parameters
 * of a layer, count as weights. */
static void check_split(Run *run, DtFunc *func, DtTensor *const *in)
{
    DtArena *arena = run->arena;
    DtFunc *bwd = func->bwd;
    bool *is_weight = DT_NEW_ARRAY(arena, bool, func->inputs.n + 1);
    for (uint32_t i = func->n_args; i < func->inputs.n; i++)
        is_weight[i] = func->kind != DT_FUNC_MODEL || i % 2 == 0;
    unsigned seed = 23;
    DtTensor **seeds = DT_NEW_ARRAY(arena, DtTensor *, bwd->seeds.n + 1);
    for (uint32_t i = 0; i < bwd->seeds.n; i++)
        seeds[i] = random_input(run, func->results.at[bwd->seeds.at[i]]->type, &seed);
    DtTensor **forward = DT_NEW_ARRAY(arena, DtTensor *, func->fwd->results.n + 1);
    DtTensor **operands = DT_NEW_ARRAY(arena, DtTensor *, bwd->inputs.n + 1);
    DtTensor **whole = DT_NEW_ARRAY(arena, DtTensor *, bwd->results.n + 1);
    dt_interp_run(&run->interp, func->fwd, in, forward);
    backward_operands(bwd, in, forward, seeds, operands);
    dt_interp_run(&run->interp, bwd, operands, whole);
    dt_inline_calls(bwd, NULL);
    dt_wgrad_func(bwd, is_weight);
    DtTensor **x = DT_NEW_ARRAY(arena, DtTensor *, func->bwd_x->results.n + 1);
    DtTensor **w = DT_NEW_ARRAY(arena, DtTensor *, func->bwd_w->results.n + 1);
    dt_interp_run(&run->interp, func->bwd_x, operands, x);
    uint32_t n_x = 0, n_w = 0;
    for (uint32_t i = 0; i < bwd->wanted.n; i++)
        n_x += !is_weight[bwd->wanted.at[i]];
    cr_assert_eq(func->bwd_x->results.n, n_x + func->bwd_w->inputs.n);
    dt_interp_run(&run->interp, func->bwd_w, x + n_x, w);
    n_x = 0;
    for (uint32_t i = 0; i < bwd->wanted.n; i++) {
        const DtTensor *got = is_weight[bwd->wanted.at[i]] ? w[n_w++] : x[n_x++];
        cr_expect(max_difference(whole[i], got) == 0, "`%s`: cotangent of input %u", func->name,
                  bwd->wanted.at[i]);
    }
}

/* Whether a function reads or returns parts of a stream. Random inputs cannot represent these,
 * since they may contain -inf. */
static bool takes_parts(const DtModule *module, const DtFunc *func)
{
    bool takes = false;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtFunc *of = module->funcs.at[i];
        takes = takes || (of->stream && (of->stream->part == func || of->stream->merge == func ||
                                         of->stream->finish == func ||
                                         (of->gradient && of->gradient->func == func)));
    }
    return takes;
}

static void check_functions(const Program *p)
{
    Run run;
    run_begin(&run, p);
    run.interp.source = NULL;
    run.interp.arena = run.arena;
    const uint32_t n = run.module->funcs.n;
    uint32_t n_checked = 0;
    for (uint32_t i = 0; i < n; i++) {
        DtFunc *func = run.module->funcs.at[i];
        if (func->kind == DT_FUNC_BODY || func->kind == DT_FUNC_ENTRY || func->inputs.n == 0 ||
            takes_parts(run.module, func))
            continue;
        unsigned seed = i + 1;
        DtTensor **in = DT_NEW_ARRAY(run.arena, DtTensor *, func->inputs.n + 1);
        for (uint32_t k = 0; k < func->inputs.n; k++)
            in[k] = random_input(&run, func->inputs.at[k]->type, &seed);
        if (dt_differentiate_func(func) == NULL)
            continue; /* indices that are positions */
        n_checked++;
        if (func->kind !=
            DT_FUNC_MODEL) /* with such weights the function has corners everywhere; see above for
                            * models */
            check_function(&run.interp, func, in, i, func->name);
        check_split(&run, func, in);
    }
    cr_expect(n_checked > 0);
    expect_valid(run.module);
    run_end(&run);
}

#define OWN(name)                                                   \
    {                                                               \
        .path = "tests/passes/programs/" name ".dsl", .integers = 5 \
    }

ParameterizedTestParameters(programs, library)
{
    static Program cases[] = {
        OWN("relu"),
        OWN("silu"),
        OWN("far"),
        OWN("gelu"),
        OWN("gelu_tanh"),
        OWN("mean"),
        OWN("lse"),
        OWN("softmax"),
        OWN("xent"),
        OWN("attend"),
        OWN("attend_grouped"),
        OWN("attend_masked_row"),
        OWN("attend_late"),
        OWN("attend_mixed_mask"),
        OWN("attend_renamed"),
        OWN("layernorm"),
        OWN("rmsnorm"),
        OWN("linear"),
        OWN("conv"),
    };
    return cr_make_param_array(Program, cases, DT_COUNT(cases));
}

ParameterizedTest(Program *p, programs, library) { check_program(p); }

ParameterizedTestParameters(programs, structure)
{
    static Program cases[] = {OWN("loops"), OWN("moving"), OWN("draws"), OWN("layers")};
    return cr_make_param_array(Program, cases, DT_COUNT(cases));
}

ParameterizedTest(Program *p, programs, structure) { check_program(p); }

static Program example_cases[] = {
    {"examples/gpt2.dsl", "batch=2 seq=5 vocab=11 layers=2 embed=8 heads=2", 11},
    {"examples/quickstart.dsl", "batch=2 seq=5 layers=2 embed=8 heads=2", 256},
    {"examples/llama3_8b.dsl", "batch=2 seq=4 vocab=9 layers=8 embed=8 kv=2 group=2 head=4 ffn=10",
     9},
    {"examples/bert.dsl", "batch=2 seq=4 vocab=9 layers=2 embed=8 heads=2 head=4 ffn=10", 2},
    {"examples/vit.dsl",
     "batch=2 gh=2 gw=2 ph=2 pw=2 classes=5 layers=2 embed=8 heads=2 head=4 ffn=10", 5},
    {"examples/t5.dsl",
     "batch=2 src=4 tgt=3 vocab=9 enc=2 dec=2 embed=8 heads=2 head=4 ffn=10 buckets=8", 9},
    {"examples/moe.dsl",
     "batch=4 seq=8 vocab=9 layers=4 pool=2 experts=4 embed=8 kv=2 group=2 head=4 ffn=6", 9},
    {"examples/vgg16.dsl", "batch=2 side=32 c0=1 classes=5 fc=6", 5},
};

ParameterizedTestParameters(programs, examples)
{
    return cr_make_param_array(Program, example_cases, DT_COUNT(example_cases));
}

ParameterizedTest(Program *p, programs, examples) { check_program(p); }

ParameterizedTestParameters(programs, functions)
{
    return cr_make_param_array(Program, example_cases, DT_COUNT(example_cases));
}

ParameterizedTest(Program *p, programs, functions) { check_functions(p); }
