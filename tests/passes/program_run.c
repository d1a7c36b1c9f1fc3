/* SPDX-License-Identifier: Apache-2.0 */
#include "program_run.h"

#include "frontend/lower.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

const DtProgram *lower(DtArena *arena, DtDiags *diags, const Program *p, const char *precision)
{
    DtOption dims[16];
    char *text = dt_arena_strndup(arena, p->dims, strlen(p->dims));
    uint32_t n = 0;
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        *equals = 0;
        dims[n++] = (DtOption){.name = word, .value = equals + 1};
    }
    const DtOption set = {.name = "train.precision", .value = precision};
    const DtLowerOptions options = {.path = p->path,
                                    .sets = &set,
                                    .n_sets = precision != NULL,
                                    .library = "lib",
                                    .dims = dims,
                                    .n_dims = n,
                                    .parallel = "none",
                                    .synthetic = true};
    const DtProgram *program = dt_lower(arena, diags, &options);
    if (program == NULL)
        dt_diag_print(diags, stderr, false);
    cr_assert(program != NULL, "%s is rejected", p->path);
    return program;
}

static DtTensor *source(void *context, const DtOp *op)
{
    const Run *run = context;
    if (op->kind == DT_OP_PARAM)
        return run->stores[op->store->index];
    DtTensor *tensor = dt_interp_tensor(run->scratch, op->out[0]->type);
    if (op->text[0] == '@') {
        tensor->at[0] = strcmp(op->text, "@lr") == 0           ? 0.01
                        : strcmp(op->text, "@bias1") == 0      ? 1.5
                        : strcmp(op->text, "@loss_scale") == 0 ? run->loss_scale
                                                               : 2.5;
        return tensor;
    }
    const bool is_float = dt_dtype_is_float(op->out[0]->type->dtype);
    unsigned seed = (unsigned)strlen(op->text);
    fill_lattice(tensor, is_float ? -1 : 0, 1, &seed);
    for (int64_t i = 0; !is_float && i < dt_type_elements(tensor->type); i++)
        tensor->at[i] =
            floor(tensor->at[i] * (op->out[0]->type->dtype == DT_BOOL ? 2 : run->integers));
    return tensor;
}

const DtEntryPoint *entry(const Run *run, const char *name)
{
    const DtEntryPoint *found = dt_entry_named(run->module, name);
    cr_assert(found, "no entry `%s`", name);
    return found;
}

DtTensor **evaluate(Run *run, const DtFunc *func, DtArena *arena)
{
    DtTensor **results = DT_NEW_ARRAY(arena, DtTensor *, func->results.n + 1);
    run->interp.arena = arena;
    dt_interp_run(&run->interp, func, NULL, results);
    return results;
}

void init_stores(Run *run)
{
    unsigned seed = 17;
    run->stores = DT_NEW_ARRAY(run->arena, DtTensor *, run->module->stores.n + 1);
    for (uint32_t i = 0; i < run->module->stores.n; i++) {
        const DtStore *s = run->module->stores.at[i];
        DtTensor *tensor = run->stores[i] = dt_interp_tensor(run->arena, s->type);
        DtTensor *noise = dt_interp_tensor(run->arena, s->type);
        dt_interp_init(s, 11, tensor);
        fill_lattice(noise, -0.3, 0.3, &seed);
        for (int64_t k = 0; s->kind == DT_STORE_PARAM && k < dt_type_elements(s->type); k++)
            tensor->at[k] += noise->at[k];
    }
}

void run_begin(Run *run, const Program *p) { run_begin_in(run, p, NULL); }

void run_begin_in(Run *run, const Program *p, const char *precision)
{
    *run = (Run){.arena = dt_arena_new(),
                 .scratch = dt_arena_new(),
                 .integers = p->integers,
                 .loss_scale = 1};
    run->diags = dt_diag_new(run->arena);
    run->program = lower(run->arena, run->diags, p, precision);
    run->module = run->program->module;
    run->interp = (DtInterp){.seed = 5, .step = 2, .path = "", .source = source, .context = run};
    expect_valid(run->module);
}

void run_end(Run *run)
{
    dt_arena_free(run->scratch);
    dt_arena_free(run->arena);
}
