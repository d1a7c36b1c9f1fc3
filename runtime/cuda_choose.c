/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses one algorithm for each product, before the first step (cuda_products.h). The first rank
 * of each kind of GPU decides for all ranks with such a GPU and sends its choice to them. They
 * check it, since a choice from disk or from a checkpoint may be any bytes: cuBLASLt tells whether
 * 64 bytes are an algorithm for this product on this GPU, and how much workspace it needs.
 *
 * Products are timed in memory of their own, which is freed afterwards: nothing of the run is
 * touched. */
#include "runtime/cuda_choose.h"

#include "base/hash.h"
#include "base/hostcache.h"
#include "plan/kinds.h"
#include "runtime/forms.h"

#include <string.h>

/* Where the choice of an algorithm comes from. */
typedef enum Source { RECORDED, FIRST, KEPT, TIMED, UNTIMED, FAILED } Source;

/* ---- the description of a product, for the cache ---- */

static bool adds(const DtPlanGemm *g)
{
    return g->accumulate || g->epilogue == DT_PLAN_EPILOGUE_ADD ||
           g->epilogue == DT_PLAN_EPILOGUE_BIAS_ADD;
}

static void add_matrix(DtDigest *digest, const DtCudaMatrix *m, uint32_t dtype)
{
    const int64_t all[] = {m->transposed, (int64_t)m->rows, (int64_t)m->columns, m->lead, m->batch,
                           dtype};
    dt_digest_add(digest, all, sizeof all);
}

static void key_of(const DtChoosing *c, uint32_t gemm, uint8_t ret_key[DT_DIGEST_BYTES])
{
    const DtPlanGemm *g = &c->products->plan->gemms[gemm];
    const DtLtRow *row = &c->products->rows[gemm];
    const bool swapped = row->of.left_is_b;
    const int64_t rest[] = {row->of.batch, row->compute,    row->epilogue,    g->matrix_row,
                            adds(g),       DT_LT_WORKSPACE, DT_LT_PROPOSALS};
    DtDigest digest;
    dt_digest_begin(&digest);
    dt_digest_add(&digest, c->kind, strlen(c->kind));
    add_matrix(&digest, &row->of.left, swapped ? g->dtype_b : g->dtype_a);
    add_matrix(&digest, &row->of.right, swapped ? g->dtype_a : g->dtype_b);
    add_matrix(&digest, &row->of.out, g->dtype_c);
    dt_digest_add(&digest, row->aligned, sizeof row->aligned);
    dt_digest_add(&digest, rest, sizeof rest);
    dt_digest_end(&digest, ret_key);
}

/* Whether the GPU can compute the product by this algorithm within the workspace. */
static bool suits(const DtChoosing *c, uint32_t gemm, const DtAlgorithm *algorithm)
{
    const DtCudaProducts *p = c->products;
    const DtLtRow *row = &p->rows[gemm];
    if (row->is_refused)
        return false;
    DtLtProposal checked = {.state = 0};
    return p->library.check(p->handle, row->desc, row->left, row->right, row->added, row->out,
                            algorithm, &checked) == 0 &&
           checked.state == 0 && checked.workspace <= DT_LT_WORKSPACE;
}

/* ---- times ---- */

/* Seconds of the first proposal and of the one that is chosen; number of proposals that could be
 * timed. */
typedef struct Times {
    double first, best;
    int n;
} Times;

static Times time_proposals(DtChoosing *c, DtCudaBench *b, const DtLtProposal *proposals, int n,
                            DtAlgorithm *ret_best)
{
    Times times = {.best = -1};
    for (int i = 0; i < n; i++) {
        if (proposals[i].state != 0 || proposals[i].workspace > DT_LT_WORKSPACE)
            continue;
        const double seconds = dt_cuda_bench_product(b, &proposals[i].algorithm);
        atomic_fetch_add(&c->rank->slot->progress, 1);
        if (seconds < 0)
            continue;
        times.first = times.n++ == 0 ? seconds : times.first;
        if (times.best < 0 || seconds < DT_CUDA_MARGIN * times.best) {
            times.best = seconds;
            *ret_best = proposals[i].algorithm;
        }
    }
    return times;
}

/* ---- one product ---- */

static void say_algorithm(const DtChoosing *c, const DtAlgorithm *algorithm, DtText *text)
{
    static const struct {
        const char *name;
        int attribute;
        size_t bytes;
    } parts[] = {{"algorithm", 0, 4}, {"tile", 1, 4}, {"stages", 6, 4}, {"split-k", 2, 4},
                 {"reduction", 3, 4}, {"swizzling", 4, 4}, {"option", 5, 4}, {"inner shape", 7, 2},
                 {"cluster shape", 8, 2}};
    for (size_t i = 0; i < DT_COUNT(parts); i++) {
        uint32_t value = 0; /* little-endian */
        size_t written = 0;
        if (c->products->library.config(algorithm, parts[i].attribute, &value, parts[i].bytes,
                                        &written) == 0 &&
            (i == 0 || value))
            dt_text_printf(text, "%s%s %u", i ? ", " : "", parts[i].name, value);
    }
}

static void say(DtChoosing *c, uint32_t gemm, Source source, const Times *times)
{
    static const char *const from[] = {"of the checkpoint", "the library's first",
                                       "kept from an earlier run", "",
                                       "the library's first, since the GPU has no room to time it",
                                       ("the library's first, since none of its proposals ran "
                                        "when they were timed")};
    const DtPlanGemm *g = &c->products->plan->gemms[gemm];
    dt_text_printf(c->said, "product %u, %lld x %lld x %lld of %s to %s, epilogue `%s`: ", gemm,
                   (long long)g->m, (long long)g->n, (long long)g->k, dt_kinds_name(g->dtype_a),
                   dt_kinds_name(g->dtype_c), dt_kinds_epilogues[g->epilogue].name);
    say_algorithm(c, &c->table[gemm].algorithm, c->said);
    if (source == TIMED)
        dt_text_printf(c->said, "; fastest of %d, %.1f us, the library's first %.1f us\n", times->n,
                       times->best * 1e6, times->first * 1e6);
    else
        dt_text_printf(c->said, "; %s\n", from[source]);
}

static Source time_product(DtChoosing *c, uint32_t gemm, Times *ret_times)
{
    DtLtProposal proposals[DT_LT_PROPOSALS] = {{.workspace = 0}};
    DtCudaBench bench = {.rank = c->rank, .products = c->products, .gemm = gemm};
    const int n = dt_cuda_products_propose(c->products, gemm, DT_LT_PROPOSALS, proposals);
    DtChoice *choice = &c->table[gemm];
    Source source = UNTIMED;
    if (dt_cuda_bench_open(&bench)) {
        *ret_times = time_proposals(c, &bench, proposals, n, &choice->algorithm);
        source = FAILED;
    }
    if (ret_times->n > 0) {
        source = TIMED;
        dt_hostcache_keep(c->memory, c->cache, choice->key, &choice->algorithm,
                          sizeof choice->algorithm);
    }
    dt_cuda_bench_close(&bench);
    return source;
}

/* Looks for the choice that an earlier run stored. The folder belongs to the user, but its contents
 * may be outdated, so the choice is checked. */
static bool find_kept(const DtChoosing *c, uint32_t gemm, DtChoice *choice)
{
    const char *bytes;
    size_t len;
    DtAlgorithm kept;
    if (!dt_hostcache_find(c->memory, c->cache, choice->key, &bytes, &len) || len != sizeof kept)
        return false;
    memcpy(&kept, bytes, sizeof kept);
    if (!suits(c, gemm, &kept))
        return false;
    choice->algorithm = kept;
    return true;
}

static bool find_recorded(DtChoosing *c, uint32_t gemm, DtChoice *choice)
{
    const DtRunOptions *options = c->rank->options;
    const DtAlgorithms *recorded = &c->rank->recorded;
    const DtChoice *found = dt_algorithms_find(recorded, choice->key);
    if (!found) {
        c->n_lost += recorded->n > 0;
        return false;
    }
    if (!suits(c, gemm, &found->algorithm)) {
        c->n_unfit++;
        return false;
    }
    const DtAlgorithm *first = &c->products->rows[gemm].algorithm;
    if (options->algorithms_given && c->rank->shared->attempt == 0)
        c->n_held += !options->algorithms_first ||
                     memcmp(&found->algorithm, first, sizeof *first) != 0;
    choice->algorithm = found->algorithm;
    return true;
}

/* Keeps the algorithm of a record even if its products use their second form: another record of the
 * same product, which has only one form, uses it. */
static bool keep_second(const DtChoosing *c, uint32_t gemm, DtChoice *choice)
{
    const DtChoice *recorded = dt_algorithms_find(&c->rank->recorded, choice->key);
    if (!recorded || !recorded->second || !dt_forms_of(c->products->plan, gemm))
        return false;
    if (suits(c, gemm, &recorded->algorithm))
        choice->algorithm = recorded->algorithm;
    return true;
}

static void decide_product(DtChoosing *c, uint32_t gemm)
{
    DtChoice *choice = &c->table[gemm];
    Times times = {.n = 0};
    key_of(c, gemm, choice->key);
    for (uint32_t i = 0; i < gemm; i++)
        if (memcmp(c->table[i].key, choice->key, sizeof choice->key) == 0) {
            choice->algorithm = c->table[i].algorithm;
            return;
        }
    choice->algorithm = c->products->rows[gemm].algorithm;
    if (c->products->rows[gemm].is_refused || keep_second(c, gemm, choice))
        return; /* a kernel computes its epilogue (cuda_forms.c) */
    const bool first = c->rank->options->algorithms_first;
    const Source source = find_recorded(c, gemm, choice)          ? RECORDED
                          : first                                 ? FIRST
                          : find_kept(c, gemm, choice)            ? KEPT
                                                                  : time_product(c, gemm, &times);
    c->n_untimed += source == UNTIMED;
    say(c, gemm, source, &times);
}

static void note(const DtChoosing *c, uint32_t n, const char *noun, const char *what)
{
    if (n == 0)
        return;
    DtText line = {0};
    dt_text_printf(&line, "dtrun: note: %u %s%s %s (%.200s)", n, noun, n == 1 ? "" : "s", what,
                   c->kind);
    dt_text_say(stderr, line.at);
    dt_text_free(&line);
}

/* Chooses, on behalf of all ranks that have a GPU of this kind. */
static bool decide(DtChoosing *c)
{
    const char *why;
    dt_hostcache_open(c->memory, &c->cache, &why);
    for (uint32_t i = 0; i < c->products->plan->n_gemms; i++)
        decide_product(c, i);
    const bool good = dt_cuda_forms_decide(c);
    dt_hostcache_close(c->cache);
    if (!good)
        return false;
    note(c, c->n_refused, "epilogue",
         "of products are done by kernels, since cuBLASLt does not do them");
    note(c, c->n_lost, "product",
         "of this plan have no algorithm in the checkpoint, which another GPU, library or "
         "plan made: they are chosen anew, and sums may round otherwise than before");
    note(c, c->n_unfit, "product",
         "have an algorithm in the checkpoint that this GPU does not do them by: they are "
         "chosen anew");
    note(c, c->n_held, "product",
         "stay with the algorithm of the checkpoint, not with what --algorithms asks for");
    note(c, c->n_held_forms, "epilogue",
         "of products stay as they are in the checkpoint, not as --epilogues asks for");
    note(c, c->n_untimed, "product",
         "are not timed, since the GPU has no room beside the plan's memory: the library's "
         "first algorithm is used");
    const int error = c->products->driver->stream_wait(c->products->stream);
    return error == 0 ||
           dt_rank_fail(c->rank, DT_EXIT_FAILED, "the GPU failed while products were timed: %s",
                        dt_cuda_driver_error(c->products->driver, error));
}

/* ---- all ranks ---- */

static uint64_t kind_of(const DtRank *rank, uint32_t r)
{
    return atomic_load(&dt_shared_slot(rank->plan, rank->shared, r)->kind);
}

/* Returns the first rank with a GPU of the same kind, which chooses for all of them. */
static uint32_t leader_of(const DtRank *rank, uint32_t r)
{
    uint32_t leader = 0;
    while (leader < r && kind_of(rank, leader) != kind_of(rank, r))
        leader++;
    return leader;
}

static bool take(DtChoosing *c, const DtChoice *told, uint32_t leader)
{
    for (uint32_t i = 0; i < c->products->plan->n_gemms; i++) {
        key_of(c, i, c->table[i].key);
        if (memcmp(c->table[i].key, told[i].key, sizeof told[i].key) != 0 ||
            (!told[i].second && !suits(c, i, &told[i].algorithm)))
            return dt_rank_fail(c->rank, DT_EXIT_FAILED,
                                "the GPU (%.200s) does not do product %u of the plan by the "
                                "algorithm that rank %u has "
                                "chosen for such GPUs",
                                c->kind, i, leader);
        c->table[i].algorithm = told[i].algorithm;
        c->products->rows[i].algorithm = told[i].algorithm;
        c->rank->second[i] = told[i].second && dt_forms_of(c->products->plan, i);
    }
    return true;
}

/* Keeps the algorithms of all kinds of GPUs for checkpoints. Records of the same product share one
 * algorithm, but only products with two forms in the plan also have one for the second form. */
static void remember(DtRank *rank, const DtChoice *told, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (k < rank->chosen.n &&
               memcmp(rank->chosen.at[k].key, told[i].key, sizeof told[i].key) != 0)
            k++;
        if (k == rank->chosen.n)
            rank->chosen.at[rank->chosen.n++] = told[i];
        rank->chosen.at[k].second = rank->chosen.at[k].second || told[i].second;
    }
}

static bool tell_all(DtChoosing *c)
{
    DtRank *rank = c->rank;
    const uint32_t n = c->products->plan->n_gemms, mine = leader_of(rank, rank->rank);
    uint32_t n_kinds = 0;
    DtChoice *told = DT_NEW_ARRAY(c->memory, DtChoice, n);
    for (uint32_t r = 0; r < rank->n_ranks; r++)
        n_kinds += leader_of(rank, r) == r;
    rank->chosen.at = DT_NEW_ARRAY(rank->memory, DtChoice, (size_t)n * n_kinds);
    for (uint32_t r = 0; r < rank->n_ranks; r++) {
        if (leader_of(rank, r) != r)
            continue;
        if (rank->rank == r)
            memcpy(told, c->table, n * sizeof *told);
        if (!dt_algorithms_tell(rank, r, told, n * sizeof *told) ||
            (r == mine && !take(c, told, r)))
            return false;
        remember(rank, told, n);
    }
    if (n_kinds > 1 && rank->rank == 0)
        note(c, n_kinds, "kind",
             "of GPUs are there, whose products may round differently: what ranks compute twice "
             "may drift apart");
    return true;
}

static const char *name_kind(DtArena *memory, const DtCudaProducts *products, const char *gpu)
{
    int version[3] = {0};
    for (int i = 0; i < 3; i++)
        products->library.property(i, &version[i]);
    return dt_arena_printf(memory, "%s, cuBLASLt %d.%d.%d", gpu, version[0], version[1],
                           version[2]);
}

bool dt_cuda_products_choose(DtRank *rank, DtCudaProducts *products, const char *gpu,
                             DtText *ret_said)
{
    const uint32_t n = products->plan->n_gemms;
    if (n == 0)
        return true;
    DtChoosing c = {.rank = rank,
                    .products = products,
                    .memory = dt_arena_new(),
                    .cache = -1,
                    .said = ret_said};
    c.kind = name_kind(c.memory, products, gpu);
    c.table = DT_NEW_ARRAY(c.memory, DtChoice, n);
    atomic_store(&rank->slot->kind, dt_hash_text(c.kind, 0));
    bool good = rank->n_ranks == 1 || rank->comm_ops->barrier(rank->comm, &rank->world);
    if (good && leader_of(rank, rank->rank) == rank->rank)
        good = decide(&c);
    good = good && tell_all(&c);
    dt_arena_free(c.memory);
    return good;
}
