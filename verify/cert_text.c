/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate's own reader of IR text (ir/irtext.c says what it looks like). Line by line; what a line
 * says of names, paths and spans is kept for messages only. */
#include "verify/internal.h"

#include "base/intern.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    const char *at;
    uint32_t line;
    CertProgram *program;
    DtText *problem;
    bool failed;
} Reader;

static bool fail(Reader *r, const char *what)
{
    if (!r->failed)
        dt_text_printf(r->problem, "line %u of the program: expected %s at `%.30s`", r->line, what,
                       r->at);
    r->failed = true;
    return false;
}

static void skip(Reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

/* Whether piece comes next (after blanks); it is taken. */
static bool take(Reader *r, const char *piece)
{
    skip(r);
    size_t n = strlen(piece);
    if (strncmp(r->at, piece, n) != 0)
        return false;
    r->at += n;
    return true;
}

static bool expect(Reader *r, const char *piece) { return take(r, piece) || fail(r, piece); }

static bool is_part(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '@' || c == '#' || c == '$';
}

/* A name, bare or quoted (escapes are kept as they are written: equal names are written alike). */
static const char *name_of(Reader *r, bool dots)
{
    skip(r);
    const char *begin = r->at;
    if (*r->at == '"') {
        for (r->at++; *r->at && *r->at != '"' && *r->at != '\n'; r->at++)
            if (*r->at == '\\' && r->at[1])
                r->at++;
        if (*r->at != '"') {
            fail(r, "the end of a quoted name");
            return dt_intern("");
        }
        r->at++;
        return dt_intern_n(begin + 1, (size_t)(r->at - begin - 2));
    }
    while (is_part(*r->at) || (dots && *r->at == '.'))
        r->at++;
    if (r->at == begin)
        fail(r, "a name");
    return dt_intern_n(begin, (size_t)(r->at - begin));
}

static int64_t integer(Reader *r)
{
    char *end;
    skip(r);
    long long value = strtoll(r->at, &end, 10);
    if (end == r->at)
        fail(r, "a number");
    r->at = end;
    return value;
}

static uint8_t mesh_axis(Reader *r)
{
    const char *name = name_of(r, false);
    for (uint32_t i = 0; i < r->program->n_mesh; i++)
        if (r->program->mesh[i] == name)
            return (uint8_t)i;
    fail(r, "a mesh axis");
    return 0;
}

static uint16_t mesh_set(Reader *r)
{
    uint16_t bits = 0;
    while (!r->failed && !take(r, "}"))
        bits |= (uint16_t)(1u << mesh_axis(r));
    return bits;
}

static void axis_of(Reader *r, CertAxis *axis)
{
    axis->name = name_of(r, true);
    expect(r, "=");
    axis->extent = integer(r);
    if (*r->at != '/')
        return;
    do {
        r->at++;
        if (axis->n == CERT_SPLIT) {
            fail(r, "fewer splits");
            return;
        }
        axis->split[axis->n++] = mesh_axis(r);
    } while (!r->failed && *r->at == '.');
    if (*r->at == '~') {
        r->at++;
        axis->zigzag = true;
    }
}

/* A mesh axis splits once, divides what it splits, and is not pending beside that. */
static void check_type(Reader *r, const CertType *type)
{
    uint16_t used = type->partial;
    for (uint32_t a = 0; a < type->rank; a++) {
        int64_t n = type->axes[a].extent;
        if (n < 1)
            fail(r, "an extent of 1 or more");
        for (uint32_t s = 0; s < type->axes[a].n; s++) {
            uint16_t bit = (uint16_t)(1u << type->axes[a].split[s]);
            int64_t size = r->program->size[type->axes[a].split[s]];
            if ((used & bit) || n % size) {
                fail(r, "a mesh axis that is used once and divides");
                return;
            }
            used |= bit;
            n /= size;
        }
    }
}

static CertType *type_of(Reader *r)
{
    CertType *type = DT_NEW(r->program->arena, CertType);
    type->dtype = name_of(r, false);
    expect(r, "[");
    while (!r->failed && !take(r, "]")) {
        if (type->rank == CERT_RANK) {
            fail(r, "fewer axes");
            break;
        }
        axis_of(r, &type->axes[type->rank++]);
        take(r, ",");
    }
    if (*r->at == '{') {
        r->at++;
        type->pending = name_of(r, false);
        type->partial = mesh_set(r);
    }
    check_type(r, type);
    return type;
}

/* %name.7 or %7: the number. */
static uint32_t value_of(Reader *r)
{
    if (!expect(r, "%"))
        return 0;
    const char *text = name_of(r, true);
    if (*r->at == '.' || (is_part(*r->at) && r->at[-1] == '"')) /* "quoted".7 */
        text = (r->at++, name_of(r, false));
    const char *dot = strrchr(text, '.');
    return (uint32_t)strtoul(dot ? dot + 1 : text, NULL, 10);
}

static void names(Reader *r, const char *end, const char **ret_names, uint32_t *ret_n,
                  const char *other)
{
    while (!r->failed) {
        skip(r);
        if (take(r, end) || (other && take(r, other)))
            return;
        if (*ret_n == CERT_RANK) {
            fail(r, "fewer names");
            return;
        }
        ret_names[(*ret_n)++] = name_of(r, true);
        take(r, ",");
    }
}

/* ---- attributes ---- */

static void loop_of(Reader *r, CertLoop *loop)
{
    expect(r, "label=");
    loop->label = name_of(r, true);
    while (!r->failed && !take(r, ")")) {
        const char *key = name_of(r, false);
        if (strcmp(key, "reverse") == 0) {
            loop->reverse = true;
            continue;
        }
        expect(r, "=");
        if (strcmp(key, "axis") == 0) {
            loop->axis = name_of(r, true);
            continue;
        }
        int64_t value = integer(r);
        if (strcmp(key, "count") == 0)
            loop->count = value;
        else if (strcmp(key, "first") == 0)
            loop->first = value;
        else if (strcmp(key, "carried") == 0)
            loop->carried = (uint32_t)value;
        else if (strcmp(key, "invariant") == 0)
            loop->invariant = (uint32_t)value;
        else if (strcmp(key, "stacked") == 0)
            loop->stacked = (uint32_t)value;
        else if (strcmp(key, "stacked_out") == 0)
            loop->stacked_out = (uint32_t)value;
        else
            fail(r, "a known part of a loop");
    }
}

static void relabel_of(Reader *r, CertRelabel *relabel)
{
    while (!r->failed && !take(r, "->")) {
        if (relabel->n_from == 4) {
            fail(r, "fewer names");
            return;
        }
        relabel->from[relabel->n_from++] = name_of(r, true);
        take(r, ",");
    }
    while (!r->failed && !take(r, ")")) {
        if (relabel->n_to == 4) {
            fail(r, "fewer names");
            return;
        }
        relabel->to[relabel->n_to++] = name_of(r, true);
        expect(r, "=");
        integer(r);
        take(r, ",");
    }
}

/* A bracketed or bare value that only its text matters of. */
static void pass_over(Reader *r)
{
    int depth = 0;
    for (; *r->at && *r->at != '\n'; r->at++) {
        if (*r->at == '"') {
            name_of(r, false);
            r->at--;
            continue;
        }
        if (*r->at == '(' || *r->at == '{')
            depth++;
        if ((*r->at == ')' || *r->at == '}') && --depth == 0) {
            r->at++;
            return;
        }
        if (*r->at == ' ' && depth == 0)
            return;
    }
}

static uint64_t stage_set(Reader *r)
{
    uint64_t bits = 0;
    while (!r->failed && !take(r, ")")) {
        bits |= UINT64_C(1) << (integer(r) & 63);
        take(r, ",");
    }
    return bits;
}

/* One attribute; true if its text belongs to the meaning. */
static bool attribute(Reader *r, CertOp *op)
{
    const char *key = name_of(r, false);
    if (strcmp(key, "loop") == 0 && take(r, "(")) {
        loop_of(r, &op->loop);
        return false;
    }
    if (strcmp(key, "relabel") == 0 && take(r, "(")) {
        if (op->n_relabels == 4)
            return fail(r, "fewer relabels");
        relabel_of(r, &op->relabels[op->n_relabels++]);
        return true;
    }
    if (*r->at == '(' || *r->at != '=') { /* update(...), reverse */
        pass_over(r);
        return true;
    }
    r->at++;
    if (strcmp(key, "text") == 0)
        op->text = name_of(r, true);
    else if (strcmp(key, "path") == 0)
        op->path = name_of(r, true);
    else if (strcmp(key, "func") == 0)
        op->func = name_of(r, true);
    else if (strcmp(key, "store") == 0)
        op->store = (int)integer(r);
    else if (strcmp(key, "mesh") == 0 && take(r, "{"))
        op->mesh = mesh_set(r);
    else if (strcmp(key, "stages") == 0 && take(r, "("))
        op->stages = stage_set(r);
    else if (strcmp(key, "reduce") == 0)
        op->reduce = name_of(r, false);
    else if (strcmp(key, "number") == 0) {
        op->number = strtod(r->at, NULL);
        op->fills = true;
        pass_over(r);
        return true;
    } else {
        pass_over(r);
        return true;
    }
    return strcmp(key, "reduce") == 0;
}

static void attributes(Reader *r, CertOp *op)
{
    DtText text = {0};
    op->where = "";
    dt_text_add(&text, "");
    for (;;) {
        skip(r);
        if (r->failed || *r->at == '\n' || !*r->at)
            break;
        const char *begin = r->at;
        if (*r->at == '@') {
            while (*r->at && *r->at != '\n' && *r->at != ' ')
                r->at++;
            op->where = dt_intern_n(begin, (size_t)(r->at - begin));
        } else if (attribute(r, op)) {
            dt_text_add(&text, " ");
            dt_text_add_n(&text, begin, (size_t)(r->at - begin));
        }
    }
    op->attributes = dt_intern_n(text.at, text.len);
    dt_text_free(&text);
}

/* ---- functions ---- */

static void op_of(Reader *r, CertFunc *func)
{
    CertOp *op = DT_NEW(r->program->arena, CertOp);
    DT_VEC(uint32_t) in = {0};
    op->line = r->line;
    op->store = -1;
    op->first_out = func->n_values;
    op->reduce = dt_intern("sum");
    if (!take(r, "()"))
        do {
            if (value_of(r) != func->n_values)
                fail(r, "values in order");
            func->n_values++;
            op->n_out++;
        } while (!r->failed && take(r, ","));
    expect(r, "=");
    op->kind = name_of(r, false);
    if (*r->at == '[') {
        r->at++;
        names(r, ";", op->axes, &op->n_axes, "]");
        if (r->at[-1] == ';')
            names(r, "]", op->axes2, &op->n_axes2, NULL);
    }
    expect(r, "(");
    while (!r->failed && !take(r, ")")) {
        uint32_t value = value_of(r);
        if (value >= op->first_out)
            fail(r, "operands that are defined before");
        DT_PUSH(r->program->arena, in, value);
        take(r, ",");
    }
    op->in = in.at;
    op->n_in = in.n;
    op->types = DT_NEW_ARRAY(r->program->arena, CertType *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++) {
        expect(r, i ? "," : ":");
        op->types[i] = type_of(r);
    }
    attributes(r, op);
    if ((strcmp(op->kind, "input") == 0 || strcmp(op->kind, "rng") == 0) && !op->text)
        fail(r, "the name of an input or a site");
    DT_PUSH(r->program->arena, func->ops, op);
}

static void end_of_line(Reader *r)
{
    while (*r->at && *r->at != '\n')
        r->at++;
    if (*r->at) {
        r->at++;
        r->line++;
    }
}

static void func_of(Reader *r)
{
    CertFunc *func = DT_NEW(r->program->arena, CertFunc);
    func->name = name_of(r, true);
    end_of_line(r);
    for (; !r->failed && !take(r, "}"); end_of_line(r)) {
        if (take(r, "arg ") || take(r, "param ")) {
            value_of(r);
            expect(r, ":");
            DT_PUSH(r->program->arena, func->args, type_of(r));
            func->n_values++;
        } else if (take(r, "return ")) {
            do
                DT_PUSH(r->program->arena, func->results, value_of(r));
            while (!r->failed && take(r, ","));
        } else if (take(r, "write ")) {
            integer(r);
            expect(r, "=");
            DT_PUSH(r->program->arena, func->results, value_of(r));
        } else {
            op_of(r, func);
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] >= func->n_values)
            fail(r, "results that are defined");
    func->n_args = func->args.n;
    DT_PUSH(r->program->arena, r->program->funcs, func);
}

/* ---- the rest ---- */

static void store_of(Reader *r)
{
    CertStore store = {.stage = -1, .of = -1, .bucket = -1, .members = -1, .before = -1};
    integer(r);
    expect(r, ":");
    store.kind = name_of(r, false);
    store.type = type_of(r);
    for (skip(r); !r->failed && *r->at && *r->at != '\n' && *r->at != '@'; skip(r)) {
        const char *key = name_of(r, false);
        if (*r->at != '=') {
            pass_over(r);
            continue;
        }
        r->at++;
        if (strcmp(key, "path") == 0)
            store.path = name_of(r, true);
        else if (strcmp(key, "loops") == 0)
            store.loops = integer(r);
        else if (strcmp(key, "first") == 0)
            store.first = integer(r);
        else if (strcmp(key, "whole") == 0)
            store.whole = integer(r);
        else if (strcmp(key, "stage") == 0)
            store.stage = (int)integer(r);
        else if (strcmp(key, "of") == 0)
            store.of = (int)integer(r);
        else if (strcmp(key, "bucket") == 0)
            store.bucket = (int)integer(r);
        else if (strcmp(key, "at") == 0)
            store.at = integer(r);
        else
            pass_over(r);
    }
    DT_PUSH(r->program->arena, r->program->stores, store);
}

static void entry_of(Reader *r)
{
    CertEntry entry = {.stage = -1};
    entry.name = name_of(r, true);
    expect(r, ":");
    entry.func = name_of(r, true);
    if (take(r, "stage="))
        entry.stage = (int)integer(r);
    end_of_line(r);
    for (; !r->failed && !take(r, "}"); end_of_line(r)) {
        CertResult result = {.store = -1};
        expect(r, "result");
        if (take(r, "store="))
            result.store = (int)integer(r);
        if (take(r, "name="))
            result.name = name_of(r, true);
        result.accumulate = take(r, "accumulate");
        DT_PUSH(r->program->arena, entry.results, result);
    }
    DT_PUSH(r->program->arena, r->program->entries, entry);
}

static void mesh_of(Reader *r)
{
    CertProgram *p = r->program;
    do {
        if (p->n_mesh == CERT_MESH) {
            fail(r, "fewer mesh axes");
            return;
        }
        p->mesh[p->n_mesh] = name_of(r, true);
        expect(r, "=");
        p->size[p->n_mesh] = integer(r);
        if (p->size[p->n_mesh] < 1) {
            fail(r, "a mesh axis of 1 or more");
            return;
        }
        if (take(r, "time"))
            p->time |= (uint16_t)(1u << p->n_mesh);
        p->n_mesh++;
    } while (!r->failed && take(r, ","));
}

static int by_name(const void *a, const void *b)
{
    const CertFunc *x = *(const CertFunc *const *)a, *y = *(const CertFunc *const *)b;
    return (uintptr_t)x->name < (uintptr_t)y->name ? -1 : (uintptr_t)x->name > (uintptr_t)y->name;
}

bool dt_certtext_read(DtArena *arena, const char *text, CertProgram *ret_program,
                      DtText *ret_problem)
{
    Reader reader = {.at = text, .line = 1, .program = ret_program, .problem = ret_problem},
           *r = &reader;
    *ret_program = (CertProgram){.arena = arena};
    for (; !r->failed && *r->at; end_of_line(r)) {
        if (take(r, "mesh "))
            mesh_of(r);
        else if (take(r, "store "))
            store_of(r);
        else if (take(r, "func "))
            func_of(r);
        else if (take(r, "entry "))
            entry_of(r);
        else if (take(r, "pipeline ")) { /* the last part: schedules, which are checked elsewhere */
            name_of(r, true);
            expect(r, "mesh=");
            ret_program->pipe = name_of(r, true);
            break;
        }
    }
    if (!r->failed && ret_program->funcs.n)
        qsort(ret_program->funcs.at, ret_program->funcs.n, sizeof ret_program->funcs.at[0],
              by_name);
    for (uint32_t i = 0; !r->failed && i < ret_program->stores.n; i++) {
        CertStore *store = &ret_program->stores.at[i];
        if (store->bucket < 0)
            continue;
        if ((uint32_t)store->bucket >= ret_program->stores.n)
            return fail(r, "buckets that are there");
        store->before = ret_program->stores.at[store->bucket].members;
        ret_program->stores.at[store->bucket].members = (int)i;
    }
    return !r->failed;
}

const CertFunc *dt_certtext_func(const CertProgram *program, const char *name)
{
    uint32_t lo = 0, hi = program->funcs.n;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        const CertFunc *func = program->funcs.at[middle];
        if (func->name == name)
            return func;
        if ((uintptr_t)func->name < (uintptr_t)name)
            lo = middle + 1;
        else
            hi = middle;
    }
    return NULL;
}

const CertAxis *dt_certtext_axis(const CertType *type, const char *name)
{
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name == name)
            return &type->axes[i];
    return NULL;
}
