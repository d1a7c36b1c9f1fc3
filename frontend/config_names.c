/* SPDX-License-Identifier: Apache-2.0 */
/* A names block maps the parameters of a model to tensors of a foreign file:
 *
 *   names huggingface on llama {
 *     "model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) ->
 *     o]
 *   }
 *
 * The right side uses renames, merges, `concat` and `stack` only, so the map works in both
 * directions. Checked here: the form, the axes on both sides, that every path is a parameter and
 * every parameter occurs. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <string.h>

typedef DT_VEC(const char *) Words;

typedef struct Mapping {
    const DtConfigHost *host;
    const DtProgram *program;
    const DtItem *item;
    DT_VEC(const DtStore *) seen;
    DT_VEC(DtSpan) seen_at;
    Words loops; /* loop labels that occur in the entry's paths */
    DtSpan entry;
} Mapping;

static DtDiag *reject(const Mapping *m, DtSpan span, const char *what)
{
    return dt_diag_report(m->host->diags, E0467, span, "%s", what);
}

static bool is_parameter(const DtStore *store)
{
    return store->kind == DT_STORE_PARAM || store->kind == DT_STORE_STATE;
}

static bool has(const Words *words, const char *word)
{
    for (uint32_t i = 0; i < words->n; i++)
        if (words->at[i] == word)
            return true;
    return false;
}

static const DtStore *find_store(const Mapping *m, const DtExpr *expr, const char *path)
{
    const DtModule *module = m->program->module;
    const char **names = DT_NEW_ARRAY(m->host->arena, const char *, module->stores.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        if (!is_parameter(module->stores.at[i]))
            continue;
        if (!strcmp(module->stores.at[i]->path, path))
            return module->stores.at[i];
        names[n++] = module->stores.at[i]->path;
    }
    DtDiag *d = reject(m, expr->span,
                       dt_arena_printf(m->host->arena, "the model has no parameter `%s`", path));
    dt_diag_help(d, "`dtc --params` lists them");
    dt_configargs_suggest(d, expr->span, path, names, n);
    return NULL;
}

/* Loop labels of a store: the segments of its pattern that are followed by `#`. */
static void add_loops(Mapping *m, const DtStore *store)
{
    const char *at = store->pattern ? store->pattern : "";
    while (*at) {
        const char *dot = strchr(at, '.');
        if (!dot)
            return;
        if (dot[1] == '#') {
            const char *label = dt_intern_n(at, (size_t)(dot - at));
            if (!has(&m->loops, label))
                DT_PUSH(m->host->arena, m->loops, label);
        }
        at = dot + 1;
    }
}

static bool read_path(Mapping *m, const DtExpr *expr, const char *path, Words *ret_axes)
{
    const DtStore *store = find_store(m, expr, path);
    if (!store)
        return false;
    for (uint32_t i = 0; i < m->seen.n; i++)
        if (m->seen.at[i] == store) {
            DtDiag *d =
                reject(m, expr->span,
                       dt_arena_printf(m->host->arena, "parameter `%s` occurs twice", path));
            dt_diag_label(d, m->seen_at.at[i], "first here");
            return false;
        }
    DT_PUSH(m->host->arena, m->seen, store);
    DT_PUSH(m->host->arena, m->seen_at, expr->span);
    add_loops(m, store);
    for (uint32_t i = store->n_loops; i < store->type->rank; i++)
        DT_PUSH(m->host->arena, *ret_axes, store->type->axes[i].name);
    return true;
}

static bool remove_axis(Words *axes, const char *name)
{
    for (uint32_t i = 0; i < axes->n; i++)
        if (axes->at[i] == name) {
            axes->at[i] = axes->at[--axes->n];
            return true;
        }
    return false;
}

/* Reads one rename or merge. A split is refused, since it needs extents that a file cannot give. */
static bool read_relabel(Mapping *m, const DtSub *sub, Words *axes, Words *added)
{
    if (sub->kind != DT_SUB_RELABEL || sub->to.names.n != 1) {
        reject(m, sub->span,
               "only renames and merges can stand here, such as [(heads, head) -> o]");
        return false;
    }
    for (uint32_t i = 0; i < sub->from.names.n; i++)
        if (!remove_axis(axes, sub->from.names.at[i].text)) {
            reject(m, sub->from.names.at[i].span,
                   dt_arena_printf(m->host->arena, "there is no axis `%s` here",
                                   sub->from.names.at[i].text));
            return false;
        }
    DT_PUSH(m->host->arena, *added, sub->to.names.at[0].text);
    return true;
}

static bool read_side(Mapping *m, const DtExpr *expr, Words *ret_axes);

/* Reads concat[a](x, y) or stack[a](x, y). */
static bool read_join(Mapping *m, const DtExpr *call, Words *ret_axes)
{
    const DtExpr *callee = call->a;
    const char *name = callee->kind == DT_EXPR_SUBS && callee->a->kind == DT_EXPR_NAME
                           ? callee->a->name.text
                           : NULL;
    bool concat = name && !strcmp(name, "concat"), stack = name && !strcmp(name, "stack");
    bool one = (concat || stack) && callee->subs.n == 1 &&
               callee->subs.at[0].kind == DT_SUB_GROUP && callee->subs.at[0].from.names.n == 1;
    if (!one) {
        reject(m, call->span, "only renames, merges, `concat` and `stack` can stand here");
        return false;
    }
    for (uint32_t i = 0; i < call->args.n; i++) {
        Words axes = {0};
        if (!read_side(m, call->args.at[i].value, &axes))
            return false;
        for (uint32_t k = 0; k < axes.n; k++)
            if (!has(ret_axes, axes.at[k]))
                DT_PUSH(m->host->arena, *ret_axes, axes.at[k]);
    }
    const char *axis = callee->subs.at[0].from.names.at[0].text;
    if (!has(ret_axes, axis))
        DT_PUSH(m->host->arena, *ret_axes, axis);
    return true;
}

static bool read_side(Mapping *m, const DtExpr *expr, Words *ret_axes)
{
    expr = dt_configargs_bare(expr);
    if (!expr || expr->kind == DT_EXPR_ERROR)
        return false;
    const char *path = dt_configargs_path(expr);
    if (path)
        return read_path(m, expr, path, ret_axes);
    if (expr->kind == DT_EXPR_CALL)
        return read_join(m, expr, ret_axes);
    if (expr->kind != DT_EXPR_SUBS) {
        reject(m, expr->span,
               "only parameter paths, renames, merges, `concat` and `stack` can stand here");
        return false;
    }
    Words added = {0};
    if (!read_side(m, expr->a, ret_axes))
        return false;
    for (uint32_t i = 0; i < expr->subs.n; i++)
        if (!read_relabel(m, &expr->subs.at[i], ret_axes, &added))
            return false;
    for (uint32_t i = 0; i < added.n; i++)
        DT_PUSH(m->host->arena, *ret_axes, added.at[i]);
    return true;
}

/* Checks that the text has `{h}` once for every loop of the paths, and nothing else in braces. */
static void check_text(const Mapping *m, const DtTarget *target)
{
    uint32_t n = 0;
    for (const char *at = strchr(target->string, '{'); at; at = strchr(at + 1, '{')) {
        const char *end = strchr(at, '}');
        const char *label = end ? dt_intern_n(at + 1, (size_t)(end - at - 1)) : "";
        if (has(&m->loops, label)) {
            n++;
            continue;
        }
        DtDiag *d =
            reject(m, target->span,
                   dt_arena_printf(m->host->arena, "the parameter lies in no loop `%s`", label));
        dt_diag_note(d, "`{label}` stands for the number of the iteration of that loop");
        return;
    }
    if (n >= m->loops.n)
        return;
    DtDiag *d = reject(m, target->span, "the name does not tell the iterations of the loop apart");
    for (uint32_t i = 0; i < m->loops.n; i++)
        dt_diag_help(d, "put {%s} where the number stands", m->loops.at[i]);
}

static void check_axes(const Mapping *m, const DtTarget *target, const Words *axes)
{
    const char *list = "";
    bool equal = target->type.axes.n == axes->n;
    for (uint32_t i = 0; i < target->type.axes.n; i++)
        equal &= has(axes, target->type.axes.at[i].name.text);
    if (equal)
        return;
    for (uint32_t i = 0; i < axes->n; i++)
        list = dt_arena_printf(m->host->arena, "%s%s%s", list, i ? ", " : "", axes->at[i]);
    DtDiag *d = reject(m, target->span,
                       dt_arena_printf(m->host->arena, "the right side has axes [%s]", list));
    dt_diag_note(
        d,
        "the axes on the left give the memory order in the file, so both sides have the same ones");
}

static void check_entry(Mapping *m, const DtEntry *entry)
{
    bool form = !entry->is_directive && entry->targets.n == 1 && entry->targets.at[0].string &&
                entry->targets.at[0].type.has_axes;
    m->entry = entry->span;
    m->loops.n = 0;
    if (!form) {
        DtDiag *d =
            reject(m, entry->span, "an entry is a name in quotes with axes, `=`, and a parameter");
        dt_diag_help(d, "such as \"wte.weight\"[vocab, embed] = wte");
        return;
    }
    Words axes = {0};
    if (!read_side(m, entry->value, &axes))
        return;
    check_axes(m, &entry->targets.at[0], &axes);
    check_text(m, &entry->targets.at[0]);
}

static void check_complete(const Mapping *m)
{
    DtDiag *d = NULL;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < m->program->module->stores.n; i++) {
        const DtStore *store = m->program->module->stores.at[i];
        bool found = !is_parameter(store);
        for (uint32_t k = 0; k < m->seen.n; k++)
            found |= m->seen.at[k] == store;
        if (found)
            continue;
        if (!d)
            d = dt_diag_report(m->host->diags, E0468, m->item->name.span,
                               "`%s` does not name every parameter and state", m->item->name.text);
        if (missing++ < 5)
            dt_diag_note(d, "`%s` is missing", store->path);
    }
    if (missing > 5)
        dt_diag_note(d, "and %u more", missing - 5);
}

static bool model_exists(const Mapping *m)
{
    const char *names[64];
    size_t n = 0;
    for (uint32_t i = 0; i < m->program->module->funcs.n; i++) {
        const DtFunc *func = m->program->module->funcs.at[i];
        if (func->kind != DT_FUNC_MODEL)
            continue;
        if (dt_graph_source_name(func) == m->item->on.text)
            return true;
        if (n < DT_COUNT(names))
            names[n++] = dt_graph_source_name(func);
    }
    DtDiag *d =
        reject(m, m->item->on.span,
               dt_arena_printf(m->host->arena, "the program uses no model `%s`", m->item->on.text));
    dt_configargs_suggest(d, m->item->on.span, m->item->on.text, names, n);
    return false;
}

void dt_confignames_check(const DtConfigHost *host, const DtItem *item, const DtProgram *program)
{
    Mapping m = {.host = host, .program = program, .item = item};
    if (!item->on.text || !model_exists(&m))
        return;
    uint32_t errors = dt_diag_errors(host->diags);
    for (uint32_t i = 0; i < item->entries.n; i++)
        check_entry(&m, item->entries.at[i]);
    if (dt_diag_errors(host->diags) == errors)
        check_complete(&m);
}
