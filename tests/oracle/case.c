/* SPDX-License-Identifier: Apache-2.0 */
/* Cases and their values. Parameters begin as the program says; those that begin constant
 * (gains, biases) get noise on top, since a gain of 1 or a bias of 0 would hide mistakes.
 * Everything is rounded to f32, so that the generated code can have the same values. Inputs come
 * from the same counter-based generator. */
#include "oracle.h"

#include "base/formula.h"
#include "base/hash.h"
#include "base/philox.h"
#include "ir/round.h"
#include "passes/passes.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const double oracle_exact = 1e-9, oracle_single = 1e-5, oracle_lr = 0.05;

void oracle_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "oracle: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

/* ---- cases.json ---- */

static void read_options(DtArena *arena, const json_t *object, DtOption *ret_options, uint32_t cap,
                         uint32_t *ret_n)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (*ret_n == cap)
            oracle_fail("too many options in a case");
        const char *text =
            json_is_integer(value)
                ? dt_arena_printf(arena, "%lld", (long long)json_integer_value(value))
                : json_string_value(value);
        if (text == NULL)
            oracle_fail("option `%s` is neither an integer nor a text", key);
        ret_options[(*ret_n)++] = (DtOption){.name = key, .value = text};
    }
}

json_t *case_read_all(DtArena *arena, const char *path, Case **ret_cases, uint32_t *ret_n)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL)
        oracle_fail("%s:%d: %s", path, error.line, error.text);
    Case *cases = DT_NEW_ARRAY(arena, Case, json_object_size(root) + 1);
    uint32_t n = 0;
    const char *name;
    json_t *json;
    json_object_foreach(root, name, json)
    {
        Case *c = &cases[n++];
        *c = (Case){.name = name,
                    .json = json,
                    .path = json_string_value(json_object_get(json, "program"))};
        if (c->path == NULL)
            oracle_fail("case `%s` has no program", name);
        read_options(arena, json_object_get(json, "dims"), c->dims, DT_COUNT(c->dims), &c->n_dims);
        read_options(arena, json_object_get(json, "set"), c->sets, DT_COUNT(c->sets), &c->n_sets);
        c->parallel = json_string_value(json_object_get(json, "parallel"));
    }
    *ret_cases = cases;
    *ret_n = n;
    return root;
}

/* ---- the program ---- */

DtProgram *case_lower(DtArena *arena, DtDiags *diags, const Case *c, const char *parallel)
{
    const DtLowerOptions options = {.path = c->path,
                                    .library = "lib",
                                    .dims = c->dims,
                                    .n_dims = c->n_dims,
                                    .sets = c->sets,
                                    .n_sets = c->n_sets,
                                    .parallel = parallel,
                                    .synthetic = true};
    DtProgram *program = dt_lower(arena, diags, &options);
    if (program == NULL) {
        dt_diag_print(diags, stderr, false);
        oracle_fail("%s is rejected", c->path);
    }
    if (program->train == NULL)
        oracle_fail("%s has no train block", c->path);
    /* the other side predicts the whole batch */
    program->train->predict_rows = dt_train_batch(program->train);
    return program;
}

/* ---- values ---- */

bool case_is_given(const DtStore *store)
{
    return store->kind != DT_STORE_GRAD && store->kind != DT_STORE_NEXT;
}

const char *case_kind(const DtStore *store)
{
    static const char *const kinds[] = {[DT_STORE_PARAM] = "param",
                                        [DT_STORE_STATE] = "state",
                                        [DT_STORE_GRAD] = "grad",
                                        [DT_STORE_MOMENT1] = "moment1",
                                        [DT_STORE_MOMENT2] = "moment2",
                                        [DT_STORE_MOMENT3] = "moment3",
                                        [DT_STORE_MOMENT4] = "moment4",
                                        [DT_STORE_MASTER] = "master",
                                        [DT_STORE_AVERAGE] = "average",
                                        [DT_STORE_NEXT] = "next"};
    return kinds[store->kind];
}

/* Returns the noise that is added to the initial value of an element; u is uniform in [0, 1). */
static double noise(const DtStore *store, double u)
{
    switch (store->kind) {
    case DT_STORE_PARAM: return store->init.kind == DT_INIT_CONST ? 0.4 * u - 0.2 : 0;
    case DT_STORE_STATE: return 0.5 + 0.4 * u; /* positive, as a variance must be */
    case DT_STORE_MOMENT1: return 2e-3 * u - 1e-3;
    case DT_STORE_MOMENT2: return 1e-5 * u + 1e-7;
    default: return 0;
    }
}

/* Sets the initial value of a store. A master copy gets the value that its parameter would have in
 * f32; the parameter gets that value, rounded. */
static void init_store(const DtStore *store, uint64_t seed, DtTensor *tensor)
{
    const DtStore *drawn = store->kind == DT_STORE_MASTER ? store->of : store;
    DtTensor as_drawn = {.type = drawn->type, .at = tensor->at};
    const int64_t n = dt_type_elements(store->type);
    const uint64_t key = dt_hash_text(store->path, 0);
    dt_interp_init(drawn, seed, &as_drawn);
    for (int64_t i = 0; i < n; i++) {
        const DtPhilox random = dt_philox(key, (uint64_t)i, 1, (uint32_t)drawn->kind);
        const double value = tensor->at[i] + noise(drawn, dt_philox_uniform(random));
        tensor->at[i] = dt_round_to(store->type->dtype, (double)(float)value);
    }
}

static void fill_input(const Case *c, const char *name, DtTensor *tensor)
{
    const json_t *range = json_object_get(json_object_get(c->json, "ranges"), name);
    const DtDtype dtype = tensor->type->dtype;
    const uint64_t key = dt_hash_text(name, 0);
    int64_t lo = json_integer_value(json_array_get(range, 0));
    int64_t hi = json_integer_value(json_array_get(range, 1));
    if (dtype == DT_BOOL)
        lo = 0, hi = 4;
    else if (!dt_dtype_is_float(dtype) && hi <= lo)
        oracle_fail("case `%s`: no range for input `%s`", c->name, name);
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++) {
        const DtPhilox random = dt_philox(key, (uint64_t)i, ORACLE_STEP, 0);
        if (dt_dtype_is_float(dtype))
            tensor->at[i] = 2 * dt_philox_uniform(random) - 1;
        else
            tensor->at[i] = (double)(lo + (int64_t)(random.word[0] % (uint64_t)(hi - lo)));
        if (dtype == DT_BOOL)
            tensor->at[i] = tensor->at[i] != 0;
    }
}

static void add_scalar(Sample *s, const char *name, double value)
{
    Input input = {name, dt_interp_tensor(s->arena, dt_type_scalar(DT_F32))};
    input.tensor->at[0] = value;
    DT_PUSH(s->arena, s->inputs, input);
}

static double formula_value(const Sample *s, const char *formula)
{
    const DtTrainConfig *train = s->program->train;
    DtFormulaSetting settings[64];
    DtFormulaStep at = {.step = s->step, .updates = s->step + 1.0, .loss_scale = s->scale,
                        .settings = settings};
    DtFormulaProblem problem;
    double value;
    for (uint32_t i = 0; i < train->settings.n && i < 64; i++)
        settings[at.n_settings++] = (DtFormulaSetting){train->settings.at[i].name,
                                                       train->settings.at[i].value};
    if (!dt_formula_value(formula, dt_formula_step, &at, &value, &problem))
        oracle_fail("%s: %s", s->of->name, problem.text);
    return value;
}

/* Sets the scalars that the runtime would set for the optimizer: updates count from 1. The learning
 * rate is the oracle's own. */
static void make_scalars(Sample *s)
{
    const DtTrainConfig *train = s->program->train;
    add_scalar(s, "@loss_scale", s->scale);
    for (uint32_t i = 0; i < train->scalars.n; i++) {
        const char *name = train->scalars.at[i].name;
        if (strcmp(name, "@loss_scale") != 0)
            add_scalar(s, name,
                       strcmp(name, "@lr") == 0 ? oracle_lr
                                                : formula_value(s, train->scalars.at[i].formula));
    }
}

static void make_inputs(Sample *s)
{
    const DtTrainConfig *train = s->program->train;
    for (uint32_t r = 0; r < train->readers.n; r++) {
        const DtReader *reader = &train->readers.at[r];
        for (uint32_t i = 0; i < reader->n_inputs; i++) {
            Input input = {reader->inputs[i], dt_interp_tensor(s->arena, reader->types[i])};
            fill_input(s->of, input.name, input.tensor);
            DT_PUSH(s->arena, s->inputs, input);
        }
    }
}

DtTensor *sample_input(const Sample *s, const char *name)
{
    for (uint32_t i = 0; i < s->inputs.n; i++)
        if (strcmp(s->inputs.at[i].name, name) == 0)
            return s->inputs.at[i].tensor;
    return NULL;
}

static void verify(const Sample *s, const char *when)
{
    DtText problems = {0};
    if (!dt_verify_module(s->program->module, &problems))
        oracle_fail("%s is broken after %s\n%s", s->of->name, when, problems.at);
    dt_text_free(&problems);
}

static void set_precision(Sample *s)
{
    const DtPrecision *precision = &s->program->train->precision;
    s->roundoff = precision->compute == DT_BF16  ? 0x1p-9
                  : precision->compute == DT_F16 ? 0x1p-12
                                                 : 0;
    s->scale = precision->dynamic_loss_scale ? 1024
               : precision->loss_scale > 0   ? precision->loss_scale
                                             : 1;
}

double sample_tolerance(const Sample *s, double single, double units)
{
    return s->roundoff > 0 ? units * s->roundoff : single;
}

void sample_make(Sample *s, const Case *c)
{
    *s = (Sample){.of = c, .arena = dt_arena_new(), .step = ORACLE_STEP};
    s->diags = dt_diag_new(s->arena);
    s->program = case_lower(s->arena, s->diags, c, "none");
    s->seed = s->program->train->seed;
    set_precision(s);
    DtModule *module = s->program->module;
    verify(s, "lowering");
    const DtPassContext context = {.train = s->program->train};
    dt_pass_differentiate(module, &context);
    verify(s, "differentiation");
    dt_pass_optimizer(module, &context);
    dt_pass_widen(module, &context);
    dt_pass_narrow(module, &context);
    verify(s, "the optimizer's pass");
    s->stores = DT_NEW_ARRAY(s->arena, DtTensor *, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (!case_is_given(store))
            continue;
        s->stores[i] = dt_interp_tensor(s->arena, store->type);
        init_store(store, s->seed, s->stores[i]);
    }
    make_inputs(s);
    make_scalars(s);
}

void sample_free(Sample *s) { dt_arena_free(s->arena); }
