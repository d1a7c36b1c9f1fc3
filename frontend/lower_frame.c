/* SPDX-License-Identifier: Apache-2.0 */
/* IR functions under construction. Inputs are found while the body is evaluated: arguments
 * first, then values captured from enclosing functions, then the elements that a loop takes, then
 * parameters; dt_frame_finish puts them in this order.
 *
 * A parameter lives in the function of the layer that declares it and, with the labels of
 * instances and loops before its path, in every function around it up to the entry function,
 * where it is a store. */
#include "frontend/lower_internal.h"

#include "base/bug.h"
#include "base/intern.h"

#include <string.h>

DtFrame *dt_frame_new(DtLower *l, DtFrame *parent, const char *name, DtFuncKind kind, DtSpan span)
{
    DtFrame *frame = DT_NEW(l->arena, DtFrame);
    frame->parent = parent;
    frame->func = dt_graph_func(l->module, name, kind);
    frame->func->span = span;
    frame->b = (DtBuilder){.func = frame->func, .span = span};
    frame->is_entry = kind == DT_FUNC_ENTRY;
    frame->is_loop = kind == DT_FUNC_BODY;
    frame->random = frame->is_loop ? parent->random : frame;
    frame->prefix = "";
    frame->where = frame->is_entry ? "" : NULL;
    frame->capture_at.arena = frame->param_at.arena = frame->label_at.arena = l->arena;
    return frame;
}

DtValue *dt_frame_input(DtLower *l, DtFrame *frame, const DtType *type, const char *name)
{
    DtValue *value = DT_NEW(l->arena, DtValue);
    *value = (DtValue){.type = type, .name = name, .id = frame->func->n_values++};
    return value;
}

DtValue *dt_frame_arg(DtLower *l, DtFrame *frame, const DtType *type, const char *name)
{
    DtValue *value = dt_frame_input(l, frame, type, name);
    DT_PUSH(l->arena, frame->args, value);
    return value;
}

DtVal dt_frame_args(DtLower *l, DtFrame *frame, const DtVal *v, const char *name)
{
    if (v->kind == DT_VAL_TENSOR)
        return dt_val_of(l, dt_frame_arg(l, frame, v->tensor.value->type, name), v->weak);
    if (v->kind != DT_VAL_TUPLE)
        return *v;
    DtVal *items = DT_NEW_ARRAY(l->arena, DtVal, v->tuple.n + 1);
    for (uint32_t i = 0; i < v->tuple.n; i++)
        items[i] = dt_frame_args(l, frame, &v->tuple.at[i], name);
    return dt_val_tuple(l, items, v->tuple.n);
}

/* Returns 1 + the number that the map has for a key; 0 if it has none. */
static uint32_t number_of(const DtMap *map, const void *key)
{
    return (uint32_t)(uintptr_t)dt_map_find_pointer(map, key);
}

static void set_number(DtMap *map, const void *key, uint32_t number)
{
    dt_map_add_pointer(map, key, (void *)(uintptr_t)number);
}

/* ---- captures ---- */

/* Appends a constant or iota to the frame again, instead of capturing it from an outer frame; NULL
 * if the value is neither. */
static DtValue *remake(DtFrame *frame, const DtValue *value)
{
    const DtOp *op = value->op;
    if (op && op->kind == DT_OP_CONST)
        return dt_graph_constant(&frame->b, value->type->dtype, op->number);
    if (op && op->kind == DT_OP_IOTA)
        return dt_graph_iota(&frame->b, value->type->axes[0]);
    return NULL;
}

DtValue *dt_frame_import(DtLower *l, DtFrame *frame, DtValue *value, DtFrame *home)
{
    if (frame == home)
        return value;
    DtValue *made = remake(frame, value);
    if (made)
        return made;
    if (!frame->parent)
        DT_BUG("`%s` uses a value of `%s`, which does not enclose it", frame->func->name,
               home->func->name);
    if (home == l->scalars && value->type->dtype != DT_F32) { /* scalars of the step are f32 */
        DtValue *number = dt_frame_import(l, frame, dt_graph_cast(&home->b, value, DT_F32), home);
        return dt_graph_cast(&frame->b, number, value->type->dtype);
    }
    const uint32_t known = number_of(&frame->capture_at, value);
    if (known)
        return frame->captures.at[known - 1].inner;
    DtValue *inner = dt_frame_input(l, frame, value->type, value->name);
    DtCapture capture = {.outer = value, .inner = inner, .frame = home};
    DT_PUSH(l->arena, frame->captures, capture);
    set_number(&frame->capture_at, value, frame->captures.n);
    return inner;
}

/* ---- parameters ---- */

static int32_t same_param(DtLower *l, const DtFrameParam *old, int32_t index,
                          const DtFormalParam *formal, const DtType *type, const DtInstance *owner)
{
    if (old->owner != owner || !owner) {
        DtDiag *d = dt_report_error(l, E0212, formal->span, "the parameter `%s` is declared twice",
                                    formal->path);
        dt_diag_label(d, old->formal.span, "first declared here");
        if (old->formal.span.file == formal->span.file && old->formal.span.lo == formal->span.lo)
            dt_report_calls(l, d, formal->span); /* one line that two calls reach */
        return -1;
    }
    if (old->value->type != type) {
        DtDiag *d = dt_report_error(l, E0212, l->now->frame->b.span,
                                    "two calls of `%s` need different types of its parameter `%s`",
                                    owner->label.text, formal->path);
        dt_diag_label(d, owner->span, "one instance has one set of parameters");
        dt_diag_note(d, "%s%s in the first call, %s%s in this one",
                     dt_dtype_name(old->value->type->dtype),
                     dt_report_axes(l, old->value->type, true), dt_dtype_name(type->dtype),
                     dt_report_axes(l, type, true));
        dt_diag_help(d, "make a second instance, with a label of its own");
        return -1;
    }
    return index;
}

/* Reports that the program grows too large (nested calls or instances can make 2^30 of them in a
 * few lines) and sets l->gave_up. Returns false. */
static bool grows_too_large(DtLower *l, DtSpan span, const char *why, int most, const char *instead)
{
    if (!l->gave_up) {
        DtDiag *d = dt_report_error(l, E0219, span, "the program grows too large here");
        dt_diag_note(d, "%s make more than %d %s", why, most, instead);
    }
    l->gave_up = true;
    return false;
}

bool dt_frame_calls(DtLower *l, DtFrame *frame, uint64_t n, DtSpan span)
{
    /* in entries all calls are inlined */
    uint64_t *called = frame->is_entry ? &l->called : &frame->called;
    *called += n;
    return *called <= DT_LOWER_OPS ||
           grows_too_large(l, span, "calls of what calls", DT_LOWER_OPS,
                           "operations; a loop over a dim is computed from one body");
}

static bool may_add_param(DtLower *l, const DtFrame *frame, DtSpan span)
{
    return frame->params.n < DT_LOWER_PARAMS ||
           grows_too_large(l, span, "instances", DT_LOWER_PARAMS,
                           "parameters and states of it; a loop over a dim has one of each");
}

int32_t dt_frame_param(DtLower *l, DtFrame *frame, DtFormalParam formal, const DtType *type,
                       const DtInstance *owner)
{
    formal.path = dt_intern(formal.path);
    formal.pattern = dt_intern(formal.pattern);
    const int32_t index = (int32_t)number_of(&frame->param_at, formal.path) - 1;
    if (index >= 0)
        return same_param(l, &frame->params.at[index], index, &formal, type, owner);
    if (!may_add_param(l, frame, owner ? owner->span : formal.span))
        return -1;
    DtFrameParam param = {.formal = formal, .owner = owner};
    if (frame->is_entry) {
        param.store = dt_lower_store(l, &formal, type);
        if (!param.store)
            return -1;
        DtSpan span = frame->b.span;
        const char *path = frame->b.path;
        frame->b.span = formal.span;
        frame->b.path = NULL;
        param.value = dt_graph_source(&frame->b, DT_OP_PARAM, type, formal.path, param.store);
        frame->b.span = span;
        frame->b.path = path;
    } else {
        param.value = dt_frame_input(l, frame, type, formal.path);
    }
    DT_PUSH(l->arena, frame->params, param);
    set_number(&frame->param_at, formal.path, frame->params.n);
    return (int32_t)frame->params.n - 1;
}

const DtFrameParam *dt_frame_find(const DtFrame *frame, const char *path)
{
    const uint32_t number = number_of(&frame->param_at, dt_intern(path));
    return number ? &frame->params.at[number - 1] : NULL;
}

/* Adds a fix that puts a label in front of the layer's name, or in place of the present label. */
static void suggest_label(DtLower *l, DtDiag *d, DtName label, DtLabelKind kind)
{
    DtSpan at = label.span;
    if (kind == DT_LABEL_DEFAULT)
        at.hi = at.lo;
    const char *colon = kind == DT_LABEL_DEFAULT ? ":" : "";
    if (kind != DT_LABEL_LOOP && !dt_scope_in_library(l, at))
        dt_diag_fix(d, at, dt_arena_printf(l->arena, "%s2%s", label.text, colon),
                    "give this one its own label");
    if (kind != DT_LABEL_LOOP)
        dt_diag_help(d,
                     "to use the same parameters twice, make the instance once (`f = %s:...`) and "
                     "call `f`",
                     label.text);
}

bool dt_frame_label(DtLower *l, DtFrame *frame, const char *path, DtName label, DtLabelKind kind)
{
    path = dt_intern(path);
    const uint32_t known = number_of(&frame->label_at, path);
    if (known) {
        DtDiag *d =
            dt_report_error(l, E0207, label.span, "two %s are called `%s` here",
                            kind == DT_LABEL_LOOP ? "loops or instances" : "instances", path);
        dt_diag_label(d, frame->labels.at[known - 1].span, "the first one");
        dt_diag_note(
            d, "a label is part of the names of parameters, so it must be unique in its layer");
        suggest_label(l, d, label, kind);
        return false;
    }
    DtLabel entry = {.path = path, .span = label.span};
    DT_PUSH(l->arena, frame->labels, entry);
    set_number(&frame->label_at, path, frame->labels.n);
    return true;
}

void dt_frame_write(DtLower *l, DtFrame *frame, uint32_t param, DtValue *value, DtSpan span)
{
    DtFrameParam *p = &frame->params.at[param];
    if (p->new_value) {
        DtDiag *d = dt_report_error(l, E0217, span, "the state `%s` is assigned twice in one step",
                                    p->formal.path);
        dt_diag_label(d, p->written, "first assigned here");
        dt_diag_note(
            d, "a state has one new value per step: reads see the old one until the step is over");
        return;
    }
    p->new_value = value;
    p->written = span;
}

/* ---- the end ---- */

static void push_input(DtLower *l, DtFunc *func, DtValue *value)
{
    value->index = func->inputs.n;
    DT_PUSH(l->arena, func->inputs, value);
}

void dt_frame_finish(DtLower *l, DtFrame *frame)
{
    DtFunc *func = frame->func;
    for (uint32_t i = 0; i < frame->args.n; i++)
        push_input(l, func, frame->args.at[i]);
    for (uint32_t i = 0; i < frame->captures.n; i++)
        push_input(l, func, frame->captures.at[i].inner);
    for (uint32_t i = 0; i < frame->elements.n; i++)
        push_input(l, func, frame->elements.at[i].inner);
    func->n_args = func->inputs.n;
    func->n_returns = func->results.n;
    for (uint32_t i = 0; i < frame->params.n; i++) {
        const DtFrameParam *p = &frame->params.at[i];
        if (!frame->is_entry) {
            push_input(l, func, p->value);
            DT_PUSH(l->arena, func->params, p->formal);
        }
        if (!p->new_value)
            continue;
        if (frame->is_entry)
            DT_PUSH(l->arena, func->results, p->new_value);
        else
            dt_graph_write(func, i, p->new_value);
    }
    if (frame->is_entry) /* an entry does not distinguish results for metrics from those for
                          * stores */
        func->n_returns = func->results.n;
}

/* Returns the prefix of random sites in the train block, in models that it calls, and in rules of
 * its optimizers, which have no path: "train." for the block, the model's name for every model but
 * the first, "update." and the parameter's path for a rule. So they do not draw the same
 * numbers. */
static const char *site_home(DtLower *l, const DtFrame *layer)
{
    if (layer->is_rule)
        return dt_intern_printf("update.%s.", l->updated ? l->updated->path : "");
    if (layer->is_entry)
        return "train.";
    if (layer->func->kind != DT_FUNC_MODEL)
        return "";
    if (!l->first_model)
        l->first_model = layer->def;
    return layer->def == l->first_model ? "" : dt_intern_printf("%s.", layer->def->name.text);
}

const char *dt_frame_site(DtLower *l, DtFrame *frame, const char *op)
{
    return dt_intern_printf("%s%s%s#%u", site_home(l, frame->random), frame->prefix, op,
                            frame->random->n_random++);
}
