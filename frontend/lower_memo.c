/* SPDX-License-Identifier: Apache-2.0 */
/* Running a definition on bound arguments. Layers, models and library functions become IR
 * functions, made once per combination of definition, axis arguments, constants and argument
 * types, and are called; other functions are evaluated in place. A function that takes
 * instances or functions as arguments is made for its call alone, since it may use values of
 * its caller; so is an `fn` that draws random numbers, since each call draws others. */
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

typedef struct Call {
    DtSignature s;
    DtInstance *instance;
    DtActivation act;
    DtScope scope;
    DtBound *bound;
    DT_VEC(DtVal) leaves; /* tensors among the arguments, in the caller */
} Call;

/* ---- the activation ---- */

static bool check_depth(DtLower *l, const Call *c)
{
    const DtDef *def = c->s.function->def;
    for (const DtActivation *a = l->now; a; a = a->caller) {
        if (a->def != def)
            continue;
        DtDiag *d = dt_report_error(l, E0208, c->s.call->span, "`%s` calls itself", def->name.text);
        if (a->call.file)
            dt_diag_label(d, a->call, "called here first");
        dt_diag_note(d, "recursion is not part of the language; `repeat` makes deep networks");
        return false;
    }
    if (l->now->depth < DT_LOWER_CALLS)
        return true;
    if (!l->gave_up)
        dt_report_error(l, E0219, c->s.call->span, "calls are nested more than %d deep",
                        DT_LOWER_CALLS);
    l->gave_up = true;
    return false;
}

static void bind(DtLower *l, DtScope *scope, const char *name, DtVal val, DtSpan span)
{
    DtBinding binding = {.name = name, .val = val, .span = span};
    DT_PUSH(l->arena, scope->names, binding);
}

/* Fills the axes of an argument whose default is a number, as in `bool valid[batch, seq] = true`.
 * An axis without an extent of its own is left to the check of the argument. False after a
 * report. */
static bool fill_default(DtLower *l, const DtFormal *formal, DtVal *val)
{
    DtDeclared want;
    if (!formal->type.has_axes || !dt_val_is_constant(val))
        return true;
    if (!dt_axes_declared(l, &formal->type, false, &want))
        return false;
    for (uint32_t i = 0; i < want.n; i++)
        if (want.axes[i].extent == 0)
            return true;
    if (!want.open)
        *val = dt_val_expand(l, *val, want.n, want.axes);
    return !dt_val_is_error(val);
}

/* Binds all formals: arguments that are given are checked, others get their defaults, in the order
 * of formals, since a default may use the formals before it. False after a report. */
static bool bind_formals(DtLower *l, Call *c)
{
    const DtDef *def = c->s.function->def;
    bool ok = true;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtFormal *formal = &def->formals.at[i];
        DtBound *bound = &c->bound[i];
        if (!bound->given)
            *bound = (DtBound){.val = dt_expr_eval(l, formal->init), .expr = NULL, .given = false};
        ok = (bound->given || fill_default(l, formal, &bound->val)) && ok;
        ok = !dt_val_is_error(&bound->val) && ok && dt_bind_argument(l, &c->s, formal, bound);
        if (!formal->name.text)
            continue;
        dt_stmt_lint_hiding(l, formal->name.text, formal->name.span);
        bind(l, &c->scope, formal->name.text, ok ? bound->val : dt_val_error(), formal->name.span);
    }
    return ok;
}

/* ---- kinds of calls ---- */

static bool has_function(const DtVal *v)
{
    if (v->kind == DT_VAL_FUNCTION || v->kind == DT_VAL_INSTANCE)
        return true;
    for (uint32_t i = 0; v->kind == DT_VAL_TUPLE && i < v->tuple.n; i++) {
        if (has_function(&v->tuple.at[i]))
            return true;
    }
    return false;
}

static void collect_leaves(DtLower *l, Call *c, const DtVal *v)
{
    if (v->kind == DT_VAL_TENSOR)
        DT_PUSH(l->arena, c->leaves, *v);
    for (uint32_t i = 0; v->kind == DT_VAL_TUPLE && i < v->tuple.n; i++)
        collect_leaves(l, c, &v->tuple.at[i]);
}

static void key_val(DtText *text, const DtVal *v)
{
    switch (v->kind) {
    case DT_VAL_INT:
    case DT_VAL_BOOL:
        dt_text_printf(text, "%c%lld,", v->kind == DT_VAL_INT ? 'i' : 'b', (long long)v->whole);
        break;
    case DT_VAL_FLOAT: dt_text_printf(text, "f%a,", v->number); break;
    case DT_VAL_TENSOR:
        dt_text_printf(text, "t%p%s,", (const void *)v->tensor.value->type, v->weak ? "w" : "");
        break;
    case DT_VAL_STRING: dt_text_printf(text, "s%p,", (const void *)v->string); break;
    case DT_VAL_INIT:
        dt_text_printf(text, "n%d:%a:%a,", (int)v->init.kind, v->init.a, v->init.b);
        break;
    case DT_VAL_TUPLE:
        dt_text_add(text, "(");
        for (uint32_t i = 0; i < v->tuple.n; i++)
            key_val(text, &v->tuple.at[i]);
        dt_text_add(text, ")");
        break;
    default: dt_text_add(text, "?,"); break;
    }
}

static const char *memo_key(DtLower *l, const Call *c)
{
    const DtFunction *f = c->s.function;
    DtText text = {0};
    dt_text_printf(&text, "%p%c[", (const void *)f->def, l->training ? 't' : 'e');
    for (uint32_t i = 0; i < f->axes.n; i++) {
        for (uint32_t k = 0; k < f->axes.at[i].names.n; k++)
            dt_text_printf(&text, "%p,", (const void *)f->axes.at[i].names.at[k]);
        dt_text_add(&text, ";");
    }
    dt_text_add(&text, "]");
    for (uint32_t i = 0; i < f->def->formals.n; i++)
        key_val(&text, &c->bound[i].val);
    const char *key = dt_intern_n(text.at, text.len);
    dt_text_free(&text);
    return key;
}

/* ---- results ---- */

/* Checks the returned values against the signature and converts them to its types, into *ret_items.
 * False after an error. */
static bool take_results(DtLower *l, Call *c, DtVal **ret_items, uint32_t *ret_n,
                         bool *ret_is_tuple)
{
    const DtDef *def = c->s.function->def;
    const DtActivation *act = &c->act;
    const DtVal *v = &act->returned;
    if (act->has_returned && dt_val_is_error(v))
        return false;
    *ret_is_tuple = act->has_returned && v->kind == DT_VAL_TUPLE;
    *ret_n = !act->has_returned ? 0 : *ret_is_tuple ? v->tuple.n : 1;
    if (*ret_n != def->results.n && (def->results.n || !act->has_returned)) {
        DtDiag *d = dt_report_error(l, E0214, act->has_returned ? act->returned_span : def->head,
                                    "`%s` returns %u value%s, and its signature has %u",
                                    def->name.text, *ret_n, *ret_n == 1 ? "" : "s", def->results.n);
        if (!act->has_returned)
            dt_diag_help(d, "end the body with `return ...`");
        return false;
    }
    *ret_items = DT_NEW_ARRAY(l->arena, DtVal, *ret_n + 1);
    bool ok = true;
    for (uint32_t i = 0; i < *ret_n; i++) {
        (*ret_items)[i] = *ret_is_tuple ? v->tuple.at[i] : *v;
        ok &= dt_bind_result(l, &c->s, i, &(*ret_items)[i], act->returned_span);
    }
    return ok;
}

/* ---- in place ---- */

static DtVal run_in_place(DtLower *l, Call *c)
{
    dt_stmt_block(l, &c->s.function->def->body);
    DtVal *items;
    uint32_t n;
    bool is_tuple;
    if (!take_results(l, c, &items, &n, &is_tuple))
        return dt_val_error();
    if (n == 0)
        return (DtVal){.kind = DT_VAL_NOTHING};
    return is_tuple ? dt_val_tuple(l, items, n) : items[0];
}

/* ---- as a function ---- */

static void enter_function(DtLower *l, Call *c, DtFrame *frame)
{
    const DtDef *def = c->s.function->def;
    c->act.frame = frame;
    c->scope.frame = frame;
    c->scope.names.n = 0;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtFormal *formal = &def->formals.at[i];
        DtVal val = dt_frame_args(l, frame, &c->bound[i].val, formal->name.text);
        if (formal->name.text)
            bind(l, &c->scope, formal->name.text, val, formal->name.span);
    }
}

static DtFuncKind func_kind(const DtDef *def)
{
    return def->kind == DT_DEF_FN      ? DT_FUNC_FN
           : def->kind == DT_DEF_LAYER ? DT_FUNC_LAYER
                                       : DT_FUNC_MODEL;
}

/* Returns a name for a function of this definition: `layernorm`, `layernorm.1`, ... They are
 * numbered here, so that the module need not search for a free name. */
static const char *func_name(DtLower *l, const DtDef *def)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->memos.n; i++)
        n += l->memos.at[i]->def == def;
    return n ? dt_arena_printf(l->arena, "%s.%u", def->name.text, n) : def->name.text;
}

/* Returns a `shard` line, of a layout that is checked, which is limited to calls of a function with
 * that name; NULL if there is none. */
static const DtShard *shard_of(const DtLower *l, const char *name)
{
    for (uint32_t i = 0; i < l->program->parallels.n; i++) {
        const DtParallelConfig *block = l->program->parallels.at[i];
        if (!dt_configcheck_concerns(l->options, l->program, block))
            continue;
        for (uint32_t k = 0; k < block->shards.n; k++)
            for (uint32_t p = 0; p < block->shards.at[k].n_place; p++)
                if (block->shards.at[k].place[p] == name)
                    return &block->shards.at[k];
    }
    return NULL;
}

bool dt_memo_draws(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_RNG || (op->func && dt_memo_draws(op->func)))
            return true;
    }
    return false;
}

/* Returns what comes before the paths of instances that the call makes; NULL: no adapters are
 * looked for there, since it is a call of one. */
static const char *where_of(const Call *c)
{
    const DtInstance *instance = c->instance;
    if (!instance)
        return c->act.caller->frame->where;
    if (instance->adapter_of || !instance->home->where)
        return NULL;
    const char *path = dt_call_known(instance);
    return dt_intern_printf("%s%s%s", instance->home->where, path, *path ? "." : "");
}

static DtFrame *make_function(DtLower *l, Call *c, DtMemo *memo, DtFrame *parent)
{
    const DtDef *def = c->s.function->def;
    DtFrame *frame = dt_frame_new(l, parent, func_name(l, def), func_kind(def),
                                  def->head.file ? def->head : def->span);
    frame->def = def;
    frame->where = where_of(c);
    if (dt_scope_in_library(l, def->span))
        frame->func->library = def->name.text;
    enter_function(l, c, frame);
    /* its random draws are numbered among those of the layer that calls the function */
    if (def->kind == DT_DEF_FN) {
        frame->random = c->act.caller->frame->random;
        frame->prefix = c->act.caller->frame->prefix;
    }
    const bool has_clauses = dt_clause_any(&def->body);
    for (uint32_t i = 0; has_clauses && i < c->scope.names.n; i++)
        DT_PUSH(l->arena, c->act.formals, c->scope.names.at[i]);
    dt_stmt_block(l, &def->body);
    if (def->kind == DT_DEF_FN && dt_memo_draws(frame->func))
        memo->key = NULL; /* each call draws other numbers */
    bool ok = take_results(l, c, &memo->results, &memo->n_results, &memo->is_tuple);
    for (uint32_t i = 0; ok && i < memo->n_results; i++) {
        DtVal *v = &memo->results[i];
        if (v->kind != DT_VAL_TENSOR)
            continue;
        v->tensor.value = dt_val_tensor(l, v);
        dt_graph_return(frame->func, v->tensor.value);
    }
    if (ok && has_clauses)
        ok = dt_clause_lower(l, c->bound, memo->results, memo->n_results);
    if (ok) {
        dt_frame_finish(l, frame);
        memo->func = frame->func;
        memo->ops = frame->func->ops.n + frame->called;
    }
    return frame;
}

/* ---- the call ---- */

static const char *join_path(const char *path, const char *name)
{
    return *path ? dt_intern_printf("%s.%s", path, name) : name;
}

/* Returns, for each parameter of func, the number of the parameter of the frame that has the
 * instance, to which it is added if it is new. NULL after a report. */
static uint32_t *pass_params(DtLower *l, const Call *c, const DtFunc *func)
{
    uint32_t *map = DT_NEW_ARRAY(l->arena, uint32_t, func->params.n + 1);
    for (uint32_t i = 0; i < func->params.n; i++) {
        DtFormalParam formal = func->params.at[i];
        formal.path = join_path(c->instance->path, formal.path);
        formal.pattern = join_path(c->instance->path, formal.pattern);
        const DtType *type = func->inputs.at[func->n_args + i]->type;
        int32_t index = dt_frame_param(l, c->instance->home, formal, type, c->instance);
        if (index < 0)
            return NULL;
        map[i] = (uint32_t)index;
        if (c->instance->copy > 0)
            c->instance->home->params.at[index].store->copy = c->instance->copy;
    }
    return map;
}

static bool take_writes(DtLower *l, const Call *c, const DtFunc *func, const DtOp *op,
                        const uint32_t *map)
{
    for (uint32_t i = 0; i < func->writes.n; i++) {
        DtFrame *home = c->instance->home, *frame = l->now->frame;
        if (home != frame) {
            bool loop = frame->is_loop;
            DtDiag *d = dt_report_error(
                l, E0217, c->s.call->span, "a state of `%s` would be assigned %s",
                c->instance->label.text, loop ? "in every iteration" : "within another layer");
            dt_diag_label(d, c->instance->span, "the instance is made outside the %s",
                          loop ? "loop" : "layer that calls it");
            dt_diag_note(d, loop ? "a state has one new value per step; an instance made in the "
                                   "loop has a state per iteration"
                                 : "an instance with states is called in the layer that makes it");
            return false;
        }
        dt_frame_write(l, home, map[func->writes.at[i]], op->out[func->n_returns + i],
                       c->s.call->span);
    }
    return true;
}

static DtVal call_results(DtLower *l, const DtMemo *memo, const DtOp *op)
{
    if (memo->n_results == 0)
        return (DtVal){.kind = DT_VAL_NOTHING};
    DtVal *items = DT_NEW_ARRAY(l->arena, DtVal, memo->n_results);
    uint32_t at = 0;
    for (uint32_t i = 0; i < memo->n_results; i++) {
        items[i] = memo->results[i];
        if (items[i].kind == DT_VAL_TENSOR)
            items[i] = dt_val_of(l, op->out[at++], items[i].weak);
    }
    return memo->is_tuple ? dt_val_tuple(l, items, memo->n_results) : items[0];
}

static DtVal emit_call(DtLower *l, Call *c, const DtMemo *memo, const DtFrame *captured)
{
    DtFunc *func = memo->func;
    DtFrame *frame = l->now->frame;
    if (!dt_frame_calls(l, frame, memo->ops, c->s.call->span))
        return dt_val_error();
    DtValue **in = DT_NEW_ARRAY(l->arena, DtValue *, func->inputs.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->leaves.n; i++)
        in[n++] = dt_val_tensor(l, &c->leaves.at[i]);
    for (uint32_t i = 0; captured && i < captured->captures.n; i++)
        in[n++] = dt_frame_import(l, frame, captured->captures.at[i].outer,
                                  captured->captures.at[i].frame);
    frame->b.span = c->s.call->span;
    uint32_t *map = func->params.n ? pass_params(l, c, func) : NULL;
    if (func->params.n && !map)
        return dt_val_error();
    for (uint32_t i = 0; i < func->params.n; i++) {
        const DtFrameParam *p = &c->instance->home->params.at[map[i]];
        in[n++] = dt_frame_import(l, frame, p->value, c->instance->home);
    }
    const char *path = frame->b.path;
    frame->b.path = NULL; /* the label is the whole path */
    frame->b.span = c->s.call->span;
    const char *label = c->instance && *c->instance->path ? c->instance->path : NULL;
    DtOp *op = dt_graph_call(&frame->b, func, label, in);
    frame->b.path = path;
    if (func->writes.n && !take_writes(l, c, func, op, map))
        return dt_val_error();
    return call_results(l, memo, op);
}

static DtMemo *find_memo(const DtLower *l, const char *key, const char *where)
{
    for (uint32_t i = 0; i < l->memos.n; i++) {
        if (l->memos.at[i]->key == key && dt_adapt_fits(l, l->memos.at[i], where))
            return l->memos.at[i];
    }
    return NULL;
}

static DtVal run_function(DtLower *l, Call *c)
{
    const DtDef *def = c->s.function->def;
    bool alone = false;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        alone |= has_function(&c->bound[i].val);
        collect_leaves(l, c, &c->bound[i].val);
    }
    DtActivation *caller = l->now->caller;
    const char *key = alone ? NULL : memo_key(l, c);
    const char *where = where_of(c);
    DtMemo *memo = key ? find_memo(l, key, where) : NULL;
    const DtFrame *captured = NULL;
    if (memo) {
        dt_adapt_repeat(l, memo, where);
    } else {
        const uint32_t first = l->sites.n;
        memo = DT_NEW(l->arena, DtMemo);
        memo->key = key;
        memo->def = def;
        DtFrame *frame = make_function(l, c, memo, alone ? caller->frame : NULL);
        captured = alone ? frame : NULL;
        memo->sites = dt_adapt_sites(l, first, where);
        memo->in_adapter = where == NULL;
        DT_PUSH(l->arena, l->memos, memo);
    }
    l->now = caller;
    return memo->func ? emit_call(l, c, memo, captured) : dt_val_error();
}

/* Whether the function may have its clauses in this call; reports it if not: no stated gradient can
 * cover the parameters of a function that is passed as an argument. */
static bool may_state(DtLower *l, const Call *c)
{
    const DtDef *def = c->s.function->def;
    const bool has_clauses = dt_clause_any(&def->body);
    for (uint32_t i = 0; has_clauses && i < def->formals.n; i++) {
        if (!has_function(&c->bound[i].val))
            continue;
        DtDiag *d = dt_report_error(
            l, E0221, c->s.call->span,
            "`%s` says what its gradient or its parts are, so `%s` cannot be a function",
            def->name.text, def->formals.at[i].name.text);
        dt_diag_label(d, def->head.file ? def->head : def->name.span, "defined here");
        return false;
    }
    return true;
}

static bool has_tensor(const DtVal *v)
{
    bool has = v->kind == DT_VAL_TENSOR;
    for (uint32_t i = 0; v->kind == DT_VAL_TUPLE && i < v->tuple.n; i++)
        has = has || has_tensor(&v->tuple.at[i]);
    return has;
}

/* Whether the call is evaluated in place: it is of a library function with constants or functions
 * as its only arguments, or of any other `fn` that has no clauses and that no `shard` line
 * names. */
static bool is_in_place(DtLower *l, const Call *c)
{
    const DtDef *def = c->s.function->def;
    if (def->kind != DT_DEF_FN)
        return false;
    if (dt_scalars_are_computed(l) || c->act.frame->is_rule)
        return true;
    const bool has_clauses = dt_clause_any(&def->body);
    bool tensor = false;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        if (has_function(&c->bound[i].val))
            return true;
        tensor |=
            has_clauses ? has_tensor(&c->bound[i].val) : c->bound[i].val.kind == DT_VAL_TENSOR;
    }
    return !tensor ||
           !(dt_scope_in_library(l, def->span) || shard_of(l, def->name.text) || has_clauses);
}

/* ---- after errors ---- */

static DtVal stand_in(DtLower *l, const DtAstType *type, bool is_layer)
{
    DtDeclared t;
    DtDtype dtype = is_layer ? l->compute : DT_F32;
    if ((type->dtype && !dt_axes_dtype(l, type, &dtype)) || !dt_axes_declared(l, type, false, &t) ||
        t.open)
        return dt_val_error();
    for (uint32_t i = 0; i < t.n; i++) {
        if (t.axes[i].extent < 1)
            return dt_val_error();
    }
    const DtType *whole = dt_axes_type(l, type->span, dtype, t.n, t.axes);
    DtBuilder *b = &l->now->frame->b;
    if (!whole)
        return dt_val_error();
    return dt_val_of(l, dt_graph_expand(b, dt_graph_constant(b, dtype, 0), whole), false);
}

DtVal dt_memo_recover(DtLower *l, const DtFunction *function, const DtExpr *call)
{
    const DtDef *def = function->def;
    DtActivation *caller = l->now;
    DtScope scope = {.frame = caller->frame};
    DtActivation act = {.caller = caller,
                        .def = def,
                        .call = call->span,
                        .scope = &scope,
                        .frame = caller->frame,
                        .axes = function->axes,
                        .depth = caller->depth + 1};
    DtVal *items = DT_NEW_ARRAY(l->arena, DtVal, def->results.n + 1);
    l->now = &act;
    for (uint32_t i = 0; i < def->results.n; i++)
        items[i] = stand_in(l, &def->results.at[i], def->kind != DT_DEF_FN);
    l->now = caller;
    return def->results.n == 1 ? items[0]
           : def->results.n    ? dt_val_tuple(l, items, def->results.n)
                               : dt_val_error();
}

static void see(DtLower *l, const DtDef *def)
{
    for (uint32_t i = 0; i < l->seen.n; i++) {
        if (l->seen.at[i] == def)
            return;
    }
    DT_PUSH(l->arena, l->seen, def);
}

DtVal dt_memo_call(DtLower *l, const DtFunction *function, DtInstance *instance, const DtExpr *call,
                   DtBound *bound)
{
    Call *c = DT_NEW(l->arena, Call);
    DtActivation *caller = l->now;
    c->instance = instance;
    c->bound = bound;
    c->s = (DtSignature){.function = function,
                         .call = call,
                         .act = &c->act,
                         .is_layer = function->def->kind != DT_DEF_FN};
    if (!check_depth(l, c))
        return dt_val_error();
    c->scope.frame = caller->frame;
    c->act = (DtActivation){.caller = caller,
                            .def = function->def,
                            .call = call->span,
                            .scope = &c->scope,
                            .frame = caller->frame,
                            .axes = function->axes,
                            .depth = caller->depth + 1};
    l->now = &c->act;
    DtVal result = dt_val_error();
    bool bound_all = bind_formals(l, c) && may_state(l, c);
    if (bound_all) {
        see(l, function->def);
        result = is_in_place(l, c) ? run_in_place(l, c) : run_function(l, c);
    }
    l->now = caller;
    if (bound_all && dt_val_is_error(&result) && dt_diag_errors(l->diags) && !l->gave_up)
        result = dt_memo_recover(l, function, call);
    if (function->def->kind == DT_DEF_MODEL && l->wants_model && !l->has_model &&
        !(instance && instance->original) &&
        caller->def == NULL) {
        l->has_model = true;
        l->stop_at_model = function->def;
        l->model_results = result;
    }
    return result;
}
