/* SPDX-License-Identifier: Apache-2.0 */
/* The same for attention that a library may compute (plan.h, SDPA), forward and backward: another
 * scale or bound, clamped or capped scores, a term more, in the scores or in the probabilities, are
 * another function to the certificate. */
#include "near.h"

#include "base/intern.h"
#include "plan/kinds.h"
#include "verify/plan_internal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EACH = 100 };
static const char keyed[] = "f32[i=4, j=5]", row[] = "f32[i=4]", of_queries[] = "f32[i=4, d=2]",
                  of_keys[] = "f32[j=5, d=2]";

/* Numbers of values: the arguments by part. */
static const uint32_t arguments[DT_SDPA_PARTS] = {[DT_SDPA_Q] = 0, [DT_SDPA_K] = 1, [DT_SDPA_V] = 2,
                                                  [DT_SDPA_DO] = 3, [DT_SDPA_O] = 4,
                                                  [DT_SDPA_MAX] = 5, [DT_SDPA_SUM] = 6};

typedef struct Attention {
    Near n;
    bool backward;
    double scale;
    uint32_t spoils;               /* the number of places before that of the fault */
    uint32_t part[DT_SDPA_PARTS];  /* numbers of values */
} Attention;

static uint32_t product(Near *n, const char *axis, uint32_t x, uint32_t y, const char *type)
{
    dt_text_printf(&n->text, "  %%%u = dot[%s](%%%u, %%%u) : %s @1:1-2\n", n->next, axis, x, y,
                   type);
    return n->next++;
}

static uint32_t reduced(Near *n, const char *axis, const char *how, uint32_t x)
{
    dt_text_printf(&n->text, "  %%%u = reduce[%s](%%%u) : %s%s @1:1-2\n", n->next, axis, x, row,
                   how);
    return n->next++;
}

static uint32_t binary(Near *n, const char *kind, const char *type, uint32_t x, uint32_t y)
{
    n->type = type;
    return near_binary(n, kind, x, y);
}

/* Returns y, or y changed by the fault if it is at this place. */
static uint32_t perhaps(Attention *a, const char *type, uint32_t y)
{
    a->n.type = type;
    return a->spoils-- == 0 ? near_spoiled(&a->n, y, y) : y;
}

static uint32_t bounded(Near *n, uint32_t x, double bound)
{
    const double other = n->constant-- == 0 ? bound * (bound < 0 ? 0.999 : 1.001) : bound;
    return binary(n, "max", row, x, near_literal(n, other));
}

static uint32_t scores(Attention *a)
{
    Near *n = &a->n;
    const uint32_t z = product(n, "d", 0, 1, keyed);
    if (a->scale != 0.125 || near_dice(n, 2))
        return perhaps(a, keyed, binary(n, "mul", keyed, z, near_constant(n, a->scale)));
    return perhaps(a, keyed, binary(n, "div", keyed, z, near_constant(n, 1 / a->scale)));
}

static void forward(Attention *a)
{
    Near *n = &a->n;
    const uint32_t z = scores(a), m = a->part[DT_SDPA_MAX] = reduced(n, "j", " reduce=max", z);
    const uint32_t less = binary(n, "sub", keyed, z, bounded(n, m, -1e30));
    const uint32_t e = perhaps(a, keyed, near_unary(n, "exp", less));
    const uint32_t l = a->part[DT_SDPA_SUM] = reduced(n, "j", "", e);
    const uint32_t p = binary(n, "div", keyed, e, bounded(n, l, 1e-30));
    a->part[DT_SDPA_O] = product(n, "j", perhaps(a, keyed, p), 2, of_queries);
}

static void backward(Attention *a)
{
    Near *n = &a->n;
    const uint32_t z = scores(a), less = binary(n, "sub", keyed, z, bounded(n, 5, -1e30));
    const uint32_t e = perhaps(a, keyed, near_unary(n, "exp", less));
    const uint32_t p = binary(n, "div", keyed, e, bounded(n, 6, 1e-30));
    const uint32_t dp = product(n, "d", 3, 2, keyed), both = binary(n, "mul", of_queries, 4, 3);
    const uint32_t above =
        perhaps(a, keyed, binary(n, "sub", keyed, dp, reduced(n, "d", "", both)));
    const uint32_t dz = binary(n, "mul", keyed, p, above);
    const uint32_t ds = perhaps(a, keyed, binary(n, "mul", keyed, dz, near_constant(n, a->scale)));
    a->part[DT_SDPA_DQ] = product(n, "j", ds, 1, of_queries);
    a->part[DT_SDPA_DK] = product(n, "i", ds, 0, of_keys);
    a->part[DT_SDPA_DV] = product(n, "i", p, 3, of_keys);
}

static void make(Attention *a, int fault)
{
    Near *n = &a->n;
    n->fault = fault;
    n->constant = fault == 0 ? (int)near_dice(n, a->backward ? 4 : 3) : -1;
    a->spoils = fault > 0 ? near_dice(n, a->backward ? 4 : 3) : UINT32_MAX;
    a->scale = near_dice(n, 2) ? 0.125 : 1 / sqrt(20);
    n->text.len = 0;
    dt_text_printf(&n->text,
                   "func f : fn @1:1-2 {\n  arg %%0 : %s\n  arg %%1 : %s\n  arg %%2 : %s\n",
                   of_queries, of_keys, of_keys);
    for (uint32_t i = 3; i < 7 && a->backward; i++)
        dt_text_printf(&n->text, "  arg %%%u : %s\n", i, i < 5 ? of_queries : row);
    n->next = a->backward ? 7 : 3;
    memcpy(a->part, arguments, sizeof a->part);
    if (a->backward)
        backward(a);
    else
        forward(a);
    dt_text_printf(&n->text, "}\n");
}

static uint8_t f32(void)
{
    uint8_t dtype = 0;
    while (strcmp(dt_kinds_name(dtype), "f32") != 0)
        dtype++;
    return dtype;
}

static bool is_there(const Attention *a, uint32_t part)
{
    return a->backward || part <= DT_SDPA_SUM;
}

static void lay(const Attention *a, PlanWalk *walk, DtPlanSdpa *of, PlanAttend *p)
{
    for (uint32_t part = 0; part < DT_SDPA_PARTS; part++) {
        const CertOp *op = is_there(a, part) ? walk->frame->maker[a->part[part]] : NULL;
        of->pointer[part] = is_there(a, part) ? (int32_t)part : -1;
        of->of_row[part] = part == DT_SDPA_MAX || part == DT_SDPA_SUM ? 1 : 2;
        p->value[part] = a->part[part];
        if (is_there(a, part))
            dt_certplan_dense(walk, op ? op->types[0] : walk->frame->func->args.at[a->part[part]],
                              &p->place[part]);
    }
}

static bool is_proved(const Attention *a)
{
    static const DtPlanMeta meta;
    static const DtPlan plan = {.meta = &meta};
    DtArena *arena = dt_arena_new();
    DtText problem = {0};
    CertProgram program = {0};
    cr_assert(dt_certtext_read(arena, a->n.text.at, &program, &problem), "%s\n%s", problem.at,
              a->n.text.at);
    PlanFrame frame = {.func = dt_certtext_func(&program, dt_intern("f"))};
    frame.maker = DT_NEW_ARRAY(arena, const CertOp *, frame.func->n_values);
    const CertOp **ops = DT_NEW_ARRAY(arena, const CertOp *, frame.func->ops.n);
    DtPlanSdpa of = {.dtype = f32(), .backward = a->backward, .batch = 1, .heads = 1, .kv_heads = 1,
                     .queries = 4, .keys = 5, .head = 2, .scale = a->scale};
    PlanAttend p = {.of = &of, .ops = ops};
    for (uint32_t i = 0; i < frame.func->ops.n; i++) {
        const CertOp *op = frame.func->ops.at[i];
        frame.maker[op->first_out] = op;
        const bool elsewhere =
            op->n_axes == 1 && strcmp(op->axes[0], "d") == 0 && strcmp(op->kind, "reduce") == 0;
        /* another kernel sums the product of the result and its gradient */
        if (strcmp(op->kind, "const") != 0 && !elsewhere)
            ops[p.n_ops++] = op;
    }
    PlanWalk walk = {.arena = arena, .scratch = arena, .plan = &plan, .program = &program,
                     .frame = &frame, .problem = &problem};
    lay(a, &walk, &of, &p);
    const bool proved = dt_certplan_attends(&walk, &p);
    dt_text_free(&problem);
    dt_arena_free(arena);
    return proved;
}

Test(near, the_certificate_takes_no_other_attention)
{
    Attention a = {.n = {.random = 31}};
    for (uint32_t i = 0; i < EACH; i++)
        for (int fault = -1; fault < NEAR_FAULTS; fault++) {
            a.backward = i % 2;
            make(&a, fault);
            cr_expect(is_proved(&a) == (fault < 0), "fault %d\n%s", fault, a.n.text.at);
        }
    dt_text_free(&a.n.text);
}
