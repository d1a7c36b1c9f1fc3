/* SPDX-License-Identifier: Apache-2.0 */
/* Whole programs through the compiler and one rank of the runtime, against the interpreter: a
 * step's loss and every gradient, then the optimizer's step from those gradients; for each library
 * function, for attention with and without tiles, and for the programs of examples/, shrunk; fused
 * and unfused, and in two micro-batches. Memory is filled with NaN before. Parameters get their
 * initial values plus noise, so that no gain is 1 and no bias 0. Loops save their values or compute
 * them again.
 *
 * Tolerance: the interpreter computes in double. A gradient is a sum of products through some
 * hundred roundings of 2^-24 relative to the largest terms, 6e-6; cancellation in small models
 * costs another factor of ten: 1e-4 of the largest element of the tensor.
 * In 16 bits the interpreter rounds where the language says so, and a value in f32 that lies near
 * the middle between two 16-bit numbers may go either way: some of the roundings on the way differ
 * by one unit, 2^-8 (bf16) or 2^-11 (f16) of the value. Sixteen units of the largest element.
 *
 * The programs of one table are cases of which a commit's run takes a share (tests/share.h). */
#include "after_pass.h"
#include "bench.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/intern.h"
#include "frontend/lower.h"
#include "tests/look.h"
#include "tests/share.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Program {
    char path[80], dims[200]; /* "batch=2 seq=4" */
    bool whole;               /* false if the program has a statistic over the batch, or a parameter
                               * with that axis: then micro-batches would change the result */
} Program;

enum { STEP = 3 };
/* Returns the value of a scalar of the step: learning rate, bias corrections. */
static float scalar_value(const char *name)
{
    return strcmp(name, "@lr") == 0 ? 0.01f : strcmp(name, "@bias1") == 0 ? 1.5f : 2.5f;
}

typedef struct Variant {
    const char *name;
    bool unfused, tiles;
    int64_t micro;
    const char *drops; /* calls whose values loops recompute; NULL: none, "": everything that loops
                        * save */
    DtDtype compute;          /* DT_BOOL (0): the precision of the program, or f32 if it has no
                               * `precision` line */
} Variant;

static double unit(const Variant *v)
{
    return v->compute == DT_BF16 ? 0x1p-8 : v->compute == DT_F16 ? 0x1p-11 : 0;
}

/* The outcome of one run of a plan: all stores before, after the step, after the update; inputs;
 * the loss. */
typedef struct Outcome {
    DtTensor **before, **stepped, **updated;
    const char **input_names;
    DtTensor **inputs;
    uint32_t n_inputs;
    double loss;
} Outcome;

/* Writes the program without its `precision` line, so all in f32, to a file of its own; the program
 * includes only the library. */
static const char *in_f32(DtArena *arena, const char *path)
{
    char line[512];
    const char *copy = dt_arena_printf(arena, "/tmp/dt_program_%d.dsl", (int)getpid());
    FILE *from = fopen(path, "r"), *to = fopen(copy, "w");
    cr_assert(from && to, "%s", path);
    while (fgets(line, sizeof line, from)) {
        char name[128], full[4096];
        const char *beside = sscanf(line, "include \"%127[^\"]\"", name) == 1
                                 ? dt_file_beside(arena, path, name)
                                 : NULL;
        if (beside && access(beside, R_OK) == 0 && realpath(beside, full))
            fprintf(to, "include \"%s\"\n", full);
        else if (!strstr(line, " precision = "))
            fputs(line, to);
    }
    fclose(from);
    fclose(to);
    return copy;
}

static DtProgram *lower(DtArena *arena, const Program *p, const Variant *v)
{
    DtOption dims[20];
    char *text = dt_arena_strndup(arena, p->dims, strlen(p->dims));
    uint32_t n = 0;
    DtDiags *diags = dt_diag_new(arena);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        *equals = 0;
        dims[n++] = (DtOption){.name = word, .value = equals + 1};
    }
    const char *path = in_f32(arena, p->path);
    const char *name = dt_dtype_name(v->compute);
    const DtOption precision = {
        "train.precision", dt_arena_printf(arena, "mixed(compute = %s, loss_scale = 1)", name)};
    const DtLowerOptions options = {.path = path, .library = "lib", .dims = dims, .n_dims = n,
                                    .parallel = "none", .synthetic = true, .sets = &precision,
                                    .n_sets = v->compute ? 1 : 0};
    DtProgram *program = dt_lower(arena, diags, &options);
    unlink(path);
    if (program == NULL)
        dt_diag_print(diags, stderr, false);
    cr_assert(program != NULL, "%s is rejected", p->path);
    return program;
}

static DtPlanBuilder *compile(DtArena *arena, DtProgram *program, const Variant *v)
{
    DtParallelConfig parallel = {.name = "cut", .micro_axis = dt_intern("batch"),
                                 .micro = v->micro};
    DtPassContext context = {
        .train = program->train, .inline_streams = !v->tiles, .unfused = v->unfused};
    static const char *const loops[] = {"h", "e", "d", "g"};
    for (uint32_t i = 0; v->drops && i < DT_COUNT(loops); i++) {
        DtRemat remat = {.loop = dt_intern(loops[i]), .n_drop = v->drops[0] != 0,
                         .drop = {dt_intern(v->drops)}};
        DT_PUSH(arena, parallel.remats, remat);
    }
    if (v->micro > 1 || v->drops)
        program->parallel = &parallel;
    context.parallel = program->parallel;
    DtText before = {0};
    /* the reference reads parameters without narrow copies */
    for (uint32_t i = 0; i < dt_n_passes; i++)
        if (strcmp(dt_passes[i].name, "narrow") != 0)
            after_pass(&before, &dt_passes[i], program->module,
                       dt_passes[i].run(program->module, &context));
    dt_text_free(&before);
    if (dt_diag_errors(program->module->diags))
        dt_diag_print(program->module->diags, stderr, false);
    cr_assert_eq(dt_diag_errors(program->module->diags), 0);
    DtCodegenOptions options = {.target = "cpu", .source = "test.dsl", .source_folder = "",
                                .compiler = "test", .unfused = v->unfused};
    DtPlanBuilder *builder = dt_write_new(arena);
    DtStatus status = dt_codegen_plan(program, &options, builder);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    return builder;
}

/* ---- running ---- */

static DtTensor *read_tensor(DtArena *arena, const DtType *type, const char *at)
{
    DtTensor *tensor = dt_interp_tensor(arena, type);
    for (int64_t i = 0; i < dt_type_elements(type); i++)
        tensor->at[i] = type->dtype == DT_I32    ? ((const int32_t *)(const void *)at)[i]
                        : type->dtype == DT_BOOL ? ((const uint8_t *)at)[i]
                                                 : (double)((const float *)(const void *)at)[i];
    return tensor;
}

static DtTensor **read_stores(DtArena *arena, const DtRank *rank, const DtModule *module)
{
    DtTensor **stores = DT_NEW_ARRAY(arena, DtTensor *, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtPlanStore *store = &rank->plan->stores[i];
        stores[i] = read_tensor(arena, module->stores.at[i]->type,
                                look_at(rank, store->arena, store->offset));
    }
    return stores;
}

static void prepare_memory(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        if (plan->arenas[a].bytes)
            memset(look_at(rank, a, 0), 0xff, (size_t)plan->arenas[a].bytes);
    cr_assert(dt_init_stores(rank), "%s", rank->failure.message);
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtPlanStore *store = &plan->stores[s];
        float *at = (float *)(void *)(look_at(rank, store->arena, store->offset));
        uint64_t key = dt_hash_text(dt_plan_str(plan, store->path), 1);
        for (int64_t i = 0; store->kind != DT_STORE_STATE && i < store->bytes / 4; i++) {
            float number = (float)(int64_t)(dt_hash_bytes(&i, sizeof i, key) % 601) * 0.001f;
            at[i] = store->kind == DT_STORE_PARAM ? at[i] + number - 0.3f : 0.01f * number;
        }
        if (store->kind == DT_STORE_GRAD)
            memset(at, 0xff, (size_t)store->bytes);
    }
    for (uint32_t i = 0; i < plan->n_scalars; i++) {
        const float value = scalar_value(dt_plan_str(plan, plan->scalars[i].name));
        memcpy(look_at(rank, plan->scalars[i].arena, plan->scalars[i].offset), &value, 4);
    }
}

static void read_inputs(DtArena *arena, const DtRank *rank, const DtProgram *program,
                        Outcome *ret_outcome)
{
    const DtPlan *plan = rank->plan;
    ret_outcome->inputs = DT_NEW_ARRAY(arena, DtTensor *, plan->n_inputs + 1);
    ret_outcome->input_names = DT_NEW_ARRAY(arena, const char *, plan->n_inputs + 1);
    for (uint32_t r = 0; r < program->train->readers.n; r++) {
        const DtReader *reader = &program->train->readers.at[r];
        for (uint32_t i = 0; i < reader->n_inputs; i++) {
            const DtPlanInput *input = &plan->inputs[ret_outcome->n_inputs];
            cr_assert_str_eq(dt_plan_str(plan, input->name), reader->inputs[i]);
            ret_outcome->input_names[ret_outcome->n_inputs] = reader->inputs[i];
            ret_outcome->inputs[ret_outcome->n_inputs++] =
                read_tensor(arena, reader->types[i], look_at(rank, input->arena, input->offset));
        }
    }
}

static Outcome run(DtArena *arena, const Program *p, const Variant *v)
{
    DtProgram *program = lower(arena, p, v);
    DtPlanBuilder *builder = compile(arena, program, v);
    DtPlan plan;
    uint8_t *bytes;
    size_t len;
    DtRunOptions options = {
        .plan_path = "test.plan", .steps = -1, .quiet = true, .gemm = DT_GEMM_PLAIN,
        .data_synthetic = true,
        .generate = ""}; /* this makes memory for predictions exist */
    DtRank rank = {0};
    Outcome outcome = {0};
    int fd;
    dt_write_bytes(builder, &bytes, &len);
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_shared_create(&plan, 0, &fd);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_load_rank(&options, &plan, 0, fd, &rank);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    prepare_memory(&rank);
    rank.step = STEP;
    outcome.before = read_stores(arena, &rank, program->module);
    cr_assert(dt_exec_entry(&rank, "step"), "%s", rank.failure.message);
    outcome.stepped = read_stores(arena, &rank, program->module);
    outcome.loss = dt_exec_scalar(&rank, dt_exec_metric(&plan, "step", "loss"));
    if (v->micro == 1)
        read_inputs(arena, &rank, program, &outcome);
    cr_assert(dt_exec_entry(&rank, "update"), "%s", rank.failure.message);
    outcome.updated = read_stores(arena, &rank, program->module);
    dt_load_close(&rank);
    close(fd);
    return outcome;
}

/* ---- the reference ---- */

typedef struct Reference {
    const Outcome *outcome;
    DtTensor **stores;
    DtArena *arena;
} Reference;

static DtTensor *source(void *context, const DtOp *op)
{
    const Reference *r = context;
    if (op->kind == DT_OP_PARAM)
        return r->stores[op->store->index];
    if (op->text[0] == '@') {
        DtTensor *tensor = dt_interp_tensor(r->arena, op->out[0]->type);
        tensor->at[0] = (double)scalar_value(op->text);
        return tensor;
    }
    for (uint32_t i = 0; i < r->outcome->n_inputs; i++)
        if (r->outcome->input_names[i] == op->text)
            return r->outcome->inputs[i];
    cr_assert_fail("no input `%s`", op->text);
    return NULL;
}

static const DtEntryPoint *entry(const DtModule *module, const char *name)
{
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (strcmp(module->entries.at[i].name, name) == 0)
            return &module->entries.at[i];
    cr_assert_fail("no entry `%s`", name);
    return NULL;
}

static void expect_close(const char *what, const DtStore *store, const DtTensor *got,
                         const DtTensor *want, const Variant *v)
{
    double scale = v->compute ? 1e-2 : 1e-3, worst = 0; /* gradients that are truly zero: that of
                                                         * the bias of keys */
    int64_t n = dt_type_elements(store->type), at = 0;
    for (int64_t i = 0; i < n; i++)
        scale = fmax(scale, fabs(want->at[i]));
    for (int64_t i = 0; i < n; i++) {
        double error = fabs(got->at[i] - want->at[i]);
        if (!(error <= worst))
            worst = error, at = i;
    }
    cr_expect(worst <= (1e-4 + 16 * unit(v)) * scale,
              "%s: %s of `%s`: element %lld is %.9g, not %.9g (largest %.3g)", v->name, what,
              store->path, (long long)at, got->at[at], want->at[at], scale);
}

/* Evaluates the serial program in double, with the values that the first run used. */
static void check_outcome(DtArena *arena, const Program *p, const Outcome *first,
                          const Outcome *outcome, const Variant *v)
{
    DtProgram *program = lower(arena, p, v);
    DtPassContext context = {.train = program->train};
    dt_pass_differentiate(program->module, &context);
    dt_pass_optimizer(program->module, &context);
    Reference reference = {first, first->before, arena};
    DtInterp interp = {.arena = arena,
                       .seed = program->train->seed,
                       .step = STEP,
                       .path = "",
                       .source = source,
                       .context = &reference,
                       .rounds = v->compute != 0};
    const DtEntryPoint *grad = entry(program->module, "grad"),
                       *update = entry(program->module, "update");
    DtTensor **results = DT_NEW_ARRAY(arena, DtTensor *, grad->results.n + update->results.n + 1);
    dt_interp_run(&interp, grad->func, NULL, results);
    cr_expect(fabs(outcome->loss - results[0]->at[0]) <=
                  (1e-5 + 4 * unit(v)) * fmax(1, fabs(results[0]->at[0])),
              "%s: loss %.9g, not %.9g", v->name, outcome->loss, results[0]->at[0]);
    for (uint32_t i = 0; i < grad->results.n; i++) {
        const DtStore *store = grad->results.at[i].store;
        if (store && store->kind == DT_STORE_GRAD)
            expect_close("gradient", store, outcome->stepped[store->index], results[i], v);
        else if (store)
            expect_close("state", store, outcome->updated[store->index], results[i], v);
    }
    reference.stores = outcome->stepped;
    dt_interp_run(&interp, update->func, NULL, results);
    for (uint32_t i = 0; i < update->results.n; i++)
        if (update->results.at[i].store)
            expect_close("update", update->results.at[i].store,
                         outcome->updated[update->results.at[i].store->index], results[i], v);
}

static void check_program(const Program *p, const Variant *variants, uint32_t n)
{
    DtArena *arena = dt_arena_new();
    Outcome first = {0};
    for (uint32_t i = 0; i < n; i++) {
        Outcome outcome = run(arena, p, &variants[i]);
        if (i == 0)
            first = outcome;
        check_outcome(arena, p, &first, &outcome, &variants[i]);
    }
    dt_arena_free(arena);
}

/* ---- programs ---- */

static const Variant fused = {.name = "fused", .micro = 1},
                     plain = {.name = "unfused", .unfused = true, .micro = 1},
                     tiled = {.name = "tiles", .tiles = true, .micro = 1},
                     cut = {.name = "two micro-batches", .tiles = true, .micro = 2},
                     again = {.name = "computed again", .tiles = true, .micro = 1, .drops = ""},
                     bf16 = {.name = "bf16", .tiles = true, .micro = 1, .compute = DT_BF16},
                     f16 = {.name = "f16", .tiles = true, .micro = 1, .compute = DT_F16},
                     bf16_plain = {
                         .name = "bf16, unfused", .unfused = true, .micro = 1, .compute = DT_BF16};

#define SHARE(cases) share_keep(cases, DT_COUNT(cases), sizeof (cases)[0])
#define OWN(name, dims) {"tests/passes/programs/" name ".dsl", dims, true}

/* Lengths that are no multiple of a tile, different lengths of keys and queries, several tiles. */
ParameterizedTestParameters(programs, attention)
{
    static Program cases[] = {
        OWN("attend", "batch=2 seq=70 heads=2 head=8"),
        OWN("attend", "batch=4 seq=3 heads=2 head=4"),
        OWN("attend", "batch=2 seq=130 heads=1 head=17"),
        OWN("attend_grouped", "batch=2 seq=70 kv=2 group=3 head=8"),
        OWN("attend_grouped", "batch=2 seq=65 kseq=33 kv=2 group=2 head=4"),
        OWN("attend_masked_row", "batch=2 seq=70 head=8"),
        OWN("attend_mixed_mask", "batch=2 seq=70 head=8"),
        OWN("attend_renamed", "batch=1 seq=70 head=4"),
        OWN("attend_late", "batch=2 seq=520 kseq=2 head=8 late=400"),
    };
    return cr_make_param_array(Program, cases, SHARE(cases));
}

ParameterizedTest(Program *p, programs, attention)
{
    check_program(p, (const Variant[]){tiled, fused}, 2);
}

ParameterizedTestParameters(programs, library)
{
    static Program cases[] = {
        OWN("relu", ""), OWN("silu", ""), OWN("gelu", ""), OWN("gelu_tanh", ""), OWN("mean", ""),
        OWN("lse", ""), OWN("softmax", ""), OWN("xent", ""), OWN("layernorm", ""),
        OWN("rmsnorm", ""), OWN("linear", ""), OWN("conv", ""), OWN("moving", ""), OWN("chain", ""),
        OWN("carried", ""),
    };
    return cr_make_param_array(Program, cases, SHARE(cases));
}

ParameterizedTest(Program *p, programs, library)
{
    check_program(p, (const Variant[]){fused, plain}, 2);
}

Test(programs, loops)
{
    const Program loops = OWN("loops", "");
    check_program(&loops, (const Variant[]){fused, plain, again}, 3);
}

/* The saved and the recomputed bytes of a loop add up to the bytes that are saved without `remat`.
 * The memory plan shrinks by the values that are not saved, for all iterations but one, since one
 * iteration at a time is recomputed. */
Test(programs, memory_of_what_is_computed_again)
{
    static const Variant variants[] = {{.name = "saved", .tiles = true, .micro = 1},
                                       {.name = "computed again", .tiles = true, .micro = 1,
                                        .drops = ""},
                                       {.name = "attention again", .tiles = true, .micro = 1,
                                        .drops = "attend"}};
    const Program program = {"examples/gpt2.dsl",
                             "batch=2 seq=64 vocab=33 layers=6 embed=32 heads=2", false};
    const DtPlanSaved *loops[DT_COUNT(variants)];
    int64_t activations[DT_COUNT(variants)];
    DtArena *arena = dt_arena_new();
    for (size_t i = 0; i < DT_COUNT(variants); i++) {
        const DtPlanBuilder *plan =
            compile(arena, lower(arena, &program, &variants[i]), &variants[i]);
        cr_assert_eq(plan->saved.n, 1);
        loops[i] = &plan->saved.at[0];
        for (uint32_t a = 0; a < plan->arenas.n; a++)
            if (plan->arenas.at[a].kind == DT_ARENA_ACTIVATIONS)
                activations[i] = plan->arenas.at[a].bytes;
    }
    /* maximum and sum of each head's rows: 2 */
    const int64_t unit = 2 * 64 * 32 * 4, rows = 2 * 64 * 2 * 4;
    cr_expect_eq(loops[0]->saved, 16 * unit + 2 * rows);
    cr_expect_eq(loops[1]->saved, unit);
    cr_expect_eq(loops[2]->saved, 15 * unit);
    for (size_t i = 0; i < DT_COUNT(variants); i++) {
        cr_expect_eq(loops[i]->saved + loops[i]->recomputed, loops[0]->saved, "%s",
                     variants[i].name);
        cr_expect_geq(activations[0] - activations[i],
                      (loops[i]->iterations - 1) * loops[i]->recomputed, "%s: %lld of %lld bytes",
                      variants[i].name, (long long)activations[i], (long long)activations[0]);
    }
    dt_arena_free(arena);
}

ParameterizedTestParameters(programs, examples)
{
    static Program cases[] = {
        {"examples/gpt2.dsl", "batch=2 seq=17 vocab=33 layers=2 embed=16 heads=2", false},
        {"examples/quickstart.dsl", "batch=4 seq=70 layers=2 embed=16 heads=2", false},
        {"examples/llama3_8b.dsl",
         "batch=2 seq=17 vocab=19 layers=8 embed=8 kv=2 group=2 head=4 ffn=10", false},
        {"examples/bert.dsl", "batch=2 seq=17 vocab=19 layers=2 embed=8 heads=2 head=4 ffn=10",
         false},
        {"examples/vit.dsl",
         "batch=2 gh=2 gw=2 ph=2 pw=2 classes=5 layers=2 embed=8 heads=2 head=4 ffn=10", false},
        {"examples/t5.dsl",
         "batch=2 src=17 tgt=9 vocab=19 enc=2 dec=2 embed=8 heads=2 head=4 ffn=10 buckets=8",
         false},
        {"examples/moe.dsl",
         "batch=4 seq=8 vocab=9 layers=4 pool=2 experts=4 embed=8 kv=2 group=2 head=4 ffn=6",
         false},
        {"examples/vgg16.dsl", "batch=2 side=32 c0=1 classes=5 fc=6", false},
    };
    return cr_make_param_array(Program, cases, SHARE(cases));
}

ParameterizedTest(Program *p, programs, examples)
{
    check_program(p, (const Variant[]){tiled, plain, again, cut}, p->whole ? 3 : 4);
}

/* In 16 bits: products, attention in tiles, convolutions. */
ParameterizedTestParameters(programs, halves)
{
    static Program cases[] = {
        OWN("attend", "batch=2 seq=70 heads=2 head=8"),
        OWN("attend_grouped", "batch=2 seq=65 kseq=33 kv=2 group=2 head=4"),
        OWN("linear", ""),
        OWN("conv", ""),
        {"examples/gpt2.dsl", "batch=2 seq=17 vocab=33 layers=2 embed=16 heads=2", false},
    };
    return cr_make_param_array(Program, cases, SHARE(cases));
}

ParameterizedTest(Program *p, programs, halves)
{
    check_program(p, (const Variant[]){bf16, f16, bf16_plain}, 3);
}
