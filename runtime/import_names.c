/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the tensors of a folder with the names blocks of a plan. A block fits if
 *
 *   - each of its tensors is there, with its shape and a dtype that the parameter can be read from;
 *     one may be missing if others have all its parameters (tied weights are stored once or twice),
 *   - each tensor of the folder has a name in the block or is ignored,
 *   - config.json has the values that the program says.
 *
 * All blocks are tried. If none fits, the list is of the one with the fewest faults. */
#include "runtime/foreign.h"
#include "runtime/import.h"

#include "base/modelconfig.h"
#include "plan/kinds.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 20 }; /* lines of each kind */

typedef enum Fault { MISSING, SHAPE, TYPE, EXTRA, CONFIG, FAULTS } Fault;

/* A names block beside the folder. */
typedef struct Fit {
    DtArena *memory;
    const DtPlan *plan;
    const DtPlanNames *names;
    const DtForeign *foreign;
    const DtForeignTensor ***of;
    bool *used; /* of the folder's tensors */
    uint32_t n[FAULTS], wrong;
    DtText list;
} Fit;

static void add_fault(Fit *fit, Fault fault, const char *line)
{
    fit->wrong++;
    if (fit->n[fault]++ < SHOWN)
        dt_text_printf(&fit->list, "  %s\n", line);
}

/* ---- tensors ---- */

int64_t dt_importnames_count(const DtPlanFileTensor *tensor)
{
    int64_t n = 1;
    for (uint32_t x = 0; x < tensor->n_index; x++)
        n *= tensor->extent[x];
    return n;
}

/* The number at a place of "2,5,8". */
static int64_t listed(const char *list, int64_t place)
{
    while (place-- > 0)
        list = strchr(list, ',') + 1;
    return strtoll(list, NULL, 10);
}

const char *dt_importnames_name(DtArena *memory, const DtPlan *plan, const DtPlanFileTensor *tensor,
                                int64_t number)
{
    int64_t index[DT_PLAN_MAX_RANK] = {0};
    uint32_t hole = tensor->first_hole;
    DtText text = {0};
    for (uint32_t x = tensor->n_index; x-- > 0; number /= tensor->extent[x])
        index[x] = number % tensor->extent[x];
    dt_text_add(&text, "");
    for (const char *at = dt_plan_str(plan, tensor->pattern); *at; at++) {
        if (*at != '#') {
            dt_text_add_n(&text, at, 1);
            continue;
        }
        int64_t value = plan->holes[hole].first;
        for (uint32_t x = 0; x < tensor->n_index; x++)
            value += plan->holes[hole].factor[x] * index[x];
        const DtPlanFileHole *made = &plan->holes[hole];
        dt_text_integer(&text,
                        made->n_list ? listed(dt_plan_str(plan, made->list), value) : value);
        hole++;
    }
    const char *name = dt_arena_strndup(memory, text.at ? text.at : "", text.len);
    dt_text_free(&text);
    return name;
}

static const char *name_of(const Fit *fit, const DtPlanFileTensor *tensor, int64_t number)
{
    return dt_importnames_name(fit->memory, fit->plan, tensor, number);
}

static const char *shape_text(const Fit *fit, const int64_t *extents, uint32_t n)
{
    const char *text = "";
    for (uint32_t a = 0; a < n; a++)
        text = dt_arena_printf(fit->memory, "%s%s%lld", text, a ? ", " : "", (long long)extents[a]);
    return dt_arena_printf(fit->memory, "[%s]", text);
}

static void check_shape(Fit *fit, const DtPlanFileTensor *wanted, const DtTensor *found)
{
    const int64_t *extents = wanted->extent + wanted->n_index;
    const uint32_t n = wanted->n_axes - wanted->n_index;
    bool equal = found->n_axes == n, turned = n == 2 && found->n_axes == 2;
    for (uint32_t a = 0; equal && a < n; a++)
        equal = found->extents[a] == extents[a];
    if (equal)
        return;
    turned = turned && found->extents[0] == extents[1] && found->extents[1] == extents[0];
    add_fault(fit, SHAPE,
              dt_arena_printf(fit->memory, "shape: `%.200s` is %s and should be %s%s", found->name,
                              shape_text(fit, found->extents, found->n_axes),
                              shape_text(fit, extents, n),
                              turned ? "; the axes on the left may be in the wrong order" : ""));
}

uint32_t dt_importnames_dtype(const DtPlan *plan, const DtPlanFilePart *part)
{
    for (uint32_t s = 0; s < plan->n_stores; s++)
        if (plan->stores[s].path == part->path &&
            (plan->stores[s].kind == DT_PLAN_PARAM || plan->stores[s].kind == DT_PLAN_STATE))
            return plan->stores[s].dtype;
    return DT_PLAN_F32;
}

static void check_type(Fit *fit, const DtPlanFileTensor *wanted, const DtTensor *found)
{
    for (uint32_t p = 0; p < wanted->n_parts; p++) {
        const uint32_t dtype =
            dt_importnames_dtype(fit->plan, &fit->plan->parts[wanted->first_part + p]);
        if (found->dtype == dtype || (dt_kinds_is_float(found->dtype) && dt_kinds_is_float(dtype)))
            continue;
        add_fault(
            fit, TYPE,
            dt_arena_printf(fit->memory,
                            dt_kinds_is_float(dtype)
                                ? "dtype: `%.200s` is %.20s, and F32, F16 and BF16 can be read"
                                : "dtype: `%.200s` is %.20s, and the state has another dtype",
                            found->name, found->type));
        return;
    }
}

/* Looks up the names of a record; of[]: the tensors, or NULL if there is none of them. */
static void find_tensors(Fit *fit, uint32_t number)
{
    const DtPlanFileTensor *tensor = &fit->plan->tensors[fit->names->first_tensor + number];
    const int64_t n = dt_importnames_count(tensor);
    const DtForeignTensor **of = DT_NEW_ARRAY(fit->memory, const DtForeignTensor *, n);
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        of[i] = dt_foreign_find(fit->foreign, name_of(fit, tensor, i));
        if (of[i] == NULL)
            continue;
        found++;
        fit->used[of[i] - fit->foreign->tensors] = true;
        check_shape(fit, tensor, of[i]->tensor);
        check_type(fit, tensor, of[i]->tensor);
    }
    fit->of[number] = found ? of : NULL;
    for (int64_t i = 0; i < n && found && found < n; i++)
        if (of[i] == NULL)
            add_fault(fit, MISSING,
                      dt_arena_printf(fit->memory, "missing: `%.300s`", name_of(fit, tensor, i)));
}

/* Whether a tensor that is there has the parameter. */
static bool is_elsewhere(const Fit *fit, DtPlanStr path)
{
    for (uint32_t t = 0; t < fit->names->n_tensors; t++) {
        const DtPlanFileTensor *tensor = &fit->plan->tensors[fit->names->first_tensor + t];
        for (uint32_t p = 0; fit->of[t] && p < tensor->n_parts; p++)
            if (fit->plan->parts[tensor->first_part + p].path == path)
                return true;
    }
    return false;
}

/* The name of the folder's tensor nearest to that one, of those that nothing uses; NULL: none. */
static const char *nearest(const Fit *fit, const char *name)
{
    const char **names = DT_NEW_ARRAY(fit->memory, const char *, fit->foreign->n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < fit->foreign->n && n < 1000; i++)
        if (!fit->used[i])
            names[n++] = fit->foreign->tensors[i].tensor->name;
    return n ? dt_text_nearest(name, names, n) : NULL;
}

/* A record without any tensor is an error unless its parameters are elsewhere. */
static void check_absent(Fit *fit, uint32_t number)
{
    const DtPlanFileTensor *tensor = &fit->plan->tensors[fit->names->first_tensor + number];
    bool elsewhere = fit->of[number] != NULL;
    if (elsewhere)
        return;
    for (uint32_t p = 0; p < tensor->n_parts; p++)
        if (!is_elsewhere(fit, fit->plan->parts[tensor->first_part + p].path)) {
            for (int64_t i = 0; i < dt_importnames_count(tensor); i++) {
                const char *name = name_of(fit, tensor, i);
                const char *near = fit->n[MISSING] < SHOWN ? nearest(fit, name) : NULL;
                add_fault(fit, MISSING,
                          near
                              ? dt_arena_printf(fit->memory,
                                                "missing: `%.300s` (there is `%.300s`)", name, near)
                              : dt_arena_printf(fit->memory, "missing: `%.300s`", name));
            }
            return;
        }
}

static bool is_ignored(const Fit *fit, const char *name)
{
    for (uint32_t r = 0; r < fit->names->n_rules; r++) {
        const DtPlanRule *rule = &fit->plan->rules[fit->names->first_rule + r];
        if (rule->kind == DT_RULE_IGNORE &&
            fnmatch(dt_plan_str(fit->plan, rule->key), name, FNM_NOESCAPE) == 0)
            return true;
    }
    return false;
}

static void check_extra(Fit *fit)
{
    for (uint32_t i = 0; i < fit->foreign->n; i++) {
        const DtTensor *tensor = fit->foreign->tensors[i].tensor;
        if (!fit->used[i] && !is_ignored(fit, tensor->name))
            add_fault(fit, EXTRA,
                      dt_arena_printf(fit->memory, "not named: `%.200s`, %.20s%s", tensor->name,
                                      tensor->type,
                                      shape_text(fit, tensor->extents, tensor->n_axes)));
    }
}

/* ---- config.json ---- */

static void check_rule(Fit *fit, const DtPlanRule *rule)
{
    const char *differs =
        dt_modelconfig_differs(fit->memory, fit->foreign->config, dt_plan_str(fit->plan, rule->key),
                               dt_plan_str(fit->plan, rule->value));
    const DtPlanSpan *span = rule->span < fit->plan->n_spans ? &fit->plan->spans[rule->span] : NULL;
    if (differs)
        add_fault(fit, CONFIG,
                  dt_arena_printf(fit->memory, "%sconfig.json: %s (%.200s:%u)",
                                  fit->names->adapters ? "adapter_" : "", differs,
                                  span ? dt_plan_str(fit->plan, span->file) : "?",
                                  span ? span->line : 0));
}

static void check_config(Fit *fit)
{
    bool any = false;
    for (uint32_t r = 0; r < fit->names->n_rules; r++) {
        const DtPlanRule *rule = &fit->plan->rules[fit->names->first_rule + r];
        if (rule->kind != DT_RULE_CONFIG)
            continue;
        any = true;
        if (fit->foreign->config)
            check_rule(fit, rule);
    }
    if (any && fit->foreign->config == NULL)
        add_fault(fit, CONFIG,
                  fit->names->adapters
                      ? "adapter_config.json: there is none"
                      : "config.json: there is none, and the program says what it has");
}

/* ---- blocks ---- */

static void fit_block(Fit *fit)
{
    fit->of = DT_NEW_ARRAY(fit->memory, const DtForeignTensor **, fit->names->n_tensors + 1);
    fit->used = DT_NEW_ARRAY(fit->memory, bool, fit->foreign->n + 1);
    for (uint32_t t = 0; t < fit->names->n_tensors; t++)
        find_tensors(fit, t);
    for (uint32_t t = 0; t < fit->names->n_tensors; t++)
        check_absent(fit, t);
    check_extra(fit);
    check_config(fit);
}

/* Says how to convert weights that are quantised: in 8 bits, or blocks of 4-bit numbers. */
static void add_conversion(Fit *fit)
{
    const char *method = NULL;
    for (uint32_t i = 0; i < fit->foreign->n; i++) {
        const DtTensor *tensor = fit->foreign->tensors[i].tensor;
        const char *ending = strrchr(tensor->name, '_');
        if (strncmp(tensor->type, "F8_", 3) == 0)
            method = "fp8";
        if (tensor->dtype == DT_PLAN_U8 && ending && strcmp(ending, "_blocks") == 0)
            method = "mxfp4";
    }
    if (method)
        dt_text_printf(&fit->list, "  the weights are quantised; convert them: %s\n",
                       dt_modelconfig_dequantise(fit->memory, fit->foreign->folder, method));
}

static DtStatus refuse(const Fit *fit)
{
    static const char *const what[FAULTS] = {"missing", "of another shape", "of another dtype",
                                             "without a name in the block",
                                             "values of config.json other than the program's"};
    char text[300] = "";
    size_t len = 0;
    for (int f = 0; f < FAULTS; f++)
        if (fit->n[f])
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%u %s", len ? ", " : "",
                                    fit->n[f], what[f]);
    return dt_status_fail(DT_EXIT_FAILED, "%.100s does not fit %s`names %.60s`: %s",
                          fit->foreign->folder,
                          fit->names->adapters ? "the adapters and " : "",
                          dt_plan_str(fit->plan, fit->names->name), text);
}

DtStatus dt_importnames_choose(DtArena *memory, const DtPlan *plan, const char *name,
                               DtImport *import, DtText *ret_list)
{
    Fit *fits = DT_NEW_ARRAY(memory, Fit, plan->n_names + 1), *best = NULL, *other = NULL;
    for (uint32_t i = 0; i < plan->n_names; i++) {
        if (plan->names[i].adapters != import->adapters ||
            strcmp(dt_plan_str(plan, plan->names[i].label), import->label) != 0 ||
            (name && strcmp(dt_plan_str(plan, plan->names[i].name), name) != 0))
            continue;
        fits[i] = (Fit){
            .memory = memory, .plan = plan, .names = &plan->names[i], .foreign = &import->foreign};
        fit_block(&fits[i]);
        if (best && best->wrong == 0 && fits[i].wrong == 0)
            other = &fits[i];
        else if (!best || fits[i].wrong < best->wrong)
            best = &fits[i];
    }
    DtStatus status = DT_OK;
    if (!best && *import->label)
        status = dt_status_fail(DT_EXIT_USAGE,
                                "--import %.100s=%.200s: no names block is for an instance "
                                "`%.100s:MODEL(..)` of the program",
                                import->label, import->foreign.folder, import->label);
    else if (!best && name)
        status = dt_status_fail(DT_EXIT_USAGE, "the plan has no names block `%.100s`", name);
    else if (!best)
        status = dt_status_fail(
            DT_EXIT_USAGE,
            "the plan has no names block, which says what the file's tensors are called: write one "
            "in the program (`names huggingface on MODEL { .. }`)");
    else if (other)
        status = dt_status_fail(
            DT_EXIT_USAGE,
            "the names blocks `%.60s` and `%.60s` both fit %.200s: --names says which",
            dt_plan_str(plan, best->names->name), dt_plan_str(plan, other->names->name),
            import->foreign.folder);
    else if (best->wrong) {
        add_conversion(best);
        dt_text_add_n(ret_list, best->list.at, best->list.len);
        status = refuse(best);
    } else {
        import->names = best->names;
        import->of = best->of;
    }
    for (uint32_t i = 0; i < plan->n_names; i++)
        dt_text_free(&fits[i].list);
    return status;
}

DtStatus dt_importnames_check(const DtPlan *plan, const char *folder, const char *label,
                              const char *names, bool adapters, DtText *ret_list)
{
    DtArena *memory = dt_arena_new();
    DtImport import = {.adapters = adapters, .label = label};
    DtStatus status = adapters ? dt_foreign_open_adapters(memory, folder, &import.foreign)
                               : dt_foreign_open(memory, folder, &import.foreign);
    if (dt_status_ok(&status))
        status = dt_importnames_choose(memory, plan, names, &import, ret_list);
    dt_foreign_close(&import.foreign);
    dt_arena_free(memory);
    return status;
}

/* ---- adapters ---- */

/* Whether the parameter is of an adapter that can be added to a weight. */
static bool can_be_added(const DtPlan *plan, DtPlanStr path)
{
    for (uint32_t i = 0; i < plan->n_adapted; i++)
        if (plan->adapted[i].a == path || plan->adapted[i].b == path)
            return true;
    return false;
}

static bool has_tensor(const DtPlan *plan, const DtPlanNames *names, DtPlanStr path)
{
    for (uint32_t t = 0; t < names->n_tensors; t++) {
        const DtPlanFileTensor *tensor = &plan->tensors[names->first_tensor + t];
        for (uint32_t p = 0; p < tensor->n_parts; p++)
            if (plan->parts[tensor->first_part + p].path == path)
                return true;
    }
    return false;
}

DtStatus dt_importnames_adapters(const DtPlan *plan, const DtPlanNames *base, const char *what,
                                 const DtPlanNames **ret_names)
{
    bool any = false;
    *ret_names = NULL;
    for (uint32_t i = 0; i < plan->n_names && !*ret_names; i++)
        if (plan->names[i].adapters && (!base || plan->names[i].name == base->name))
            *ret_names = &plan->names[i];
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtPlanStore *store = &plan->stores[s];
        const char *path = dt_plan_str(plan, store->path);
        if (store->kind != DT_PLAN_PARAM || !store->adapter || store->copy > 0)
            continue;
        any = true;
        if (!can_be_added(plan, store->path))
            return dt_status_fail(DT_EXIT_USAGE,
                                  "%s: `%.100s` is of an adapter that is not LoRA: it does not add "
                                  "c (x a) b to the result x w",
                                  what, path);
        if (*ret_names && !has_tensor(plan, *ret_names, store->path))
            return dt_status_fail(DT_EXIT_USAGE,
                                  "%s: `%.100s` adapts a weight that is only a part of a tensor in "
                                  "`names %.60s`, or in a form of its own; peft adapts whole "
                                  "matrices",
                                  what, path, dt_plan_str(plan, (*ret_names)->name));
    }
    if (!any)
        return dt_status_fail(
            DT_EXIT_USAGE, "%s: the program has no adapters (`adapt \"*.wq\" = lora(..)`)", what);
    return *ret_names ? DT_OK
                      : dt_status_fail(
                            DT_EXIT_USAGE,
                            "%s: no names block has the weights that are adapted as matrices "
                            "`NAME.weight`",
                            what);
}
