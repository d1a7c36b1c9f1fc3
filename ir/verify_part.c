/* SPDX-License-Identifier: Apache-2.0 */
/* What all files of the verifier use: reporting a problem, checking types, names, paths and
 * values. */
#include "ir/verify_internal.h"

#include "base/intern.h"
#include "ir/irtext.h"
#include "ir/map.h"

#include <string.h>

bool dt_verify_is_good(const DtVerify *v, const DtType *type)
{
    return type && (v->recent[dt_verify_recent(type)] == type ||
                    dt_map_find(&v->types, (const char *)&type, sizeof type));
}

/* Appends the op as text after a message, if everything that is needed to print it is valid. */
static void print_op(DtVerify *v)
{
    const DtOp *op = v->op;
    if ((op->n_in && !op->in) || (op->n_out && !op->out))
        return;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!op->out[i] || !dt_verify_is_good(v, op->out[i]->type))
            return;
    }
    dt_text_add(v->problems, ": ");
    dt_irtext_print_op(v->func, op, v->problems);
}

bool dt_verify_fail(DtVerify *v, DtSpan span, const char *format, ...)
{
    if (++v->n_problems > DT_VERIFY_MAX)
        return false;
    char message[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (v->func)
        dt_text_printf(v->problems, "function `%s`, ", v->func->name ? v->func->name : "?");
    if (span.file)
        dt_text_printf(v->problems, "%u:%u-%u: ", span.file, span.lo, span.hi);
    else
        dt_text_add(v->problems, "no span: ");
    dt_text_add(v->problems, message);
    if (v->op)
        print_op(v);
    dt_text_add(v->problems, "\n");
    return false;
}

bool dt_verify_name(DtVerify *v, DtSpan span, const char *what, const char *name)
{
    if (!name)
        return dt_verify_fail(v, span, "%s has no name", what);
    if (dt_intern(name) != name)
        return dt_verify_fail(v, span, "%s has a name that is not interned: `%.100s`", what, name);
    return true;
}

static bool check_type(DtVerify *v, DtSpan span, const char *what, const DtType *type)
{
    const char *problem =
        dt_type_check(type->dtype, type->rank, type->axes, type->partial, (DtReduce)type->pending);
    if (problem)
        return dt_verify_fail(v, span, "%s has a broken type: %s", what, problem);
    bool exists = type->partial >> v->module->mesh.n == 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (dt_intern(type->axes[i].name) != type->axes[i].name)
            return dt_verify_fail(v, span, "%s has an axis whose name is not interned", what);
        for (uint32_t k = 0; k < type->axes[i].n_split; k++)
            exists = exists && type->axes[i].split[k] < v->module->mesh.n;
    }
    if (dt_type_make(type->dtype, type->rank, type->axes, type->partial, (DtReduce)type->pending) !=
        type)
        return dt_verify_fail(v, span, "%s has a type that is not interned", what);
    return exists ||
           dt_verify_fail(v, span, "%s has a type with a mesh axis that does not exist", what);
}

bool dt_verify_type(DtVerify *v, DtSpan span, const char *what, const DtType *type)
{
    if (dt_verify_is_good(v, type)) {
        v->recent[dt_verify_recent(type)] = type;
        return true;
    }
    if (!type)
        return dt_verify_fail(v, span, "%s has no type", what);
    if (!check_type(v, span, what, type))
        return false;
    const DtType **key = DT_NEW(v->scratch, const DtType *);
    *key = type;
    dt_map_add(&v->types, (const char *)key, sizeof type, key);
    return true;
}

bool dt_verify_init(DtVerify *v, DtSpan span, const DtInit *init)
{
    if ((unsigned)init->kind > DT_INIT_UNIFORM || init->a != init->a || init->b != init->b)
        return dt_verify_fail(v, span, "the initialiser is not a known one");
    if ((init->kind == DT_INIT_NORMAL && init->a < 0) ||
        (init->kind == DT_INIT_UNIFORM && init->b < init->a))
        return dt_verify_fail(v, span, "the initialiser has no valid range");
    return true;
}

bool dt_verify_define(DtVerify *v, DtSpan span, const DtValue *value, const DtOp *op,
                      uint32_t index)
{
    if (!value)
        return dt_verify_fail(v, span, "value %u is missing", index);
    if (value->op != op || value->index != index)
        return dt_verify_fail(v, span, "value %u does not know where it is defined", index);
    if (value->id >= v->func->n_values)
        return dt_verify_fail(v, span, "value %u has number %u, and only %u are given out", index,
                              value->id, v->func->n_values);
    if (v->values[value->id])
        return dt_verify_fail(v, span, "two values have the number %u", value->id);
    v->values[value->id] = value;
    return dt_verify_type(v, span, "a value", value->type);
}

/* Returns the number of segments "#" of a pattern; -1: its other segments are not those of the
 * path. */
static int pattern_loops(const char *path, const char *pattern)
{
    int n = 0;
    while (*pattern) {
        bool starts = pattern[0] == '#' && (pattern[1] == '.' || pattern[1] == '\0');
        if (starts) {
            n++;
            pattern += pattern[1] ? 2 : 1;
            if (!*pattern && *path)
                return -1;
            continue;
        }
        size_t len = strcspn(pattern, ".");
        if (strncmp(path, pattern, len) != 0 || (path[len] != '.' && path[len] != '\0'))
            return -1;
        path += len + (path[len] == '.');
        pattern += len + (pattern[len] == '.');
    }
    return *path ? -1 : n;
}

bool dt_verify_path(DtVerify *v, DtSpan span, const char *path, const char *pattern,
                    const DtType *type, uint8_t n_loops)
{
    if (!dt_verify_name(v, span, "a path", path) ||
        !dt_verify_name(v, span, "a pattern", pattern) || !dt_verify_type(v, span, path, type))
        return false;
    if (n_loops > type->rank)
        return dt_verify_fail(v, span, "`%s` is stacked over %u loops but has %u axes", path,
                              n_loops, type->rank);
    if (pattern_loops(path, pattern) != n_loops)
        return dt_verify_fail(v, span, "pattern `%s` does not fit path `%s` with %u loops", pattern,
                              path, n_loops);
    return true;
}
