/* SPDX-License-Identifier: Apache-2.0 */
/* The right side of an entry of a names block: a parameter, `x[a -> b]`, `x[(a, b) -> c]`,
 * `concat[a](x, y)`, `stack[a](x, y)`. None of them computes, so an element's indices are sums of
 * multiples of the indices in its parameter:
 *
 *   x[(a, b) -> c]    c = a * size(b) + b
 *   concat[a](x, y)   y begins at a = size(a) of x
 *   stack[a](x, y)    x is at a = 0, y at a = 1
 *
 * `if tied then wte else out.w` is one of its branches. */
#include "frontend/config_names.h"

#include "base/intern.h"

#include <inttypes.h>
#include <string.h>

static bool reject(const DtMapping *m, DtSpan span, const char *what)
{
    dt_diag_report(m->host->diags, E0467, span, "%s", what);
    return false;
}

bool dt_configsides_is_parameter(const DtStore *store)
{
    return store->kind == DT_STORE_PARAM || store->kind == DT_STORE_STATE;
}

/* ---- choices ---- */

const DtExpr *dt_configsides_chosen(const DtMapping *m, const DtExpr *expr)
{
    expr = dt_configargs_bare(expr);
    while (expr && expr->kind == DT_EXPR_IF) {
        bool truth;
        if (!m->host->truth(m->host->context, expr->a, &truth))
            return NULL;
        expr = dt_configargs_bare(truth ? expr->b : expr->c);
    }
    return expr;
}

bool dt_configsides_is_none(const DtExpr *expr)
{
    return expr && expr->kind == DT_EXPR_NAME && !expr->label.text && expr->name.text &&
           !strcmp(expr->name.text, "none");
}

/* ---- parameters ---- */

/* Whether the path is that of a parameter of the instance with this label. */
static bool is_below(const char *path, const char *label)
{
    const size_t len = strlen(label);
    return strncmp(path, label, len) == 0 && path[len] == '.';
}

const char *dt_configsides_path(const DtMapping *m, const DtStore *store)
{
    bool other = !dt_configsides_is_parameter(store) || store->copy > 0;
    for (uint32_t i = 0; !*m->label && i < m->program->labelled.n; i++)
        other = other || (*m->program->labelled.at[i].label &&
                          is_below(store->path, m->program->labelled.at[i].label));
    if (other || (*m->label && !is_below(store->path, m->label)))
        return NULL;
    return *m->label ? store->path + strlen(m->label) + 1 : store->path;
}

static const DtStore *find_store(const DtMapping *m, const DtExpr *expr, const char *path)
{
    const DtModule *module = m->program->module;
    const char **names = DT_NEW_ARRAY(m->host->arena, const char *, module->stores.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const char *own = dt_configsides_path(m, module->stores.at[i]);
        if (!own)
            continue;
        if (!strcmp(own, path))
            return module->stores.at[i];
        names[n++] = own;
    }
    DtDiag *d =
        dt_diag_report(m->host->diags, E0467, expr->span, "the model has no parameter `%s`", path);
    dt_diag_help(d, "`dtc --params` lists them");
    dt_configargs_suggest(d, expr->span, path, names, n);
    return NULL;
}

/* Returns the label of the store's loop with that number: the name before its `#` in the
 * pattern. */
static const char *loop_label(const DtStore *store, uint32_t loop)
{
    const char *at = store->pattern ? store->pattern : "", *from = at;
    for (; *at; at++) {
        if (*at != '.')
            continue;
        if (at[1] == '#' && loop-- == 0)
            return dt_intern_n(from, (size_t)(at - from));
        from = at + 1;
    }
    return dt_intern("?");
}

int64_t dt_configsides_iterations(const DtMapping *m, const char *label)
{
    const DtModule *module = m->program->module;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        for (uint32_t a = 0; dt_configsides_path(m, store) && a < store->n_loops; a++)
            if (loop_label(store, a) == label)
                return store->type->axes[a].extent;
    }
    return 0;
}

static bool is_digits(const char *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (from[i] < '0' || from[i] > '9')
            return false;
    return len > 0;
}

/* Whether the path becomes that of the store by numbers after labels; these numbers. */
static bool leaves_out(const DtMapping *m, const char *store, const char *path,
                       DtSideNumbers *ret_numbers)
{
    const char *label = "";
    while (*store) {
        const size_t n = strcspn(store, "."), k = strcspn(path, ".");
        if (n == k && memcmp(store, path, n) == 0) {
            label = dt_intern_n(path, k);
            path += k + (path[k] == '.');
        } else if (*label && is_digits(store, n) && n < 10) {
            int64_t number = 0;
            for (size_t i = 0; i < n; i++)
                number = number * 10 + (store[i] - '0');
            DT_PUSH(m->host->arena, *ret_numbers, ((DtSideNumber){label, number}));
            label = "";
        } else {
            return false;
        }
        store += n + (store[n] == '.');
    }
    return *path == '\0';
}

static bool same_numbers(const DtSideNumbers *x, const DtSideNumbers *y)
{
    bool equal = x->n == y->n;
    for (uint32_t i = 0; equal && i < x->n; i++)
        equal = x->at[i].label == y->at[i].label && x->at[i].number == y->at[i].number;
    return equal;
}

static void add_instances(const DtMapping *m, const char *path, DtSideInstances *ret_instances)
{
    const DtModule *module = m->program->module;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        DtSideNumbers numbers = {0};
        const char *own = dt_configsides_path(m, module->stores.at[i]);
        if (!own || !leaves_out(m, own, path, &numbers) || numbers.n == 0)
            continue;
        bool known = false;
        for (uint32_t k = 0; k < ret_instances->n; k++)
            known = known || same_numbers(&ret_instances->at[k], &numbers);
        if (!known)
            DT_PUSH(m->host->arena, *ret_instances, numbers);
    }
}

/* Adds those of the first path that leaves numbers out. */
static void find_instances(const DtMapping *m, const DtExpr *expr, DtSideInstances *ret_instances)
{
    expr = dt_configsides_chosen(m, expr);
    const char *path = expr ? dt_configargs_path(expr) : NULL;
    if (expr == NULL || ret_instances->n)
        return;
    if (path)
        add_instances(m, path, ret_instances);
    else if (expr->kind == DT_EXPR_SUBS)
        find_instances(m, expr->a, ret_instances);
    for (uint32_t i = 0; expr->kind == DT_EXPR_CALL && i < expr->args.n; i++)
        find_instances(m, expr->args.at[i].value, ret_instances);
}

void dt_configsides_instances(const DtMapping *m, const DtExpr *expr,
                              DtSideInstances *ret_instances)
{
    find_instances(m, expr, ret_instances);
    if (ret_instances->n == 0)
        DT_PUSH(m->host->arena, *ret_instances, (DtSideNumbers){0});
}

/* The path with the numbers that the entry's instance puts after labels. */
static const char *with_numbers(const DtMapping *m, const char *path)
{
    const char *full = "";
    for (const char *at = path; *at;) {
        const size_t n = strcspn(at, ".");
        const char *word = dt_intern_n(at, n);
        full = dt_intern_printf("%s%s%s", full, *full ? "." : "", word);
        at += n + (at[n] == '.');
        for (uint32_t i = 0; i < m->numbers.n; i++)
            if (m->numbers.at[i].label == word && !is_digits(at, strcspn(at, ".")))
                full = dt_intern_printf("%s.%" PRId64, full, m->numbers.at[i].number);
    }
    return full;
}

static bool read_path(DtMapping *m, const DtExpr *expr, const char *path, DtSide *ret_side)
{
    const DtStore *store = find_store(m, expr, with_numbers(m, path));
    if (!store)
        return false;
    DtSidePart part = {.store = store};
    ret_side->n = store->type->rank;
    for (uint32_t a = 0; a < store->type->rank; a++) {
        const bool is_loop = a < store->n_loops;
        const DtAxis *axis = &store->type->axes[a];
        ret_side->axes[a] =
            (DtSideAxis){is_loop ? loop_label(store, a) : axis->name, axis->extent, is_loop};
        part.factor[a][a] = 1;
    }
    DT_PUSH(m->host->arena, ret_side->parts, part);
    if (!dt_map_find_pointer(&m->seen, store))
        dt_map_add_pointer(&m->seen, store, (void *)(uintptr_t)store);
    return true;
}

/* ---- renames and merges ---- */

/* Returns the number of the axis with that name; if a loop has the same name, that of the axis. -1
 * if there is none. */
static int32_t find_axis(const DtSide *side, const char *name)
{
    int32_t found = -1;
    for (uint32_t i = 0; i < side->n; i++)
        if (side->axes[i].name == name && (found < 0 || !side->axes[i].is_loop))
            found = (int32_t)i;
    return found;
}

/* Appends an axis of `from` to `to`, unchanged. */
static void keep_axis(const DtSide *from, uint32_t axis, DtSide *to)
{
    to->axes[to->n] = from->axes[axis];
    for (uint32_t p = 0; p < from->parts.n; p++) {
        to->parts.at[p].first[to->n] = from->parts.at[p].first[axis];
        for (uint32_t a = 0; a < DT_MAX_RANK; a++)
            to->parts.at[p].factor[a][to->n] = from->parts.at[p].factor[a][axis];
    }
    to->n++;
}

/* Merges an axis of `from` into the last axis of `to`, in which it varies faster. */
static void merge_axis(const DtSide *from, uint32_t axis, DtSide *to)
{
    const uint32_t last = to->n - 1;
    const int64_t extent = from->axes[axis].extent;
    to->axes[last].extent *= extent;
    for (uint32_t p = 0; p < from->parts.n; p++) {
        DtSidePart *part = &to->parts.at[p];
        part->first[last] = part->first[last] * extent + from->parts.at[p].first[axis];
        for (uint32_t a = 0; a < DT_MAX_RANK; a++)
            part->factor[a][last] =
                part->factor[a][last] * extent + from->parts.at[p].factor[a][axis];
    }
}

static bool differ(const DtMapping *m, const DtExpr *expr, const DtSide *side)
{
    for (uint32_t i = 0; i < side->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (side->axes[i].name == side->axes[k].name && !side->axes[i].is_loop &&
                !side->axes[k].is_loop)
                return reject(m, expr->span,
                              dt_arena_printf(m->host->arena, "two axes are called `%s`",
                                              side->axes[i].name));
    return true;
}

/* Applies the renames and merges in brackets to the side, all of them at once, so that names can be
 * swapped. False after a report. */
static bool read_relabels(DtMapping *m, const DtExpr *expr, DtSide *side)
{
    bool taken[DT_MAX_RANK] = {false};
    DtSide result = {0};
    for (uint32_t p = 0; p < side->parts.n; p++)
        DT_PUSH(m->host->arena, result.parts, (DtSidePart){.store = side->parts.at[p].store});
    for (uint32_t i = 0; i < expr->subs.n; i++) {
        const DtSub *sub = &expr->subs.at[i];
        if (sub->kind != DT_SUB_RELABEL || sub->to.names.n != 1)
            return reject(m, sub->span,
                          "only renames and merges can stand here, such as [(heads, head) -> o]");
        for (uint32_t k = 0; k < sub->from.names.n; k++) {
            const DtName *name = &sub->from.names.at[k];
            const int32_t axis = find_axis(side, name->text);
            if (axis < 0)
                return reject(
                    m, name->span,
                    dt_arena_printf(m->host->arena, "there is no axis `%s` here", name->text));
            if (taken[axis])
                return reject(
                    m, name->span,
                    dt_arena_printf(m->host->arena, "axis `%s` is used twice", name->text));
            taken[axis] = true;
            if (k)
                merge_axis(side, (uint32_t)axis, &result);
            else
                keep_axis(side, (uint32_t)axis, &result);
        }
        result.axes[result.n - 1].name = sub->to.names.at[0].text;
        result.axes[result.n - 1].is_loop = false;
    }
    for (uint32_t x = 0; x < side->n; x++)
        if (!taken[x])
            keep_axis(side, x, &result);
    *side = result;
    return differ(m, expr, side);
}

/* ---- concat and stack ---- */

/* Adds the parts of `next` to those of the side, whose axes it has in another order, `offset`
 * elements further along axis `along`. Every other axis has the same extent. */
static bool add_side(DtMapping *m, const DtExpr *expr, const DtSide *next, DtSide *side,
                     uint32_t along, int64_t offset)
{
    const uint32_t first = side->parts.n;
    for (uint32_t p = 0; p < next->parts.n; p++)
        DT_PUSH(m->host->arena, side->parts, (DtSidePart){.store = next->parts.at[p].store});
    if (next->n != side->n)
        return reject(m, expr->span, "the arguments have different axes");
    for (uint32_t x = 0; x < side->n; x++) {
        int32_t at = -1;
        for (uint32_t k = 0; k < next->n; k++)
            if (next->axes[k].name == side->axes[x].name &&
                next->axes[k].is_loop == side->axes[x].is_loop)
                at = (int32_t)k;
        if (at < 0)
            return reject(m, expr->span,
                          dt_arena_printf(m->host->arena,
                                          "this has no axis `%s`, which the first "
                                          "argument has",
                                          side->axes[x].name));
        if (x != along && next->axes[at].extent != side->axes[x].extent)
            return reject(m, expr->span,
                          dt_arena_printf(m->host->arena,
                                          "axis `%s` has %" PRId64 " elements here and %" PRId64
                                          " in the first argument",
                                          side->axes[x].name, next->axes[at].extent,
                                          side->axes[x].extent));
        for (uint32_t p = 0; p < next->parts.n; p++) {
            const DtSidePart *from = &next->parts.at[p];
            DtSidePart *to = &side->parts.at[first + p];
            to->first[x] = from->first[at] + (x == along ? offset : 0);
            for (uint32_t a = 0; a < DT_MAX_RANK; a++)
                to->factor[a][x] = from->factor[a][at];
        }
        if (x == along)
            side->axes[x].extent = offset + next->axes[at].extent;
    }
    return true;
}

/* Gives the side a new axis of one element; false after a report. */
static bool add_axis(const DtMapping *m, const DtExpr *expr, const char *name, DtSide *side)
{
    if (find_axis(side, name) >= 0 && !side->axes[find_axis(side, name)].is_loop)
        return reject(m, expr->span,
                      dt_arena_printf(m->host->arena, "this has an axis `%s` already", name));
    if (side->n == DT_MAX_RANK)
        return reject(m, expr->span, "a tensor has at most 16 axes, with those of its loops");
    side->axes[side->n++] = (DtSideAxis){name, 1, false};
    return true;
}

/* Reads concat[a](x, y) or stack[a](x, y) into ret_side; false after a report. */
static bool read_join(DtMapping *m, const DtExpr *call, DtSide *ret_side)
{
    const DtExpr *callee = call->a;
    const char *name = callee->kind == DT_EXPR_SUBS && callee->a->kind == DT_EXPR_NAME
                           ? callee->a->name.text
                           : NULL;
    const bool concat = name && !strcmp(name, "concat"), stack = name && !strcmp(name, "stack");
    if ((!concat && !stack) || callee->subs.n != 1 || callee->subs.at[0].kind != DT_SUB_GROUP ||
        callee->subs.at[0].from.names.n != 1 || call->args.n == 0)
        return reject(m, call->span, "only renames, merges, `concat` and `stack` can stand here");
    const DtName *axis = &callee->subs.at[0].from.names.at[0];
    for (uint32_t i = 0; i < call->args.n; i++) {
        const DtExpr *value = call->args.at[i].value;
        DtSide side = {0};
        if (!dt_configsides_read(m, value, &side) ||
            (stack && !add_axis(m, value, axis->text, &side)))
            return false;
        const int32_t along = find_axis(i ? ret_side : &side, axis->text);
        if (along < 0 || (i == 0 && side.axes[along].is_loop))
            return reject(
                m, axis->span,
                dt_arena_printf(m->host->arena, "the first argument has no axis `%s`", axis->text));
        if (i == 0)
            *ret_side = side;
        else if (!add_side(m, value, &side, ret_side, (uint32_t)along,
                           ret_side->axes[along].extent))
            return false;
    }
    return true;
}

bool dt_configsides_read(DtMapping *m, const DtExpr *expr, DtSide *ret_side)
{
    expr = dt_configsides_chosen(m, expr);
    if (!expr || expr->kind == DT_EXPR_ERROR)
        return false;
    const char *path = dt_configargs_path(expr);
    if (path)
        return read_path(m, expr, path, ret_side);
    if (expr->kind == DT_EXPR_CALL)
        return read_join(m, expr, ret_side);
    if (expr->kind != DT_EXPR_SUBS)
        return reject(m, expr->span,
                      "only parameter paths, renames, merges, `concat` and `stack` can stand here");
    return dt_configsides_read(m, expr->a, ret_side) && read_relabels(m, expr, ret_side);
}
