/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate's own reader of IR text (ir/irtext.c describes the form). It skips spans. A
 * function with the text of an earlier one is not read again. */
#include "verify/cert_word.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- fields ---- */

/* How the value of an attribute is read, and the type of the member that stores it. */
typedef enum How {
    NAME,
    INTEGER,
    FLAG,
    NUMBER,
    TEXT,
    PASSED,
    MESH,
    STAGES,
    LOOP,
    RELABEL,
    RANGES,
    MEANS
} How;

/* An attribute key=value or key(...), the offset of the member that stores it, or PASSED if none
 * does. meaning: the attribute's text changes the op's result, so it becomes part of
 * CertOp.attributes. */
typedef struct Field {
    const char *key;
    How how;
    size_t at;
    bool meaning;
} Field;
#define FIELD(T, key, how) {#key, how, offsetof(T, key), false}

static const Field *field_of(CertReader *r, void *to, const Field *field);

/* Reads names, with optional commas, up to `end`, which is taken, or a semicolon, which is not.
 * Appends them to ret_names. */
static void names(CertReader *r, const char *end, const char **ret_names, uint32_t *ret_n,
                  uint32_t most)
{
    while (!r->failed && *r->at != ';' && !dt_certword_take(r, end)) {
        if (*ret_n == most) {
            dt_certword_fail(r, "fewer names");
            return;
        }
        ret_names[(*ret_n)++] = dt_certword_name_of(r);
        dt_certword_take(r, ",");
    }
}

static void relabel_of(CertReader *r, CertOp *op)
{
    CertRelabel *relabel = &op->relabels[op->n_relabels % CERT_NAMES];
    if (op->n_relabels++ >= CERT_NAMES)
        dt_certword_fail(r, "fewer relabels");
    names(r, "->", relabel->from, &relabel->n_from, CERT_NAMES);
    for (; !r->failed && !dt_certword_take(r, ")"); dt_certword_take(r, ",")) {
        const uint32_t k = relabel->n_to;
        if (k == CERT_NAMES)
            dt_certword_fail(r, "fewer names");
        else if (dt_certword_scan(r, "%n=%i", &relabel->to[k], &relabel->extents[k]))
            relabel->n_to++;
    }
}

static const Field loop_fields[] = {
    FIELD(CertLoop, label, NAME),      FIELD(CertLoop, axis, NAME),
    FIELD(CertLoop, count, INTEGER),   FIELD(CertLoop, first, INTEGER),
    FIELD(CertLoop, step, INTEGER),    FIELD(CertLoop, reverse, FLAG),
    FIELD(CertLoop, carried, INTEGER), FIELD(CertLoop, invariant, INTEGER),
    FIELD(CertLoop, stacked, INTEGER), FIELD(CertLoop, stacked_out, INTEGER),
    {0}};

static void loop_of(CertReader *r, CertLoop **ret_loop)
{
    CertLoop *loop = *ret_loop = DT_NEW(r->program->arena, CertLoop);
    while (!r->failed && !dt_certword_take(r, ")"))
        if (dt_certword_at_end(r) || !field_of(r, loop, loop_fields)->key)
            dt_certword_fail(r, "a known part of a loop");
    if (!loop->label || !loop->axis || (loop->carried | loop->invariant | loop->stacked |
                                        loop->stacked_out | loop->count | loop->first) >> 31 ||
        loop->count < 1)
        dt_certword_fail(r, "a loop of this size");
}

/* Reads `0, 2 to 5)`. */
static void stage_set(CertReader *r, const char **ret_stages)
{
    bool has[CERT_STAGES] = {false};
    for (; !r->failed && !dt_certword_take(r, ")"); dt_certword_take(r, ",")) {
        uint32_t stage = dt_certword_number_of(r, CERT_STAGES - 1);
        const uint32_t last =
            dt_certword_take(r, "to") ? dt_certword_number_of(r, CERT_STAGES - 1) : stage;
        while (stage <= last)
            has[stage++] = true;
    }
    *ret_stages = dt_stages_of(has, CERT_STAGES);
}

static void ranges_of(CertReader *r, CertOp *op)
{
    CertRange range;
    op->ranges = DT_NEW_ARRAY(r->program->arena, CertRange, CERT_RANK);
    for (; !r->failed && !dt_certword_take(r, ")"); dt_certword_take(r, ",")) {
        if (!dt_certword_scan(r, "%i %i %i %i", &range.lo, &range.hi, &range.step, &range.n))
            continue;
        op->shifts |= range.lo != 0 || range.step != 1;
        if (op->n_ranges < CERT_RANK)
            op->ranges[op->n_ranges++] = range;
    }
}

/* Reads the recorded numbers of an op's results: `12` is that of the first result, others follow
 * it; `(12 0 9)` has one for each result. */
static void means_of(CertReader *r, CertOp *op)
{
    const bool list = dt_certword_take(r, "(");
    op->means = DT_NEW_ARRAY(r->program->arena, uint32_t, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out && !r->failed; i++)
        op->means[i] = i == 0 || list ? dt_certword_number_of(r, UINT32_MAX)
                       : op->means[0] ? op->means[0] + i
                                      : 0;
    if (list)
        dt_certword_expect(r, ")");
}

static void value_into(CertReader *r, How how, void *to)
{
    const char *begin = r->at;
    switch (how) {
    case NAME: *(const char **)to = dt_certword_name_of(r); break;
    case INTEGER: *(int64_t *)to = dt_certword_integer(r); break;
    case FLAG: *(bool *)to = true; break;
    case NUMBER:
        *(double *)to = strtod(r->at, NULL);
        dt_certword_pass_over(r);
        break;
    case TEXT:
        dt_certword_pass_over(r);
        *(const char **)to = dt_intern_n(begin, (size_t)(r->at - begin));
        break;
    case MESH: *(uint16_t *)to = dt_certword_mesh_set(r); break;
    case STAGES: stage_set(r, to); break;
    case LOOP: loop_of(r, to); break;
    case RELABEL: relabel_of(r, to); break;
    case RANGES: ranges_of(r, to); break;
    case PASSED: dt_certword_pass_over(r); break;
    case MEANS: break;
    }
}

/* Reads the field at the current position into the struct, or skips it if the table lacks it.
 * Returns its row of the table, or the last row, which is no field. */
static const Field *field_of(CertReader *r, void *to, const Field *field)
{
    const char *begin = r->at;
    size_t n = 0;
    while (dt_certword_is_part(begin[n]))
        n++;
    while (field->key && (strncmp(field->key, begin, n) != 0 || field->key[n]))
        field++;
    if (n == 0)
        dt_certword_fail(r, "an attribute");
    if (!field->key) {
        dt_certword_pass_over(r);
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
        dt_certword_fail(r, "a list");
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
    {"draws", PASSED, 0, true},
    {"reverse", PASSED, 0, true},
    {"gradients", PASSED, 0, true},
    {0}};

/* Sorts the summed axes, since their order has no meaning. */
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

static void attributes(CertReader *r, CertOp *op)
{
    DtText *text = &r->scratch;
    uint32_t seen = 0;
    text->len = 0;
    dt_text_add_n(text, "", 0);
    while (!dt_certword_at_end(r)) {
        const char *begin = r->at;
        if (*r->at == '@') { /* a span ends the line */
            r->at += strcspn(r->at, "\n");
            break;
        }
        const Field *field = field_of(r, op, op_fields);
        const uint32_t bit = 1u << (field - op_fields);
        if (!field->key || ((seen & bit) && field->how != RELABEL))
            dt_certword_fail(r, "an attribute that ops have, once");
        seen |= bit;
        if (!field->meaning)
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

static void op_of(CertReader *r, CertFunc *func)
{
    CertOp *op = DT_NEW(r->program->arena, CertOp);
    *op = (CertOp){.at = r->at, .store = -1, .first_out = func->n_values, .reduce = r->sum};
    if (!dt_certword_take(r, "()"))
        do {
            if (dt_certword_value_of(r) != func->n_values)
                dt_certword_fail(r, "values in order");
            func->n_values++;
            op->n_out++;
        } while (!r->failed && dt_certword_take(r, ","));
    dt_certword_expect(r, "=");
    op->kind = dt_certword_name_of(r);
    const void **rule = dt_certword_known(r, op->kind, strlen(op->kind));
    if (!*rule)
        *rule = dt_certrule_find(op->kind);
    op->rule = *rule;
    if (dt_certword_take(r, "["))
        names(r, "]", op->axes, &op->n_axes, CERT_RANK);
    if (dt_certword_take(r, ";"))
        names(r, "]", op->axes2, &op->n_axes2, CERT_RANK);
    dt_certword_expect(r, "(");
    DT_VEC(uint32_t) in = {0};
    for (; !r->failed && !dt_certword_take(r, ")"); dt_certword_take(r, ",")) {
        DT_PUSH(r->program->arena, in, dt_certword_value_of(r));
        if (in.at[in.n - 1] >= op->first_out)
            dt_certword_fail(r, "operands that are defined before");
    }
    op->in = in.at;
    op->n_in = in.n;
    func->most_in = func->most_in > op->n_in ? func->most_in : op->n_in;
    op->types = DT_NEW_ARRAY(r->program->arena, const CertType *, op->n_out);
    for (uint32_t i = 0; i < op->n_out; i++) {
        dt_certword_expect(r, i ? "," : ":");
        op->types[i] = dt_certword_type_of(r);
    }
    attributes(r, op);
    if ((dt_cert_is(op->kind, "input") || dt_cert_is(op->kind, "rng")) && !op->text)
        dt_certword_fail(r, "the name of an input or a site");
    DT_PUSH(r->program->arena, func->ops, op);
}

static void lines_of(CertReader *r, CertFunc *func)
{
    for (; !r->failed && !dt_certword_take(r, "}"); dt_certword_end_of_line(r)) {
        if (dt_certword_take(r, "arg ") || dt_certword_take(r, "param ")) {
            dt_certword_value_of(r);
            dt_certword_expect(r, ":");
            DT_PUSH(r->program->arena, func->args, dt_certword_type_of(r));
            const bool means = dt_certword_take(r, "means=");
            DT_PUSH(r->program->arena, func->means,
                    means ? dt_certword_number_of(r, UINT32_MAX) : 0);
            func->n_values++;
        } else if (dt_certword_take(r, "return ")) {
            do
                DT_PUSH(r->program->arena, func->results, dt_certword_value_of(r));
            while (!r->failed && dt_certword_take(r, ","));
        } else if (dt_certword_take(r, "write ")) {
            dt_certword_integer(r);
            dt_certword_expect(r, "=");
            DT_PUSH(r->program->arena, func->results, dt_certword_value_of(r));
        } else if (dt_certword_take(r, "gradient ") ||
                   dt_certword_take(r, "surrogate ")) { /* has no meaning here */
            dt_certword_name_of(r);
            dt_certword_expect(r, "(");
            for (; !r->failed && !dt_certword_take(r, ")"); dt_certword_take(r, ","))
                dt_certword_value_of(r);
        } else {
            op_of(r, func);
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] >= func->n_values)
            dt_certword_fail(r, "results that are defined");
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

static void func_of(CertReader *r)
{
    CertFunc *func = DT_NEW(r->program->arena, CertFunc);
    const char *name = dt_certword_name_of(r);
    dt_certword_end_of_line(r);
    const char *end = *r->at == '}' ? r->at : strstr(r->at, "\n}");
    const char *begin = r->at;
    const void **made = end ? dt_certword_known(r, begin, (size_t)(end - begin)) : NULL;
    if (made && *made) {
        *func = *(const CertFunc *)*made;
        r->at = end;
    } else {
        lines_of(r, func);
        func->same = func;
        if (!r->failed && end) /* reading a type may have moved the table */
            *dt_certword_known(r, begin, (size_t)(end - begin)) = func;
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
                                     FIELD(CertStore, adapter, FLAG),
                                     FIELD(CertStore, copy, INTEGER),
                                     {0}};
static const Field entry_fields[] = {
    FIELD(CertEntry, stage, INTEGER), FIELD(CertEntry, to, INTEGER), {0}};
static const Field result_fields[] = {FIELD(CertResult, store, INTEGER),
                                      FIELD(CertResult, name, NAME),
                                      FIELD(CertResult, accumulate, FLAG),
                                      {0}};

/* without `to`, only that stage */
static void stages_of(CertReader *r, int64_t stage, int64_t *to)
{
    *to = *to ? *to : stage;
    if (stage < -1 || *to < stage || *to >= CERT_STAGES || (stage < 0 && *to != stage))
        dt_certword_fail(r, "a range of stages");
}

static void store_of(CertReader *r)
{
    CertStore store = {
        .stage = -1, .of = -1, .within = -1, .bucket = -1, .members = -1, .before = -1};
    int64_t number;
    if (!dt_certword_scan(r, "%i : %n %t", &number, &store.kind, &store.type))
        return;
    while (!dt_certword_at_end(r) && *r->at != '@')
        field_of(r, &store, store_fields);
    if (!store.path || (store.loops && !store.type->rank))
        dt_certword_fail(r, "a store with a path and a loop's axis");
    else
        store.key = dt_intern_printf("%s %s", store.kind, store.path);
    stages_of(r, store.stage, &store.to);
    store.place = r->program->n_places;
    r->program->n_places += (uint32_t)(store.to - store.stage) + 1;
    DT_PUSH(r->program->arena, r->program->stores, store);
}

static void entry_of(CertReader *r)
{
    CertEntry entry = {.stage = -1};
    const char *func;
    if (!dt_certword_scan(r, "%n : %n", &entry.name, &func))
        return;
    entry.is = dt_plan_name(entry.name);
    entry.func = dt_certtext_func(r->program, func);
    while (!dt_certword_at_end(r) && *r->at != '{')
        field_of(r, &entry, entry_fields);
    stages_of(r, entry.stage, &entry.to);
    for (dt_certword_end_of_line(r); !r->failed && !dt_certword_take(r, "}");
         dt_certword_end_of_line(r)) {
        CertResult result = {.store = -1};
        dt_certword_expect(r, "result");
        while (!dt_certword_at_end(r))
            field_of(r, &result, result_fields);
        if (result.store < 0 && !result.name)
            dt_certword_fail(r, "where a result goes");
        if (result.store >= r->program->stores.n)
            dt_certword_fail(r, "a store that is there");
        DT_PUSH(r->program->arena, entry.results, result);
    }
    if (!entry.func || entry.func->n_args || entry.func->results.n != entry.results.n)
        dt_certword_fail(r, "an entry whose function has its results, and no arguments");
    DT_PUSH(r->program->arena, r->program->entries, entry);
}

static void mesh_of(CertReader *r)
{
    CertProgram *p = r->program;
    do {
        if (p->n_mesh == CERT_MESH) {
            dt_certword_fail(r, "fewer mesh axes");
            return;
        }
        if (dt_certword_scan(r, "%n=%i", &p->mesh[p->n_mesh], &p->size[p->n_mesh]) &&
            p->size[p->n_mesh] < 1)
            dt_certword_fail(r, "a mesh axis of 1 or more");
        if (dt_certword_take(r, "time"))
            p->time |= (uint16_t)(1u << p->n_mesh);
        p->n_mesh++;
    } while (!r->failed && dt_certword_take(r, ","));
}

static void padded_of(CertReader *r)
{
    CertProgram *p = r->program;
    if (p->n_padded == CERT_PADDED) {
        dt_certword_fail(r, "fewer padded axes");
        return;
    }
    CertPadded *padded = &p->padded[p->n_padded++];
    dt_certword_scan(r, "%n=%i of %i", &padded->name, &padded->logical, &padded->extent);
    if (padded->logical < 1 || padded->logical >= padded->extent)
        dt_certword_fail(r, "an axis that is longer than it was");
}

static void crossing_of(CertReader *r) { r->program->crossing = dt_certword_name_of(r); }

static void numbers(CertReader *r, int64_t **ret_at, uint32_t *ret_n)
{
    DT_VEC(int64_t) list = {0};
    for (dt_certword_expect(r, "("); !r->failed && !dt_certword_take(r, ")");
         dt_certword_take(r, ","))
        DT_PUSH(r->program->arena, list, dt_certword_integer(r));
    *ret_at = list.at;
    *ret_n = list.n;
}

/* "channel 0 : 1 -> 2 slots=2 stores=(5)", from piece to piece. Schedules are checked elsewhere. */
static void pipeline_of(CertReader *r)
{
    int64_t *stage_of, number, slots;
    const char *name;
    uint32_t n;
    dt_certword_scan(r, "%n mesh=", &name);
    r->program->pipe = (uint16_t)(1u << dt_certword_mesh_axis(r));
    dt_certword_scan(r, "stages=");
    numbers(r, &stage_of, &n);
    for (dt_certword_end_of_line(r); !r->failed && *r->at; dt_certword_end_of_line(r)) {
        CertChannel channel;
        if (!dt_certword_take(r, "channel "))
            continue;
        dt_certword_scan(r, "%i : %i -> %i slots=%i stores=", &number, &channel.from, &channel.to,
                         &slots);
        numbers(r, &channel.stores.at, &channel.stores.n);
        if (r->failed || channel.from < 0 || channel.from >= n || channel.to < 0 ||
            channel.to >= n) {
            dt_certword_fail(r, "a channel between two pieces");
            return;
        }
        channel.from = stage_of[channel.from];
        channel.to = stage_of[channel.to];
        DT_PUSH(r->program->arena, r->program->channels, channel);
    }
}

static void link_buckets(CertReader *r)
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
            dt_certword_fail(r, "buckets that are what their members are");
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
        void (*read)(CertReader *r);
    } parts[] = {{"mesh ", mesh_of}, {"padded ", padded_of}, {"crossing ", crossing_of},
                 {"store ", store_of}, {"func ", func_of}, {"entry ", entry_of},
                 {"pipeline ", pipeline_of}};
    CertReader *r = DT_NEW(arena, CertReader);
    *r = (CertReader){.at = text, .program = ret_program, .problem = ret_problem,
                      .sum = dt_intern("sum")};
    *ret_program = (CertProgram){.arena = arena, .text = text, .whole = ret_program, .n_values = 1};
    for (; !r->failed && *r->at; dt_certword_end_of_line(r))
        for (size_t i = 0; i < DT_COUNT(parts); i++)
            if (dt_certword_take(r, parts[i].word)) {
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
