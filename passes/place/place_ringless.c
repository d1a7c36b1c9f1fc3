/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: lint L0596 for a `shard` line whose `(ring = true)` makes no ring, with the cause.
 *
 * While operands are placed, dt_placeringless_note remembers of each such line the first call that
 * streams over one of its axes, and what keeps that call from being a ring: the axis is padded, an
 * axis that comes before it takes the mesh axis, or the mesh axis splits no queries. If no call of
 * the program has become a ring in the end, dt_placeringless_check says so. */
#include "passes/place/place_internal.h"

#include "base/text.h"
#include "ir/shape.h"

#include <string.h>

/* ---- the cause ---- */

static bool names_axis(const DtPlaceLine *line, const char *axis)
{
    for (uint32_t k = 0; k < line->n_axes; k++)
        if (line->axes[k] == axis)
            return true;
    return false;
}

static bool has_pad(const DtModule *module, const DtAxis *axis, int64_t *ret_physical)
{
    for (uint32_t i = 0; i < module->padded.n; i++)
        if (module->padded.at[i].name == axis->name &&
            module->padded.at[i].logical == axis->extent) {
            *ret_physical = module->padded.at[i].physical;
            return true;
        }
    return false;
}

/* Returns the type of the first operand that has the axis and is not computed from positions alone
 * (the keys); NULL if there is none. */
static const DtType *keys_of(DtPlaceScope *s, const DtOp *op, DtValue *const *in, const char *axis)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (dt_type_find(in[i]->type, axis) >= 0 && !dt_placeconvert_info(s, in[i])->is_free)
            return in[i]->type;
    return NULL;
}

/* Returns the first axis that an operand and the result have and keys lack: that of queries; NULL
 * if there is none. ret_on: the mesh axes that split it. */
static const char *find_queries(const DtOp *op, DtValue *const *in, const DtType *keys,
                                uint16_t *ret_on)
{
    const DtType *out = op->out[0]->type;
    for (uint32_t i = 0; i < op->n_in; i++)
        for (uint32_t d = 0; d < in[i]->type->rank; d++) {
            const DtAxis *axis = &in[i]->type->axes[d];
            if (dt_type_find(out, axis->name) < 0 || dt_type_find(keys, axis->name) >= 0)
                continue;
            *ret_on = dt_shape_split_bits(axis);
            return axis->name;
        }
    return NULL;
}

void dt_placeringless_note(DtPlaceScope *s, const DtOp *op, DtValue *const *in)
{
    DtPlacer *p = s->p;
    const char *axis = op->func->stream ? op->func->stream->axis : NULL;
    const DtType *keys = axis ? keys_of(s, op, in, axis) : NULL;
    for (uint32_t i = 0; keys && i < p->n_written; i++) {
        DtPlaceLine *line = &p->lines.at[i];
        if (!line->ring || !names_axis(line, axis) || line->ringless.axis)
            continue;
        DtPlaceRingless *why = &line->ringless;
        why->axis = axis;
        why->func = op->func->library ? op->func->library : op->func->name;
        why->extent = dt_type_extent(keys, axis);
        has_pad(p->module, &keys->axes[dt_type_find(keys, axis)], &why->physical);
        why->queries = find_queries(op, in, keys, &why->queries_on);
        for (uint32_t k = 0; k < line->n_mesh && !why->taken_by; k++) {
            const int state = dt_placerule_state(keys, line->mesh[k]);
            why->taken_by =
                state >= 0 && keys->axes[state].name != axis ? keys->axes[state].name : NULL;
            why->taken = line->mesh[k];
        }
    }
}

/* ---- what it says ---- */

static const char *mesh_names(const DtPlacer *p, uint16_t bits, const char *between)
{
    DtText text = {0};
    for (uint32_t m = 0; m < p->module->mesh.n; m++)
        if (bits >> m & 1)
            dt_text_printf(&text, "%s%s", text.len ? between : "", p->module->mesh.axes[m].name);
    const char *names = dt_arena_printf(p->module->arena, "%s", text.at ? text.at : "");
    dt_text_free(&text);
    return names;
}

static uint16_t mesh_of(const DtPlacer *p, const DtPlaceLine *line)
{
    uint16_t bits = 0;
    for (uint32_t k = 0; k < line->n_mesh; k++)
        if (p->module->mesh.axes[line->mesh[k]].size > 1)
            bits |= (uint16_t)(1u << line->mesh[k]);
    return bits;
}

/* The line's text in the program; NULL if the command line gave it. */
static const char *text_of(const DtPlacer *p, DtSpan span, size_t *ret_len)
{
    size_t len;
    const char *source = dt_diag_source(p->module->diags, span.file, &len);
    *ret_len = span.hi - span.lo;
    return source && span.hi <= len ? source + span.lo : NULL;
}

static const char *find_in(const char *text, size_t len, const char *word)
{
    for (size_t n = strlen(word), i = 0; i + n <= len; i++)
        if (!memcmp(text + i, word, n))
            return text + i;
    return NULL;
}

/* Returns the text of the line without `ring = true`; NULL if the line does not write it so. */
static const char *without_ring(const DtPlacer *p, const DtPlaceLine *line)
{
    static const char *const forms[] = {" (ring = true)", "(ring = true)", "ring = true, ",
                                        ", ring = true"};
    size_t len;
    const char *text = text_of(p, line->span, &len);
    for (uint32_t i = 0; text && i < DT_COUNT(forms); i++) {
        const char *at = find_in(text, len, forms[i]);
        const size_t n = strlen(forms[i]);
        if (at)
            return dt_arena_printf(p->module->arena, "%.*s%.*s", (int)(at - text), text,
                                   (int)(len - (size_t)(at - text) - n), at + n);
    }
    return NULL;
}

/* Returns what the line says in parentheses, as ` (ring = true, pad = 4)`; "" if it says
 * nothing. */
static const char *options_of(const DtPlacer *p, const DtPlaceLine *line)
{
    size_t len;
    const char *text = text_of(p, line->span, &len), *at = text ? find_in(text, len, " (") : NULL;
    return at ? dt_arena_printf(p->module->arena, "%.*s", (int)(len - (size_t)(at - text)), at)
              : "";
}

static void fix_without(const DtPlacer *p, const DtPlaceLine *line, DtDiag *diag)
{
    const char *text = without_ring(p, line);
    if (text && !line->gives)
        dt_diag_fix(diag, line->span, "", "leave the line out: it splits no value");
    else if (text)
        dt_diag_fix(diag, line->span, text, "without `ring` the layout is the same");
}

static DtDiag *report(const DtPlacer *p, const DtPlaceLine *line, const char *why)
{
    return dt_diag_report(p->module->diags, L0596, line->span, "`ring` has no effect: %s", why);
}

static void lint_padded(const DtPlacer *p, const DtPlaceLine *line)
{
    const DtPlaceRingless *why = &line->ringless;
    DtDiag *diag =
        report(p, line,
               dt_arena_printf(
                   p->module->arena, "`%s` is padded from %lld to %lld, and `%s` takes it whole",
                   why->axis, (long long)why->extent, (long long)why->physical, why->func));
    dt_diag_note(diag,
                 "calls get their operands without padding, so a padded axis is gathered first");
    dt_diag_help(diag, "an extent of `%s` that needs no padding makes it a ring: %lld, say",
                 why->axis, (long long)why->physical);
    fix_without(p, line, diag);
}

/* Reports a line whose `ring` has no effect because its mesh axis splits another axis of the
 * keys. */
static void lint_taken(const DtPlacer *p, const DtPlaceLine *line)
{
    const DtPlaceRingless *why = &line->ringless;
    const char *mesh = p->module->mesh.axes[why->taken].name;
    DtDiag *diag =
        report(p, line,
               dt_arena_printf(p->module->arena,
                               "`%s` splits `%s` of the keys, so no rank lacks a part of `%s`",
                               mesh, why->taken_by, why->axis));
    dt_diag_note(
        diag,
        "a ring goes over a mesh axis that splits `%s` and the queries, and nothing else of them",
        why->axis);
    const uint16_t on = why->queries_on & (uint16_t)~p->time;
    if (!on)
        dt_diag_help(diag, "give `%s`%s%s%s a mesh axis of its own", why->axis,
                     why->queries ? " and `" : "", why->queries ? why->queries : "",
                     why->queries ? "`" : "");
    else
        dt_diag_fix(diag, line->span,
                    dt_arena_printf(p->module->arena, "shard %s on %s%s", why->axis,
                                    mesh_names(p, on, ", "), options_of(p, line)),
                    "the queries, `%s`, are split over `%s`", why->queries,
                    mesh_names(p, on, "` and `"));
    fix_without(p, line, diag);
}

/* Reports a line whose `ring` has no effect because every rank has all queries. */
static void lint_queries(const DtPlacer *p, const DtPlaceLine *line)
{
    const DtPlaceRingless *why = &line->ringless;
    const uint16_t on = mesh_of(p, line) & (uint16_t)~why->queries_on;
    DtDiag *diag = report(p, line,
                          dt_arena_printf(p->module->arena, "`%s` does not split the queries, `%s`",
                                          mesh_names(p, on, "` and `"), why->queries));
    dt_diag_note(diag, "a ring replaces the gather of keys and values where queries are split over "
                       "the same mesh axis");
    dt_diag_fix(diag, (DtSpan){line->span.file, line->span.lo, line->span.lo},
                dt_arena_printf(p->module->arena, "shard %s on %s; ", why->queries,
                                mesh_names(p, on, ", ")),
                "split the queries over it, too");
    fix_without(p, line, diag);
}

static void lint_other(const DtPlacer *p, const DtPlaceLine *line)
{
    const uint16_t mesh = mesh_of(p, line);
    const char *why = "its mesh axes have one rank each";
    if (mesh)
        why = dt_arena_printf(p->module->arena, "no call that streams gathers `%s` over `%s`",
                              line->axes[0], mesh_names(p, mesh, "` or `"));
    DtDiag *diag = report(p, line, why);
    dt_diag_note(diag, "a ring replaces the gather of keys and values where queries are split over "
                       "the same mesh axis");
    fix_without(p, line, diag);
}

void dt_placeringless_check(const DtPlacer *p)
{
    for (uint32_t i = 0; i < p->n_written; i++) {
        const DtPlaceLine *line = &p->lines.at[i];
        const DtPlaceRingless *why = &line->ringless;
        if (!line->ring || line->has_rung)
            continue;
        if (!mesh_of(p, line) || !why->axis)
            lint_other(p, line);
        else if (why->physical)
            lint_padded(p, line);
        else if (why->taken_by)
            lint_taken(p, line);
        else if (why->queries && mesh_of(p, line) & ~why->queries_on)
            lint_queries(p, line);
        else
            lint_other(p, line);
    }
}
