/* SPDX-License-Identifier: Apache-2.0 */
/* A names block maps the parameters of a model to tensors of a file that another program wrote:
 *
 *   names huggingface on llama {
 *     "model.layers.{h}.self_attn.q_proj.weight"[o, embed] =
 *         h.attention.wq.w[(kv, group, head) -> o]
 *     ignore "*.rotary_emb.inv_freq"
 *     config "rms_norm_eps" = 1e-5
 *   }
 *
 * Each axis of the right side, and each loop of its parameters, stands once on the left: in the
 * brackets, which give the order in memory, or in the name, whose number it makes. The right side
 * (config_sides.c) moves elements without computing, so the map works in both directions. The
 * result says for each parameter at which element of which tensor each of its elements stands.
 * Checked here: the form, the axes and extents of both sides, that names differ, and that every
 * parameter occurs or is said to keep its initial value. */
#include "frontend/config_names.h"

#include "base/intern.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    MOST_NAMES = 1 << 20, /* tensors of a file */
    MOST_LISTED = 999999999
};

static DtDiag *reject(const DtMapping *m, DtSpan span, const char *what)
{
    return dt_diag_report(m->host->diags, E0467, span, "%s", what);
}

/* ---- numbers in names ---- */

/* The text in braces of a tensor's name, as `{layer + 1}`, while it is read. */
typedef struct Hole {
    const DtMapping *m;
    const DtTarget *target;
    const DtSide *side;
    const char *at, *end;
    DtSpan span;
    int64_t factor[DT_MAX_RANK + 1]; /* of the axes of the side; the last one: the number itself */
    DT_VEC(int64_t) list;
} Hole;

static void skip_blanks(Hole *h)
{
    while (h->at < h->end && *h->at == ' ')
        h->at++;
}

static bool is_letter(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool hole_fails(const Hole *h, const char *what)
{
    DtDiag *d = reject(h->m, h->span, what);
    dt_diag_note(d,
                 "a number in a name is made of loop labels, axes, dims and integers by `+`, `-` "
                 "and `*`, such as {h}, {h + 3} or {4 * h + 1}");
    return false;
}

/* Sets in ret_terms that a word in braces means an index of the right side: that of a loop, or else
 * of an axis of that name. False if it means nothing. */
static bool read_hole_name(Hole *h, const char *word, int64_t *ret_terms)
{
    const DtSide *side = h->side;
    int32_t found = -1;
    for (uint32_t i = 0; i < side->n; i++)
        if (side->axes[i].name == word && (found < 0 || side->axes[i].is_loop))
            found = (int32_t)i;
    if (found >= 0) {
        ret_terms[found] = 1;
        return true;
    }
    for (uint32_t i = 0; i < h->m->numbers.n; i++)
        if (h->m->numbers.at[i].label == word) {
            ret_terms[DT_MAX_RANK] = h->m->numbers.at[i].number;
            return true;
        }
    for (uint32_t i = 0; i < h->m->program->dims.n; i++)
        if (!strcmp(h->m->program->dims.at[i].name, word)) {
            ret_terms[DT_MAX_RANK] = h->m->program->dims.at[i].extent;
            return true;
        }
    return hole_fails(
        h, dt_arena_printf(h->m->host->arena, "the right side has no loop and no axis `%s`", word));
}

static bool read_factor(Hole *h, int64_t ret_terms[DT_MAX_RANK + 1])
{
    memset(ret_terms, 0, (DT_MAX_RANK + 1) * sizeof *ret_terms);
    skip_blanks(h);
    const char *start = h->at;
    if (h->at < h->end && is_digit(*h->at)) {
        int64_t n = 0;
        for (; h->at < h->end && is_digit(*h->at); h->at++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *h->at - '0', &n) ||
                n > INT32_MAX)
                return hole_fails(h, "this number is too large for a name");
        ret_terms[DT_MAX_RANK] = n;
        return true;
    }
    while (h->at < h->end && (is_letter(*h->at) || (h->at > start && is_digit(*h->at))))
        h->at++;
    if (h->at == start)
        return hole_fails(h, "the braces do not hold a number");
    return read_hole_name(h, dt_intern_n(start, (size_t)(h->at - start)), ret_terms);
}

static bool is_number(const int64_t terms[DT_MAX_RANK + 1])
{
    for (uint32_t i = 0; i < DT_MAX_RANK; i++)
        if (terms[i])
            return false;
    return true;
}

/* Reads factors joined by `*` into ret_terms (a factor for each axis, and a number). At most one of
 * them may be an index. */
static bool read_term(Hole *h, int64_t ret_terms[DT_MAX_RANK + 1])
{
    if (!read_factor(h, ret_terms))
        return false;
    for (skip_blanks(h); h->at < h->end && *h->at == '*'; skip_blanks(h)) {
        int64_t next[DT_MAX_RANK + 1];
        h->at++;
        if (!read_factor(h, next))
            return false;
        const bool left = is_number(ret_terms);
        if (!left && !is_number(next))
            return hole_fails(h, "two indices cannot be multiplied here");
        const int64_t times = left ? ret_terms[DT_MAX_RANK] : next[DT_MAX_RANK];
        for (uint32_t i = 0; i <= DT_MAX_RANK; i++)
            if (__builtin_mul_overflow(left ? next[i] : ret_terms[i], times, &ret_terms[i]) ||
                ret_terms[i] > INT32_MAX)
                return hole_fails(h, "this number is too large for a name");
    }
    return true;
}

/* `: 2, 5, 8`: the numbers of indices 0, 1, 2. */
static bool read_list(Hole *h)
{
    do {
        int64_t terms[DT_MAX_RANK + 1];
        h->at++;
        if (!read_factor(h, terms))
            return false;
        if (!is_number(terms))
            return hole_fails(h, "a list in braces has integers only");
        if (terms[DT_MAX_RANK] > MOST_LISTED)
            return hole_fails(h, "this number is too large for a name");
        DT_PUSH(h->m->host->arena, h->list, terms[DT_MAX_RANK]);
        skip_blanks(h);
    } while (h->at < h->end && *h->at == ',');
    return true;
}

static bool read_hole(Hole *h)
{
    int64_t sign = 1;
    do {
        int64_t terms[DT_MAX_RANK + 1];
        skip_blanks(h);
        if (h->at < h->end && (*h->at == '+' || *h->at == '-'))
            sign = *h->at++ == '-' ? -1 : 1;
        if (!read_term(h, terms))
            return false;
        for (uint32_t i = 0; i <= DT_MAX_RANK; i++)
            h->factor[i] += sign * terms[i];
        skip_blanks(h);
    } while (h->at < h->end && (*h->at == '+' || *h->at == '-'));
    if (h->at < h->end && *h->at == ':' && !read_list(h))
        return false;
    return h->at == h->end || hole_fails(h, "the braces do not hold a number");
}

/* Returns the span of the braces in the source if the name is written without escapes; else that of
 * the whole name. */
static DtSpan hole_span(const DtTarget *target, const char *from, const char *to)
{
    DtSpan span = target->name.span;
    const uint32_t at = (uint32_t)(from - target->string);
    if (span.hi - span.lo != target->string_len + 2)
        return span;
    return (DtSpan){span.file, span.lo + 1 + at, span.lo + 1 + at + (uint32_t)(to - from)};
}

typedef DT_VEC(Hole) Holes;

/* Reads a tensor's name: tensor->pattern has `#` for each number, and ret_holes what the braces say
 * of it. False after a report. */
static bool read_name(const DtMapping *m, const DtTarget *target, const DtSide *side,
                      DtFileTensor *tensor, Holes *ret_holes)
{
    DtText pattern = {0};
    const char *end = target->string + target->string_len;
    bool good = !memchr(target->string, '#', target->string_len) ||
                (reject(m, target->name.span, "a name with `#` cannot be read"), false);
    for (const char *at = target->string; at < end && good; at++) {
        if (*at != '{') {
            dt_text_add_n(&pattern, at, 1);
            continue;
        }
        const char *close = memchr(at, '}', (size_t)(end - at));
        Hole hole = {.m = m,
                     .target = target,
                     .side = side,
                     .at = at + 1,
                     .end = close ? close : end,
                     .span = hole_span(target, at, close ? close + 1 : end)};
        good = close ? read_hole(&hole) : hole_fails(&hole, "the brace is not closed");
        DT_PUSH(m->host->arena, *ret_holes, hole);
        dt_text_add(&pattern, "#");
        if (!close)
            break;
        at = close;
    }
    tensor->pattern = pattern.at ? dt_intern_n(pattern.at, pattern.len) : "";
    dt_text_free(&pattern);
    return good;
}

/* ---- both sides of an entry ---- */

static const char *axes_text(const DtMapping *m, const DtSide *side)
{
    const char *list = "";
    for (uint32_t i = 0; i < side->n; i++)
        if (!side->axes[i].is_loop)
            list = dt_arena_printf(m->host->arena, "%s%s%s", list, *list ? ", " : "",
                                   side->axes[i].name);
    return list;
}

static bool axes_differ(const DtMapping *m, const DtTarget *target, const DtSide *side,
                        const char *what)
{
    DtDiag *d = reject(m, target->span, what);
    dt_diag_note(d,
                 "the right side has axes [%s]; each of them is on the left once: in the "
                 "brackets, in the order of the file's memory, or in the name, as {axis}",
                 axes_text(m, side));
    return false;
}

/* Records that the file has only the indices below `extent` of this axis of the parameter. False
 * after a report. */
static bool limit(const DtMapping *m, const DtAstAxis *written, const DtSide *side, uint32_t axis,
                  int64_t extent, DtFileTensor *tensor)
{
    for (uint32_t i = 0; i < side->parts.n && extent < side->axes[axis].extent; i++) {
        const DtSidePart *part = &side->parts.at[i];
        uint32_t n = 0, at = 0;
        for (uint32_t a = 0; a < part->store->type->rank; a++)
            if (part->factor[a][axis])
                n++, at = a;
        if (n != 1 || part->factor[at][axis] != 1 || part->first[axis] != 0) {
            DtDiag *d = reject(
                m, written->name.span,
                dt_arena_printf(m->host->arena, "`%s` has %" PRId64 " elements, not %" PRId64,
                                written->name.text, side->axes[axis].extent, extent));
            dt_diag_note(d, "fewer can only be along an axis of the parameter itself");
            return false;
        }
        tensor->parts.at[i].count[at] = extent;
    }
    return true;
}

/* Reads an axis in the brackets: ret_axis is its number on the right side, or -1 for an axis of one
 * element. False after an error. */
static bool read_file_axis(const DtMapping *m, const DtTarget *target, const DtAstAxis *written,
                           const DtSide *side, DtFileTensor *tensor, int32_t *ret_axis,
                           int64_t *ret_extent)
{
    DtConfigNumber number = {0};
    *ret_axis = -1;
    *ret_extent = 1;
    if (written->extent && !m->host->constant(m->host->context, written->extent, &number))
        return false;
    if (*written->name.text == '\0') {
        if (number.whole == 1)
            return true;
        DtDiag *d = reject(m, written->name.span, "an axis without a name has one element");
        dt_diag_help(d, "write 1, or the name of an axis of the right side");
        return false;
    }
    for (uint32_t i = 0; i < side->n; i++)
        if (side->axes[i].name == written->name.text && (*ret_axis < 0 || !side->axes[i].is_loop))
            *ret_axis = (int32_t)i;
    if (*ret_axis < 0)
        return axes_differ(
            m, target, side,
            dt_arena_printf(m->host->arena, "the right side has no axis `%s`", written->name.text));
    *ret_extent = side->axes[*ret_axis].extent;
    if (!written->extent)
        return true;
    if (!number.is_integer || number.whole < 1) {
        reject(m, written->extent->span, "an axis has at least one element");
        return false;
    }
    *ret_extent = number.whole;
    return limit(m, written, side, (uint32_t)*ret_axis, number.whole, tensor);
}

/* Which axes of the right side the name and the brackets have. */
typedef struct Left {
    int32_t order[2 * DT_MAX_RANK + 1]; /* numbers of axes of the right side; -1: of one element */
    int64_t extent[2 * DT_MAX_RANK + 1];
    uint32_t n_index, n;
    bool used[DT_MAX_RANK];
} Left;

static void take_indices(const DtSide *side, const Holes *holes, Left *left)
{
    for (uint32_t i = 0; i < holes->n; i++)
        for (uint32_t x = 0; x < side->n; x++)
            if (holes->at[i].factor[x] && !left->used[x]) {
                left->used[x] = true;
                left->extent[left->n] = side->axes[x].extent;
                left->order[left->n++] = (int32_t)x;
            }
    left->n_index = left->n;
}

static bool take_axes(const DtMapping *m, const DtTarget *target, const DtSide *side,
                      DtFileTensor *tensor, Left *left)
{
    for (uint32_t i = 0; i < target->type.axes.n; i++) {
        const DtAstAxis *written = &target->type.axes.at[i];
        int32_t axis;
        int64_t extent;
        if (left->n == DT_MAX_RANK) {
            reject(m, target->span, "a tensor has at most 16 axes, with those in its name");
            return false;
        }
        if (!read_file_axis(m, target, written, side, tensor, &axis, &extent))
            return false;
        if (axis >= 0 && left->used[axis])
            return axes_differ(
                m, target, side,
                dt_arena_printf(m->host->arena, "`%s` is on the left twice", written->name.text));
        if (axis >= 0)
            left->used[axis] = true;
        left->extent[left->n] = extent;
        left->order[left->n++] = axis;
    }
    return true;
}

static bool all_used(const DtMapping *m, const DtTarget *target, const DtSide *side,
                     const Left *left)
{
    for (uint32_t x = 0; x < side->n; x++) {
        if (left->used[x])
            continue;
        const char *name = side->axes[x].name;
        if (!side->axes[x].is_loop)
            return axes_differ(
                m, target, side,
                dt_arena_printf(m->host->arena, "the left side lacks axis `%s`", name));
        DtDiag *d =
            reject(m, target->name.span, "the name does not tell the iterations of the loop apart");
        dt_diag_help(d, "put {%s} where the number stands", name);
        return false;
    }
    return true;
}

/* Finds where the elements of each parameter are in the file's tensor, whose axes have the order of
 * the left side: the first offset and the strides. False after a report. */
static bool place_parts(const DtMapping *m, const DtTarget *target, const DtSide *side,
                        const Left *left, DtFileTensor *tensor)
{
    int64_t stride[DT_MAX_RANK] = {0}, total = 1;
    for (uint32_t i = left->n; i-- > 0;) {
        if (left->order[i] >= 0)
            stride[left->order[i]] = total;
        tensor->extent[i] = left->extent[i];
        if (__builtin_mul_overflow(total, left->extent[i], &total) || total > DT_FILE_MOST) {
            reject(m, target->span, "a tensor of that size cannot be");
            return false;
        }
    }
    for (uint32_t p = 0; p < side->parts.n; p++) {
        const DtSidePart *from = &side->parts.at[p];
        DtFilePart *to = &tensor->parts.at[p];
        for (uint32_t x = 0; x < side->n; x++) {
            to->first += from->first[x] * stride[x];
            for (uint32_t a = 0; a < from->store->type->rank; a++)
                to->stride[a] += from->factor[a][x] * stride[x];
        }
    }
    return true;
}

/* ---- the names themselves ---- */

static bool next_index(const DtFileTensor *tensor, int64_t index[DT_MAX_RANK])
{
    for (uint32_t i = tensor->n_index; i-- > 0; index[i] = 0)
        if (++index[i] < tensor->extent[i])
            return true;
    return false;
}

static int64_t number_of(const DtFileHole *hole, uint32_t n, const int64_t *index)
{
    int64_t number = hole->first;
    for (uint32_t i = 0; i < n; i++)
        number += hole->factor[i] * index[i];
    if (hole->list.n == 0)
        return number;
    return number >= 0 && number < hole->list.n ? hole->list.at[number] : -1 - number;
}

/* Adds the tensors' names of an entry to m->known. Reports names with a negative number and names
 * that are there already. */
static bool note_names(DtMapping *m, const DtTarget *target, const DtFileTensor *tensor)
{
    int64_t index[DT_MAX_RANK] = {0};
    do {
        DtText name = {0};
        uint32_t hole = 0;
        bool good = m->known.n < MOST_NAMES ||
                    (reject(m, target->span, "a file of so many tensors cannot be"), false);
        for (const char *at = tensor->pattern; *at && good; at++) {
            int64_t number =
                *at == '#' ? number_of(&tensor->holes.at[hole++], tensor->n_index, index) : 0;
            if (number >= DT_FILE_MOST) {
                reject(m, target->name.span, "a number in this name is too large");
                good = false;
            } else if (number < 0) {
                const uint32_t listed = tensor->holes.at[hole - 1].list.n;
                const char *what =
                    listed ? dt_arena_printf(m->host->arena,
                                             "the braces list %u numbers, and index %" PRId64
                                             " needs one",
                                             listed, -1 - number)
                           : dt_arena_printf(m->host->arena, "a number in this name is %" PRId64,
                                             number);
                reject(m, target->name.span, what);
                good = false;
            }
            if (*at == '#')
                dt_text_printf(&name, "%" PRId64, number);
            else
                dt_text_add_n(&name, at, 1);
        }
        const char *copy = dt_arena_strndup(m->host->arena, name.at ? name.at : "", name.len);
        dt_text_free(&name);
        const DtTarget *other = good ? dt_map_find(&m->known, copy, strlen(copy)) : NULL;
        if (other == target && m->numbers.n) {
            DtDiag *d = reject(m, target->name.span,
                               "the name does not tell the positions in the tuple apart");
            dt_diag_help(d, "put {%s} where the number stands", m->numbers.at[0].label);
            good = false;
        } else if (other) {
            DtDiag *d = reject(m, target->name.span,
                               dt_arena_printf(m->host->arena, "`%s` is named twice", copy));
            dt_diag_label(d, other->name.span, "first here");
            good = false;
        }
        if (!good)
            return false;
        dt_map_add(&m->known, copy, strlen(copy), (void *)(uintptr_t)target);
    } while (next_index(tensor, index));
    return true;
}

/* ---- entries ---- */

static void read_tensor(DtMapping *m, const DtEntry *entry)
{
    const DtTarget *target = &entry->targets.at[0];
    DtSide side = {0};
    Holes holes = {0};
    Left left = {0};
    DtFileTensor tensor = {.span = entry->span};
    if (!dt_configsides_read(m, entry->value, &side))
        return;
    for (uint32_t i = 0; i < side.parts.n; i++) {
        DtFilePart part = {.store = side.parts.at[i].store};
        for (uint32_t a = 0; a < part.store->type->rank; a++)
            part.count[a] = part.store->type->axes[a].extent;
        DT_PUSH(m->host->arena, tensor.parts, part);
    }
    if (!read_name(m, target, &side, &tensor, &holes))
        return;
    take_indices(&side, &holes, &left);
    if (!take_axes(m, target, &side, &tensor, &left) || !all_used(m, target, &side, &left) ||
        !place_parts(m, target, &side, &left, &tensor))
        return;
    tensor.n_index = left.n_index;
    tensor.n_axes = left.n;
    for (uint32_t i = 0; i < holes.n; i++) {
        DtFileHole hole = {.first = holes.at[i].factor[DT_MAX_RANK]};
        for (uint32_t x = 0; x < left.n_index; x++)
            hole.factor[x] = holes.at[i].factor[left.order[x]];
        for (uint32_t k = 0; k < holes.at[i].list.n; k++)
            DT_PUSH(m->host->arena, hole.list, holes.at[i].list.at[k]);
        DT_PUSH(m->host->arena, tensor.holes, hole);
    }
    if (note_names(m, target, &tensor))
        DT_PUSH(m->host->arena, m->made.tensors, tensor);
}

/* Whether the pattern matches the path of the parameter within the instance of the model. */
static bool is_matched(const DtMapping *m, const DtStore *store, const char *pattern)
{
    const char *own = dt_configsides_path(m, store);
    return own && fnmatch(pattern, own, FNM_NOESCAPE) == 0;
}

/* Returns a pattern for paths of the instance as one for those of the whole program. */
static const char *of_program(const DtMapping *m, const char *pattern)
{
    return *m->label ? dt_intern_printf("%s.%s", m->label, pattern) : pattern;
}

/* Whether the pattern matches the path of some parameter. */
static bool matches_some(const DtMapping *m, const char *pattern)
{
    for (uint32_t i = 0; i < m->program->module->stores.n; i++)
        if (is_matched(m, m->program->module->stores.at[i], pattern))
            return true;
    return false;
}

static void read_directive(DtMapping *m, const DtEntry *entry)
{
    const char *verb = entry->verb.text;
    const bool ignores = !strcmp(verb, "ignore"), keeps = !strcmp(verb, "initial");
    if (!strcmp(verb, "config") && entry->value) {
        dt_configmembers_read(m, entry);
        return;
    }
    if ((!ignores && !keeps) || entry->targets.n == 0 || entry->value) {
        DtDiag *d = reject(m, entry->span, "this is no entry of a names block");
        dt_diag_note(d, "besides tensors it has `ignore \"PATTERN\"`, for tensors of the file that "
                        "the model does not use, `initial \"PATTERN\"`, for parameters that the "
                        "file does not have, and `config \"KEY\" = VALUE`");
        return;
    }
    for (uint32_t i = 0; i < entry->targets.n; i++) {
        const DtTarget *target = &entry->targets.at[i];
        DtFileRule rule = {ignores ? DT_FILE_IGNORE : DT_FILE_INITIAL,
                           dt_intern_n(target->string, target->string_len), "", entry->span};
        if (keeps && !matches_some(m, rule.key)) {
            DtDiag *d = reject(m, target->name.span, "no parameter has a path that matches this");
            dt_diag_help(d, "`dtc --params` lists them");
        }
        if (keeps)
            rule.key = of_program(m, rule.key);
        DT_PUSH(m->host->arena, m->made.rules, rule);
    }
}

static void read_entry(DtMapping *m, const DtEntry *entry)
{
    if (entry->is_directive) {
        read_directive(m, entry);
        return;
    }
    if (entry->targets.n == 1 && entry->targets.at[0].string &&
        entry->targets.at[0].type.has_axes) {
        DtSideInstances instances = {0};
        const uint32_t errors = dt_diag_errors(m->host->diags);
        const DtExpr *bare = dt_configargs_bare(entry->value);
        if (bare && bare->kind == DT_EXPR_IF &&
            dt_configsides_is_none(dt_configsides_chosen(m, bare)))
            return;
        dt_configsides_instances(m, entry->value, &instances);
        for (uint32_t i = 0; i < instances.n && dt_diag_errors(m->host->diags) == errors; i++) {
            m->numbers = instances.at[i];
            read_tensor(m, entry);
        }
        m->numbers = (DtSideNumbers){0};
        return;
    }
    DtDiag *d =
        reject(m, entry->span, "an entry is a name in quotes with axes, `=`, and a parameter");
    dt_diag_help(d, "such as \"wte.weight\"[vocab, embed] = wte");
}

/* ---- the block ---- */

static bool keeps_initial(const DtMapping *m, const DtStore *store)
{
    for (uint32_t i = 0; i < m->made.rules.n; i++)
        if (m->made.rules.at[i].kind == DT_FILE_INITIAL &&
            fnmatch(m->made.rules.at[i].key, store->path, FNM_NOESCAPE) == 0)
            return true;
    return false;
}

/* Reports parameters without an entry. Those of adapters may be without one: the file of a base
 * does not have them. */
static void check_complete(DtMapping *m)
{
    DtDiag *d = NULL;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < m->program->module->stores.n; i++) {
        const DtStore *store = m->program->module->stores.at[i];
        if (!dt_configsides_path(m, store) || dt_map_find_pointer(&m->seen, store) ||
            keeps_initial(m, store))
            continue;
        if (store->in_adapter) {
            DtFileRule rule = {DT_FILE_INITIAL, store->path, "", m->item->span};
            DT_PUSH(m->host->arena, m->made.rules, rule);
            continue;
        }
        if (!d)
            d = dt_diag_report(m->host->diags, E0468, m->item->name.span,
                               "`%s` does not name every parameter and state", m->item->name.text);
        if (missing++ < 5)
            dt_diag_note(d, "`%s` is missing", store->path);
    }
    if (missing > 5)
        dt_diag_note(d, "and %u more", missing - 5);
    if (d)
        dt_diag_help(d, "`initial \"PATH\"` says that the file does not have a parameter");
}

/* Whether the program defines the model, which another train block may use. */
static bool is_defined(const DtMapping *m)
{
    for (uint32_t i = 0; i < m->host->n_items; i++) {
        const DtDef *def = m->host->items[i]->kind == DT_ITEM_DEF ? m->host->items[i]->def : NULL;
        if (def && def->kind == DT_DEF_MODEL && !strcmp(def->name.text, m->item->on.text))
            return true;
    }
    return false;
}

/* Whether the program uses the block's model. A block of the library is for the library's model: it
 * is passed over where the program has one of its own or uses only layers of the file. */
static bool model_exists(const DtMapping *m)
{
    const char *names[64];
    size_t n = 0;
    const bool is_library = m->host->in_library(m->host->context, m->item->span);
    for (uint32_t i = 0; i < m->program->module->funcs.n; i++) {
        const DtFunc *func = m->program->module->funcs.at[i];
        if (func->kind != DT_FUNC_MODEL || (is_library && !func->library))
            continue;
        if (dt_graph_source_name(func) == m->item->on.text)
            return true;
        if (n < DT_COUNT(names))
            names[n++] = dt_graph_source_name(func);
    }
    if (is_library || is_defined(m))
        return false;
    DtDiag *d =
        reject(m, m->item->on.span,
               dt_arena_printf(m->host->arena, "the program uses no model `%s`", m->item->on.text));
    dt_configargs_suggest(d, m->item->on.span, m->item->on.text, names, n);
    return false;
}

/* Reads the block for the instance of its model with this label. */
static void read_block(const DtConfigHost *host, const DtItem *item, DtProgram *program,
                       const char *label)
{
    DtMapping m = {.host = host,
                   .program = program,
                   .item = item,
                   .known.arena = host->arena,
                   .seen.arena = host->arena,
                   .label = label,
                   .made = {.name = item->name.text, .span = item->span, .label = label}};
    uint32_t errors = dt_diag_errors(host->diags);
    for (uint32_t i = 0; i < item->entries.n; i++)
        read_entry(&m, item->entries.at[i]);
    if (dt_diag_errors(host->diags) == errors)
        check_complete(&m);
    if (dt_diag_errors(host->diags) == errors)
        DT_PUSH(host->arena, program->names, m.made);
}

void dt_confignames_check(const DtConfigHost *host, const DtItem *item, DtProgram *program)
{
    const DtMapping m = {.host = host, .program = program, .item = item};
    const uint32_t errors = dt_diag_errors(host->diags);
    bool any = false;
    if (!item->on.text || !model_exists(&m))
        return;
    for (uint32_t i = 0; i < program->labelled.n && dt_diag_errors(host->diags) == errors; i++) {
        if (strcmp(program->labelled.at[i].model, item->on.text) != 0)
            continue;
        read_block(host, item, program, program->labelled.at[i].label);
        any = true;
    }
    if (!any && dt_diag_errors(host->diags) == errors)
        read_block(host, item, program, "");
}
