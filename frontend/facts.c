/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the program's facts (steps, schedules, data) as records, from the checked blocks
 * alone. The certificate of a plan compares them with the records that the back end wrote:
 *
 *   META seed=1 steps=1000 batch=16 tokens=1024 draws=4 tf32=0 eval_rest=1 eval_every=500 ..
 *   SETT name="lr.base" is_whole=0 value=0.002
 *   SCAL name="@lr" formula="mul(lr.base, ...)"
 *   OBJE loss="loss" step="step" update="update" rate="@lr" every=1
 *   SHOW name="accuracy" entry="eval" formula="div(accuracy.0, accuracy.1)"
 *   READ sample=next_token source=text glob="fortunes.txt" folder="." dtype=u8 is_eval=0 ..
 *   INPT name="tokens" dtype=i32 n_axes=2 draw_lo=0 draw_hi=256 lo=0,0,0,0 hi=256,0,0,0 ..
 *   AXIS name="batch" extent=16
 *
 * The words are those of plan/fields.def, whose names of samples, sources and schedules are
 * repeated here. */
#include "frontend/facts.h"

#include "ir/irtext.h"
#include "ir/quote.h"

const char *const dt_facts_samples[] = {[DT_SAMPLE_NEXT_TOKEN] = "next_token",
                                        [DT_SAMPLE_MLM] = "mlm",
                                        [DT_SAMPLE_SPAN_CORRUPTION] = "span_corruption",
                                        [DT_SAMPLE_IMAGES] = "images",
                                        [DT_SAMPLE_RAW] = "raw",
                                        [DT_SAMPLE_CHAT] = "chat"};
const char *const dt_facts_sources[] = {[DT_SOURCE_TEXT] = "text",
                                        [DT_SOURCE_BIN] = "bin",
                                        [DT_SOURCE_NPY] = "npy",
                                        [DT_SOURCE_IMAGES] = "images",
                                        [DT_SOURCE_SYNTHETIC] = "synthetic",
                                        [DT_SOURCE_CHAT] = "chat",
                                        [DT_SOURCE_MEGATRON] = "megatron",
                                        [DT_SOURCE_CSV] = "csv"};

static void word(DtText *text, const char *key, const char *value)
{
    dt_text_printf(text, " %s=%s", key, value);
}

static void string(DtText *text, const char *key, const char *value)
{
    dt_text_printf(text, " %s=", key);
    dt_quote_add_string(text, value ? value : "");
}

static void integer(DtText *text, const char *key, int64_t value)
{
    dt_text_printf(text, " %s=%lld", key, (long long)value);
}

static void number(DtText *text, const char *key, double value)
{
    dt_text_printf(text, " %s=", key);
    dt_text_double(text, value);
}

static void add_meta(const DtTrainConfig *train, DtText *text)
{
    const DtType *first = train->readers.n ? train->readers.at[0].types[0] : NULL;
    dt_text_add(text, "META");
    dt_text_printf(text, " seed=%llu", (unsigned long long)train->seed);
    integer(text, "steps", train->steps);
    number(text, "epochs", train->epochs);
    integer(text, "batch", first ? first->axes[0].extent : 0);
    integer(text, "ramp_from", train->ramp.from);
    integer(text, "ramp_by", train->ramp.by);
    integer(text, "ramp_over", train->ramp.over);
    const bool mixes = train->replicas.mix != DT_MIX_NONE;
    integer(text, "mix_every", mixes ? train->replicas.every : 0);
    integer(text, "mix_ways", mixes ? dt_replicas_ways(&train->replicas) : 0);
    integer(text, "tokens", first ? dt_type_elements(first) : 0);
    integer(text, "draws", train->draws);
    integer(text, "tf32", train->precision.tf32);
    integer(text, "eval_rest", train->eval_rest);
    integer(text, "eval_every", train->eval_every);
    integer(text, "eval_steps", train->eval_steps);
    integer(text, "eval_patience", train->eval_patience);
    integer(text, "keep_best", train->keep_best);
    integer(text, "save_every", train->save_every);
    integer(text, "save_keep", train->save_keep);
    dt_text_add(text, "\n");
}

static void add_scalars(const DtTrainConfig *train, DtText *text)
{
    for (uint32_t i = 0; i < train->settings.n; i++) {
        dt_text_add(text, "SETT");
        string(text, "name", train->settings.at[i].name);
        integer(text, "is_whole", train->settings.at[i].is_whole);
        number(text, "value", train->settings.at[i].value);
        dt_text_add(text, "\n");
    }
    for (uint32_t i = 0; i < train->scalars.n; i++) {
        dt_text_add(text, "SCAL");
        string(text, "name", train->scalars.at[i].name);
        string(text, "formula", train->scalars.at[i].formula);
        dt_text_add(text, "\n");
    }
}

static void add_objectives(const DtTrainConfig *train, DtText *text)
{
    for (uint32_t i = 0; i < train->objectives.n; i++) {
        const DtObjective *o = &train->objectives.at[i];
        const DtEntryPoint grad = dt_entry_new(DT_ENTRY_GRAD, o->name, DT_PART_WHOLE, -1),
                           update = dt_entry_new(DT_ENTRY_UPDATE, o->name, DT_PART_WHOLE, -1);
        dt_text_add(text, "OBJE");
        string(text, "loss", o->loss);
        string(text, "step", dt_entry_run(&grad));
        string(text, "update", dt_entry_run(&update));
        string(text, "rate", o->rate);
        integer(text, "every", o->every);
        dt_text_add(text, "\n");
    }
}

static void add_shown(const DtTrainConfig *train, DtText *text)
{
    for (uint32_t i = 0; i < train->shown.n; i++) {
        const DtShownValue *shown = &train->shown.at[i];
        if (!shown->runs)
            continue;
        dt_text_add(text, "SHOW");
        string(text, "name", shown->name);
        string(text, "entry", shown->entry);
        string(text, "formula", shown->formula);
        dt_text_add(text, "\n");
    }
}

static void list(DtText *text, const char *key, const int64_t *values, uint32_t n, uint32_t of)
{
    for (uint32_t i = 0; i < of; i++) {
        if (i)
            dt_text_add(text, ",");
        else
            dt_text_printf(text, " %s=", key);
        dt_text_integer(text, i < n ? values[i] : 0);
    }
}

/* Writes the range of random numbers, and the allowed values as intervals lo .. hi: none if no axis
 * bounds the values; one interval 0 .. -1 if no value is allowed. */
static void add_values(const DtInputRange *range, DtText *text)
{
    const DtIntSet *allowed = &range->allowed;
    const uint32_t n = range->axis ? allowed->n : 0;
    integer(text, "draw_lo", range->lo);
    integer(text, "draw_hi", range->hi);
    list(text, "lo", allowed->lo, n, DT_INTSET_PIECES);
    list(text, "hi", allowed->hi, n, DT_INTSET_PIECES);
    integer(text, "n_ranges", range->axis && !n ? 1 : n);
    string(text, "indexed", range->axis);
    integer(text, "extent", range->axis ? range->extent : 0);
}

static void add_input(const char *name, const DtType *type, const DtInputRange *range, DtText *text)
{
    dt_text_add(text, "INPT");
    string(text, "name", name);
    word(text, "dtype", dt_dtype_name(type->dtype));
    integer(text, "n_axes", type->rank);
    add_values(range, text);
    dt_text_add(text, "\n");
    for (uint32_t i = 0; i < type->rank; i++) {
        dt_text_add(text, "AXIS");
        string(text, "name", type->axes[i].name);
        integer(text, "extent", type->axes[i].extent);
        dt_text_add(text, "\n");
    }
}

static void numbers(DtText *text, const char *key, const double values[3])
{
    dt_text_printf(text, " %s=", key);
    for (int i = 0; i < 3; i++) {
        dt_text_add(text, i ? "," : "");
        dt_text_double(text, values[i]);
    }
}

static void add_image(const DtImageSource *image, DtText *text)
{
    static const char *const crops[] = {"whole", "centre", "random", "zoom"};
    word(text, "crop", crops[image->crop]);
    integer(text, "image", image->flip * DT_IMAGE_FLIP + image->stretch * DT_IMAGE_STRETCH);
    integer(text, "resize", image->resize);
    integer(text, "pad", image->pad);
    integer(text, "pixels", image->pixels);
    numbers(text, "mean", image->mean);
    numbers(text, "std", image->std);
}

static void add_reader(const DtReader *reader, bool is_eval, DtText *text)
{
    const DtSource *source = &reader->source;
    dt_text_add(text, "READ");
    word(text, "sample", dt_facts_samples[reader->kind]);
    word(text, "source", dt_facts_sources[source->kind]);
    string(text, "glob", source->glob);
    string(text, "folder", source->folder);
    word(text, "dtype", dt_dtype_name(source->dtype));
    integer(text, "is_eval", is_eval);
    integer(text, "n_inputs", reader->n_inputs);
    number(text, "from", source->from);
    number(text, "to", source->to);
    number(text, "lo", source->lo);
    number(text, "hi", source->hi);
    number(text, "rate", reader->rate);
    number(text, "mean_span", reader->mean_span);
    integer(text, "mask_id", reader->mask_id);
    integer(text, "start_id", reader->start_id);
    integer(text, "end_id", reader->end_id);
    list(text, "special", reader->special, reader->n_special, DT_SPECIALS);
    number(text, "weight", reader->weight);
    integer(text, "n_special", reader->n_special);
    integer(text, "part", reader->part);
    integer(text, "raw", source->raw);
    integer(text, "unpaired", source->unpaired);
    string(text, "tokenizer", source->tokenizer);
    string(text, "end", source->end);
    string(text, "template", source->template);
    integer(text, "chat", source->chat);
    string(text, "columns", source->columns);
    integer(text, "separator", source->separator);
    integer(text, "header", source->header);
    add_image(&source->image, text);
    dt_text_add(text, "\n");
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        add_input(reader->inputs[i], reader->types[i], &reader->ranges[i], text);
}

void dt_facts_print(const DtProgram *program, DtText *ret_text)
{
    const DtTrainConfig *train = program->train;
    if (!train)
        return;
    add_meta(train, ret_text);
    add_scalars(train, ret_text);
    add_objectives(train, ret_text);
    add_shown(train, ret_text);
    for (uint32_t i = 0; i < train->readers.n; i++)
        add_reader(&train->readers.at[i], false, ret_text);
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        add_reader(&train->eval_readers.at[i], true, ret_text);
}
