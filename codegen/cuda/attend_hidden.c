/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether a mask of positions hides all of a tile, by interval arithmetic on its integers.
 * a<k> and b<k> are the least and the greatest value of node k in the tile; a node without known
 * bounds may have any value. */
#include "codegen/cuda/attend_print.h"

#define line dt_print_line

typedef struct Bounds {
    DtAttendPrint *a;
    bool *said, *known; /* by node */
} Bounds;

static bool bound(Bounds *b, uint32_t k);

static bool iota(Bounds *b, uint32_t k, const DtKNode *node)
{
    DtPrint *c = b->a->c;
    const DtRole *role = b->a->role;
    const char *base =
        node->integer != DT_KNONE ? dt_arena_printf(c->arena, "q[%u] + ", node->integer) : "";
    int64_t others[DT_MAX_RANK];
    for (uint32_t x = 0; x < DT_MAX_RANK; x++) {
        if (node->coef[x] < 0)
            return false;
        others[x] = x == role->rows || x == role->cols ? 0 : node->coef[x];
    }
    const char *rest = dt_print_affine(c, 0, others);
    line(c, "const int64_t a%u = %s%s + %lld * r0 + %lld * c0;", k, base, rest,
         (long long)node->coef[role->rows], (long long)node->coef[role->cols]);
    line(c,
         "const int64_t b%u = %s%s + %lld * dt_least(r0 + %u, %lld) + %lld * dt_least(c0 + %u, "
         "%lld);",
         k, base, rest, (long long)node->coef[role->rows], b->a->tile->rows - 1,
         (long long)c->k->extent[role->rows] - 1, (long long)node->coef[role->cols],
         b->a->tile->cols - 1, (long long)c->k->extent[role->cols] - 1);
    return true;
}

/* Prints bounds of a map, if both operands have some: x, y of the first, z, w of the second. */
static bool map(Bounds *b, uint32_t k, const DtKNode *node)
{
    static const struct {
        DtOpKind kind;
        const char *least, *most;
    } rows[] = {
        {DT_OP_ADD, "a%1$u + a%2$u", "b%1$u + b%2$u"},
        {DT_OP_SUB, "a%1$u - b%2$u", "b%1$u - a%2$u"},
        {DT_OP_NEG, "-b%1$u", "-a%1$u"},
        {DT_OP_MAX, "dt_greatest(a%1$u, a%2$u)", "dt_greatest(b%1$u, b%2$u)"},
        {DT_OP_MIN, "dt_least(a%1$u, a%2$u)", "dt_least(b%1$u, b%2$u)"},
        {DT_OP_LT, "b%1$u < a%2$u", "a%1$u < b%2$u"},
        {DT_OP_LE, "b%1$u <= a%2$u", "a%1$u <= b%2$u"},
        {DT_OP_EQ, "a%1$u == b%1$u && a%2$u == b%2$u && a%1$u == a%2$u",
         "a%1$u <= b%2$u && a%2$u <= b%1$u"},
        {DT_OP_NE, "b%1$u < a%2$u || b%2$u < a%1$u",
         "!(a%1$u == b%1$u && a%2$u == b%2$u && a%1$u == a%2$u)"},
        {DT_OP_AND, "a%1$u & a%2$u", "b%1$u & b%2$u"},
        {DT_OP_OR, "a%1$u | a%2$u", "b%1$u | b%2$u"},
        {DT_OP_NOT, "!b%1$u", "!a%1$u"},
    };
    DtPrint *c = b->a->c;
    bool known = true;
    for (uint32_t i = 0; i < node->n_args; i++) {
        known = bound(b, node->args[i]) && known;
        known = known && !dt_dtype_is_float(c->k->nodes.at[node->args[i]].dtype);
    }
    for (uint32_t r = 0; known && r < DT_COUNT(rows); r++)
        if (rows[r].kind == node->map) {
            const uint32_t x = node->args[0], y = node->args[node->n_args - 1];
            DtText text = {0};
            dt_text_printf(&text, "const int64_t a%u = ", k);
            dt_text_printf(&text, rows[r].least, x, y);
            dt_text_printf(&text, ", b%u = ", k);
            dt_text_printf(&text, rows[r].most, x, y);
            line(c, "%s;", text.at);
            dt_text_free(&text);
            return true;
        }
    return false;
}

/* Prints the bounds a<k> and b<k> of node k; those of a boolean are 0 and 1 if nothing else is
 * known. False: no bounds are known, and none are printed. */
static bool bound(Bounds *b, uint32_t k)
{
    DtPrint *c = b->a->c;
    const DtKNode *node = &c->k->nodes.at[k];
    if (b->said[k])
        return b->known[k];
    b->said[k] = true;
    switch (node->kind) {
    case DT_KNODE_CONST:
        if (dt_dtype_is_float(node->dtype))
            return false;
        line(c, "const int64_t a%u = %lld, b%u = %lld;", k, (long long)node->number, k,
             (long long)node->number);
        return b->known[k] = true;
    case DT_KNODE_IOTA: b->known[k] = iota(b, k, node); break;
    case DT_KNODE_INT:
        line(c, "const int64_t a%u = (int)q[%u], b%u = (int)q[%u];", k, node->integer, k,
             node->integer);
        return b->known[k] = true;
    case DT_KNODE_MAP: b->known[k] = map(b, k, node); break;
    default: break;
    }
    if (!b->known[k] && node->dtype == DT_BOOL) {
        line(c, "const int64_t a%u = 0, b%u = 1;", k, k);
        b->known[k] = true;
    }
    return b->known[k];
}

void dt_attend_print_hidden(DtAttendPrint *a, bool keep)
{
    DtPrint *c = a->c;
    const uint32_t mask = c->k->attend->mask;
    if (mask == DT_KNONE)
        return;
    const uint32_t n_nodes = c->k->nodes.n + 1;
    Bounds bounds = {a, DT_NEW_ARRAY(c->arena, bool, n_nodes),
                     DT_NEW_ARRAY(c->arena, bool, n_nodes)};
    bound(&bounds, mask);
    const long long n = (long long)c->k->extent[a->role->cols];
    if (keep) {
        line(c, "if (!b%u && (visited || c0 + %u < %lld)) continue;", mask, a->tile->cols, n);
        line(c, "visited = 1;");
    } else {
        line(c, "if (!b%u) continue;", mask);
    }
}
