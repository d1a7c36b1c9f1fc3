/* SPDX-License-Identifier: Apache-2.0 */
/* Checks definitions of a file without a model, a library, without a call. It invents the call:
 * an axis parameter becomes a new axis, `...` another, a dim without extent and an `axis` get
 * extents, and an argument without axes is a number or a tensor. A definition may need more than
 * is known of it here: a size that is a multiple of 32, or `...` that contains `batch`. So
 * several such calls are tried, and one without errors is enough. If each has some, the errors
 * that all of them have, and that no size or argument can avoid, are the definition's own. If
 * there are none, a lint says that it was not checked, and why. An `fn` with states, or that
 * uses `rank`, is an optimizer or helps one: it is called as one, for parameters of several
 * ranks. */
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <string.h>

typedef enum Rest { REST_NEW, REST_NONE, REST_DIMS, REST_COUNT } Rest;
typedef enum Roles { ROLES_MIXED, ROLES_AXES, ROLES_DIMS, ROLES_COUNT } Roles;
typedef enum Bare { BARE_DISTINCT, BARE_ONE, BARE_NUMBER, BARE_TENSOR, BARE_COUNT } Bare;

typedef enum Sizes { SIZES_ODD, SIZES_64, SIZES_840, SIZES_NESTED, SIZES_COUNT } Sizes;

/* A definition that nothing calls is checked by calls with invented arguments; this is one of
 * them. */
typedef struct Try {
    const DtDef *def;
    Sizes sizes; /* invented extents: odd numbers; the same times 64; times 840. Each divides the
                  * next */
    Rest rest;   /* what `...` matches: a new axis; nothing; the dims of the file */
    Roles roles; /* axis parameters stand for: dims that no argument has; any axes; any dims */
    Bare bare;   /* arguments without axes or default are: 3, 5, ...; 1; f32[]; f32 with all axes
                  * that are known */
    int64_t rank; /* rank of the parameter, if the definition is called as an optimizer; 0: it is
                   * not */
    uint32_t n_extents;
    DtAxisLists axes;
    DtAxisNames sight;
    DtAxis rest_axes[DT_MAX_RANK];
    uint32_t n_rest;
    DT_VEC(DtAxis) own; /* extents given to `axis` names of the signature */
    DtText text;        /* invented values: "a = 3, b = 5" */
} Try;

/* Returns another invented extent at each call: 3, 5, 7 ... times a factor; or 4096, 2048, 1024
 * ... */
static int64_t next_extent(Try *t)
{
    static const int64_t factors[] = {[SIZES_ODD] = 1, [SIZES_64] = 64, [SIZES_840] = 840};
    uint32_t i = t->n_extents++;
    return t->sizes == SIZES_NESTED ? (i < 12 ? 4096 >> i : 1)
                                    : (3 + 2 * (int64_t)i) * factors[t->sizes];
}

static void say(Try *t, const char *name, int64_t extent)
{
    dt_text_printf(&t->text, "%s%s = %lld", t->text.len ? ", " : "", name, (long long)extent);
}

static bool is_ellipsis(const DtAstAxis *axis)
{
    return axis->name.text && !strcmp(axis->name.text, "...");
}

/* ---- inventing a call ---- */

static bool in_arguments(const DtDef *def, const char *name)
{
    for (uint32_t i = 0; i < def->formals.n; i++)
        for (uint32_t k = 0; k < def->formals.at[i].type.axes.n; k++)
            if (def->formals.at[i].type.axes.at[k].name.text == name)
                return true;
    return false;
}

/* Adds a new axis or dim, with a name that no file uses, until the call is over; returns the name.
 * ret_extent: its invented extent. */
static const char *new_axis(DtLower *l, Try *t, const char *name, bool is_dim, int64_t *ret_extent)
{
    while (dt_scope_axis(l, name))
        name = dt_intern_printf("%s'", name);
    *ret_extent = next_extent(t);
    DtGlobal *global = DT_NEW(l->arena, DtGlobal);
    *global = (DtGlobal){.kind = is_dim ? DT_GLOBAL_DIM : DT_GLOBAL_AXIS,
                         .name = name,
                         .span = t->def->name.span,
                         .state = 2,
                         .extent = *ret_extent,
                         .used = true};
    DT_PUSH(l->arena, l->made_up, global);
    DtAxis axis = {.name = name, .extent = *ret_extent};
    DT_PUSH(l->arena, t->own, axis);
    say(t, name, *ret_extent);
    return name;
}

static void make_axes(DtLower *l, Try *t)
{
    for (uint32_t i = 0; i < t->def->axes.n; i++) {
        DtName name = t->def->axes.at[i];
        bool dim =
            t->roles == ROLES_DIMS || (t->roles == ROLES_MIXED && !in_arguments(t->def, name.text));
        int64_t extent;
        DtAxisList list = {.span = name.span};
        if (!name.text)
            name.text = "axis";
        DT_PUSH(l->arena, list.names, new_axis(l, t, dt_intern(name.text), dim, &extent));
        DT_PUSH(l->arena, t->axes, list);
        DT_PUSH(l->arena, t->sight, list.names.at[0]);
    }
}

static void make_dims(DtLower *l, Try *t)
{
    for (uint32_t i = 0; i < l->globals.n; i++) {
        DtGlobal *global = l->globals.at[i];
        if (global->kind != DT_GLOBAL_DIM || global->value || global->option)
            continue;
        global->state = 2;
        global->extent = next_extent(t);
        say(t, global->name, global->extent);
    }
}

/* Appends all dims of the program's files, for an argument that may have any axes. */
static void add_dims(DtLower *l, DtAxis *axes, uint32_t *n, uint32_t limit)
{
    for (uint32_t i = 0; i < l->globals.n && *n < limit; i++) {
        DtGlobal *global = l->globals.at[i];
        if (global->kind != DT_GLOBAL_DIM || global->is_library)
            continue;
        int64_t extent = dt_scope_extent(l, global);
        if (extent > 0)
            axes[(*n)++] = (DtAxis){.name = global->name, .extent = extent};
    }
}

static void make_rest(DtLower *l, Try *t)
{
    if (t->rest == REST_NEW) {
        int64_t extent;
        const char *name = new_axis(l, t, dt_intern("more"), false, &extent);
        t->rest_axes[t->n_rest++] = (DtAxis){.name = name, .extent = extent};
    } else if (t->rest == REST_DIMS) {
        add_dims(l, t->rest_axes, &t->n_rest, DT_MAX_RANK / 2);
    }
}

static int64_t own_extent(DtLower *l, Try *t, const char *name)
{
    const DtGlobal *global = dt_scope_axis(l, name);
    if (global && global->kind == DT_GLOBAL_DIM)
        return dt_scope_extent(l, dt_scope_axis(l, name));
    for (uint32_t i = 0; i < t->own.n; i++)
        if (t->own.at[i].name == name)
            return t->own.at[i].extent;
    DtAxis axis = {.name = name, .extent = next_extent(t)};
    DT_PUSH(l->arena, t->own, axis);
    say(t, name, axis.extent);
    return axis.extent;
}

static bool add_axis(DtAxis *axes, uint32_t *n, const char *name, int64_t extent)
{
    for (uint32_t i = 0; i < *n; i++)
        if (axes[i].name == name)
            return true; /* the signature names it twice; dt_bind_argument reports that */
    if (*n == DT_MAX_RANK || extent < 1)
        return false;
    axes[(*n)++] = (DtAxis){.name = name, .extent = extent};
    return true;
}

/* Returns the type of an argument of a signature, with invented extents; NULL after a report.
 * l->now has the definition and its axes. */
static const DtType *argument_type(DtLower *l, Try *t, const DtFormal *formal)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    bool ok = true, open = false;
    DtDtype dtype = DT_F32;
    if (formal->type.dtype && !dt_axes_dtype(l, &formal->type, &dtype))
        return NULL;
    for (uint32_t i = 0; i < formal->type.axes.n; i++) {
        const DtAstAxis *written = &formal->type.axes.at[i];
        DtAxisNames names = {0};
        open |= is_ellipsis(written);
        if (is_ellipsis(written))
            continue;
        if (!dt_axes_name(l, written->name, &names))
            return NULL;
        for (uint32_t k = 0; k < names.n; k++)
            ok &= add_axis(axes, &n, names.at[k],
                           written->extent ? dt_axes_written(l, written, &names)
                                           : own_extent(l, t, names.at[k]));
    }
    for (uint32_t i = 0; open && i < t->n_rest; i++)
        ok &= add_axis(axes, &n, t->rest_axes[i].name, t->rest_axes[i].extent);
    return ok ? dt_axes_type(l, formal->span, dtype, n, axes) : NULL;
}

/* Invents an argument whose formal has no axes, as t->bare says; false if the formal has a default,
 * which is used instead. */
static bool bare_argument(DtLower *l, Try *t, const DtFormal *formal, DtBuilder *b, DtVal *ret_val)
{
    if (formal->init)
        return false;
    if (t->bare == BARE_DISTINCT || t->bare == BARE_ONE) {
        int64_t whole = t->bare == BARE_ONE ? 1 : 3 + 2 * (int64_t)t->n_extents++;
        *ret_val = dt_val_int(whole);
        say(t, formal->name.text, whole);
        return true;
    }
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; t->bare == BARE_TENSOR && i < t->sight.n; i++)
        add_axis(axes, &n, t->sight.at[i], own_extent(l, t, t->sight.at[i]));
    for (uint32_t i = 0; t->bare == BARE_TENSOR && i < t->n_rest; i++)
        add_axis(axes, &n, t->rest_axes[i].name, t->rest_axes[i].extent);
    DtDtype dtype = DT_F32;
    if (formal->type.dtype && !dt_axes_dtype(l, &formal->type, &dtype))
        return false;
    const DtType *type = dt_axes_type(l, formal->span, dtype, n, axes);
    if (type)
        *ret_val =
            dt_val_of(l, dt_graph_source(b, DT_OP_INPUT, type, formal->name.text, NULL), false);
    dt_text_printf(&t->text, "%s%s a tensor", t->text.len ? ", " : "", formal->name.text);
    return type != NULL;
}

/* ---- one call ---- */

static void call(DtLower *l, Try *t, bool training)
{
    const DtDef *def = t->def;
    DtFrame *frame =
        dt_frame_new(l, NULL, "predict", t->rank ? DT_FUNC_LAYER : DT_FUNC_ENTRY, def->span);
    frame->is_rule = t->rank && (dt_optimizer_may_be(def) || dt_optimizer_is_exchange(def));
    DtScope scope = {.frame = frame};
    DtActivation train = {.scope = &scope, .frame = frame};
    DtActivation inside = {.caller = &train, .def = def, .scope = &scope, .frame = frame,
                           .axes = t->axes};
    DtBound *bound = DT_NEW_ARRAY(l->arena, DtBound, def->formals.n + 1);
    bool ok = true;
    l->training = training;
    l->now = &inside;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtFormal *formal = &def->formals.at[i];
        frame->b.span = formal->span;
        if (!formal->name.text)
            continue;
        if (!formal->type.has_axes) {
            bound[i].given = bare_argument(l, t, formal, &frame->b, &bound[i].val);
            ok &= bound[i].given || formal->init;
            continue;
        }
        const DtType *type = argument_type(l, t, formal);
        ok &= type != NULL;
        if (!type)
            continue;
        DtValue *value =
            t->rank ? dt_frame_arg(l, frame, type, formal->name.text)
                    : dt_graph_source(&frame->b, DT_OP_INPUT, type, formal->name.text, NULL);
        bound[i] = (DtBound){.val = dt_val_of(l, value, false), .given = true};
    }
    l->now = &train;
    DtExpr *nowhere = DT_NEW(l->arena, DtExpr);
    *nowhere = (DtExpr){.kind = DT_EXPR_NAME, .name = def->name};
    DtFunction function = {.def = def, .axes = t->axes, .has_axes = t->axes.n > 0,
                           .span = def->name.span};
    DtInstance *instance = NULL;
    if (ok && def->kind != DT_DEF_FN) {
        DtVal made = dt_call_instance(l, &function);
        ok = !dt_val_is_error(&made);
        instance = made.instance;
    }
    l->rank = t->rank ? &t->rank : NULL;
    if (ok)
        dt_memo_call(l, &function, instance, nowhere, bound);
    l->rank = NULL;
    l->now = NULL;
}

/* Lowers the call, with its diagnostics in `aside`, and then restores the state from before.
 * Returns whether the call has no errors. */
static bool try_call(DtLower *l, Try *t, DtDiags *aside)
{
    DtModule *module = l->module;
    DtDiags *diags = l->diags;
    uint32_t funcs = module->funcs.n, stores = module->stores.n, memos = l->memos.n,
             seen = l->seen.n;
    DtGlobal *before = DT_NEW_ARRAY(l->arena, DtGlobal, l->globals.n + 1);
    for (uint32_t i = 0; i < l->globals.n; i++)
        before[i] = *l->globals.at[i];
    l->diags = aside;
    make_dims(l, t);
    make_axes(l, t);
    make_rest(l, t);
    for (int training = 0; training < 2 && !dt_diag_errors(aside); training++) {
        l->store_at = (DtMap){.arena = l->arena};
        call(l, t, training);
    }
    l->diags = diags;
    l->store_at = (DtMap){.arena = l->arena};
    l->made_up.n = 0;
    for (uint32_t i = 0; i < l->globals.n; i++)
        *l->globals.at[i] = before[i];
    module->funcs.n = funcs, module->stores.n = stores, l->memos.n = memos, l->seen.n = seen;
    return !dt_diag_errors(aside);
}

/* ---- the verdict ---- */

/* Whether an error of this kind may depend on extents, or on arguments of which the signature says
 * nothing. */
static bool depends(const DtDef *def, DtDiagCode code)
{
    static const DtDiagCode extents[] = {E0303, E0306, E0308, E0309, E0310, E0312, E0313, E0315};
    static const DtDiagCode arguments[] = {E0204, E0205, E0206, E0401, E0402, E0403, E0404, E0405};
    bool open = false;
    for (uint32_t i = 0; i < def->formals.n; i++)
        open |= !def->formals.at[i].type.has_axes && !def->formals.at[i].init;
    for (size_t i = 0; i < DT_COUNT(extents); i++)
        if (code == extents[i])
            return true;
    for (size_t i = 0; open && i < DT_COUNT(arguments); i++)
        if (code == arguments[i])
            return true;
    return false;
}

/* Whether the call was impossible: its only errors are that an axis parameter has no extent, or
 * that an argument must be a constant. Such a try says nothing about the definition. */
static bool is_impossible(const Try *t, const DtDiags *aside)
{
    return (t->roles == ROLES_AXES && t->def->axes.n && dt_diag_only(aside, E0307)) ||
           (t->bare >= BARE_NUMBER && dt_diag_only(aside, E0401));
}

/* Whether this combination of inventions differs from others for this definition: it has what they
 * are about (`...`, arguments without axes, axis parameters). */
static bool makes_sense(const Try *t)
{
    const DtDef *def = t->def;
    bool ellipsis = false, bare = false;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtAstType *type = &def->formals.at[i].type;
        for (uint32_t k = 0; k < type->axes.n; k++)
            ellipsis |= is_ellipsis(&type->axes.at[k]);
        bare |= !type->has_axes && !def->formals.at[i].init;
    }
    return (ellipsis || bare || t->rest == REST_NEW) && (bare || t->bare == BARE_DISTINCT) &&
           (def->axes.n || t->roles == ROLES_MIXED);
}

static void not_checked(DtLower *l, const DtDef *def, const char *made_up, const DtDiags *first)
{
    DtDiagFirst why = dt_diag_first(first);
    DtDiag *d = dt_diag_report(l->diags, L0207, def->name.span,
                               "`%s` is not checked beyond its names", def->name.text);
    dt_diag_label(d, why.span, "%s", why.message);
    if (*made_up)
        dt_diag_note(d, "tried with %s, and other sizes and arguments, each of which it excludes",
                     made_up);
    dt_diag_help(d, "a program that calls it checks it, with the axes and arguments of the call");
}

/* Reports those errors of a call with invented arguments that do not depend on the invention, as
 * errors of the definition. Returns their number. */
static uint32_t take(DtLower *l, const DtDef *def, const char *made_up, const DtDiags *from)
{
    const char *in = dt_arena_printf(l->arena, "in `%s`, which nothing calls", def->name.text);
    const char *tried = *made_up ? dt_arena_printf(l->arena, "%s; tried with %s", in, made_up) : in;
    uint32_t taken = 0;
    for (DtDiagCode code = 0; code < DT_DIAG_COUNT; code++)
        if (!depends(def, code))
            taken += dt_diag_take(l->diags, from, code, code < E0301 ? in : tried);
    if (taken)
        DT_PUSH(l->arena, l->seen, def);
    return taken;
}

/* A try without errors has checked only one branch of each `if` on sizes. Repeats it with other
 * sizes; if all of these fail, their errors count. */
static void check_other_sizes(DtLower *l, const Try *good)
{
    for (Sizes sizes = 0; sizes < SIZES_COUNT && !l->gave_up; sizes++) {
        Try t = {.def = good->def, .sizes = sizes, .rest = good->rest, .roles = good->roles,
                 .bare = good->bare, .rank = good->rank};
        DtDiags *aside = dt_diag_aside(l->diags);
        bool ok = sizes == good->sizes || try_call(l, &t, aside);
        bool own = !ok;
        for (DtDiagCode code = 0; own && code < DT_DIAG_COUNT; code++)
            own = !depends(t.def, code) || !dt_diag_has(aside, code);
        if (own)
            take(l, t.def, t.text.at ? t.text.at : "", aside);
        dt_text_free(&t.text);
    }
}

/* What all calls of a definition with invented arguments have shown. */
typedef struct Tries {
    DtDiags *common, *first; /* common: errors that all possible tries have; first: errors of the
                              * first one */
    const char *made_up;     /* invented values of the first one */
} Tries;

/* Calls the definition with all combinations of invented arguments that differ, until one call has
 * no errors (returns true). tries: what they have shown. */
static bool try_all(DtLower *l, const DtDef *def, int64_t rank, Tries *tries)
{
    for (uint32_t i = 0; i < SIZES_COUNT * REST_COUNT * ROLES_COUNT * BARE_COUNT && !l->gave_up;
         i++) {
        Try t = {.def = def,
                 .bare = (Bare)(i % BARE_COUNT),
                 .roles = (Roles)(i / BARE_COUNT % ROLES_COUNT),
                 .rest = (Rest)(i / (BARE_COUNT * ROLES_COUNT) % REST_COUNT),
                 .sizes = (Sizes)(i / (BARE_COUNT * ROLES_COUNT * REST_COUNT)),
                 .rank = rank};
        if (!makes_sense(&t))
            continue;
        DtDiags *aside = dt_diag_aside(l->diags);
        bool good = try_call(l, &t, aside);
        if (!tries->first)
            tries->made_up = dt_arena_strndup(l->arena, t.text.at ? t.text.at : "", t.text.len);
        dt_text_free(&t.text);
        if (good) {
            check_other_sizes(l, &t);
            return true;
        }
        tries->first = tries->first ? tries->first : aside;
        if (is_impossible(&t, aside) && !l->gave_up)
            continue;
        tries->common = tries->common && !l->gave_up ? dt_diag_common(tries->common, aside) : aside;
    }
    return false;
}

static void check(DtLower *l, const DtDef *def)
{
    static const int64_t ranks[] = {2, 1, 3};
    Tries tries = {.made_up = ""};
    if (try_all(l, def, 0, &tries))
        return;
    bool updates = def->kind == DT_DEF_FN && tries.first &&
                   (dt_diag_has(tries.first, E0209) || dt_diag_has(tries.first, E0201));
    for (size_t i = 0; updates && i < DT_COUNT(ranks); i++)
        if (try_all(l, def, ranks[i], &tries))
            return;
    uint32_t taken = tries.common ? take(l, def, tries.made_up, tries.common) : 0;
    if (!taken)
        not_checked(l, def, tries.made_up, tries.first);
}

void dt_alone_check(DtLower *l)
{
    uint32_t seen = l->seen.n;
    for (uint32_t i = 0; i < l->items.n && !l->gave_up; i++) {
        const DtDef *def = l->items.at[i]->kind == DT_ITEM_DEF ? l->items.at[i]->def : NULL;
        bool wanted = def && def->span.file == l->files.at[0].file;
        for (uint32_t k = 0; wanted && k < seen; k++)
            wanted = l->seen.at[k] != def || def->axes.n;
        if (wanted)
            check(l, def);
    }
}
