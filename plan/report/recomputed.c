/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what the backward pass recomputes because it was not saved. A plan does not record it,
 * but an op that is recomputed keeps its place in the source: a product, or an attention kernel,
 * in the backward pass is a recomputation if a forward one has its place, shape and kind.
 * Products of gradients have the same place, but another shape, or read a matrix transposed. */
#include "plan/report/recomputed.h"

#include "base/hash.h"
#include "plan/kinds.h"
#include "plan/name.h"
#include "plan/report/report.h"

#include <stdlib.h>
#include <string.h>

/* Marks the entry's own instructions as backward if a loop around them counts down or the entry is
 * a backward piece, all others as forward. */
static void mark(const DtPlan *plan, const DtPlanEntry *entry, bool *forward, bool *backward)
{
    const bool all = dt_plan_name(dt_plan_str(plan, entry->name)).part == DT_PLAN_B;
    uint32_t depth = 0, since = UINT32_MAX; /* the loop that counts down, if the instruction is in
                                             * one */
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        if (s->kind == DT_SCHED_LOOP) {
            since = since == UINT32_MAX && s->step < 0 ? depth : since;
            depth++;
        } else if (s->kind == DT_SCHED_END && depth) {
            since = --depth == since ? UINT32_MAX : since;
        } else if (s->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[s->body];
            memset((all || since != UINT32_MAX ? backward : forward) + body->first_inst, 1,
                   body->n_insts);
        }
    }
}

static const DtPlanAttention *attention_of(const DtPlan *plan, const DtPlanInst *inst)
{
    for (uint32_t i = 0; inst->kind == DT_INST_KERNEL && i < plan->n_attentions; i++)
        if (plan->attentions[i].kernel == inst->ref)
            return &plan->attentions[i];
    return NULL;
}

/* A key that is equal for instructions with the same computation; 0: the instruction is neither a
 * product nor attention. */
static uint64_t key_of(const DtPlan *plan, const DtPlanInst *inst)
{
    int64_t key[9 + DT_PLAN_MAX_BATCH] = {inst->kind, inst->span};
    const DtPlanAttention *a = attention_of(plan, inst);
    if (a && !a->backward) {
        const int64_t of[] = {a->heads, a->kv_heads, a->head, a->queries, a->keys};
        memcpy(key + 2, of, sizeof of);
    } else if (inst->kind == DT_INST_GEMM) {
        const DtPlanGemm *g = &plan->gemms[inst->ref];
        const int64_t of[] = {g->m, g->n, g->k, g->a_row < g->a_col, g->b_row < g->b_col,
                              g->n_batch};
        memcpy(key + 2, of, sizeof of);
        memcpy(key + 2 + sizeof of / sizeof *of, g->batch, g->n_batch * sizeof *g->batch);
    } else {
        return 0;
    }
    const uint64_t hash = dt_hash_bytes(key, sizeof key, 0);
    return hash ? hash : 1;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

bool dt_recomputed_find(DtArena *arena, const DtPlan *plan, bool *ret_recomputed)
{
    bool *forward = DT_NEW_ARRAY(arena, bool, plan->n_insts + 1);
    bool *backward = DT_NEW_ARRAY(arena, bool, plan->n_insts + 1);
    uint64_t *keys = DT_NEW_ARRAY(arena, uint64_t, plan->n_insts + 1);
    uint32_t n = 0;
    bool any = false;
    memset(ret_recomputed, 0, plan->n_insts * sizeof *ret_recomputed);
    for (uint32_t i = 0; i < plan->n_saved; i++)
        any = any || plan->saved[i].recomputed > 0;
    for (uint32_t e = 0; any && e < plan->n_entries; e++)
        if (dt_plan_is_step(plan, plan->entries[e].name) || dt_report_is_part(plan, e))
            mark(plan, &plan->entries[e], forward, backward);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (forward[i] && key_of(plan, &plan->insts[i]))
            keys[n++] = key_of(plan, &plan->insts[i]);
    qsort(keys, n, sizeof *keys, by_number);
    any = false;
    for (uint32_t i = 0; n && i < plan->n_insts; i++) {
        const uint64_t key = backward[i] && !forward[i] ? key_of(plan, &plan->insts[i]) : 0;
        ret_recomputed[i] = key && bsearch(&key, keys, n, sizeof *keys, by_number);
        any = any || ret_recomputed[i];
    }
    return any;
}
