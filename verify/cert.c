/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what entries leave in stores and named results, in the serial program and in the
 * final one.
 *
 * Entries of the final program may be cut into pieces ("grad.f0", "grad.b0", one per pipeline
 * stage), which pass values to each other through `saved` and `channel` stores; entries are
 * evaluated repeatedly until everything that they read is known. The order in which a schedule
 * runs them is checked elsewhere (queues, slots). An entry of a class of stages is evaluated for
 * each stage, which costs little, since its functions are memorised.
 *
 * A parameter, moment or state that is read is a source, equal in both programs. So only the
 * update may store them, after all reads of the step, and on every stage that has a copy. A
 * gradient that the update reads is what the gradient entry left, as is the next value of a
 * state. With several losses each has its own gradient entry and update ("grad@critic",
 * "update@critic"), which begin with what the ones before left, in both programs. */
#include "verify/box.h"
#include "verify/cert_proof.h"

#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* For qsort: orders results by entry, then key, then first iteration. */
static int by_key(const void *a, const void *b)
{
    const CertLeft *x = a, *y = b;
    if (x->key != y->key)
        return (uintptr_t)x->key < (uintptr_t)y->key ? -1 : 1;
    if (x->entry != y->entry)
        return (uintptr_t)x->entry < (uintptr_t)y->entry ? -1 : 1;
    return x->value.first < y->value.first ? -1 : x->value.first > y->value.first;
}

/* Returns the index in p->left of the first result with this entry and key, or where it would
 * be. */
static uint32_t find_left(const CertProof *p, const CertLeft *like)
{
    CertLeft want = *like;
    uint32_t lo = 0, hi = p->left.n;
    want.value.first = INT64_MIN;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (by_key(&p->left.at[middle], &want) < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Sets *ret_lo and *ret_hi to the iterations lo .. hi - 1 that value covers along the loop's axis;
 * 0 and 1 if it has no such axis. */
static void stands(const CertValue *value, const char *loop, int64_t *ret_lo, int64_t *ret_hi)
{
    const CertAxis *axis = loop ? dt_certtext_axis(value->type, loop) : NULL;
    *ret_lo = value->loop == loop && value->first != CERT_ANY ? value->first : 0;
    *ret_hi = *ret_lo + (axis ? axis->logical : 1);
}

/* Compares one result of the serial program: every part that final entries leave must equal it, and
 * together the parts cover its iterations and no others. */
static bool claim(CertProof *final, const CertLeft *serial, DtCertCounts *counts)
{
    const CertValue *want = &serial->value;
    int64_t reached = INT64_MIN, need = 0, lo, hi;
    for (uint32_t i = find_left(final, serial); i < final->left.n; i++) {
        const CertLeft *left = &final->left.at[i];
        const CertValue *have = &left->value;
        if (left->key != serial->key || left->entry != serial->entry)
            break;
        if (!dt_certsum_equal(&final->state, have->node, want->node, NULL)) {
            dt_cert_fail(&final->state, NULL,
                         "entry %s: `%s` is not what the serial program computes", serial->entry,
                         serial->key);
            dt_certnode_differ(have->node, want->node, final->state.problem);
            return false;
        }
        if (dt_certproof_is_update(serial->entry) && have->type->partial)
            return dt_cert_fail(&final->state, NULL, "entry %s: `%s` stays pending", serial->entry,
                                serial->key);
        counts->claims++;
        const char *loop = want->loop ? want->loop : have->loop;
        stands(want, loop, &lo, &need);
        reached = reached == INT64_MIN ? lo : reached;
        const int64_t first = lo;
        stands(have, loop, &lo, &hi);
        if (lo < first || hi > need || (have->loop && have->loop != loop))
            return dt_cert_fail(&final->state, NULL,
                                "entry %s: `%s` has other iterations than it should", serial->entry,
                                serial->key);
        reached = lo <= reached && hi > reached ? hi : reached;
    }
    return reached == need ||
           dt_cert_fail(&final->state, NULL,
                        "entry %s: `%s` is not computed, or not for all iterations", serial->entry,
                        serial->key);
}

/* Checks that the final program leaves no results that the serial program does not. */
static bool leaves_no_more(CertProof *final, const CertProof *serial)
{
    for (uint32_t i = 0; i < final->left.n; i++) {
        const CertLeft *left = &final->left.at[i];
        uint32_t at = find_left(serial, left);
        if (left->key[0] != '@' && (at == serial->left.n || serial->left.at[at].key != left->key ||
                                    serial->left.at[at].entry != left->entry))
            return dt_cert_fail(&final->state, NULL,
                                "entry %s leaves `%s`, which the serial program does not",
                                left->entry, left->key);
    }
    return true;
}

static void sort_left(CertProof *p)
{
    if (p->left.n)
        qsort(p->left.at, p->left.n, sizeof p->left.at[0], by_key);
}

int dt_cert_by_key(const void *a, const void *b)
{
    const char *x = (*(const CertStore *const *)a)->key, *y = (*(const CertStore *const *)b)->key;
    return x == y ? 0 : (uintptr_t)x < (uintptr_t)y ? -1 : 1;
}

/* Checks that stores have the initial values of the serial program, since later steps read them. */
static bool begins_alike(CertProof *final, const CertProof *serial)
{
    for (uint32_t i = 0; i < final->program.stores.n; i++) {
        const CertStore *store = &final->program.stores.at[i];
        if (dt_certproof_is_passed(store) || dt_certproof_is_total(store) || store->members >= 0)
            continue;
        const CertStore *found = dt_certsource_find(serial, store->key);
        if (!found || found->init != store->init || found->pattern != store->pattern ||
            found->loops != store->loops || found->adapter != store->adapter ||
            found->copy != store->copy)
            return dt_cert_fail(&final->state, NULL,
                                "`%s` begins otherwise than in the serial program", store->key);
    }
    return true;
}

/* Returns how many results that entries named `update` leave have this key: one for each stage that
 * stores the value. */
static int64_t times_left(const CertProof *final, const char *update, const char *key)
{
    const CertLeft like = {.entry = update, .key = key};
    int64_t n = 0;
    for (uint32_t i = find_left(final, &like);
         i < final->left.n && final->left.at[i].key == key && final->left.at[i].entry == update;
         i++)
        n++;
    return n;
}

/* Stages have copies of a store: an update must store all of them or none, and the value must be
 * the serial program's. */
static bool keeps_copies(CertProof *final)
{
    const CertProgram *program = &final->program;
    uint32_t n = 0;
    const CertStore **sorted =
        DT_NEW_ARRAY(final->state.arena, const CertStore *, program->stores.n + 1);
    for (uint32_t i = 0; i < program->stores.n; i++)
        if (!dt_certproof_is_passed(&program->stores.at[i]) &&
            !dt_certproof_is_total(&program->stores.at[i]))
            sorted[n++] = &program->stores.at[i];
    qsort(sorted, n, sizeof sorted[0], dt_cert_by_key);
    for (uint32_t i = 0, next; i < n; i = next) {
        int64_t copies = 0;
        for (next = i; next < n && sorted[next]->key == sorted[i]->key; next++)
            copies += sorted[next]->stage < 0 ? dt_certsource_stages(program)
                                              : sorted[next]->to - sorted[next]->stage + 1;
        const char *last = NULL; /* the entries of all stages have one base name */
        for (uint32_t e = 0; e < program->entries.n; e++) {
            const char *base = dt_certsource_base(program, &program->entries.at[e]);
            const int64_t left = dt_certproof_is_update(base) && base != last
                                     ? times_left(final, base, sorted[i]->key)
                                     : 0;
            last = base;
            if (left && left != copies)
                return dt_cert_fail(&final->state, NULL,
                                    "`%s` is stored on %lld of %lld stages that have it",
                                    sorted[i]->key, (long long)left, (long long)copies);
        }
    }
    return true;
}

/* Whether a gradient's store has the path of its parameter, and the store of a state's next value
 * that of its state. */
static bool is_named_after(const CertProgram *program, const CertStore *store)
{
    const CertStore *of =
        store->of >= 0 && store->of < program->stores.n ? &program->stores.at[store->of] : NULL;
    return of && of->path == store->path && of->pattern == store->pattern;
}

/* Checks a value accumulated in a store that is no bucket: it must be the gradient of the parameter
 * that the store names. Each stage of a pipeline may have a part of the gradient of a shared
 * parameter: then only the name is checked here, and the update's use of the gradient is
 * compared. */
static bool adds_up_one(CertProof *final, CertProof *serial, const CertStore *store, CertNode *have)
{
    const CertStore *meant = dt_certsource_find(serial, store->key);
    CertValue want = {0};
    if (meant && !dt_certsource_gradient(serial, meant->place, &want))
        return false;
    if (final->program.pipe && !is_named_after(&final->program, store))
        return dt_cert_fail(&final->state, NULL, "`%s` has another name than what it belongs to",
                            store->key);
    return (have && want.node &&
            (final->program.pipe || dt_certsum_equal(&final->state, have, want.node, NULL))) ||
           dt_cert_fail(&final->state, NULL, "`%s` is not what is added up there", store->key);
}

/* Checks each accumulated store, or each member of an accumulated bucket, with adds_up_one: that
 * its name is that of the gradient in it. */
static bool adds_up(CertProof *final, CertProof *serial)
{
    for (uint32_t i = 0; i < final->program.stores.n; i++) {
        const CertStore *store = &final->program.stores.at[i];
        CertValue all = {0};
        if (!dt_certproof_is_total(store) || store->bucket >= 0)
            continue;
        if (!dt_certsource_gradient(final, store->place, &all))
            return false;
        if (store->members < 0 && !adds_up_one(final, serial, store, all.node))
            return false;
        if (store->members >= 0 && dt_certsource_find(serial, store->key))
            return dt_cert_fail(&final->state, NULL, "`%s` is no bucket in the serial program",
                                store->key);
        for (int k = store->members; k >= 0; k = final->program.stores.at[k].before) {
            const CertStore *member = &final->program.stores.at[k];
            CertNode *have =
                dt_certpack_member(&final->state, all.node, member->at, member->type, store->type);
            if (!adds_up_one(final, serial, member, have))
                return false;
        }
    }
    return true;
}

/* Checks that the padding of a bucket's store, after its members, stays zero if a sum relies on
 * that. */
static bool keeps_zeros(CertProof *final)
{
    for (uint32_t i = 0; i < final->state.relied.n; i++)
        for (uint32_t k = 0; k < final->filled.n; k++)
            if (final->state.relied.at[i].path == final->filled.at[k])
                return dt_cert_fail(
                    &final->state, final->state.relied.at[i].op,
                    "what a store has behind the members of a bucket may be other than 0");
    return true;
}

/* Marks the serial values that are gradients, if the program allows these to cross ranks in another
 * dtype. */
static bool note_gradients(CertProof *serial)
{
    bool good = true;
    for (uint32_t i = 0; good && serial->program.crossing && i < serial->program.stores.n; i++) {
        const CertStore *store = &serial->program.stores.at[i];
        CertValue value = {0};
        if (is(store->kind, "grad") &&
            (good = dt_certsource_gradient(serial, store->place, &value)) && value.node)
            dt_certstep_gradient(&serial->state, value.node);
    }
    return good;
}

/* Compares the results of both programs. Gradients, and sums for states of the next step, are
 * compared where the update uses them, since stages hold parts of the gradient of a tied parameter.
 * Values that pieces and prologues pass to others are no results of the program. */
static bool prove_meant(CertMeant *meant, const char *serial, const char *final, bool is_serial,
                        DtCertCounts *ret_counts, DtText *ret_problem)
{
    DtArena *arena = meant->arena;
    CertNodes *nodes = dt_certnode_table(arena);
    CertProof *a = DT_NEW(arena, CertProof), *b = DT_NEW(arena, CertProof);
    *ret_counts = (DtCertCounts){0};
    if (!dt_certentry_begin(a, a, meant, nodes, true, serial, ret_problem))
        return false;
    meant->known = dt_certnode_count(nodes);
    if (!note_gradients(a))
        return false;
    const bool ran = dt_certentry_begin(b, a, meant, nodes, is_serial, final, ret_problem);
    if (ran && meant->news) {
        b->state.func = meant->news_in;
        return dt_cert_fail(&b->state, meant->news,
                            "`%s` makes what nothing in the plan's program does",
                            meant->news->kind);
    }
    if (!ran)
        return false;
    sort_left(a);
    sort_left(b);
    for (uint32_t i = 0; i < a->left.n; i++)
        if (a->left.at[i].key[0] != '@' && !claim(b, &a->left.at[i], ret_counts))
            return false;
    ret_counts->values = b->state.values;
    return leaves_no_more(b, a) && keeps_copies(b) && begins_alike(b, a) && adds_up(b, a) &&
           keeps_zeros(b);
}

static bool prove(DtArena *arena, const char *serial, const char *final, bool is_serial,
                  DtCertCounts *ret_counts, DtText *ret_problem)
{
    CertMeant meant = {.arena = arena};
    const bool good = prove_meant(&meant, serial, final, is_serial, ret_counts, ret_problem);
    if (meant.boxes)
        dt_box_end(meant.boxes);
    return good;
}

bool dt_cert_prove(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts,
                   DtText *ret_problem)
{
    return prove(arena, serial, final, false, ret_counts, ret_problem);
}

bool dt_cert_same(DtArena *arena, const char *serial, const char *other, DtText *ret_problem)
{
    DtCertCounts counts;
    return prove(arena, serial, other, true, &counts, ret_problem);
}
