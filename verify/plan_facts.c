/* SPDX-License-Identifier: Apache-2.0 */
/* Records without instructions: initial values of stores, which stores are saved, and (facts,
 * see plan/logical.h) the data, its batches, the seed, the scalars of the step, the losses. */
#include "verify/file.h"
#include "verify/plan_internal.h"

#include "base/hash.h"
#include "base/intern.h"
#include "plan/fields.h"
#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

const CertType *dt_certplan_input(const PlanWalk *walk, const char *name)
{
    for (uint32_t e = 0; e < walk->program->entries.n; e++) {
        const CertFunc *func = walk->program->entries.at[e].func;
        for (uint32_t i = 0; func && i < func->ops.n; i++)
            if (is(func->ops.at[i]->kind, "input") && is(func->ops.at[i]->text, name))
                return func->ops.at[i]->types[0];
    }
    return NULL;
}

/* ---- stores ---- */

/* Whether the record's initial value is `want`, text as in IR: "normal(0.02, 0)". */
static bool has_init(const DtPlanStore *record, const char *want)
{
    static const char *const kinds[DT_PLAN_INITS] = {"const", "normal", "uniform"};
    DtText text = {0};
    dt_text_printf(&text, "%s(", kinds[record->init]);
    dt_text_double(&text, record->init_a);
    dt_text_add(&text, ", ");
    dt_text_double(&text, record->init_b);
    dt_text_add(&text, ")");
    bool same = want && is(text.at, want);
    dt_text_free(&text);
    return same;
}

static bool has_owner(const PlanWalk *walk, const CertStore *store, const DtPlanStore *record)
{
    if (store->of < 0 || record->of < 0)
        return store->of < 0 && record->of < 0;
    if (store->of >= walk->program->stores.n)
        return false;
    const CertStore *of = &walk->program->stores.at[store->of];
    const DtPlanStore *owner = &walk->plan->stores[record->of];
    return is(dt_certplan_kinds[owner->kind], of->kind) &&
           is(dt_plan_str(walk->plan, owner->path), of->path) &&
           dt_plan_store_on(owner, walk->stage) &&
           dt_certplan_first(walk, owner) == dt_cert_first(of, walk->stage);
}

/* Whether the record has the random numbers of the store or, of a copy, of the original. */
static bool has_key(const PlanWalk *walk, const CertStore *store, const DtPlanStore *record)
{
    return store->copy >= 0 && (size_t)store->copy < strlen(store->path) &&
           record->key == dt_hash_text(store->path + store->copy, walk->plan->meta->seed);
}

bool dt_certplan_begins(PlanWalk *walk, const CertStore *store, const DtPlanStore *record)
{
    const DtPlan *plan = walk->plan;
    const bool saved = !is(store->kind, "grad") && !is(store->kind, "next") &&
                       !is(store->kind, "cache") && !is(store->kind, "codes") &&
                       !is(store->kind, "scales");
    const char *what =
        !has_init(record, store->init)                               ? "initial value"
        : !has_key(walk, store, record)                              ? "random numbers"
        : record->saved != saved                                     ? "place in checkpoints"
        : record->adapter != store->adapter                          ? "mark of adapters"
        : record->copy != store->copy                                ? "original"
        : !is(dt_plan_str(plan, record->pattern), store->pattern ? store->pattern : "") ? "name"
        : !has_owner(walk, store, record)                                               ? "owner"
                                                                                        : NULL;
    return !what ||
           dt_certplan_fail(walk, "the record of store %s has another %s", store->path, what);
}

bool dt_certplan_records(PlanWalk *walk)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = 0; i < plan->n_metrics; i++)
        if (!walk->has_metric[i])
            return dt_certplan_fail(walk, "the record of `%s` is of no result of the program",
                                    dt_plan_str(plan, plan->metrics[i].name));
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[i];
        const CertType *type = dt_certplan_input(walk, dt_plan_str(plan, input->name));
        if (type && (!is(dt_kinds_name(input->dtype), type->dtype) ||
                     !dt_certplan_axes(walk, type, input->first_axis, input->n_axes, 0)))
            return dt_certplan_fail(walk, "the record of input %s has another type",
                                    dt_plan_str(plan, input->name));
    }
    return true;
}

/* ---- facts ---- */

typedef struct Facts {
    const DtPlan *plan;
    const char *at;       /* position in the text */
    uint32_t readers, inputs, axes; /* records met so far: in all, inputs of this reader, axes of
                                     * this input */
    uint32_t settings, scalars, objectives, shows;
    bool meta;
    DtText *problem;
} Facts;

static bool refuse(Facts *f, const char *tag, const char *what)
{
    dt_text_printf(f->problem, "the plan's %.4s record%s", tag, what);
    return false;
}

static bool is_tag(const char *at, const char *tag) { return strncmp(at, tag, 4) == 0; }

/* Checks that the present reader and input have as many inputs and axes as lines of the text were
 * met for them. inputs: also checks the number of inputs. */
static bool is_whole(Facts *f, bool inputs)
{
    const DtPlanReader *reader = f->readers ? &f->plan->readers[f->readers - 1] : NULL;
    const DtPlanInput *input =
        reader && f->inputs ? &f->plan->inputs[reader->first_input + f->inputs - 1] : NULL;
    if (input && input->n_axes != f->axes)
        return refuse(f, "INPT", " has other axes than the program's");
    return !inputs || !reader || reader->n_inputs == f->inputs ||
           refuse(f, "READ", " has other inputs than the program's");
}

/* Counts the present line as another record of its kind and returns that record of the plan; NULL:
 * the plan has no such record. */
static const void *record_of(Facts *f)
{
    const DtPlan *plan = f->plan;
    const DtPlanReader *reader = f->readers ? &plan->readers[f->readers - 1] : NULL;
    if (is_tag(f->at, "META") && !f->meta) {
        f->meta = true;
        return plan->meta;
    }
    if (is_tag(f->at, "SETT") && f->settings < plan->n_settings)
        return &plan->settings[f->settings++];
    if (is_tag(f->at, "SCAL") && f->scalars < plan->n_scalars)
        return &plan->scalars[f->scalars++];
    if (is_tag(f->at, "OBJE") && f->objectives < plan->n_objectives)
        return &plan->objectives[f->objectives++];
    if (is_tag(f->at, "SHOW") && f->shows < plan->n_shows)
        return &plan->shows[f->shows++];
    if (is_tag(f->at, "READ") && is_whole(f, true) && f->readers < plan->n_readers) {
        f->inputs = f->axes = 0;
        return &plan->readers[f->readers++];
    }
    if (is_tag(f->at, "INPT") && is_whole(f, false) && reader && f->inputs < reader->n_inputs) {
        f->axes = 0;
        return &plan->inputs[reader->first_input + f->inputs++];
    }
    if (is_tag(f->at, "AXIS") && reader && f->inputs) {
        const DtPlanInput *input = &plan->inputs[reader->first_input + f->inputs - 1];
        return f->axes < input->n_axes ? &plan->axes[input->first_axis + f->axes++] : NULL;
    }
    return NULL;
}

/* Returns the position after a value, which ends at a blank outside of quotes. */
static const char *behind_value(const char *at)
{
    bool quoted = *at == '"';
    for (at += quoted; *at && *at != '\n' && (quoted ? *at != '"' : *at != ' '); at++)
        if (quoted && *at == '\\' && at[1])
            at++;
    return at + (quoted && *at == '"');
}

static bool fact(Facts *f)
{
    const DtPlanRecord *kind = strlen(f->at) > 4 ? dt_fields_find(f->at) : NULL;
    const char *tag = f->at;
    const void *record = kind ? record_of(f) : NULL;
    if (!record)
        return f->problem->len
                   ? false
                   : refuse(f, strlen(tag) > 4 ? tag : "?", "s are not those that the program has");
    for (f->at += 4; *f->at == ' ';) {
        const char *key = f->at + 1, *value = key + strcspn(key, "= \n");
        if (*value != '=')
            return refuse(f, tag, " is not compared: the facts are damaged");
        const char *end = behind_value(value + 1);
        DtText have = {0};
        bool known = dt_plantext_value(f->plan, kind, record, key, (size_t)(value - key), &have);
        bool same = known && have.len == (size_t)(end - value - 1) &&
                    memcmp(have.at, value + 1, have.len) == 0;
        if (!same)
            dt_text_printf(f->problem, "the plan's %.4s record has %.*s = %s, the program %.*s",
                           tag, (int)(value - key), key, known ? have.at : "nothing",
                           (int)(end - value - 1), value + 1);
        dt_text_free(&have);
        if (!same)
            return false;
        f->at = end;
    }
    return *f->at == '\n' || refuse(f, tag, " is not compared: the facts are damaged");
}

/* Checks the number of elements of all parameters in the plan's META record against the program. */
static bool has_parameters(const DtPlan *plan, const CertProgram *serial, DtText *problem)
{
    int64_t all = 0;
    for (uint32_t i = 0; i < serial->stores.n; i++) {
        const CertType *type = serial->stores.at[i].type;
        int64_t n = is(serial->stores.at[i].kind, "param");
        for (uint32_t k = 0; k < type->rank; k++) /* each replica has the same parameters */
            if (!is(type->axes[k].name, "@replica") &&
                __builtin_mul_overflow(n, type->axes[k].extent, &n))
                n = -1;
        if (__builtin_add_overflow(all, n, &all))
            all = -1;
    }
    if (all != plan->meta->parameters)
        dt_text_printf(problem, "the plan's META record has parameters = %lld, the program %lld",
                       (long long)plan->meta->parameters, (long long)all);
    return all == plan->meta->parameters;
}

/* Checks the records of stores that stages share against the whole store of the serial program:
 * they give the extents of whole loops. */
static bool has_loops(DtArena *arena, const DtPlan *plan, const CertProgram *serial,
                      DtText *problem)
{
    const CertStore **known = DT_NEW_ARRAY(arena, const CertStore *, serial->stores.n + 1);
    for (uint32_t i = 0; i < serial->stores.n; i++)
        known[i] = &serial->stores.at[i];
    qsort(known, serial->stores.n, sizeof known[0], dt_cert_by_key);
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *record = &plan->stores[i];
        const char *path = dt_plan_str(plan, record->path);
        const CertStore want = {.key = dt_intern_printf("%s %s", dt_certplan_kinds[record->kind],
                                                        path)},
                        *at = &want;
        const CertStore *const *found =
            bsearch(&at, known, serial->stores.n, sizeof known[0], dt_cert_by_key);
        for (uint32_t k = 0; found && k < record->n_loops && k < (*found)->type->rank; k++)
            if (plan->axes[record->first_axis + k].extent != (*found)->type->axes[k].extent) {
                dt_text_printf(
                    problem, "the record of store %s has a loop of another length than the program",
                    path);
                return false;
            }
    }
    return true;
}

bool dt_certfile_facts(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                       DtText *ret_problem)
{
    Facts f = {.plan = plan, .at = texts->facts, .problem = ret_problem};
    for (; *f.at; f.at++)
        if (!fact(&f))
            return false;
    if (!is_whole(&f, true))
        return false;
    const char *other = !f.meta                          ? "META"
                        : f.readers != plan->n_readers   ? "READ"
                        : f.settings != plan->n_settings ? "SETT"
                        : f.scalars != plan->n_scalars   ? "SCAL"
                        : f.objectives != plan->n_objectives ? "OBJE"
                        : f.shows != plan->n_shows           ? "SHOW"
                                                             : NULL;
    if (other)
        return refuse(&f, other, "s are not those that the program has");
    CertProgram *serial = DT_NEW(arena, CertProgram);
    return dt_certtext_read(arena, texts->serial, serial, ret_problem) &&
           has_parameters(plan, serial, ret_problem) && has_loops(arena, plan, serial, ret_problem);
}
