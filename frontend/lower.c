/* SPDX-License-Identifier: Apache-2.0 */
/* Driver of the lowering: loads the files, reads the configuration, and builds the entry
 * functions from the statements of the chosen train block:
 *
 *   loss      training = true: the loss, then the new values of states; one for each loss
 *             (DtObjective), of the statements that it needs
 *   eval      training = false: the losses
 *   predict   training = false: the results of the first model that the block calls; without a
 *             train block, of the
 *             first model whose inputs are all typed
 *
 * In loss and eval, sums then take the place of expressions of sums (lower_shown.c). */
#include "frontend/lower_train.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/samples.h"

#include <string.h>

/* ---- limits ---- */

bool dt_lower_enter(DtLower *l, DtSpan span)
{
    if (l->gave_up)
        return false;
    l->steps++;
    l->depth++;
    if (l->depth <= DT_LOWER_DEPTH && l->steps <= DT_LOWER_STEPS)
        return true;
    bool deep = l->depth > DT_LOWER_DEPTH;
    l->gave_up = true;
    l->depth--;
    DtDiag *d = dt_report_error(l, E0219, span,
                                deep ? "expressions are nested too deeply here"
                                     : "the program grows too large here");
    if (deep)
        dt_diag_note(d, "at most %d levels, through calls; give inner parts a name",
                     DT_LOWER_DEPTH);
    else
        dt_diag_note(
            d, "unrolled loops and functions evaluated in place make more than %d expressions",
            DT_LOWER_STEPS);
    return false;
}

void dt_lower_leave(DtLower *l) { l->depth--; }

/* ---- stores ---- */

DtStore *dt_lower_store(DtLower *l, const DtFormalParam *formal, const DtType *type)
{
    DtStore *old = dt_map_find_pointer(&l->store_at, formal->path);
    if (old && old->type == type)
        return old;
    if (old) {
        DtDiag *d = dt_report_error(
            l, E0212, formal->span,
            "the parameter `%s` has another type in training than in evaluation", formal->path);
        dt_diag_note(d, "%s and %s", dt_report_axes(l, old->type, true),
                     dt_report_axes(l, type, true));
        return NULL;
    }
    DtStore *store = DT_NEW(l->arena, DtStore);
    *store = (DtStore){.kind = formal->is_state ? DT_STORE_STATE : DT_STORE_PARAM,
                       .path = formal->path,
                       .pattern = formal->pattern,
                       .type = type,
                       .n_loops = formal->n_loops,
                       .written_rank = formal->written_rank,
                       .begins = formal->begins,
                       .init = formal->init,
                       .span = formal->span,
                       .index = l->module->stores.n};
    DT_PUSH(l->arena, l->module->stores, store);
    dt_map_add_pointer(&l->store_at, store->path, store);
    return store;
}

/* ---- the train block ---- */

typedef struct Entry {
    DtEntryKind kind;
    const char *objective;
    DtActivation act;
    DtScope scope;
    DtFrame *frame;
} Entry;

static Entry *begin_entry(DtLower *l, DtEntryKind kind, const char *objective, bool training,
                          DtSpan span)
{
    Entry *e = DT_NEW(l->arena, Entry);
    e->kind = kind;
    e->objective = objective;
    e->frame = dt_frame_new(l, NULL, dt_entry_new(kind, objective, DT_PART_WHOLE, -1).name,
                            DT_FUNC_ENTRY, span);
    e->scope.frame = e->frame;
    e->act = (DtActivation){.scope = &e->scope, .frame = e->frame};
    l->now = &e->act;
    l->training = training;
    return e;
}

static void finish_entry(DtLower *l, Entry *e, uint32_t n_results, const char *const *names)
{
    DtEntryPoint point = dt_entry_new(e->kind, e->objective, DT_PART_WHOLE, -1);
    point.func = e->frame->func;
    for (uint32_t i = 0; i < n_results; i++) {
        DtEntryResult result = {.name = dt_intern(names[i])};
        DT_PUSH(l->arena, point.results, result);
    }
    for (uint32_t i = 0; i < e->frame->params.n; i++) {
        DtEntryResult result = {.store = e->frame->params.at[i].store};
        if (e->frame->params.at[i].new_value)
            DT_PUSH(l->arena, point.results, result);
    }
    dt_frame_finish(l, e->frame);
    DT_PUSH(l->arena, l->module->entries, point);
}

static void type_reader(DtReader *reader, const char *name, const DtType *type)
{
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        if (reader->inputs[i] == name)
            reader->types[i] = type;
    }
}

static const DtType *input_type(DtLower *l, const DtAstType *written, DtSpan span)
{
    DtDeclared declared;
    DtDtype dtype = DT_F32;
    if (written->dtype && !dt_axes_dtype(l, written, &dtype))
        return NULL;
    if (!dt_axes_declared(l, written, true, &declared))
        return NULL;
    return dt_axes_type(l, span, dtype, declared.n, declared.axes);
}

static void make_input(DtLower *l, const DtTarget *target)
{
    if (!target->name.text)
        return;
    DtVal val = dt_val_error();
    if (!target->type.has_axes) {
        DtDiag *d = dt_report_error(l, E0307, target->span,
                                    "what is read from a source needs axes: `i32 %s[batch, ...]`",
                                    target->name.text);
        dt_diag_note(d, "the first axis counts samples, the others are the shape of one");
    } else {
        const DtType *type = input_type(l, &target->type, target->span);
        if (type) {
            l->now->frame->b.span = target->span;
            DtValue *value =
                dt_graph_source(&l->now->frame->b, DT_OP_INPUT, type, target->name.text, NULL);
            val = dt_val_of(l, value, false);
            DtTrainConfig *train = l->program->train;
            for (uint32_t i = 0; train && i < train->readers.n; i++)
                type_reader(&train->readers.at[i], target->name.text, type);
            for (uint32_t i = 0; train && i < train->eval_readers.n; i++)
                type_reader(&train->eval_readers.at[i], target->name.text, type);
        }
    }
    dt_stmt_bind(l, target->name.text, val, target->name.span, NULL);
}

static bool is_setting(DtLower *l, const DtEntry *entry)
{
    const DtConfigHost host = {.context = l, .is_optimizer = dt_optimizer_is_call};
    return dt_config_is_setting(&host, entry);
}

/* Evaluates the entries of a train block: makes inputs of sources, and binds the values of
 * assignments. wanted: by number, the entries to evaluate; NULL: all. */
static void run_train(DtLower *l, const DtItem *train, const bool *wanted)
{
    for (uint32_t i = 0; i < train->entries.n && !l->gave_up && !(l->wants_model && l->has_model);
         i++) {
        const DtEntry *entry = train->entries.at[i];
        if (entry->is_directive || is_setting(l, entry) || (wanted && !wanted[i]))
            continue;
        if (!dt_config_is_source(entry)) {
            dt_stmt_assign(l, entry->targets.at, entry->targets.n, entry->value);
            continue;
        }
        for (uint32_t k = 0; k < entry->targets.n; k++)
            make_input(l, &entry->targets.at[k]);
    }
}

/* ---- values that a loss needs ---- */

static void add_name(const char *name, DtMap *ret_names)
{
    if (!dt_map_find(ret_names, name, strlen(name)))
        dt_map_add(ret_names, name, strlen(name), ret_names);
}

/* Marks the entries that bind one of the names, and adds the names that these entries read. Goes
 * from the last entry to the first, since an entry can only read earlier ones. */
static void want(const DtItem *train, DtMap *names, bool *ret_wanted)
{
    for (uint32_t i = train->entries.n; i-- > 0;) {
        const DtEntry *entry = train->entries.at[i];
        for (uint32_t k = 0; !entry->is_directive && k < entry->targets.n; k++) {
            const char *name = entry->targets.at[k].name.text;
            ret_wanted[i] = ret_wanted[i] || (name && dt_map_find(names, name, strlen(name)));
        }
        if (ret_wanted[i])
            dt_config_mentioned(entry->value, names);
    }
}

/* Returns, by number of the entry, whether the objective needs it; NULL if it needs all. The
 * objective with the metrics also evaluates entries whose values nothing reads. */
static const bool *wanted_by(DtLower *l, const DtItem *train, const DtObjective *objective)
{
    const DtTrainConfig *config = l->program->train;
    const uint32_t n = train->entries.n;
    if (config->objectives.n < 2)
        return NULL;
    bool *wanted = DT_NEW_ARRAY(l->arena, bool, n + 1);
    const bool always = objective == dt_train_always(config);
    DtMap mine = {.arena = l->arena}, all = {.arena = l->arena};
    add_name(objective->loss, &mine);
    for (uint32_t i = 0; always && i < config->n_metrics; i++)
        add_name(config->metrics[i], &mine);
    want(train, &mine, wanted);
    if (!always)
        return wanted;
    bool *others = DT_NEW_ARRAY(l->arena, bool, n + 1);
    for (uint32_t i = 0; i < config->objectives.n; i++)
        add_name(config->objectives.at[i].loss, &all);
    want(train, &all, others);
    for (uint32_t i = 0; i < n; i++)
        wanted[i] = wanted[i] || !others[i];
    return wanted;
}

/* Adds a fix that takes the mean of the loss over all its axes. */
static void help_mean(DtLower *l, DtDiag *d, const DtType *type, const DtExpr *made)
{
    const char *axes = dt_report_axes(l, type, false);
    size_t len;
    const char *text = made ? dt_diag_source(l->diags, made->span.file, &len) : NULL;
    if (text && made->span.lo <= made->span.hi && made->span.hi <= len)
        dt_diag_fix(d, made->span,
                    dt_arena_printf(l->arena, "mean%s(%.*s)", axes,
                                    (int)(made->span.hi - made->span.lo), text + made->span.lo),
                    "write `mean%s(...)`, the mean", axes);
    else
        dt_diag_help(d, "take the mean: `mean%s(...)`", axes);
}

/* Returns the value of the objective's loss as an f32 scalar; NULL after a report. */
static DtValue *loss_value(DtLower *l, const DtItem *train, const DtObjective *objective)
{
    const char *name = objective ? objective->loss : dt_intern("loss");
    const DtBinding *loss = dt_expr_find(l, name);
    if (!loss && l->gave_up)
        return NULL;
    if (!loss && objective && objective->name) {
        DtDiag *d = dt_report_error(l, E0201, objective->span, "there is no value `%s`", name);
        dt_diag_note(d, "`loss` names a value that this block assigns, a float without axes");
        return NULL;
    }
    if (!loss) {
        DtDiag *d = dt_report_error(l, E0408, train->name.text ? train->name.span : train->span,
                                    "this train block does not assign `loss`");
        dt_diag_note(d, "training minimises the value of `loss`, a float without axes: `loss = "
                        "mean[batch](...)`");
        return NULL;
    }
    if (dt_val_is_error(&loss->val) || !dt_val_check(l, &loss->val, loss->made))
        return NULL;
    bool tensor = loss->val.kind == DT_VAL_TENSOR;
    const DtType *type = tensor ? loss->val.tensor.value->type : NULL;
    if (!tensor || !dt_dtype_is_float(type->dtype) || type->rank) {
        DtDiag *d =
            dt_report_error(l, E0408, loss->span,
                            "`%s` must be one float that depends on the model, and this is %s",
                            name, dt_report_type(l, &loss->val));
        if (tensor && type->rank)
            help_mean(l, d, type, loss->made);
        return NULL;
    }
    l->now->frame->b.span = loss->made ? loss->made->span : loss->span;
    return dt_val_use(l, &loss->val, DT_F32);
}

/* Returns the value of metric i as an f32 scalar; NULL after a report. */
static DtValue *metric_value(DtLower *l, const DtTrainConfig *train, uint32_t i)
{
    const char *name = train->metrics[i];
    const DtBinding *binding = dt_expr_find(l, name);
    if (!binding && l->gave_up)
        return NULL;
    if (!binding) {
        DtDiag *d =
            dt_report_error(l, E0201, train->metric_spans[i], "there is no value `%s`", name);
        const char *names[64];
        size_t n = 0;
        for (uint32_t k = 0; k < l->now->scope->names.n && n < DT_COUNT(names); k++)
            names[n++] = l->now->scope->names.at[k].name;
        dt_report_nearest(l, d, train->metric_spans[i], name, names, n);
        dt_diag_note(d, "`metrics` names values that this block assigns");
        return NULL;
    }
    if (dt_val_is_error(&binding->val) || !dt_val_check(l, &binding->val, binding->made))
        return NULL;
    bool tensor = binding->val.kind == DT_VAL_TENSOR;
    const DtType *type = tensor ? binding->val.tensor.value->type : NULL;
    if (tensor && type->rank) {
        DtDiag *d = dt_report_error(l, E0408, train->metric_spans[i],
                                    "a metric is one number, and this is %s",
                                    dt_report_type(l, &binding->val));
        dt_diag_label(d, binding->span, "assigned here");
        help_mean(l, d, type, binding->made);
        return NULL;
    }
    l->now->frame->b.span = binding->made ? binding->made->span : binding->span;
    return dt_val_use(l, &binding->val, DT_F32);
}

/* The names of an entry's results that runs show: losses, then metrics. */
typedef struct Shown {
    const char *names[DT_MAX_OBJECTIVES + DT_MAX_METRICS];
    uint32_t n;
} Shown;

static bool show(Entry *e, const char *name, DtValue *value, Shown *shown)
{
    if (!value)
        return false;
    dt_graph_return(e->frame->func, value);
    shown->names[shown->n++] = name;
    return true;
}

/* Lowers entry "loss" of an objective; if it is NULL, entry "eval", which evaluates all losses and
 * metrics. */
static void lower_loss(DtLower *l, const DtItem *train, const DtObjective *objective)
{
    const DtTrainConfig *config = l->program->train;
    const DtEntryKind kind = objective ? DT_ENTRY_LOSS : DT_ENTRY_EVAL;
    Entry *e =
        begin_entry(l, kind, objective ? objective->name : NULL, objective != NULL, train->span);
    Shown shown = {0};
    bool ok = true;
    run_train(l, train, objective ? wanted_by(l, train, objective) : NULL);
    for (uint32_t i = 0; ok && i < config->objectives.n; i++) {
        const DtObjective *one = &config->objectives.at[i];
        if (!objective || objective == one)
            ok = show(e, one->loss, loss_value(l, train, one), &shown);
    }
    for (uint32_t i = 0; ok && i < config->n_metrics; i++)
        if (!objective || objective == dt_train_always(config))
            ok = show(e, config->metrics[i], metric_value(l, config, i), &shown);
    if (ok)
        finish_entry(l, e, shown.n, shown.names);
    l->now = NULL;
}

/* ---- predict ---- */

static void return_model(DtLower *l, Entry *e, const DtDef *model, const DtVal *results)
{
    bool tuple = results->kind == DT_VAL_TUPLE;
    uint32_t n = tuple ? results->tuple.n : 1, made = 0;
    const char **names = DT_NEW_ARRAY(l->arena, const char *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const DtVal *v = tuple ? &results->tuple.at[i] : results;
        if (v->kind != DT_VAL_TENSOR)
            continue;
        names[made++] = dt_intern_printf("%s.%u", model->name.text, i);
        dt_graph_return(e->frame->func, dt_val_tensor(l, v));
    }
    if (!made)
        return;
    finish_entry(l, e, made, names);
    dt_graph_sweep(e->frame->func);
}

static void predict_train(DtLower *l, const DtItem *train)
{
    Entry *e = begin_entry(l, DT_ENTRY_PREDICT, NULL, false, train->span);
    l->wants_model = true;
    run_train(l, train, NULL);
    l->wants_model = false;
    if (l->has_model && !dt_val_is_error(&l->model_results))
        return_model(l, e, l->stop_at_model, &l->model_results);
    l->now = NULL;
}

static bool has_full_signature(const DtDef *def)
{
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtAstType *type = &def->formals.at[i].type;
        if (!type->has_axes)
            return false;
        for (uint32_t k = 0; k < type->axes.n; k++) {
            if (type->axes.at[k].name.text && type->axes.at[k].name.text[0] == '.')
                return false;
        }
    }
    return def->axes.n == 0;
}

/* Whether the definition's signature gives the extents of all its axes, without a call: each is a
 * dim or has its extent written. */
static bool has_extents(DtLower *l, const DtDef *def)
{
    for (uint32_t i = 0; i < def->formals.n; i++)
        for (uint32_t k = 0; k < def->formals.at[i].type.axes.n; k++) {
            const DtAstAxis *axis = &def->formals.at[i].type.axes.at[k];
            const DtGlobal *global = axis->name.text ? dt_scope_axis(l, axis->name.text) : NULL;
            if (!axis->extent && (!global || global->kind != DT_GLOBAL_DIM))
                return false;
        }
    return true;
}

static bool is_typed(const DtDef *def)
{
    return def->kind == DT_DEF_MODEL && has_full_signature(def);
}

static const DtDef *typed_model(const DtLower *l)
{
    const DtDef *of_library = NULL;
    for (uint32_t i = 0; i < l->items.n; i++) {
        const DtItem *item = l->items.at[i];
        if (item->kind != DT_ITEM_DEF || !item->def || !is_typed(item->def))
            continue;
        if (!dt_scope_in_library(l, item->def->span))
            return item->def;
        of_library = of_library ? of_library : item->def;
    }
    return of_library;
}

/* Lowers a model without a train block as entry "predict", whose inputs are the model's arguments.
 * training: as in training. */
static void predict_model(DtLower *l, const DtDef *def, bool training)
{
    Entry *e = begin_entry(l, DT_ENTRY_PREDICT, NULL, training, def->span);
    DtBound *bound = DT_NEW_ARRAY(l->arena, DtBound, def->formals.n + 1);
    DtExpr *call = DT_NEW(l->arena, DtExpr);
    *call = (DtExpr){.kind = DT_EXPR_NAME, .span = def->name.span, .name = def->name};
    DtFunction function = {.def = def, .span = def->name.span};
    bool ok = true;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtFormal *formal = &def->formals.at[i];
        const DtType *type = formal->name.text ? input_type(l, &formal->type, formal->span) : NULL;
        ok &= type != NULL;
        if (!type)
            continue;
        e->frame->b.span = formal->span;
        DtValue *value = dt_graph_source(&e->frame->b, DT_OP_INPUT, type, formal->name.text, NULL);
        bound[i] = (DtBound){.val = dt_val_of(l, value, false), .given = true};
    }
    DtVal made = ok ? dt_call_instance(l, &function) : dt_val_error();
    if (!dt_val_is_error(&made)) {
        DtVal results = dt_memo_call(l, &function, made.instance, call, bound);
        if (!dt_val_is_error(&results))
            return_model(l, e, def, &results);
    }
    l->now = NULL;
}

/* ---- all of it ---- */

static const DtItem *host_library_block(void *context, DtItemKind kind, const char *name)
{
    return dt_scope_block(context, kind, name);
}

static bool host_in_library(void *context, DtSpan span)
{
    return dt_scope_in_library(context, span);
}

static bool host_constant(void *context, const DtExpr *expr, DtConfigNumber *ret_number)
{
    DtLower *l = context;
    DtActivation *now = l->now;
    l->now = NULL;
    DtVal v = dt_expr_eval(l, expr);
    l->now = now;
    double number;
    if (v.kind == DT_VAL_BOOL && ret_number->takes_truth) {
        *ret_number = (DtConfigNumber){.is_truth = true, .whole = v.whole};
        return true;
    }
    if (!dt_val_number_of(l, &v, expr, "this setting", &number))
        return false;
    *ret_number = (DtConfigNumber){.is_integer = v.kind == DT_VAL_INT,
                                   .whole = v.kind == DT_VAL_INT ? v.whole : 0,
                                   .number = number};
    return true;
}

static bool host_truth(void *context, const DtExpr *expr, bool *ret_truth)
{
    DtLower *l = context;
    DtActivation *now = l->now;
    l->now = NULL;
    bool good = dt_expr_truth(l, expr, "the condition of `if`", ret_truth);
    l->now = now;
    return good;
}

static void evaluate_dims(DtLower *l)
{
    for (uint32_t i = 0; i < l->globals.n; i++) {
        DtGlobal *global = l->globals.at[i];
        if (global->kind == DT_GLOBAL_CONSTANT && global->value)
            dt_scope_constant(l, global);
        if (global->kind != DT_GLOBAL_DIM || !(global->value || global->option))
            continue;
        DtDim dim = {.name = global->name,
                     .extent = dt_scope_extent(l, global),
                     .is_number = global->value && global->value->kind == DT_EXPR_INT,
                     .is_given = global->option != NULL};
        if (dim.extent > 0)
            DT_PUSH(l->arena, l->program->dims, dim);
    }
}

/* Whether the file may be meant to be included: it has a dim without extent, which the including
 * file or -D would give. */
static bool has_open_dims(const DtLower *l)
{
    for (uint32_t i = 0; i < l->globals.n; i++)
        if (l->globals.at[i]->kind == DT_GLOBAL_DIM && !l->globals.at[i]->value &&
            !l->globals.at[i]->option)
            return true;
    return false;
}

/* Checks layers and models that no call has reached by lowering each on its own, if its signature
 * is complete. What was lowered is discarded. This is done after errors, and in files without a
 * model. */
static void check_rest(DtLower *l)
{
    DtModule *module = l->module;
    uint32_t funcs = module->funcs.n, stores = module->stores.n, entries = module->entries.n;
    for (uint32_t i = 0; i < l->items.n && !l->gave_up; i++) {
        const DtDef *def = l->items.at[i]->kind == DT_ITEM_DEF ? l->items.at[i]->def : NULL;
        bool alone = def && def->kind != DT_DEF_FN && !dt_scope_in_library(l, def->span) &&
                     has_full_signature(def) && has_extents(l, def);
        for (uint32_t k = 0; alone && k < l->seen.n; k++)
            alone = l->seen.at[k] != def;
        if (alone)
            predict_model(l, def, false);
    }
    module->funcs.n = funcs;
    module->stores.n = stores;
    module->entries.n = entries;
}

/* Checks a model without a train block once more as in training (states are assigned, `training` is
 * true). What was lowered for that is discarded. */
static void check_training(DtLower *l, const DtDef *model)
{
    DtModule *module = l->module;
    uint32_t funcs = module->funcs.n, stores = module->stores.n, entries = module->entries.n;
    predict_model(l, model, true);
    module->funcs.n = funcs;
    module->stores.n = stores;
    module->entries.n = entries;
}

/* Returns the value of `average = ...` in the block; NULL: it has none. */
static const DtExpr *average_of(const DtItem *train)
{
    for (uint32_t i = 0; i < train->entries.n; i++) {
        const DtEntry *entry = train->entries.at[i];
        if (!entry->is_directive && entry->targets.n == 1 && entry->targets.at[0].name.text &&
            !strcmp(entry->targets.at[0].name.text, "average"))
            return entry->value;
    }
    return NULL;
}

static void lower_entries(DtLower *l, const DtItem *train)
{
    if (train) {
        l->average = average_of(train);
        uint32_t before = dt_diag_errors(l->diags);
        const DtTrainConfig *config = l->program->train;
        dt_adapt_read(l, train);
        for (uint32_t i = 0; i < config->objectives.n && dt_diag_errors(l->diags) == before; i++)
            lower_loss(l, train, &config->objectives.at[i]);
        if (dt_diag_errors(l->diags) == before)
            lower_loss(l, train, NULL);
        if (dt_diag_errors(l->diags) == before)
            predict_train(l, train);
        if (dt_diag_errors(l->diags) == before)
            dt_adapt_finish(l);
        if (dt_diag_errors(l->diags) == before)
            dt_merge_finish(l);
        if (dt_diag_errors(l->diags) == before)
            dt_groups_freeze(l);
        if (dt_diag_errors(l->diags) == before)
            dt_groups_quantize(l);
        if (dt_diag_errors(l->diags) == before && l->optimizers.n)
            dt_optimizer_lower(l);
        return;
    }
    const DtDef *model = typed_model(l);
    if (!model)
        return;
    predict_model(l, model, false);
    if (!dt_diag_errors(l->diags))
        check_training(l, model);
}

/* Lowers the program with another batch. NULL: that is an error, reported at the ramp. */
static const DtModule *with_batch(DtLower *l, const DtTrainConfig *train, const char *axis,
                                  int64_t batch)
{
    DtLowerOptions options = *l->options;
    DtOption *dims = DT_NEW_ARRAY(l->arena, DtOption, options.n_dims + 1);
    DtDiags *aside = dt_diag_new(l->arena);
    uint32_t n = 0;
    for (uint32_t i = 0; i < options.n_dims; i++)
        if (strcmp(options.dims[i].name, axis) != 0)
            dims[n++] = options.dims[i];
    dims[n++] = (DtOption){axis, dt_arena_printf(l->arena, "%lld", (long long)batch)};
    options.dims = dims;
    options.n_dims = n;
    options.rebatched = true;
    options.ret_ast = NULL;
    const DtGlobal *global = dt_scope_value(l, axis);
    const bool is_dim = global && global->kind == DT_GLOBAL_DIM;
    const DtProgram *program = is_dim ? dt_lower(l->arena, aside, &options) : NULL;
    if (!program)
        dt_diag_report(l->diags, E0485, train->ramp.span,
                       "what follows `%s` shows in a program with %lld of it, but %s", axis,
                       (long long)batch, is_dim ? dt_diag_first(aside).message : "it is no `dim`");
    return program ? program->module : NULL;
}

static void make_ramp(DtLower *l, DtTrainConfig *train)
{
    const DtAxis *axis = &train->readers.at[0].types[0]->axes[0];
    const DtModule *twice = with_batch(l, train, axis->name, 2 * axis->extent);
    const DtModule *few = twice ? with_batch(l, train, axis->name, train->ramp.from) : NULL;
    if (few)
        dt_ramp_make(l, train, twice, few);
}

static void share_batch(DtLower *l, const DtItem *train)
{
    const char *axis = dt_lowerreplicas_samples(l, train);
    DtGlobal *dim = axis && *axis ? dt_scope_value(l, axis) : NULL;
    if (axis)
        dt_lowerreplicas_share(l, axis, dim,
                               dim && dim->kind == DT_GLOBAL_DIM ? dt_scope_extent(l, dim) : -1);
}

/* Returns the options with the layout that the program chooses, as if it were named on the command
 * line. */
static const DtLowerOptions *choose_default(DtLower *l)
{
    DtLowerOptions *own = DT_NEW(l->arena, DtLowerOptions);
    *own = *l->options;
    own->parallel =
        dt_configset_default(l->diags, (DtConfigItems){.at = l->items.at, .n = l->items.n});
    return own;
}

DtProgram *dt_lower(DtArena *arena, DtDiags *diags, const DtLowerOptions *options)
{
    DtLower *l = DT_NEW(arena, DtLower);
    *l = (DtLower){.arena = arena,
                   .diags = diags,
                   .options = options,
                   .compute = DT_F32,
                   .params = DT_F32,
                   .store_at.arena = arena,
                   .assigned_at.arena = arena,
                   .taken.arena = arena};
    l->program = DT_NEW(arena, DtProgram);
    l->program->module = l->module = dt_graph_module(arena, diags);
    for (uint32_t i = 0; i < options->n_streams; i++)
        DT_PUSH(arena, l->module->streamed, options->streams[i]);
    dt_scope_load(l);
    if (dt_diag_errors(diags))
        return NULL;
    if (!options->parallel)
        l->options = options = choose_default(l);
    DtItem *made = dt_configset_auto(arena, diags, options,
                                     (DtConfigItems){.at = l->items.at, .n = l->items.n});
    if (made)
        DT_PUSH(arena, l->items, made);
    DtConfigItems items = {.at = l->items.at, .n = l->items.n};
    DtConfigHost host = {.arena = arena,
                         .diags = diags,
                         .options = options,
                         .context = l,
                         .constant = host_constant,
                         .truth = host_truth,
                         .is_optimizer = dt_optimizer_is_call,
                         .in_library = host_in_library,
                         .library_block = host_library_block,
                         .program = l->program,
                         .items = l->items.at,
                         .n_items = l->items.n};
    dt_configset_apply(arena, diags, options, items);
    if (options->resize)
        dt_configresize_apply(arena, options->resize, items);
    const DtItem *train = NULL;
    dt_configblocks_read(&host, items, l->program, &train, &l->optimizers);
    share_batch(l, train);
    bool fragment = !train && !typed_model(l); /* a file to be included may use dims of the
                                                * including file */
    if (!fragment)
        evaluate_dims(l);
    if (l->program->train) {
        l->compute = l->program->train->precision.compute;
        l->params = l->program->train->precision.params;
        l->program->train->is_smaller = options->smaller;
    }
    lower_entries(l, train);
    if (train && !l->module->entries.n && !dt_diag_errors(diags))
        DT_BUG("the train block was not lowered, and no diagnostic says why");
    if (dt_diag_errors(diags) || (fragment && !has_open_dims(l)))
        check_rest(l);
    if (fragment)
        dt_alone_check(l);
    dt_names_check(l);
    if (!fragment && !dt_diag_errors(diags)) { /* with errors, names often only seem unused */
        dt_lint_unused(l);
        dt_unread_lint_values(l);
        dt_unread_lint_params(l, train);
    }
    if (dt_diag_errors(diags))
        return NULL;
    if (options->rebatched) /* compared as lowered: its batch need not fit the layout */
        return l->program;
    dt_configcheck_program(&host, items, l->program);
    DtTrainConfig *chosen = l->program->train;
    const DtEntryPoint *eval = dt_entry_whole(l->module, DT_ENTRY_EVAL, NULL);
    const bool grows = chosen && chosen->ramp.by && chosen->ramp.from < dt_train_batch(chosen);
    if (grows && chosen->readers.n && !dt_diag_errors(diags))
        make_ramp(l, chosen);
    dt_lowerreplicas_check(l);
    if (chosen && !dt_diag_errors(diags))
        dt_shown_make(l, chosen);
    if (chosen && chosen->eval_readers.n && eval)
        chosen->eval_rest = dt_samples_add_up(eval->func);
    dt_lowerreplicas_read_all(l->program);
    return dt_diag_errors(diags) ? NULL : l->program;
}
