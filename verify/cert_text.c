/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate's own reader of IR text (ir/irtext.c says what it looks like). What a line says of spans is passed
 * over. A type, and a function, whose text was read before is not read again. */
#include "verify/internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct Known { /* a text, and what was made of it */
    const char *text;
    size_t len;
    uint64_t hash;
    const void *made;
    struct Known *next;
} Known;

enum { TEXTS = 1 << 12 };
#define MOST_ELEMENTS (INT64_C(1) << 59) /* their bytes can be counted */

typedef struct Reader {
    const char *at;
    CertProgram *program;
    DtText *problem;
    bool failed;
    const char *sum; /* "sum" */
    Known *known[TEXTS];
    DtText scratch;
} Reader;

static bool fail(Reader *r, const char *what)
{
    uint32_t line = 1;
    for (const char *c = r->program->text; c < r->at; c++)
        line += *c == '\n';
    if (!r->failed)
        dt_text_printf(r->problem, "line %u of the program: expected %s at `%.*s`", line, what,
                       (int)strcspn(r->at, "\n"), r->at);
    r->failed = true;
    return false;
}

/* ---- words ---- */

static void skip(Reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

/* Whether piece comes next (after blanks); it is taken. */
static bool take(Reader *r, const char *piece)
{
    size_t n = 0;
    skip(r);
    for (; piece[n]; n++)
        if (r->at[n] != piece[n])
            return false;
    r->at += n;
    return true;
}

static bool expect(Reader *r, const char *piece) { return take(r, piece) || fail(r, piece); }

static bool at_end(Reader *r)
{
    skip(r);
    return r->failed || !*r->at || *r->at == '\n';
}

static void end_of_line(Reader *r)
{
    const char *end = strchr(r->at, '\n');
    r->at = end ? end + 1 : r->at + strlen(r->at);
}

static bool is_part(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '@' || c == '#' || c == '$' || c == '.';
}

/* Behind a quoted text that begins at c, or NULL. */
static const char *behind_quote(const char *c)
{
    for (c++; *c && *c != '"' && *c != '\n'; c++)
        if (*c == '\\' && c[1])
            c++;
    return *c == '"' ? c + 1 : NULL;
}

/* A name, bare or quoted (escapes are kept as they are written: equal names are written alike). part: one that no
 * dot is in. */
static const char *name_or_part(Reader *r, bool part)
{
    skip(r);
    const char *begin = r->at;
    if (*begin == '"') {
        const char *end = behind_quote(begin);
        if (end) {
            r->at = end;
            return dt_intern_n(begin + 1, (size_t)(end - begin - 2));
        }
        fail(r, "the end of a quoted name");
        return dt_intern("");
    }
    while (is_part(*r->at) && !(part && *r->at == '.'))
        r->at++;
    if (r->at == begin)
        fail(r, "a name");
    return dt_intern_n(begin, (size_t)(r->at - begin));
}

static const char *name_of(Reader *r) { return name_or_part(r, false); }

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

/* One of 0 .. most. */
static uint32_t number_of(Reader *r, uint32_t most)
{
    const int64_t number = integer(r);
    if (number >= 0 && number <= most)
        return (uint32_t)number;
    fail(r, "a smaller number");
    return 0;
}

/* %name.7, %"a name".7 or %7: the number. */
static uint32_t value_of(Reader *r)
{
    uint64_t number = 0;
    if (!expect(r, "%"))
        return 0;
    if (*r->at == '"' && behind_quote(r->at))
        r->at = behind_quote(r->at);
    for (; is_part(*r->at); r->at++)
        number = *r->at >= '0' && *r->at <= '9' && number < UINT32_MAX
                     ? number * 10 + (uint64_t)(*r->at - '0')
                     : 0;
    if (r->at[-1] < '0' || r->at[-1] > '9')
        fail(r, "the number of a value");
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* A value whose text alone matters, if anything: a word, a quoted text, one in brackets. */
static void pass_over(Reader *r)
{
    int depth = 0;
    for (; *r->at && *r->at != '\n'; r->at++) {
        if (*r->at == '"' && behind_quote(r->at))
            r->at = behind_quote(r->at) - 1;
        else if (*r->at == '(' || *r->at == '{')
            depth++;
        else if ((*r->at == ')' || *r->at == '}') && --depth <= 0) {
            r->at += depth == 0;
            return;
        } else if (*r->at == ' ' && depth == 0)
            return;
    }
}

/* Where what was made of this text, of a type, a kind or a function, is kept; the text must live as long as r. */
static const void **known(Reader *r, const char *text, size_t len)
{
    uint64_t hash = dt_hash_bytes(text, len, 0);
    Known **slot = &r->known[hash % TEXTS];
    for (Known *k = *slot; k; k = k->next)
        if (k->hash == hash && k->len == len && memcmp(k->text, text, len) == 0)
            return &k->made;
    Known *k = DT_NEW(r->program->arena, Known);
    *k = (Known){.text = text, .len = len, .hash = hash, .next = *slot};
    *slot = k;
    return &k->made;
}

static const CertType *type_of(Reader *r);

/* What follows, as a pattern says it: %n a name, %i an integer, %t a type; other characters are themselves, and may
 * have blanks before them. */
static bool scan(Reader *r, const char *pattern, ...)
{
    va_list to;
    va_start(to, pattern);
    for (const char *c = pattern; *c && !r->failed; c++) {
        if (c[0] == '%' && c[1] == 'n')
            *va_arg(to, const char **) = name_of(r);
        else if (c[0] == '%' && c[1] == 'i')
            *va_arg(to, int64_t *) = integer(r);
        else if (c[0] == '%' && c[1] == 't')
            *va_arg(to, const CertType **) = type_of(r);
        else if (*c != ' ')
            expect(r, (char[]){*c, 0});
        c += *c == '%';
    }
    va_end(to);
    return !r->failed;
}

/* ---- types ---- */

static uint8_t mesh_axis(Reader *r)
{
    const char *name = name_or_part(r, true);
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

/* A mesh axis splits once, divides what it splits, and is not pending beside that. */
static void axis_of(Reader *r, CertType *type)
{
    CertAxis *axis = &type->axes[type->rank++];
    scan(r, "%n=%i", &axis->name, &axis->extent);
    int64_t rest = axis->logical = axis->extent;
    if (rest < 1)
        fail(r, "an extent of 1 or more");
    for (uint32_t i = 0; i < r->program->n_padded; i++)
        if (r->program->padded[i].name == axis->name && r->program->padded[i].extent == rest) {
            axis->logical = r->program->padded[i].logical;
            axis->padded = (uint8_t)(i + 1);
            type->padded |= (uint16_t)(1u << i);
        }
    while (!r->failed && *r->at == (axis->n ? '.' : '/')) {
        r->at++;
        uint8_t mesh = mesh_axis(r);
        if (r->failed || axis->n == CERT_SPLIT || (type->split >> mesh & 1) ||
            rest % r->program->size[mesh]) {
            fail(r, "a mesh axis that is used once and divides");
            return;
        }
        type->split |= (uint16_t)(1u << mesh);
        rest /= r->program->size[mesh];
        axis->split[axis->n++] = mesh;
    }
    if (*r->at == '~') {
        r->at++;
        axis->zigzag = true;
    }
}

static const CertType *type_of(Reader *r)
{
    skip(r);
    const char *begin = r->at, *end = begin;
    for (; *end && *end != '\n' && *end != ']'; end++)
        if (*end == '"' && behind_quote(end))
            end = behind_quote(end) - 1;
    if (end[0] == ']' && end[1] == '{')
        while (*end && *end != '\n' && *end != '}')
            end++;
    const void **made = known(r, begin, (size_t)(end + 1 - begin));
    if (*made) {
        r->at = end + 1;
        return *made;
    }
    CertType *type = DT_NEW(r->program->arena, CertType);
    int64_t elements = 1;
    type->dtype = name_of(r);
    expect(r, "[");
    while (!r->failed && !take(r, "]")) {
        if (type->rank == CERT_RANK) {
            fail(r, "fewer axes");
            break;
        }
        axis_of(r, type);
        if (__builtin_mul_overflow(elements, type->axes[type->rank - 1].extent, &elements) || elements > MOST_ELEMENTS)
            fail(r, "a type of fewer elements");
        take(r, ",");
    }
    if (*r->at == '{') {
        r->at++;
        type->pending = name_of(r);
        type->partial = mesh_set(r);
        if (type->partial & type->split)
            fail(r, "a reduction pending over mesh axes that split nothing");
    }
    return r->failed ? type : (*made = type);
}

/* ---- fields ---- */

typedef enum How { NAME, INTEGER, FLAG, NUMBER, TEXT, MESH, STAGES, LOOP, RELABEL, RANGES, MEANS } How;

/* key=value or key(...): into which member. meaning: its text is part of what an op means. */
typedef struct Field {
    const char *key;
    How how;
    size_t at;
    bool meaning;
} Field;
#define FIELD(T, key, how) {#key, how, offsetof(T, key), false}

static const Field *field_of(Reader *r, void *to, const Field *field);

/* Up to `end`, or to a semicolon, which is left. */
static void names(Reader *r, const char *end, const char **ret_names, uint32_t *ret_n,
                  uint32_t most)
{
    while (!r->failed && *r->at != ';' && !take(r, end)) {
        if (*ret_n == most) {
            fail(r, "fewer names");
            return;
        }
        ret_names[(*ret_n)++] = name_of(r);
        take(r, ",");
    }
}

static void relabel_of(Reader *r, CertOp *op)
{
    CertRelabel *relabel = &op->relabels[op->n_relabels % CERT_NAMES];
    int64_t extent;
    if (op->n_relabels++ >= CERT_NAMES)
        fail(r, "fewer relabels");
    names(r, "->", relabel->from, &relabel->n_from, CERT_NAMES);
    for (; !r->failed && !take(r, ")"); take(r, ",")) {
        if (relabel->n_to == CERT_NAMES)
            fail(r, "fewer names");
        else
            scan(r, "%n=%i", &relabel->to[relabel->n_to++], &extent);
    }
}

static const Field loop_fields[] = {
    FIELD(CertLoop, label, NAME),      FIELD(CertLoop, axis, NAME),
    FIELD(CertLoop, count, INTEGER),   FIELD(CertLoop, first, INTEGER),
    FIELD(CertLoop, step, INTEGER),    FIELD(CertLoop, reverse, FLAG),
    FIELD(CertLoop, carried, INTEGER), FIELD(CertLoop, invariant, INTEGER),
    FIELD(CertLoop, stacked, INTEGER), FIELD(CertLoop, stacked_out, INTEGER),
    {0}};

static void loop_of(Reader *r, CertLoop **ret_loop)
{
    CertLoop *loop = *ret_loop = DT_NEW(r->program->arena, CertLoop);
    while (!r->failed && !take(r, ")"))
        if (at_end(r) || !field_of(r, loop, loop_fields)->key)
            fail(r, "a known part of a loop");
    if (!loop->label || !loop->axis || (loop->carried | loop->invariant | loop->stacked |
                                        loop->stacked_out | loop->count | loop->first) >> 31)
        fail(r, "a loop of this size");
}

/* 0, 2 to 5) */
static void stage_set(Reader *r, const char **ret_stages)
{
    bool has[CERT_STAGES] = {false};
    for (; !r->failed && !take(r, ")"); take(r, ",")) {
        uint32_t stage = number_of(r, CERT_STAGES - 1);
        const uint32_t last = take(r, "to") ? number_of(r, CERT_STAGES - 1) : stage;
        while (stage <= last)
            has[stage++] = true;
    }
    *ret_stages = dt_stages_of(has, CERT_STAGES);
}

static void ranges_of(Reader *r, CertOp *op)
{
    CertRange range;
    op->ranges = DT_NEW_ARRAY(r->program->arena, CertRange, CERT_RANK);
    for (; !r->failed && !take(r, ")"); take(r, ",")) {
        if (!scan(r, "%i %i %i %i", &range.lo, &range.hi, &range.step, &range.n))
            continue;
        op->shifts |= range.lo != 0 || range.step != 1;
        if (op->n_ranges < CERT_RANK)
            op->ranges[op->n_ranges++] = range;
    }
}

/* 12: of the first result, the others' follow; (12 0 9): of each. */
static void means_of(Reader *r, CertOp *op)
{
    const bool list = take(r, "(");
    op->means = DT_NEW_ARRAY(r->program->arena, uint32_t, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out && !r->failed; i++)
        op->means[i] = i == 0 || list ? number_of(r, UINT32_MAX) : op->means[0] ? op->means[0] + i : 0;
    if (list)
        expect(r, ")");
}

static void value_into(Reader *r, How how, void *to)
{
    const char *begin = r->at;
    switch (how) {
    case NAME: *(const char **)to = name_of(r); break;
    case INTEGER: *(int64_t *)to = integer(r); break;
    case FLAG: *(bool *)to = true; break;
    case NUMBER:
        *(double *)to = strtod(r->at, NULL);
        pass_over(r);
        break;
    case TEXT:
        pass_over(r);
        *(const char **)to = dt_intern_n(begin, (size_t)(r->at - begin));
        break;
    case MESH: *(uint16_t *)to = mesh_set(r); break;
    case STAGES: stage_set(r, to); break;
    case LOOP: loop_of(r, to); break;
    case RELABEL: relabel_of(r, to); break;
    case RANGES: ranges_of(r, to); break;
    case MEANS: break;
    }
}

/* Reads one field into the struct, or passes over one that the table lacks; its row, or the last one. */
static const Field *field_of(Reader *r, void *to, const Field *field)
{
    const char *begin = r->at;
    size_t n = 0;
    while (is_part(begin[n]))
        n++;
    while (field->key && (strncmp(field->key, begin, n) != 0 || field->key[n]))
        field++;
    if (n == 0)
        fail(r, "an attribute");
    if (!field->key) {
        pass_over(r);
        return field;
    }
    r->at += n;
    if (*r->at == '=')
        r->at++;
    if (field->how == MEANS)
        return means_of(r, to), field;
    if (field->how >= MESH && (*r->at == '(' || *r->at == '{'))
        r->at++;
    else if (field->how >= MESH)
        fail(r, "a list");
    value_into(r, field->how, (char *)to + field->at);
    return field;
}

/* ---- functions ---- */

static const Field op_fields[] = {
    FIELD(CertOp, path, NAME), FIELD(CertOp, text, NAME),     FIELD(CertOp, func, NAME),
    FIELD(CertOp, mesh, MESH), FIELD(CertOp, store, INTEGER), FIELD(CertOp, loop, LOOP),
    FIELD(CertOp, stages, STAGES), FIELD(CertOp, ahead, INTEGER),
    {"means", MEANS, 0, false},
    {"number", NUMBER, offsetof(CertOp, number), true},
    {"ranges", RANGES, 0, true},
    {"reduce", NAME, offsetof(CertOp, reduce), true},
    {"relabel", RELABEL, 0, true},
    {0}};

/* The order of what is summed over is free. */
static void sort_names(const char **at, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const char *name = at[i];
        uint32_t k = i;
        for (; k > 0 && strcmp(at[k - 1], name) > 0; k--)
            at[k] = at[k - 1];
        at[k] = name;
    }
}

static void attributes(Reader *r, CertOp *op)
{
    DtText *text = &r->scratch;
    text->len = 0;
    dt_text_add_n(text, "", 0);
    while (!at_end(r)) {
        const char *begin = r->at;
        if (*r->at == '@') { /* a span: the last */
            r->at += strcspn(r->at, "\n");
            break;
        }
        const Field *field = field_of(r, op, op_fields);
        if (field->key && !field->meaning)
            continue;
        dt_text_add_n(text, " ", 1);
        dt_text_add_n(text, begin, (size_t)(r->at - begin));
    }
    if (dt_cert_is(op->kind, "reduce") || dt_cert_is(op->kind, "dot"))
        sort_names(op->axes, op->n_axes);
    for (uint32_t i = 0; i < op->n_axes + op->n_axes2; i++) {
        dt_text_add(text, i < op->n_axes ? " [" : " ;[");
        dt_text_add(text, i < op->n_axes ? op->axes[i] : op->axes2[i - op->n_axes]);
        dt_text_add_n(text, "]", 1);
    }
    op->attributes = dt_intern_n(text->at, text->len);
}

static void op_of(Reader *r, CertFunc *func)
{
    CertOp *op = DT_NEW(r->program->arena, CertOp);
    *op = (CertOp){.at = r->at, .store = -1, .first_out = func->n_values, .reduce = r->sum};
    if (!take(r, "()"))
        do {
            if (value_of(r) != func->n_values)
                fail(r, "values in order");
            func->n_values++;
            op->n_out++;
        } while (!r->failed && take(r, ","));
    expect(r, "=");
    op->kind = name_of(r);
    const void **rule = known(r, op->kind, strlen(op->kind));
    if (!*rule)
        *rule = dt_certrule_find(op->kind);
    op->rule = *rule;
    if (take(r, "["))
        names(r, "]", op->axes, &op->n_axes, CERT_RANK);
    if (take(r, ";"))
        names(r, "]", op->axes2, &op->n_axes2, CERT_RANK);
    expect(r, "(");
    DT_VEC(uint32_t) in = {0};
    for (; !r->failed && !take(r, ")"); take(r, ",")) {
        DT_PUSH(r->program->arena, in, value_of(r));
        if (in.at[in.n - 1] >= op->first_out)
            fail(r, "operands that are defined before");
    }
    op->in = in.at;
    op->n_in = in.n;
    func->most_in = func->most_in > op->n_in ? func->most_in : op->n_in;
    op->types = DT_NEW_ARRAY(r->program->arena, const CertType *, op->n_out);
    for (uint32_t i = 0; i < op->n_out; i++) {
        expect(r, i ? "," : ":");
        op->types[i] = type_of(r);
    }
    attributes(r, op);
    if ((dt_cert_is(op->kind, "input") || dt_cert_is(op->kind, "rng")) && !op->text)
        fail(r, "the name of an input or a site");
    DT_PUSH(r->program->arena, func->ops, op);
}

static void lines_of(Reader *r, CertFunc *func)
{
    for (; !r->failed && !take(r, "}"); end_of_line(r)) {
        if (take(r, "arg ") || take(r, "param ")) {
            value_of(r);
            expect(r, ":");
            DT_PUSH(r->program->arena, func->args, type_of(r));
            DT_PUSH(r->program->arena, func->means, take(r, "means=") ? number_of(r, UINT32_MAX) : 0);
            func->n_values++;
        } else if (take(r, "return ")) {
            do
                DT_PUSH(r->program->arena, func->results, value_of(r));
            while (!r->failed && take(r, ","));
        } else if (take(r, "write ")) {
            integer(r);
            expect(r, "=");
            DT_PUSH(r->program->arena, func->results, value_of(r));
        } else if (take(r, "gradient ") || take(r, "surrogate ")) { /* says nothing of what the function computes */
            name_of(r);
            expect(r, "(");
            for (; !r->failed && !take(r, ")"); take(r, ","))
                value_of(r);
        } else {
            op_of(r, func);
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] >= func->n_values)
            fail(r, "results that are defined");
    func->n_args = func->args.n;
}

static uint32_t name_slot(const char *interned)
{
    return (uint32_t)((uintptr_t)interned / 16 % CERT_FUNCS);
}

const CertFunc *dt_certtext_func(const CertProgram *program, const char *name)
{
    const CertFunc *func = name ? program->funcs[name_slot(name)] : NULL;
    while (func && func->name != name)
        func = func->next;
    return func;
}

static void func_of(Reader *r)
{
    CertFunc *func = DT_NEW(r->program->arena, CertFunc);
    const char *name = name_of(r);
    end_of_line(r);
    const char *end = *r->at == '}' ? r->at : strstr(r->at, "\n}");
    const char *begin = r->at;
    const void **made = end ? known(r, begin, (size_t)(end - begin)) : NULL;
    if (made && *made) {
        *func = *(const CertFunc *)*made;
        r->at = end;
    } else {
        lines_of(r, func);
        func->same = func;
        if (!r->failed && end) /* the table may have grown */
            *known(r, begin, (size_t)(end - begin)) = func;
    }
    func->name = name;
    func->first = r->program->n_values;
    r->program->n_values += func->n_values;
    func->next = r->program->funcs[name_slot(name)];
    r->program->funcs[name_slot(name)] = func;
}

/* ---- the rest ---- */

static const Field store_fields[] = {FIELD(CertStore, path, NAME),
                                     FIELD(CertStore, pattern, NAME),
                                     FIELD(CertStore, init, TEXT),
                                     FIELD(CertStore, loops, INTEGER),
                                     FIELD(CertStore, of, INTEGER),
                                     FIELD(CertStore, within, INTEGER),
                                     FIELD(CertStore, stage, INTEGER),
                                     FIELD(CertStore, to, INTEGER),
                                     FIELD(CertStore, first, INTEGER),
                                     FIELD(CertStore, step, INTEGER),
                                     FIELD(CertStore, bucket, INTEGER),
                                     FIELD(CertStore, at, INTEGER),
                                     FIELD(CertStore, terms, FLAG),
                                     {0}};
static const Field entry_fields[] = {
    FIELD(CertEntry, stage, INTEGER), FIELD(CertEntry, to, INTEGER), {0}};
static const Field result_fields[] = {FIELD(CertResult, store, INTEGER),
                                      FIELD(CertResult, name, NAME),
                                      FIELD(CertResult, accumulate, FLAG),
                                      {0}};

/* No `to`: that stage only. */
static void stages_of(Reader *r, int64_t stage, int64_t *to)
{
    *to = *to ? *to : stage;
    if (stage < -1 || *to < stage || *to >= CERT_STAGES || (stage < 0 && *to != stage))
        fail(r, "a range of stages");
}

static void store_of(Reader *r)
{
    CertStore store = {
        .stage = -1, .of = -1, .within = -1, .bucket = -1, .members = -1, .before = -1};
    int64_t number;
    if (!scan(r, "%i : %n %t", &number, &store.kind, &store.type))
        return;
    while (!at_end(r) && *r->at != '@')
        field_of(r, &store, store_fields);
    if (!store.path || (store.loops && !store.type->rank))
        fail(r, "a store with a path and a loop's axis");
    else
        store.key = dt_intern_printf("%s %s", store.kind, store.path);
    stages_of(r, store.stage, &store.to);
    store.place = r->program->n_places;
    r->program->n_places += (uint32_t)(store.to - store.stage) + 1;
    DT_PUSH(r->program->arena, r->program->stores, store);
}

static void entry_of(Reader *r)
{
    CertEntry entry = {.stage = -1};
    const char *func;
    if (!scan(r, "%n : %n", &entry.name, &func))
        return;
    entry.func = dt_certtext_func(r->program, func);
    while (!at_end(r) && *r->at != '{')
        field_of(r, &entry, entry_fields);
    stages_of(r, entry.stage, &entry.to);
    for (end_of_line(r); !r->failed && !take(r, "}"); end_of_line(r)) {
        CertResult result = {.store = -1};
        expect(r, "result");
        while (!at_end(r))
            field_of(r, &result, result_fields);
        if (result.store < 0 && !result.name)
            fail(r, "where a result goes");
        if (result.store >= r->program->stores.n)
            fail(r, "a store that is there");
        DT_PUSH(r->program->arena, entry.results, result);
    }
    if (!entry.func || entry.func->n_args || entry.func->results.n != entry.results.n)
        fail(r, "an entry whose function has its results, and no arguments");
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
        if (scan(r, "%n=%i", &p->mesh[p->n_mesh], &p->size[p->n_mesh]) && p->size[p->n_mesh] < 1)
            fail(r, "a mesh axis of 1 or more");
        if (take(r, "time"))
            p->time |= (uint16_t)(1u << p->n_mesh);
        p->n_mesh++;
    } while (!r->failed && take(r, ","));
}

static void padded_of(Reader *r)
{
    CertProgram *p = r->program;
    if (p->n_padded == CERT_PADDED) {
        fail(r, "fewer padded axes");
        return;
    }
    CertPadded *padded = &p->padded[p->n_padded++];
    scan(r, "%n=%i of %i", &padded->name, &padded->logical, &padded->extent);
    if (padded->logical < 1 || padded->logical >= padded->extent)
        fail(r, "an axis that is longer than it was");
}

static void crossing_of(Reader *r) { r->program->crossing = name_of(r); }

static void numbers(Reader *r, int64_t **ret_at, uint32_t *ret_n)
{
    DT_VEC(int64_t) list = {0};
    for (expect(r, "("); !r->failed && !take(r, ")"); take(r, ","))
        DT_PUSH(r->program->arena, list, integer(r));
    *ret_at = list.at;
    *ret_n = list.n;
}

/* "channel 0 : 1 -> 2 slots=2 stores=(5)", from piece to piece. Schedules are checked elsewhere. */
static void pipeline_of(Reader *r)
{
    int64_t *stage_of, number, slots;
    const char *name;
    uint32_t n;
    scan(r, "%n mesh=", &name);
    r->program->pipe = (uint16_t)(1u << mesh_axis(r));
    scan(r, "stages=");
    numbers(r, &stage_of, &n);
    for (end_of_line(r); !r->failed && *r->at; end_of_line(r)) {
        CertChannel channel;
        if (!take(r, "channel "))
            continue;
        scan(r, "%i : %i -> %i slots=%i stores=", &number, &channel.from, &channel.to, &slots);
        numbers(r, &channel.stores.at, &channel.stores.n);
        if (r->failed || channel.from < 0 || channel.from >= n || channel.to < 0 ||
            channel.to >= n) {
            fail(r, "a channel between two pieces");
            return;
        }
        channel.from = stage_of[channel.from];
        channel.to = stage_of[channel.to];
        DT_PUSH(r->program->arena, r->program->channels, channel);
    }
}

static void link_buckets(Reader *r)
{
    CertProgram *p = r->program;
    for (uint32_t i = 0; i < p->stores.n; i++) {
        CertStore *store = &p->stores.at[i];
        if (store->bucket < 0)
            continue;
        const CertStore *bucket =
            store->bucket < p->stores.n ? &p->stores.at[store->bucket] : store;
        if (bucket->bucket >= 0 || bucket->first != store->first || bucket->step != store->step ||
            bucket->stage != store->stage || bucket->to != store->to ||
            bucket->loops != store->loops || !dt_cert_is(bucket->kind, store->kind)) {
            fail(r, "buckets that are what their members are");
            return;
        }
        store->before = p->stores.at[store->bucket].members;
        p->stores.at[store->bucket].members = (int)i;
    }
}

bool dt_certtext_read(DtArena *arena, const char *text, CertProgram *ret_program,
                      DtText *ret_problem)
{
    static const struct {
        const char *word;
        void (*read)(Reader *r);
    } parts[] = {{"mesh ", mesh_of}, {"padded ", padded_of}, {"crossing ", crossing_of}, {"store ", store_of},
                 {"func ", func_of}, {"entry ", entry_of},   {"pipeline ", pipeline_of}};
    Reader *r = DT_NEW(arena, Reader);
    *r = (Reader){.at = text, .program = ret_program, .problem = ret_problem, .sum = dt_intern("sum")};
    *ret_program = (CertProgram){.arena = arena, .text = text, .whole = ret_program, .n_values = 1};
    for (; !r->failed && *r->at; end_of_line(r))
        for (size_t i = 0; i < DT_COUNT(parts); i++)
            if (take(r, parts[i].word)) {
                parts[i].read(r);
                break;
            }
    link_buckets(r);
    dt_text_free(&r->scratch);
    return !r->failed;
}

const CertAxis *dt_certtext_axis(const CertType *type, const char *name)
{
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name == name)
            return &type->axes[i];
    return NULL;
}
