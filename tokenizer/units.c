/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes units. The text of a unit, and a little of what follows it, is written as the numbers of
 * an alphabet (pattern.h), one byte for each code point, for the first step that splits. If a match
 * depends on more than that, more of the text is written. Later steps split single pieces. */
#include "tokenizer/units.h"

#include "tokenizer/internal.h"
#include "tokenizer/utf8.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 4096 };

typedef struct Worker {
    const DtTokenizer *tokenizer;
    DtRegexRun *runs[DT_MAX_SPLITS];
    DtNumbers numbers[DT_MAX_SPLITS];
    DtNormText fronts[DT_MAX_SPLITS]; /* pieces with text in front of them */
    DtModelWork *model;
    const uint8_t *text;
    DtUnit *unit;
} Worker;

struct DtCrew {
    Worker *workers;
    uint32_t n;
    const uint8_t *text;
    DtUnit *units;
    size_t n_units;
    atomic_size_t next;
};

static void *allocate(size_t n, size_t size)
{
    void *at = calloc(n, size);
    if (!at)
        dt_arena_exhausted(n * size);
    return at;
}

/* ---- pieces ---- */

static void encode_piece(Worker *worker, uint32_t step, size_t first, size_t end);

/* Splits text[first, end) by the pattern of a step. */
static void split_piece(Worker *worker, uint32_t step, size_t first, size_t end)
{
    const DtSplit *split = &worker->tokenizer->splits[step];
    DtNumbers *numbers = &worker->numbers[step];
    size_t from = 0, to, number = 0;
    dt_split_numbers(&split->alphabet, worker->text, first, end, numbers);
    while (number < numbers->n) {
        const DtRegexResult found =
            dt_regex_find(worker->runs[step], numbers->at, numbers->n, number, true, &from, &to);
        if (found != DT_REGEX_FOUND) {
            worker->unit->limited |= found == DT_REGEX_LIMITED;
            break;
        }
        const size_t middle = dt_split_advance(numbers, worker->text, first, from - number);
        const size_t next = dt_split_advance(numbers, worker->text, middle, to - from);
        if (middle > first && !split->drops_rest)
            encode_piece(worker, step + 1, first, middle);
        encode_piece(worker, step + 1, middle, next);
        first = next;
        number = to;
    }
    if (first < end && !split->drops_rest && !worker->unit->limited)
        encode_piece(worker, step + 1, first, end);
}

static void cut_piece(Worker *worker, uint32_t step, size_t first, size_t end)
{
    const DtBpe *bpe = &worker->tokenizer->model.bpe;
    for (size_t next; first < end; first = next) {
        next = dt_bpe_cut(bpe, worker->text, first, end);
        encode_piece(worker, step + 1, first, next);
    }
}

/* Goes on with a copy of a piece that has the step's text in front. */
static void front_piece(Worker *worker, uint32_t step, size_t first, size_t end)
{
    const DtSplit *split = &worker->tokenizer->splits[step];
    const uint8_t *text = worker->text;
    DtNormText *copy = &worker->fronts[step];
    copy->n = 0;
    dt_normtext_add(copy, split->front.at, split->front.len);
    dt_normtext_add(copy, text + first, end - first);
    worker->text = copy->at;
    if (split->regex)
        split_piece(worker, step, 0, copy->n);
    else
        encode_piece(worker, step + 1, 0, copy->n);
    worker->text = text;
}

/* Splits text[first, end) by the steps from `step` on, and encodes what is left. */
static void encode_piece(Worker *worker, uint32_t step, size_t first, size_t end)
{
    const DtTokenizer *t = worker->tokenizer;
    if (step == t->n_splits) {
        dt_model_encode(&t->model, worker->model, worker->text + first, end - first,
                        &worker->unit->ids);
        return;
    }
    const DtSplit *split = &t->splits[step];
    if (split->cuts)
        cut_piece(worker, step, first, end);
    else if (split->front.at && !dt_tokenizer_fronted(t, worker->text + first, end - first))
        front_piece(worker, step, first, end);
    else if (split->regex)
        split_piece(worker, step, first, end);
    else
        encode_piece(worker, step + 1, first, end);
}

static void mark(DtUnit *unit, size_t at)
{
    if (unit->n_marks < DT_UNIT_MARKS)
        unit->marks[unit->n_marks++] = (DtUnitMark){at, unit->ids.n};
}

/* Writes numbers from byte `at` on: more than are there, if that is where they begin. False: all
 * that is visible was there. */
static bool see_more(Worker *worker, size_t at)
{
    const DtUnit *unit = worker->unit;
    DtNumbers *numbers = &worker->numbers[0];
    if (numbers->end == unit->visible)
        return false;
    size_t end = numbers->end + MARGIN + 4 * (numbers->end - at);
    end = end < unit->visible ? end : unit->visible;
    while (end < unit->visible && (worker->text[end] & 0xc0) == 0x80)
        end++;
    dt_split_numbers(&worker->tokenizer->splits[0].alphabet, worker->text, at, end, numbers);
    return true;
}

/* Encodes the piece at the byte `at`, which is number *number; sets both to where the next one
 * begins. False: the unit ends here. */
static bool encode_next(Worker *worker, size_t *at, size_t *number)
{
    DtUnit *unit = worker->unit;
    const DtSplit *split = &worker->tokenizer->splits[0];
    DtNumbers *numbers = &worker->numbers[0];
    const bool ends = unit->closed && numbers->end == unit->visible;
    size_t from, to;
    const DtRegexResult found =
        dt_regex_find(worker->runs[0], numbers->at, numbers->n, *number, ends, &from, &to);
    if (found == DT_REGEX_LIMITED) {
        unit->limited = true;
        return false;
    }
    if (found != DT_REGEX_FOUND && !ends) {
        *number = 0;
        unit->undecided = !see_more(worker, *at);
        return !unit->undecided;
    }
    from = found == DT_REGEX_FOUND ? from : numbers->n;
    const size_t middle = dt_split_advance(numbers, worker->text, *at, from - *number);
    mark(unit, *at);
    if (middle > *at) { /* what is before the match is a piece; the match is the next one */
        if (!split->drops_rest)
            encode_piece(worker, 1, *at, middle);
        *at = middle;
        *number = from;
        return !unit->limited;
    }
    const size_t next = dt_split_advance(numbers, worker->text, middle, to - from);
    encode_piece(worker, 1, middle, next);
    *at = next;
    *number = to;
    return !unit->limited;
}

/* The same where pieces end where no token reaches across. */
static bool cut_next(Worker *worker, size_t *at)
{
    DtUnit *unit = worker->unit;
    const size_t next = dt_bpe_cut(&worker->tokenizer->model.bpe, worker->text, *at, unit->visible);
    unit->undecided = next == unit->visible && !unit->closed;
    if (unit->undecided)
        return false;
    mark(unit, *at);
    encode_piece(worker, 1, *at, next);
    *at = next;
    return true;
}

static void encode_unit(Worker *worker, const uint8_t *text, DtUnit *unit)
{
    size_t at = unit->first, number = 0;
    worker->text = text;
    worker->unit = unit;
    unit->ids.n = unit->n_marks = 0;
    unit->undecided = unit->limited = false;
    if (worker->tokenizer->n_splits == 0) { /* the text is one piece */
        unit->undecided = !unit->closed;
        if (unit->closed)
            encode_piece(worker, 0, at, unit->visible);
        unit->reached = unit->closed ? unit->visible : at;
        return;
    }
    if (worker->tokenizer->splits[0].cuts) {
        while (at < unit->limit && cut_next(worker, &at)) {}
        unit->reached = at;
        return;
    }
    worker->numbers[0].first = worker->numbers[0].end = unit->first;
    size_t end = unit->limit + MARGIN < unit->visible ? unit->limit + MARGIN : unit->visible;
    while (end < unit->visible && (text[end] & 0xc0) == 0x80)
        end++;
    dt_split_numbers(&worker->tokenizer->splits[0].alphabet, text, at, end, &worker->numbers[0]);
    while (at < unit->limit && encode_next(worker, &at, &number)) {}
    unit->reached = at;
}

/* ---- threads ---- */

typedef struct Task {
    DtCrew *crew;
    Worker *worker;
} Task;

static void *work(void *context)
{
    const Task *task = context;
    DtCrew *crew = task->crew;
    for (;;) {
        const size_t i = atomic_fetch_add(&crew->next, 1);
        if (i >= crew->n_units)
            return NULL;
        encode_unit(task->worker, crew->text, &crew->units[i]);
    }
}

DtCrew *dt_units_crew(const DtTokenizer *tokenizer, uint32_t threads)
{
    DtCrew *crew = allocate(1, sizeof *crew);
    crew->n = threads > 0 ? threads : 1;
    crew->workers = allocate(crew->n, sizeof *crew->workers);
    for (uint32_t i = 0; i < crew->n; i++) {
        Worker *worker = &crew->workers[i];
        worker->tokenizer = tokenizer;
        worker->model = dt_model_begin();
        for (uint32_t s = 0; s < tokenizer->n_splits; s++)
            if (tokenizer->splits[s].regex)
                worker->runs[s] = dt_regex_begin(tokenizer->splits[s].regex);
    }
    return crew;
}

void dt_units_dismiss(DtCrew *crew)
{
    if (!crew)
        return;
    for (uint32_t i = 0; i < crew->n; i++) {
        Worker *worker = &crew->workers[i];
        for (uint32_t s = 0; s < worker->tokenizer->n_splits; s++) {
            dt_regex_end(worker->runs[s]);
            free(worker->numbers[s].at);
            free(worker->fronts[s].at);
        }
        dt_model_end(worker->model);
    }
    free(crew->workers);
    free(crew);
}

void dt_units_run(DtCrew *crew, const uint8_t *text, DtUnit *units, size_t n)
{
    const uint32_t most = n < crew->n ? (uint32_t)n : crew->n;
    uint32_t started = 0;
    crew->text = text;
    crew->units = units;
    crew->n_units = n;
    atomic_store(&crew->next, 0);
    if (n == 0)
        return;
    pthread_t *threads = allocate(most, sizeof *threads);
    Task *tasks = allocate(most, sizeof *tasks);
    for (uint32_t i = 0; i < most; i++)
        tasks[i] = (Task){crew, &crew->workers[i]};
    /* Where no thread can be started, fewer do the work; this one always does. */
    while (started + 1 < most &&
           pthread_create(&threads[started], NULL, work, &tasks[started + 1]) == 0)
        started++;
    work(&tasks[0]);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    free(tasks);
}
