/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as codes of 8 or 4 bits.
 *
 * Purpose: generating text reads all weights for each token. A line `quantize` of the train block
 * names weights that "predict", "prefill" and "decode" read as codes, with a scale for each group
 * of neighbours along the axis that products sum (codes.h):
 *
 *   predict   %w = param() store=w             =>    %c = param() : u8[..] store=w's codes
 *             %y = dot[a](%x, %w)                    %s = param() : f32[..] store=w's scales
 *                                                    %y = reduce(%x * (%c - 128) * %s)
 *   quantize                                         w => codes, scales
 *
 * A product of more than DT_CODES_ROWS rows restores the weights first. The runtime runs
 * "quantize" once, after it has loaded the parameters. Entry "eval@codes" evaluates the held-out
 * data with codes, so that the loss of quality can be measured; training and "eval" are as they
 * were. Stores of codes and scales are not in checkpoints.
 *
 * Requires: parameters in the dtypes in which they are stored (pass `narrow`). Establishes: see
 * above. Breaks: nothing. */
#include "passes/codes/codes.h"

#include "base/intern.h"
#include "passes/passes.h"

/* ---- which axis ---- */

static void report(DtCodes *d, DtCodesOf *of, const char *what, const char *help)
{
    if (of->failed)
        return;
    of->failed = true;
    DtDiag *diag = dt_diag_report(d->module->diags, E0480, of->wish->span, "%s", what);
    dt_diag_label(diag, of->param->span, "the parameter");
    dt_diag_help(diag, "%s", help);
}

/* Chooses the innermost axis that all products sum, and checks that it consists of groups. */
static void choose_axis(DtCodes *d, DtCodesOf *of)
{
    const DtType *type = of->from->type;
    uint32_t axis = type->rank;
    for (uint32_t i = of->param->n_loops; i < type->rank; i++)
        if (of->products && of->summed[i] == of->products && !of->looked_up[i])
            axis = i;
    if (axis == type->rank) {
        report(d, of,
               dt_arena_printf(d->arena, of->products ? "no axis of `%s` is summed by all products"
                                                      : "`%s` is no operand of a product",
                               of->param->pattern),
               "name other parameters, such as \"*.w\"; `dtc --params` lists the paths");
        return;
    }
    const DtAxis *a = &type->axes[axis];
    of->group = of->wish->group;
    while (d->is_smaller && a->extent % of->group != 0)
        of->group--;
    if (a->extent % of->group != 0 || (of->wish->bits == 4 && of->group % 2 != 0))
        report(d, of,
               dt_arena_printf(d->arena, "groups of %lld do not divide the %lld elements of `%s` "
                                         "along `%s`",
                               (long long)of->group, (long long)a->extent, of->param->pattern,
                               a->name),
               "choose a `group` that divides the axis that the product sums");
    of->axis = axis;
    of->in = dt_intern_printf("%s.in", a->name);
    of->half = dt_intern_printf("%s.half", a->name);
}

static bool find(DtCodes *d, const DtTrainConfig *train)
{
    bool good = true;
    for (uint32_t i = 0; i < train->coded.n; i++) {
        DtCodesOf *of = DT_NEW(d->arena, DtCodesOf);
        *of = (DtCodesOf){.wish = &train->coded.at[i],
                          .param = train->coded.at[i].param,
                          .from = train->coded.at[i].param};
        DT_PUSH(d->arena, d->all, of);
    }
    d->strict = true;
    d->is_smaller = train->is_smaller;
    for (uint32_t i = 0; i < d->module->entries.n; i++)
        if (dt_entry_predicts(d->module->entries.at[i].kind))
            dt_codesfunc_look(d, d->module->entries.at[i].func);
    for (uint32_t i = 0; i < d->all.n; i++) {
        if (!d->all.at[i]->failed)
            choose_axis(d, d->all.at[i]);
        good = good && !d->all.at[i]->failed;
    }
    return good;
}

/* ---- stores, entries ---- */

static DtStore *store_of(DtCodes *d, const DtCodesOf *of, DtStoreKind kind)
{
    DtStore *store = DT_NEW(d->arena, DtStore);
    *store = (DtStore){.kind = kind, .path = of->param->path, .pattern = of->param->pattern,
                       .type = dt_codesvalue_type(of, kind == DT_STORE_SCALES),
                       .n_loops = of->param->n_loops, .of = of->param, .span = of->param->span,
                       .stage = of->param->stage, .index = d->module->stores.n};
    DT_PUSH(d->arena, d->module->stores, store);
    return store;
}

/* Adds entry "quantize", and the stores that it writes. */
static void add_quantize(DtCodes *d)
{
    DtEntryPoint entry = dt_entry_new(DT_ENTRY_QUANTIZE, NULL, DT_PART_WHOLE, -1);
    entry.func = dt_graph_func(d->module, entry.name, DT_FUNC_ENTRY);
    entry.func->span = d->all.at[0]->wish->span;
    for (uint32_t i = 0; i < d->all.n; i++) {
        DtCodesOf *of = d->all.at[i];
        DtBuilder b = {.func = entry.func, .span = of->param->span};
        of->codes = store_of(d, of, DT_STORE_CODES);
        of->scales = store_of(d, of, DT_STORE_SCALES);
        DtValue *w = dt_graph_source(&b, DT_OP_PARAM, of->from->type, of->param->path, of->from);
        DtValue *scales = dt_codesvalue_scales(&b, of, w),
                *codes = dt_codesvalue_codes(&b, of, w, scales);
        dt_graph_return(entry.func, codes);
        dt_graph_return(entry.func, scales);
        DT_PUSH(d->arena, entry.results, ((DtEntryResult){.store = of->codes}));
        DT_PUSH(d->arena, entry.results, ((DtEntryResult){.store = of->scales}));
    }
    dt_graph_renumber(entry.func);
    DT_PUSH(d->arena, d->module->entries, entry);
}

/* Makes inference read codes, and adds "eval@codes". */
static void rewrite(DtCodes *d)
{
    const uint32_t n = d->module->entries.n;
    for (uint32_t i = 0; i < n; i++) {
        DtEntryPoint *entry = &d->module->entries.at[i];
        if (dt_entry_predicts(entry->kind))
            entry->func = dt_codesfunc_make(d, entry->func);
        if (entry->kind != DT_ENTRY_EVAL)
            continue;
        DtEntryPoint made =
            dt_entry_new(DT_ENTRY_EVAL, dt_intern(DT_ENTRY_CODES), DT_PART_WHOLE, -1);
        made.func = dt_codesfunc_make(d, entry->func);
        for (uint32_t k = 0; k < entry->results.n; k++)
            DT_PUSH(d->arena, made.results, entry->results.at[k]);
        DT_PUSH(d->arena, d->module->entries, made);
    }
}

bool dt_pass_codes(DtModule *module, const DtPassContext *context)
{
    const DtTrainConfig *train = context->train;
    if (!train || !train->coded.n)
        return false;
    DtCodes d = {.module = module, .arena = module->arena};
    if (context->parallel && context->parallel->pipelines.n) {
        DtDiag *diag = dt_diag_report(module->diags, E0592, train->coded.at[0].span,
                                      "`quantize` in a pipeline is not implemented yet");
        dt_diag_help(diag, "compile for inference with a layout without `pipeline`");
        return false;
    }
    if (!find(&d, train))
        return false;
    add_quantize(&d);
    rewrite(&d);
    dt_inline_drop(module);
    return true;
}
