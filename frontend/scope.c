/* SPDX-License-Identifier: Apache-2.0 */
/* Files and file-level names: reads the main file and what it includes, collects dims, constants,
 * axes and definitions (their order does not matter), applies -D, and evaluates dims and constants
 * when they are first needed. */
#include "frontend/lower_internal.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SOURCE = 64 << 20, MOST_LISTED = 100 };

static void load_file(DtLower *l, const char *path, DtSpan span, uint32_t depth);

/* ---- files ---- */

static const char *identity_of(const char *path)
{
    char *real = realpath(path, NULL);
    const char *identity = dt_intern(real ? real : path);
    free(real);
    return identity;
}

/* Returns the file that the options have with this path; NULL: they have none. */
static const DtSourceText *find_source(const DtLower *l, const char *path)
{
    const DtSourceTexts *sources = l->options->sources;
    for (uint32_t i = 0; sources && i < sources->n; i++)
        if (!strcmp(sources->at[i].path, path))
            return &sources->at[i];
    return NULL;
}

static bool read_source(DtLower *l, const char *path, char **ret_text, size_t *ret_len,
                        DtStatus *ret_status)
{
    const DtSourceText *source = find_source(l, path);
    if (!l->options->sources) {
        *ret_status = dt_file_read(l->arena, path, MAX_SOURCE, ret_text, ret_len);
        return dt_status_ok(ret_status);
    }
    *ret_status = source ? DT_OK : dt_status_fail(DT_EXIT_IO, "the plan does not hold it");
    if (source) {
        *ret_text = dt_arena_strndup(l->arena, source->text, source->len);
        *ret_len = source->len;
    }
    return source != NULL;
}

/* Keeps a copy of a file's text for the caller of dt_lower, under the name that messages use. */
static void keep_source(DtLower *l, const char *path, const char *text, size_t len)
{
    DtSourceTexts *kept = l->options->ret_sources;
    const DtSourceText *source = find_source(l, path);
    const char *library = l->options->library;
    const size_t n = library ? strlen(library) : 0;
    for (uint32_t i = 0; kept && i < kept->n; i++)
        if (!strcmp(kept->at[i].path, path))
            return;
    if (!kept)
        return;
    DtSourceText made = {.path = path, .name = path, .len = len,
                         .text = dt_arena_strndup(l->arena, text, len)};
    if (source) {
        made.name = source->name;
        made.is_library = source->is_library;
    } else if (n && !strncmp(path, library, n) && path[n] == '/') {
        made.name = path + n + 1;
        made.is_library = true;
    }
    DT_PUSH(l->arena, *kept, made);
}

static bool can_read(DtLower *l, const char *path, char **ret_text, size_t *ret_len,
                     DtStatus *ret_status)
{
    const DtLowerOptions *options = l->options;
    if (options->replaced && !strcmp(path, options->replaced)) {
        *ret_text = dt_arena_strndup(l->arena, options->text, options->text_len);
        *ret_len = options->text_len;
        *ret_status = DT_OK;
        return true;
    }
    if (!read_source(l, path, ret_text, ret_len, ret_status))
        return false;
    keep_source(l, path, *ret_text, *ret_len);
    return true;
}

static char *in_library(DtLower *l, const char *name)
{
    return l->options->library ? dt_arena_printf(l->arena, "%s/%s", l->options->library, name)
                               : NULL;
}

static bool is_in_library(DtLower *l, const char *path)
{
    const DtSourceText *source = find_source(l, path);
    if (source || !l->options->library)
        return source && source->is_library;
    const char *folder = identity_of(l->options->library), *file = identity_of(path);
    size_t len = strlen(folder);
    return !strncmp(file, folder, len) && file[len] == '/';
}

static const char *path_of(const DtLower *l, uint32_t file)
{
    for (uint32_t i = 0; i < l->files.n; i++) {
        if (l->files.at[i].file == file)
            return l->files.at[i].path;
    }
    return dt_diag_path(l->diags, file);
}

/* Returns the path under which messages show a file: files of the library by their name in it,
 * wherever the compiler is installed. */
static const char *shown_path(const DtLower *l, const char *path, const char *identity,
                              bool is_library)
{
    const DtSourceText *source = find_source(l, path);
    if (source)
        return source->name;
    return is_library ? identity + strlen(identity_of(l->options->library)) + 1 : path;
}

/* Returns the name of a file without its folder and without `.dsl`. */
static const char *stem_of(DtLower *l, const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const size_t len = strlen(base);
    const bool ends = len > 4 && !strcmp(base + len - 4, ".dsl");
    return dt_arena_strndup(l->arena, base, ends ? len - 4 : len);
}

/* Returns the file of the library whose name is nearest to a misspelt one, wherever the library has
 * it; NULL if none is near. */
static const char *near_library_file(DtLower *l, const char *name)
{
    const char *files[MOST_LISTED] = {"std.dsl", "training.dsl"}, *stems[MOST_LISTED];
    size_t n = 2;
    struct dirent **list = NULL;
    const char *folder = in_library(l, "models");
    const int found = folder ? scandir(folder, &list, NULL, alphasort) : 0;
    for (int i = 0; i < found; i++) {
        if (*list[i]->d_name != '.' && n < MOST_LISTED)
            files[n++] = dt_arena_printf(l->arena, "models/%s", list[i]->d_name);
        free(list[i]);
    }
    free(list);
    if (!strncmp(name, "std", 3))
        return files[0];
    for (size_t i = 0; i < n; i++)
        stems[i] = stem_of(l, files[i]);
    const char *near = dt_text_nearest(stem_of(l, name), stems, n);
    for (size_t i = 0; near && i < n; i++)
        if (near == stems[i])
            return files[i];
    return NULL;
}

/* Returns the path of the file that an include means: `std.dsl` is the compiler's; others are next
 * to the including file, or else in the library. NULL after a report. */
static const char *find_include(DtLower *l, const DtItem *item, uint32_t from)
{
    char *name = dt_arena_strndup(l->arena, item->include, item->include_len);
    if (strlen(name) != item->include_len || !*name) {
        dt_diag_report(l->diags, E0001, item->span, "the name of the included file is %s",
                       *name ? "cut by a NUL byte" : "empty");
        return NULL;
    }
    char *library = in_library(l, name);
    char *beside = dt_file_beside(l->arena, path_of(l, from), name);
    char *const first = !strcmp(name, "std.dsl") && library ? library : beside;
    char *const second = first == beside ? library : beside;
    char *text;
    size_t len;
    DtStatus status, other;
    if (can_read(l, first, &text, &len, &status))
        return first;
    if (second && can_read(l, second, &text, &len, &other))
        return second;
    if (dt_diag_errors(l->diags))
        return NULL; /* checks the syntax first, since the name itself may be wrong */
    DtDiag *d =
        dt_diag_report(l->diags, E0001, item->span, "cannot read the included file `%s`", name);
    dt_diag_note(d, "%s", status.message);
    dt_diag_note(d, "it is looked for beside this file, then in the library of the compiler");
    const char *near = near_library_file(l, name);
    if (near)
        dt_diag_fix(d, item->span, dt_arena_printf(l->arena, "include \"%s\"", near),
                    "did you mean the library, `%s`?", near);
    return NULL;
}

static void load_items(DtLower *l, const DtAst *ast, uint32_t file, uint32_t depth)
{
    for (uint32_t i = 0; i < ast->items.n; i++) {
        DtItem *item = ast->items.at[i];
        if (item->kind != DT_ITEM_INCLUDE) {
            DT_PUSH(l->arena, l->items, item);
            continue;
        }
        const char *path = find_include(l, item, file);
        if (path && depth >= DT_LOWER_INCLUDES) {
            dt_diag_report(l->diags, E0219, item->span,
                           "files include each other more than %d deep", DT_LOWER_INCLUDES);
            continue;
        }
        if (path)
            load_file(l, path, item->span, depth + 1);
    }
}

/* Reads a file that the `include` line at span names, unless it was read before. span.file 0: no
 * file includes it. */
static void load_file(DtLower *l, const char *path, DtSpan span, uint32_t depth)
{
    const char *identity = identity_of(path);
    for (uint32_t i = 0; i < l->files.n; i++) {
        if (l->files.at[i].identity != identity)
            continue;
        DT_PUSH(l->arena, l->inclusions, ((DtInclusion){span.file, l->files.at[i].file}));
        return;
    }
    char *text;
    size_t len;
    DtStatus status;
    if (!can_read(l, path, &text, &len, &status)) {
        dt_diag_report(l->diags, E0001, span, "cannot read `%s`: %s", path, status.message);
        return;
    }
    bool is_library = is_in_library(l, path);
    uint32_t file =
        dt_diag_add_file(l->diags, shown_path(l, path, identity, is_library), text, len);
    DtSourceFile entry = {
        .path = path, .identity = identity, .file = file, .is_library = is_library};
    entry.ast = dt_parse(l->arena, l->diags, file);
    DT_PUSH(l->arena, l->files, entry);
    DT_PUSH(l->arena, l->inclusions, ((DtInclusion){span.file, file}));
    if (l->files.n == 1 && l->options->ret_ast)
        *l->options->ret_ast = entry.ast;
    load_items(l, entry.ast, file, depth);
}

bool dt_scope_in_library(const DtLower *l, DtSpan span)
{
    for (uint32_t i = 0; i < l->files.n; i++) {
        if (l->files.at[i].file == span.file)
            return l->files.at[i].is_library;
    }
    return false;
}

/* ---- names ---- */

static DtGlobal **slot_of(const DtLower *l, DtGlobal **table, const char *name)
{
    uint32_t mask = l->table_size - 1;
    uint32_t i = (uint32_t)((uintptr_t)name >> 4) * 2654435761u & mask;
    while (table[i] && table[i]->name != name)
        i = (i + 1) & mask;
    return &table[i];
}

DtGlobal *dt_scope_value(const DtLower *l, const char *name)
{
    return *slot_of(l, l->value_table, name);
}

DtGlobal *dt_scope_meant(const DtLower *l, const DtExpr *name)
{
    DtGlobal *own = *slot_of(l, l->library_table, name->name.text);
    return own && dt_scope_in_library(l, name->span) ? own : dt_scope_value(l, name->name.text);
}

const char *dt_scope_axis_meant(const DtLower *l, DtName name)
{
    const DtGlobal *own = *slot_of(l, l->library_axes, name.text);
    return own && dt_scope_in_library(l, name.span) ? own->meant : name.text;
}

DtGlobal *dt_scope_axis(const DtLower *l, const char *name)
{
    DtGlobal *global = *slot_of(l, l->axis_table, name);
    for (uint32_t i = 0; !global && i < l->made_up.n; i++)
        if (l->made_up.at[i]->name == name)
            global = l->made_up.at[i];
    return global;
}

/* Whether file `from` includes file `to`, directly or not. */
static bool includes(const DtLower *l, uint32_t from, uint32_t to)
{
    const uint32_t n = l->files.n + 1;
    uint32_t *reached = DT_NEW_ARRAY(l->arena, uint32_t, n + 1), n_reached = 1;
    reached[0] = from;
    for (uint32_t at = 0; at < n_reached; at++)
        for (uint32_t i = 0; i < l->inclusions.n; i++) {
            const DtInclusion *line = &l->inclusions.at[i];
            bool known = line->from != reached[at];
            for (uint32_t k = 0; k < n_reached && !known; k++)
                known = reached[k] == line->to;
            if (!known && line->to == to)
                return true;
            if (!known && n_reached < n)
                reached[n_reached++] = line->to;
        }
    return false;
}

/* A `dim` or `constant` line of a file replaces that of the same name in a file that it includes.
 * Returns whether one of the two lines replaces the other; `old` is then the line that counts. */
static bool replaces(const DtLower *l, DtGlobal *old, const DtGlobal *line)
{
    if ((old->kind != DT_GLOBAL_DIM && old->kind != DT_GLOBAL_CONSTANT) ||
        old->kind != line->kind || old->span.file == line->span.file)
        return false;
    const bool above = includes(l, line->span.file, old->span.file);
    if (above == includes(l, old->span.file, line->span.file))
        return false;
    if (above)
        *old = *line;
    old->used = true; /* by the files that have both lines */
    return true;
}

static bool enter(DtLower *l, DtGlobal **table, DtGlobal *global)
{
    DtGlobal **slot = slot_of(l, table, global->name);
    if (*slot) {
        DtDiag *d =
            dt_diag_report(l->diags, E0203, global->span, "`%s` is defined twice", global->name);
        dt_diag_label(d, (*slot)->span, "first defined here");
        if (global->kind == DT_GLOBAL_DIM && (*slot)->kind == DT_GLOBAL_DIM)
            dt_diag_help(d, "to change the extent of a dim, keep one line and use `-D %s=N`",
                         global->name);
        return false;
    }
    *slot = global;
    return true;
}

static void add_global(DtLower *l, DtGlobalKind kind, DtName name, const DtExpr *value,
                       const DtDef *def)
{
    if (!name.text)
        return;
    DtGlobal *global = DT_NEW(l->arena, DtGlobal);
    *global = (DtGlobal){.kind = kind,
                         .name = name.text,
                         .span = name.span,
                         .value = value,
                         .def = def,
                         .is_library = dt_scope_in_library(l, name.span)};
    if (kind != DT_GLOBAL_AXIS && dt_builtin_find(name.text, -1)) {
        DtDiag *d =
            dt_diag_report(l->diags, E0203, name.span, "`%s` is a built-in function", name.text);
        dt_diag_note(d, "a file cannot redefine what the language defines; choose another name");
        return;
    }
    DtGlobal *other = kind == DT_GLOBAL_AXIS ? NULL : dt_scope_value(l, name.text);
    if (other && replaces(l, other, global))
        return;
    bool ok = true;
    if (kind != DT_GLOBAL_AXIS)
        ok = enter(l,
                   kind == DT_GLOBAL_DEF && global->is_library ? l->library_table : l->value_table,
                   global);
    if (ok && (kind == DT_GLOBAL_DIM || kind == DT_GLOBAL_AXIS))
        ok =
            enter(l, kind == DT_GLOBAL_AXIS && global->is_library ? l->library_axes : l->axis_table,
                  global);
    if (ok)
        DT_PUSH(l->arena, l->globals, global);
    if (ok && def)
        DT_PUSH(l->arena, l->module->defined, ((DtDefined){.name = name.text, .span = def->span}));
}

static uint32_t count_names(const DtLower *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->items.n; i++)
        n += 1 + l->items.at[i]->binds.n + l->items.at[i]->axes.n;
    return n;
}

static bool type_names(const DtAstType *type, const char *axis)
{
    bool found = false;
    for (uint32_t i = 0; i < type->axes.n; i++)
        found = found || type->axes.at[i].name.text == axis;
    return found;
}

/* Whether a definition of the library has an argument or result with an axis of this name. */
static bool is_in_signatures(const DtLower *l, const char *axis)
{
    bool found = false;
    for (uint32_t i = 0; i < l->items.n && !found; i++) {
        const DtDef *def = l->items.at[i]->kind == DT_ITEM_DEF ? l->items.at[i]->def : NULL;
        if (!def || !dt_scope_in_library(l, def->span))
            continue;
        for (uint32_t k = 0; k < def->formals.n; k++)
            found = found || type_names(&def->formals.at[k].type, axis);
        for (uint32_t k = 0; k < def->results.n; k++)
            found = found || type_names(&def->results.at[k], axis);
    }
    return found;
}

/* Makes the library's axes axes of the program. If the program has a dim or an axis of that name,
 * signatures of the library that name it mean the program's (`height` of `conv`: an axis of the
 * caller's tensors). An axis that only bodies of the library use gets another name then, so that
 * the program's extent does not bind it. */
static void merge_library_axes(DtLower *l)
{
    for (uint32_t i = 0; i < l->table_size; i++) {
        DtGlobal *axis = l->library_axes[i];
        if (!axis)
            continue;
        axis->meant = axis->name;
        if (*slot_of(l, l->axis_table, axis->meant) && is_in_signatures(l, axis->name))
            continue;
        while (*slot_of(l, l->axis_table, axis->meant))
            axis->meant = dt_intern_printf("%s_", axis->meant);
        DtGlobal *own = DT_NEW(l->arena, DtGlobal);
        *own = *axis;
        own->name = axis->meant;
        *slot_of(l, l->axis_table, own->name) = own;
    }
}

static void collect_names(DtLower *l)
{
    l->table_size = 64;
    while (l->table_size < 2 * count_names(l) + 2)
        l->table_size *= 2;
    l->value_table = DT_NEW_ARRAY(l->arena, DtGlobal *, l->table_size);
    l->axis_table = DT_NEW_ARRAY(l->arena, DtGlobal *, l->table_size);
    l->library_table = DT_NEW_ARRAY(l->arena, DtGlobal *, l->table_size);
    l->library_axes = DT_NEW_ARRAY(l->arena, DtGlobal *, l->table_size);
    for (uint32_t i = 0; i < l->items.n; i++) {
        const DtItem *item = l->items.at[i];
        for (uint32_t k = 0; k < item->binds.n; k++)
            add_global(l, item->kind == DT_ITEM_DIM ? DT_GLOBAL_DIM : DT_GLOBAL_CONSTANT,
                       item->binds.at[k].name, item->binds.at[k].value, NULL);
        for (uint32_t k = 0; k < item->axes.n; k++)
            add_global(l, DT_GLOBAL_AXIS, item->axes.at[k], NULL, NULL);
        if (item->kind == DT_ITEM_DEF && item->def)
            add_global(l, DT_GLOBAL_DEF, item->def->name, NULL, item->def);
    }
    /* a name that the program's files define hides the library's */
    for (uint32_t i = 0; i < l->table_size; i++)
        if (l->library_table[i] && !dt_scope_value(l, l->library_table[i]->name))
            *slot_of(l, l->value_table, l->library_table[i]->name) = l->library_table[i];
    merge_library_axes(l);
}

/* ---- -D ---- */

static void unknown_name(DtLower *l, const char *name)
{
    const char **names = DT_NEW_ARRAY(l->arena, const char *, l->globals.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < l->globals.n; i++) {
        if (l->globals.at[i]->kind == DT_GLOBAL_DIM || l->globals.at[i]->kind == DT_GLOBAL_CONSTANT)
            names[n++] = l->globals.at[i]->name;
    }
    DtDiag *d = dt_diag_report(l->diags, E0216, (DtSpan){0},
                               "-D %s: the program has no dim and no constant `%s`", name, name);
    const char *near = dt_text_nearest(name, names, n);
    if (near)
        dt_diag_help(d, "did you mean `-D %s=...`?", near);
}

static void know_constant(DtLower *l, DtGlobal *constant, DtVal value)
{
    DtVal *known = DT_NEW(l->arena, DtVal);
    *known = value;
    constant->constant = known;
    constant->state = 2;
}

/* Reads a number, `true` or `false`. is_float: a whole number becomes a float. */
static bool read_value(const char *text, bool is_float, DtVal *ret_value)
{
    char *end;
    errno = 0;
    const bool truth = !strcmp(text, "true");
    if (truth || !strcmp(text, "false")) {
        *ret_value = dt_val_bool(truth);
        return true;
    }
    const long long whole = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && !is_float) {
        *ret_value = dt_val_int(whole);
        return true;
    }
    const bool is_number = strspn(text, "0123456789.eE+-") == strlen(text);
    const double number = strtod(text, &end);
    *ret_value = dt_val_float(number);
    return is_number && end != text && !*end && isfinite(number);
}

static void set_constant(DtLower *l, DtGlobal *constant, const DtOption *option)
{
    DtVal value;
    const DtExpr *written = constant->value ? dt_report_bare(constant->value) : NULL;
    constant->option = option->value;
    if (read_value(option->value, written && written->kind == DT_EXPR_FLOAT, &value)) {
        know_constant(l, constant, value);
        return;
    }
    dt_diag_report(l->diags, E0216, (DtSpan){0},
                   "-D %s=%s: the value of a constant is a number, `true` or `false`", option->name,
                   option->value);
    constant->state = 3;
}

static void set_dim(DtLower *l, DtGlobal *dim, const DtOption *option)
{
    char *end;
    errno = 0;
    long long value = strtoll(option->value, &end, 10);
    if (end == option->value || *end || errno || value < 1) {
        dt_diag_report(l->diags, E0216, (DtSpan){0},
                       "-D %s=%s: the extent of a dim is a whole number from 1 on", option->name,
                       option->value);
        dim->state = 3;
        return;
    }
    dim->option = option->value;
    dim->extent = value;
    dim->state = 2;
}

static void apply_options(DtLower *l)
{
    for (uint32_t i = 0; i < l->options->n_dims; i++) {
        const DtOption *option = &l->options->dims[i];
        DtGlobal *global = dt_scope_value(l, dt_intern(option->name));
        if (global && global->kind == DT_GLOBAL_DIM)
            set_dim(l, global, option);
        else if (global && global->kind == DT_GLOBAL_CONSTANT)
            set_constant(l, global, option);
        else
            unknown_name(l, option->name);
    }
}

/* ---- dims and constants ---- */

/* Evaluates the extent of a dim at file level, without an activation, so that local names are not
 * seen; -1 after a report. */
static int64_t evaluate_dim(DtLower *l, DtGlobal *dim)
{
    DtActivation *now = l->now;
    l->now = NULL;
    int64_t extent = -1;
    bool ok = dt_expr_int(l, dim->value, dt_arena_printf(l->arena, "the extent of `%s`", dim->name),
                          &extent);
    l->now = now;
    if (!ok)
        return -1;
    if (extent < 1) {
        dt_report_error(l, E0313, dim->value->span,
                        "the extent of `%s` is %lld; extents are whole numbers from 1 on",
                        dim->name, (long long)extent);
        return -1;
    }
    return extent;
}

/* Reports a dim or constant that depends on itself or has no value, and notes that it is wrong;
 * false: it can be evaluated. */
static bool has_no_value(DtLower *l, DtGlobal *global)
{
    const bool is_dim = global->kind == DT_GLOBAL_DIM;
    if (global->state == 1) {
        DtDiag *d =
            dt_diag_report(l->diags, E0210, global->span, "the %s of `%s` depends on itself",
                           is_dim ? "extent" : "value", global->name);
        dt_diag_note(d, "a chain of %s must end in a number", is_dim ? "dims" : "constants");
    } else if (!global->value) {
        DtDiag *d =
            dt_diag_report(l->diags, E0210, global->span, "the %s `%s` has no %s",
                           is_dim ? "dim" : "constant", global->name, is_dim ? "extent" : "value");
        dt_diag_help(d, "give it on the command line: `-D %s=N`, or write `%s = N` here",
                     global->name, global->name);
    } else
        return global->state == 3;
    global->state = 3;
    return true;
}

DtVal dt_scope_constant(DtLower *l, DtGlobal *constant)
{
    if (constant->state == 2)
        return *constant->constant;
    if (constant->state == 3 || has_no_value(l, constant))
        return dt_val_error();
    DtActivation *now = l->now;
    constant->state = 1;
    l->now = NULL;
    DtVal value = dt_expr_eval(l, constant->value);
    l->now = now;
    double number;
    if (value.kind != DT_VAL_BOOL &&
        !dt_val_number_of(l, &value, constant->value,
                          dt_arena_printf(l->arena, "the value of `%s`", constant->name),
                          &number)) {
        constant->state = 3;
        return dt_val_error();
    }
    know_constant(l, constant, value);
    return value;
}

int64_t dt_scope_extent(DtLower *l, DtGlobal *dim)
{
    if (dim->state == 2)
        return dim->extent;
    if (dim->state == 3 || has_no_value(l, dim))
        return -1;
    dim->state = 1;
    int64_t extent = evaluate_dim(l, dim);
    dim->extent = extent;
    dim->state = extent < 0 ? 3 : 2;
    return extent;
}

/* If the program has a train block, loads the library's training.dsl, whose names such a block may
 * use without an include. */
static void load_training(DtLower *l)
{
    bool trains = false;
    for (uint32_t i = 0; i < l->items.n; i++)
        trains = trains || l->items.at[i]->kind == DT_ITEM_TRAIN;
    char *path = trains ? in_library(l, "training.dsl") : NULL;
    if (path)
        load_file(l, path, (DtSpan){0}, 0);
}

/* Ends the text after a block and replaces the text before it by blanks, so that the parser sees
 * the block only, and lines keep their numbers. */
static void cut_out(char *text, size_t from, size_t to)
{
    text[to] = 0;
    for (size_t i = 0; i < from; i++)
        if (text[i] != '\n')
            text[i] = ' ';
}

const DtItem *dt_scope_block(DtLower *l, DtItemKind kind, const char *name)
{
    const char *shown = kind == DT_ITEM_DEVICE ? "devices.dsl" : "stacks.dsl";
    for (uint32_t i = 0; i < l->blocks.n; i++)
        if (l->blocks.at[i]->kind == kind && l->blocks.at[i]->name.text == name)
            return l->blocks.at[i];
    char *path = in_library(l, shown), *text;
    size_t len, from, to;
    DtStatus status;
    if (!path || !can_read(l, path, &text, &len, &status) ||
        !dt_library_block(text, kind == DT_ITEM_DEVICE ? "device" : "stack", name, &from, &to))
        return NULL;
    cut_out(text, from, to);
    const uint32_t file = dt_diag_add_file(l->diags, shown, text, to);
    DtSourceFile entry = {.path = path, .identity = "", .file = file, .is_library = true};
    entry.ast = dt_parse(l->arena, l->diags, file);
    DT_PUSH(l->arena, l->files, entry);
    if (entry.ast->items.n != 1 || entry.ast->items.at[0]->kind != kind)
        return NULL;
    DT_PUSH(l->arena, l->blocks, entry.ast->items.at[0]);
    return entry.ast->items.at[0];
}

void dt_scope_load(DtLower *l)
{
    load_file(l, l->options->path, (DtSpan){0}, 0);
    load_training(l);
    collect_names(l);
    apply_options(l);
}
