/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer rules built by hand, for tests that have no program to lower: AdamW, or SGD with
 * momentum. */
#ifndef DT_TESTS_PASSES_RULE_H
#define DT_TESTS_PASSES_RULE_H

#include "base/intern.h"
#include "ir/config.h"

typedef struct TestRule {
    bool is_adamw;
    /* decay: weight decay, for parameters with more than one written axis */
    double beta1, beta2, eps, decay, momentum, clip;
} TestRule;

typedef struct RuleMaker {
    DtModule *module;
    DtUpdateRule rule;
    DtBuilder b;
    DtValue *p, *g, *norm, *lr, *bias1, *bias2;
} RuleMaker;

static inline DtValue *rule_op(RuleMaker *r, DtOpKind kind, DtValue *x, DtValue *y)
{
    return dt_graph_binary(&r->b, kind, x, y);
}

static inline DtValue *rule_scaled(RuleMaker *r, double factor, DtValue *x)
{
    return rule_op(r, DT_OP_MUL, dt_graph_constant(&r->b, DT_F32, factor), x);
}

static inline DtValue *rule_state(RuleMaker *r, const DtType *type, uint32_t number)
{
    const char *path = dt_intern(number ? "moment2" : "moment1");
    DtFormalParam param = {.path = path, .pattern = path, .init = {.kind = DT_INIT_CONST},
                           .is_state = true};
    return dt_graph_param(r->rule.func, type, param);
}

static inline void rule_body(RuleMaker *r, const TestRule *of, double decay)
{
    const DtType *type = r->p->type;
    DtValue *g = r->g, *state[2] = {0}, *new[2] = {0}, *change;
    const uint32_t n = of->is_adamw ? 2 : of->momentum != 0;
    for (uint32_t i = 0; i < n; i++)
        state[i] = rule_state(r, type, i);
    if (of->clip > 0) {
        DtValue *ratio = rule_op(r, DT_OP_ADD, r->norm, dt_graph_constant(&r->b, DT_F32, 1e-6));
        ratio = rule_op(r, DT_OP_DIV, dt_graph_constant(&r->b, DT_F32, of->clip), ratio);
        ratio = rule_op(r, DT_OP_MIN, ratio, dt_graph_constant(&r->b, DT_F32, 1));
        g = rule_op(r, DT_OP_MUL, g, ratio);
    }
    if (!of->is_adamw && decay != 0)
        g = rule_op(r, DT_OP_ADD, g, rule_scaled(r, decay, r->p));
    change = g;
    if (of->is_adamw) {
        /* one after the other: C does not determine the order in which arguments are evaluated */
        DtValue *more = rule_scaled(r, 1 - of->beta1, g);
        new[0] = rule_op(r, DT_OP_ADD, rule_scaled(r, of->beta1, state[0]), more);
        more = rule_scaled(r, 1 - of->beta2, rule_op(r, DT_OP_MUL, g, g));
        new[1] = rule_op(r, DT_OP_ADD, rule_scaled(r, of->beta2, state[1]), more);
        DtValue *root = dt_graph_unary(&r->b, DT_OP_SQRT, rule_op(r, DT_OP_MUL, new[1], r->bias2));
        root = rule_op(r, DT_OP_ADD, root, dt_graph_constant(&r->b, DT_F32, of->eps));
        change = rule_op(r, DT_OP_DIV, rule_op(r, DT_OP_MUL, new[0], r->bias1), root);
        if (decay != 0)
            change = rule_op(r, DT_OP_ADD, change, rule_scaled(r, decay, r->p));
    } else if (n) {
        change = new[0] = rule_op(r, DT_OP_ADD, rule_scaled(r, of->momentum, state[0]), g);
    }
    dt_graph_return(r->rule.func,
                    rule_op(r, DT_OP_SUB, r->p, rule_op(r, DT_OP_MUL, r->lr, change)));
    for (uint32_t i = 0; i < n; i++) {
        DT_PUSH(r->module->arena, r->rule.func->results, new[i]);
        DT_PUSH(r->module->arena, r->rule.func->writes, i);
    }
}

/* An optimizer with a rule for each parameter of the module. */
static inline DtOptimizer test_optimizer(DtModule *module, TestRule of)
{
    DtOptimizer optimizer = {0};
    const uint32_t funcs = module->funcs.n;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->kind != DT_STORE_PARAM || store->frozen)
            continue;
        static const char *names[] = {"@lr", "@bias1", "@bias2"};
        RuleMaker maker = {.module = module}, *r = &maker;
        const DtType *type = dt_type_with_dtype(store->type, DT_F32), *one = dt_type_scalar(DT_F32);
        r->rule = (DtUpdateRule){.param = store,
                                 .func = dt_graph_func(module, "rule", DT_FUNC_LAYER)};
        r->rule.n_scalars = of.is_adamw ? 3 : 1;
        r->rule.scalars = DT_NEW_ARRAY(module->arena, const char *, 3);
        r->b = (DtBuilder){.func = r->rule.func};
        r->p = dt_graph_arg(r->rule.func, type, "p");
        r->g = dt_graph_arg(r->rule.func, type, "g");
        r->norm = dt_graph_arg(r->rule.func, one, "grad_norm");
        DtValue **scalars[] = {&r->lr, &r->bias1, &r->bias2};
        for (uint32_t k = 0; k < r->rule.n_scalars; k++) {
            r->rule.scalars[k] = dt_intern(names[k]);
            *scalars[k] = dt_graph_arg(r->rule.func, one, names[k]);
        }
        rule_body(r, &of, store->written_rank > 1 ? of.decay : 0);
        dt_graph_renumber(r->rule.func);
        DT_PUSH(module->arena, optimizer.rules, r->rule);
    }
    module->funcs.n = funcs;
    return optimizer;
}

#endif
