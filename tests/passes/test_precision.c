/* SPDX-License-Identifier: Apache-2.0 */
/* Precision, in the interpreter with the rounding that the language prescribes: master copies,
 * fixed and dynamic loss scales, skipped steps. */
#include "program_run.h"

#include "base/intern.h"
#include "ir/round.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static DtStore *store_of(const Run *run, DtStoreKind kind, const char *path)
{
    for (uint32_t i = 0; i < run->module->stores.n; i++) {
        DtStore *store = run->module->stores.at[i];
        if (store->kind == kind && strcmp(store->path, path) == 0)
            return store;
    }
    return NULL;
}

static void copy_tensor(DtTensor *to, const DtTensor *from)
{
    memcpy(to->at, from->at, (size_t)dt_type_elements(to->type) * sizeof *to->at);
}

/* Sets parameters to values, some of which 16 bits can represent; masters to those of their
 * parameters, moments to zero. */
static void begin(Run *run, const char *precision, double loss_scale)
{
    static const Program program = {"tests/passes/programs/precision.dsl", "", 7};
    run_begin_in(run, &program, precision);
    const DtPassContext context = {.train = run->program->train};
    dt_pass_differentiate(run->module, &context);
    dt_pass_optimizer(run->module, &context);
    dt_pass_inline(run->module, &context);
    dt_pass_cse(run->module, &context);
    expect_valid(run->module);
    init_stores(run);
    run->interp.rounds = true;
    run->loss_scale = loss_scale;
    for (uint32_t i = 0; i < run->module->stores.n; i++) {
        const DtStore *s = run->module->stores.at[i];
        DtTensor *tensor = run->stores[i];
        if (s->kind == DT_STORE_MASTER)
            copy_tensor(tensor, run->stores[s->of->index]);
        for (int64_t k = 0; k < dt_type_elements(s->type); k++)
            tensor->at[k] = dt_round_to(s->type->dtype, tensor->at[k]);
    }
    for (uint32_t i = 0; i < run->module->stores.n; i++) {
        const DtStore *s = run->module->stores.at[i];
        for (int64_t k = 0; s->kind == DT_STORE_MASTER && k < dt_type_elements(s->type); k++)
            run->stores[s->of->index]->at[k] =
                dt_round_to(s->of->type->dtype, run->stores[i]->at[k]);
    }
}

/* Runs one entry and writes its results to stores. Returns the metric `name`, if the entry has
 * it. */
static double run_entry(Run *run, const char *name, const char *metric)
{
    const DtEntryPoint *point = entry(run, name);
    DtTensor **results = evaluate(run, point->func, run->arena);
    double value = NAN;
    for (uint32_t i = 0; i < point->results.n; i++) {
        const DtEntryResult *to = &point->results.at[i];
        if (to->store != NULL)
            copy_tensor(run->stores[to->store->index], results[i]);
        else if (metric != NULL && strcmp(to->name, metric) == 0)
            value = results[i]->at[0];
    }
    return value;
}

static void run_step(Run *run, uint32_t step)
{
    run->interp.step = step;
    run_entry(run, "grad", NULL);
    run_entry(run, "update", NULL);
}

/* Compares the values of a store in two runs, bit for bit. */
static void expect_same(const Run *a, DtStoreKind kind_a, const Run *b, DtStoreKind kind_b,
                        const DtStore *param, const char *what)
{
    const DtStore *x = store_of(a, kind_a, param->path), *y = store_of(b, kind_b, param->path);
    cr_assert(x != NULL && y != NULL, "%s: `%s`", what, param->path);
    cr_expect(max_difference(a->stores[x->index], b->stores[y->index]) == 0, "%s: `%s` differs",
              what, param->path);
}

/* Parameters in 16 bits with a master copy in f32 give the same results as parameters in f32, since
 * in both cases the program reads them as bf16. */
Test(precision, a_master_copy_is_the_parameter_in_f32)
{
    Run a, b;
    begin(&a, "mixed(compute = bf16, params = f32, grads = f32)", 1);
    begin(&b, "mixed(compute = bf16, params = bf16, master = f32, grads = f32)", 1);
    uint32_t n_masters = 0;
    for (uint32_t i = 0; i < b.module->stores.n; i++) { /* the same initial values */
        const DtStore *s = b.module->stores.at[i];
        if (s->kind != DT_STORE_MASTER)
            continue;
        n_masters++;
        copy_tensor(a.stores[store_of(&a, DT_STORE_PARAM, s->path)->index], b.stores[i]);
        cr_expect_eq(s->type->dtype, DT_F32);
        cr_expect_eq(s->of->type->dtype, DT_BF16);
    }
    cr_expect_eq(n_masters, 6, "all but the parameter that is f32 by itself: %u", n_masters);
    for (uint32_t step = 0; step < 4; step++) {
        run_step(&a, step);
        run_step(&b, step);
        for (uint32_t i = 0; i < a.module->stores.n; i++) {
            const DtStore *s = a.module->stores.at[i];
            if (s->kind != DT_STORE_PARAM)
                continue;
            const DtStore *master = store_of(&b, DT_STORE_MASTER, s->path);
            expect_same(&a, DT_STORE_PARAM, &b, master != NULL ? DT_STORE_MASTER : DT_STORE_PARAM,
                        s, "master");
            const DtTensor *param = b.stores[store_of(&b, DT_STORE_PARAM, s->path)->index],
                           *copy = master != NULL ? b.stores[master->index] : param;
            for (int64_t k = 0; k < dt_type_elements(param->type); k++)
                cr_expect_eq(param->at[k], dt_round_to(param->type->dtype, copy->at[k]), "`%s`",
                             s->path);
        }
    }
    run_end(&a);
    run_end(&b);
}

/* Checks that a loss scale which is a power of two changes no rounding: after the update all values
 * are the same as without it. */
static void check_scaled(const char *precision, double scale)
{
    Run a, b;
    begin(&a, "mixed(compute = f32, params = f32, grads = f32)", 1);
    begin(&b, precision, scale);
    for (uint32_t step = 0; step < 3; step++) {
        run_step(&a, step);
        run_step(&b, step);
        for (uint32_t i = 0; i < a.module->stores.n; i++) {
            const DtStore *s = a.module->stores.at[i];
            if (s->kind == DT_STORE_GRAD) {
                const DtTensor *x = a.stores[i],
                               *y = b.stores[store_of(&b, DT_STORE_GRAD, s->path)->index];
                for (int64_t k = 0; k < dt_type_elements(x->type); k++)
                    cr_expect_eq(x->at[k] * scale, y->at[k], "gradient of `%s`", s->path);
            } else {
                expect_same(&a, s->kind, &b, s->kind, s, precision);
            }
        }
    }
    run_end(&a);
    run_end(&b);
}

Test(precision, loss_scale)
{
    check_scaled("mixed(compute = f32, params = f32, grads = f32, loss_scale = 1024)", 1024);
    check_scaled("mixed(compute = f32, params = f32, grads = f32, loss_scale = dynamic)", 4096);
}

/* If a gradient in any store, on any rank of the axis, is not finite, the update changes
 * nothing. */
Test(precision, a_step_is_skipped)
{
    static const double faults[] = {INFINITY, -INFINITY, NAN};
    Run run;
    begin(&run,
          "mixed(compute = f16, params = f16, master = f32, grads = f32, loss_scale = dynamic)",
          1024);
    run_step(&run, 0); /* moments and states that are not zero */
    const DtStore *grad = store_of(&run, DT_STORE_GRAD, "h.up.w");
    cr_assert(grad != NULL && store_of(&run, DT_STORE_NEXT, "h.norm.mean0") != NULL);
    for (size_t f = 0; f < DT_COUNT(faults); f++) {
        run.interp.step = 1;
        run_entry(&run, "grad", NULL);
        run.stores[grad->index]->at[3] = faults[f];
        DtTensor **before = DT_NEW_ARRAY(run.arena, DtTensor *, run.module->stores.n + 1);
        for (uint32_t i = 0; i < run.module->stores.n; i++)
            copy_tensor(before[i] = dt_interp_tensor(run.arena, run.stores[i]->type),
                        run.stores[i]);
        cr_expect(!isfinite(run_entry(&run, "update", "grad_norm")));
        for (uint32_t i = 0; i < run.module->stores.n; i++)
            if (i != grad->index)
                cr_expect(max_difference(before[i], run.stores[i]) == 0, "`%s` changed",
                          run.module->stores.at[i]->path);
    }
    run_entry(&run, "grad", NULL);
    const DtStore *state = store_of(&run, DT_STORE_STATE, "h.norm.mean0"),
                  *next = store_of(&run, DT_STORE_NEXT, "h.norm.mean0");
    cr_expect(max_difference(run.stores[state->index], run.stores[next->index]) > 0);
    cr_expect(isfinite(run_entry(&run, "update", "grad_norm")));
    cr_expect(max_difference(run.stores[state->index], run.stores[next->index]) == 0);
    run_end(&run);
}

/* ---- sums over ranks ---- */

/* Counts the sums of gradients in the function that are computed in this dtype, and those in
 * another. */
static void count_sums(const DtFunc *func, DtDtype dtype, uint32_t *ret_good, uint32_t *ret_bad)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_LOOP)
            count_sums(op->func, dtype, ret_good, ret_bad);
        if ((op->kind != DT_OP_ALL_REDUCE && op->kind != DT_OP_REDUCE_SCATTER) ||
            op->text == NULL || strncmp(op->text, "gradients", 9) != 0 ||
            op->in[0]->type->rank == 0)
            continue;
        *(op->out[0]->type->dtype == dtype ? ret_good : ret_bad) += 1;
    }
}

/* Checks in which dtype sums of gradients are. crosses: sums over ranks have another dtype than
 * gradients; then the update completes the sums over micro-batches. */
static void check_reduce(const char *precision, int zero, int64_t micro, bool crosses)
{
    Run run;
    static const Program program = {"tests/passes/programs/precision.dsl", "", 7};
    run_begin_in(&run, &program, precision);
    DtParallelConfig parallel = {.micro = micro, .mesh = {1, {{dt_intern("data"), 2, false}}}};
    DtShard shard = {
        .axes = {dt_intern("batch")}, .n_axes = 1, .mesh = {dt_intern("data")}, .n_mesh = 1};
    DT_PUSH(run.arena, parallel.shards, shard);
    if (zero > 0)
        DT_PUSH(run.arena, parallel.zeros,
                ((DtZero){.level = zero, .on = {dt_intern("data")}, .n_on = 1}));
    const DtPassContext context = {.train = run.program->train, .parallel = &parallel};
    dt_passes_run(run.module, &context, NULL, NULL);
    expect_valid(run.module);
    uint32_t good = 0, bad = 0;
    for (uint32_t i = 0; i < run.module->entries.n; i++)
        count_sums(run.module->entries.at[i].func, run.program->train->precision.reduce, &good,
                   &bad);
    cr_expect_eq(bad, 0, "%s, zero %d", precision, zero);
    cr_expect(good > 0, "%s, zero %d, %d micro-batches: no sums", precision, zero, (int)micro);
    for (uint32_t i = 0; i < run.module->stores.n; i++) {
        const DtStore *s = run.module->stores.at[i];
        if (s->kind == DT_STORE_GRAD && zero == 0 && !s->bucket)
            cr_expect_eq(s->type->partial != 0, micro > 1 && crosses, "gradient of `%s`", s->path);
    }
    run_end(&run);
}

Test(precision, gradients_cross_ranks_in_the_dtype_of_reduce)
{
    for (int i = 0; i < 8; i++) {
        const int zero = i % 4, micro = 1 + i / 4;
        check_reduce("mixed(compute = bf16, params = f32, grads = f32, reduce = bf16)", zero, micro,
                     true);
        check_reduce("mixed(compute = bf16, params = f32, grads = bf16, reduce = f32)", zero, micro,
                     true);
        check_reduce("mixed(compute = bf16, params = f32, grads = f32, reduce = f32)", zero, micro,
                     false);
        check_reduce("mixed(compute = bf16, params = f32, grads = bf16, reduce = bf16)", zero,
                     micro, false);
    }
}
