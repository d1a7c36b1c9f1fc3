/* SPDX-License-Identifier: Apache-2.0 */
#include "stage_driver.h"

#include "base/intern.h"
#include "program_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the two modules ---- */

static uint32_t words(DtArena *arena, const char *text, const char **ret_words)
{
    uint32_t n = 0;
    char *copy = dt_arena_strndup(arena, text ? text : "", text ? strlen(text) : 0);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        ret_words[n++] = dt_intern(word);
    return n;
}

static void configure(Staged *p)
{
    const Layout *l = p->layout;
    DtPipeline line = {.on = dt_intern("pipe"), .schedule = l->schedule, .chunks = l->chunks};
    line.n_loops = words(p->arena, l->loops, line.loops);
    while (line.n_cuts < 4 && l->cuts[line.n_cuts]) {
        line.cuts[line.n_cuts] = l->cuts[line.n_cuts] < 0 ? 0 : l->cuts[line.n_cuts];
        line.n_cuts++;
    }
    for (; line.n_named_cuts < 4 && l->named[line.n_named_cuts]; line.n_named_cuts++)
        line.named_cuts[line.n_named_cuts] = l->named[line.n_named_cuts];
    p->parallel = (DtParallelConfig){.name = "test", .micro = 1};
    p->parallel.mesh = (DtMesh){.n = 1, .axes = {{.name = line.on, .size = l->stages}}};
    DT_PUSH(p->arena, p->parallel.pipelines, line);
}

/* Runs the passes before `stage`; and `stage` itself if the program is to be cut. Micro-batches are
 * whole batches of the program, so no earlier pass knows about them. */
static DtModule *compile(Staged *p, bool cut, bool each_stage)
{
    Program of = {.integers = p->layout->integers};
    snprintf(of.path, sizeof of.path, "%s", p->layout->path);
    snprintf(of.dims, sizeof of.dims, "%s", p->layout->dims);
    const DtProgram *program = lower(p->arena, p->diags, &of, NULL);
    const DtPassContext context = {.train = program->train,
                                   .parallel = &p->parallel,
                                   .inline_streams = !p->layout->kernels,
                                   .each_stage = each_stage};
    p->parallel.micro = 1;
    for (uint32_t i = 0; i < dt_n_passes && strcmp(dt_passes[i].name, "stage") != 0; i++) {
        dt_passes[i].run(program->module, &context);
        expect_valid(program->module);
    }
    cr_assert_eq(dt_diag_errors(p->diags), 0);
    p->parallel.micro = p->layout->micro;
    if (cut)
        dt_pass_stage(program->module, &context);
    expect_valid(program->module);
    return program->module;
}

static Staged *new_program(const Layout *layout)
{
    DtArena *arena = dt_arena_new();
    Staged *p = DT_NEW(arena, Staged);
    *p = (Staged){.layout = layout, .arena = arena, .diags = dt_diag_new(arena)};
    configure(p);
    return p;
}

Staged *stage_program(const Layout *layout)
{
    Staged *p = new_program(layout);
    p->whole = compile(p, false, false);
    p->cut = compile(p, true, false);
    dt_pipeline_unfold(p->cut);
    expect_valid(p->cut);
    if (dt_diag_errors(p->diags))
        p->cut = NULL;
    else
        cr_assert(p->cut->pipeline);
    return p;
}

Staged *stage_classes(const Layout *layout)
{
    Staged *p = new_program(layout);
    p->whole = compile(p, true, true);
    p->diags = dt_diag_new(p->arena); /* numbers of source files, which spans contain, begin
                                       * again */
    p->cut = compile(p, true, false);
    cr_assert(p->whole->pipeline && p->cut->pipeline);
    return p;
}

void stage_free(Staged *p) { dt_arena_free(p->arena); }

/* ---- values ---- */

typedef struct Named {
    const char *name;
    int64_t micro;
    DtTensor *value;
} Named;

typedef struct Sum { /* a sum over stages */
    const char *stages;
    uint32_t number;
    DtTensor *known, *parts[64];
} Sum;

typedef struct Count {
    const char *stages;
    uint32_t n;
} Count;

/* The state of running one of the two modules. */
typedef struct Machine {
    Staged *p;
    DtModule *module;
    DtTensor ***slots; /* per store: per slot */
    bool *started;     /* per store: whether something was added to it */
    int64_t micro;
    uint32_t stage;
    DT_VEC(Named) results;
    DT_VEC(Sum) sums;
    DT_VEC(Count) counts;
} Machine;

static DtTensor *input_of(Machine *m, const DtOp *op)
{
    DtTensor *tensor = dt_interp_tensor(m->p->arena, op->out[0]->type);
    const bool is_float = dt_dtype_is_float(op->out[0]->type->dtype);
    unsigned seed = (unsigned)strlen(op->text) + 31 * (unsigned)m->micro;
    if (op->text[0] == '@') { /* scalars that the step reads */
        tensor->at[0] = strcmp(op->text, "@lr") == 0 ? 0.01 : 1.25;
        return tensor;
    }
    fill_lattice(tensor, is_float ? -1 : 0, 1, &seed);
    for (int64_t i = 0; !is_float && i < dt_type_elements(tensor->type); i++)
        tensor->at[i] = floor(tensor->at[i] *
                              (op->out[0]->type->dtype == DT_BOOL ? 2 : m->p->layout->integers));
    return tensor;
}

static int64_t depth_of(const DtStore *store) { return store->depth > 0 ? store->depth : 1; }

static DtTensor *source(void *context, const DtOp *op)
{
    Machine *m = context;
    if (op->kind != DT_OP_PARAM)
        return input_of(m, op);
    DtTensor *tensor = m->slots[op->store->index][m->micro % depth_of(op->store)];
    cr_assert(tensor, "`%s` is read before it is there", op->store->path);
    return tensor;
}

static DtTensor *add(Machine *m, const DtTensor *x, const DtTensor *y)
{
    DtTensor *sum = dt_interp_tensor(m->p->arena, x->type);
    for (int64_t i = 0; i < dt_type_elements(x->type); i++)
        sum->at[i] = x->at[i] + (y ? y->at[i] : 0);
    return sum;
}

/* Returns how many sums over these stages the running entry has done. */
static uint32_t count(Machine *m, const char *stages)
{
    for (uint32_t i = 0; i < m->counts.n; i++)
        if (m->counts.at[i].stages == stages)
            return m->counts.at[i].n++;
    DT_PUSH(m->p->arena, m->counts, ((Count){stages, 1}));
    return 0;
}

/* Evaluates a sum over stages. The module runs in rounds, so that stages can run one after the
 * other: in each round a stage reads the values that all stages wrote in the previous round. The
 * members of a set of stages run its sums in the same order. */
static DtTensor *across(void *context, const DtOp *op, const DtTensor *in)
{
    Machine *m = context;
    const uint32_t number = count(m, op->stages);
    uint32_t i = 0;
    while (i < m->sums.n && (m->sums.at[i].stages != op->stages || m->sums.at[i].number != number))
        i++;
    if (i == m->sums.n)
        DT_PUSH(m->p->arena, m->sums,
                ((Sum){.stages = op->stages,
                       .number = number,
                       .known = dt_interp_tensor(m->p->arena, in->type)}));
    m->sums.at[i].parts[m->stage] = add(m, in, NULL);
    return m->sums.at[i].known;
}

static void give(Machine *m, const DtEntryResult *to, DtTensor *value)
{
    if (!to->store) {
        uint32_t i = 0;
        while (i < m->results.n &&
               (!to->accumulate || strcmp(m->results.at[i].name, to->name) != 0))
            i++;
        if (to->accumulate && i < m->results.n)
            m->results.at[i].value = add(m, m->results.at[i].value, value);
        else
            DT_PUSH(m->p->arena, m->results,
                    ((Named){to->name, to->accumulate ? 0 : m->micro, value}));
        return;
    }
    DtTensor **slot = &m->slots[to->store->index][m->micro % depth_of(to->store)];
    *slot = to->accumulate && m->started[to->store->index] ? add(m, *slot, value) : value;
    m->started[to->store->index] = true;
}

static void run_entry(Machine *m, const DtEntryPoint *entry)
{
    DtInterp interp = {.arena = m->p->arena,
                       .seed = 5,
                       .step = 2,
                       .path = "",
                       .source = source,
                       .across = across,
                       .context = m};
    DtTensor **results = DT_NEW_ARRAY(m->p->arena, DtTensor *, entry->func->results.n + 1);
    dt_interp_run(&interp, entry->func, NULL, results);
    for (uint32_t i = 0; i < entry->results.n; i++)
        give(m, &entry->results.at[i], results[i]);
}

static Machine *machine(Staged *p, DtModule *module)
{
    Machine *m = DT_NEW(p->arena, Machine);
    *m = (Machine){.p = p, .module = module};
    m->slots = DT_NEW_ARRAY(p->arena, DtTensor **, module->stores.n + 1);
    m->started = DT_NEW_ARRAY(p->arena, bool, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++)
        m->slots[i] = DT_NEW_ARRAY(p->arena, DtTensor *, depth_of(module->stores.at[i]));
    return m;
}

/* ---- the pipeline ---- */

typedef struct Parcel {
    int64_t micro;
    DtTensor **values;
} Parcel;

typedef struct Transit {
    DT_VEC(Parcel) parcels;
    uint32_t taken;
} Transit;

static bool act(Machine *m, const DtPipelineRun *run, Transit *transits, DtAction action)
{
    const DtPieceEntries *entries = action.kind <= DT_ACTION_W ? &run->pieces[action.unit] : NULL;
    const DtChannel *channel = entries ? NULL : &run->channels.at[action.unit];
    Transit *transit = entries ? NULL : &transits[action.unit];
    m->micro = action.micro;
    if (entries) {
        run_entry(m, &m->module->entries.at[dt_pipeline_entry(entries, action.kind)]);
    } else if (action.kind == DT_ACTION_SEND) {
        if (transit->parcels.n - transit->taken >= channel->slots)
            return false;
        Parcel parcel = {action.micro, DT_NEW_ARRAY(m->p->arena, DtTensor *, channel->stores.n)};
        for (uint32_t i = 0; i < channel->stores.n; i++) {
            const DtStore *from = channel->stores.at[i]->of;
            parcel.values[i] = m->slots[from->index][action.micro % depth_of(from)];
        }
        DT_PUSH(m->p->arena, transit->parcels, parcel);
    } else {
        if (transit->taken == transit->parcels.n)
            return false;
        const Parcel *parcel = &transit->parcels.at[transit->taken++];
        cr_assert_eq(parcel->micro, action.micro);
        for (uint32_t i = 0; i < channel->stores.n; i++) {
            const DtStore *to = channel->stores.at[i];
            m->slots[to->index][action.micro % depth_of(to)] = parcel->values[i];
        }
    }
    return true;
}

static void run_pipeline(Machine *m, const DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = m->module->pipeline;
    int64_t at[64] = {0};
    Transit *transits = DT_NEW_ARRAY(m->p->arena, Transit, run->channels.n + 1);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < pipeline->n_stages; s++) {
            m->stage = s;
            for (; at[s] < dt_pipeline_count(&run->stages[s]); at[s]++) {
                if (!act(m, run, transits, dt_pipeline_at(&run->stages[s], at[s])))
                    break;
                moved = true;
            }
        }
    }
    for (uint32_t s = 0; s < pipeline->n_stages; s++)
        cr_assert_eq(at[s], dt_pipeline_count(&run->stages[s]), "stage %u of run `%s` is stuck", s,
                     dt_entry_kind_name(run->kind));
}

static void complete(Machine *m, Sum *sum)
{
    sum->known = NULL;
    for (uint32_t s = 0; s < 64; s++) {
        cr_assert_eq(sum->parts[s] != NULL, dt_stages_has(sum->stages, s),
                     "a sum over stages lacks a member");
        if (sum->parts[s])
            sum->known = sum->known ? add(m, sum->known, sum->parts[s]) : sum->parts[s];
    }
}

static void run_updates(Machine *m)
{
    const uint32_t n = m->module->entries.n;
    DtTensor ***kept = DT_NEW_ARRAY(m->p->arena, DtTensor **, m->module->stores.n + 1);
    for (uint32_t i = 0; i < m->module->stores.n; i++) {
        kept[i] = DT_NEW_ARRAY(m->p->arena, DtTensor *, 1);
        kept[i][0] = m->slots[i][0];
    }
    for (int round = 0; round < 3; round++) { /* rounds: gradients, then the norm, after which every
                                               * value is known */
        m->results.n = 0;
        for (uint32_t i = 0; i < m->module->stores.n; i++)
            m->slots[i][0] = kept[i][0];
        for (uint32_t i = 0; i < n; i++) {
            const DtEntryPoint *entry = &m->module->entries.at[i];
            if (entry->kind != DT_ENTRY_UPDATE)
                continue;
            m->stage = (uint32_t)entry->stage;
            m->counts.n = 0;
            run_entry(m, entry);
        }
        for (uint32_t i = 0; i < m->sums.n; i++)
            complete(m, &m->sums.at[i]);
    }
}

/* ---- comparing ---- */

static double norm(const DtTensor *x)
{
    double sum = 0;
    for (int64_t i = 0; i < dt_type_elements(x->type); i++)
        sum += x->at[i] * x->at[i];
    return sqrt(sum);
}

static void expect_equal(const Staged *p, const char *what, const DtTensor *want,
                         const DtTensor *got)
{
    double worst = 0;
    cr_assert_eq(dt_type_elements(want->type), dt_type_elements(got->type), "%s", what);
    for (int64_t i = 0; i < dt_type_elements(want->type); i++)
        worst = fmax(worst, fabs(want->at[i] - got->at[i]));
    cr_expect(worst <= 1e-10 * fmax(norm(want), 1e-3),
              "%s %s p=%u v=%u m=%lld: `%s` differs by %g (norm %g)", p->layout->path,
              p->layout->schedule, p->layout->stages, p->layout->chunks,
              (long long)p->layout->micro, what, worst, norm(want));
}

/* Returns the part of the reference's tensor that a copy on a stage holds. */
static DtTensor *part_of(Staged *p, const DtTensor *whole, const DtStore *copy)
{
    DtTensor *part = dt_interp_tensor(p->arena, copy->type);
    const int64_t n = dt_type_elements(copy->type);
    const int64_t row = copy->whole ? n / copy->type->axes[0].extent : 0;
    memcpy(part->at, whole->at + copy->first * row, (size_t)n * sizeof(double));
    return part;
}

static uint32_t reference(const Staged *p, const DtStore *copy)
{
    for (uint32_t i = 0; i < p->whole->stores.n; i++)
        if (p->whole->stores.at[i]->kind == copy->kind &&
            strcmp(p->whole->stores.at[i]->path, copy->path) == 0)
            return i;
    cr_assert_fail("no store `%s`", copy->path);
    return 0;
}

static void init(Machine *m)
{
    unsigned seed = 17;
    for (uint32_t i = 0; i < m->module->stores.n; i++) {
        const DtStore *s = m->module->stores.at[i];
        DtTensor *tensor = m->slots[i][0] = dt_interp_tensor(m->p->arena, s->type);
        DtTensor *noise = dt_interp_tensor(m->p->arena, s->type);
        dt_interp_init(s, 11, tensor);
        fill_lattice(noise, s->kind == DT_STORE_MOMENT2 ? 0.1 : -0.3, 0.3, &seed);
        for (int64_t k = 0; s->kind != DT_STORE_GRAD && k < dt_type_elements(s->type); k++)
            tensor->at[k] += noise->at[k];
    }
}

static bool is_state(const DtStore *store)
{
    return store->kind != DT_STORE_SAVED && store->kind != DT_STORE_CHANNEL;
}

/* Adds up the copies of a gradient on all stages. */
static DtTensor *gradient(Machine *m, const DtStore *copy)
{
    DtTensor *sum = NULL;
    for (uint32_t i = 0; i < m->module->stores.n; i++) {
        const DtStore *s = m->module->stores.at[i];
        if (s->kind == DT_STORE_GRAD && strcmp(s->path, copy->path) == 0 &&
            s->first == copy->first && s->type == copy->type)
            sum = sum ? add(m, sum, m->slots[i][0]) : m->slots[i][0];
    }
    return sum;
}

static void compare_stores(Machine *whole, Machine *cut, bool gradients)
{
    for (uint32_t i = 0; i < cut->module->stores.n; i++) {
        const DtStore *copy = cut->module->stores.at[i];
        if (!is_state(copy) || (copy->kind == DT_STORE_GRAD) != gradients)
            continue;
        const DtTensor *want = part_of(cut->p, whole->slots[reference(cut->p, copy)][0], copy);
        expect_equal(cut->p, copy->path, want, gradients ? gradient(cut, copy) : cut->slots[i][0]);
    }
}

static void compare_results(Machine *whole, Machine *cut)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < whole->results.n; i++)
        for (uint32_t k = 0; k < cut->results.n; k++)
            if (strcmp(whole->results.at[i].name, cut->results.at[k].name) == 0 &&
                whole->results.at[i].micro == cut->results.at[k].micro) {
                expect_equal(cut->p, whole->results.at[i].name, whole->results.at[i].value,
                             cut->results.at[k].value);
                found++;
                break;
            }
    cr_expect_eq(found, whole->results.n, "%u of %u results", found, whole->results.n);
    whole->results.n = cut->results.n = 0;
}

static void run_whole(Machine *m, const char *name)
{
    const DtEntryPoint *entry = dt_entry_named(m->module, name);
    for (m->micro = 0; m->micro < m->p->layout->micro; m->micro++)
        run_entry(m, entry);
    m->micro = 0;
}

void stage_compare(Staged *p)
{
    Machine *whole = machine(p, p->whole), *cut = machine(p, p->cut);
    init(whole);
    for (uint32_t i = 0; i < p->cut->stores.n; i++) {
        const DtStore *s = p->cut->stores.at[i];
        if (is_state(s))
            cut->slots[i][0] = part_of(p, whole->slots[reference(p, s)][0], s);
    }
    for (uint32_t i = 0; i < p->cut->pipeline->runs.n; i++) {
        const DtPipelineRun *run = &p->cut->pipeline->runs.at[i];
        run_whole(whole, dt_entry_kind_name(run->kind));
        run_pipeline(cut, run);
        cut->micro = 0;
        compare_results(whole, cut);
        if (run->kind != DT_ENTRY_GRAD)
            continue;
        compare_stores(whole, cut, true);
        const DtEntryPoint *update = dt_entry_named(p->whole, "update");
        if (!update)
            continue;
        run_entry(whole, update);
        run_updates(cut);
        compare_results(whole, cut);
        compare_stores(whole, cut, false);
    }
}
