/* SPDX-License-Identifier: Apache-2.0 */
/* Time and memory of a layout from the card of its class, in closed form.
 *
 * Stages. The pieces of a pipeline are consecutive; cuts lie where the compiler's would
 * (ir/cuts.h), if what it counts is to what parts take alike. With m micro-batches, p stages and
 * w(s) seconds of a micro-batch on stage s a step takes about m max w + (p - 1) / chunks mean w,
 * and less with weight gradients in the bubbles [Narayanan et al. 2021; Qi et al. 2024]. Nor does
 * it take less than a micro-batch's way through all pieces and back, and the others through the
 * largest of them, which counts where there are fewer micro-batches than stages. Messages of the
 * first forward pass and of the last backward pass are waited for; interleaved ones go around once
 * for each chunk.
 *
 * Bound. Let X(s) be what a micro-batch takes on the stages in front of s, forward and backward,
 * counting only what no schedule does without. Stage s has work m w(s) and can neither begin before
 * the first micro-batch has come nor leave others time behind its last: T >= X(s) / chunks + m
 * w(s). Taking all of these as equal, X(s + 1) - X(s) = w(s) sums up to the work W of a
 * micro-batch, so that no choice of cuts makes T less than
 * W / chunks / (1 - (1 - 1 / (m chunks))^p), as long as m >= p. Weight gradients that are put off
 * may fill bubbles: then, with other schedules and with few micro-batches, only the mean of stages
 * is a bound, T >= m W / p.
 *
 * Nodes of several kinds. A stage is on consecutive nodes, and takes what its slowest device does.
 * If that of stage s needs r(s) times what the first kind does at least, stages of T / m each do at
 * most the sum of T / m / r(s) of the work W, so T >= m W / sum of 1 / r(s); and the first bound
 * holds as if all were the fastest. */
#include "search/search.h"

#include "ir/cuts.h"

#include <math.h>
#include <string.h>

/* with more stages, gradients are summed after all micro-batches (passes/zero) */
enum { MOST_PIECES = 4096, OVERLAPPED = 4 };
#define DT_ESTIMATE_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) \
    static const double id = value;
#include "search/estimate.def"
#undef DT_ESTIMATE_CONSTANT

/* ---- pieces ---- */

/* What a pipeline stage needs for a micro-batch (times in seconds) and holds in memory (bytes). */
typedef struct Stage {
    uint32_t kinds; /* the kinds of its nodes, as a set of bits */
    double forward, backward, weights, work;
    double state[3], experts[3], saved; /* experts: the part of the state that is split over ranks
                                         * of experts */
    double delayed;    /* memory that is kept for gradients of weights, if these are computed
                        * later */
    double whole;   /* gradients of the loop iteration with the largest parameters */
    double iterations;
} Stage;

typedef struct Estimator {
    const DtSpace *space;
    const DtCostModel *model;
    const DtLayout *layout;
    const DtCard *card;
    int64_t stages, pieces, iterations;
    const Stage *at; /* the stages, whose kinds of nodes are known; NULL: all nodes are of one
                      * kind */
} Estimator;

/* Returns by what factor the slowest of these kinds of nodes (bits) is slower in this work than the
 * nodes of the card. */
static double slower(const Estimator *e, const DtCardTime *t, uint32_t kinds)
{
    double most = 0;
    for (uint32_t k = 0; k < e->model->n_kinds; k++)
        most = kinds >> k & 1 ? fmax(most, t->slower[k]) : most;
    return most > 0 ? most : 1;
}

static double time_of(const Estimator *e, const DtCardTime *t, uint32_t kinds)
{
    return (t->forward + t->backward) * slower(e, t, kinds);
}

/* Whether the block's own `pipeline` line names this schedule. It does so for schedules that the
 * search itself does not choose. */
static bool is_named(const Estimator *e, const char *schedule)
{
    const DtPipeline *line = e->space->pipeline;
    return e->layout->schedule == DT_SEARCH_OTHER && line && !strcmp(line->schedule, schedule);
}

/* Returns the stage that has a piece: pieces go round over the stages, or, for V schedules, there
 * and back. */
static uint32_t stage_of(const Estimator *e, int64_t piece)
{
    const bool back = e->layout->schedule == DT_SEARCH_ZB_V || is_named(e, "dualpipe_v");
    return (uint32_t)(back && piece >= e->stages ? 2 * e->stages - 1 - piece : piece % e->stages);
}

/* Divides the loop iterations into pieces so that all stages take about the same time. ret_cuts[k]:
 * number of iterations before the k-th cut. */
static void find_cuts(const Estimator *e, int64_t *ret_cuts)
{
    const DtCardTime *times[DT_SPACE_LOOPS + 2];
    int64_t first[MOST_PIECES], counts[DT_SPACE_LOOPS + 2], before = 0;
    double cost[DT_SPACE_LOOPS + 2][MOST_PIECES], load[MOST_PIECES], size[MOST_PIECES];
    uint32_t stages[MOST_PIECES], n = 0;
    DtCutsRun runs[DT_SPACE_LOOPS + 2];
    for (uint32_t i = 0; i < e->space->n_loops + 2; i++) { /* a part that costs nothing does not
                                                            * become a piece */
        const bool front = i == 0, back = i == e->space->n_loops + 1;
        times[n] = front ? &e->card->front : back ? &e->card->back : &e->card->loops[i - 1];
        counts[n] = front || back ? time_of(e, times[n], 1) > 0 : e->space->loops[i - 1].count;
        n += counts[n] > 0;
        before = front ? n : before;
    }
    for (uint32_t r = 0; r < n; r++) {
        for (int64_t s = 0; s < (e->at ? e->stages : 1); s++)
            cost[r][s] = time_of(e, times[r], e->at ? e->at[s].kinds : 1);
        runs[r] = (DtCutsRun){counts[r], cost[r]};
    }
    for (int64_t g = 0; g < e->pieces; g++)
        stages[g] = stage_of(e, g);
    const DtCuts cuts = {.runs = runs, .n_runs = n, .stage_step = e->at != NULL,
                         .n_pieces = (uint32_t)e->pieces, .n_stages = (uint32_t)e->stages,
                         .stage_of = stages};
    dt_cuts_find(&cuts, first, load, size);
    for (int64_t k = 0; k + 1 < e->pieces; k++)
        ret_cuts[k] = first[k + 1] - before;
}

static void add_time(const Estimator *e, Stage *stage, const DtCardTime *t, double times)
{
    const double by = times * slower(e, t, stage->kinds);
    stage->forward += by * t->forward;
    stage->backward += by * t->backward;
    stage->weights += by * t->weights;
    stage->work += times * t->work;
}

/* Adds the times and bytes of n iterations of the loop to a stage. */
static void add_iterations(const Estimator *e, Stage *stage, uint32_t loop, int64_t n)
{
    add_time(e, stage, &e->card->loops[loop], (double)n);
    for (int k = 0; k < 3; k++) {
        stage->state[k] += (double)n * e->card->state[loop][k];
        stage->experts[k] += (double)n * e->card->experts[loop][k];
    }
    stage->saved += (double)n * e->card->saved[loop];
    stage->delayed += (double)n * e->card->delayed[loop];
    stage->whole = fmax(stage->whole, e->card->state[loop][1]);
    stage->iterations += (double)n;
}

/* Divides the loops' iterations into pieces, and adds each piece's times and bytes to its stage.
 * Returns the time of the largest piece, forward and backward. */
static double fill_stages(const Estimator *e, Stage *stages)
{
    const DtCard *c = e->card;
    int64_t cuts[MOST_PIECES], piece = 0, at = 0;
    double pieces[MOST_PIECES] = {0}, largest = 0;
    for (int64_t k = 0; k < e->pieces; k++)
        cuts[k] = e->iterations;
    if (e->pieces > 1)
        find_cuts(e, cuts);
    for (uint32_t l = 0; l < e->space->n_loops; l++)
        for (int64_t left = e->space->loops[l].count, n; left > 0; left -= n) {
            while (piece + 1 < e->pieces && at >= cuts[piece])
                piece++;
            n = piece + 1 < e->pieces && cuts[piece] - at < left ? cuts[piece] - at : left;
            Stage *stage = &stages[stage_of(e, piece)];
            pieces[piece] += (double)n * time_of(e, &c->loops[l], stage->kinds);
            add_iterations(e, stage, l, n);
            at += n;
        }
    Stage *last = &stages[stage_of(e, e->pieces - 1)];
    add_time(e, &stages[0], &c->front, 1);
    add_time(e, last, &c->back, 1);
    stages[0].delayed += c->delayed_front;
    last->delayed += c->delayed_back;
    /* it is not known where these are: before the loop (tables), behind it (the head), or both */
    for (int k = 0; k < 3; k++) {
        const double both = last != stages ? c->tied[k] / 2 : 0;
        stages[0].state[k] += c->rest[k] / 2 + both;
        last->state[k] += c->rest[k] / 2 + both;
        stages[0].experts[k] += c->rest_experts[k] / 2;
        last->experts[k] += c->rest_experts[k] / 2;
    }
    pieces[0] += time_of(e, &c->front, stages[0].kinds);
    pieces[e->pieces - 1] += time_of(e, &c->back, last->kinds);
    for (int64_t k = 0; k < e->pieces; k++)
        largest = fmax(largest, pieces[k]);
    return largest;
}

/* Returns the kinds of nodes on which the ranks of a stage are, as bits. */
static uint32_t kinds_of(const Estimator *e, int64_t stage)
{
    const int64_t ranks = e->space->devices / e->stages;
    return dt_cost_kinds_of(e->model, stage * ranks, ranks);
}

/* ---- communication ---- */

/* Describes the ranks that hold equal copies of state (replicas): of state that is split over ranks
 * of experts (experts), or of all other state. Sets how many there are, and on how many nodes. */
static DtCostCollective group_of(const Estimator *e, bool experts)
{
    const int64_t *size = e->layout->size, node = e->model->ranks_per_node;
    const int64_t apart = experts ? size[DT_ROLE_EXPERT] : 1;
    /* distance, in ranks, between two neighbours of the group */
    const int64_t inner = size[DT_ROLE_TENSOR] * apart;
    DtCostCollective group = {.ranks = dt_layout_replicas(e->layout) / apart, .nodes = 1};
    group.per_node = node / inner > group.ranks ? group.ranks : node / inner > 0 ? node / inner : 1;
    group.nodes = (group.ranks + group.per_node - 1) / group.per_node;
    return group;
}

/* Returns the time of a collective on the slowest of these kinds of nodes (bits). */
static double collective(const Estimator *e, uint32_t kinds, DtCostCollective op)
{
    double most = 0;
    for (uint32_t k = 0; k < dt_cost_kinds(e->model); k++) {
        const DtCostModel one = dt_cost_on(e->model, k);
        most = kinds >> k & 1 ? fmax(most, dt_cost_collective(&one, op)) : most;
    }
    return most;
}

/* The time of exchanging parameters or gradients of a stage among the ranks that hold the same: one
 * exchange for each iteration of its loops, and one for the rest. bytes: all bytes; of_experts:
 * those that are split over ranks of experts. */
static double over_replicas(const Estimator *e, const Stage *stage, DtCostCollectiveKind kind,
                            double bytes, double of_experts)
{
    DtCostCollective all = group_of(e, false), same = group_of(e, true);
    const double n = stage->iterations + 1;
    all.kind = same.kind = kind;
    all.bytes = (bytes - of_experts) / n;
    same.bytes = of_experts / n;
    return n * ((all.ranks > 1 && all.bytes > 0 ? collective(e, stage->kinds, all) : 0) +
                (same.ranks > 1 && of_experts > 0 ? collective(e, stage->kinds, same) : 0));
}

/* How much longer a computation takes, on the slowest of these nodes, if exchanges that take so
 * many seconds run beside it. */
static double slowed_by(const Estimator *e, uint32_t kinds, double seconds)
{
    double most = 0;
    for (uint32_t k = 0; k < dt_cost_kinds(e->model); k++) {
        const DtCostModel one = dt_cost_on(e->model, k);
        most = kinds >> k & 1 ? fmax(most, dt_cost_constant(&one, DT_COST_share)) : most;
    }
    return most * seconds;
}

/* Time that exchanges of gradients and parameters over replicas add to a step of a stage. Level 1
 * exchanges gradients once, after the last micro-batch's backward pass or overlapped with it.
 * Levels 2 and 3 do so in every micro-batch. Level 3 gathers parameters for every forward and
 * backward pass, ahead of it unless the block says otherwise. beside: seconds of one micro-batch's
 * backward pass. */
static double replicas_seconds(const Estimator *e, const Stage *stage, double beside)
{
    const DtLayout *l = e->layout;
    const double m = (double)l->micro;
    if (dt_layout_replicas(l) == 1)
        return 0;
    const double sums_each = l->zero >= 2 ? m : 1; /* sums in a step */
    const double sums =
        sums_each * over_replicas(e, stage, l->zero ? DT_COST_REDUCE_SCATTER : DT_COST_ALL_REDUCE,
                                  stage->state[1], stage->experts[1]);
    const double gathers =
        l->zero ? over_replicas(e, stage, DT_COST_ALL_GATHER, stage->state[0], stage->experts[0])
                : 0;
    /* the stage waits for gathers, which queue after sums */
    const bool in_turn = l->zero == 3 && e->space->waits;
    const double least = sums * (e->stages > OVERLAPPED ? 1 : HIDDEN);
    const double waited = in_turn ? sums : fmax(sums - BESIDE * sums_each * beside, least);
    const double seconds = waited + slowed_by(e, stage->kinds, sums - waited);
    if (l->zero != 3)
        return seconds + gathers;
    const double waits = in_turn ? gathers : fmax(gathers - BESIDE * beside, gathers * HIDDEN);
    return seconds + 2 * m * (waits + slowed_by(e, stage->kinds, gathers - waits));
}

/* Returns the time of a step for adding up the gradients of tables that both the first and the last
 * stage have. */
static double tied_seconds(const Estimator *e)
{
    const DtCostCollective sums = {.kind = DT_COST_ALL_REDUCE, .bytes = e->card->tied[1],
                                   .ranks = 2, .per_node = 1,
                                   .nodes = e->space->devices > e->model->ranks_per_node ? 2 : 1};
    return e->card->tied[1] > 0 ? collective(e, kinds_of(e, 0) | kinds_of(e, e->stages - 1), sums)
                                : 0;
}

/* Returns the bytes that a rank of a stage sends to the next stage for a micro-batch. */
static double message_bytes(const Estimator *e)
{
    const DtSpace *s = e->space;
    const DtLayout *l = e->layout;
    double bytes = s->loops[0].carried * (double)dt_layout_local(s, l) / (double)s->samples.extent;
    bytes /= s->n_positions ? (double)(l->size[DT_ROLE_CONTEXT] * l->size[DT_ROLE_TENSOR]) : 1;
    return bytes;
}

static double message_seconds(const Estimator *e)
{
    const int64_t apart = e->space->devices / e->stages;
    double most = 0;
    for (uint32_t k = 0; k < dt_cost_kinds(e->model); k++) {
        const DtCostModel one = dt_cost_on(e->model, k);
        most = fmax(most, dt_cost_message(&one, message_bytes(e),
                                          apart >= one.ranks_per_node || one.nodes > 1));
    }
    return most;
}

/* ---- time ---- */

/* Returns the seconds of a step of this layout, on its slowest stage. largest: the time of the
 * largest piece. */
static double seconds_of(const Estimator *e, const Stage *stages, double largest)
{
    const DtLayout *l = e->layout;
    const double m = (double)l->micro, p = (double)e->stages;
    double most = 0, sum = 0, weights = 0, exchange = 0;
    for (int64_t i = 0; i < e->stages; i++) {
        const double w = stages[i].forward + stages[i].backward;
        most = fmax(most, w);
        sum += w;
        weights += stages[i].weights;
        exchange = fmax(exchange, replicas_seconds(e, &stages[i], stages[i].backward));
    }
    double step = m * most;
    if (e->stages > 1) {
        /* gradients of weights */
        const bool delayed = l->schedule == DT_SEARCH_ZB_H1 || l->schedule == DT_SEARCH_ZB_V;
        const double mean = sum / p - (delayed ? 2 * weights / p : 0);
        const double hops = l->schedule == DT_SEARCH_INTERLEAVED ? (double)e->pieces - 1 : p - 1;
        step += (p - 1) * fmax(mean, 0) / (double)l->chunks;
        step = delayed ? step : fmax(step, sum + (m - 1) * largest);
        step += 2 * hops * message_seconds(e);
        step += stage_of(e, e->pieces - 1) ? tied_seconds(e) : 0;
    }
    step += exchange + e->card->once;
    step += e->card->update / p / (double)(l->zero ? dt_layout_replicas(l) : 1);
    return step + dt_cost_step_fixed(e->model, e->space->devices, step);
}

/* Returns the sum of all stages' speeds, in units of the speed of the first kind of nodes;
 * ret_fastest: the speed of the fastest stage. */
static double speed_of(const Estimator *e, double *ret_fastest)
{
    double sum = 0;
    *ret_fastest = e->model->n_kinds ? 0 : 1;
    if (!e->model->n_kinds)
        return (double)e->stages;
    for (int64_t i = 0; i < e->stages; i++) {
        const uint32_t kinds = kinds_of(e, i);
        double least = 0; /* the speed of the slowest node of the stage */
        for (uint32_t k = 0; k < e->model->n_kinds; k++)
            least = kinds >> k & 1 ? fmax(least, e->card->least[k]) : least;
        const double speed = least > 0 ? 1 / least : 1;
        sum += speed;
        *ret_fastest = fmax(*ret_fastest, speed);
    }
    return sum;
}

static double bound_of(const Estimator *e)
{
    const DtLayout *l = e->layout;
    const double m = (double)l->micro, p = (double)e->stages, chunks = (double)l->chunks;
    double work = e->card->front.work + e->card->back.work;
    for (uint32_t i = 0; i < e->space->n_loops; i++)
        work += e->card->loops[i].work * (double)e->space->loops[i].count;
    double fastest;
    double bound = m * work / speed_of(e, &fastest);
    if (l->schedule <= DT_SEARCH_INTERLEAVED && m >= p)
        bound = fmax(bound, work / fastest / chunks / (1 - pow(1 - 1 / (m * chunks), p)));
    return bound + dt_cost_step_fixed(e->model, e->space->devices, 0);
}

/* ---- memory ---- */

/* Returns how many of the first n actions of a stage are of this chunk, if the stage runs rounds of
 * `round` micro-batches, chunk by chunk. */
static int64_t of_chunk(int64_t n, int64_t round, int64_t chunks, int64_t chunk)
{
    const int64_t rest = n % (round * chunks) - chunk * round;
    return n / (round * chunks) * round + (rest < 0 ? 0 : rest < round ? rest : round);
}

/* The first `ahead` actions are forward; after them forward and backward alternate. The number in
 * flight is largest when the chunk's next action is the first backward one of a round, or when its
 * last action was the last forward one. */
int64_t dt_estimate_in_flight(const DtLayout *layout, int64_t stage, int64_t chunk)
{
    const int64_t m = layout->micro, p = layout->size[DT_ROLE_PIPE], v = layout->chunks;
    const int64_t rounds = m / p > 1 ? m / p : 1, round = (m + rounds - 1) / rounds,
                  period = round * v;
    const int64_t ahead = 2 * (p - 1 - stage) + (v - 1) * round, last = v - 1 - chunk;
    int64_t most = 0;
    if (m <= p)
        return m;
    const int64_t whole = (((chunk + 1) * round - ahead - 1) % period + period) % period;
    for (int64_t k = 0; k < 4; k++) {
        /* number of backward actions before it */
        const int64_t at = (k % 2 ? last * round : whole) + k / 2 * period;
        const int64_t forward = ahead + at + 1 < m * v ? ahead + at + 1 : m * v;
        const int64_t n =
            at < m * v ? of_chunk(forward, round, v, chunk) - of_chunk(at, round, v, last) : 0;
        most = n > most ? n : most;
    }
    return most < m ? most : m;
}

/* Returns for how many micro-batches at once a stage keeps the values saved for backward (an
 * average over its chunks). */
static double in_flight(const Estimator *e, int64_t stage)
{
    const double m = (double)e->layout->micro, p = (double)e->stages;
    double sum = 0;
    if (e->stages == 1)
        return 1;
    if (is_named(e, "gpipe"))
        return m;
    if (e->layout->schedule == DT_SEARCH_INTERLEAVED) {
        for (int64_t c = 0; c < e->layout->chunks; c++)
            sum += (double)dt_estimate_in_flight(e->layout, stage, c);
        return sum / (double)e->layout->chunks;
    }
    if (e->layout->schedule == DT_SEARCH_ZB_V)
        return fmin(m, p);
    return fmin(m, p - (double)stage);
}

/* Returns for how many micro-batches at once the last stage keeps the values saved in the part
 * after all loops. In a pipeline the backward pass of that part follows its forward pass at once,
 * unless all forward actions come first. */
static double behind_in_flight(const Estimator *e)
{
    const bool waits = e->stages > 1 && e->layout->schedule == DT_SEARCH_INTERLEAVED;
    if (e->stages > 1 && is_named(e, "gpipe"))
        return (double)e->layout->micro;
    return waits ? (double)dt_estimate_in_flight(e->layout, e->stages - 1, e->layout->chunks - 1)
                 : 1;
}

/* Returns for how many micro-batches a stage delays the gradients of weights after their backward
 * pass. */
static double put_off(const Estimator *e, int64_t stage)
{
    const double m = (double)e->layout->micro;
    if (e->layout->schedule == DT_SEARCH_ZB_H1)
        return fmin(m, (double)stage + 1);
    return e->layout->schedule == DT_SEARCH_ZB_V ? fmin(m, (double)stage + 0.5) : 0;
}

/* Returns how many communicators the layout needs: one for the groups of each mesh axis with
 * several ranks, and one for all ranks. */
static double communicators(const DtLayout *layout)
{
    double n = 0;
    for (int role = 0; role < DT_ROLES; role++)
        n += layout->size[role] > 1;
    return n > 1 ? n + 1 : n;
}

/* Returns the bytes of temporaries while the stage updates its parameters: its part of what the
 * update of all of them takes, which ranks share if they share the optimizer's state. */
static double updating(const Estimator *e, const Stage *stage)
{
    double all = e->card->rest[0];
    for (uint32_t i = 0; i < e->space->n_loops; i++)
        all += e->card->state[i][0] * (double)e->space->loops[i].count;
    const double shared = e->layout->zero ? (double)dt_layout_replicas(e->layout) : 1;
    return all > 0 ? e->card->updating * stage->state[0] / all / shared : 0;
}

static double bytes_of(const Estimator *e, const Stage *stage, int64_t number)
{
    const DtLayout *l = e->layout;
    const double all = (double)dt_layout_replicas(l), same = all / (double)l->size[DT_ROLE_EXPERT];
    const double flying = in_flight(e, number);
    const DtLayout compiled = dt_layout_of_class(e->space, l, true);
    double bytes =
        e->card->temporaries + stage->saved * flying + stage->delayed * put_off(e, number);
    bytes = fmax(bytes, updating(e, stage)) + e->card->beside;
    bytes += e->card->communicator * (communicators(l) - communicators(&compiled));
    for (int k = 0; k < 3; k++) { /* zero splits the optimizer's state from level 1 on, gradients
                                   * from level 2 on, parameters from level 3 on */
        const bool shared = l->zero >= 3 - k;
        bytes += (stage->state[k] - stage->experts[k]) / (shared ? all : 1) +
                 stage->experts[k] / (shared ? same : 1);
    }
    if (e->stages > 1)
        bytes += message_bytes(e) * (flying * (double)l->chunks + 4);
    if (number == stage_of(e, e->pieces - 1))
        /* one is already counted among the temporaries */
        bytes += e->card->saved_back * (behind_in_flight(e) - 1);
    if (l->zero >= 2) /* gradients of one iteration, before they are summed over ranks */
        bytes += stage->whole * (all > 1);
    if (l->zero == 3) /* parameters that are gathered ahead, of three iterations, or of all if there
                       * are fewer */
        bytes += fmin(3 / fmax(stage->iterations, 1), 1) *
                 (stage->state[0] - (same > 1 ? 0 : stage->experts[0]));
    return bytes * dt_cost_larger(e->model, stage->kinds);
}

/* Sets up the estimator for a layout. False if the card does not contain enough for the layout, or
 * there is no such pipeline. */
static bool begin(const DtSpace *space, const DtCostModel *model, const DtLayout *layout,
                  const DtCard *card, Estimator *ret)
{
    *ret = (Estimator){.space = space, .model = model, .layout = layout, .card = card,
                       .stages = layout->size[DT_ROLE_PIPE],
                       .pieces = layout->size[DT_ROLE_PIPE] * layout->chunks};
    for (uint32_t i = 0; i < space->n_loops; i++)
        ret->iterations += space->loops[i].count;
    return ret->pieces <= MOST_PIECES &&
           (ret->pieces == 1 || (card->has_parts && ret->pieces <= ret->iterations + 2));
}

double dt_estimate_bound(const DtSpace *space, const DtCostModel *model, const DtLayout *layout,
                         const DtCard *card)
{
    Estimator e;
    return begin(space, model, layout, card, &e) ? bound_of(&e) : INFINITY;
}

DtEstimate dt_estimate(const DtSpace *space, const DtCostModel *model, const DtLayout *layout,
                       const DtCard *card)
{
    Estimator e;
    DtEstimate ret = {.seconds = INFINITY, .bound = INFINITY, .bytes = INFINITY};
    Stage stages[MOST_PIECES];
    if (!begin(space, model, layout, card, &e))
        return ret;
    memset(stages, 0, (size_t)e.stages * sizeof *stages);
    for (int64_t i = 0; i < e.stages; i++)
        stages[i].kinds = kinds_of(&e, i);
    e.at = model->n_kinds ? stages : NULL;
    const double largest = fill_stages(&e, stages);
    ret = (DtEstimate){.seconds = seconds_of(&e, stages, largest), .bound = bound_of(&e)};
    for (int64_t i = 0; i < e.stages; i++)
        ret.bytes = fmax(ret.bytes, bytes_of(&e, &stages[i], i));
    return ret;
}
