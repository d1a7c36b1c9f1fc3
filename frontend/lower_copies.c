/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of instances, `reference = copy(policy)`, after all entries are lowered: dt_builtin_copy
 * in lower_call.c makes them. Their parameters are frozen, and begin as those of the originals
 * (DtStore.copy). Those whose originals do not train either are not held twice. */
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <string.h>

/* Returns the parameter or state of which the store is a copy; NULL: nothing calls it. */
static DtStore *original_of(const DtLower *l, const DtStore *copy)
{
    DtStore *found = dt_map_find_pointer(&l->store_at, dt_intern(copy->path + copy->copy));
    return found && found->type == copy->type ? found : NULL;
}

/* Replaces in the entry a parameter by another one. */
static void share(DtFunc *func, DtStore *store, DtStore *by)
{
    DtOp *first = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_PARAM && op->store == store) {
            op->store = by;
            op->text = by->path;
            op->out[0]->name = by->path;
        }
        if (op->kind == DT_OP_PARAM && op->store == by && first)
            dt_graph_replace(func, op->out[0], first->out[0]);
        else
            func->ops.at[n++] = op;
        if (op->kind == DT_OP_PARAM && op->store == by && !first)
            first = op;
    }
    func->ops.n = n;
}

/* Copies that no step could tell from their originals, since these do not train, are these: no rank
 * holds them twice. */
static void share_copies(DtLower *l)
{
    DtModule *module = l->module;
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        DtStore *store = module->stores.at[i];
        DtStore *original = store->copy ? original_of(l, store) : NULL;
        const bool shared = original && original->frozen;
        for (uint32_t e = 0; shared && e < module->entries.n; e++)
            share(module->entries.at[e].func, store, original);
        if (!shared) {
            store->index = n;
            module->stores.at[n++] = store;
        }
    }
    module->stores.n = n;
}

/* Returns where the call of `copy` stands that made the store. */
static DtSpan copied_at(const DtLower *l, const DtStore *store)
{
    for (uint32_t i = 0; i < l->copies.n; i++)
        if (strlen(l->copies.at[i]->label.text) + 1 == store->copy &&
            strncmp(store->path, l->copies.at[i]->label.text, store->copy - 1) == 0)
            return l->copies.at[i]->span;
    return store->span;
}

/* Reports a copy of a parameter that nothing else reads. */
static void check_copies(DtLower *l)
{
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        if (!store->copy || original_of(l, store))
            continue;
        DtDiag *d = dt_diag_report(l->diags, E0478, copied_at(l, store),
                                   "`%s` is a copy of `%s`, which no value of the train block "
                                   "needs",
                                   store->path, store->path + store->copy);
        dt_diag_note(d, "a copy is what the original was when training began");
        dt_diag_help(d, "call the instance that was copied, too; without training it, give a model "
                        "a label and freeze it: `teacher:net(x)`, `frozen = \"teacher.*\"`");
        return;
    }
}

void dt_copies_finish(DtLower *l)
{
    check_copies(l);
    for (uint32_t i = 0; i < l->module->stores.n; i++)
        if (l->module->stores.at[i]->kind == DT_STORE_PARAM && l->module->stores.at[i]->copy)
            l->module->stores.at[i]->frozen = true;
    share_copies(l);
}
