/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which kernels and all other ops run: among those whose operands are complete, the
 * one whose results are needed first. */
#include "passes/lower/fuse_internal.h"

/* The groups that may run next, as a heap: the one with the smallest `due` (position by which it is
 * needed) is on top. */
typedef struct Ready {
    const DtFuseGroup *groups;
    uint32_t *at, n;
} Ready;

static void push_ready(Ready *r, uint32_t g)
{
    uint32_t i = r->n++;
    for (; i > 0 && r->groups[r->at[(i - 1) / 2]].due > r->groups[g].due; i = (i - 1) / 2)
        r->at[i] = r->at[(i - 1) / 2];
    r->at[i] = g;
}

static uint32_t pop_ready(Ready *r)
{
    uint32_t top = r->at[0], g = r->at[--r->n], i = 0;
    for (uint32_t child; (child = 2 * i + 1) < r->n; i = child) {
        if (child + 1 < r->n && r->groups[r->at[child + 1]].due < r->groups[r->at[child]].due)
            child++;
        if (r->groups[r->at[child]].due >= r->groups[g].due)
            break;
        r->at[i] = r->at[child];
    }
    r->at[i] = g;
    return top;
}

/* Counts in ret_count[group] the operands of the group's ops that other groups make. */
static void count_waits(const DtFusion *f, uint32_t *ret_count)
{
    const DtValue *value;
    for (uint32_t i = 0; i < f->func->ops.n; i++)
        for (uint32_t j = 0; (value = dt_fuse_awaited(f, i, j)); j++) {
            uint32_t position = f->position[value->id];
            if (position != UINT32_MAX && f->group_of[position] != f->group_of[i])
                ret_count[f->group_of[i]]++;
        }
}

/* Whether the op is a product that is much larger than its operands, as the gradient of a
 * convolution with respect to its windows is. */
static bool swells(const DtFusion *f, const DtOp *op)
{
    if (op->kind != DT_OP_DOT)
        return false;
    const DtMesh *mesh = &f->func->module->mesh;
    const int64_t operands =
        dt_fuse_bytes(op->in[0]->type, mesh) + dt_fuse_bytes(op->in[1]->type, mesh);
    return dt_fuse_bytes(op->out[0]->type, mesh) > 2 * operands;
}

/* Returns twice the position of the group's last op, plus one. A product that is larger than its
 * operands gets twice that of its first reader, and so runs just before it, so that the windows for
 * the other gradient of a convolution are dead by then. */
static uint32_t due(const DtFusion *f, const DtFuseGroup *group)
{
    const DtOp *op = f->func->ops.at[group->ops.at[0]];
    uint32_t first = UINT32_MAX;
    if (group->ops.n > 1 || !swells(f, op))
        return 2 * group->last + 1;
    for (uint32_t k = f->reader[op->out[0]->id]; k < f->reader[op->out[0]->id + 1]; k++) {
        const uint32_t last = f->groups[f->group_of[f->readers[k]]].last;
        first = last < first ? last : first;
    }
    return first == UINT32_MAX ? 2 * group->last + 1 : 2 * first;
}

uint32_t dt_fuse_order(DtFusion *f, uint32_t *ret_group)
{
    uint32_t n = f->func->ops.n, done = 0;
    uint32_t *waits = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    Ready ready = {.groups = f->groups, .at = DT_NEW_ARRAY(f->arena, uint32_t, n + 1)};
    count_waits(f, waits);
    for (uint32_t g = 0; g < n; g++)
        if (f->groups[g].ops.n > 0)
            f->groups[g].due = due(f, &f->groups[g]);
    for (uint32_t g = 0; g < n; g++)
        if (f->groups[g].ops.n > 0 && waits[g] == 0)
            push_ready(&ready, g);
    while (ready.n > 0) {
        uint32_t best = pop_ready(&ready);
        for (uint32_t i = 0; i < f->groups[best].ops.n; i++) {
            const DtOp *op = f->func->ops.at[f->groups[best].ops.at[i]];
            ret_group[f->groups[best].ops.at[i]] = done;
            for (uint32_t r = 0; r < op->n_out; r++)
                for (uint32_t k = f->reader[op->out[r]->id]; k < f->reader[op->out[r]->id + 1];
                     k++) {
                    uint32_t reader = f->group_of[f->readers[k]];
                    if (reader != best && --waits[reader] == 0)
                        push_ready(&ready, reader);
                }
        }
        done++;
    }
    return done;
}
