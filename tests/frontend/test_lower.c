/* SPDX-License-Identifier: Apache-2.0 */
/* The lowering: parameter counts of the published models, modules that the verifier accepts and
 * that read back from their text, and the laws of the language (programs/laws.dsl), each
 * results that must be 0. */
#include "base/diag.h"
#include "base/file.h"
#include "base/intern.h"
#include "frontend/lower.h"
#include "ir/interp.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Lowered {
    DtArena *arena;
    DtDiags *diags;
    DtProgram *program;
} Lowered;

static Lowered lower(const char *path)
{
    Lowered low = {.arena = dt_arena_new()};
    low.diags = dt_diag_new(low.arena);
    DtLowerOptions options = {.path = path, .library = "lib"};
    low.program = dt_lower(low.arena, low.diags, &options);
    if (!low.program)
        dt_diag_print(low.diags, stderr, false);
    cr_assert(low.program, "%s has errors", path);
    return low;
}

static int64_t parameters(const DtModule *module)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        if (module->stores.at[i]->kind == DT_STORE_PARAM)
            total += dt_type_elements(module->stores.at[i]->type);
    }
    return total;
}

static void check_module(const Lowered *low, const char *path)
{
    DtText problems = {0};
    cr_expect(dt_verify_module(low->program->module, &problems), "%s: %s", path,
              problems.at ? problems.at : "");
    dt_text_free(&problems);
    DtText once = {0}, twice = {0};
    dt_irtext_print(low->program->module, &once);
    DtModule *again = dt_irtext_read(low->arena, low->diags, once.at, once.len);
    cr_assert(again, "%s: the text of the module cannot be read", path);
    dt_irtext_print(again, &twice);
    cr_expect_str_eq(once.at, twice.at);
    dt_text_free(&once);
    dt_text_free(&twice);
}

static const struct {
    const char *path;
    int64_t parameters; /* the published number of parameters; 0: none was published */
    uint32_t entries;
} programs[] = {
    {"examples/gpt2.dsl", 124439808, 3},
    {"examples/gpt_1t.dsl", 1008038758400, 3},
    {"examples/llama3_8b.dsl", 8030261248, 3},
    {"examples/llama3_405b.dsl", 405853388800, 3},
    {"examples/deepseek_v3.dsl", 671026404352, 3},
    {"examples/moe.dsl", 46702792704, 3},
    {"examples/bert.dsl", 109514298, 3},
    {"examples/t5.dsl", 222903552, 3},
    {"examples/vit.dsl", 86567656, 3},
    {"examples/vgg16.dsl", 138357544, 3},
    {"examples/mamba.dsl", 129135360, 3},
    {"examples/lstm.dsl", 0, 3},
    {"examples/resnet.dsl", 272474, 3},
    {"examples/diffusion.dsl", 0, 3},
    {"examples/byol.dsl", 0, 3},
    {"tests/frontend/programs/laws.dsl", 0, 1},
    {"tests/frontend/programs/library_names.dsl", 0, 1},
    {"tests/frontend/programs/draws.dsl", 0, 1},
    {"tests/frontend/programs/states.dsl", 0, 3},
    {"tests/frontend/programs/dtypes.dsl", 0, 3},
};

Test(lower, parameter_counts_and_verifier)
{
    for (size_t i = 0; i < DT_COUNT(programs); i++) {
        Lowered low = lower(programs[i].path);
        if (programs[i].parameters)
            cr_expect_eq(parameters(low.program->module), programs[i].parameters,
                         "%s: %lld parameters", programs[i].path,
                         (long long)parameters(low.program->module));
        cr_expect_eq(low.program->module->entries.n, programs[i].entries);
        check_module(&low, programs[i].path);
        dt_arena_free(low.arena);
    }
}

/* ---- dtypes ---- */

static uint32_t check_names(const DtFunc *func)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
            const DtValue *value = func->ops.at[i]->out[k];
            const char *wanted = value->name ? strrchr(value->name, '_') : NULL;
            if (!wanted)
                continue;
            cr_expect_str_eq(dt_dtype_name(value->type->dtype), wanted + 1, "`%s` is %s",
                             value->name, dt_dtype_name(value->type->dtype));
            n++;
        }
    }
    return n;
}

Test(lower, dtypes_under_mixed_precision)
{
    Lowered low = lower("tests/frontend/programs/dtypes.dsl");
    uint32_t n = 0;
    for (uint32_t i = 0; i < low.program->module->funcs.n; i++)
        n += check_names(low.program->module->funcs.at[i]);
    cr_expect_geq(n, 2 * 37, "only %u values have names", n);
    dt_arena_free(low.arena);
}

/* ---- laws ---- */

/* Returns a tensor of distinct values, the same in every run; integers are in 0 .. 4. */
static DtTensor *source(void *context, const DtOp *op)
{
    const DtInterp *interp = context;
    DtTensor *tensor = dt_interp_tensor(interp->arena, op->out[0]->type);
    if (op->kind == DT_OP_PARAM) {
        dt_interp_init(op->store, 1, tensor);
        return tensor;
    }
    int64_t n = dt_type_elements(tensor->type);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i * 7919 % 101;
        bool is_float = dt_dtype_is_float(tensor->type->dtype);
        tensor->at[i] = is_float ? (double)(k - 50) / 16 + (double)i / 1000 : (double)(k % 5);
    }
    return tensor;
}

static void run(const Lowered *low, const DtEntryPoint *point, DtTensor **results)
{
    DtInterp interp = {.arena = low->arena, .seed = 1, .source = source};
    interp.context = &interp;
    dt_interp_run(&interp, point->func, NULL, results);
}

/* Returns the text of the file without the models before the one called `name`, so that this model
 * is the one that `predict` runs. */
static const char *only_model(DtArena *arena, const char *text, const char *name)
{
    char *copy = dt_arena_strndup(arena, text, strlen(text));
    for (char *at = strstr(copy, "\nmodel "); at; at = strstr(at + 1, "\nmodel ")) {
        if (strncmp(at + 7, name, strlen(name)) != 0)
            memcpy(at, "\nlayer ", 7);
    }
    return copy;
}

#define LAWS "tests/frontend/programs/laws.dsl"

static void check_laws_of(const char *source, const char *model, uint32_t n_laws)
{
    DtArena *arena = dt_arena_new();
    char *text;
    size_t len;
    DtStatus status = dt_file_read(arena, source, 1 << 20, &text, &len);
    cr_assert(dt_status_ok(&status));
    char path[] = "/tmp/dt_laws_XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs(only_model(arena, text, model), file);
    fclose(file);
    Lowered low = lower(path);
    unlink(path);
    DtEntryPoint *point = dt_entry_named(low.program->module, "predict");
    cr_assert(point);
    cr_assert_eq(point->results.n, n_laws);
    DtTensor *results[16];
    run(&low, point, results);
    for (uint32_t i = 0; i < n_laws; i++) {
        double worst = 0;
        for (int64_t k = 0; k < dt_type_elements(results[i]->type); k++)
            worst = fmax(worst, isnan(results[i]->at[k]) ? INFINITY : fabs(results[i]->at[k]));
        cr_expect(worst < 1e-9, "law %u of `%s`: %g", i + 1, model, worst);
    }
    dt_arena_free(low.arena);
    dt_arena_free(arena);
}

static void check_laws(const char *model, uint32_t n_laws) { check_laws_of(LAWS, model, n_laws); }

Test(laws, names_of_the_librarys_axes)
{
    check_laws_of("tests/frontend/programs/library_names.dsl", "taken", 6);
}
Test(laws, indexing) { check_laws("indexing", 9); }
Test(laws, shapes) { check_laws("shapes", 10); }
Test(laws, windows) { check_laws("windows", 6); }
Test(laws, sums) { check_laws("sums", 8); }
Test(laws, arithmetic) { check_laws("arithmetic", 10); }
Test(laws, library) { check_laws("library", 7); }
Test(laws, numbers) { check_laws("numbers", 9); }
Test(laws, structure) { check_laws("structure", 10); }

/* An operand that lacks axes is given the order of axes of the operand that has all of them. So a
 * class token before the patches of a ViT does not reorder the patches. */
Test(lower, concat_keeps_the_order_of_the_whole)
{
    Lowered low = lower("examples/vit.dsl");
    uint32_t n = 0;
    for (uint32_t f = 0; f < low.program->module->funcs.n; f++) {
        const DtFunc *func = low.program->module->funcs.at[f];
        for (uint32_t i = 0; i < func->ops.n; i++) {
            if (func->ops.at[i]->kind != DT_OP_CONCAT)
                continue;
            const DtType *type = func->ops.at[i]->out[0]->type;
            cr_expect(type->rank == 3 && dt_type_find(type, dt_intern("batch")) == 0 &&
                      dt_type_find(type, dt_intern("embed")) == 2);
            n++;
        }
    }
    cr_expect(n > 0);
    dt_arena_free(low.arena);
}
