/* SPDX-License-Identifier: Apache-2.0 */
/* Data against the program: a sampler fills a fixed number of inputs with fixed types. With synthetic data
 * every source is replaced by random numbers of the same types, within the range that the program can use
 * as an index. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <string.h>

/* ---- inputs ---- */

static const DtType *input_type(const DtProgram *program, const char *name)
{
    for (uint32_t i = 0; i < program->module->funcs.n; i++) {
        const DtFunc *func = program->module->funcs.at[i];
        for (uint32_t k = 0; func->kind == DT_FUNC_ENTRY && k < func->ops.n; k++)
            if (func->ops.at[k]->kind == DT_OP_INPUT && !strcmp(func->ops.at[k]->text, name))
                return func->ops.at[k]->out[0]->type;
    }
    return NULL;
}

static void fill_types(const DtProgram *program, DtReader *reader)
{
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        if (!reader->types[i] && reader->inputs[i])
            reader->types[i] = input_type(program, reader->inputs[i]);
}

/* What a sampler fills: one letter per input, i integer, b bool, f float or integer; and its rank. */
typedef struct Filling {
    DtSampleKind kind;
    const char *sampler, *names, *dtypes, *ranks;
} Filling;

static const Filling fillings[] = {
    {DT_SAMPLE_NEXT_TOKEN, "next_token", "tokens, labels", "ii", "22"},
    {DT_SAMPLE_MLM, "mlm", "tokens, kind, valid, labels, masked", "iibib", "22222"},
    {DT_SAMPLE_SPAN_CORRUPTION, "span_corruption", "source, target, labels, valid", "iiib", "2222"},
    {DT_SAMPLE_IMAGES, "images", "image, label", "fi", "41"},
};

static const char *letter_name(char letter)
{
    return letter == 'i' ? "i32" : letter == 'b' ? "bool" : "a float";
}

static bool letter_holds(char letter, DtDtype dtype)
{
    return letter == 'i'   ? dtype == DT_I32
           : letter == 'b' ? dtype == DT_BOOL
                           : dt_dtype_is_float(dtype);
}

static void check_filling(const DtConfigHost *host, const DtReader *r, const Filling *f)
{
    size_t wants = strlen(f->dtypes);
    if (r->n_inputs != wants) {
        DtDiag *d = dt_diag_report(host->diags, E0802, r->span, "`%s` fills %zu inputs, not %u",
                                   f->sampler, wants, r->n_inputs);
        dt_diag_note(d, "in order: %s", f->names);
        return;
    }
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        const DtType *type = r->types[i];
        if (!type)
            continue;
        if (!letter_holds(f->dtypes[i], type->dtype)) {
            DtDiag *d = dt_diag_report(
                host->diags, E0803, r->span, "`%s` is %s; `%s` fills it with %s", r->inputs[i],
                dt_dtype_name(type->dtype), f->sampler, letter_name(f->dtypes[i]));
            dt_diag_note(d, "in order: %s", f->names);
        } else if (type->rank != f->ranks[i] - '0') {
            DtDiag *d = dt_diag_report(host->diags, E0803, r->span,
                                       "`%s` has %u axes; `%s` fills an input of %c", r->inputs[i],
                                       type->rank, f->sampler, f->ranks[i]);
            dt_diag_note(d, "the first axis is the sample");
        }
    }
}

/* The sample axis is the first one, and the same for all inputs of the program. */
static void check_samples(const DtConfigHost *host, const DtTrainConfig *train)
{
    const DtType *first = NULL;
    const DtReader *first_reader = NULL;
    const char *first_name = NULL;
    for (uint32_t i = 0; i < train->readers.n; i++) {
        const DtReader *r = &train->readers.at[i];
        for (uint32_t k = 0; k < r->n_inputs; k++) {
            if (!r->types[k])
                continue;
            if (!r->types[k]->rank) {
                dt_diag_report(host->diags, E0803, r->span,
                               "`%s` needs a sample axis, as its first one", r->inputs[k]);
                return;
            }
            if (!first) {
                first = r->types[k];
                first_reader = r;
                first_name = r->inputs[k];
            }
            if (r->types[k]->axes[0].name == first->axes[0].name)
                continue;
            DtDiag *d = dt_diag_report(
                host->diags, E0803, r->span,
                "the samples of `%s` are along `%s`, those of `%s` along `%s`", r->inputs[k],
                r->types[k]->axes[0].name, first_name, first->axes[0].name);
            if (r != first_reader)
                dt_diag_label(d, first_reader->span, "here");
            dt_diag_note(d, "the first axis of an input is the sample");
            return;
        }
    }
}

static void check_reader(const DtConfigHost *host, const DtReader *reader)
{
    for (size_t i = 0; i < DT_COUNT(fillings); i++)
        if (fillings[i].kind == reader->kind)
            check_filling(host, reader, &fillings[i]);
    if (reader->kind == DT_SAMPLE_RAW && reader->n_inputs != 1)
        dt_diag_report(host->diags, E0802, reader->span,
                       "a source by itself fills one input, not %u", reader->n_inputs);
}

/* ---- synthetic data ---- */

typedef struct Follow {
    int64_t bound;   /* smallest extent that is indexed */
    uint32_t budget; /* ops still to look at */
} Follow;

static bool passes_index(DtOpKind kind)
{
    return kind == DT_OP_RELABEL || kind == DT_OP_SLICE || kind == DT_OP_EXPAND ||
           kind == DT_OP_WHERE || kind == DT_OP_STOP || kind == DT_OP_CAST ||
           kind == DT_OP_CONCAT || kind == DT_OP_PAD;
}

/* Follows a value to the gathers whose index it is. */
static void follow(Follow *f, const DtFunc *func, const DtValue *value, uint32_t depth)
{
    if (depth > 64)
        return;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (op->in[k] != value)
                continue;
            if (!f->budget)
                return;
            f->budget--;
            if (op->kind == DT_OP_GATHER && k > 0 && k - 1 < op->n_axes) {
                int64_t extent = dt_type_extent(op->in[0]->type, op->axes[k - 1]);
                if (extent > 0 && extent < f->bound)
                    f->bound = extent;
            } else if (op->kind == DT_OP_CALL && k < op->func->inputs.n) {
                follow(f, op->func, op->func->inputs.at[k], depth + 1);
            } else if (op->kind == DT_OP_LOOP && k + 1 < op->func->inputs.n) {
                follow(f, op->func, op->func->inputs.at[k + 1], depth + 1);
            } else if (passes_index(op->kind) && op->n_out &&
                       !dt_dtype_is_float(op->out[0]->type->dtype)) {
                follow(f, func, op->out[0], depth + 1);
            }
        }
    }
}

static int64_t index_bound(const DtProgram *program, const char *name)
{
    Follow f = {.bound = INT32_MAX, .budget = 100000};
    for (uint32_t i = 0; i < program->module->funcs.n; i++) {
        const DtFunc *func = program->module->funcs.at[i];
        for (uint32_t k = 0; func->kind == DT_FUNC_ENTRY && k < func->ops.n; k++)
            if (func->ops.at[k]->kind == DT_OP_INPUT && !strcmp(func->ops.at[k]->text, name))
                follow(&f, func, func->ops.at[k]->out[0], 0);
    }
    return f.bound == INT32_MAX ? 256 : f.bound;
}

static DtSource random_source(const DtProgram *program, const DtSource *old, const char *input,
                              const DtType *type)
{
    DtSource source = {
        .kind = DT_SOURCE_SYNTHETIC, .folder = old->folder, .to = 1, .span = old->span};
    DtDtype dtype = type ? type->dtype : DT_I32;
    source.lo = dt_dtype_is_float(dtype) ? -1 : 0;
    source.hi = dt_dtype_is_float(dtype) ? 1
                : dtype == DT_BOOL       ? 2
                                         : (double)index_bound(program, input);
    return source;
}

typedef DT_VEC(DtReader) Readers;

/* A token stream stays one; other samplers become one random source per input. */
static void add_synthetic(DtArena *arena, const DtProgram *program, const DtReader *old,
                          Readers *readers)
{
    if (old->kind == DT_SAMPLE_NEXT_TOKEN && old->n_inputs) {
        DtReader reader = *old;
        for (uint32_t i = 0; i < old->n_inputs; i++) {
            DtSource source = random_source(program, &old->source, old->inputs[i], old->types[i]);
            if (!i || source.hi < reader.source.hi)
                reader.source = source;
        }
        DT_PUSH(arena, *readers, reader);
        return;
    }
    for (uint32_t i = 0; i < old->n_inputs; i++) {
        DtReader reader = {.kind = DT_SAMPLE_RAW, .n_inputs = 1, .span = old->span};
        reader.inputs[0] = old->inputs[i];
        reader.types[0] = old->types[i];
        reader.source = old->source.kind == DT_SOURCE_SYNTHETIC
                            ? old->source
                            : random_source(program, &old->source, old->inputs[i], old->types[i]);
        DT_PUSH(arena, *readers, reader);
    }
}

static void make_synthetic(DtArena *arena, const DtProgram *program, DtTrainConfig *train)
{
    Readers readers = {0}, eval_readers = {0};
    for (uint32_t i = 0; i < train->readers.n; i++)
        add_synthetic(arena, program, &train->readers.at[i], &readers);
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        add_synthetic(arena, program, &train->eval_readers.at[i], &eval_readers);
    memcpy(&train->readers, &readers, sizeof readers);
    memcpy(&train->eval_readers, &eval_readers, sizeof eval_readers);
}

void dt_configdata_check(const DtConfigHost *host, DtProgram *program)
{
    DtTrainConfig *train = program->train;
    if (!train)
        return;
    for (uint32_t i = 0; i < train->readers.n; i++) {
        fill_types(program, &train->readers.at[i]);
        check_reader(host, &train->readers.at[i]);
    }
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        fill_types(program, &train->eval_readers.at[i]);
    check_samples(host, train);
    if (host->options->synthetic)
        make_synthetic(host->arena, program, train);
}
