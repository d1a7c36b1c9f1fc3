/* SPDX-License-Identifier: Apache-2.0 */
/* Data against the program: a sampler fills a fixed number of inputs with fixed types, and with
 * values that the program can use as an index (ir/ranges.c). With synthetic data every source is
 * replaced by random numbers of the same types and of that range. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <float.h>
#include <math.h>
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
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        if (!reader->types[i] && reader->inputs[i])
            reader->types[i] = input_type(program, reader->inputs[i]);
        if (reader->kind == DT_SAMPLE_CHAT && reader->types[0] && reader->types[0]->rank > 2)
            reader->source.chat |= DT_CHAT_PAIRS;
        reader->ranges[i] = (DtInputRange){.allowed = dt_intset_all};
        if (reader->types[i] && reader->types[i]->dtype == DT_I32)
            reader->ranges[i] = dt_ranges_input(program->module, reader->inputs[i]);
    }
}

/* The dtypes of the inputs that a sampler fills, a letter for each (i integer, b bool, f float or
 * integer), and their rank (*: check_image looks). */
typedef struct Filling {
    DtSampleKind kind;
    const char *sampler, *names, *dtypes, *ranks;
    uint32_t least; /* inputs */
} Filling;

static const Filling fillings[] = {
    {DT_SAMPLE_NEXT_TOKEN, "next_token", "tokens, labels", "ii", "22", 2},
    {DT_SAMPLE_MLM, "mlm", "tokens, kind, valid, labels, masked", "iibib", "22222", 5},
    {DT_SAMPLE_SPAN_CORRUPTION, "span_corruption", "source, target, labels, valid", "iiib", "2222",
     4},
    {DT_SAMPLE_IMAGES, "images", "image, label", "fi", "*1", 1},
    {DT_SAMPLE_CHAT, "chat", "tokens, labels, document, position", "iiii", "2222", 2},
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

/* Checks the axes of an input. Inputs of preferences have an axis of two elements between samples
 * and tokens: the chosen document and the rejected one. */
static void check_rank(const DtConfigHost *host, const DtReader *r, const Filling *f, uint32_t i)
{
    const DtType *type = r->types[i];
    const bool pairs = r->kind == DT_SAMPLE_CHAT && (r->source.chat & DT_CHAT_PAIRS);
    const uint32_t wants = (uint32_t)(f->ranks[i] - '0') + pairs;
    DtDiag *d = NULL;
    if (type->rank != wants)
        d = dt_diag_report(host->diags, E0803, r->span,
                           "`%s` has %u axes; `%s` fills an input of %u", r->inputs[i], type->rank,
                           f->sampler, wants);
    else if (pairs && type->axes[1].extent != 2)
        d = dt_diag_report(host->diags, E0803, r->span,
                           "axis `%s` of `%s` is %lld; the second of three axes is 2",
                           type->axes[1].name, r->inputs[i], (long long)type->axes[1].extent);
    if (!d)
        return;
    dt_diag_note(d, "the first axis is the sample");
    if (r->kind == DT_SAMPLE_CHAT)
        dt_diag_note(d, "with `dim pair = 2`, inputs [batch, pair, seq] have the chosen document "
                        "of a preference at 0 and the rejected one at 1");
}

/* Checks that the input is an image: [sample, height, width], or with an axis of 1 or 3 colours as
 * the last or the second one. */
static void check_image(const DtConfigHost *host, const DtReader *r)
{
    const DtType *type = r->types[0];
    const uint32_t colours = r->source.image.colours;
    const int64_t last = type->rank == 4 ? type->axes[3].extent : 1,
                  second = type->rank == 4 ? type->axes[1].extent : 1;
    const bool is_last = last == 1 || last == 3, is_second = second == 1 || second == 3;
    if ((type->rank != 3 && type->rank != 4) || (!is_last && !is_second)) {
        DtDiag *d = dt_diag_report(host->diags, E0803, r->span, "`%s` is no image", r->inputs[0]);
        dt_diag_help(d, "images fill [batch, height, width], [batch, height, width, colour] or "
                        "[batch, colour, height, width], where `colour` has 1 or 3 elements");
    } else if (colours == 3 && (is_last ? last : second) == 1) {
        dt_diag_report(host->diags, E0803, r->span,
                       "`%s` has one colour, and `mean` or `std` three numbers", r->inputs[0]);
    }
}

static void check_filling(const DtConfigHost *host, const DtReader *r, const Filling *f)
{
    const size_t wants = strlen(f->dtypes);
    if (f->least < wants && (r->n_inputs < f->least || r->n_inputs > wants)) {
        DtDiag *d = dt_diag_report(host->diags, E0802, r->span,
                                   "`%s` fills %u to %zu inputs, not %u", f->sampler, f->least,
                                   wants, r->n_inputs);
        dt_diag_note(d, "in order: %s", f->names);
        return;
    }
    if (f->least == wants && r->n_inputs != wants) {
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
        } else if (f->ranks[i] == '*') {
            check_image(host, r);
        } else {
            check_rank(host, r, f, i);
        }
    }
}

/* Checks that the first axis, which counts samples, is the same one in all inputs; reports inputs
 * that differ. */
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

/* Checks that the dtype of an input is that of its file's numbers: integers of a file fill an i32
 * input, floats an f32 one. Reports it if not. */
static void check_numbers(const DtConfigHost *host, const DtReader *reader)
{
    const DtSource *source = &reader->source;
    const DtType *type = reader->n_inputs ? reader->types[0] : NULL;
    if ((source->kind != DT_SOURCE_TEXT && source->kind != DT_SOURCE_BIN &&
         source->kind != DT_SOURCE_MEGATRON) ||
        !type)
        return;
    const DtDtype wants = dt_dtype_is_float(source->dtype) ? DT_F32 : DT_I32;
    if (reader->kind != DT_SAMPLE_RAW && wants == DT_F32) {
        DtDiag *d =
            dt_diag_report(host->diags, E0806, source->span,
                           "a stream of tokens has integers, not %s", dt_dtype_name(source->dtype));
        dt_diag_help(d, "tokens are u8, u16, u32, i32 or i64; a source by itself may have floats");
    } else if (reader->kind == DT_SAMPLE_RAW && type->dtype != wants) {
        const bool text = source->kind == DT_SOURCE_TEXT;
        const char *numbers = source->tokenizer ? "ids"
                              : text            ? "bytes"
                                                : dt_dtype_name(source->dtype);
        DtDiag *d = dt_diag_report(
            host->diags, E0803, reader->span, "`%s` is %s; `%s` of %s fills it with %s",
            reader->inputs[0], dt_dtype_name(type->dtype),
            text                                 ? "text"
            : source->kind == DT_SOURCE_MEGATRON ? "megatron"
                                                 : "bin",
            numbers, dt_dtype_name(wants));
        dt_diag_help(d, "declare it as `%s %s[...]`; `f32(%s)` makes floats of integers",
                     dt_dtype_name(wants), reader->inputs[0], reader->inputs[0]);
    }
}

/* Packed documents need the input by which a program tells them apart. */
static void check_packed(const DtConfigHost *host, const DtReader *reader)
{
    if (reader->kind != DT_SAMPLE_CHAT || !(reader->source.chat & DT_CHAT_PACK))
        return;
    if (reader->source.chat & DT_CHAT_PAIRS) {
        DtDiag *d = dt_diag_report(host->diags, E0802, reader->span,
                                   "`pack` puts several documents into a row, and preferences have "
                                   "a row for each");
        dt_diag_help(d, "leave out `pack = true`");
        return;
    }
    if (reader->n_inputs != 2)
        return;
    DtDiag *d = dt_diag_report(host->diags, E0802, reader->span,
                               "`pack` puts several documents into a sample, and no input says "
                               "where each of them is");
    dt_diag_help(d, "declare a third input, `i32 document[batch, seq]`, and let attention read a "
                    "key where `document == document[seq -> kseq]`");
}

static void check_reader(const DtConfigHost *host, const DtReader *reader)
{
    check_numbers(host, reader);
    check_packed(host, reader);
    for (size_t i = 0; i < DT_COUNT(fillings); i++)
        if (fillings[i].kind == reader->kind)
            check_filling(host, reader, &fillings[i]);
    if (reader->kind == DT_SAMPLE_RAW && reader->n_inputs != 1)
        dt_diag_report(host->diags, E0802, reader->span,
                       "a source by itself fills one input, not %u", reader->n_inputs);
}

/* ---- ranges ---- */

/* Returns the end of the dtype's range: the largest integer plus one, or the largest float. The
 * range begins at its negative. */
static double end_of(DtDtype dtype) { return dt_dtype_is_float(dtype) ? FLT_MAX : 0x1p31; }

/* Whether all random numbers of the source are values of the input's dtype. */
static bool has_drawn(const DtType *type, const DtSource *source)
{
    if (!type || source->kind != DT_SOURCE_SYNTHETIC || type->dtype == DT_BOOL)
        return true;
    return source->lo >= -end_of(type->dtype) && source->hi <= end_of(type->dtype);
}

static void check_drawn(const DtConfigHost *host, const DtReader *reader)
{
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        if (!has_drawn(reader->types[i], &reader->source)) {
            const DtDtype dtype = reader->types[i]->dtype;
            DtDiag *d = dt_diag_report(host->diags, E0803, reader->source.span,
                                       "`%s` is %s, which has not all numbers from %g to %g",
                                       reader->inputs[i], dt_dtype_name(dtype), reader->source.lo,
                                       reader->source.hi);
            dt_diag_note(d, "%s has numbers from %.10g to %.10g", dt_dtype_name(dtype),
                         -end_of(dtype), end_of(dtype) - !dt_dtype_is_float(dtype));
        }
}

static int64_t whole_bound(double number)
{
    return (int64_t)fmin(fmax(number, -0x1p62), 0x1p62);
}

/* Returns values that certainly occur in the source: text has ASCII letters, random numbers have
 * their range, labels of conversations and of masked text are -1 where nothing is trained. Other
 * files, and ids of tokenizers, are examined when they are read. */
static DtIntSet sure_values(const DtReader *reader, uint32_t input)
{
    const DtSource *source = &reader->source;
    if ((source->kind == DT_SOURCE_CHAT && input == 1) ||
        (reader->kind == DT_SAMPLE_MLM && input == 3))
        return dt_intset_range(-1, 0);
    if (source->tokenizer || !dt_configsamplers_has_tokens(reader, input))
        return dt_intset_none;
    if (source->kind == DT_SOURCE_TEXT)
        return dt_intset_range(0, 128);
    if (source->kind == DT_SOURCE_SYNTHETIC)
        return dt_intset_range(whole_bound(source->lo), whole_bound(source->hi));
    return dt_intset_none;
}

/* Whether the reader certainly fills an i32 input with values that are not allowed. ret_input:
 * which input; ret_value: the largest such value. */
static bool first_fault(const DtReader *reader, uint32_t *ret_input, int64_t *ret_value)
{
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        if (!reader->types[i] || reader->types[i]->dtype != DT_I32)
            continue;
        DtIntSet values = sure_values(reader, i),
                 outside = dt_intset_others(&reader->ranges[i].allowed);
        outside = dt_intset_common(&values, &outside);
        if (!outside.n)
            continue;
        if (ret_input)
            *ret_input = i;
        if (ret_value)
            *ret_value = outside.hi[outside.n - 1] - 1;
        return true;
    }
    return false;
}

static void check_range(const DtConfigHost *host, const DtReader *reader)
{
    uint32_t input;
    int64_t value;
    if (!first_fault(reader, &input, &value))
        return;
    const DtInputRange *range = &reader->ranges[input];
    bool text = reader->source.kind == DT_SOURCE_TEXT && value >= 0;
    DtDiag *d = dt_diag_report(host->diags, E0811, reader->source.span,
                               "%s, such as %lld, are outside `%s` of %lld",
                               text ? "bytes of text" : "values of this source", (long long)value,
                               range->axis, (long long)range->extent);
    dt_diag_label(d, range->span, "`%s` is the index here", reader->inputs[input]);
    dt_diag_note(d, "an index outside the axis reads 0, and nothing would be learned from it");
    if (value == -1 && reader->source.kind != DT_SOURCE_SYNTHETIC)
        dt_diag_help(d, "labels are -1 where nothing is trained; `xent` ignores them");
    else if (text)
        dt_diag_help(
            d,
            "text needs an axis of 256 (ASCII: 128); `bin(..., u8)` reads bytes that are no text");
    else
        dt_diag_help(d, "`synthetic(0, %s)` draws indices of that axis", range->axis);
}

/* Returns in ret_values the values that a source can have; false if they are not known. */
static bool possible_values(const DtSource *source, DtIntSet *ret_values)
{
    if (source->kind == DT_SOURCE_SYNTHETIC)
        *ret_values = dt_intset_range(whole_bound(source->lo), whole_bound(source->hi));
    else if (source->tokenizer)
        return false;
    else if (source->kind == DT_SOURCE_TEXT ||
             (source->kind == DT_SOURCE_BIN && source->dtype == DT_U8))
        *ret_values = dt_intset_range(0, 1 << 8);
    else if (source->kind == DT_SOURCE_BIN && source->dtype == DT_U16)
        *ret_values = dt_intset_range(0, 1 << 16);
    else if (source->kind == DT_SOURCE_BIN && source->dtype == DT_U32)
        *ret_values = dt_intset_range(0, 1ll << 32);
    else
        return false;
    return true;
}

/* Returns a set of integers as text: "-100", "0 .. 15", "all but -100". */
static const char *set_text(DtArena *arena, const DtIntSet *set)
{
    const DtIntSet others = dt_intset_others(set);
    if (others.n == 1 && others.lo[0] != INT64_MIN && others.hi[0] != INT64_MAX)
        return dt_arena_printf(arena, "all but %s", set_text(arena, &others));
    const char *text = "";
    for (uint32_t i = 0; i < set->n; i++) {
        const long long lo = set->lo[i], hi = set->hi[i] - 1;
        text = dt_arena_printf(arena, "%s%s", text, i ? " and " : "");
        if (set->lo[i] == INT64_MIN)
            text = dt_arena_printf(arena, "%s%lld and below", text, hi);
        else if (set->hi[i] == INT64_MAX)
            text = dt_arena_printf(arena, "%s%lld and above", text, lo);
        else if (lo == hi)
            text = dt_arena_printf(arena, "%s%lld", text, lo);
        else
            text = dt_arena_printf(arena, "%s%lld .. %lld", text, lo, hi);
    }
    return text;
}

/* Reports that no value of a source counts: as an error if a loss sums over those that do (valid
 * labels), as a lint if a metric does. */
static void report_idle(const DtConfigHost *host, const DtReader *reader, const char *input,
                        const DtIntSet *values, const DtIdleSum *idle)
{
    DtDiag *d = dt_diag_report(host->diags, idle->of_loss ? E0812 : L0474, reader->source.span,
                               "no value of `%s` counts for %s", input,
                               idle->of_loss ? "the loss" : "a metric");
    if (idle->is_bounded)
        dt_diag_label(d, idle->span, "this divisor counts nothing%s",
                      idle->of_loss ? ", so nothing is learned" : "");
    else if (idle->divides)
        dt_diag_label(d, idle->span, "this divisor is 0, so the %s is no number",
                      idle->of_loss ? "loss" : "metric");
    else
        dt_diag_label(d, idle->span, "the loss is 0, whatever the model computes");
    dt_diag_note(d, "the program counts %s; this source has %s",
                 idle->counts.n ? set_text(host->arena, &idle->counts) : "nothing",
                 set_text(host->arena, values));
    dt_diag_help(
        d, "compare `%s` with a value that the data has, or name the file of its labels", input);
}

static void check_idle(const DtConfigHost *host, const DtProgram *program, const DtReader *reader)
{
    DtIntSet values;
    DtIdleSum idle;
    if ((reader->kind != DT_SAMPLE_RAW && reader->kind != DT_SAMPLE_NEXT_TOKEN) ||
        !possible_values(&reader->source, &values))
        return;
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        if (!reader->types[i] || reader->types[i]->dtype != DT_I32 ||
            !dt_ranges_idle(program->module, reader->inputs[i], &values, &idle))
            continue;
        report_idle(host, reader, reader->inputs[i], &values, &idle);
        return;
    }
}

static void check_values(const DtConfigHost *host, const DtProgram *program, const DtReader *reader)
{
    const uint32_t before = dt_diag_errors(host->diags);
    check_drawn(host, reader);
    check_range(host, reader);
    if (!host->options->synthetic && dt_diag_errors(host->diags) == before)
        check_idle(host, program, reader);
}

/* ---- synthetic data ---- */

/* Random integers are below this number if neither a type nor data bound them. */
enum { USUAL_END = 256 };

/* Makes a source of random numbers for an input in place of `old`: integers in the allowed range,
 * floats in -1 .. 1. */
static DtSource random_source(const DtSource *old, const DtType *type, const DtInputRange *range)
{
    DtSource source = {.kind = DT_SOURCE_SYNTHETIC, .folder = old->folder, .to = 1,
                       .span = old->span};
    DtDtype dtype = type ? type->dtype : DT_I32;
    bool bounded = range->lo < range->hi;
    source.lo = dt_dtype_is_float(dtype)       ? -1
                : dtype == DT_BOOL || !bounded ? 0
                                               : (double)range->lo;
    source.hi = dt_dtype_is_float(dtype) ? 1
                : dtype == DT_BOOL       ? 2
                : bounded                ? (double)range->hi
                                         : USUAL_END;
    return source;
}

/* Returns the range of values that are allowed in all inputs of a stream; if there are none, that
 * of the first input. */
static DtInputRange common_range(const DtReader *reader)
{
    DtInputRange all = {.lo = 0, .hi = 0};
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        const DtInputRange *range = &reader->ranges[i];
        if (range->lo == range->hi)
            continue;
        bool first = all.lo == all.hi;
        all.lo = first || range->lo > all.lo ? range->lo : all.lo;
        all.hi = first || range->hi < all.hi ? range->hi : all.hi;
    }
    return all.lo < all.hi ? all : reader->ranges[0];
}

/* Whether the reader draws random numbers that the program allows; these are kept. */
static bool usable(const DtReader *reader)
{
    bool good = reader->source.kind == DT_SOURCE_SYNTHETIC && !first_fault(reader, NULL, NULL) &&
                (reader->kind == DT_SAMPLE_RAW || reader->kind == DT_SAMPLE_NEXT_TOKEN);
    for (uint32_t i = 0; good && i < reader->n_inputs; i++)
        good = has_drawn(reader->types[i], &reader->source);
    return good;
}


/* Appends readers of random numbers in place of `old`: one for the tokens of a stream, otherwise
 * one per input. A reader that draws allowed random numbers already is kept. */
static void add_synthetic(DtArena *arena, const DtReader *from, DtReaders *readers)
{
    DtReader alone = *from; /* random numbers of several sources are those of one */
    const DtReader *old = &alone;
    alone.part = 0;
    alone.weight = 0;
    if (from->part > 1)
        return;
    if (usable(old)) {
        DT_PUSH(arena, *readers, *old);
        return;
    }
    if (old->kind == DT_SAMPLE_NEXT_TOKEN && old->n_inputs) {
        DtReader reader = *old;
        DtInputRange range = common_range(old);
        reader.source = random_source(&old->source, old->types[0], &range);
        DT_PUSH(arena, *readers, reader);
        return;
    }
    for (uint32_t i = 0; i < old->n_inputs; i++) {
        DtReader reader = {.kind = DT_SAMPLE_RAW, .n_inputs = 1, .span = old->span};
        reader.inputs[0] = old->inputs[i];
        reader.types[0] = old->types[i];
        reader.ranges[0] = old->ranges[i];
        reader.source = random_source(&old->source, old->types[i], &old->ranges[i]);
        DT_PUSH(arena, *readers, reader);
    }
}

static void make_synthetic(DtArena *arena, DtTrainConfig *train)
{
    DtReaders readers = {0}, eval_readers = {0};
    for (uint32_t i = 0; i < train->readers.n; i++)
        add_synthetic(arena, &train->readers.at[i], &readers);
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        add_synthetic(arena, &train->eval_readers.at[i], &eval_readers);
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
        if (!host->options->synthetic)
            dt_configsamplers_check(host, &train->readers.at[i]);
    }
    for (uint32_t i = 0; i < train->eval_readers.n; i++) {
        fill_types(program, &train->eval_readers.at[i]);
        check_numbers(host, &train->eval_readers.at[i]);
        if (!host->options->synthetic)
            dt_configsamplers_check(host, &train->eval_readers.at[i]);
    }
    check_samples(host, train);
    dt_configmix_check_train(host, train);
    if (host->options->synthetic)
        make_synthetic(host->arena, train);
    for (uint32_t i = 0; i < train->readers.n; i++)
        check_values(host, program, &train->readers.at[i]);
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        check_values(host, program, &train->eval_readers.at[i]);
    if (!host->options->synthetic)
        dt_configtokens_check(host, train);
}
