/* SPDX-License-Identifier: Apache-2.0 */
/* What is gathered ahead, and what is summed while the next iteration runs, as text: it reads back
 * to itself and computes what the serial program does, over loops, micro-batches and pieces. And
 * whatever is changed in it (an element, a slot, when it runs, that the ring turns) is refused, or
 * computes something else. */
#include "base/intern.h"
#include "ir/irtext.h"
#include "ir/pipeline.h"
#include "passes/check/internal.h"
#include "passes/passes.h"
#include "tests/share.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

typedef struct Layout {
    char program[16], name[16];
    uint32_t rings; /* number of stores of that kind */
} Layout;

typedef struct Ordered {
    DtArena *arena;
    DtJudgeCase c;
    DtText text; /* text of the program after the pass */
} Ordered;

static DtModule *read_back(const Ordered *o)
{
    DtModule *module = dt_irtext_read(o->arena, dt_diag_new(o->arena), o->text.at, o->text.len);
    cr_assert(module != NULL);
    return module;
}

static Ordered order(const char *file, const char *name)
{
    DtArena *arena = dt_arena_new();
    DtLowerOptions options = {.path = dt_intern_printf("tests/passes/programs/%s.dsl", file),
                              .library = "lib", .parallel = name, .synthetic = true};
    DtProgram *program = dt_lower(arena, dt_diag_new(arena), &options);
    const DtPassContext context = {.train = program->train, .parallel = program->parallel};
    for (uint32_t i = 0; i < dt_n_passes; i++)
        dt_passes[i].run(program->module, &context);
    Ordered o = {.arena = arena, .c = {.arena = arena, .serial = dt_judge_serial(arena, &options),
                                       .train = program->train, .steps = 1}};
    dt_irtext_print(program->module, &o.text);
    return o;
}

/* Returns what is wrong with the module; "": nothing. */
static const char *judge(Ordered *o, DtModule *module)
{
    DtJudgement judgement;
    dt_pipeline_unfold(module);
    o->c.placed = module;
    const bool equal = dt_judge_compare(&o->c, &judgement);
    const char *said =
        equal ? "" : dt_arena_strndup(o->arena, judgement.problem.at, judgement.problem.len);
    dt_text_free(&judgement.problem);
    return said;
}

ParameterizedTestParameters(order, layouts)
{
    static Layout cases[] = {{"ahead", "one", 0}, {"ahead", "small", 0}, {"ahead", "micro", 2},
                             {"ahead", "both", 2}, {"ahead", "pipe", 6}, {"ahead", "chunks", 6},
                             {"ahead", "apart", 6}, {"buckets", "two", 0}, {"buckets", "three", 0},
                             {"buckets", "small", 0}, {"buckets", "both", 0},
                             {"buckets", "levels", 0}, {"buckets", "plain", 0},
                             {"buckets", "one", 0}, {"buckets", "ahead", 0},
                             {"buckets", "further", 0}, {"buckets", "late", 0},
                             {"buckets", "later", 0}, {"buckets", "adds", 0},
                             {"buckets", "adds_both", 0}, {"buckets", "adds_pipe", 0},
                             {"buckets", "adds_ahead", 2}, {"buckets", "adds_ahead_pipe", 6}};
    return cr_make_param_array(Layout, cases, DT_COUNT(cases));
}

ParameterizedTest(Layout *layout, order, layouts)
{
    Ordered o = order(layout->program, layout->name);
    DtModule *module = read_back(&o);
    DtText again = {0};
    uint32_t rings = 0;
    dt_irtext_print(module, &again);
    cr_expect_str_eq(again.at, o.text.at);
    for (uint32_t i = 0; i < module->stores.n; i++)
        rings += module->stores.at[i]->kind == DT_STORE_RINGBUF;
    cr_expect_eq(rings, layout->rings, "%s: %u rings are handed on", layout->name, rings);
    cr_expect(strstr(o.text.at, strncmp(layout->name, "late", 4) == 0 ? "start late all_reduce"
                                                                      : "ringbuf_put") &&
                  !strstr(o.text.at, "ahead="),
              "%s", o.text.at);
    cr_expect_str_eq(judge(&o, module), "");
    dt_text_free(&again);
    dt_text_free(&o.text);
    dt_arena_free(o.arena);
}

/* ---- changes ---- */

/* Applies one of the changes that an op can have; false: there is no change with that number. */
static bool change_op(DtOp *op, uint32_t number)
{
    switch (op->kind) {
    case DT_OP_AT:
        op->ranges->lo += number == 0 ? 1 : -1;
        return number < 2;
    case DT_OP_WHEN:
        if (!op->ranges || number > 1)
            return false;
        op->ranges->lo += number; /* the op runs once less: not in the first iteration, or not in
                                   * the last */
        op->ranges->n -= 1;
        if (op->ranges->n == 0) /* or in other iterations */
            op->ranges->n = 1, op->ranges->lo += 1;
        return true;
    case DT_OP_RINGBUF_PUT:
        if (op->in[1]->op && op->in[1]->op->kind == DT_OP_REDUCE_SCATTER)
            return false; /* the value waits in the slot until it is added, but the interpreter adds
                           * it at once */
        __attribute__((fallthrough));
    case DT_OP_RINGBUF_GET:
        op->number += number == 0 ? DT_RING_ALIGN : -DT_RING_ALIGN;
        return number < 2;
    case DT_OP_RINGBUF_TURN:
        op->kind = DT_OP_RINGBUF; /* nothing is in the slot any more */
        return number == 0;
    default: return false;
    }
}

/* Applies change number `number` of all changes of the module's ops; false: there are fewer. */
static bool change(DtModule *module, uint32_t number, char ret_what[200])
{
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++) {
            DtOp *op = module->funcs.at[i]->ops.at[k];
            for (uint32_t way = 0; way < 2; way++) {
                const DtOpKind kind = op->kind;
                const double at = op->number;
                DtRange range = op->ranges ? *op->ranges : (DtRange){0};
                const bool changed = change_op(op, way);
                if (changed && number-- == 0) {
                    snprintf(ret_what, 200, "change %u of `%s` in %s", way, dt_op_info[kind].text,
                             module->funcs.at[i]->name);
                    return true;
                }
                op->kind = kind;
                op->number = at;
                if (op->ranges)
                    *op->ranges = range;
            }
        }
    return false;
}

/* Every change must be found: by the verifier or, for a share of the others that depends on the
 * commit, by a wrong result. (If k is even, a forward and a backward loop meet in the middle: then
 * the old contents of a slot equal what should have been gathered, so nothing changes.) */
static void find_changes(const char *file, const char *name, uint32_t at_least, uint32_t judged)
{
    Ordered o = order(file, name);
    uint32_t n = 0, refused = 0;
    for (;; n++) {
        char what[200];
        DtText problems = {0};
        DtModule *module = read_back(&o);
        if (!change(module, n, what))
            break;
        if (!dt_verify_module(module, &problems))
            refused++;
        else if (share_has(n))
            cr_expect_str_neq(judge(&o, module), "", "%s: %s is not found", name, what);
        dt_text_free(&problems);
    }
    cr_expect(n >= at_least && n - refused >= judged, "%s: %u changes, %u refused", name, n,
              refused);
    dt_text_free(&o.text);
    dt_arena_free(o.arena);
}

Test(order, changes_in_loops) { find_changes("ahead", "one", 30, 1); }
Test(order, changes_in_micro_batches) { find_changes("ahead", "micro", 40, 1); }
Test(order, changes_in_buckets) { find_changes("buckets", "two", 10, 0); }
Test(order, changes_in_plain_buckets) { find_changes("buckets", "plain", 10, 0); }
Test(order, changes_in_buckets_ahead) { find_changes("buckets", "ahead", 30, 1); }

/* If an action calls another form of its entry, it finds something else gathered, or leaves
 * something else. This changes nothing if nobody reads that value, or the same value is gathered
 * next. */
Test(order, changes_of_forms)
{
    Ordered o = order("ahead", "chunks");
    uint32_t n = 0, found = 0;
    for (;; n++) {
        DtModule *module = read_back(&o);
        DtPipelineRun *run = &module->pipeline->runs.at[0];
        DtAction *action = NULL;
        for (uint32_t s = 0, left = n; s < module->pipeline->n_stages && !action; s++)
            for (uint32_t i = 0; i < run->stages[s].prologue.n && !action; i++)
                if (run->stages[s].prologue.at[i].twin && left-- == 0)
                    action = &run->stages[s].prologue.at[i];
        if (!action)
            break;
        action->twin--;
        found += judge(&o, module)[0] != '\0';
    }
    cr_expect(n > 4 && 2 * found > n, "%u of %u changes are found", found, n);
    dt_text_free(&o.text);
    dt_arena_free(o.arena);
}

/* A started result of a loop is read from one slot while the next iteration writes the other one;
 * with a single slot this is refused. */
Test(order, second_slot)
{
    static const char type[] = "\"@ringbuf\"=2";
    Ordered o = order("buckets", "two");
    DtText problems = {0};
    uint32_t n = 0;
    for (char *at = o.text.at; (at = strstr(at, type)); at += sizeof type - 1, n++)
        at[sizeof type - 2] = '1';
    DtModule *module = dt_irtext_parse(o.arena, dt_diag_new(o.arena), o.text.at, o.text.len);
    cr_assert(n > 0 && module);
    cr_expect(!dt_verify_module(module, &problems));
    cr_expect(problems.at && strstr(problems.at, "is not done"), "%s",
              problems.at ? problems.at : "");
    dt_text_free(&problems);
    dt_text_free(&o.text);
    dt_arena_free(o.arena);
}
