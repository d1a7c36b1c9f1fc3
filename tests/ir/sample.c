/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include "base/intern.h"

#include <math.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__})

enum { MICRO, DATA, TENSOR };

DtAxis sample_axis(const char *name, int64_t extent)
{
    return (DtAxis){.name = dt_intern(name), .extent = extent};
}

DtAxis sample_split(const char *name, int64_t extent, uint8_t mesh)
{
    DtAxis axis = sample_axis(name, extent);
    axis.n_split = 1;
    axis.split[0] = mesh;
    return axis;
}

const DtType *sample_type(DtDtype dtype, uint32_t rank, const DtAxis *axes)
{
    return dt_type_plain(dtype, rank, axes);
}

DtStore *sample_store(DtModule *module, DtStoreKind kind, const char *path, const char *pattern,
                      const DtType *type, DtStore *of)
{
    DtStore *store = DT_NEW(module->arena, DtStore);
    *store = (DtStore){.kind = kind,
                       .path = dt_intern(path),
                       .pattern = dt_intern(pattern),
                       .type = type,
                       .of = of};
    store->index = module->stores.n;
    DT_PUSH(module->arena, module->stores, store);
    return store;
}

static const DtType *ab(void)
{
    return sample_type(DT_F32, 2, (DtAxis[]){sample_axis("a", 3), sample_axis("b", 4)});
}
static const DtType *a_only(DtDtype dtype)
{
    return sample_type(dtype, 1, (DtAxis[]){sample_axis("a", 3)});
}

/* A layer with a parameter and a state, all maps, axis operations, contractions and indexing. */
static void add_maps(DtBuilder *b, DtValue *x, DtValue *w)
{
    for (int kind = DT_OP_NEG; kind <= DT_OP_ERF; kind++)
        dt_graph_unary(b, (DtOpKind)kind, x);
    dt_graph_unary(b, DT_OP_STOP, x);
    dt_graph_unary(b, DT_OP_BIND, x)->op->text = dt_intern("wq:linear");
    dt_graph_cast(b, x, DT_BF16);
    for (int kind = DT_OP_ADD; kind <= DT_OP_MIN; kind++)
        dt_graph_binary(b, (DtOpKind)kind, x, w);
    DtValue *c = dt_graph_binary(b, DT_OP_LT, x, w), *d = dt_graph_binary(b, DT_OP_LE, x, w);
    DtValue *e = dt_graph_binary(b, DT_OP_EQ, x, w), *f = dt_graph_binary(b, DT_OP_NE, x, w);
    dt_graph_binary(b, DT_OP_AND, c, d);
    dt_graph_binary(b, DT_OP_OR, dt_graph_unary(b, DT_OP_NOT, e), f);
    dt_graph_where(b, c, x, w);
}

static void add_axis_ops(DtBuilder *b, DtValue *x)
{
    DtRelabel entries[] = {{1, 2, {"b"}, {"g", "p"}, {2, 2}}, {0, 1, {0}, {"one"}, {1}}};
    DtValue *split = dt_graph_relabel(b, x, 2, entries, NULL);
    DtRelabel back[] = {{2, 1, {"g", "p"}, {"b"}, {0}}, {1, 0, {"one"}, {0}, {0}}};
    dt_graph_relabel(b, split, 2, back, NULL);
    dt_graph_slice(b, x, "b", 1, 2, 2);
    dt_graph_pad(b, x, "b", 1, 2, 3, -INFINITY);
    dt_graph_concat(b, "b", 2, (DtValue *[]){x, x});
    DtAxis axes[] = {sample_axis("a", 3), sample_axis("new", 2), sample_axis("b", 4)};
    dt_graph_expand(b, x, sample_type(DT_F32, 3, axes));
    DtRange range = {1, 1, 2, 3};
    DtValue *windows = dt_graph_window(b, x, "b", "w", range, 0.5);
    dt_graph_fold(b, windows, "b", "w", range, 4);
}

static void add_contractions(DtBuilder *b, DtValue *x, DtValue *y)
{
    DtValue *values, *indices;
    dt_graph_dot(b, x, y, 1, NAMES("b"), DT_F32, NULL);
    dt_graph_reduce(b, DT_REDUCE_MAX, x, 1, NAMES("b"));
    dt_graph_scan(b, x, 2, NAMES("a", "b"), true);
    dt_graph_topk(b, x, "b", sample_axis("c", 2), &values, &indices);
    DtValue *i = dt_graph_iota(b, sample_axis("t", 2));
    dt_graph_gather(b, x, 2, NAMES("a", "b"), (DtValue *[]){i, i});
    dt_graph_gather(b, x, 1, NAMES("b"), (DtValue *[]){indices});
    DtAxis target = sample_axis("e", 6);
    dt_graph_scatter_add(b, values, 1, &target, (DtValue *[]){indices}, 1, NAMES("c"), NULL);
}

static DtFunc *make_layer(DtModule *module)
{
    DtFunc *func =
        dt_graph_func(module, "layer one", DT_FUNC_LAYER); /* a name that must be quoted */
    func->span = (DtSpan){1, 5, 90};
    DtValue *x = dt_graph_arg(func, ab(), "x");
    DtFormalParam w = {.path = dt_intern("up.w"),
                       .pattern = dt_intern("up.w"),
                       .init = {DT_INIT_NORMAL, 0.02, 0},
                       .written_rank = 1,
                       .span = {1, 6, 9}};
    DtValue *p = dt_graph_param(func, a_only(DT_F32), w);
    DtFormalParam s = {.path = dt_intern("mu"),
                       .pattern = dt_intern("mu"),
                       .init = {DT_INIT_UNIFORM, -0.1, 1e-30},
                       .is_state = true};
    DtValue *state = dt_graph_param(func, a_only(DT_F32), s);
    DtBuilder b = {.func = func, .span = {1, 7, 8}, .path = dt_intern("attention.wq")};
    add_maps(&b, x, p);
    b.path = NULL;
    add_axis_ops(&b, x);
    DtAxis bd[] = {sample_axis("b", 4), sample_axis("d", 5)};
    DtValue *noise = dt_graph_rng(&b, sample_type(DT_F32, 2, bd), "dropout#0");
    noise->made_anew = 2;
    add_contractions(&b, x, noise);
    DtValue *half = dt_graph_constant(&b, DT_F32, 0.1);
    dt_graph_return(func, dt_graph_binary(&b, DT_OP_MUL, x, half));
    dt_graph_write(func, 1, dt_graph_binary(&b, DT_OP_ADD, state, p));
    return func;
}

static DtFunc *make_body(DtModule *module, DtFunc *layer)
{
    DtFunc *body = dt_graph_func(module, "block", DT_FUNC_BODY);
    dt_graph_arg(body, dt_type_scalar(DT_I32), NULL);
    DtValue *x = dt_graph_arg(body, ab(), "x"), *shift = dt_graph_arg(body, a_only(DT_F32), "x");
    DtValue *w = dt_graph_arg(body, a_only(DT_F32), "7 w\"\\\n");
    DtBuilder b = {.func = body};
    DtOp *call = dt_graph_call(&b, layer, "h", (DtValue *[]){x, w, shift});
    dt_graph_return(body, call->out[0]);
    dt_graph_return(body, call->out[1]);
    return body;
}

static void add_communication(DtBuilder *b)
{
    DtAxis split[] = {sample_split("a", 4, DATA), sample_axis("b", 6)};
    DtAxis moved[] = {sample_axis("a", 4), sample_split("b", 6, DATA)};
    DtAxis whole[] = {sample_axis("a", 4), sample_axis("b", 6)};
    const DtType *splits = sample_type(DT_F32, 2, split), *wholes = sample_type(DT_F32, 2, whole);
    DtValue *x = dt_graph_source(b, DT_OP_INPUT, splits, "x", NULL);
    DtValue *gathered = dt_graph_comm(b, DT_OP_ALL_GATHER, x, 1 << DATA, wholes);
    dt_graph_comm(b, DT_OP_ALL_TO_ALL, x, 1 << DATA, sample_type(DT_F32, 2, moved));
    DtValue *started = dt_graph_comm(b, DT_OP_SHIFT, x, 1 << DATA, splits);
    started->op->starts = true;
    dt_graph_done(b, started);
    const char *a = dt_intern("a");
    DtAxis rest[] = {sample_axis("b", 6)}, cut[] = {sample_split("b", 6, DATA)};
    DtValue *part = dt_graph_reduce(b, DT_REDUCE_SUM, x, 1, &a);
    const DtType *cuts = sample_type(DT_F32, 1, cut);
    DtValue *sum =
        dt_graph_comm(b, DT_OP_ALL_REDUCE, part, 1 << DATA, sample_type(DT_F32, 1, rest));
    dt_graph_comm(b, DT_OP_REDUCE_SCATTER, part, 1 << DATA, cuts);
    dt_graph_comm(b, DT_OP_SHARD, sum, 1 << DATA, cuts);
    DtAxis terms[] = {sample_split("w", 2, DATA), sample_axis("b", 6)};
    dt_graph_terms(b, part, dt_intern("w"), sample_type(DT_F32, 2, terms));
    DtAxis one[] = {sample_split("a", 2, DATA), sample_axis("b", 6)};
    DtValue *of_one = dt_graph_source(b, DT_OP_INPUT, sample_type(DT_F32, 2, one), "one", NULL);
    dt_graph_partner(b, of_one, dt_intern("a"), false, 1, 1 << DATA);
    DtValue *bucket = dt_graph_pack(b, 1, &a, 2, (DtValue *[]){gathered, gathered}, 16);
    dt_graph_unpack(b, 1, bucket, 6, wholes);
}

/* Adds a branch that gathers a stacked value, and passes on a ring buffer. */
static void add_ring(DtBuilder *b, DtValue *stacked)
{
    DtAxis axes[] = {sample_axis("@ringbuf", 2), sample_split("@on.tensor", 2, TENSOR),
                     sample_axis("@slot", 128)};
    const DtType *type = sample_type(DT_U8, 3, axes);
    DtFunc *fetch = dt_graph_func(b->func->module, "fetch", DT_FUNC_BRANCH);
    DtBuilder f = {.func = fetch};
    DtValue *turn = dt_graph_arg(fetch, dt_type_scalar(DT_I32), "turn"),
            *ring = dt_graph_arg(fetch, type, "ringbuf"),
            *whole = dt_graph_arg(fetch, stacked->type, NULL);
    whole->final = 1 + 9;
    dt_graph_return(fetch, dt_graph_ringbuf_put(&f, ring, dt_graph_at(&f, whole, turn, 1, -1), 64));
    turn = dt_graph_turn(b);
    ring = dt_graph_ringbuf(b, type, NULL);
    DtValue *first = dt_graph_at(b, stacked, NULL, 1, 0);
    ring = dt_graph_ringbuf_put(b, dt_graph_ringbuf(b, type, ring), first, 64);
    const DtAheadOf of = {.loop = 1 + 13, .turn = 1, .piece = 1 + 2, .kind = 1};
    ring = dt_graph_when(b, fetch, &(DtRange){.lo = 0, .n = 2}, &of,
                         (DtValue *[]){turn, ring, stacked})
               ->out[0];
    dt_graph_ringbuf_get(b, dt_graph_ringbuf_turn(b, ring), 64, first->type);
    dt_graph_copied(b, stacked);
}

static void add_result(DtModule *module, DtEntryPoint *entry, DtValue *value, DtStore *store,
                       const char *name, bool accumulate)
{
    DtEntryResult result = {
        .store = store, .name = name ? dt_intern(name) : NULL, .accumulate = accumulate};
    dt_graph_return(entry->func, value);
    DT_PUSH(module->arena, entry->results, result);
}

static DtEntryPoint new_entry(DtModule *module, DtEntryKind kind)
{
    DtEntryPoint entry = dt_entry_new(kind, NULL, DT_PART_WHOLE, -1);
    entry.func = dt_graph_func(module, entry.name, DT_FUNC_ENTRY);
    return entry;
}

static void add_grad_entry(DtModule *module, DtFunc *body, DtStore *param, DtStore *grad)
{
    DtEntryPoint entry = new_entry(module, DT_ENTRY_GRAD);
    DtBuilder b = {.func = entry.func, .span = {2, 0, 4000000000u}};
    add_communication(&b);
    DtValue *x = dt_graph_source(&b, DT_OP_INPUT, ab(), "ids", NULL);
    DtValue *w = dt_graph_source(&b, DT_OP_PARAM, param->type, NULL, param);
    DtValue *shift = dt_graph_source(&b, DT_OP_INPUT, a_only(DT_F32), "shift", NULL);
    DtLoop loop = {.label = "h",
                   .axis = "layers",
                   .count = 2,
                   .reverse = true,
                   .n_carried = 1,
                   .n_invariant = 1,
                   .n_stacked = 1,
                   .n_stacked_out = 1};
    DtOp *op = dt_graph_loop(&b, body, loop, (DtValue *[]){x, shift, w});
    add_result(module, &entry, op->out[1], grad, NULL, true);
    DtValue *loss = dt_graph_reduce(&b, DT_REDUCE_SUM, op->out[0], 2, NAMES("a", "b"));
    add_result(module, &entry, loss, NULL, "loss", true);
    add_ring(&b, w);
    DT_PUSH(module->arena, module->entries, entry);
}

static void add_update_entry(DtModule *module, DtStore **stores)
{
    DtEntryPoint entry = new_entry(module, DT_ENTRY_UPDATE);
    DtBuilder b = {.func = entry.func};
    DtValue *in[4], *lr = dt_graph_source(&b, DT_OP_INPUT, dt_type_scalar(DT_F32), "@lr", NULL);
    for (int i = 0; i < 4; i++)
        in[i] = dt_graph_source(&b, DT_OP_PARAM, stores[i]->type, NULL, stores[i]);
    DtValue *moment = dt_graph_binary(&b, DT_OP_ADD, in[2], in[1]);
    DtValue *square =
        dt_graph_binary(&b, DT_OP_ADD, in[3], dt_graph_binary(&b, DT_OP_MUL, in[1], in[1]));
    DtValue *param =
        dt_graph_binary(&b, DT_OP_SUB, in[0], dt_graph_binary(&b, DT_OP_MUL, moment, lr));
    add_result(module, &entry, param, stores[0], NULL, false);
    add_result(module, &entry, moment, stores[2], NULL, false);
    add_result(module, &entry, square, stores[3], NULL, false);
    DT_PUSH(module->arena, module->entries, entry);
}

static DtFunc *make_kernel(DtModule *module)
{
    DtFunc *kernel = dt_graph_func(module, "kernel", DT_FUNC_FN),
           *user = dt_graph_func(module, "kernel", DT_FUNC_MODEL),
           *fused = dt_graph_func(module, "fused", DT_FUNC_KERNEL);
    DtBuilder b = {.func = kernel}, u = {.func = user}, f = {.func = fused};
    kernel->library = dt_intern("gelu");
    DtValue *x = dt_graph_arg(kernel, ab(), "x"), *y = dt_graph_arg(user, ab(), NULL),
            *z = dt_graph_arg(fused, ab(), NULL);
    dt_graph_return(kernel, dt_graph_unary(&b, DT_OP_TANH, x));
    dt_graph_return(user, dt_graph_call(&u, kernel, NULL, &y)->out[0]);
    dt_graph_return(fused, dt_graph_unary(&f, DT_OP_EXP, z));
    fused->ops.at[0]->out[0]->final = 1 + 7;
    fused->ops.at[0]->out[0]->over = fused->inputs.at[0];
    u.func = dt_graph_func(module, "user", DT_FUNC_FN);
    y = dt_graph_arg(u.func, ab(), NULL);
    dt_graph_return(u.func, dt_graph_fused(&u, fused, &y)->out[0]);
    u.func->fused = kernel;
    static const DtLies turned = {.order = {1, 0}}, rows = {.order = {0, 1}, .first = 1, .row = 6};
    kernel->ops.at[0]->out[0]->lies = &turned;
    u.func->ops.at[0]->out[0]->lies = &rows;
    return kernel;
}

DtModule *sample_module(DtArena *arena)
{
    DtModule *module = dt_graph_module(arena, NULL);
    module->mesh = (DtMesh){3,
                            {{dt_intern("micro"), 2, true},
                             {dt_intern("data.x"), 2, false},
                             {dt_intern("tensor"), 2, false}}};
    const DtType *stacked =
        sample_type(DT_F32, 2, (DtAxis[]){sample_axis("layers", 2), sample_axis("a", 3)});
    DtStore *stores[4];
    static const DtStoreKind kinds[] = {DT_STORE_PARAM, DT_STORE_GRAD, DT_STORE_MOMENT1,
                                        DT_STORE_MOMENT2};
    for (int i = 0; i < 4; i++) {
        stores[i] =
            sample_store(module, kinds[i], "h.up.w", "h.#.up.w", stacked, i ? stores[0] : NULL);
        stores[i]->n_loops = 1;
    }
    stores[0]->written_rank = 1;
    stores[0]->init = (DtInit){DT_INIT_CONST, 1, 0};
    stores[0]->span = (DtSpan){1, 2, 3};
    DtAxis split = {
        .name = dt_intern("a"), .extent = 8, .n_split = 2, .split = {DATA, TENSOR}, .zigzag = 1};
    sample_store(module, DT_STORE_STATE, "mu", "mu", sample_type(DT_BF16, 1, &split), NULL);
    DtFunc *layer = make_layer(module), *body = make_body(module, layer);
    DtFunc *kernel = make_kernel(module);
    layer->fwd = layer->bwd = kernel;
    layer->bwd_x = layer->bwd_w = body;
    add_grad_entry(module, body, stores[0], stores[1]);
    add_update_entry(module, stores);
    return module;
}
