/* SPDX-License-Identifier: Apache-2.0 */
/* The text of scalar maps; print.c prints the statements around them. */
#include "codegen/print.h"

/* Selects one of two values without a branch, since gcc 12 moves loads past branches. It reads
 * wrong elements when it then makes masked loads of only some neighbours that an unrolled loop
 * reads. */
const char *dt_print_pick(DtDtype dtype)
{
    return dt_dtype_is_float(dtype) ? "dt_pick" : "dt_ipick";
}

/* How a map is written that is a call, or a sign between its operands. */
typedef struct MapText {
    const char *call, *sign;
    bool whole; /* integers have the call too: dt_i<name of the op> */
    const char *coarse; /* the call where it need not be exact to the last bit (DtPrint.coarse) */
} MapText;

static const MapText map_texts[DT_OP_COUNT] = {
    [DT_OP_ABS] = {.call = "__builtin_fabsf", .whole = true},
    [DT_OP_FLOOR] = {.call = "__builtin_floorf", .whole = true},
    [DT_OP_EXP] = {.call = "dt_exp", .coarse = "dt_coarse_exp"},
    [DT_OP_LOG] = {.call = "dt_log"},
    [DT_OP_SQRT] = {.call = "__builtin_sqrtf"},
    [DT_OP_RSQRT] = {.call = "dt_rsqrt"},
    [DT_OP_SIN] = {.call = "dt_sin"},
    [DT_OP_COS] = {.call = "dt_cos"},
    [DT_OP_TANH] = {.call = "dt_tanh"},
    [DT_OP_ERF] = {.call = "dt_erf"},
    [DT_OP_POW] = {.call = "dt_pow"},
    [DT_OP_MAX] = {.call = "dt_max", .whole = true, .coarse = "dt_coarse_max"},
    [DT_OP_MIN] = {.call = "dt_min", .whole = true, .coarse = "dt_coarse_min"},
    [DT_OP_FLOORDIV] = {.call = "dt_floordiv", .whole = true},
    [DT_OP_MOD] = {.call = "dt_mod", .whole = true},
    [DT_OP_ADD] = {.sign = "+"},
    [DT_OP_SUB] = {.sign = "-"},
    [DT_OP_MUL] = {.sign = "*"},
    [DT_OP_DIV] = {.sign = "/", .coarse = "dt_coarse_div"},
    [DT_OP_LT] = {.sign = "<"},
    [DT_OP_LE] = {.sign = "<="},
    [DT_OP_EQ] = {.sign = "=="},
    [DT_OP_NE] = {.sign = "!="},
    [DT_OP_AND] = {.sign = "&"},
    [DT_OP_OR] = {.sign = "|"},
};

static const char *cast_text(DtPrint *c, DtDtype from, DtDtype to, uint32_t arg)
{
    if (to == DT_BOOL)
        return dt_arena_printf(c->arena, "n%u != 0", arg);
    if (dt_dtype_is_float(to))
        return dt_arena_printf(c->arena, dt_dtype_is_float(from) ? "n%u" : "(float)n%u", arg);
    if (to == DT_U8) /* from floats to the nearest end, from integers modulo 256 */
        return dt_arena_printf(c->arena,
                               dt_dtype_is_float(from) ? "dt_imin(dt_imax(dt_to_int(n%u), 0), 255)"
                                                       : "n%u & 255",
                               arg);
    return dt_arena_printf(c->arena, dt_dtype_is_float(from) ? "dt_to_int(n%u)" : "n%u", arg);
}

const char *dt_print_map(DtPrint *c, const DtKNode *node)
{
    const uint32_t *a = node->args;
    DtDtype in = c->k->nodes.at[a[0]].dtype;
    bool integers = !dt_dtype_is_float(in);
    switch (node->map) {
    case DT_OP_NEG: return integers ? dt_arena_printf(c->arena, "dt_isub(0, n%u)", a[0])
                                    : dt_arena_printf(c->arena, "-n%u", a[0]);
    case DT_OP_NOT: return dt_arena_printf(c->arena, "!n%u", a[0]);
    case DT_OP_STOP: return dt_arena_printf(c->arena, "n%u", a[0]);
    case DT_OP_CAST: return cast_text(c, in, node->dtype, a[0]);
    case DT_OP_WHERE:
        return dt_arena_printf(c->arena, "%s(n%u, n%u, n%u)", dt_print_pick(node->dtype), a[0],
                               a[1], a[2]);
    default: break;
    }
    if (integers && (node->map == DT_OP_ADD || node->map == DT_OP_SUB || node->map == DT_OP_MUL))
        return dt_arena_printf(c->arena, "dt_i%s(n%u, n%u)", dt_op_info[node->map].text, a[0],
                               a[1]);
    const MapText *text = &map_texts[node->map];
    const bool is_coarse = c->coarse && !integers && text->coarse;
    if (text->sign && !is_coarse)
        return dt_arena_printf(c->arena, "n%u %s n%u", a[0], text->sign, a[1]);
    if (!is_coarse && (!text->call || (integers && !text->whole)))
        dt_print_fail(c, dt_op_info[node->map].text);
    const char *call = integers ? dt_arena_printf(c->arena, "dt_i%s", dt_op_info[node->map].text)
                       : is_coarse ? text->coarse : text->call;
    return node->n_args == 1 ? dt_arena_printf(c->arena, "%s(n%u)", call, a[0])
                             : dt_arena_printf(c->arena, "%s(n%u, n%u)", call, a[0], a[1]);
}

bool dt_print_is_dear(const DtKNode *node)
{
    return node->kind == DT_KNODE_RNG || (node->kind == DT_KNODE_MAP && dt_op_is_dear(node->map));
}
