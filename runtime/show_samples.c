/* SPDX-License-Identifier: Apache-2.0 */
/* --show-samples: prints the first samples that a run trains on, in its order: for each position
 * the token, its word, whether the model learns to predict the target there, and the target. No
 * rank starts. Positions at the end that are all alike, as padding is, are one line. */
#include "runtime/data_sampler.h"

#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 16 }; /* of an input that is no row of tokens */

typedef struct Show {
    const DtRunOptions *options;
    const DtPlan *plan;
    const DtPlanReader *reader;
    const DtPlanInput *inputs;
    DtData *data;
    DtTokenizer **words;    /* by reader; NULL: it has no tokenizer */
    DtTokenizer *tokenizer; /* of the present sample */
    char **values;          /* a row of each input */
    DtText text;
} Show;

/* ---- words ---- */

/* The text of a token, in quotes; nothing if it has none. */
static void add_word(Show *show, int64_t id, int width)
{
    DtText word = {0};
    const char byte = (char)id;
    DtTokenBytes bytes = {NULL, 0};
    char mark[32];
    dt_text_add(&word, "");
    if (show->tokenizer && id >= 0)
        bytes = dt_tokenizer_bytes(show->tokenizer, (uint32_t)id);
    else if (show->reader->source == DT_PLAN_TEXT && id >= 0 && id < 256)
        bytes = (DtTokenBytes){(const uint8_t *)&byte, 1};
    if (bytes.at) {
        dt_text_add(&word, "\"");
        for (uint32_t i = 0; i < bytes.len;) {
            uint32_t n = 0;
            while (i + n < bytes.len && bytes.at[i + n] != '\n')
                n++;
            dt_text_add_escaped(&word, (const char *)bytes.at + i, n, false);
            if (i + n < bytes.len)
                dt_text_add(&word, "\\n");
            i += n + 1;
        }
        dt_text_add(&word, "\"");
    } else if (show->data->sampler && show->data->sampler->word(show->data, (int32_t)id, mark)) {
        dt_text_add(&word, mark);
    }
    dt_text_printf(&show->text, " %*s", -width, word.at);
    dt_text_free(&word);
}

/* ---- a row of tokens ---- */

/* Inputs that are rows of one length: tokens, their targets, and others. */
typedef struct Table {
    uint32_t token, target; /* target NO_TARGET: there is none */
    uint32_t first, end;    /* the others are among inputs first .. end - 1 */
    bool pads;              /* samples may end with padding */
} Table;
enum { NO_TARGET = UINT8_MAX, MOST_TABLES = 2 };

/* The tables that the sampler of the reader fills; returns their number. */
static uint32_t tables_of(const Show *show, Table ret_tables[MOST_TABLES])
{
    const uint32_t n = show->reader->n_inputs;
    switch (show->reader->sample) {
    case DT_PLAN_NEXT_TOKEN:
    case DT_PLAN_SAMPLE_CHAT: ret_tables[0] = (Table){0, 1, 2, n, true}; return n > 1;
    case DT_PLAN_MLM: ret_tables[0] = (Table){0, 3, 1, n, false}; return n > 3;
    case DT_PLAN_SPAN_CORRUPTION:
        ret_tables[0] = (Table){0, NO_TARGET, 0, 0, false};
        ret_tables[1] = (Table){1, 2, 3, n, true};
        return n > 2 ? 2 : 0;
    default: return 0;
    }
}

/* Whether input number i is one of the others. */
static bool is_other(const Table *table, uint32_t i) { return i != table->target; }

static int32_t value_at(const Show *show, uint32_t input, int64_t at)
{
    int32_t value;
    if (show->inputs[input].dtype == DT_PLAN_BOOL)
        return show->values[input][at] != 0;
    memcpy(&value, show->values[input] + at * (int64_t)sizeof value, sizeof value);
    return value;
}

/* The model learns the target at this position. */
static bool is_trained(const Show *show, const Table *table, int64_t at)
{
    if (table->target == NO_TARGET)
        return false;
    const DtPlanInput *labels = &show->inputs[table->target];
    const int32_t target = value_at(show, table->target, at);
    return target >= 0 && (labels->draw_lo >= labels->draw_hi ||
                           (target >= labels->draw_lo && target < labels->draw_hi));
}

/* Where the positions begin that are all like the last one, but for their numbers. */
static int64_t end_of_row(const Show *show, const Table *table)
{
    enum { LEAST = 3 };
    const int64_t n = show->inputs[table->token].row_elements;
    const uint32_t last = table->end < table->first + 1 ? table->end : table->first + 1;
    int64_t at = n - 1;
    if (!table->pads)
        return n;
    for (bool same = true; at > 0 && same; at -= same) {
        same = value_at(show, table->token, at - 1) == value_at(show, table->token, n - 1) &&
               value_at(show, table->target, at - 1) == value_at(show, table->target, n - 1);
        for (uint32_t i = table->first; i < last; i++)
            same = same && value_at(show, i, at - 1) == value_at(show, i, n - 1);
    }
    return n - at < LEAST || is_trained(show, table, n - 1) ? n : at;
}

static void show_position(Show *show, const Table *table, int64_t at)
{
    enum { WIDTH = 20 };
    const int32_t token = value_at(show, table->token, at);
    dt_text_printf(&show->text, "%8lld", (long long)at);
    for (uint32_t i = table->first; i < table->end; i++)
        if (is_other(table, i))
            dt_text_printf(&show->text, " %8d", value_at(show, i, at));
    dt_text_printf(&show->text, " %8d", token);
    add_word(show, token, table->target == NO_TARGET ? 0 : WIDTH);
    if (table->target != NO_TARGET) {
        const int32_t target = value_at(show, table->target, at);
        const bool trained = is_trained(show, table, at);
        dt_text_printf(&show->text, " %s %8d", trained ? "train" : "-    ", target);
        if (trained)
            add_word(show, target, 0);
    }
    dt_text_add(&show->text, "\n");
}

static void show_table(Show *show, const Table *table)
{
    const int64_t n = show->inputs[table->token].row_elements, end = end_of_row(show, table);
    if (table->token > 0 || table->target == NO_TARGET)
        dt_text_printf(&show->text, "%s:\n",
                       dt_plan_str(show->plan, show->inputs[table->token].name));
    dt_text_add(&show->text, "position");
    for (uint32_t i = table->first; i < table->end; i++)
        if (is_other(table, i))
            dt_text_printf(&show->text, " %8.8s", dt_plan_str(show->plan, show->inputs[i].name));
    if (table->target == NO_TARGET)
        dt_text_printf(&show->text, " %8s word\n", "token");
    else
        dt_text_printf(&show->text, " %8s %-20s %-5s %8s\n", "token", "word", "mask", "target");
    for (int64_t at = 0; at < end; at++)
        show_position(show, table, at);
    if (end < n)
        dt_text_printf(&show->text, "%8lld to %lld: token %d, without a target\n", (long long)end,
                       (long long)n - 1, value_at(show, table->token, n - 1));
}

/* ---- other inputs ---- */

static void show_values(Show *show, uint32_t input)
{
    const DtPlanInput *of = &show->inputs[input];
    const int64_t n = of->row_elements < MOST_VALUES ? of->row_elements : MOST_VALUES;
    dt_text_printf(&show->text, "%s:", dt_plan_str(show->plan, of->name));
    for (int64_t at = 0; at < n; at++) {
        float number;
        dt_text_add(&show->text, " ");
        if (of->dtype == DT_PLAN_I32) {
            dt_text_integer(&show->text, value_at(show, input, at));
        } else if (of->dtype == DT_PLAN_BOOL) {
            dt_text_integer(&show->text, show->values[input][at] != 0);
        } else {
            memcpy(&number, show->values[input] + at * (int64_t)sizeof number, sizeof number);
            dt_text_printf(&show->text, "%g", (double)number);
        }
    }
    if (n < of->row_elements)
        dt_text_printf(&show->text, " .. (%lld values)", (long long)of->row_elements);
    dt_text_add(&show->text, "\n");
}

/* ---- samples ---- */

static DtStatus show_sample(Show *show, DtData *first, int64_t number)
{
    const int64_t batch = show->plan->meta->batch;
    DtStatus status =
        dt_data_read(first, number / batch, number % batch, 1, show->values);
    if (!dt_status_ok(&status))
        return status;
    int64_t inside;
    if (first->n_parts > 0)
        show->data = dt_datamix_find(first, number, &inside);
    show->reader = show->data->reader;
    show->tokenizer = show->words[show->reader - show->plan->readers];
    dt_text_printf(&show->text, "sample %lld of %s\n", (long long)number + 1,
                   show->data->name ? show->data->name : "random numbers");
    Table tables[MOST_TABLES];
    const uint32_t n_tables = tables_of(show, tables);
    for (uint32_t i = 0; i < n_tables; i++)
        show_table(show, &tables[i]);
    for (uint32_t i = 0; i < show->reader->n_inputs && n_tables == 0; i++)
        show_values(show, i);
    dt_text_add(&show->text, "\n");
    if (fwrite(show->text.at, 1, show->text.len, stdout) != show->text.len || fflush(stdout) != 0)
        return dt_status_fail(DT_EXIT_IO, "the samples cannot be written to the standard output");
    show->text.len = 0;
    return DT_OK;
}

/* Opens the tokenizers of the source, and of those that it is mixed with. */
static DtStatus open_words(DtArena *memory, Show *show, uint32_t reader)
{
    DtStatus status = DT_OK;
    const uint32_t n = show->data->n_parts > 0 ? show->data->n_parts : 1;
    for (uint32_t i = reader; i < reader + n && dt_status_ok(&status); i++) {
        const DtData *data = show->data->n_parts > 0 ? show->data->parts[i - reader] : show->data;
        const char *path;
        status = dt_datapaths_tokenizer(memory, show->options, show->plan, i, &path);
        if (dt_status_ok(&status) && path && !data->synthetic)
            status = dt_tokenizer_open(path, NULL, &show->words[i]);
    }
    return status;
}

static DtStatus show_reader(DtArena *memory, Show *show, uint32_t reader, int64_t n)
{
    show->reader = &show->plan->readers[reader];
    show->inputs = &show->plan->inputs[show->reader->first_input];
    show->words = DT_NEW_ARRAY(memory, DtTokenizer *, show->plan->n_readers + 1);
    show->values = DT_NEW_ARRAY(memory, char *, show->reader->n_inputs + 1);
    for (uint32_t i = 0; i < show->reader->n_inputs; i++)
        show->values[i] =
            dt_arena_alloc(memory, (size_t)(show->inputs[i].row_elements *
                                            dt_kinds_size(show->inputs[i].dtype)));
    DtStatus status = open_words(memory, show, reader);
    DtData *data = show->data;
    if (dt_status_ok(&status) && data->n_parts == 0 && data->samples > 0 && n > data->samples)
        n = data->samples;
    for (int64_t i = 0; i < n && dt_status_ok(&status); i++)
        status = show_sample(show, data, i);
    for (uint32_t i = 0; i < show->plan->n_readers; i++)
        dt_tokenizer_close(show->words[i]);
    return status;
}

DtStatus dt_show_samples(const DtRunOptions *options, const DtPlan *plan, int64_t n,
                         DtText *ret_notes)
{
    DtArena *memory = dt_arena_new();
    DtData **readers = DT_NEW_ARRAY(memory, DtData *, plan->n_readers + 1);
    Show show = {.options = options, .plan = plan};
    DtStatus status = dt_data_open_block(options, plan, false, readers);
    for (uint32_t i = 0; i < plan->n_readers && dt_status_ok(&status); i++)
        if (readers[i])
            status = dt_data_look(readers[i], ret_notes);
    for (uint32_t i = 0; i < plan->n_readers && dt_status_ok(&status); i++) {
        show.data = readers[i];
        if (readers[i] && plan->readers[i].part < 2)
            status = show_reader(memory, &show, i, n);
    }
    for (uint32_t i = 0; i < plan->n_readers; i++)
        if (readers[i])
            dt_data_close(readers[i]);
    dt_text_free(&show.text);
    dt_arena_free(memory);
    return status;
}
