/* SPDX-License-Identifier: Apache-2.0 */
/* Entries "grad" and "update": from entry "loss" of a small model of text, through all passes; the
 * same values before and after inlining and merging; and a loss that falls. */
#include "rule.h"
#include "gradcheck.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const char TEXT[] = "the cat sat on the mat; the dog sat on the log; the cat saw the dog "
                           "and the dog saw the cat; end of it";
enum { VOCAB = 128, EMBED = 8, SEQ = 32, BATCH = 3, LAYERS = 2 };

typedef struct Model {
    Check *c;
    DtTrainConfig train;
    DtTensor *stores[64]; /* by DtStore.index */
    DtTensor *tokens, *labels;
    double lr, bias1, bias2;
} Model;

static DtValue *matmul(DtBuilder *b, DtValue *x, DtValue *w, const char *axis)
{
    const char *name = dt_intern(axis);
    return dt_graph_dot(b, x, w, 1, &name, DT_F32, NULL);
}

static DtValue *renamed(DtBuilder *b, DtValue *x, const char *from, const char *to)
{
    DtRelabel entry = {.n_from = 1, .n_to = 1, .from = {dt_intern(from)}, .to = {dt_intern(to)}};
    entry.to_extent[0] = dt_type_extent(x->type, entry.from[0]);
    return dt_graph_relabel(b, x, 1, &entry, NULL);
}

static DtStore *store(DtModule *module, DtStoreKind kind, const char *path, const char *axes,
                      bool decays, DtInit init)
{
    DtStore *s = DT_NEW(module->arena, DtStore);
    *s = (DtStore){.kind = kind,
                   .path = dt_intern(path),
                   .pattern = dt_intern(path),
                   .type = type_of(DT_F32, axes),
                   .init = init,
                   .index = module->stores.n};
    s->written_rank = decays ? 2 : 1;
    DT_PUSH(module->arena, module->stores, s);
    return s;
}

static DtValue *read_store(DtBuilder *b, DtStore *s)
{
    return dt_graph_source(b, DT_OP_PARAM, s->type, s->path, s);
}

/* Makes the layer mix(x, w, v): tanh(x @e w) @f v, with a call of the library function `softmax` in
 * between; it writes no state. */
static DtFunc *mix_layer(Check *c)
{
    DtFunc *softmax = check_func(c, "softmax", DT_FUNC_FN);
    softmax->library = dt_intern("softmax");
    const char *f = dt_intern("f");
    DtValue *z = dt_graph_arg(softmax, type_of(DT_F32, "b=3 s=32 f=8"), "z");
    DtValue *top =
        dt_graph_unary(&c->b, DT_OP_STOP, dt_graph_reduce(&c->b, DT_REDUCE_MAX, z, 1, &f));
    DtValue *e = dt_graph_unary(&c->b, DT_OP_EXP, dt_graph_binary(&c->b, DT_OP_SUB, z, top));
    dt_graph_return(softmax, dt_graph_binary(&c->b, DT_OP_DIV, e,
                                             dt_graph_reduce(&c->b, DT_REDUCE_SUM, e, 1, &f)));
    DtFunc *layer = check_func(c, "mix", DT_FUNC_LAYER);
    DtValue *x = dt_graph_arg(layer, type_of(DT_F32, "b=3 s=32 e=8"), "x");
    DtValue *w = dt_graph_param(layer, type_of(DT_F32, "e=8 f=8"),
                                (DtFormalParam){.path = dt_intern("w"), .pattern = dt_intern("w")});
    DtValue *v = dt_graph_param(layer, type_of(DT_F32, "f=8 e=8"),
                                (DtFormalParam){.path = dt_intern("v"), .pattern = dt_intern("v")});
    DtValue *h = matmul(&c->b, x, w, "e");
    DtValue *gate = dt_graph_call(&c->b, softmax, "gate", &h)->out[0];
    DtValue *draw = dt_graph_rng(&c->b, h->type, "dropout#0");
    DtValue *keep = dt_graph_binary(&c->b, DT_OP_LT, dt_graph_constant(&c->b, DT_F32, 0.1), draw);
    h = dt_graph_where(&c->b, keep, dt_graph_unary(&c->b, DT_OP_TANH, h),
                       dt_graph_constant(&c->b, DT_F32, 0));
    dt_graph_return(layer, matmul(&c->b, dt_graph_binary(&c->b, DT_OP_MUL, h, gate), v, "f"));
    return layer;
}

static DtFunc *body_of(Check *c, DtFunc *layer)
{
    DtFunc *body = check_func(c, "h.body", DT_FUNC_BODY);
    dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
    DtValue *x = dt_graph_arg(body, type_of(DT_F32, "b=3 s=32 e=8"), "x");
    DtValue *w = dt_graph_arg(body, type_of(DT_F32, "e=8 f=8"), "w"),
            *v = dt_graph_arg(body, type_of(DT_F32, "f=8 e=8"), "v");
    DtValue *y = dt_graph_call(&c->b, layer, "mix", (DtValue *[]){x, w, v})->out[0];
    dt_graph_return(body, dt_graph_binary(&c->b, DT_OP_ADD, x, y));
    return body;
}

/* Adds the cross-entropy: the mean over batch and sequence of lse(z) - z[label]. */
static DtValue *cross_entropy(DtBuilder *b, DtValue *z, DtValue *labels)
{
    const char *v = dt_intern("v"), *rest[] = {dt_intern("b"), dt_intern("s")};
    DtValue *top = dt_graph_unary(b, DT_OP_STOP, dt_graph_reduce(b, DT_REDUCE_MAX, z, 1, &v));
    DtValue *e = dt_graph_unary(b, DT_OP_EXP, dt_graph_binary(b, DT_OP_SUB, z, top));
    DtValue *lse =
        dt_graph_binary(b, DT_OP_ADD, top,
                        dt_graph_unary(b, DT_OP_LOG, dt_graph_reduce(b, DT_REDUCE_SUM, e, 1, &v)));
    DtValue *loss = dt_graph_binary(b, DT_OP_SUB, lse, dt_graph_gather(b, z, 1, &v, &labels));
    DtValue *sum = dt_graph_reduce(b, DT_REDUCE_SUM, loss, 2, rest);
    return dt_graph_binary(b, DT_OP_DIV, sum, dt_graph_constant(b, DT_F32, BATCH * SEQ));
}

/* Builds entry "loss": an embedding (tied), combined with that of the neighbouring position, a loop
 * of `mix`; state `seen` counts; store `idle` is used in no computation. */
static void build_entry(Model *m)
{
    Check *c = m->c;
    DtModule *module = c->module;
    const DtInit normal = {.kind = DT_INIT_NORMAL, .a = 0.3};
    DtStore *wte = store(module, DT_STORE_PARAM, "wte", "v=128 e=8", true, normal);
    DtStore *w = store(module, DT_STORE_PARAM, "h.mix.w", "h=2 e=8 f=8", true, normal);
    DtStore *v = store(module, DT_STORE_PARAM, "h.mix.v", "h=2 f=8 e=8", true, normal);
    DtStore *gain = store(module, DT_STORE_PARAM, "gain", "e=8", false,
                          (DtInit){.kind = DT_INIT_CONST, .a = 1});
    store(module, DT_STORE_PARAM, "idle", "e=8", false, normal);
    DtStore *seen = store(module, DT_STORE_STATE, "seen", "", false, (DtInit){0});
    w->n_loops = v->n_loops = 1;
    w->pattern = dt_intern("h.#.mix.w");
    v->pattern = dt_intern("h.#.mix.v");
    DtFunc *body = body_of(c, mix_layer(c)), *entry = check_func(c, "loss", DT_FUNC_ENTRY);
    DtValue *tokens =
        dt_graph_source(&c->b, DT_OP_INPUT, type_of(DT_I32, "b=3 s=32"), "tokens", NULL);
    DtValue *labels =
        dt_graph_source(&c->b, DT_OP_INPUT, type_of(DT_I32, "b=3 s=32"), "labels", NULL);
    DtValue *table = read_store(&c->b, wte);
    const char *vocab = dt_intern("v");
    DtValue *x = dt_graph_gather(&c->b, table, 1, &vocab, &tokens);
    DtLoop loop = {.label = dt_intern("h"),
                   .axis = dt_intern("h"),
                   .count = LAYERS,
                   .n_carried = 1,
                   .n_stacked = 2};
    x = dt_graph_loop(&c->b, body, loop,
                      (DtValue *[]){x, read_store(&c->b, w), read_store(&c->b, v)})
            ->out[0];
    x = dt_graph_binary(&c->b, DT_OP_MUL, x, read_store(&c->b, gain));
    DtValue *z =
        matmul(&c->b, x, read_store(&c->b, wte), "e"); /* a second `param` op of the same store */
    dt_graph_return(entry, cross_entropy(&c->b, z, labels));
    DtValue *one = dt_graph_constant(&c->b, DT_F32, 1);
    dt_graph_return(entry, dt_graph_binary(&c->b, DT_OP_ADD, read_store(&c->b, seen), one));
    DtEntryPoint point = dt_entry_new(DT_ENTRY_LOSS, NULL, DT_PART_WHOLE, -1);
    point.func = entry;
    DT_PUSH(module->arena, point.results, ((DtEntryResult){.name = dt_intern("loss")}));
    DT_PUSH(module->arena, point.results, ((DtEntryResult){.store = seen}));
    DT_PUSH(module->arena, module->entries, point);
}

static DtTensor *source(void *context, const DtOp *op)
{
    Model *m = context;
    if (op->kind == DT_OP_PARAM)
        return m->stores[op->store->index];
    if (strcmp(op->text, "tokens") == 0)
        return m->tokens;
    if (strcmp(op->text, "labels") == 0)
        return m->labels;
    DtTensor *scalar = dt_interp_tensor(m->c->arena, op->out[0]->type);
    *scalar->at = strcmp(op->text, "@lr") == 0      ? m->lr
                  : strcmp(op->text, "@bias1") == 0 ? m->bias1
                                                    : m->bias2;
    cr_assert(op->text[0] == '@', "input `%s`", op->text);
    return scalar;
}

static Model *model_new(void)
{
    Check *c = check_new();
    Model *m = DT_NEW(c->arena, Model);
    m->c = c;
    c->interp.source = source;
    c->interp.context = m;
    build_entry(m);
    expect_valid(c->module);
    m->tokens = dt_interp_tensor(c->arena, type_of(DT_I32, "b=3 s=32"));
    m->labels = dt_interp_tensor(c->arena, type_of(DT_I32, "b=3 s=32"));
    for (int i = 0; i < BATCH * SEQ; i++) {
        m->tokens->at[i] = TEXT[i];
        m->labels->at[i] = TEXT[i + 1];
    }
    return m;
}

/* Makes tensors, with initial values, for stores that have none yet. */
static void init_stores(Model *m)
{
    const DtModule *module = m->c->module;
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (m->stores[i] == NULL) {
            m->stores[i] = dt_interp_tensor(m->c->arena, module->stores.at[i]->type);
            dt_interp_init(module->stores.at[i], 1, m->stores[i]);
        }
}

static const DtEntryPoint *entry(const Model *m, const char *name)
{
    return dt_entry_named(m->c->module, name);
}

static void run_pass(Model *m, const char *name, const DtPassContext *context)
{
    dt_passes_find(name)->run(m->c->module, context);
    expect_valid(m->c->module);
}

/* Runs an entry, and returns its results in their order. */
static DtTensor **run_entry(Model *m, const char *name)
{
    const DtEntryPoint *e = entry(m, name);
    cr_assert(e != NULL, "no entry `%s`", name);
    cr_assert_eq(e->results.n, e->func->results.n);
    DtTensor **results = DT_NEW_ARRAY(m->c->arena, DtTensor *, e->func->results.n + 1);
    dt_interp_run(&m->c->interp, e->func, NULL, results);
    return results;
}

static double loss_of(Model *m) { return *run_entry(m, "grad")[0]->at; }

/* ---- entry "grad" ---- */

Test(grad, results_and_difference_quotients)
{
    Model *m = model_new();
    const DtPassContext context = {0};
    init_stores(m);
    const double before = *run_entry(m, "loss")[0]->at;
    run_pass(m, "differentiate", &context);
    cr_assert(entry(m, "loss") == NULL);
    init_stores(m);
    const DtEntryPoint *grad = entry(m, "grad");
    cr_assert_eq(grad->results.n, 2 + 5, "loss, one state, five parameters");
    cr_expect_str_eq(grad->results.at[0].name, "loss");
    cr_expect(grad->results.at[0].accumulate);
    cr_expect_eq(grad->results.at[1].store->kind, DT_STORE_STATE);
    DtTensor **got = run_entry(m, "grad");
    cr_expect_eq(*got[0]->at, before);
    cr_expect_eq(*got[1]->at, 1.0, "the state's new value");
    for (uint32_t i = 2; i < grad->results.n; i++) {
        const DtStore *s = grad->results.at[i].store;
        cr_assert(s->kind == DT_STORE_GRAD && s->of->kind == DT_STORE_PARAM &&
                  grad->results.at[i].accumulate);
        cr_assert_str_eq(s->path, s->of->path);
        DtTensor *p = m->stores[s->of->index], *direction = dt_interp_tensor(m->c->arena, p->type);
        const DtTensor kept = *p;
        unsigned seed = 5 + i;
        fill_lattice(direction, -1, 1, &seed);
        double side[2];
        for (int k = 0; k < 2; k++) {
            p->at = DT_NEW_ARRAY(m->c->arena, double, dt_type_elements(p->type));
            for (int64_t e = 0; e < dt_type_elements(p->type); e++)
                p->at[e] = kept.at[e] + (k == 0 ? 1e-5 : -1e-5) * direction->at[e];
            side[k] = loss_of(m);
        }
        p->at = kept.at;
        const double want = (side[0] - side[1]) / 2e-5, is = dot_tensors(got[i], direction);
        cr_expect(fabs(want - is) <= 1e-6 * fmax(fabs(want), 1e-2),
                  "%s: %.12g, difference quotient %.12g", s->path, is, want);
        if (strcmp(s->path, "idle") == 0)
            cr_expect_eq(is, 0.0);
        else
            cr_expect(fabs(is) > 1e-4, "%s has gradient %g", s->path, is);
    }
    check_free(m->c);
}

/* ---- inlining and merging ---- */

static void expect_same(DtTensor **a, DtTensor **b, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++)
        cr_expect(max_difference(a[i], b[i]) == 0, "%s changes result %u", what, i);
}

static uint32_t count_ops(const DtModule *module, DtOpKind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++)
            n += module->funcs.at[i]->ops.at[k]->kind == kind || kind == DT_OP_COUNT;
    return n;
}

Test(passes, inline_and_cse_keep_the_values)
{
    /* any: a call of a streaming function stays, too */
    const DtStream stream = {.axis = dt_intern("t")};
    for (int inlines = 0; inlines < 2; inlines++) {
        Model *m = model_new();
        const DtPassContext context = {.inline_streams = inlines};
        DtFunc *softmax = dt_graph_find(m->c->module, "softmax");
        cr_assert(softmax);
        softmax->stream = &stream;
        run_pass(m, "differentiate", &context);
        init_stores(m);
        const uint32_t n = entry(m, "grad")->results.n;
        DtTensor **before = run_entry(m, "grad");
        run_pass(m, "inline", &context);
        expect_same(before, run_entry(m, "grad"), n, "inline");
        const DtModule *module = m->c->module;
        for (uint32_t i = 0; i < module->funcs.n; i++)
            for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++) {
                const DtOp *op = module->funcs.at[i]->ops.at[k];
                cr_expect(op->kind != DT_OP_CALL || (!inlines && op->func->stream));
            }
        cr_expect_eq(count_ops(module, DT_OP_CALL), !inlines);
        const uint32_t n_ops = count_ops(module, DT_OP_COUNT);
        run_pass(m, "cse", &context);
        expect_same(before, run_entry(m, "grad"), n, "cse");
        cr_expect(count_ops(module, DT_OP_COUNT) < n_ops, "nothing was merged");
        const uint32_t again = count_ops(module, DT_OP_COUNT);
        run_pass(m, "cse", &context);
        cr_expect_eq(count_ops(module, DT_OP_COUNT), again, "a second run finds more");
        check_free(m->c);
    }
}

/* Draws are never merged, whatever their names. Ops with different attributes are not merged. */
Test(passes, cse_merges_only_equals)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=4"), *y = input(c, "a=4");
    const DtType *type = x->type;
    const char *a = dt_intern("a");
    DtValue *kept[] = {
        dt_graph_rng(&c->b, type, "r#0"),
        dt_graph_rng(&c->b, type, "r#0"),
        dt_graph_binary(&c->b, DT_OP_SUB, x, y),
        dt_graph_binary(&c->b, DT_OP_SUB, y, x),
        dt_graph_slice(&c->b, x, a, 0, 1, 2),
        dt_graph_slice(&c->b, x, a, 1, 1, 2),
        dt_graph_slice(&c->b, x, a, 0, 2, 2),
        dt_graph_scan(&c->b, x, 1, &a, false),
        dt_graph_scan(&c->b, x, 1, &a, true),
        dt_graph_reduce(&c->b, DT_REDUCE_MAX, x, 1, &a),
        dt_graph_reduce(&c->b, DT_REDUCE_MIN, x, 1, &a),
        dt_graph_pad(&c->b, x, a, 1, 1, 1, 0.0),
        dt_graph_pad(&c->b, x, a, 1, 1, 1, -0.0),
        renamed(&c->b, x, "a", "b"),
        renamed(&c->b, x, "a", "d"),
        dt_graph_constant(&c->b, DT_F32, 1),
        dt_graph_constant(&c->b, DT_I32, 1),
        dt_graph_expand(&c->b, x, type_of(DT_F32, "a=4 n=2")),
        dt_graph_expand(&c->b, x, type_of(DT_F32, "n=2 a=4")),
    };
    DtValue *twice[] = {dt_graph_binary(&c->b, DT_OP_SUB, x, y),
                        dt_graph_slice(&c->b, x, a, 0, 1, 2), renamed(&c->b, x, "a", "b"),
                        dt_graph_constant(&c->b, DT_F32, 1)};
    for (size_t i = 0; i < DT_COUNT(kept); i++)
        dt_graph_return(c->func, kept[i]);
    for (size_t i = 0; i < DT_COUNT(twice); i++)
        dt_graph_return(c->func,
                        dt_graph_unary(&c->b, DT_OP_NEG, dt_graph_cast(&c->b, twice[i], DT_F32)));
    const uint32_t removed = dt_cse_func(c->func);
    cr_expect_eq(removed, DT_COUNT(twice), "%u merged", removed);
    for (size_t i = 0; i < DT_COUNT(kept); i++)
        for (size_t k = 0; k < i; k++)
            cr_expect(c->func->results.at[i] != c->func->results.at[k], "%zu and %zu became one", i,
                      k);
    expect_valid(c->module);
    check_free(c);
}

/* ---- entry "update" ---- */

static void take_results(Model *m, const DtEntryPoint *e, DtTensor **results, double *ret_norm)
{
    for (uint32_t i = 0; i < e->results.n; i++) {
        const DtEntryResult *r = &e->results.at[i];
        if (r->store != NULL)
            m->stores[r->store->index] = results[i];
        else if (strcmp(r->name, "grad_norm") == 0)
            *ret_norm = *results[i]->at;
    }
}

/* Compares one step with formulas written here. */
static void check_step(TestRule update, double clip)
{
    Model *m = model_new();
    update.clip = clip;
    m->train.optimizer = test_optimizer(m->c->module, update);
    const DtPassContext context = {.train = &m->train};
    run_pass(m, "differentiate", &context);
    run_pass(m, "optimizer", &context);
    init_stores(m);
    const DtModule *module = m->c->module;
    unsigned seed = 3;
    double square = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *s = module->stores.at[i];
        if (s->kind != DT_STORE_PARAM && s->kind != DT_STORE_STATE)
            fill_lattice(m->stores[i], s->kind == DT_STORE_MOMENT2 ? 0.1 : -1, 1, &seed);
        if (s->kind == DT_STORE_GRAD)
            square += dot_tensors(m->stores[i], m->stores[i]);
    }
    m->lr = 0.01;
    m->bias1 = 1 / (1 - pow(update.beta1, 3));
    m->bias2 = 1 / (1 - pow(update.beta2, 3));
    const double norm = sqrt(square), scale = clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1;
    DtTensor *old[64];
    memcpy(old, m->stores, sizeof old);
    double got_norm = -1;
    take_results(m, entry(m, "update"), run_entry(m, "update"), &got_norm);
    cr_expect(fabs(got_norm - norm) < 1e-12 * norm);
    uint32_t n_params = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *s = module->stores.at[i];
        if (s->kind != DT_STORE_GRAD)
            continue;
        n_params++;
        const double decay = s->of->written_rank > 1 ? update.decay : 0;
        const DtTensor *p = old[s->of->index], *g = old[i], *m1 = NULL, *m2 = NULL;
        for (uint32_t k = 0; k < module->stores.n; k++) {
            const DtStore *o = module->stores.at[k];
            if (o->kind == DT_STORE_MOMENT1 && o->of == s->of)
                m1 = old[k];
            if (o->kind == DT_STORE_MOMENT2 && o->of == s->of)
                m2 = old[k];
        }
        cr_assert_eq(m1 != NULL, update.is_adamw || update.momentum != 0);
        cr_assert_eq(m2 != NULL, update.is_adamw);
        for (int64_t e = 0; e < dt_type_elements(p->type); e++) {
            const double ge = scale * g->at[e];
            double want;
            if (update.is_adamw) {
                const double a = update.beta1 * m1->at[e] + (1 - update.beta1) * ge;
                const double b = update.beta2 * m2->at[e] + (1 - update.beta2) * ge * ge;
                want = p->at[e] - m->lr * (a * m->bias1 / (sqrt(b * m->bias2) + update.eps) +
                                           decay * p->at[e]);
            } else {
                const double u = ge + decay * p->at[e];
                want = p->at[e] - m->lr * (m1 != NULL ? update.momentum * m1->at[e] + u : u);
            }
            cr_assert(fabs(m->stores[s->of->index]->at[e] - want) < 1e-12, "%s[%d]", s->path,
                      (int)e);
        }
    }
    cr_expect_eq(n_params, 5);
    check_free(m->c);
}

Test(update, adamw)
{
    const TestRule update = {
        .is_adamw = true, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1};
    check_step(update, 0);
    check_step(update, 1.5);
    check_step(update, 1e6);
}

Test(update, sgd)
{
    check_step((TestRule){.decay = 0.1}, 0);
    check_step((TestRule){.decay = 0.1, .momentum = 0.9}, 1.0);
}

/* ---- training ---- */

static double train(TestRule update, double lr, int steps)
{
    Model *m = model_new();
    update.clip = 1.0;
    m->train.optimizer = test_optimizer(m->c->module, update);
    m->lr = lr;
    const DtPassContext context = {.train = &m->train};
    dt_passes_run(m->c->module, &context, NULL, NULL);
    expect_valid(m->c->module);
    init_stores(m);
    double first = 0, last = 0;
    for (int step = 0; step < steps; step++) {
        double norm = 0;
        m->c->interp.step = (uint32_t)step;
        m->bias1 = 1 / (1 - pow(update.beta1, step + 1));
        m->bias2 = 1 / (1 - pow(update.beta2, step + 1));
        DtTensor **results = run_entry(m, "grad");
        last = *results[0]->at;
        first = step == 0 ? last : first;
        take_results(m, entry(m, "grad"), results, &norm);
        take_results(m, entry(m, "update"), run_entry(m, "update"), &norm);
        cr_assert(norm > 0);
    }
    for (uint32_t i = 0; i < m->c->module->stores.n; i++)
        if (m->c->module->stores.at[i]->kind == DT_STORE_STATE)
            cr_expect_eq(*m->stores[i]->at, (double)steps, "the state counts steps");
    cr_expect(fabs(first - log(VOCAB)) < 0.5, "the first loss is %g", first);
    check_free(m->c);
    return last;
}

Test(training, sgd_makes_the_loss_fall_on_100_bytes)
{
    const double loss = train((TestRule){.momentum = 0.9}, 0.3, 60);
    cr_expect(loss < 2.9, "loss %g after 60 steps", loss);
}

Test(training, adamw_makes_the_loss_fall_on_100_bytes)
{
    const double loss = train(
        (TestRule){.is_adamw = true, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1},
        0.03, 60);
    cr_expect(loss < 2.2, "loss %g after 60 steps", loss);
}
