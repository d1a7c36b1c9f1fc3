/* SPDX-License-Identifier: Apache-2.0 */
/* The device and stack blocks, which describe processors and other software, as the data of
 * cost/cost.h. The program's blocks precede the library's, and replace those of the same name. */
#include "frontend/config_internal.h"

#include "base/intern.h"
#include "cost/cost.h"

#include <string.h>

enum { DEEP = 8 }; /* devices that are like each other */

static const DtKeyId constant_keys[DT_COST_CONSTANTS] = {
#define DT_COST_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) \
    [DT_COST_##id] = DT_KEY_DEVICE_##id,
#include "cost/constants.def"
#undef DT_COST_CONSTANT
};

static const DtKeyId flag_keys[DT_STACK_FLAGS] = {
#define DT_STACK_FLAG(id, in_plan, meaning) [DT_STACK_##id] = DT_KEY_STACK_##id,
#include "cost/stack.def"
#undef DT_STACK_FLAG
};

/* Returns the block of that kind and name: the program's own, or else the library's. NULL if there
 * is none. */
static const DtItem *find_item(const DtConfigHost *host, DtItemKind kind, const char *name)
{
    for (uint32_t i = 0; i < host->n_items; i++)
        if (host->items[i]->kind == kind && host->items[i]->name.text == name)
            return host->items[i];
    return host->library_block(host->context, kind, name);
}

/* ---- devices ---- */

static void read_link(const DtConfigHost *host, const DtConfigValue *value, DtCostLink *ret_link)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (value->given && value->expr &&
        dt_configargs_call(host, DT_CONFIG_LINK, value->expr, &schema, &v))
        *ret_link = (DtCostLink){v.at[DT_KEY_LINK_bandwidth].number,
                                 v.at[DT_KEY_LINK_latency].number};
}

static void read_double(const DtConfigValue *value, double *ret_number)
{
    if (value->given)
        *ret_number = value->number;
}

/* Checks the value of a constant by its unit: it is a time if the unit is seconds, and a part of
 * something is above 0 and at most 1. Reports it if not. */
static bool check_constant(const DtConfigHost *host, const DtConfigValue *value,
                           const DtCostConstant *row)
{
    const bool time = !strcmp(row->unit, "s"), part = !strncmp(row->unit, "of ", 3);
    if (value->number == 0 && !part)
        return true;
    if ((value->second != 0) == time && (!part || (value->number > 0 && value->number <= 1)))
        return true;
    DtDiag *d = dt_diag_report(host->diags, E0526, value->span, "`%s` must be %s", row->name,
                               time   ? "a time, such as 3us"
                               : part ? "above 0 and at most 1"
                                      : "a number");
    dt_diag_note(d, "%s: %s (%s)", row->name, row->meaning, row->unit);
    return false;
}

static void read_constant(const DtConfigHost *host, const DtConfigValue *value,
                          const DtCostConstant *row, DtCostEstimate *ret_estimate)
{
    DtConfigValues v;
    DtSchemaId schema;
    const DtConfigValue *number = value;
    if (!value->given || !value->expr)
        return;
    if (dt_configargs_callee(value->expr)) {
        if (!dt_configargs_call(host, DT_CONFIG_ESTIMATE, value->expr, &schema, &v))
            return;
        number = &v.at[DT_KEY_ABOUT_value];
        if (v.at[DT_KEY_ABOUT_within].given)
            ret_estimate->within = v.at[DT_KEY_ABOUT_within].number;
        ret_estimate->source = v.at[DT_KEY_ABOUT_source].word;
    }
    if (check_constant(host, number, row))
        ret_estimate->value = number->number;
}

static void need(const DtConfigHost *host, const DtItem *item, const char *key, double value)
{
    if (value <= 0)
        dt_diag_report(host->diags, E0453, item->name.span, "`device` needs `%s`, or `like`", key);
}

static DtDevice read_device(const DtConfigHost *host, const DtItem *item, int depth);

/* Returns the device that this one is `like`, whose values it begins with; a device without values
 * if it names none, or after a report. */
static DtDevice read_model(const DtConfigHost *host, const DtItem *item,
                           const DtConfigValue *like, int depth)
{
    const DtItem *model =
        like->given && like->word ? find_item(host, DT_ITEM_DEVICE, like->word) : NULL;
    if (model && depth < DEEP)
        return read_device(host, model, depth + 1);
    if (like->given && model)
        dt_diag_report(host->diags, E0526, like->span,
                       "devices are like each other in a circle, or more than %d deep", DEEP);
    else if (like->given)
        dt_diag_report(host->diags, E0526, like->span, "there is no device `%s`",
                       like->word ? like->word : "");
    return dt_device_new(item->name.text);
}

static DtDevice read_device(const DtConfigHost *host, const DtItem *item, int depth)
{
    DtConfigValues v;
    dt_configargs_entries(host, DT_SCHEMA_DEVICE, item->entries, item->name.span, &v);
    DtDevice device = read_model(host, item, &v.at[DT_KEY_DEVICE_like], depth);
    device.name = item->name.text;
    device.family = device.family ? device.family : device.name;
    device.description = v.at[DT_KEY_DEVICE_description].word;
    if (v.at[DT_KEY_DEVICE_source].given)
        device.source = v.at[DT_KEY_DEVICE_source].word;
    if (v.at[DT_KEY_DEVICE_gpu].given)
        device.is_gpu = v.at[DT_KEY_DEVICE_gpu].whole;
    if (v.at[DT_KEY_DEVICE_node].given)
        device.node = v.at[DT_KEY_DEVICE_node].whole;
    if (v.at[DT_KEY_DEVICE_units].given)
        device.units = (double)v.at[DT_KEY_DEVICE_units].whole;
    read_double(&v.at[DT_KEY_DEVICE_peak_f32], &device.flops[DT_COST_F32]);
    read_double(&v.at[DT_KEY_DEVICE_peak_tf32], &device.flops[DT_COST_TF32]);
    read_double(&v.at[DT_KEY_DEVICE_peak_f16], &device.flops[DT_COST_F16]);
    read_double(&v.at[DT_KEY_DEVICE_peak_f8], &device.flops[DT_COST_F8]);
    read_double(&v.at[DT_KEY_DEVICE_capacity], &device.memory_bytes);
    read_double(&v.at[DT_KEY_DEVICE_bandwidth], &device.memory_rate);
    read_double(&v.at[DT_KEY_DEVICE_cache], &device.l2_bytes);
    read_double(&v.at[DT_KEY_DEVICE_host], &device.host_rate);
    read_link(host, &v.at[DT_KEY_DEVICE_intra], &device.link);
    read_link(host, &v.at[DT_KEY_DEVICE_inter], &device.nic);
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        read_constant(host, &v.at[constant_keys[i]], &dt_cost_constants[i], &device.at[i]);
    if (!v.at[DT_KEY_DEVICE_like].given) {
        need(host, item, "units", device.units);
        need(host, item, "peak_f32", device.flops[DT_COST_F32]);
        need(host, item, "bandwidth", device.memory_rate);
    }
    return device;
}

/* ---- stacks ---- */

static const DtStack *read_stack(const DtConfigHost *host, const DtItem *item)
{
    DtConfigValues v;
    DtStack *stack = DT_NEW(host->arena, DtStack);
    dt_configargs_entries(host, DT_SCHEMA_STACK, item->entries, item->name.span, &v);
    stack->name = item->name.text;
    stack->description = v.at[DT_KEY_STACK_description].word;
    for (int i = 0; i < DT_STACK_FLAGS; i++) {
        stack->has[i] = v.at[flag_keys[i]].whole;
        stack->source[i] = v.at[flag_keys[i]].given ? v.at[flag_keys[i]].word : NULL;
    }
    return stack;
}

/* ---- both ---- */

static void check_entries(const DtConfigHost *host, const DtItem *item)
{
    for (uint32_t i = 0; i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        if (!entry->is_directive && entry->targets.n == 1 && entry->targets.at[0].name.text)
            continue;
        DtDiag *d =
            dt_diag_report(host->diags, E0459, entry->span, "a `%s` block has settings only",
                           item->kind == DT_ITEM_DEVICE ? "device" : "stack");
        dt_diag_help(d, "write `name = value`");
    }
}

static void add_name(const char *name, const char **names, uint32_t *n)
{
    for (uint32_t i = 0; i < *n; i++)
        if (names[i] == name)
            return;
    names[(*n)++] = name;
}

uint32_t dt_confighardware_names(const DtConfigHost *host, DtItemKind kind, const char ***ret_names)
{
    enum { LIBRARY = 128 };
    const char *known[LIBRARY], *word = kind == DT_ITEM_DEVICE ? "device" : "stack";
    const uint32_t n_known =
        dt_library_blocks(host->arena, host->options->library, word, known, LIBRARY);
    uint32_t n = 0;
    *ret_names = DT_NEW_ARRAY(host->arena, const char *, host->n_items + LIBRARY + 1);
    for (uint32_t i = 0; i < host->n_items; i++)
        if (host->items[i]->kind == kind && host->items[i]->name.text)
            add_name(host->items[i]->name.text, *ret_names, &n);
    for (uint32_t i = 0; i < n_known; i++)
        add_name(known[i], *ret_names, &n);
    if (kind == DT_ITEM_STACK)
        add_name(dt_intern(dt_stack_ours.name), *ret_names, &n);
    return n;
}

const DtDevice *dt_confighardware_device(const DtConfigHost *host, const char *name)
{
    DtProgram *program = host->program;
    for (uint32_t i = 0; i < program->devices.n; i++)
        if (program->devices.at[i]->name == name)
            return program->devices.at[i];
    const DtItem *item = find_item(host, DT_ITEM_DEVICE, name);
    if (!item)
        return NULL;
    check_entries(host, item);
    DtDevice *device = DT_NEW(host->arena, DtDevice);
    *device = read_device(host, item, 0);
    DT_PUSH(host->arena, program->devices, device);
    return device;
}

const DtStack *dt_confighardware_stack(const DtConfigHost *host, const char *name)
{
    DtProgram *program = host->program;
    for (uint32_t i = 0; i < program->stacks.n; i++)
        if (program->stacks.at[i]->name == name)
            return program->stacks.at[i];
    const DtItem *item = find_item(host, DT_ITEM_STACK, name);
    if (!item)
        return strcmp(name, dt_stack_ours.name) ? NULL : &dt_stack_ours;
    check_entries(host, item);
    const DtStack *stack = read_stack(host, item);
    DT_PUSH(host->arena, program->stacks, stack);
    return stack;
}

void dt_confighardware_read(const DtConfigHost *host)
{
    for (uint32_t i = 0; i < host->n_items; i++) {
        const DtItem *item = host->items[i];
        if ((item->kind != DT_ITEM_DEVICE && item->kind != DT_ITEM_STACK) || !item->name.text ||
            host->in_library(host->context, item->span))
            continue;
        if (item->kind == DT_ITEM_DEVICE)
            dt_confighardware_device(host, item->name.text);
        else
            dt_confighardware_stack(host, item->name.text);
    }
}
