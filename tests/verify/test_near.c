/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that are nearly those of a product's epilogue (plan/epilogues.def), and differ in a
 * constant by 1e-3 to 1e-12 of it, by a clamp or a cap that hardly any number meets, a tiny term, a
 * threshold: both the pass that joins ops with products and the certificate take the function
 * itself, however its terms are arranged, and none of those. */
#include "near.h"

#include "base/diag.h"
#include "base/intern.h"
#include "ir/irtext.h"
#include "passes/passes.h"
#include "plan/kinds.h"
#include "verify/plan_internal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EACH = 400 };
enum { X = 5, V = 2, M = 3, ZERO = 4 }; /* numbers of values: the product, vector, matrix, and
                                         * zero */

static uint32_t add(Near *n, uint32_t x, uint32_t y) { return near_binary(n, "add", x, y); }
static uint32_t mul(Near *n, uint32_t x, uint32_t y) { return near_binary(n, "mul", x, y); }

/* ---- what epilogues mean, terms arranged at random ---- */

static const double root = 0.79788456080286535588, cubic = 0.044715;

/* Adds root (x + cubic x^3), and returns its number. */
static uint32_t inner(Near *n, uint32_t x)
{
    const uint32_t k = near_constant(n, near_dice(n, 2) ? root : 0.7978845608),
                   c = near_constant(n, cubic), x2 = mul(n, x, x);
    if (near_dice(n, 2))
        return mul(n, k, add(n, x, mul(n, mul(n, c, x), x2)));
    return mul(n, mul(n, k, x), add(n, near_constant(n, 1), mul(n, c, x2)));
}

static uint32_t gelu(Near *n, uint32_t x)
{
    const uint32_t t = near_unary(n, "tanh", inner(n, x));
    if (near_dice(n, 2))
        return mul(n, mul(n, near_constant(n, 0.5), x), add(n, near_constant(n, 1), t));
    return near_binary(n, "div", add(n, x, mul(n, x, t)), near_constant(n, 2));
}

/* Adds x times the derivative of GELU at m, and returns its number. */
static uint32_t dgelu(Near *n, uint32_t x, uint32_t m)
{
    const uint32_t t = near_unary(n, "tanh", inner(n, m)), half = near_constant(n, 0.5),
                   one = near_constant(n, 1), m2 = mul(n, m, m),
                   d = add(n, one,
                           mul(n, near_constant(n, 3), mul(n, near_constant(n, cubic), m2))),
                   steep = near_binary(n, "sub", one, mul(n, t, t)),
                   slope =
                       mul(n, mul(n, near_constant(n, root), d), mul(n, mul(n, half, m), steep));
    return mul(n, x, add(n, mul(n, half, add(n, one, t)), slope));
}

static uint32_t function_of(Near *n, DtPlanEpilogue kind)
{
    const DtEpilogueInfo *info = &dt_kinds_epilogues[kind];
    const uint32_t y = info->vector == DT_EPILOGUE_READ ? add(n, X, V) : X;
    switch (kind) {
    case DT_PLAN_EPILOGUE_ADD:
    case DT_PLAN_EPILOGUE_BIAS_ADD: return add(n, y, M);
    case DT_PLAN_EPILOGUE_RELU:
    case DT_PLAN_EPILOGUE_BIAS_RELU:
        return near_dice(n, 2) ? near_binary(n, "max", y, ZERO) : near_below(n, y, 0, ZERO, y);
    case DT_PLAN_EPILOGUE_GELU:
    case DT_PLAN_EPILOGUE_BIAS_GELU: return gelu(n, y);
    case DT_PLAN_EPILOGUE_DGELU: return dgelu(n, X, M);
    default: return y;
    }
}

/* Writes the function with a fault; -1: without one. False: the function has fewer constants than
 * that. */
static bool make(Near *n, DtPlanEpilogue kind, int fault, uint32_t *ret_result)
{
    const uint32_t constants = kind == DT_PLAN_EPILOGUE_DGELU ? 9 : 4;
    n->fault = fault;
    n->constant = fault == 0 ? (int)near_dice(n, constants) : -1;
    n->text.len = 0;
    dt_text_printf(
        &n->text,
        "func f : fn @1:1-2 {\n  arg %%0 : f32[m=2, k=3]\n  arg %%1 : f32[k=3, n=4]\n"
        "  arg %%2 : f32[n=4]\n  arg %%3 : f32[m=2, n=4]\n"
        "  %%4 = const() : f32[] @1:1-2\n  %%5 = dot[k](%%0, %%1) : f32[m=2, n=4] @1:1-2\n");
    n->next = 6;
    const uint32_t y = function_of(n, kind);
    *ret_result = near_spoiled(n, X, y);
    dt_text_printf(&n->text, "  return %%%u\n}\n", *ret_result);
    return fault != 0 || n->constant < 0;
}

/* ---- the certificate ---- */

static bool is_proved(const Near *n, DtPlanEpilogue kind, uint32_t result)
{
    static const DtPlanMeta meta;
    static const DtPlan plan = {.meta = &meta};
    DtArena *arena = dt_arena_new();
    DtText problem = {0};
    CertProgram program = {0};
    cr_assert(dt_certtext_read(arena, n->text.at, &program, &problem), "%s\n%s", problem.at,
              n->text.at);
    PlanFrame frame = {.func = dt_certtext_func(&program, dt_intern("f"))};
    frame.maker = DT_NEW_ARRAY(arena, const CertOp *, frame.func->n_values);
    const CertOp *ops[PLAN_PRODUCT_OPS];
    uint32_t n_ops = 0;
    for (uint32_t i = 0; i < frame.func->ops.n; i++) {
        const CertOp *op = frame.func->ops.at[i];
        frame.maker[op->first_out] = op;
        if (strcmp(op->kind, "const") != 0)
            ops[n_ops++] = op;
    }
    PlanWalk walk = {.arena = arena, .scratch = arena, .plan = &plan, .program = &program,
                     .frame = &frame, .problem = &problem};
    const DtEpilogueInfo *info = &dt_kinds_epilogues[kind];
    const DtPlanGemm gemm = {.epilogue = kind, .m = 2, .n = 4, .k = 3, .a_row = 3, .a_col = 1,
                             .b_row = 4, .b_col = 1, .c_row = 4, .c_col = 1,
                             .matrix_row = info->matrix ? 4 : 0, .matrix_col = info->matrix != 0};
    PlanProduct p = {.n_read = 2, .n_written = 1, .read = {0, 1}, .written = {result}};
    if (info->vector)
        p.read[p.n_read++] = V;
    if (info->matrix)
        p.read[p.n_read++] = M;
    for (uint32_t i = 0; i < p.n_read; i++)
        dt_certplan_dense(&walk, frame.func->args.at[p.read[i]], &p.from[i]);
    dt_certplan_dense(&walk, frame.maker[result]->types[0], &p.to[0]);
    const bool proved = dt_certplan_joined(&walk, &gemm, ops, n_ops, &p) != NULL;
    dt_text_free(&problem);
    dt_arena_free(arena);
    return proved;
}

/* ---- the pass ---- */

/* Whether the op whose result the function returns is a product. */
static bool is_joined(const Near *n, DtPlanEpilogue kind)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_irtext_read(arena, dt_diag_new(arena), n->text.at, n->text.len);
    cr_assert(module, "%s", n->text.at);
    const DtPassContext context = {.epilogues = DT_EPILOGUES_ALL};
    dt_pass_fuse(module, &context);
    const DtFunc *func = module->funcs.at[module->funcs.n - 1]; /* after its kernels */
    const char *text = func->results.at[0]->op->text;
    const bool joined = text && strcmp(text, dt_kinds_epilogues[kind].name) == 0;
    dt_arena_free(arena);
    return joined;
}

static const DtPlanEpilogue some[] = {DT_PLAN_EPILOGUE_BIAS, DT_PLAN_EPILOGUE_ADD,
                                      DT_PLAN_EPILOGUE_BIAS_ADD, DT_PLAN_EPILOGUE_RELU,
                                      DT_PLAN_EPILOGUE_BIAS_RELU, DT_PLAN_EPILOGUE_GELU,
                                      DT_PLAN_EPILOGUE_BIAS_GELU, DT_PLAN_EPILOGUE_DGELU};

static void try_all(bool (*takes)(const Near *n, DtPlanEpilogue kind, uint32_t result))
{
    Near n = {.random = 29, .type = "f32[m=2, n=4]"};
    uint32_t faults = 0;
    for (uint32_t i = 0; i < EACH; i++) {
        const DtPlanEpilogue kind = some[i % DT_COUNT(some)];
        for (int fault = -1; fault < NEAR_FAULTS; fault++) {
            uint32_t result;
            if (!make(&n, kind, fault, &result))
                continue;
            faults += fault >= 0;
            cr_expect(takes(&n, kind, result) == (fault < 0), "fault %d of %s\n%s", fault,
                      dt_kinds_epilogues[kind].name, n.text.at);
        }
    }
    cr_expect(faults > EACH * (NEAR_FAULTS - 1) + EACH / 4);
    dt_text_free(&n.text);
}

static bool pass(const Near *n, DtPlanEpilogue kind, uint32_t result)
{
    (void)result;
    return is_joined(n, kind);
}

Test(near, the_certificate_takes_no_other_function) { try_all(is_proved); }
Test(near, the_pass_joins_no_other_function) { try_all(pass); }
