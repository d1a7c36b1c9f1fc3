/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of pipeline stages: what they are called in text, and how the compressed lists are
 * walked. The names are those of the literature's tools: piece, action, micro-batch. */
#include "ir/pipeline.h"

#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONGEST = 64,  /* the longest repeated sequence of actions that is looked for */
    WORTH = 4,     /* repetitions are written in brackets if that saves so many actions */
    TOO_LONG = 1 << 22
};

static const char *const names[DT_ACTION_KINDS] = {"F", "B", "W", "SEND_", "RECV_", "START_SEND_",
                                                   "START_RECV_", "DONE_SEND_", "DONE_RECV_"};

static bool is_transfer(uint32_t kind) { return kind >= DT_ACTION_SEND; }

uint32_t dt_pipeline_piece(const DtPipelineRun *run, const DtAction *action)
{
    if (!is_transfer(action->kind))
        return action->unit;
    const DtChannel *channel = &run->channels.at[action->unit];
    return dt_pipeline_is_send(action->kind) ? channel->from_piece : channel->to_piece;
}

int32_t dt_pipeline_entry(const DtPieceEntries *entries, uint32_t kind)
{
    return kind == DT_ACTION_F ? entries->f : kind == DT_ACTION_B ? entries->b : entries->w;
}

int32_t dt_pipeline_called(const DtPipelineRun *run, const DtAction *action)
{
    if (is_transfer(action->kind))
        return -1;
    const DtPieceEntries *entries = &run->pieces[action->unit];
    if (action->twin == 0)
        return dt_pipeline_entry(entries, action->kind);
    return action->twin <= entries->twins[action->kind].n
               ? entries->twins[action->kind].at[action->twin - 1]
               : -1;
}

/* Returns how often the first `period` actions occur in a row, where the micro-batches of each
 * repetition are *ret_step larger. */
static uint32_t turns(const DtAction *actions, uint32_t n, uint32_t period, int64_t *ret_step)
{
    uint32_t i = period;
    const int64_t step = *ret_step = actions[period].micro - actions[0].micro;
    while (step > 0 && i < n && dt_pipeline_same(&actions[i - period], &actions[i]) &&
           actions[i - period].micro + step == actions[i].micro)
        i++;
    return i / period;
}

DtActionTurns dt_pipeline_turns(const DtAction *actions, uint32_t n)
{
    DtActionTurns best = {.n = 1, .count = 1};
    int64_t step;
    for (uint32_t k = 1; k <= LONGEST && 2 * k <= n; k++) {
        const uint32_t most = best.count * best.n;
        if (!dt_pipeline_same(&actions[0], &actions[k]) || n / k * k <= most ||
            (most >= k && !dt_pipeline_same(&actions[most - k], &actions[most])))
            continue; /* a longer repetition was found already */
        const uint32_t count = turns(actions, n, k, &step);
        if (count > 1 && count * k > best.count * best.n)
            best = (DtActionTurns){.n = k, .count = count, .step = step};
    }
    return best;
}

void dt_pipeline_print_action(const DtPipelineRun *run, const DtAction *action, DtText *ret_text)
{
    const char *what = "";
    if (is_transfer(action->kind)) {
        const DtChannel *channel = &run->channels.at[action->unit];
        what = channel->from_piece < channel->to_piece ? "F" : "B";
    }
    dt_text_printf(ret_text, "%u%s%s%lld", dt_pipeline_piece(run, action), names[action->kind],
                   what, (long long)action->micro);
    if (action->twin)
        dt_text_printf(ret_text, ".%u", action->twin);
}

static void print_plain(const DtPipelineRun *run, const DtAction *at, uint32_t n, bool *first,
                        DtText *ret_text)
{
    for (uint32_t i = 0; i < n; i++) {
        dt_text_add(ret_text, *first ? "" : " ");
        *first = false;
        dt_pipeline_print_action(run, &at[i], ret_text);
    }
}

static void print_turns(const char *close, int64_t count, int64_t step, DtText *ret_text)
{
    dt_text_printf(ret_text, "%s*%lld+%lld", close, (long long)count, (long long)step);
}

static void print_list(const DtPipelineRun *run, const DtActions *list, bool *first,
                       DtText *ret_text)
{
    for (uint32_t i = 0; i < list->n;) {
        DtActionTurns row = dt_pipeline_turns(&list->at[i], list->n - i);
        const bool worth = (row.count - 1) * row.n >= WORTH;
        const uint32_t n = worth ? row.n : row.n * row.count;
        if (worth) {
            dt_text_add(ret_text, *first ? "[" : " [");
            *first = true;
        }
        print_plain(run, &list->at[i], n, first, ret_text);
        if (worth)
            print_turns("]", row.count, row.step, ret_text);
        i += row.n * row.count;
    }
}

void dt_pipeline_print_actions(const DtPipelineRun *run, const DtStageActions *actions,
                               DtText *ret_text)
{
    bool first = true;
    print_list(run, &actions->prologue, &first, ret_text);
    if (actions->count > 0) {
        dt_text_add(ret_text, first ? "(" : " (");
        first = true;
        print_list(run, &actions->period, &first, ret_text);
        first = false;
        print_turns(")", actions->count, actions->step, ret_text);
    }
    print_list(run, &actions->epilogue, &first, ret_text);
}

/* ---- reading ---- */

typedef struct Reader {
    DtArena *arena;
    const DtPipelineRun *run;
    const char *at;
    const char *problem;
} Reader;

static bool fail(Reader *r, const char *problem)
{
    if (!r->problem)
        r->problem = problem;
    return false;
}

static bool read_number(Reader *r, int64_t max, int64_t *ret_number)
{
    int64_t number = 0;
    const char *from = r->at;
    for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
        number = number * 10 + (*r->at - '0');
        if (number > max)
            return fail(r, "a number in a list of actions is too large");
    }
    *ret_number = number;
    return r->at > from || fail(r, "a number is missing in a list of actions");
}

static bool take(Reader *r, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* Sets *ret_unit to the number of the channel at whose sending (or receiving) end the piece is.
 * False: the run has none. */
static bool find_channel(Reader *r, uint32_t kind, bool forward, uint32_t piece, uint32_t *ret_unit)
{
    for (uint32_t i = 0; i < r->run->channels.n; i++) {
        const DtChannel *c = &r->run->channels.at[i];
        if ((c->from_piece < c->to_piece) == forward &&
            (dt_pipeline_is_send(kind) ? c->from_piece : c->to_piece) == piece) {
            *ret_unit = i;
            return true;
        }
    }
    return fail(r, "an action names a channel that the run lacks");
}

static bool read_action(Reader *r, DtAction *ret_action)
{
    int64_t piece, micro;
    *ret_action = (DtAction){0};
    if (!read_number(r, INT32_MAX, &piece))
        return false;
    while (ret_action->kind < DT_ACTION_KINDS && !take(r, names[ret_action->kind]))
        ret_action->kind++;
    if (ret_action->kind == DT_ACTION_KINDS)
        return fail(
            r, "an action is F, B, W, or SEND_, RECV_ of F or B, perhaps with START_ or DONE_");
    ret_action->unit = (uint32_t)piece;
    if (is_transfer(ret_action->kind)) {
        bool forward = take(r, "F");
        if (!forward && !take(r, "B"))
            return fail(r, "what is sent is F or B");
        if (!find_channel(r, ret_action->kind, forward, (uint32_t)piece, &ret_action->unit))
            return false;
    }
    if (!read_number(r, INT32_MAX, &micro))
        return false;
    ret_action->micro = micro;
    if (!is_transfer(ret_action->kind) && take(r, ".")) {
        int64_t twin;
        if (!read_number(r, INT32_MAX, &twin))
            return false;
        ret_action->twin = (uint32_t)twin;
    }
    return true;
}

/* Reads `*count+step`, the repetitions of a bracket and the step of their micro-batches; otherwise
 * sets the reader's problem. */
static bool read_turns(Reader *r, const char *problem, int64_t *ret_count, int64_t *ret_step)
{
    *ret_count = 0;
    return (take(r, "*") && read_number(r, INT32_MAX, ret_count) && take(r, "+") &&
            read_number(r, INT32_MAX, ret_step) && *ret_count > 0) ||
           fail(r, problem);
}

/* Appends the actions from number `from` on as often as the count after the bracket says. */
static bool read_row(Reader *r, uint32_t from, DtActions *list)
{
    const uint32_t n = list->n - from;
    int64_t count, step;
    if (!read_turns(r, "after a `]` stands *count+step", &count, &step))
        return false;
    if (n == 0)
        return fail(r, "between `[` and `]` stand actions");
    if (count * n > TOO_LONG - (int64_t)from)
        return fail(r, "a list of actions is too long");
    for (int64_t k = 1; k < count; k++)
        for (uint32_t i = 0; i < n; i++) {
            DtAction action = list->at[from + i];
            action.micro += k * step;
            DT_PUSH(r->arena, *list, action);
        }
    return true;
}

/* Reads actions up to the character `stop`, which is taken; 0: to the end, or to a `(`, which is
 * not taken. */
static bool read_list(Reader *r, char stop, DtActions *ret_list)
{
    uint32_t row = UINT32_MAX; /* number of the first action in the open bracket */
    while (!r->problem) {
        while (*r->at == ' ')
            r->at++;
        if (*r->at == '[' || *r->at == ']') {
            const bool opens = *r->at++ == '[';
            if (opens != (row == UINT32_MAX))
                return fail(r, "a `[` and its `]` do not match");
            if (!opens && !read_row(r, row, ret_list))
                return false;
            row = opens ? ret_list->n : UINT32_MAX;
            continue;
        }
        if (row != UINT32_MAX && (*r->at == 0 || *r->at == '(' || *r->at == ')'))
            return fail(r, "a `[` and its `]` do not match");
        if (*r->at == stop) {
            r->at += stop != 0;
            return true;
        }
        if (*r->at == '(' && !stop)
            return true;
        DtAction action;
        if (read_action(r, &action))
            DT_PUSH(r->arena, *ret_list, action);
    }
    return false;
}

bool dt_pipeline_read_actions(DtArena *arena, const DtPipelineRun *run, const char *text,
                              DtStageActions *ret_actions, const char **ret_problem)
{
    Reader r = {.arena = arena, .run = run, .at = text};
    *ret_actions = (DtStageActions){0};
    read_list(&r, 0, &ret_actions->prologue);
    if (!r.problem && take(&r, "(")) {
        read_list(&r, ')', &ret_actions->period);
        if (!r.problem)
            read_turns(&r, "after a period stands *count+step", &ret_actions->count,
                       &ret_actions->step);
        read_list(&r, 0, &ret_actions->epilogue);
        if (*r.at == '(')
            fail(&r, "a stage has one period");
    }
    *ret_problem = r.problem;
    return r.problem == NULL;
}

/* ---- classes ---- */

uint32_t dt_pipeline_like(const DtPipelineSchedule *pipeline, uint32_t piece, uint32_t stage)
{
    uint32_t place = 0, like = 0;
    for (uint32_t g = 0; g < piece; g++)
        place += pipeline->stage_of[g] == pipeline->stage_of[piece];
    for (; like + 1 < pipeline->n_pieces; like++)
        if (pipeline->stage_of[like] == stage && place-- == 0)
            break;
    return like;
}

const char *dt_pipeline_slot_path(const DtPipelineSchedule *pipeline, const char *path,
                                  uint32_t stage)
{
    const char *at = strrchr(path, '@');
    if (!at)
        return path;
    const uint32_t piece = dt_pipeline_like(pipeline, (uint32_t)strtoul(at + 1, NULL, 10), stage);
    return dt_intern_printf("%.*s@%u", (int)(at - path), path, piece);
}

DtStore *dt_pipeline_source(const DtChannel *channel, const DtStore *store)
{
    const bool inside =
        store->within && dt_pipeline_on(store->stage, store->more, channel->from);
    return inside ? store->within : store->of;
}

/* ---- walking ---- */

int64_t dt_pipeline_count(const DtStageActions *actions)
{
    return (int64_t)actions->prologue.n + (int64_t)actions->epilogue.n +
           actions->count * (int64_t)actions->period.n;
}

DtAction dt_pipeline_at(const DtStageActions *actions, int64_t i)
{
    if (i < actions->prologue.n)
        return actions->prologue.at[i];
    i -= actions->prologue.n;
    if (actions->count > 0 && i < actions->count * (int64_t)actions->period.n) {
        DtAction action = actions->period.at[i % actions->period.n];
        action.micro += i / actions->period.n * actions->step;
        return action;
    }
    i -= actions->count > 0 ? actions->count * (int64_t)actions->period.n : 0;
    return actions->epilogue.at[i];
}
