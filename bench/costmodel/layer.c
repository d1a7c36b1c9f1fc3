/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a GPT layer as Megatron runs them, or of a Llama block as torchtitan does, on one
 * rank of a tensor-parallel group, for one micro-batch. Bytes of kernels are counted operation by
 * operation; nothing here is fitted. */
#include "bench/costmodel/costmodel.h"

#include <math.h>

Time time_add(Time a, Time b)
{
    for (int i = 0; i < DT_COST_KINDS; i++)
        a.at[i] += b.at[i];
    a.weight += b.weight;
    return a;
}

Time time_scale(Time a, double factor)
{
    for (int i = 0; i < DT_COST_KINDS; i++)
        a.at[i] *= factor;
    a.weight *= factor;
    return a;
}

double time_total(Time a)
{
    double total = 0;
    for (int i = 0; i < DT_COST_KINDS; i++)
        total += a.at[i];
    return total;
}

/* ---- extents of one rank ---- */

typedef struct Extents {
    int64_t tokens, hidden, width, kv, ffn; /* sizes on this rank of queries, of keys, of the inner
                                             * layer */
    double wide;                            /* bytes of [tokens, hidden], 16 bits */
    /* the same between tensor-parallel blocks: with sequence parallelism only a part of it */
    double outer;
} Extents;

static Extents extents_of(const Row *row)
{
    Extents x = {.tokens = row->micro * row->seq, .hidden = row->hidden};
    x.width = row->hidden / row->tensor;
    x.kv = row->hidden / row->heads * row->kv_heads / row->tensor;
    x.ffn = row->ffn / row->tensor;
    x.wide = 2.0 * (double)x.tokens * (double)x.hidden;
    x.outer = row->sequence_parallel ? x.wide / (double)row->tensor : x.wide;
    return x;
}

/* ---- one operation ---- */

static double product_seconds(const Setting *s, int64_t m, int64_t n, int64_t k, bool accumulates)
{
    const DtCostProduct op = {.m = m, .n = n, .k = k, .dtype = DT_COST_F16,
                              .accumulates = accumulates};
    const double flops = 2.0 * (double)m * (double)n * (double)k,
                 peak = s->model.device->flops[DT_COST_F16];
    if (s->without == TILES)
        return flops / (peak * dt_cost_constant(&s->model, DT_COST_product));
    if (s->without == STEPS) { /* Calculon's table */
        const double rate = flops >= 128e9 ? 0.97 : flops >= 16e9 ? 0.9 : flops >= 1e9 ? 0.6 : 0.1;
        return flops / (peak * rate * dt_cost_constant(&s->model, DT_COST_product) / 0.9);
    }
    return dt_cost_product(&s->model, op);
}

static void product(const Setting *s, Time *t, int64_t m, int64_t n, int64_t k)
{
    t->at[DT_COST_KIND_PRODUCT] += product_seconds(s, m, n, k, false);
}

static double kernel_seconds(const Setting *s, DtCostKernel op)
{
    const double n = dt_cost_has(&s->model, DT_STACK_eager) && op.ops > 1 ? op.ops : 1;
    const double launches =
        s->without == LAUNCHES ? n * dt_cost_constant(&s->model, DT_COST_launch) : 0;
    return s->without == KERNELS ? 0 : dt_cost_kernel(&s->model, op) - launches;
}

static void kernel(const Setting *s, Time *t, double bytes)
{
    t->at[DT_COST_KIND_KERNEL] += kernel_seconds(s, (DtCostKernel){.bytes = bytes});
}

/* Adds both gradients of a product [m, k] x [k, n]; returns the seconds of the weight's
 * gradient. */
static double gradients(const Setting *s, Time *t, int64_t m, int64_t n, int64_t k)
{
    const double weight =
        product_seconds(s, k, n, m, !dt_cost_has(&s->model, DT_STACK_gradient_pass));
    t->at[DT_COST_KIND_PRODUCT] += product_seconds(s, m, k, n, false) + weight;
    t->weight += weight;
    if (dt_cost_has(&s->model, DT_STACK_gradient_pass))
        kernel(s, t, 6.0 * (double)k * (double)n);
    return weight;
}

/* Adds several operations, in one kernel or, if the software is eager, in one kernel each. */
static void kernels(const Setting *s, Time *t, double bytes, double ops, double eager_bytes)
{
    t->at[DT_COST_KIND_KERNEL] +=
        kernel_seconds(s, (DtCostKernel){.bytes = bytes, .ops = ops, .eager_bytes = eager_bytes});
}

static void norm(const Setting *s, Time *t, double bytes)
{
    const bool slow = dt_cost_has(&s->model, DT_STACK_slow_norm);
    kernel(s, t, bytes * (slow ? dt_cost_constant(&s->model, DT_COST_norm_slow) : 1));
}

static void attention(const Setting *s, Time *t, bool backward)
{
    const Row *row = s->row;
    const DtCostAttention op = {.batch = row->micro, .heads = row->heads / row->tensor,
                                .kv_heads = (row->kv_heads + row->tensor - 1) / row->tensor,
                                .head = row->hidden / row->heads, .queries = row->seq,
                                .keys = row->seq, .visible = 0.5, .dtype = DT_COST_F16,
                                .backward = backward, .dropout = !row->is_llama};
    t->at[DT_COST_KIND_ATTENTION] += s->without == ATTENTION ? 0 : dt_cost_attention(&s->model, op);
}

double beside_of(const Setting *s, double compute, double exchange)
{
    return s->without == SHARE ? fmax(compute, exchange)
                               : dt_cost_beside(&s->model, compute, exchange);
}

static double collective_seconds(const Setting *s, DtCostCollectiveKind kind, double bytes)
{
    const DtCostCollective op = {kind, bytes, s->row->tensor, s->row->tensor, 1};
    return s->without == COLLECTIVES ? 0 : dt_cost_collective(&s->model, op);
}

/* A product [m, k] x [k, n] that runs next to a collective, or several products with its
 * extents. */
typedef struct Near { int64_t m, n, k, count; } Near;

/* The part of a collective's seconds that is not hidden if it and its product are divided into as
 * many pieces as there are ranks: the first piece, and the time lost because smaller products are
 * less efficient. */
static double in_pieces(const Setting *s, Near near, double seconds)
{
    const int64_t pieces = s->row->tensor;
    const double whole = (double)near.count * product_seconds(s, near.m, near.n, near.k, false);
    const double piece =
        (double)near.count * product_seconds(s, near.m / pieces, near.n, near.k, false);
    const double first = seconds / (double)pieces;
    return first + beside_of(s, piece * (double)pieces, seconds - first) - whole;
}

/* Adds a collective of the tensor-parallel group. beside: seconds of a product that does not depend
 * on it; near: the product that needs its result, or whose result it needs. */
static void collective(const Setting *s, Time *t, DtCostCollectiveKind kind, double bytes,
                       double beside, Near near)
{
    double seconds = collective_seconds(s, kind, bytes);
    if (s->row->tensor <= 1)
        return;
    if (beside > 0 && dt_cost_has(&s->model, DT_STACK_tensor_overlap))
        seconds = beside_of(s, beside, seconds) - beside;
    if (near.count > 0 && dt_cost_has(&s->model, DT_STACK_async_tensor))
        seconds = fmin(seconds, in_pieces(s, near, seconds));
    t->at[DT_COST_KIND_LINK] += seconds;
}

/* The collective at the start of a tensor-parallel block, and the one at its end, of [tokens,
 * hidden]. */
static void enter(const Setting *s, Time *t, double bytes, double beside, Near near)
{
    if (s->row->sequence_parallel)
        collective(s, t, DT_COST_ALL_GATHER, bytes, beside, near);
}

static void leave(const Setting *s, Time *t, double bytes, double beside, Near near)
{
    collective(s, t, s->row->sequence_parallel ? DT_COST_REDUCE_SCATTER : DT_COST_ALL_REDUCE, bytes,
               beside, near);
}

static const Near nothing = {0};

/* ---- GPT ---- */

static Time gpt_forward(const Setting *s, const Extents *x)
{
    Time t = {0};
    const double inner = 2.0 * (double)x->tokens * (double)x->ffn, masks = x->outer / 2;
    norm(s, &t, 2 * x->outer);
    enter(s, &t, x->wide, 0, nothing);
    product(s, &t, x->tokens, 3 * x->width, x->hidden);
    attention(s, &t, false);
    /* writes the heads of the result next to each other */
    kernel(s, &t, 2.0 * 2 * (double)x->tokens * (double)x->width);
    product(s, &t, x->tokens, x->hidden, x->width);
    leave(s, &t, x->wide, 0, nothing);
    kernel(s, &t, 3 * x->outer + masks); /* bias, dropout, residual */
    norm(s, &t, 2 * x->outer);
    enter(s, &t, x->wide, 0, nothing);
    product(s, &t, x->tokens, x->ffn, x->hidden);
    kernel(s, &t, 2 * inner); /* bias, gelu */
    product(s, &t, x->tokens, x->hidden, x->ffn);
    leave(s, &t, x->wide, 0, nothing);
    kernel(s, &t, 3 * x->outer + masks);
    return t;
}

/* Adds the gradients of a product whose input is shared by the ranks of the group: the sum of the
 * input's gradients over ranks runs at the same time as the weight's gradient. */
static void column_gradients(const Setting *s, Time *t, const Extents *x, int64_t n)
{
    const double weight = gradients(s, t, x->tokens, n, x->hidden);
    const double data = product_seconds(s, x->tokens, x->hidden, n, false);
    enter(s, t, x->wide, data, nothing); /* gathers the input of the forward pass again */
    leave(s, t, x->wide, weight, nothing);
}

static Time gpt_backward(const Setting *s, const Extents *x)
{
    Time t = {0};
    const double inner = 2.0 * (double)x->tokens * (double)x->ffn, masks = x->outer / 2;
    for (int block = 0; block < 2; block++) {
        kernel(s, &t, 2 * x->outer + masks); /* dropout */
        kernel(s, &t, x->outer);             /* bias */
        enter(s, &t, x->wide, 0, nothing);
        norm(s, &t, 3 * x->outer);
        kernel(s, &t, 3 * x->outer); /* residual */
    }
    gradients(s, &t, x->tokens, x->hidden, x->ffn);
    kernel(s, &t, 3 * inner); /* gelu */
    kernel(s, &t, inner);     /* bias */
    column_gradients(s, &t, x, x->ffn);
    gradients(s, &t, x->tokens, x->hidden, x->width);
    kernel(s, &t, 2.0 * 2 * (double)x->tokens * (double)x->width);
    attention(s, &t, true);
    kernel(s, &t, 2.0 * 3 * (double)x->tokens * (double)x->width); /* bias */
    column_gradients(s, &t, x, 3 * x->width);
    return t;
}

/* ---- Llama ---- */

static void rotate(const Setting *s, Time *t, const Extents *x)
{
    const double bytes = 2.0 * 2 * (double)x->tokens * (double)(x->width + x->kv);
    kernels(s, t, bytes, 6, 5 * bytes); /* cast to f32, complex product, cast back */
}

static void repeat_keys(const Setting *s, Time *t, const Extents *x)
{
    if (x->kv < x->width)
        kernel(s, t, 2 * 2.0 * (double)x->tokens * (double)(x->width + x->kv));
}

/* The sum with the residual and the norm after it: in one kernel that reads two values and writes
 * two. In single kernels: the sum; cast to f32, square, mean, product, cast to 16 bits, product
 * with the weight. */
static void add_norm(const Setting *s, Time *t, const Extents *x)
{
    kernels(s, t, 4 * x->outer, 7, (3 + 18) * x->outer);
}

/* Its gradient, with that of the residual and of `terms` products that read the norm's result.
 * Their sum is a part of the kernel, unless ranks must add up the terms first. */
static void add_norm_backward(const Setting *s, Time *t, const Extents *x, double terms)
{
    kernels(s, t, (4 + terms - 1) * x->outer, 12, (3 + 35 + 3 * (terms - 1)) * x->outer);
}

static void add_terms(const Setting *s, Time *t, const Extents *x, double terms)
{
    if (s->row->tensor > 1)
        kernels(s, t, (terms + 1) * x->wide, terms, 3 * (terms - 1) * x->wide);
}

static Time llama_forward(const Setting *s, const Extents *x)
{
    Time t = {0};
    const double inner = 2.0 * (double)x->tokens * (double)x->ffn;
    add_norm(s, &t, x);
    enter(s, &t, x->wide, 0, (Near){x->tokens, x->width + 2 * x->kv, x->hidden, 1});
    product(s, &t, x->tokens, x->width, x->hidden);
    product(s, &t, x->tokens, x->kv, x->hidden);
    product(s, &t, x->tokens, x->kv, x->hidden);
    rotate(s, &t, x);
    repeat_keys(s, &t, x);
    attention(s, &t, false);
    product(s, &t, x->tokens, x->hidden, x->width);
    leave(s, &t, x->wide, 0, (Near){x->tokens, x->hidden, x->width, 1});
    add_norm(s, &t, x);
    enter(s, &t, x->wide, 0, (Near){x->tokens, x->ffn, x->hidden, 2});
    product(s, &t, x->tokens, x->ffn, x->hidden);
    product(s, &t, x->tokens, x->ffn, x->hidden);
    kernels(s, &t, 3 * inner, 2, 5 * inner);
    product(s, &t, x->tokens, x->hidden, x->ffn);
    leave(s, &t, x->wide, 0, (Near){x->tokens, x->hidden, x->ffn, 1});
    return t;
}

static Time llama_backward(const Setting *s, const Extents *x)
{
    Time t = {0};
    const double inner = 2.0 * (double)x->tokens * (double)x->ffn;
    const bool one = s->row->tensor > 1; /* the sums over ranks come first, of one tensor each */
    enter(s, &t, x->wide, 0, (Near){x->tokens, x->ffn, x->hidden, 1});
    gradients(s, &t, x->tokens, x->hidden, x->ffn);
    kernels(s, &t, 5 * inner, 3, 8 * inner);
    gradients(s, &t, x->tokens, x->ffn, x->hidden);
    gradients(s, &t, x->tokens, x->ffn, x->hidden);
    add_terms(s, &t, x, 2);
    leave(s, &t, x->wide, 0, (Near){x->tokens, x->hidden, x->ffn, 2});
    add_norm_backward(s, &t, x, one ? 1 : 2);
    enter(s, &t, x->wide, 0, (Near){x->tokens, x->width, x->hidden, 1});
    gradients(s, &t, x->tokens, x->hidden, x->width);
    attention(s, &t, true);
    repeat_keys(s, &t, x);
    rotate(s, &t, x);
    gradients(s, &t, x->tokens, x->kv, x->hidden);
    gradients(s, &t, x->tokens, x->kv, x->hidden);
    gradients(s, &t, x->tokens, x->width, x->hidden);
    add_terms(s, &t, x, 3);
    leave(s, &t, x->wide, 0, (Near){x->tokens, x->hidden, x->width, 1});
    add_norm_backward(s, &t, x, one ? 1 : 3);
    return t;
}

/* ---- a layer ---- */

static Time recompute_of(const Setting *s, Time forward)
{
    Time again = {0};
    switch (s->row->recompute) {
    case NONE: return again;
    case CORE: attention(s, &again, false); return again;
    case EVERY_OTHER: return time_scale(forward, 0.5);
    case WHOLE: return forward;
    case PRODUCTS: /* recomputes every second product and everything that is no product; the results
                    * of attention and of sums over ranks are kept */
        again.at[DT_COST_KIND_PRODUCT] = forward.at[DT_COST_KIND_PRODUCT] / 2;
        again.at[DT_COST_KIND_KERNEL] = forward.at[DT_COST_KIND_KERNEL];
        again.at[DT_COST_KIND_LINK] = forward.at[DT_COST_KIND_LINK] / 2;
        return again;
    }
    return again;
}

Layer layer_of(const Setting *s)
{
    const Extents x = extents_of(s->row);
    Layer layer;
    layer.forward = s->row->is_llama ? llama_forward(s, &x) : gpt_forward(s, &x);
    layer.backward = s->row->is_llama ? llama_backward(s, &x) : gpt_backward(s, &x);
    layer.recompute = recompute_of(s, layer.forward);
    return layer;
}

Layer embedding_of(const Setting *s)
{
    const Extents x = extents_of(s->row);
    Layer layer = {0};
    kernel(s, &layer.forward, 2 * x.wide + (s->row->is_llama ? 0 : 2.5 * x.outer));
    leave(s, &layer.forward, x.wide, 0, nothing);
    kernel(s, &layer.backward, 3 * x.wide);
    enter(s, &layer.backward, x.wide, 0, nothing);
    return layer;
}

/* The last norm, the product with the vocabulary, and the loss, in f32. */
Layer head_of(const Setting *s)
{
    const Extents x = extents_of(s->row);
    const int64_t vocab = (s->row->vocab + s->row->tensor - 1) / s->row->tensor;
    const double logits = (double)x.tokens * (double)vocab;
    Layer layer = {0};
    if (s->without == HEAD)
        return layer;
    norm(s, &layer.forward, 2 * x.outer);
    enter(s, &layer.forward, x.wide, 0, nothing);
    product(s, &layer.forward, x.tokens, vocab, x.hidden);
    gradients(s, &layer.backward, x.tokens, vocab, x.hidden);
    leave(s, &layer.backward, x.wide, 0, nothing);
    norm(s, &layer.backward, 3 * x.outer);
    /* to f32, log-softmax, and back: torch.compile makes two passes over memory of this */
    if (s->row->is_llama) {
        kernels(s, &layer.forward, 4 * logits, 3, 18 * logits);
        kernels(s, &layer.backward, 4 * logits, 2, 14 * logits);
    } else { /* Megatron's loss when the vocabulary is split over ranks: to f32, maximum,
              * difference, exponentials, sum, quotient */
        kernel(s, &layer.forward, 38 * logits);
        kernel(s, &layer.backward, 22 * logits);
    }
    return layer;
}

double layer_parameters(const Row *row)
{
    const double h = (double)row->hidden, f = (double)row->ffn,
                 kv = h / (double)row->heads * (double)row->kv_heads;
    return row->is_llama ? 2 * h * h + 2 * h * kv + 3 * h * f : 4 * h * h + 2 * h * f;
}

double outer_parameters(const Row *row)
{
    return (double)row->vocab * (double)row->hidden * (row->is_llama ? 2 : 1);
}
