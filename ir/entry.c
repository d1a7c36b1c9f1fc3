/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of entry points, and the names by which texts and messages call them: "grad",
 * "grad.prologue", "grad.prologue.2" and "update.2" (of a stage), "grad.f3" (of a piece),
 * "grad.f3.1" (another twin of it); "grad@critic" and "grad@critic.prologue" for the loss
 * `critic`. */
#include "ir/ir.h"

#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[DT_ENTRY_KINDS] = {
    "loss", "grad", "update", "eval", "predict", "prefill", "decode", "quantize",
    "mix"};

const char *dt_entry_kind_name(DtEntryKind kind) { return kind_names[kind]; }

const char *dt_entry_input(DtEntryKind kind, const char *name)
{
    const size_t n = strlen(kind_names[kind]);
    return strncmp(name, kind_names[kind], n) == 0 && name[n] == ':' ? name + n + 1 : NULL;
}

void dt_entry_set(DtEntryPoint *entry, DtEntryKind kind, DtEntryPart part, int32_t number)
{
    const char *name = kind_names[kind];
    if (entry->objective)
        name = dt_intern_printf("%s@%s", name, entry->objective);
    entry->kind = kind;
    entry->part = part;
    entry->number = number;
    if (part >= DT_PART_F && entry->twin)
        entry->name =
            dt_intern_printf("%s.%c%d.%u", name, "fbw"[part - DT_PART_F], number, entry -> twin);
    else if (part >= DT_PART_F)
        entry->name = dt_intern_printf("%s.%c%d", name, "fbw"[part - DT_PART_F], number);
    else if (number >= 0)
        entry->name =
            dt_intern_printf("%s%s.%d", name, part == DT_PART_PROLOGUE ? ".prologue" : "", number);
    else
        entry->name = dt_intern_printf("%s%s", name, part == DT_PART_PROLOGUE ? ".prologue" : "");
}

DtEntryPoint dt_entry_new(DtEntryKind kind, const char *objective, DtEntryPart part, int32_t number)
{
    DtEntryPoint entry = {.objective = objective};
    dt_entry_set(&entry, kind, part, number);
    return entry;
}

const char *dt_entry_run(const DtEntryPoint *entry)
{
    const char *name = entry->kind == DT_ENTRY_GRAD ? "step" : kind_names[entry->kind];
    return entry->objective ? dt_intern_printf("%s@%s", name, entry->objective) : name;
}

/* Reads the rest of a name: a number and, if ret_twin is given, perhaps a dot and the number of a
 * twin. False: it is something else. */
static bool read_number(const char *digits, int32_t *ret_number, uint32_t *ret_twin)
{
    char *end;
    if (*digits < '0' || *digits > '9' || strlen(digits) > 19)
        return false;
    const long number = strtol(digits, &end, 10),
               twin = *end == '.' && ret_twin ? strtol(end + 1, &end, 10) : 0;
    if (number > 999999999 || twin < 0 || twin > 999999999)
        return false;
    *ret_number = (int32_t)number;
    if (ret_twin)
        *ret_twin = (uint32_t)twin;
    return *end == '\0';
}

bool dt_entry_read(const char *name, DtEntryPoint *ret_entry)
{
    const size_t len = strcspn(name, "@."), all = strcspn(name, ".");
    const char *rest = name + all, *part;
    int32_t number = -1;
    uint32_t kind = 0;
    while (kind < DT_ENTRY_KINDS && (strncmp(name, kind_names[kind], len) || kind_names[kind][len]))
        kind++;
    if (kind == DT_ENTRY_KINDS)
        return false;
    DtEntryPart of = DT_PART_WHOLE;
    if (strncmp(rest, ".prologue", 9) == 0 && (rest[9] == '\0' || rest[9] == '.')) {
        of = DT_PART_PROLOGUE;
        rest += 9;
    } else if (rest[0] == '.' && rest[1] && (part = strchr("fbw", rest[1]))) {
        of = part[0] == 'f' ? DT_PART_F : part[0] == 'b' ? DT_PART_B : DT_PART_W;
        rest += 1; /* a part that is named by a letter has its number right after it */
    }
    *ret_entry =
        (DtEntryPoint){.objective = all > len ? dt_intern_n(name + len + 1, all - len - 1) : NULL};
    if (all == len + 1)
        return false;
    if ((*rest || of >= DT_PART_F) &&
        !read_number(rest + 1, &number, of >= DT_PART_F ? &ret_entry->twin : NULL))
        return false;
    dt_entry_set(ret_entry, (DtEntryKind)kind, of, number);
    return strcmp(ret_entry->name, name) == 0; /* no leading zeros */
}

DtEntryPoint *dt_entry_find(const DtModule *module, DtEntryKind kind, const char *objective,
                            DtEntryPart part, int32_t number)
{
    for (uint32_t i = 0; i < module->entries.n; i++) {
        DtEntryPoint *entry = &module->entries.at[i];
        if (entry->kind == kind && entry->objective == objective && entry->part == part &&
            entry->number == number && entry->twin == 0)
            return entry;
    }
    return NULL;
}

DtEntryPoint *dt_entry_whole(const DtModule *module, DtEntryKind kind, const char *objective)
{
    return dt_entry_find(module, kind, objective, DT_PART_WHOLE, -1);
}

DtEntryPoint *dt_entry_next(const DtModule *module, DtEntryKind kind, const DtEntryPoint *before)
{
    for (uint32_t i = before ? (uint32_t)(before - module->entries.at) + 1 : 0;
         i < module->entries.n; i++) {
        DtEntryPoint *entry = &module->entries.at[i];
        if (entry->kind == kind && entry->part == DT_PART_WHOLE && entry->number < 0)
            return entry;
    }
    return NULL;
}

const char *dt_entry_draws(const DtEntryPoint *entry)
{
    return entry->objective && entry->kind != DT_ENTRY_EVAL ? entry->objective : "";
}

DtEntryPoint *dt_entry_named(const DtModule *module, const char *name)
{
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (strcmp(module->entries.at[i].name, name) == 0)
            return &module->entries.at[i];
    return NULL;
}
