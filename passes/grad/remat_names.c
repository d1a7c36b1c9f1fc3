/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of a loop's body a `remat` line keeps.
 *
 * A path `self.attend` names a value, or a call by its label or function, inside calls of the names
 * before it, at any depth and with any calls between. Calls have been inlined: ops say which calls
 * they came through and what their results were called (DtOp.caller, DtOp.aliases). A name means
 *
 *   a call    all values inside it: its results, and what its own backward part reads
 *   a value   that value; and the saved value that it is cheaply made of, so that u = x @embed w +
 *             b is kept by keeping the product, which is what the backward part reads
 *
 * `keep` keeps these; `drop` keeps everything else that is saved without it. */
#include "passes/grad/remat.h"

#include "base/intern.h"

#include <string.h>

enum { MAX_PARTS = 16, MAX_LOOPS = 16 };

/* A name such as "self.attend" in a `remat` line, taken apart at its dots. */
typedef struct Path {
    const char *part[MAX_PARTS];
    uint32_t n;
} Path;

/* Loops inside the body, outermost first, that enclose the body under consideration. */
typedef struct Nest {
    const DtOp *loop[MAX_LOOPS];
    uint32_t n;
} Nest;

static Path take_apart(const char *text)
{
    Path path = {0};
    while (path.n < MAX_PARTS) {
        const char *dot = strchr(text, '.');
        path.part[path.n++] = dt_intern_n(text, dot ? (size_t)(dot - text) : strlen(text));
        if (!dot)
            break;
        text = dot + 1;
    }
    return path;
}

/* Whether the first n parts of the path name callers of an op, in their order. The last part must
 * name the innermost of those; callers and loops between them need no part. */
static bool inside(const Path *path, uint32_t n, const DtCaller *caller, const Nest *nest)
{
    uint32_t depth = nest->n;
    for (; n > 0; caller = caller->outer) {
        while (caller == NULL && depth > 0) { /* a loop around the present one */
            const DtOp *loop = nest->loop[--depth];
            if (n > 0 && loop->loop->label == path->part[n - 1])
                n--;
            caller = loop->caller;
        }
        if (n == 0 || caller == NULL)
            break;
        if (caller->label == path->part[n - 1] || caller->func == path->part[n - 1])
            n--;
    }
    return n == 0;
}

/* Whether the path names a call that the op, or one that was merged with it, stands in. */
static bool in_call(const Path *path, const DtOp *op, const Nest *nest)
{
    if (inside(path, path->n, op->caller, nest))
        return true;
    for (const DtAlias *a = op->aliases; a != NULL; a = a->next)
        if (inside(path, path->n, a->caller, nest))
            return true;
    return false;
}

static bool names_value(const Path *path, const DtOp *op, uint32_t out, const Nest *nest)
{
    const char *last = path->part[path->n - 1];
    if (op->out[out]->name == last && inside(path, path->n - 1, op->caller, nest))
        return true;
    for (const DtAlias *a = op->aliases; a != NULL; a = a->next)
        if (a->out == out && a->name == last && inside(path, path->n - 1, a->caller, nest))
            return true;
    return false;
}

/* ---- values that stand for others ---- */

static double bytes_of(const DtValue *value)
{
    return (double)dt_type_elements(value->type) * (double)dt_dtype_size(value->type->dtype);
}

/* By value id: root is the one saved value from which cheap ops compute the value; NULL if they
 * need none. several: they need more than one, or a value that is not saved. */
typedef struct Roots {
    const DtValue **root;
    bool *several;
} Roots;

static Roots find_roots(const DtRematChoice *choice, const DtFunc *body, const DtLoop *loop)
{
    DtArena *arena = body->module->arena;
    Roots r = {DT_NEW_ARRAY(arena, const DtValue *, body->n_values + 1),
               DT_NEW_ARRAY(arena, bool, body->n_values + 1)};
    for (uint32_t i = 0; i < loop->n_carried; i++)
        r.several[body->inputs.at[1 + i]->id] = true;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtOp *op = body->ops.at[i];
        bool several = !dt_op_is_cheap(op->kind);
        const DtValue *root = NULL;
        for (uint32_t k = 0; k < op->n_in; k++) {
            const DtValue *of = r.root[op->in[k]->id];
            several = several || r.several[op->in[k]->id] || (of && root && of != root);
            root = of ? of : root;
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            const DtValue *out = op->out[k];
            const bool saved = choice->is_saved[out->id];
            r.root[out->id] = saved ? out : root;
            r.several[out->id] = several && !saved;
        }
    }
    return r;
}

/* The saved value for a named one, or NULL. For `drop` it must be the same under another name, or
 * come from the same call; the argument of a named activation function does not. */
static const DtValue *stands_for(const Roots *roots, const DtValue *value, bool drops)
{
    const DtValue *root = roots->root[value->id];
    if (roots->several[value->id] || root == NULL || root->op == NULL ||
        bytes_of(root) > bytes_of(value))
        return NULL;
    while (value != root && (value->op->kind == DT_OP_RELABEL || value->op->kind == DT_OP_BIND))
        value = value->op->in[0];
    return drops && root->op->caller != value->op->caller ? NULL : root;
}

/* ---- marking ---- */

typedef struct Marks {
    const Roots *roots;
    const Path *path;
    bool *named;
    bool drops;
} Marks;

/* Whether the path names the value that is result number i of an inner loop's body. */
static bool names_inner(const Path *path, const DtOp *loop, uint32_t i, const Nest *nest)
{
    if (nest->n == MAX_LOOPS)
        return false;
    Nest inner = *nest;
    inner.loop[inner.n++] = loop;
    const DtValue *value = loop->func->results.at[i];
    while (value->op != NULL && value->op->kind == DT_OP_RELABEL &&
           !names_value(path, value->op, value->index, &inner))
        value = value->op->in[0]; /* renamed on its way out */
    const DtOp *op = value->op;
    if (op == NULL)
        return false;
    if (in_call(path, op, &inner) || names_value(path, op, value->index, &inner))
        return true;
    return op->kind == DT_OP_LOOP && value->index >= op->loop->n_carried &&
           names_inner(path, op, value->index, &inner);
}

static void mark_op(Marks *m, const DtOp *op)
{
    static const Nest top = {.n = 0};
    const bool whole = in_call(m->path, op, &top);
    for (uint32_t k = 0; k < op->n_out; k++) {
        const DtValue *out = op->out[k];
        if (whole)
            m->named[out->id] = true;
        if (op->kind == DT_OP_LOOP && k >= op->loop->n_carried && names_inner(m->path, op, k, &top))
            m->named[out->id] = true;
        if (!names_value(m->path, op, k, &top))
            continue;
        m->named[out->id] = true;
        const DtValue *root = stands_for(m->roots, out, m->drops);
        if (root != NULL)
            m->named[root->id] = true;
    }
}

void dt_remat_choose(const DtRemat *line, const DtFunc *body, const DtLoop *loop,
                     DtRematChoice *choice)
{
    DtArena *arena = body->module->arena;
    const bool drops = line->n_drop > 0;
    const char *const *texts = drops ? line->drop : line->keep;
    bool *named = DT_NEW_ARRAY(arena, bool, body->n_values + 1);
    const Roots roots = find_roots(choice, body, loop);
    for (uint32_t i = 0; i < (drops ? line->n_drop : line->n_keep); i++) {
        const Path path = take_apart(texts[i]);
        Marks marks = {.roots = &roots, .path = &path, .named = named, .drops = drops};
        for (uint32_t k = 0; k < body->ops.n; k++)
            mark_op(&marks, body->ops.at[k]);
    }
    for (uint32_t i = 0; i < body->ops.n; i++) /* names of a call's results belong to the scope
                                                * outside of the call */
        if (body->ops.at[i]->kind == DT_OP_BIND && named[body->ops.at[i]->in[0]->id])
            named[body->ops.at[i]->out[0]->id] = true;
    choice->kept = DT_NEW_ARRAY(arena, bool, body->n_values + 1);
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_out; k++) {
            const uint32_t id = body->ops.at[i]->out[k]->id;
            choice->kept[id] = drops ? choice->is_saved[id] && !named[id] : named[id];
        }
}
