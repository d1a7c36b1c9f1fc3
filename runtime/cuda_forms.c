/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses, for a product that has two forms in the plan, whether cuBLASLt computes its epilogue or
 * a kernel does so after the plain product. This happens when all algorithms are chosen. The form
 * of the resumed checkpoint comes first, then what --epilogues says. With --epilogues=timed it is
 * the form that an earlier run stored, or else the faster one. If the library cannot compute the
 * epilogue, a kernel does. */
#include "runtime/cuda_choose.h"

#include "base/hostcache.h"
#include "plan/kinds.h"
#include "runtime/forms.h"

typedef enum Source { RECORDED, REFUSED, WANTED, KEPT, TIMED, UNTIMED } Source;

typedef struct Kept {
    uint64_t second;
} Kept;

/* Sets ret_key to a digest of what the choice of a form depends on: the product and the kernels of
 * its second form. */
static void key_of(const DtChoosing *c, uint32_t gemm, uint8_t ret_key[DT_DIGEST_BYTES])
{
    const DtPlan *plan = c->products->plan;
    const DtPlanBody *body = &plan->bodies[dt_forms_of(plan, gemm)->instead - 1];
    DtDigest digest;
    dt_digest_begin(&digest);
    dt_digest_add(&digest, "forms", 6);
    dt_digest_add(&digest, c->table[gemm].key, sizeof c->table[gemm].key);
    for (uint32_t i = 0; i < body->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[body->first_inst + i];
        if (inst->kind == DT_INST_GEMM) {
            dt_digest_add(&digest, c->table[inst->ref].key, sizeof c->table[inst->ref].key);
            continue;
        }
        const char *name = dt_plan_str(plan, plan->kernels[inst->ref].name);
        dt_digest_add(&digest, name, strlen(name) + 1);
        dt_digest_add(&digest, &plan->launches[inst->ref], sizeof plan->launches[inst->ref]);
    }
    dt_digest_end(&digest, ret_key);
}

/* Returns the algorithm of the product in the second form; NULL: the library cannot compute it. */
static const DtAlgorithm *second_algorithm(const DtChoosing *c, uint32_t gemm)
{
    const DtPlan *plan = c->products->plan;
    const DtPlanBody *body = &plan->bodies[dt_forms_of(plan, gemm)->instead - 1];
    for (uint32_t i = 0; i < body->n_insts; i++)
        if (plan->insts[body->first_inst + i].kind == DT_INST_GEMM)
            return &c->table[plan->insts[body->first_inst + i].ref].algorithm;
    return NULL;
}

/* Seconds of each form of a product; negative: it was not timed. */
typedef struct Times {
    double first, second;
} Times;

static Source time_forms(DtChoosing *c, uint32_t gemm, const uint8_t key[DT_DIGEST_BYTES],
                         Times *ret_times)
{
    DtCudaBench bench = {.rank = c->rank, .products = c->products, .gemm = gemm};
    const DtAlgorithm *algorithm = second_algorithm(c, gemm);
    DtChoice *choice = &c->table[gemm];
    *ret_times = (Times){-1, -1};
    if (algorithm && dt_cuda_bench_open(&bench)) {
        ret_times->first = dt_cuda_bench_product(&bench, &choice->algorithm);
        ret_times->second = dt_cuda_bench_second(&bench, algorithm);
        atomic_fetch_add(&c->rank->slot->progress, 1);
    }
    dt_cuda_bench_close(&bench);
    const bool is_timed = ret_times->first >= 0 && ret_times->second >= 0;
    choice->second =
        is_timed ? ret_times->second < DT_CUDA_MARGIN * ret_times->first : ret_times->second >= 0;
    if (is_timed)
        dt_hostcache_keep(c->memory, c->cache, key, &(Kept){choice->second}, sizeof(Kept));
    return is_timed ? TIMED : UNTIMED;
}

static bool find_kept(const DtChoosing *c, const uint8_t key[DT_DIGEST_BYTES], uint64_t *ret_second)
{
    const char *bytes;
    size_t len;
    Kept kept;
    if (!dt_hostcache_find(c->memory, c->cache, key, &bytes, &len) || len != sizeof kept)
        return false;
    memcpy(&kept, bytes, sizeof kept);
    if (kept.second > 1)
        return false;
    *ret_second = kept.second;
    return true;
}

/* Whether an option of this run asks for another form than the checkpoint has (second: its second
 * form). */
static bool overrules(const DtRank *rank, bool second)
{
    const DtRunOptions *options = rank->options;
    if (!options->epilogues_given || rank->shared->attempt > 0)
        return false;
    return options->epilogues == DT_EPILOGUES_TIMED ||
           second != (options->epilogues == DT_EPILOGUES_APART);
}

static Source decide_form(DtChoosing *c, uint32_t gemm, Times *ret_times)
{
    const DtRunOptions *options = c->rank->options;
    DtChoice *choice = &c->table[gemm];
    const DtChoice *recorded = dt_algorithms_find(&c->rank->recorded, choice->key);
    uint8_t key[DT_DIGEST_BYTES];
    choice->second = false;
    if (c->products->rows[gemm].is_refused) {
        choice->second = true;
        return REFUSED;
    }
    if (recorded) {
        choice->second = recorded->second;
        c->n_held_forms += overrules(c->rank, recorded->second);
        return RECORDED;
    }
    choice->second = options->epilogues == DT_EPILOGUES_APART;
    if (options->epilogues != DT_EPILOGUES_TIMED || options->algorithms_first || options->record ||
        options->compare)
        return WANTED;
    key_of(c, gemm, key);
    return find_kept(c, key, &choice->second) ? KEPT : time_forms(c, gemm, key, ret_times);
}

static void say(DtChoosing *c, uint32_t gemm, Source source, const Times *times)
{
    static const char *const from[] = {
        "of the checkpoint",
        "since the library does not do it",
        "as asked for",
        "kept from an earlier run",
        "",
        "since the GPU has no room to time both, or does not do one"};
    dt_text_printf(c->said, "product %u, epilogue `%s`: by %s; ", gemm,
                   dt_kinds_epilogues[c->products->plan->gemms[gemm].epilogue].name,
                   c->table[gemm].second ? "a kernel after the product" : "the library");
    if (source == TIMED)
        dt_text_printf(c->said, "%.1f us by the library, %.1f us by product and kernel\n",
                       times->first * 1e6, times->second * 1e6);
    else
        dt_text_printf(c->said, "%s\n", from[source]);
}

/* Takes the form of an earlier record with the same key, since a checkpoint stores the form under
 * that key; false: there is none. */
static bool take_earlier(DtChoosing *c, uint32_t gemm)
{
    DtChoice *choice = &c->table[gemm];
    for (uint32_t i = 0; i < gemm; i++)
        if (dt_forms_of(c->products->plan, i) &&
            memcmp(c->table[i].key, choice->key, sizeof choice->key) == 0) {
            choice->second = c->table[i].second;
            return true;
        }
    return false;
}

bool dt_cuda_forms_decide(DtChoosing *c)
{
    const DtPlan *plan = c->products->plan;
    for (uint32_t i = 0; i < plan->n_gemms; i++) {
        Times times = {-1, -1};
        if (!dt_forms_of(plan, i))
            continue;
        if (c->products->rows[i].is_refused && c->rank->options->epilogues == DT_EPILOGUES_FUSED)
            return dt_rank_fail(c->rank, DT_EXIT_FAILED,
                                "--epilogues all: cuBLASLt does no epilogue `%s` with product %u "
                                "of the plan (%.200s)",
                                dt_kinds_epilogues[plan->gemms[i].epilogue].name, i, c->kind);
        if (!take_earlier(c, i))
            say(c, i, decide_form(c, i, &times), &times);
        c->n_refused += c->products->rows[i].is_refused;
    }
    return !dt_rank_has_failed(c->rank);
}
