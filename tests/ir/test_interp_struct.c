/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, loops, optimizer updates, collectives, sources, and what the interpreter must refuse. */
#include "interp_fixture.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>

/* difference(x, y) = x - y; then difference(difference(y, x), y) in the caller. */
Test(interp_struct, call_passes_operands_in_order)
{
    Fixture *f = fixture_new();
    const DtType *type = type_of(DT_F32, "a=2");
    DtFunc *func = dt_graph_func(f->module, "difference", DT_FUNC_FN);
    DtBuilder inner = {.func = func};
    DtValue *p = dt_graph_arg(func, type, "x"), *q = dt_graph_arg(func, type, "y");
    dt_graph_return(func, dt_graph_binary(&inner, DT_OP_SUB, p, q));
    dt_graph_return(func, p);
    DtValue *x = arg_values(f, type, (double[]){1, 2}),
            *y = arg_values(f, type, (double[]){10, 30});
    DtOp *first = dt_graph_call(&f->b, func, NULL, (DtValue *[]){y, x});
    DtOp *second = dt_graph_call(&f->b, func, "label", (DtValue *[]){first->out[0], y});
    expect_values(run(f, second->out[0]), (double[]){-1, -2}, 2);
    expect_values(run(f, second->out[1]), (double[]){9, 28}, 2);
    fixture_free(f);
}

/* Adds a loop whose body computes, in iteration i, carry' = carry * k + w[i]; it also returns the
 * carry at the start of the iteration, and i. */
static DtOp *horner_loop(Fixture *f, bool reverse, DtValue *start, DtValue *k, DtValue *w)
{
    DtFunc *body = dt_graph_func(f->module, "body", DT_FUNC_BODY);
    DtBuilder inner = {.func = body};
    DtValue *i = dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
    DtValue *carry = dt_graph_arg(body, start->type, "carry"),
            *factor = dt_graph_arg(body, k->type, "k");
    const DtType *whole = w->type;
    DtValue *slice =
        dt_graph_arg(body, dt_type_plain(DT_F32, whole->rank - 1u, whole->axes + 1), "w");
    DtValue *product = dt_graph_binary(&inner, DT_OP_MUL, carry, factor);
    dt_graph_return(body, dt_graph_binary(&inner, DT_OP_ADD, product, slice));
    dt_graph_return(body, carry);
    dt_graph_return(body, i);
    DtLoop loop = {.label = dt_intern("h"),
                   .axis = whole->axes[0].name,
                   .count = whole->axes[0].extent,
                   .reverse = reverse,
                   .n_carried = 1,
                   .n_invariant = 1,
                   .n_stacked = 1,
                   .n_stacked_out = 2};
    return dt_graph_loop(&f->b, body, loop, (DtValue *[]){start, k, w});
}

/* The branch of (n, ring, w): puts iteration 2 - n of w into the front slot of the ring. */
static DtFunc *fetch_branch(Fixture *f, const DtType *ring, const DtType *whole)
{
    DtFunc *func = dt_graph_func(f->module, "fetch", DT_FUNC_BRANCH);
    DtBuilder b = {.func = func};
    DtValue *n = dt_graph_arg(func, dt_type_scalar(DT_I32), "n"),
            *r = dt_graph_arg(func, ring, "ringbuf"), *w = dt_graph_arg(func, whole, "w");
    dt_graph_return(func, dt_graph_ringbuf_put(&b, r, dt_graph_at(&b, w, n, 2, -1), 64));
    return func;
}

static const DtType *ring_type(int64_t slots)
{
    DtAxis axes[] = {{.name = dt_intern("@ringbuf"), .extent = slots},
                     {.name = dt_intern("@slot"), .extent = 128}};
    return dt_type_plain(DT_U8, 2, axes);
}

/* Of three slots the second one is filled when the counter is 1. The value comes to the front when
 * the ring has turned round. */
Test(interp_struct, rings)
{
    Fixture *f = fixture_new();
    const DtType *slice = type_of(DT_F32, "a=2"), *ring = ring_type(3);
    DtValue *w = arg_values(f, type_of(DT_F32, "layers=3 a=2"), (double[]){1, 2, 3, 4, 5, 6});
    DtFunc *fetch = fetch_branch(f, ring, w->type);
    const DtRange range = {.lo = 1, .n = 1};
    DtValue *r = dt_graph_ringbuf(&f->b, ring, NULL);
    r = dt_graph_ringbuf_put(&f->b, r, dt_graph_at(&f->b, w, NULL, 2, 0), 0);
    for (int n = 0; n < 3; n++) {
        DtValue *counter = arg_scalar(f, DT_I32, n);
        r = dt_graph_when(&f->b, fetch, &range, NULL, (DtValue *[]){counter, r, w})->out[0];
        expect_values(run(f, dt_graph_ringbuf_get(&f->b, r, 64, slice)),
                      n == 1 ? (double[]){3, 4} : (double[]){NAN, NAN}, 2);
        expect_values(run(f, dt_graph_ringbuf_get(&f->b, r, 0, slice)),
                      n == 0 ? (double[]){5, 6} : (double[]){NAN, NAN}, 2);
        r = dt_graph_ringbuf_turn(&f->b, r);
    }
    expect_values(run(f, dt_graph_ringbuf_get(&f->b, r, 0, slice)), (double[]){5, 6}, 2);
    r = dt_graph_ringbuf(&f->b, ring, r); /* it is filled again */
    expect_values(run(f, dt_graph_ringbuf_get(&f->b, r, 0, slice)), (double[]){NAN, NAN}, 2);
    fixture_free(f);
}

/* A slot that was written as one dtype cannot be read as another dtype of another width. */
Test(interp_struct, ring_of_bytes)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_values(f, type_of(DT_F32, "a=2"), (double[]){7, 8});
    DtValue *r = dt_graph_ringbuf_put(&f->b, dt_graph_ringbuf(&f->b, ring_type(1), NULL), x, 0);
    expect_values(run(f, dt_graph_ringbuf_get(&f->b, r, 0, type_of(DT_BF16, "b=4"))),
                  (double[]){7, NAN, 8, NAN}, 4);
    r = dt_graph_ringbuf(&f->b, r->type, r);
    r = dt_graph_ringbuf_put(&f->b, r, dt_graph_cast(&f->b, x, DT_BF16), 0);
    expect_values(run(f, dt_graph_ringbuf_get(&f->b, r, 0, type_of(DT_F32, "a=2"))),
                  (double[]){7, NAN}, 2);
    fixture_free(f);
}

/* A loop's body counts the loop's iterations; an entry counts micro-batches. */
Test(interp_struct, turns)
{
    Fixture *f = fixture_new();
    DtFunc *body = dt_graph_func(f->module, "body", DT_FUNC_BODY);
    DtBuilder b = {.func = body};
    DtValue *i = dt_graph_arg(body, dt_type_scalar(DT_I32), "i"),
            *x = dt_graph_arg(body, dt_type_scalar(DT_I32), "x");
    DtValue *turn = dt_graph_turn(&b);
    dt_graph_return(body,
                    dt_graph_binary(&b, DT_OP_ADD, x, dt_graph_binary(&b, DT_OP_MUL, turn, i)));
    dt_graph_return(body, turn);
    const DtLoop loop = {.label = "h", .axis = "h", .count = 3, .first = 10, .reverse = true,
                         .n_carried = 1, .n_stacked_out = 1};
    f->interp.turn = 5;
    const DtOp *op = dt_graph_loop(&f->b, body, loop, (DtValue *[]){arg_scalar(f, DT_I32, 0)});
    expect_values(run(f, op->out[0]), (double[]){0 * 12 + 1 * 11 + 2 * 10}, 1);
    expect_values(run(f, op->out[1]), (double[]){2, 1, 0}, 3);
    expect_values(run(f, dt_graph_turn(&f->b)), (double[]){5}, 1);
    fixture_free(f);
}

Test(interp_struct, loop_forwards)
{
    Fixture *f = fixture_new();
    DtValue *start = arg_values(f, type_of(DT_F32, "a=2"), (double[]){1, 2}),
            *k = arg_scalar(f, DT_F32, 10);
    DtValue *w = arg_values(f, type_of(DT_F32, "layers=3 a=2"), (double[]){1, 2, 3, 4, 5, 6});
    DtOp *op = horner_loop(f, false, start, k, w);
    expect_values(run(f, op->out[0]), (double[]){1135, 2246}, 2);
    expect_values(run(f, op->out[1]), (double[]){1, 2, 11, 22, 113, 224}, 6);
    expect_values(run(f, op->out[2]), (double[]){0, 1, 2}, 3);
    fixture_free(f);
}

/* A loop that runs backwards: iterations 2, 1, 0; slices keep their positions. */
Test(interp_struct, loop_backwards)
{
    Fixture *f = fixture_new();
    DtValue *start = arg_values(f, type_of(DT_F32, "a=2"), (double[]){1, 2}),
            *k = arg_scalar(f, DT_F32, 10);
    DtValue *w = arg_values(f, type_of(DT_F32, "layers=3 a=2"), (double[]){1, 2, 3, 4, 5, 6});
    DtOp *op = horner_loop(f, true, start, k, w);
    expect_values(run(f, op->out[0]), (double[]){1531, 2642}, 2);
    expect_values(run(f, op->out[1]), (double[]){153, 264, 15, 26, 1, 2}, 6);
    expect_values(run(f, op->out[2]), (double[]){0, 1, 2}, 3);
    fixture_free(f);
}

/* Two stacked operands, nothing carried, one or two iterations: x[i] - y[i]. */
Test(interp_struct, loop_with_two_stacked_operands)
{
    for (int count = 1; count <= 2; count++) {
        Fixture *f = fixture_new();
        DtFunc *body = dt_graph_func(f->module, "body", DT_FUNC_BODY);
        DtBuilder inner = {.func = body};
        dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
        DtValue *x = dt_graph_arg(body, dt_type_scalar(DT_F32), "x");
        DtValue *y = dt_graph_arg(body, dt_type_scalar(DT_F32), "y");
        dt_graph_return(body, dt_graph_binary(&inner, DT_OP_SUB, x, y));
        DtAxis axis = axis_of("layers", count);
        const DtType *type = dt_type_plain(DT_F32, 1, &axis);
        DtLoop loop = {.label = dt_intern("h"),
                       .axis = axis.name,
                       .count = count,
                       .n_stacked = 2,
                       .n_stacked_out = 1};
        DtValue *in[] = {arg_values(f, type, (double[]){10, 20}),
                         arg_values(f, type, (double[]){1, 2})};
        DtOp *op = dt_graph_loop(&f->b, body, loop, in);
        expect_values(run(f, op->out[0]), (double[]){9, 18}, count);
        fixture_free(f);
    }
}

/* A loop inside the body of another: stacked operands with two loop axes. */
Test(interp_struct, nested_loops)
{
    Fixture *f = fixture_new();
    DtFunc *outer = dt_graph_func(f->module, "outer", DT_FUNC_BODY);
    dt_graph_arg(outer, dt_type_scalar(DT_I32), "i");
    DtValue *carry = dt_graph_arg(outer, dt_type_scalar(DT_F32), "carry");
    DtValue *row = dt_graph_arg(outer, type_of(DT_F32, "inner=2"), "row");
    Fixture inside = *f;
    inside.b = (DtBuilder){.func = outer};
    DtOp *inner = horner_loop(&inside, false, carry, carry, row);
    dt_graph_return(outer, inner->out[0]);
    DtLoop loop = {.label = dt_intern("o"),
                   .axis = dt_intern("outer"),
                   .count = 2,
                   .n_carried = 1,
                   .n_stacked = 1};
    DtValue *start = arg_scalar(f, DT_F32, 3);
    DtValue *w = arg_values(f, type_of(DT_F32, "outer=2 inner=2"), (double[]){1, 2, 3, 4});
    DtOp *op = dt_graph_loop(&f->b, outer, loop, (DtValue *[]){start, w});
    /* 3 -> (3*3+1)*3+2 = 32 -> (32*32+3)*32+4 = 32868 */
    expect_values(run(f, op->out[0]), (double[]){32868}, 1);
    fixture_free(f);
}

static DtTensor *named_source(void *context, const DtOp *op)
{
    DtTensor *tensor = dt_interp_tensor(context, op->out[0]->type);
    tensor->at[0] = op->kind == DT_OP_PARAM ? 7 : 5;
    tensor->at[1] = op->text[0];
    return tensor;
}

Test(interp_struct, sources_ask_the_caller)
{
    Fixture *f = fixture_new();
    f->interp.source = named_source;
    f->interp.context = f->arena;
    const DtType *type = type_of(DT_F32, "a=2");
    DtStore store = {.path = dt_intern("wte"), .pattern = dt_intern("wte"), .type = type};
    DtValue *input = dt_graph_source(&f->b, DT_OP_INPUT, type, dt_intern("x"), NULL);
    DtValue *param = dt_graph_source(&f->b, DT_OP_PARAM, type, dt_intern("wte"), &store);
    expect_values(run(f, input), (double[]){5, 'x'}, 2);
    expect_values(run(f, param), (double[]){7, 'w'}, 2);
    fixture_free(f);
}

/* sum over a split axis gives a pending sum, all_reduce completes it. */
static DtTensor *run_all_reduce(Fixture *f, int64_t ranks)
{
    f->module->mesh = (DtMesh){.n = 1, .axes = {{.name = dt_intern("data"), .size = ranks}}};
    DtAxis axis = axis_of("a", 4);
    axis.n_split = 1;
    DtValue *x = arg_values(f, dt_type_plain(DT_F32, 1, &axis), (double[]){1, 2, 3, 4});
    DtValue *sum = dt_graph_reduce(&f->b, DT_REDUCE_SUM, x, 1, &axis.name);
    return run(f, dt_graph_comm(&f->b, DT_OP_ALL_REDUCE, sum, 1, dt_type_scalar(DT_F32)));
}

Test(interp_struct, all_reduce_over_one_rank)
{
    Fixture *f = fixture_new();
    expect_values(run_all_reduce(f, 1), (double[]){10}, 1);
    fixture_free(f);
}

Test(interp_struct, all_reduce_over_two_ranks_is_refused, .signal = SIGABRT)
{
    run_all_reduce(fixture_new(), 2);
}

Test(interp_struct, missing_source_is_refused, .signal = SIGABRT)
{
    Fixture *f = fixture_new();
    run(f, dt_graph_source(&f->b, DT_OP_INPUT, type_of(DT_F32, "a=2"), dt_intern("x"), NULL));
}

Test(interp_struct, argument_of_another_type_is_refused, .signal = SIGABRT)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=2 b=3"), 1);
    f->args[0] = dt_interp_tensor(f->arena, type_of(DT_F32, "b=3 a=2"));
    run(f, x);
}

/* Attributes that the builder would refuse: the interpreter checks the bounds itself. */
Test(interp_struct, slice_out_of_bounds_is_refused, .signal = SIGABRT)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=4"), 1);
    DtValue *slice = dt_graph_slice(&f->b, x, dt_intern("a"), 0, 1, 3);
    slice->op->ranges[0].lo = 2;
    run(f, slice);
}

Test(interp_struct, result_with_an_unknown_axis_is_refused, .signal = SIGABRT)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=4"), 1);
    DtValue *y = dt_graph_unary(&f->b, DT_OP_EXP, x);
    y->type = type_of(DT_F32, "b=4");
    run(f, y);
}
