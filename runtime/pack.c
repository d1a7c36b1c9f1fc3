/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which elements of a store this rank holds, and where, for stores in buckets (PACK in
 * plan/plan.h) and for others. Converts between the ranks' memory and logical tensors. */
#include "runtime/device.h"
#include "runtime/rank.h"
#include "runtime/spread.h"

#include "base/tryread.h"
#include "plan/kinds.h"

#include <string.h>

DtStoreRange dt_pack_range(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store)
{
    DtStoreRange range = {.n = 1};
    for (uint32_t a = store->n_loops; a < store->n_axes; a++)
        range.n *= plan->axes[store->first_axis + a].local;
    range.length = range.stride = range.n;
    if (store->pack == 0)
        return range;
    const DtPlanPack *pack = &plan->packs[store->pack - 1];
    int64_t block = 0;
    for (uint32_t i = 0; i < pack->n_split; i++)
        block = block * plan->mesh[pack->split[i]].size + coord[pack->split[i]];
    int64_t lo = pack->run * block, hi = lo + pack->run; /* elements of the bucket that this rank
                                                          * has */
    int64_t from = pack->offset > lo ? pack->offset : lo;
    int64_t to = pack->offset + range.length < hi ? pack->offset + range.length : hi;
    range.stride = pack->run;
    range.n = to > from ? to - from : 0;
    range.first = range.n ? from - pack->offset : 0;
    range.at = range.n ? from - lo : 0;
    return range;
}

/* ---- logical tensors ---- */

/* Walks over the elements of a rank's part of a store, in one iteration of its loops. */
typedef struct Part {
    uint32_t n;
    int64_t at[DT_PLAN_MAX_RANK], local[DT_PLAN_MAX_RANK], start[DT_PLAN_MAX_RANK],
        extent[DT_PLAN_MAX_RANK];
    /* the part is the whole tensor, without padding; other ranks have the same, or only padding */
    bool whole;
} Part;

static Part part_open(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store)
{
    Part p = {.n = store->n_axes - store->n_loops, .whole = true};
    for (uint32_t a = 0; a < p.n; a++) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + store->n_loops + a];
        p.local[a] = axis->local;
        p.extent[a] = axis->extent;
        p.start[a] = dt_rank_axis_start(plan, coord, axis);
        p.whole = p.whole && axis->local == axis->extent && p.start[a] == 0;
    }
    return p;
}

/* The same with axes that the rank has whole as one with the axis before them: its runs are as long
 * as can be. */
static Part part_merged(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store)
{
    Part p = part_open(plan, coord, store);
    while (p.n > 1 && p.local[p.n - 1] == p.extent[p.n - 1] && p.start[p.n - 1] == 0) {
        const int64_t inner = p.extent[--p.n];
        p.local[p.n - 1] *= inner;
        p.start[p.n - 1] *= inner;
        p.extent[p.n - 1] *= inner;
    }
    return p;
}

static void part_seek(Part *p, int64_t number)
{
    for (uint32_t a = p->n; a-- > 0;) {
        p->at[a] = number % p->local[a];
        number /= p->local[a];
    }
}

/* Returns how many neighbours along the last axis, at most `most`, are in one row of the logical
 * tensor, or are all padding. */
static int64_t part_run(const Part *p, int64_t most)
{
    if (p->n == 0)
        return 1;
    const uint32_t last = p->n - 1;
    const int64_t real = p->extent[last] - p->start[last] - p->at[last];
    int64_t run = p->local[last] - p->at[last];
    run = real > 0 && real < run ? real : run;
    return run < most ? run : most;
}

/* Goes on to the element after such a run. */
static void part_next(Part *p, int64_t run)
{
    if (p->n > 0)
        p->at[p->n - 1] += run - 1;
    for (uint32_t a = p->n; a-- > 0;) {
        if (++p->at[a] < p->local[a])
            return;
        p->at[a] = 0;
    }
}

/* Returns the element's index in the logical tensor; -1 for padding. */
static int64_t part_index(const Part *p)
{
    int64_t index = 0;
    for (uint32_t a = 0; a < p->n; a++) {
        if (p->start[a] + p->at[a] >= p->extent[a])
            return -1;
        index = index * p->extent[a] + p->start[a] + p->at[a];
    }
    return index;
}

/* Copies between the part and the logical tensor: n elements of the part from number `first` on, at
 * `held`; `logical` holds the tensor from its element number `from` on. spreads: to the tensor;
 * else to the part. */
static void move(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store,
                 int64_t first, int64_t n, char *held, char *logical, int64_t from, bool spreads)
{
    int64_t e = dt_kinds_size(store->dtype);
    Part part = part_open(plan, coord, store);
    if (n && part.whole) {
        char *at = logical + (first - from) * e;
        memcpy(spreads ? at : held, spreads ? held : at, (size_t)(n * e));
        return;
    }
    part_seek(&part, first);
    for (int64_t i = 0, run; i < n; i += run, part_next(&part, run)) {
        run = part_run(&part, n - i);
        int64_t index = part_index(&part);
        char *at = index < 0 ? NULL : logical + (index - from) * e;
        if (at)
            memcpy(spreads ? at : held + i * e, spreads ? held + i * e : at, (size_t)(run * e));
        else if (!spreads)
            memset(held + i * e, 0, (size_t)(run * e));
    }
}

/* Returns the offset in the arena at which the range begins in this iteration. */
static int64_t offset_of(const DtPlanStore *store, const DtStoreRange *range, int64_t iteration)
{
    return store->offset + (iteration * range->stride + range->at) * dt_kinds_size(store->dtype);
}

/* Returns the address at which this rank holds the logical tensor as it is. */
static DtPlaceAt place_of(const DtRank *rank, const DtPlanStore *store, const DtStoreRange *range,
                          int64_t iteration)
{
    return dt_device_place(rank, store->arena, offset_of(store, range, iteration),
                           range->n * dt_kinds_size(store->dtype));
}

int64_t dt_pack_offset(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store,
                       int64_t iteration, int64_t number)
{
    const DtStoreRange range = dt_pack_range(plan, coord, store);
    return offset_of(store, &range, iteration) +
           (number - range.first) * dt_kinds_size(store->dtype);
}

/* Returns the mesh axes, as bits, along which ranks hold different parts of the store. */
static uint32_t mesh_of(const DtPlan *plan, const DtPlanStore *store)
{
    uint32_t bits = 0;
    for (uint32_t a = store->n_loops; a < store->n_axes; a++)
        for (uint32_t i = 0; i < DT_PLAN_SPLITS && plan->axes[store->first_axis + a].split[i]; i++)
            bits |= 1u << (plan->axes[store->first_axis + a].split[i] - 1);
    for (uint32_t i = 0; store->pack && i < plan->packs[store->pack - 1].n_split; i++)
        bits |= 1u << plan->packs[store->pack - 1].split[i];
    return bits;
}

const char *dt_pack_whole(const DtRank *rank, const DtPlanStore *store, int64_t iteration)
{
    DtStoreRange range = dt_pack_range(rank->plan, rank->coord, store);
    if (range.n < range.length || !part_open(rank->plan, rank->coord, store).whole ||
        !dt_plan_on_stage(store->stage, rank->stage))
        return NULL;
    return dt_device_seen(rank, place_of(rank, store, &range, iteration));
}

/* Returns how many elements of the part come before the tensor's element `index`. Padding is
 * counted where it is, so all later elements of the part have this number or a larger one. */
static int64_t part_before(const Part *p, int64_t index)
{
    int64_t place[DT_PLAN_MAX_RANK], number = 0;
    bool differs = index > 0 && p->n == 0; /* index 1 of a scalar */
    for (uint32_t a = p->n; a-- > 0; index /= p->extent[a])
        place[a] = a ? index % p->extent[a] : index; /* the index is the end of the tensor: a row
                                                      * after the last one */
    for (uint32_t a = 0; a < p->n; a++) {
        const int64_t at = differs ? 0 : place[a] - p->start[a];
        number *= p->local[a];
        if (at > 0)
            number += at < p->local[a] ? at : p->local[a];
        differs = differs || at < 0 || at >= p->local[a];
    }
    return p->n ? number : differs;
}

/* The state of copying elements of a logical tensor to this rank. */
typedef struct Taking {
    const DtRank *rank;
    const DtPlanStore *store;
    DtPiece held; /* of the part */
    char *to, *logical;
} Taking;

static void run_taking(void *context)
{
    const Taking *t = context;
    move(t->rank->plan, t->rank->coord, t->store, t->held.first, t->held.n, t->to, t->logical,
         0, false);
}

const uint8_t *dt_pack_take(const DtRank *rank, const DtPlanStore *store, int64_t iteration,
                            const char *logical, const DtFileView *view)
{
    const DtStoreRange range = dt_pack_range(rank->plan, rank->coord, store);
    Taking taking = {.rank = rank, .store = store, .held = {range.first, range.n},
                     .logical = (char *)(uintptr_t)logical};
    DtLent lent = dt_device_lend(rank, place_of(rank, store, &range, iteration));
    const uint8_t *missing = NULL;
    taking.to = lent.at;
    if (view)
        missing = dt_tryread(view, run_taking, &taking);
    else
        run_taking(&taking);
    dt_device_back(rank, &lent, true);
    return missing;
}

DtPiece dt_pack_held(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store,
                     DtPiece piece)
{
    const DtStoreRange range = dt_pack_range(plan, coord, store);
    const Part part = part_open(plan, coord, store);
    int64_t elements = 1;
    for (uint32_t a = 0; a < part.n; a++)
        elements *= part.extent[a];
    const int64_t end = range.first + range.n; /* padding after the last row is the last piece's */
    int64_t first = part_before(&part, piece.first), after = end;
    if (piece.first + piece.n < elements)
        after = part_before(&part, piece.first + piece.n);
    first = first > range.first ? first : range.first;
    after = after < end ? after : end;
    return (DtPiece){first, after > first ? after - first : 0};
}

void dt_pack_take_piece(const DtRank *rank, const DtPlanStore *store, int64_t iteration,
                        DtPiece piece, const char *elements)
{
    DtStoreRange range = dt_pack_range(rank->plan, rank->coord, store);
    const DtPiece held = dt_pack_held(rank->plan, rank->coord, store, piece);
    if (held.n == 0)
        return;
    range.at += held.first - range.first;
    range.n = held.n;
    DtLent lent = dt_device_lend(rank, place_of(rank, store, &range, iteration));
    move(rank->plan, rank->coord, store, held.first, held.n, lent.at, (char *)(uintptr_t)elements,
         piece.first, false);
    dt_device_back(rank, &lent, true);
}

/* Calls run for elements lo .. hi - 1 of the part, which are in one row, without its padding. */
static void run_some(const Part *part, int64_t lo, int64_t hi, DtPackRun run, void *context,
                     char *at)
{
    Part here = *part;
    int64_t index[DT_PLAN_MAX_RANK], n = hi - lo;
    part_seek(&here, lo);
    for (uint32_t a = 0; a < here.n; a++) {
        index[a] = here.start[a] + here.at[a];
        if (index[a] >= here.extent[a])
            return;
    }
    if (here.n && n > here.extent[here.n - 1] - index[here.n - 1])
        n = here.extent[here.n - 1] - index[here.n - 1];
    run(context, index, n, at);
}

void dt_pack_walk(const DtRank *rank, const DtPlanStore *store, int64_t iteration, bool written,
                  int64_t block, DtPackRun run, void *context)
{
    const DtStoreRange range = dt_pack_range(rank->plan, rank->coord, store);
    const int64_t e = dt_kinds_size(store->dtype), end = range.first + range.n;
    const Part part = part_open(rank->plan, rank->coord, store);
    const int64_t columns = part.n ? part.local[part.n - 1] : 1,
                  plane = columns * (part.n > 1 ? part.local[part.n - 2] : 1);
    const int64_t most = block ? block : columns;
    DtLent lent = dt_device_lend(rank, place_of(rank, store, &range, iteration));
    for (int64_t from = range.first, to; from < end; from = to) {
        const int64_t start = from / plane * plane;
        to = start + plane < end ? start + plane : end;
        for (int64_t c = 0; c < columns; c += most)
            for (int64_t row = from / columns * columns; row < to; row += columns) {
                const int64_t after = c + most < columns ? row + c + most : row + columns;
                const int64_t lo = row + c > from ? row + c : from, hi = after < to ? after : to;
                if (lo < hi)
                    run_some(&part, lo, hi, run, context, lent.at + (lo - range.first) * e);
            }
    }
    dt_device_back(rank, &lent, written);
}

void dt_pack_give(const DtRank *rank, const DtPlanStore *store, int64_t iteration, char *logical)
{
    DtStoreRange range = dt_pack_range(rank->plan, rank->coord, store);
    DtLent lent = dt_device_lend(rank, place_of(rank, store, &range, iteration));
    move(rank->plan, rank->coord, store, range.first, range.n, lent.at, logical, 0, true);
    dt_device_back(rank, &lent, false);
}

/* Whether the rank with these coordinates is the one that supplies the part for all ranks that hold
 * the same part. */
static bool is_first(const DtPlan *plan, const DtPlanStore *store, const int64_t coord[16])
{
    uint32_t bits = mesh_of(plan, store);
    for (uint32_t m = 0; m < plan->n_mesh; m++) {
        bool stages = plan->meta->pipeline == m + 1;
        if (!(bits >> m & 1) && coord[m] != (stages && store->stage >= 0 ? store->stage : 0))
            return false;
    }
    return true;
}

/* The ranks that hold the same part of a store as a rank: those with equal coordinates on some mesh
 * axes. */
typedef struct Holders {
    const DtPlan *plan;
    const DtPlanStore *store;
    uint32_t axes;     /* along which ranks hold different parts, as bits */
    int64_t coord[16]; /* of the rank */
} Holders;

static bool is_stage_axis(const Holders *h, uint32_t m)
{
    return h->plan->meta->pipeline == m + 1 && h->store->stage >= 0;
}

/* False: the rank is of a stage that does not have the store. */
static bool find_holders(const DtPlan *plan, const DtPlanStore *store, uint32_t rank,
                         Holders *ret_holders)
{
    *ret_holders = (Holders){.plan = plan, .store = store, .axes = mesh_of(plan, store)};
    dt_rank_coordinates(plan, rank, ret_holders->coord);
    return !plan->meta->pipeline ||
           dt_plan_on_stage(store->stage, (uint32_t)ret_holders->coord[plan->meta->pipeline - 1]);
}

static bool is_holder(const Holders *h, uint32_t rank)
{
    int64_t coord[16];
    dt_rank_coordinates(h->plan, rank, coord);
    for (uint32_t m = 0; m < h->plan->n_mesh; m++)
        if ((is_stage_axis(h, m) || (h->axes >> m & 1)) && coord[m] != h->coord[m])
            return false;
    return true;
}

/* The number of the rank among all holders. */
static int64_t number_of(const Holders *h, int64_t *ret_n)
{
    int64_t number = 0;
    *ret_n = 1;
    for (uint32_t m = 0; m < h->plan->n_mesh; m++) {
        if (is_stage_axis(h, m) || (h->axes >> m & 1))
            continue;
        number = number * h->plan->mesh[m].size + h->coord[m];
        *ret_n *= h->plan->mesh[m].size;
    }
    return number;
}

/* Numbers the holders nearest to the writer. False: the rank is none of them. */
static bool number_of_nearest(const Holders *h, const DtSupply *supply, int64_t *ret_number,
                              int64_t *ret_n)
{
    const uint32_t ranks = h->plan->meta->n_ranks,
                   host = dt_spread_node(ranks, supply->hosts, supply->writer),
                   first = dt_spread_first(ranks, supply->hosts, host),
                   end = dt_spread_first(ranks, supply->hosts, host + 1);
    bool is_one = false;
    *ret_number = 0;
    *ret_n = 1;
    if (is_holder(h, supply->writer))
        return supply->rank == supply->writer;
    *ret_n = 0;
    for (uint32_t r = first; r < end; r++) {
        if (!is_holder(h, r))
            continue;
        is_one = is_one || r == supply->rank;
        *ret_number += r < supply->rank;
        ++*ret_n;
    }
    if (*ret_n > 0)
        return is_one;
    const int64_t number = number_of(h, ret_n), one = supply->writer % *ret_n;
    *ret_number = 0;
    *ret_n = 1;
    return number == one;
}

DtPiece dt_pack_supplied(const DtPlan *plan, const DtSupply *supply, const DtPlanStore *store,
                         DtPiece piece)
{
    Holders holders;
    int64_t number, n;
    if (!find_holders(plan, store, supply->rank, &holders) ||
        !number_of_nearest(&holders, supply, &number, &n))
        return (DtPiece){0, 0};
    const DtStoreRange range = dt_pack_range(plan, holders.coord, store);
    const Part part = part_merged(plan, holders.coord, store);
    const int64_t each = range.n / n, rest = range.n % n; /* the first `rest` ranks have one more */
    int64_t first = range.first + each * number + (number < rest ? number : rest),
            end = first + each + (number < rest ? 1 : 0);
    const int64_t from = part_before(&part, piece.first),
                  to = part_before(&part, piece.first + piece.n);
    first = from > first ? from : first;
    end = to < end ? to : end;
    return (DtPiece){first, end > first ? end - first : 0};
}

void dt_pack_runs(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store,
                  DtPiece held, const char *from, DtPiece piece, DtPackPieceRun run, void *context)
{
    const int64_t e = dt_kinds_size(store->dtype);
    Part part = part_merged(plan, coord, store);
    part_seek(&part, held.first);
    for (int64_t i = 0, n; i < held.n; i += n, part_next(&part, n)) {
        n = part_run(&part, held.n - i);
        const int64_t index = part_index(&part), first = index - piece.first;
        const int64_t lo = first < 0 ? -first : 0, hi = n < piece.n - first ? n : piece.n - first;
        if (index >= 0 && lo < hi)
            run(context, first + lo, hi - lo, from + (i + lo) * e);
    }
}

/* Where elements of a piece go. */
typedef struct Spread {
    char *to;
    size_t size; /* of an element */
} Spread;

static void copy_run(void *context, int64_t first, int64_t n, const char *at)
{
    const Spread *spread = context;
    memcpy(spread->to + (size_t)first * spread->size, at, (size_t)n * spread->size);
}

/* Copies to ret_elements those elements of the piece that rank number m, with coordinates coord,
 * holds. */
static bool gather_from(DtRank *rank, uint32_t m, const int64_t coord[16], const DtPlanStore *store,
                        int64_t iteration, DtPiece piece, char *scratch, char *ret_elements)
{
    const int64_t e = dt_kinds_size(store->dtype);
    const DtStoreRange range = dt_pack_range(rank->plan, coord, store);
    const Part part = part_open(rank->plan, coord, store);
    const int64_t at = offset_of(store, &range, iteration);
    Spread to_piece = {ret_elements, (size_t)e};
    int64_t first = part_before(&part, piece.first),
            end = part_before(&part, piece.first + piece.n);
    first = first > range.first ? first : range.first;
    end = end < range.first + range.n ? end : range.first + range.n;
    for (DtPiece held = {first, 0}; held.first < end; held.first += held.n) {
        const int64_t left = end - held.first; /* together with padding, this may be more elements
                                                * than a piece has */
        held.n = left < piece.n ? left : piece.n;
        char *to = part.whole ? ret_elements + (held.first - piece.first) * e : scratch;
        if (!rank->comm_ops->get(rank->comm, m, store->arena, at + (held.first - range.first) * e,
                                 held.n * e, to))
            return false;
        if (!part.whole)
            dt_pack_runs(rank->plan, coord, store, held, scratch, piece, copy_run, &to_piece);
    }
    return true;
}

bool dt_pack_gather(DtRank *rank, const DtPlanStore *store, int64_t iteration, DtPiece piece,
                    char *scratch, char *ret_elements)
{
    int64_t coord[16];
    for (uint32_t m = 0; m < rank->n_ranks; m++) {
        dt_rank_coordinates(rank->plan, m, coord);
        if (is_first(rank->plan, store, coord) &&
            !gather_from(rank, m, coord, store, iteration, piece, scratch, ret_elements))
            return false;
    }
    return true;
}
