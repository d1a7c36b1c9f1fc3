/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline that is cut by classes of stages and then written out stage by stage equals the one
 * that is cut stage by stage: the same stores, ops, results and channels. The test compares texts,
 * in which first only the order of the module's lists and the numbers in the names of slots are
 * made equal. */
#include "stage_driver.h"

#include "base/hash.h"
#include "base/intern.h"
#include "golden.h"
#include "gradcheck.h"
#include "ir/irtext.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define GPT2 "examples/gpt2.dsl", "batch=2 seq=3 vocab=7 layers=8 embed=4 heads=2", 7, "h"
#define GPT2_10 "examples/gpt2.dsl", "batch=2 seq=3 vocab=7 layers=10 embed=4 heads=2", 7, "h"
#define T5             \
    "examples/t5.dsl", \
        "batch=2 src=3 tgt=3 vocab=9 enc=6 dec=6 embed=4 heads=2 head=2 ffn=3 buckets=4", 9, "e d"
#define MOE                                                                                     \
    "examples/moe.dsl",                                                                         \
        "batch=2 seq=4 vocab=9 layers=8 pool=2 experts=4 embed=4 kv=1 group=2 head=2 ffn=3", 9, \
        "h"
#define BERT \
    "examples/bert.dsl", "batch=2 seq=3 vocab=9 layers=8 embed=4 heads=2 head=2 ffn=5", 2, "h"
#define SHARED "tests/passes/programs/shared_layer.dsl", "", 5, "h"

/* number of classes: some classes have several stages */
static const struct {
    Layout layout;
    bool classes;
} rows[] = {
    {{GPT2, "1f1b", 4, 1, 5, {2, 4, 6}, {0}, false}, true},
    {{GPT2, "1f1b", 8, 1, 3, {0}, {0}, true}, true},
    {{GPT2, "1f1b", 8, 1, 12, {0}, {0}, false}, true},
    {{GPT2, "gpipe", 8, 1, 4, {0}, {0}, false}, true},
    {{GPT2, "zb_h1", 8, 1, 16, {0}, {0}, true}, true},
    {{GPT2, "interleaved_1f1b", 4, 2, 8, {0}, {0}, false}, true},
    {{GPT2, "interleaved_1f1b", 4, 2, 4, {0}, {0}, false}, true},
    {{GPT2, "zb_v", 4, 2, 8, {0}, {0}, false}, true},
    {{GPT2, "dualpipe_v", 4, 2, 8, {0}, {0}, false}, true},
    {{GPT2, "1f1b", 10, 1, 12, {0}, {0}, false}, true}, /* stages that have only the embedding, or
                                                         * only the head */
    {{GPT2, "zb_h1", 10, 1, 12, {0}, {0}, true}, true},
    {{GPT2_10, "interleaved_1f1b", 6, 2, 12, {0}, {0}, false}, true},
    {{GPT2_10, "zb_v", 6, 2, 12, {0}, {0}, false}, true},
    {{GPT2, "1f1b", 2, 1, 5, {0}, {0}, false}, false},
    {{T5, "1f1b", 8, 1, 8, {0}, {0}, false}, true},
    {{T5, "zb_h1", 8, 1, 8, {0}, {0}, true}, true},
    {{T5, "1f1b", 12, 1, 8, {0}, {0}, true}, true},
    {{MOE, "1f1b", 8, 1, 3, {0}, {0}, false}, true},
    {{BERT, "interleaved_1f1b", 4, 2, 4, {0}, {0}, false}, true},
    {{SHARED, "1f1b", 4, 1, 4, {0}, {0}, false}, false}, /* a parameter that every layer reads */
};

/* ---- the same order for both ---- */

typedef struct Order {
    DtModule *module;
    DT_VEC(DtStore *) stores;
    DT_VEC(DtFunc *) funcs;
    DT_VEC(DtEntryPoint) entries;
    int32_t *entry; /* by number in the old text */
    bool *seen;     /* by old index of the store */
} Order;

static DtEntryPoint *at_hand; /* entries of the module whose entries are being sorted */

static int by_name(const void *a, const void *b)
{
    return strcmp(at_hand[*(const int32_t *)a].name, at_hand[*(const int32_t *)b].name);
}

static void see_store(Order *o, DtStore *store)
{
    if (!store || o->seen[store->index])
        return;
    o->seen[store->index] = true;
    const char *end = strrchr(store->path, '@'), *dot = end;
    if (store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL) {
        while (dot > store->path && *dot != '.')
            dot--;
        store->path = store->pattern =
            dt_intern_printf("%.*s.%u%s", (int)(dot - store->path), store->path, o->stores.n, end);
    }
    DT_PUSH(o->module->arena, o->stores, store);
    see_store(o, store->of);
}

/* Returns the only function with that text; stages may have their own copies of a loop's body. */
static DtFunc *see_func(Order *o, DtFunc *func)
{
    DtText text = {0};
    for (uint32_t i = 0; i < o->funcs.n; i++)
        if (o->funcs.at[i] == func)
            return func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        see_store(o, op->store);
        if (op->func)
            op->func = see_func(o, op->func);
        if (op->store)
            op->text = op->store->path;
    }
    if (func->kind != DT_FUNC_ENTRY) {
        func->name = "";
        dt_irtext_print_func(func, &text);
        func->name =
            dt_intern_printf("%llx", (unsigned long long)dt_hash_bytes(text.at, text.len, 0));
        dt_text_free(&text);
    }
    for (uint32_t i = 0; i < o->funcs.n; i++)
        if (o->funcs.at[i]->name == func->name)
            return o->funcs.at[i];
    DT_PUSH(o->module->arena, o->funcs, func);
    return func;
}

static void sort_entries(Order *o)
{
    const uint32_t n = o->module->entries.n;
    int32_t *sorted = DT_NEW_ARRAY(o->module->arena, int32_t, n);
    o->entry = DT_NEW_ARRAY(o->module->arena, int32_t, n);
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = (int32_t)i;
    at_hand = o->module->entries.at;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (uint32_t i = 0; i < n; i++) {
        DtEntryPoint *entry = &o->module->entries.at[sorted[i]];
        o->entry[sorted[i]] = (int32_t)i;
        entry->func->name = entry->name;
        see_func(o, entry->func);
        for (uint32_t k = 0; k < entry->results.n; k++)
            see_store(o, entry->results.at[k].store);
        DT_PUSH(o->module->arena, o->entries, *entry);
    }
}

static int by_pieces(const void *a, const void *b)
{
    const DtChannel *x = a, *y = b;
    return x->from_piece != y->from_piece
               ? (x->from_piece < y->from_piece ? -1 : 1)
               : (x->to_piece > y->to_piece) - (x->to_piece < y->to_piece);
}

static int by_index(const void *a, const void *b)
{
    const DtStore *x = *(DtStore *const *)a, *y = *(DtStore *const *)b;
    return (x->index > y->index) - (x->index < y->index);
}

static void sort_run(const Order *o, DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = o->module->pipeline;
    for (uint32_t g = 0; g < pipeline->n_pieces; g++) {
        int32_t *const entries[] = {&run->pieces[g].f, &run->pieces[g].b, &run->pieces[g].w};
        for (size_t k = 0; k < DT_COUNT(entries); k++)
            if (*entries[k] >= 0)
                *entries[k] = o->entry[*entries[k]];
    }
    DtText *actions =
        calloc(pipeline->n_stages, sizeof *actions); /* channels are named after pieces */
    for (uint32_t s = 0; s < pipeline->n_stages; s++)
        dt_pipeline_print_actions(run, &run->stages[s], &actions[s]);
    qsort(run->channels.at, run->channels.n, sizeof run->channels.at[0], by_pieces);
    for (uint32_t i = 0; i < run->channels.n; i++)
        qsort(run->channels.at[i].stores.at, run->channels.at[i].stores.n, sizeof(DtStore *),
              by_index);
    DtStageActions *stages = DT_NEW_ARRAY(o->module->arena, DtStageActions, pipeline->n_stages);
    for (uint32_t s = 0; s < pipeline->n_stages; s++) {
        const char *problem;
        cr_assert(dt_pipeline_read_actions(o->module->arena, run,
                                           actions[s].at ? actions[s].at : "", &stages[s],
                                           &problem),
                  "%s", problem);
        dt_text_free(&actions[s]);
    }
    run->stages = stages; /* several runs may share them */
    free(actions);
}

static char *sorted_text(DtModule *module)
{
    Order o = {.module = module};
    DtText text = {0};
    o.seen = DT_NEW_ARRAY(module->arena, bool, module->stores.n + 1);
    sort_entries(&o);
    cr_expect_eq(o.stores.n, module->stores.n, "%u of %u stores are in use", o.stores.n,
                 module->stores.n);
    module->entries.at = o.entries.at;
    module->stores.at = o.stores.at;
    module->stores.n = o.stores.n;
    for (uint32_t i = 0; i < module->stores.n; i++)
        module->stores.at[i]->index = i;
    module->funcs.at = o.funcs.at;
    module->funcs.n = o.funcs.n;
    for (uint32_t i = 0; i < module->pipeline->runs.n; i++)
        sort_run(&o, &module->pipeline->runs.at[i]);
    dt_irtext_print(module, &text);
    return text.at;
}

/* ---- tests ---- */

static void compare(const Layout *layout, const char *want, const char *got)
{
    if (strcmp(want, got) == 0)
        return;
    size_t line = 1, at = 0, begin = 0;
    for (; want[at] && want[at] == got[at]; at++)
        if (want[at] == '\n') {
            line++;
            begin = at + 1;
        }
    cr_expect_fail("%s %s p=%u v=%u: line %zu is\n%.200s\nnot\n%.200s", layout->path,
                   layout->schedule, layout->stages, layout->chunks, line, got + begin,
                   want + begin);
}

static bool has_classes(const DtModule *module)
{
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (module->entries.at[i].more)
            return true;
    return false;
}

Test(class, written_out_is_stage_by_stage, .timeout = 120)
{
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const Layout *layout = &rows[i].layout;
        Staged *p = stage_classes(layout);
        cr_expect_eq(has_classes(p->cut), rows[i].classes, "%s %s p=%u v=%u m=%lld has%s classes",
                     layout->path, layout->schedule, layout->stages, layout->chunks,
                     (long long)layout->micro, rows[i].classes ? " no" : "");
        dt_pipeline_unfold(p->cut);
        expect_valid(p->cut);
        char *want = sorted_text(p->whole), *got = sorted_text(p->cut);
        compare(layout, want, got);
        free(want);
        free(got);
        stage_free(p);
    }
}

/* The text of a class can be read back, and means the same. */
Test(class, round_trip)
{
    const Layout *layout = &rows[5].layout;
    Staged *p = stage_classes(layout);
    DtText text = {0}, again = {0};
    dt_irtext_print(p->cut, &text);
    DtModule *read = dt_irtext_read(p->arena, p->diags, text.at, text.len);
    if (!read)
        dt_diag_print(p->diags, stderr, false);
    cr_assert(read);
    dt_irtext_print(read, &again);
    compare(layout, text.at, again.at);
    dt_pipeline_unfold(p->cut);
    dt_pipeline_unfold(read);
    text.len = again.len = 0;
    dt_irtext_print(p->cut, &text);
    dt_irtext_print(read, &again);
    compare(layout, text.at, again.at);
    dt_text_free(&text);
    dt_text_free(&again);
    stage_free(p);
}

/* Four iterations on four stages: the two stages in the middle form a class. */
Test(class, golden)
{
    const Layout layout = {
        "tests/passes/programs/stage.dsl", "layers=4", 4, "h", "1f1b", 4, 1, 4, {0}, {0}, false};
    Staged *p = stage_classes(&layout);
    DtText text = {0};
    dt_irtext_print(p->cut, &text);
    golden_compare("passes/stage_class", &text);
    dt_text_free(&text);
    stage_free(p);
}
