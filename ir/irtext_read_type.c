/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of IR text: spans, types, sets of mesh axes and initialisers, which need to know
 * nothing of a module but its mesh. */
#include "ir/irtext_read.h"

#include "ir/irtext.h"

#include <string.h>

/* Reads `lo-hi` character by character: the lexer would take both as one number. */
static bool parse_range(DtIrLex *lex, uint32_t *ret_lo, uint32_t *ret_hi)
{
    uint64_t number[2] = {0, 0};
    size_t i = lex->lo;
    for (int k = 0; k < 2; k++) {
        size_t from = i;
        for (;
             i < lex->len && lex->text[i] >= '0' && lex->text[i] <= '9' && number[k] <= UINT32_MAX;
             i++)
            number[k] = number[k] * 10 + (uint64_t)(lex->text[i] - '0');
        if (i == from || number[k] > UINT32_MAX ||
            (k == 0 && (i >= lex->len || lex->text[i++] != '-')))
            return dt_irlex_fail(lex, "expected a span: @file:lo-hi");
    }
    *ret_lo = (uint32_t)number[0];
    *ret_hi = (uint32_t)number[1];
    lex->pos = i;
    dt_irlex_next(lex);
    return true;
}

bool dt_irread_span(DtIrLex *lex, DtSpan *ret_span)
{
    if (!dt_irlex_take(lex, '@'))
        return false;
    if (!dt_irlex_u32(lex, &ret_span->file))
        return false;
    if (!dt_irlex_is(lex, ':'))
        return dt_irlex_fail(lex, "expected a span: @file:lo-hi");
    dt_irlex_next(lex);
    return parse_range(lex, &ret_span->lo, &ret_span->hi);
}

static bool mesh_number(DtIrLex *lex, const DtMesh *mesh, const char *name, size_t len,
                        uint8_t *ret_number)
{
    for (uint32_t i = 0; i < mesh->n; i++) {
        const char *axis = mesh->axes[i].name;
        if (strlen(axis) == len && memcmp(axis, name, len) == 0) {
            *ret_number = (uint8_t)i;
            return true;
        }
    }
    return dt_irlex_fail(lex, "unknown mesh axis");
}

/* Reads one mesh axis, by name or number; a dot ends a bare name. more: a dot follows. */
static bool parse_mesh_axis(DtIrLex *lex, const DtMesh *mesh, uint8_t *ret_number, bool *ret_more)
{
    *ret_more = false;
    if (lex->token == DT_IR_NAME && lex->quoted) {
        if (!mesh_number(lex, mesh, lex->name, strlen(lex->name), ret_number))
            return false;
    } else if (lex->token == DT_IR_NAME || lex->token == DT_IR_NUMBER) {
        size_t n = 0;
        while (lex->lo + n < lex->pos && lex->text[lex->lo + n] != '.')
            n++;
        const char *at = lex->text + lex->lo;
        lex->pos = lex->lo + n;
        if (lex->token == DT_IR_NAME && !mesh_number(lex, mesh, at, n, ret_number))
            return false;
        if (lex->token == DT_IR_NUMBER) {
            int64_t number;
            if (!dt_irlex_integer(lex, 0, DT_MAX_MESH - 1, &number))
                return false;
            *ret_number = (uint8_t)number;
            *ret_more = dt_irlex_take(lex, '.');
            return true;
        }
    } else {
        return dt_irlex_fail(lex, "expected a mesh axis");
    }
    dt_irlex_next(lex);
    *ret_more = dt_irlex_take(lex, '.');
    return true;
}

static bool parse_split(DtIrLex *lex, const DtMesh *mesh, DtAxis *axis)
{
    bool more = true;
    while (more) {
        if (axis->n_split == DT_MAX_SPLIT)
            return dt_irlex_fail(lex, "an axis is split by more than %d mesh axes", DT_MAX_SPLIT);
        if (!parse_mesh_axis(lex, mesh, &axis->split[axis->n_split], &more))
            return false;
        axis->n_split++;
    }
    axis->zigzag = dt_irlex_take(lex, '~');
    return true;
}

static bool parse_axis(DtIrLex *lex, const DtMesh *mesh, DtAxis *axis)
{
    *axis = (DtAxis){.name = dt_irlex_name(lex)};
    if (!dt_irlex_expect(lex, '=') || !dt_irlex_integer(lex, 1, INT64_MAX, &axis->extent))
        return false;
    return !dt_irlex_take(lex, '/') || parse_split(lex, mesh, axis);
}

/* Reads `{` kind mesh axes `}` and adds the mesh axes to *ret_bits. */
bool dt_irread_mesh_set(DtIrLex *lex, const DtMesh *mesh, uint16_t *ret_bits)
{
    *ret_bits = 0;
    while (!lex->failed && !dt_irlex_is(lex, '}')) {
        uint8_t number = 0;
        bool more;
        if (!parse_mesh_axis(lex, mesh, &number, &more))
            return false;
        *ret_bits |= (uint16_t)(1u << number);
    }
    return dt_irlex_expect(lex, '}');
}

const DtType *dt_irread_type(DtIrLex *lex, const DtMesh *mesh)
{
    DtDtype dtype;
    DtAxis axes[DT_MAX_RANK];
    uint32_t rank = 0;
    uint16_t partial = 0;
    unsigned pending = 0;
    if (lex->token != DT_IR_NAME || lex->quoted || !dt_dtype_parse(lex->name, &dtype)) {
        dt_irlex_fail(lex, "expected a type, such as f32[batch=4]");
        return NULL;
    }
    dt_irlex_next(lex);
    if (!dt_irlex_expect(lex, '['))
        return NULL;
    while (!lex->failed && !dt_irlex_is(lex, ']')) {
        if (rank == DT_MAX_RANK) {
            dt_irlex_fail(lex, "a type has more than %d axes", DT_MAX_RANK);
            return NULL;
        }
        if (!parse_axis(lex, mesh, &axes[rank++]) ||
            (!dt_irlex_is(lex, ']') && !dt_irlex_expect(lex, ',')))
            return NULL;
    }
    if (!dt_irlex_expect(lex, ']'))
        return NULL;
    if (dt_irlex_take(lex, '{') && (!dt_irlex_choice(lex, "sum, max or min", dt_irtext_reduces,
                                                     DT_COUNT(dt_irtext_reduces), &pending) ||
                                    !dt_irread_mesh_set(lex, mesh, &partial)))
        return NULL;
    const char *problem = dt_type_check(dtype, rank, axes, partial, (DtReduce)pending);
    if (problem) {
        dt_irlex_fail(lex, "%s", problem);
        return NULL;
    }
    return dt_type_make(dtype, rank, axes, partial, (DtReduce)pending);
}

bool dt_irread_init(DtIrLex *lex, DtInit *ret_init)
{
    unsigned kind;
    if (!dt_irlex_key(lex, "init") ||
        !dt_irlex_choice(lex, "an initialiser", dt_irtext_inits, DT_COUNT(dt_irtext_inits), &kind))
        return false;
    ret_init->kind = (DtInitKind)kind;
    return dt_irlex_expect(lex, '(') && dt_irlex_double(lex, &ret_init->a) &&
           dt_irlex_expect(lex, ',') && dt_irlex_double(lex, &ret_init->b) &&
           dt_irlex_expect(lex, ')');
}
