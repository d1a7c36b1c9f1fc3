/* SPDX-License-Identifier: Apache-2.0 */
/* The result of passes on small functions, as text: tests/golden/passes/NAME.txt (DT_BLESS=1
 * rewrites them). */
#include "rule.h"
#include "golden.h"
#include "gradcheck.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void compare_module(const char *name, const DtModule *module)
{
    DtText text = {0};
    dt_irtext_print(module, &text);
    char path[100];
    snprintf(path, sizeof path, "passes/%s", name);
    golden_compare(path, &text);
    dt_text_free(&text);
}

static DtValue *matmul(DtBuilder *b, DtValue *x, DtValue *w, const char *axis)
{
    const char *name = dt_intern(axis);
    return dt_graph_dot(b, x, w, 1, &name, DT_F32, NULL);
}

/* Makes the layer dense(x) = tanh(x @e w + b0). */
static DtFunc *dense(Check *c)
{
    DtFunc *f = check_func(c, "dense", DT_FUNC_LAYER);
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "b=3 e=4"), "x");
    DtValue *w = dt_graph_param(f, type_of(DT_F32, "e=4 f=4"),
                                (DtFormalParam){.path = dt_intern("w"), .pattern = dt_intern("w")});
    DtValue *b0 =
        dt_graph_param(f, type_of(DT_F32, "f=4"),
                       (DtFormalParam){.path = dt_intern("b0"), .pattern = dt_intern("b0")});
    DtValue *h = dt_graph_binary(&c->b, DT_OP_ADD, matmul(&c->b, x, w, "e"), b0);
    h->name = dt_intern("h");
    DtValue *y = dt_graph_unary(&c->b, DT_OP_SIN, h);
    y->name = dt_intern("y");
    dt_graph_return(f, y);
    return f;
}

Test(golden, differentiate_function)
{
    Check *c = check_new();
    c->module->funcs.n = 0; /* the module has no main function here */
    dt_differentiate_func(dense(c));
    compare_module("differentiate_function", c->module);
    check_free(c);
}

Test(golden, differentiate_loop)
{
    Check *c = check_new();
    DtFunc *f = check_func(c, "h.body", DT_FUNC_BODY);
    dt_graph_arg(f, dt_type_scalar(DT_I32), "i");
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "e=3"), "x"),
            *s = dt_graph_arg(f, type_of(DT_F32, "e=3"), "s");
    DtValue *w = dt_graph_arg(f, type_of(DT_F32, "e=3"), "w");
    DtValue *y = dt_graph_binary(&c->b, DT_OP_MUL, dt_graph_binary(&c->b, DT_OP_MUL, x, w), s);
    dt_graph_return(f, y);
    check_main(c);
    DtLoop loop = {.label = dt_intern("h"),
                   .axis = dt_intern("h"),
                   .count = 4,
                   .n_carried = 1,
                   .n_invariant = 1,
                   .n_stacked = 1};
    DtValue *in[] = {input(c, "e=3"), input(c, "e=3"), input(c, "h=4 e=3")};
    dt_graph_return(c->func, dt_graph_loop(&c->b, f, loop, in)->out[0]);
    dt_differentiate_func(c->func);
    compare_module("differentiate_loop", c->module);
    check_free(c);
}

Test(golden, split)
{
    Check *c = check_new();
    c->module->funcs.n = 0;
    DtFunc *bwd = dt_differentiate_func(dense(c));
    dt_inline_calls(bwd, NULL);
    dt_wgrad_func(bwd, (bool[]){false, true, true});
    compare_module("wgrad", c->module);
    check_free(c);
}

/* Two calls of one layer: paths of ops and sites of draws get the calls' labels; equal ops become
 * one. */
Test(golden, inline_and_cse)
{
    Check *c = check_new();
    DtFunc *f = check_func(c, "noisy", DT_FUNC_LAYER);
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "a=4"), "x");
    DtValue *half = dt_graph_constant(&c->b, DT_F32, 0.5);
    DtValue *keep =
        dt_graph_binary(&c->b, DT_OP_LT, half, dt_graph_rng(&c->b, x->type, "dropout#0"));
    dt_graph_return(f, dt_graph_where(&c->b, keep, x, dt_graph_binary(&c->b, DT_OP_MUL, x, half)));
    check_main(c);
    c->b.path = dt_intern("top");
    DtValue *in = input(c, "a=4");
    DtValue *one = dt_graph_call(&c->b, f, "one", &in)->out[0],
            *two = dt_graph_call(&c->b, f, "two", &in)->out[0];
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_ADD, one, two));
    dt_inline_calls(c->func, NULL);
    compare_module("inline", c->module);
    dt_cse_func(c->func);
    compare_module("cse", c->module);
    check_free(c);
}

static DtModule *read_module(DtArena *arena, const char *name)
{
    static char text[20000];
    FILE *file = fopen(dt_arena_printf(arena, "tests/golden/passes/%s.txt", name), "rb");
    cr_assert(file != NULL);
    const size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    cr_assert(len < sizeof text);
    DtDiags *diags = dt_diag_new(arena);
    DtModule *module = dt_irtext_read(arena, diags, text, len);
    if (module == NULL)
        dt_diag_print(diags, stderr, false);
    cr_assert(module != NULL);
    expect_valid(module);
    return module;
}

/* Checks that the pass turns the module in the file `before` into that in the file `name`. */
static void check_pass(const char *before, const char *name, DtPassRun *pass,
                       const DtPassContext *context)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = read_module(arena, before);
    pass(module, context);
    expect_valid(module);
    compare_module(name, module);
    dt_arena_free(arena);
}

/* Gradients of bf16 values become f32: products that a loop stacks, and a sum that is rounded in
 * between. A gradient that has another reader stays as it is, and so does a state. */
Test(golden, widen) { check_pass("widen_before", "widen", dt_pass_widen, &(DtPassContext){0}); }

/* A loop and its backward loop, as the passes differentiate and inline leave them, read from a
 * file. */
Test(golden, remat)
{
    DtRemat line = {.loop = dt_intern("h"), .keep = {dt_intern("u")}, .n_keep = 1};
    DtParallelConfig parallel = {.micro = 1, .remats = {.at = &line, .n = 1}};
    check_pass("remat_before", "remat", dt_pass_remat, &(DtPassContext){.parallel = &parallel});
}

/* If kernels compute a value from a product and a bias, only the product is saved. This does not
 * hold if ranks may have parts of the product, nor for a sine that a product reads. */
Test(golden, remat_products)
{
    DtShard line = {.axes = {dt_intern("embed")}, .n_axes = 1, .mesh = {dt_intern("tp")},
                    .n_mesh = 1};
    DtParallelConfig parallel = {.micro = 1, .shards = {.at = &line, .n = 1}};
    check_pass("remat_products_before", "remat_products", dt_pass_remat, &(DtPassContext){0});
    const DtPassContext split = {.parallel = &parallel};
    check_pass("remat_products_before", "remat_products_before", dt_pass_remat, &split);
}

/* g * exp(g) is recomputed from g, since the derivative evaluates exp(g) anyway; tanh(u) is not, as
 * the derivative needs 1 - tanh(u)^2. */
Test(golden, remat_made)
{
    check_pass("remat_made_before", "remat_made", dt_pass_remat, &(DtPassContext){0});
}

/* Three of eight rows of a table are padding. The maximum, and the products that sum over these
 * rows, mask them. */
Test(golden, pad)
{
    DtShard line = {.axes = {dt_intern("vocab")},
                    .n_axes = 1,
                    .mesh = {dt_intern("tp")},
                    .n_mesh = 1,
                    .pad = 4};
    DtParallelConfig parallel = {.micro = 1,
                                 .mesh = {.n = 1, .axes = {{.name = dt_intern("tp"), .size = 2}}},
                                 .shards = {.at = &line, .n = 1}};
    check_pass("pad_before", "pad", dt_pass_pad, &(DtPassContext){.parallel = &parallel});
}

static DtTrainConfig adamw(void)
{
    return (DtTrainConfig){.precision = {.compute = DT_BF16,
                                         .params = DT_BF16,
                                         .master = DT_F32,
                                         .grads = DT_F32,
                                         .reduce = DT_F32,
                                         .loss_scale = 1}};
}

/* A weight of a loop that two entries use is read in bf16 only, and gets a master copy. A bias does
 * not, since its cast is part of a kernel, nor does a weight that is also read in f32. */
Test(golden, narrow)
{
    DtTrainConfig train = adamw();
    check_pass("narrow_before", "narrow", dt_pass_narrow, &(DtPassContext){.train = &train});
}

/* Adds the step of AdamW with clipping, as an optimizer's rule. */
static bool optimizer(DtModule *module, const DtPassContext *context)
{
    DtTrainConfig train = *context->train;
    DtPassContext with_rules = *context;
    train.optimizer = test_optimizer(
        module, (TestRule){.is_adamw = true, .beta1 = 0.5, .beta2 = 0.75, .eps = 0.125,
                           .decay = 0.25, .clip = 2});
    with_rules.train = &train;
    return dt_pass_optimizer(module, &with_rules);
}

/* Clipping and AdamW; then with a master copy, and a loss scale that skips steps, so that states
 * keep their values, too. */
Test(golden, optimizer)
{
    for (int scaled = 0; scaled < 2; scaled++) {
        DtTrainConfig train = adamw();
        train.precision.has_master = train.precision.dynamic_loss_scale = scaled != 0;
        check_pass("optimizer_before", scaled ? "optimizer_scaled" : "optimizer", optimizer,
                   &(DtPassContext){.train = &train});
    }
}

/* Gradients in f32 that are sent to other ranks in bf16: they stay pending until the update. */
Test(golden, reduce)
{
    DtParallelConfig parallel = {.micro = 1};
    check_pass("reduce_before", "reduce", dt_pass_reduce, &(DtPassContext){.parallel = &parallel});
}

/* Several cases: a norm in a loop, which reads the iteration number; a call that may be a kernel of
 * attention, with an alternative if no tiles fit, and a call that may not; a pad that reads a value
 * which other kernels recompute; and sums over rows: one beside kernels that use each row, one that
 * only reads the same values, and one alone. If every op is a kernel of its own, the pass changes
 * nothing. */
Test(golden, fuse)
{
    check_pass("fuse_before", "fuse", dt_pass_fuse, &(DtPassContext){0});
    check_pass("fuse_before", "fuse_before", dt_pass_fuse, &(DtPassContext){.unfused = true});
}

/* An update that waits for a norm: the kernel of the moments is not merged with that of the norm,
 * and recomputes the squares of gradients. If a map of z and the maximum of its row are used for a
 * sum over all rows, they are recomputed and not written to memory. */
Test(golden, fuse_again)
{
    check_pass("fuse_again_before", "fuse_again", dt_pass_fuse, &(DtPassContext){0});
}
/* If an operand of a weight's gradient takes little memory compared with other values, the kernel
 * that follows computes it. */
Test(golden, fuse_wait)
{
    check_pass("fuse_wait_before", "fuse_wait", dt_pass_fuse, &(DtPassContext){0});
}

/* A forward and a backward loop that gather parameters one iteration ahead. Both loops use the same
 * ring buffer; in its last iteration the forward loop gathers for the backward loop. */
Test(golden, order) { check_pass("order_before", "order", dt_pass_order, &(DtPassContext){0}); }

/* The transfer of a block to the next rank overlaps with everything in its iteration. A sum over
 * ranks begins where its term is computed, and a view of the sum waits for its first reader. A
 * gather whose result is read at once is not started early. */
Test(golden, order_start)
{
    check_pass("order_start_before", "order_start", dt_pass_order, &(DtPassContext){0});
}
/* A product is moved to where an exchange would be waited for. An exchange whose operand would have
 * to be kept for too long is done earlier, or not started early. */
Test(golden, order_fill)
{
    check_pass("order_fill_before", "order_fill", dt_pass_order, &(DtPassContext){0});
}
/* A bucket that is complete at the end of an iteration is summed during the next one; a bucket that
 * can be summed during its own iteration is not delayed. */
Test(golden, order_carry)
{
    check_pass("order_carry_before", "order_carry", dt_pass_order, &(DtPassContext){0});
}
/* If micro-batches accumulate gradients, the summed bucket waits in the slot as well; only one ring
 * is turned at a time. */
Test(golden, order_carry_adds)
{
    check_pass("order_carry_adds_before", "order_carry_adds", dt_pass_order, &(DtPassContext){0});
}
/* The sum is written directly into the slot, not copied from there to the place where it is
 * added. */
Test(golden, memory_carry_adds)
{
    check_pass("order_carry_adds", "memory_carry_adds", dt_pass_memory, &(DtPassContext){0});
}
/* Accumulated gradients are summed over ranks in the last micro-batch: in the loop's body, and
 * after it. */
Test(golden, order_late)
{
    check_pass("order_late_before", "order_late", dt_pass_order, &(DtPassContext){0});
}
/* For gradients that ranks shard, each rank accumulates its terms of all shards; in the last
 * micro-batch the sum is sharded. */
Test(golden, order_late_cut)
{
    check_pass("order_late_cut_before", "order_late_cut", dt_pass_order, &(DtPassContext){0});
}

/* Messages between the stages of a pipeline: of a schedule with separate weight gradients (W), and
 * of a class of stages. */
Test(golden, order_messages)
{
    check_pass("stage_split", "order_messages", dt_pass_order, &(DtPassContext){0});
    check_pass("stage_class", "order_messages_class", dt_pass_order, &(DtPassContext){0});
}
/* In a loop that gathers ahead, such a bucket is placed after the gathered values in their
 * slots. */
Test(golden, order_carry_ahead)
{
    check_pass("order_carry_ahead_before", "order_carry_ahead", dt_pass_order, &(DtPassContext){0});
}

/* A body with kernels that may overwrite an operand, kernels that may not (because a second result
 * needs another reduction, or the index differs), and kernels that may not yet (because a view of
 * the operand is read later); new carried values that overwrite old ones; a started sum over ranks
 * that overwrites its term; and an update in which one store is still read when its next value is
 * computed. */
Test(golden, memory) { check_pass("memory_before", "memory", dt_pass_memory, &(DtPassContext){0}); }
/* A value that kernels recompute at each use is in memory if an op needs its address: once, for all
 * such ops. */
Test(golden, memory_positions)
{
    check_pass("memory_positions_before", "memory_positions", dt_pass_memory, &(DtPassContext){0});
}
/* A started sum over ranks overwrites its term, unless something else reads the term meanwhile. A
 * value that two parts of a stacked bucket contain is written to one of them and copied to the
 * other. */
Test(golden, memory_twice)
{
    check_pass("memory_twice_before", "memory_twice", dt_pass_memory, &(DtPassContext){0});
}
/* Products that add a matrix: one whose rows the library supports; one whose rows it does not
 * support; and one that also has a sum of its operand, which cannot be added to old contents. */
Test(golden, memory_product)
{
    check_pass("memory_product_before", "memory_product", dt_pass_memory,
               &(DtPassContext){.target = DT_TARGET_CUDA});
}

/* Attention in a ring of two ranks whose queries and keys are in zigzag order. */
Test(golden, expand) { check_pass("expand_before", "expand", dt_pass_expand, &(DtPassContext){0}); }

/* One of four ranks on two mesh axes, which split queries and keys in different orders. */
Test(golden, expand_axes)
{
    check_pass("expand_axes_before", "expand_axes", dt_pass_expand, &(DtPassContext){0});
}

/* A value in the zigzag order of two mesh axes, of which one remains. */
Test(golden, expand_zigzag)
{
    check_pass("expand_zigzag_before", "expand_zigzag", dt_pass_expand, &(DtPassContext){0});
}
