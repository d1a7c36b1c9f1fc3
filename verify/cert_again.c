/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that are run again beside what their first run has saved.
 *
 * A forward loop that a backward part computes again may read, instead of computing it, what the iterations of the
 * first run left: its body then makes the next x of x and of f(x as it was), and x as it was is `at` of the first
 * run's chain. To show that x is what it was: suppose so, put the loop's own symbols in place of `at`, and compare.
 * If the chain of x is now that of the first run, then by induction over the iterations x was equal all along: both
 * start from one value, and where they are equal in an iteration, the next ones are. */
#include "verify/internal.h"

/* What holds for all iterations of the loop of this context, or for others than the present one. */
static bool is_closed(const CertNode *x, const char *context)
{
    size_t n = strlen(context);
    return (x->kind == dt_certkind_stack && x->attributes == context) ||
           (x->kind == dt_certkind_chain && strncmp(x->attributes, context, n) == 0 && x->attributes[n] == ' ');
}

static void list(CertAgain *a, CertNode *x, uint32_t walk)
{
    if (x->mark == walk)
        return;
    x->mark = walk;
    if (x->kind == dt_certkind_at && x->attributes == a->symbols)
        DT_PUSH(a->state->arena, a->at, x);
    if (is_closed(x, a->context))
        return;
    for (uint32_t i = 0; i < x->n_in; i++)
        list(a, x->in[i], walk);
}

void dt_certagain_list(CertAgain *a, const CertValue *made, uint32_t n)
{
    uint32_t walk = dt_certnode_walk(a->state->nodes);
    for (uint32_t i = 0; i < n; i++)
        list(a, made[i].node, walk);
}

bool dt_certagain_match(const CertAgain *a, const CertValue *from, uint32_t n, CertNode **ret_at)
{
    bool any = false;
    for (uint32_t i = 0; i < a->at.n; i++) {
        const CertNode *chain = a->at.at[i]->in[0];
        for (uint32_t k = 0; k < n; k++) {
            const CertNode *x = from[k].node; /* behind a part of the loop: what that started from */
            const CertNode *start = x->n_in == 1 && x->in[0]->kind == dt_certkind_chain ? x->in[0]->in[0] : x;
            if (ret_at[k] || (chain->in[0] != x && chain->in[0] != start))
                continue;
            ret_at[k] = a->at.at[i];
            any = true;
            break;
        }
    }
    return any;
}

/* x with what `to` says in place of the nodes that are marked. */
static CertNode *replaced(CertAgain *a, CertNode *x, uint32_t walk)
{
    if (x->mark == walk)
        return x->to;
    CertNode *to = x, *few[16];
    bool changed = false;
    if (x->n_in && !is_closed(x, a->context)) {
        CertNode **in = x->n_in <= 16 ? few : DT_NEW_ARRAY(a->state->arena, CertNode *, x->n_in);
        for (uint32_t i = 0; i < x->n_in; i++) {
            in[i] = replaced(a, x->in[i], walk);
            changed = changed || in[i] != x->in[i];
        }
        if (changed)
            to = dt_certnode_with(a->state->nodes, x, in);
    }
    x->mark = walk;
    x->to = to;
    return to;
}

void dt_certagain_replace(CertAgain *a, CertNode *const *at, CertNode *const *symbols, uint32_t n,
                          CertValue *made, uint32_t n_made)
{
    uint32_t walk = dt_certnode_walk(a->state->nodes);
    for (uint32_t k = 0; k < n; k++)
        if (at[k]) {
            at[k]->mark = walk;
            at[k]->to = symbols[k];
        }
    for (uint32_t i = 0; i < n_made; i++)
        made[i].node = replaced(a, made[i].node, walk);
}
