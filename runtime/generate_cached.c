/* SPDX-License-Identifier: Apache-2.0 */
/* Logits of next tokens by the entries "prefill" and "decode", which keep in a cache what earlier
 * positions of each row computed (docs/cache.md). A step reads new tokens only: one of each
 * row (decode), or up to a chunk of each row, as many as it has (prefill). So a prompt takes some
 * steps, and other rows go on meanwhile, a token with each.
 *
 * A cache belongs to the tokens at the beginning of the window. When the window is full it moves by
 * one token, all positions become other ones, and the row is read anew; so the tokens are those
 * that "predict" would give. All ranks have all rows. */
#include "runtime/device.h"
#include "runtime/generate.h"
#include "runtime/rank.h"

#include <string.h>

/* What an input of an entry says of each new position of a row: a token, the number of the document
 * or the place in it (as the data of `chat`), or of the row: where the new positions begin, how
 * many there are. */
typedef enum What { TOKEN, DOCUMENT = 2, PLACE, START, COUNT } What;
enum { MOST_INPUTS = 5 };

typedef struct Entry {
    const char *name;
    const DtPlanMetric *output; /* [rows, vocab] */
    const DtPlanInput *inputs[MOST_INPUTS];
    What what[MOST_INPUTS];
    uint32_t n_inputs;
    int64_t chunk;              /* new positions of each row */
} Entry;

typedef struct Cached {
    Entry prefill, decode;
    int64_t steps;
    /* of a rank: */
    uint32_t *seen;             /* [n_rows, window]: the tokens that the cache has */
    int64_t *n_seen, *n_new;    /* by row: how many; how many this step adds */
    int32_t *values;            /* of an input */
    float *logits;              /* [n_rows, vocab] */
} Cached;

/* ---- what the plan has ---- */

/* What the input says, given its name after the entry's. False: nothing that a prompt has. */
static bool what_of(const DtNext *next, const char *name, What *ret_what)
{
    const DtPlanReader *reader = &next->plan->readers[next->reader];
    const DtPlanInput *of = &next->plan->inputs[reader->first_input];
    const bool is_chat = reader->sample == DT_PLAN_SAMPLE_CHAT;
    bool known = true;
    if (strcmp(name, "start") == 0)
        *ret_what = START;
    else if (strcmp(name, "count") == 0)
        *ret_what = COUNT;
    else if (strcmp(name, dt_plan_str(next->plan, of->name)) == 0)
        *ret_what = TOKEN;
    else if (is_chat && reader->n_inputs > DOCUMENT &&
             strcmp(name, dt_plan_str(next->plan, of[DOCUMENT].name)) == 0)
        *ret_what = DOCUMENT;
    else if (is_chat && reader->n_inputs > PLACE &&
             strcmp(name, dt_plan_str(next->plan, of[PLACE].name)) == 0)
        *ret_what = PLACE;
    else
        known = false;
    return known;
}

static DtStatus find_entry(const DtNext *next, const char *name, Entry *ret_entry)
{
    const DtPlan *plan = next->plan;
    const size_t len = strlen(name);
    Entry *e = ret_entry;
    *e = (Entry){.name = name, .output = dt_exec_metric(plan, name, NULL)};
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[i];
        const char *at = dt_plan_str(plan, input->name);
        What what;
        if (strncmp(at, name, len) != 0 || at[len] != ':')
            continue;
        if (e->n_inputs == MOST_INPUTS || input->dtype != DT_PLAN_I32 ||
            !what_of(next, at + len + 1, &what))
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--generate: the model also reads `%.60s`, which a prompt does "
                                  "not have",
                                  at + len + 1);
        const DtPlanAxis *axes = &plan->axes[input->first_axis];
        const bool is_row = what == START || what == COUNT;
        const bool has_axes = input->n_axes == (is_row ? 1 : 2);
        const int64_t chunk = is_row || !has_axes ? e->chunk : axes[1].extent;
        if (!has_axes || axes[0].local != axes[0].extent ||
            (!is_row && axes[1].local != chunk) || (e->chunk && chunk != e->chunk))
            return dt_status_fail(DT_EXIT_FAILED,
                                  "the plan is broken: input `%.60s` has other axes", at);
        e->chunk = chunk;
        e->inputs[e->n_inputs] = input;
        e->what[e->n_inputs++] = what;
    }
    const DtPlanAxis *out = e->output ? &plan->axes[e->output->first_axis] : NULL;
    if (!out || e->output->n_axes != 2 || e->output->dtype != DT_PLAN_F32 || e->chunk < 1 ||
        out[0].local != out[0].extent || out[1].local != out[1].extent)
        return dt_status_fail(DT_EXIT_FAILED, "the plan is broken: entry `%s` gives no logits",
                              name);
    return DT_OK;
}

int64_t dt_generatecached_rows(const DtPlan *plan)
{
    const DtPlanMetric *logits = dt_exec_metric(plan, "decode", NULL);
    return logits && logits->n_axes > 0 ? plan->axes[logits->first_axis].extent : 0;
}

static DtStatus open(DtArena *memory, const DtPlan *plan, DtNext *ret_next)
{
    Cached *c = DT_NEW(memory, Cached);
    DtNext *next = ret_next;
    *next = (DtNext){.ops = &dt_generatecached_ops, .plan = plan, .state = c};
    while (next->reader < plan->n_readers && plan->readers[next->reader].is_eval)
        next->reader++;
    if (next->reader == plan->n_readers)
        return dt_status_fail(DT_EXIT_FAILED, "the plan is broken: nothing reads tokens");
    next->input = &plan->inputs[plan->readers[next->reader].first_input];
    if (plan->readers[next->reader].n_inputs == 0 || next->input->n_axes != 2)
        return dt_status_fail(DT_EXIT_FAILED, "the plan is broken: nothing reads tokens");
    DtStatus status = find_entry(next, "prefill", &c->prefill);
    if (dt_status_ok(&status))
        status = find_entry(next, "decode", &c->decode);
    if (!dt_status_ok(&status))
        return status;
    const DtPlanAxis *out = &plan->axes[c->decode.output->first_axis];
    next->n_rows = out[0].extent;
    next->vocab = out[1].extent;
    next->window = plan->axes[next->input->first_axis + 1].extent;
    for (uint32_t i = 0; i < c->prefill.n_inputs + c->decode.n_inputs; i++) {
        const DtPlanInput *input = i < c->prefill.n_inputs
                                       ? c->prefill.inputs[i]
                                       : c->decode.inputs[i - c->prefill.n_inputs];
        if (plan->axes[input->first_axis].extent != next->n_rows)
            status = dt_status_fail(DT_EXIT_FAILED, "the plan is broken: entries have other rows");
    }
    if (c->decode.chunk != 1 || c->prefill.chunk > next->window)
        status = dt_status_fail(DT_EXIT_FAILED, "the plan is broken: entries have other windows");
    return status;
}

/* ---- a step ---- */

static bool begin(DtNext *next, DtNextRow *rows)
{
    Cached *c = next->state;
    DtArena *memory = next->rank->memory;
    (void)rows;
    if (c->logits)
        return true;
    c->seen = DT_NEW_ARRAY(memory, uint32_t, next->n_rows * next->window);
    c->n_seen = DT_NEW_ARRAY(memory, int64_t, next->n_rows);
    c->n_new = DT_NEW_ARRAY(memory, int64_t, next->n_rows);
    c->values = DT_NEW_ARRAY(memory, int32_t, next->n_rows * next->window);
    c->logits = DT_NEW_ARRAY(memory, float, next->n_rows * next->vocab);
    return true;
}

/* The tokens of the row in the window; *ret_n of them. */
static const uint32_t *in_window(const DtNext *next, const DtNextRow *row, int64_t *ret_n)
{
    *ret_n = !row->tokens ? 0 : row->n < next->window ? row->n : next->window;
    return row->tokens ? row->tokens + row->n - *ret_n : NULL;
}

/* Sets how many tokens of each row are new, and returns the most of any. A row whose text does not
 * continue what its cache has begins anew; so does one whose text ends where the cache does, since
 * the logits after it are those of an earlier step. */
static int64_t count_new(DtNext *next, const DtNextRow *rows)
{
    Cached *c = next->state;
    int64_t most = 0;
    for (int64_t r = 0; r < next->n_rows; r++) {
        int64_t n;
        const uint32_t *tokens = in_window(next, &rows[r], &n);
        const uint32_t *seen = c->seen + r * next->window;
        if (c->n_seen[r] >= n ||
            memcmp(seen, tokens, (size_t)c->n_seen[r] * sizeof *seen) != 0)
            c->n_seen[r] = 0;
        c->n_new[r] = n - c->n_seen[r];
        most = c->n_new[r] > most ? c->n_new[r] : most;
    }
    return most;
}

static int32_t value_of(const DtNext *next, What what, const DtNextRow *row, int64_t r, int64_t at)
{
    const Cached *c = next->state;
    int64_t n;
    const uint32_t *tokens = in_window(next, row, &n);
    const int64_t start = c->n_seen[r], here = start + at;
    const bool is_there = at < c->n_new[r];
    switch (what) {
    case TOKEN: return is_there ? (int32_t)tokens[here] : 0;
    case DOCUMENT: return is_there ? 0 : -1;
    case PLACE: return is_there ? (int32_t)here : 0;
    case COUNT: return (int32_t)c->n_new[r];
    case START: /* where an idle row clears no cache: a text that begins does (passes/decode) */
        return (int32_t)(n > 0 ? start : next->window - 1);
    }
    return 0;
}

static void write_inputs(DtNext *next, const Entry *e, const DtNextRow *rows)
{
    Cached *c = next->state;
    for (uint32_t i = 0; i < e->n_inputs; i++) {
        const DtPlanInput *input = e->inputs[i];
        const int64_t each = input->n_axes == 1 ? 1 : e->chunk;
        const int64_t bytes = next->n_rows * each * (int64_t)sizeof *c->values;
        for (int64_t r = 0; r < next->n_rows; r++)
            for (int64_t at = 0; at < each; at++)
                c->values[r * each + at] = value_of(next, e->what[i], &rows[r], r, at);
        dt_device_put(next->rank, dt_device_place(next->rank, input->arena, input->offset, bytes),
                      c->values, bytes);
    }
}

/* Notes what the cache has now, and takes the logits of rows that were read to their ends. */
static void read_results(DtNext *next, const Entry *e, DtNextRow *rows)
{
    Cached *c = next->state;
    const int64_t bytes = next->n_rows * next->vocab * (int64_t)sizeof *c->logits;
    const bool chooses = next->rank->rank == 0;
    if (chooses)
        dt_device_get(next->rank, c->logits,
                      dt_device_place(next->rank, e->output->arena, e->output->offset, bytes),
                      bytes);
    for (int64_t r = 0; r < next->n_rows; r++) {
        int64_t n;
        const uint32_t *tokens = in_window(next, &rows[r], &n);
        uint32_t *seen = c->seen + r * next->window;
        if (c->n_new[r] > 0)
            memcpy(seen + c->n_seen[r], tokens + c->n_seen[r],
                   (size_t)c->n_new[r] * sizeof *seen);
        c->n_seen[r] += c->n_new[r];
        rows[r].ready = c->n_new[r] > 0 && c->n_seen[r] == n;
        rows[r].logits = rows[r].ready && chooses ? c->logits + r * next->vocab : NULL;
        /* "decode" takes a token in every row, so the cache of one without any is spoilt */
        if (e == &c->decode && c->n_new[r] == 0)
            c->n_seen[r] = 0;
    }
}

static bool step(DtNext *next, DtNextRow *rows)
{
    Cached *c = next->state;
    DtRank *rank = next->rank;
    const Entry *e = count_new(next, rows) > 1 ? &c->prefill : &c->decode;
    for (int64_t r = 0; r < next->n_rows; r++)
        c->n_new[r] = c->n_new[r] < e->chunk ? c->n_new[r] : e->chunk;
    write_inputs(next, e, rows);
    rank->evaluates = true;
    rank->eval_batch = c->steps++;
    if (!dt_exec_entry(rank, e->name))
        return false;
    read_results(next, e, rows);
    return true;
}

const DtNextOps dt_generatecached_ops = {open, begin, step, .joins = true};
