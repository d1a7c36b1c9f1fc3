/* SPDX-License-Identifier: Apache-2.0 */
/* Compares ops with a record over residues: what an epilogue computes from a product, and attention
 * of a library. If the comparison does not know an op, the result must be unknown. Also where
 * values may have another dtype. */
#include "verify/plan_internal.h"

#include "base/intern.h"
#include "plan/kinds.h"

#include <criterion/criterion.h>

static const char product[] = "func f : fn @1:1-2 {\n"
                              "  arg %0 : f32[m=2, k=3]\n"
                              "  arg %1 : f32[k=3, n=4]\n"
                              "  arg %2 : f32[n=4]\n"
                              "  %3 = const() : f32[] @1:1-2\n"
                              "  %4 = const() : f32[] number=1000 @1:1-2\n"
                              "  %5 = dot[k](%0, %1) : f32[m=2, n=4] @1:1-2\n",
                  attention[] = "func f : fn @1:1-2 {\n"
                                "  arg %0 : f32[i=4, d=2]\n"
                                "  arg %1 : f32[j=4, d=2]\n"
                                "  arg %2 : f32[j=4, d=2]\n"
                                "  %3 = const() : f32[] number=0.5 @1:1-2\n"
                                "  %4 = dot[d](%0, %1) : f32[i=4, j=4] @1:1-2\n"
                                "  %5 = mul(%4, %3) : f32[i=4, j=4] @1:1-2\n"
                                "  %6 = reduce[j](%5) : f32[i=4] reduce=max @1:1-2\n";

static const DtPlanMeta meta;
static const DtPlan plan = {.meta = &meta};

/* Returns the number of a dtype by its name in notes and records. */
static uint8_t dtype_of(const char *name)
{
    uint8_t dtype = 0;
    while (strcmp(dt_kinds_name(dtype), name) != 0)
        dtype++;
    return dtype;
}

typedef struct Row {
    bool holds;
    const char *ops; /* number of the op that makes the result */
    DtPlanEpilogue epilogue;
} Row;

/* Makes a function of these lines, in the form in which it is compared. */
typedef struct Made {
    PlanWalk walk;
    PlanFrame frame;
    CertProgram program;
    DtText problem;
    const CertFunc *func;
    const CertOp *ops[PLAN_PRODUCT_OPS];
    uint32_t n_ops, result;
    PlanPlace at[4]; /* dtypes of the arguments, of the result */
} Made;

/* All ops from op `first` on, except constants, belong to the instruction. */
static void make(Made *made, const char *head, const char *ops, uint32_t first)
{
    *made = (Made){0};
    DtArena *arena = dt_arena_new();
    const char *text = dt_arena_printf(arena, "%s%s}\n", head, ops);
    cr_assert(dt_certtext_read(arena, text, &made->program, &made->problem), "%s",
              made->problem.at);
    made->func = dt_certtext_func(&made->program, dt_intern("f"));
    made->frame = (PlanFrame){.func = made->func,
                              .maker = DT_NEW_ARRAY(arena, const CertOp *, made->func->n_values)};
    for (uint32_t i = 0; i < made->func->ops.n; i++) {
        const CertOp *op = made->func->ops.at[i];
        made->frame.maker[op->first_out] = op;
        made->result = op->first_out;
        if (i >= first && strcmp(op->kind, "const") != 0)
            made->ops[made->n_ops++] = op;
    }
    made->walk = (PlanWalk){.arena = arena, .scratch = arena, .plan = &plan,
                            .program = &made->program, .frame = &made->frame,
                            .problem = &made->problem};
    for (uint32_t i = 0; i < 3; i++)
        dt_certplan_dense(&made->walk, made->func->args.at[i], &made->at[i]);
    dt_certplan_dense(&made->walk, made->frame.maker[made->result]->types[0], &made->at[3]);
}

static void done(Made *made)
{
    dt_text_free(&made->problem);
    dt_arena_free(made->walk.arena);
}

/* ---- epilogues ---- */

#define OF " : f32[m=2, n=4] @1:1-2\n"
static const Row epilogues[] = {
    {true, "  %6 = add(%5, %2)" OF, DT_PLAN_EPILOGUE_BIAS},
    {false, "  %6 = sub(%5, %2)" OF, DT_PLAN_EPILOGUE_BIAS},
    {false, "  %6 = log(%5)" OF, DT_PLAN_EPILOGUE_BIAS},
    {true, "  %6 = add(%5, %2)" OF "  %7 = max(%6, %3)" OF, DT_PLAN_EPILOGUE_BIAS_RELU},
    {true,
     "  %6 = add(%5, %2)" OF "  %7 = lt(%3, %6) : bool[m=2, n=4] @1:1-2\n"
     "  %8 = where(%7, %6, %3)" OF,
     DT_PLAN_EPILOGUE_BIAS_RELU},
    /* + max(log x, 0) */
    {false,
     "  %6 = log(%5)" OF "  %7 = max(%6, %3)" OF "  %8 = add(%5, %2)" OF "  %9 = add(%8, %7)" OF,
     DT_PLAN_EPILOGUE_BIAS},
    /* another value where 0 < exp x; or where exp x <= 0, which is always false */
    {false, "  %6 = exp(%5)" OF "  %7 = lt(%3, %6) : bool[m=2, n=4] @1:1-2\n  %8 = add(%5, %2)" OF
            "  %9 = where(%7, %5, %8)" OF, DT_PLAN_EPILOGUE_BIAS},
    {false, "  %6 = exp(%5)" OF "  %7 = le(%6, %3) : bool[m=2, n=4] @1:1-2\n  %8 = add(%5, %2)" OF
            "  %9 = where(%7, %5, %8)" OF, DT_PLAN_EPILOGUE_BIAS},
    /* rounded in between; truncated to an integer */
    {true, "  %6 = cast(%5) : bf16[m=2, n=4] @1:1-2\n  %7 = cast(%6)" OF "  %8 = add(%7, %2)" OF,
     DT_PLAN_EPILOGUE_BIAS},
    {false, "  %6 = cast(%5) : i32[m=2, n=4] @1:1-2\n  %7 = cast(%6)" OF "  %8 = add(%7, %2)" OF,
     DT_PLAN_EPILOGUE_BIAS},
    /* x limited softly to 1000 */
    {false,
     "  %6 = div(%5, %4)" OF "  %7 = tanh(%6)" OF "  %8 = mul(%7, %4)" OF "  %9 = add(%8, %2)" OF,
     DT_PLAN_EPILOGUE_BIAS},
    /* another value where x + 1000 < 0 */
    {false,
     "  %6 = add(%5, %4)" OF "  %7 = lt(%6, %3) : bool[m=2, n=4] @1:1-2\n  %8 = add(%5, %2)" OF
     "  %9 = where(%7, %5, %8)" OF, DT_PLAN_EPILOGUE_BIAS},
};

static bool joins(const Row *row)
{
    Made made;
    make(&made, product, row->ops, 2);
    const DtPlanGemm gemm = {.epilogue = row->epilogue, .m = 2, .n = 4, .k = 3, .a_row = 3,
                             .a_col = 1, .b_row = 4, .b_col = 1, .c_row = 4, .c_col = 1};
    const PlanProduct p = {.n_read = 3, .n_written = 1, .read = {0, 1, 2}, .written = {made.result},
                           .from = {made.at[0], made.at[1], made.at[2]}, .to = {made.at[3]}};
    const bool found = dt_certplan_joined(&made.walk, &gemm, made.ops, made.n_ops, &p) != NULL;
    done(&made);
    return found;
}

Test(plan_numbers, epilogues)
{
    for (size_t i = 0; i < DT_COUNT(epilogues); i++)
        cr_expect(joins(&epilogues[i]) == epilogues[i].holds, "%s", epilogues[i].ops);
}

/* ---- attention ---- */

#undef OF
#define OF "[i=4, j=4] @1:1-2\n"
/* The rest of the function, which reads exponentials: three ops with these numbers. */
#define REST(e, sum, p, o)                                                                   \
    "  " sum " = reduce[j](" e ") : f32[i=4] @1:1-2\n  " p " = div(" e ", " sum ") : f32" OF \
    "  " o " = dot[j](" p ", %2) : f32[i=4, d=2] @1:1-2\n"
static const Row attentions[] = {
    {true, "  %7 = sub(%5, %6) : f32" OF "  %8 = exp(%7) : f32" OF REST("%8", "%9", "%10", "%11"),
     0},
    {false, "  %7 = sub(%5, %6) : f32" OF "  %8 = tanh(%7) : f32" OF REST("%8", "%9", "%10", "%11"),
     0},
    /* rounded in between; truncated to an integer */
    {true, "  %7 = sub(%5, %6) : f32" OF "  %8 = cast(%7) : bf16" OF "  %9 = exp(%8) : bf16" OF
           REST("%9", "%10", "%11", "%12"), 0},
    {false, "  %7 = sub(%5, %6) : f32" OF "  %8 = cast(%7) : i32" OF "  %9 = cast(%8) : f32" OF
            "  %10 = exp(%9) : f32" OF REST("%10", "%11", "%12", "%13"), 0},
    /* max(exp(..), tanh(..)) */
    {false, "  %7 = sub(%5, %6) : f32" OF "  %8 = exp(%7) : f32" OF "  %9 = tanh(%4) : f32" OF
            "  %10 = max(%8, %9) : f32" OF REST("%10", "%11", "%12", "%13"), 0},
    /* + the maximum over all keys of max(tanh(..), 0) */
    {false, "  %7 = sub(%5, %6) : f32" OF "  %8 = exp(%7) : f32" OF "  %9 = tanh(%4) : f32" OF
            "  %10 = const() : f32[] @1:1-2\n  %11 = max(%9, %10) : f32" OF
            "  %12 = reduce[j](%11) : f32[i=4] reduce=max @1:1-2\n  %13 = add(%8, %12) : f32" OF
            REST("%13", "%14", "%15", "%16"), 0},
};

static bool attends(const Row *row)
{
    Made made;
    make(&made, attention, row->ops, 1);
    DtPlanSdpa of = {.dtype = dtype_of("f32"), .batch = 1, .heads = 1, .kv_heads = 1, .queries = 4,
                     .keys = 4, .head = 2, .scale = 0.5};
    PlanAttend p = {.of = &of, .ops = made.ops, .n_ops = made.n_ops};
    static const uint32_t parts[] = {DT_SDPA_Q, DT_SDPA_K, DT_SDPA_V, DT_SDPA_O};
    for (uint32_t i = 0; i < DT_SDPA_PARTS; i++)
        of.pointer[i] = -1;
    for (int32_t i = 0; i < 4; i++) {
        of.pointer[parts[i]] = i;
        of.of_row[parts[i]] = 2;
        p.value[parts[i]] = i < 3 ? (uint32_t)i : made.result;
        p.place[parts[i]] = made.at[i];
    }
    const bool good = dt_certplan_attends(&made.walk, &p);
    done(&made);
    return good;
}

Test(plan_numbers, attention)
{
    for (size_t i = 0; i < DT_COUNT(attentions); i++)
        cr_expect(attends(&attentions[i]) == attentions[i].holds, "%s", attentions[i].ops);
}

/* ---- dtypes ---- */

Test(plan_numbers, dtypes)
{
    static const struct {
        bool holds;
        const char *type, *lies;
    } rows[] = {{true, "f32", "f32"}, {true, "bf16", "f32"}, {true, "f16", "f32"},
                {false, "f32", "bf16"}, {false, "f32", "f16"}, {false, "bf16", "f16"},
                {false, "i32", "f32"}, {false, "f32", "i32"}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        DtText problem = {0};
        const uint8_t note[1] = {dtype_of(rows[i].lies)};
        PlanWalk walk = {.plan = &plan, .problem = &problem, .note = note, .end = note + 1};
        const CertType type = {.dtype = dt_intern(rows[i].type)};
        PlanPlace place = {.dtype = type.dtype, .size = dt_certplan_size(type.dtype)};
        cr_expect(dt_certplan_layout(&walk, &type, DT_NOTE_DTYPE, &place) == rows[i].holds,
                  "%s as %s", rows[i].type, rows[i].lies);
        dt_text_free(&problem);
    }
}
