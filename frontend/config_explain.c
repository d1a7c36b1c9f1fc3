/* SPDX-License-Identifier: Apache-2.0 */
/* The manual of the configuration blocks, printed from the tables: `dtc explain adamw`. */
#include "frontend/config_internal.h"

#include "cost/cost.h"

#include <string.h>

static const char *const kind_names[] = {
    [DT_KIND_NATURAL] = "integer >= 0",
    [DT_KIND_AHEAD] = "integer from 0 to 64",
    [DT_KIND_COUNT] = "integer >= 1",
    [DT_KIND_NODES] = "integer >= 1, or several",
    [DT_KIND_NUMBER] = "number",
    [DT_KIND_NONNEGATIVE] = "number >= 0",
    [DT_KIND_POSITIVE] = "number > 0",
    [DT_KIND_NATURALS] = "integers from 0 on",
    [DT_KIND_FRACTION] = "number from 0 to 1",
    [DT_KIND_BOOLEAN] = "true or false",
    [DT_KIND_STRING] = "text",
    [DT_KIND_LETTER] = "character",
    [DT_KIND_FLOATTYPE] = "f32, bf16 or f16",
    [DT_KIND_DATATYPE] = "u8, u16, u32, i32, i64, f32, f16 or bf16",
    [DT_KIND_SCALE] = "number > 0, or dynamic",
    [DT_KIND_BANDWIDTH] = "bytes per second",
    [DT_KIND_SECONDS] = "time",
    [DT_KIND_BYTES] = "bytes",
    [DT_KIND_FLOPS] = "operations per second",
    [DT_KIND_MEASURE] = "number or time",
    [DT_KIND_ESTIMATE] = "number, time or about(...)",
    [DT_KIND_FLAG] = "true, false or where it is known from",
    [DT_KIND_GPU] = "device, or several",
    [DT_KIND_STACK] = "stack",
    [DT_KIND_NUMBERS] = "number, or three",
    [DT_KIND_PATHS] = "names",
    [DT_KIND_TEXTS] = "texts",
    [DT_KIND_CUTS] = "numbers or names",
    [DT_KIND_COUNTS] = "integer from 1 on, or (least, most)",
    [DT_KIND_SAMPLERS] = "sources",
    [DT_KIND_CHOICE_ORDER] = "word",
    [DT_KIND_CHOICE_SCHEDULE] = "word",
    [DT_KIND_CHOICE_OFFLOAD] = "word",
    [DT_KIND_CHOICE_GOAL] = "word",
    [DT_KIND_CHOICE_MATMUL] = "word",
    [DT_KIND_CHOICE_DRAWS] = "word",
    [DT_KIND_CHOICE_TEMPLATE] = "word",
    [DT_KIND_CHOICE_TRAINS] = "word",
    [DT_KIND_CHOICE_LONG] = "word",
    [DT_KIND_CHOICE_CROP] = "word",
    [DT_KIND_OPTIMIZER] = "call of an optimizer",
    [DT_KIND_MIXED] = "mixed(...)",
    [DT_KIND_EVAL] = "every(...)",
    [DT_KIND_SAVE] = "every(...)",
    [DT_KIND_GENERATE] = "cached(...)",
    [DT_KIND_RAMP] = "batch(...)",
    [DT_KIND_CODES] = "int8(...) or int4(...), or several",
    [DT_KIND_LINK] = "link(...)",
    [DT_KIND_SOURCE] = "source",
};

static const struct Word {
    DtConfigKind kind;
    const char *word, *meaning;
} words[] = {
#define DT_CONFIG_SCHEMA(...)
#define DT_CONFIG_KEY(...)
#define DT_CONFIG_CHOICE(SET, word, meaning) {DT_KIND_CHOICE_##SET, word, meaning},
#include "frontend/config.def"
#undef DT_CONFIG_SCHEMA
#undef DT_CONFIG_KEY
#undef DT_CONFIG_CHOICE
};

static const char *class_name(DtConfigClass config_class)
{
    switch (config_class) {
    case DT_CONFIG_BLOCK: return "block";
    case DT_CONFIG_VERB: return "directive of a parallel block";
    case DT_CONFIG_GROUP: return "call of an optimizer";
    case DT_CONFIG_MIXED: return "value of precision";
    case DT_CONFIG_EVAL: return "value of eval";
    case DT_CONFIG_SAVE: return "value of save";
    case DT_CONFIG_GENERATE: return "value of generate";
    case DT_CONFIG_RAMP: return "value of ramp";
    case DT_CONFIG_CODES: return "value of quantize";
    case DT_CONFIG_LINK: return "link";
    case DT_CONFIG_ESTIMATE: return "constant of a device";
    case DT_CONFIG_SOURCE: return "source of data";
    case DT_CONFIG_SAMPLER: return "sampler";
    }
    return "";
}

static void print_words(DtConfigKind kind, DtText *text)
{
    for (size_t i = 0; i < DT_COUNT(words); i++)
        if (words[i].kind == kind)
            dt_text_printf(text, "                  %-18s %s\n", words[i].word, words[i].meaning);
}

/* Prints the preset of a constant that the device does not set, and where the number comes from. */
static void print_constant(const char *name, DtText *text)
{
    static const char *const origins[] = {
        [DT_COST_FIT] = "fitted to", [DT_COST_READ] = "read in", [DT_COST_CHOSEN] = "chosen:"};
    for (int i = 0; i < DT_COST_CONSTANTS; i++) {
        const DtCostConstant *row = &dt_cost_constants[i];
        if (!strcmp(row->name, name))
            dt_text_printf(text, "                  %g %s within %.0f %%, %s %s\n", row->value,
                           row->unit, 100 * row->within, origins[row->origin], row->source);
    }
}

static void print_key(const DtConfigKey *key, DtText *text)
{
    dt_text_printf(text, "  %-14s  %s: %s", key->name, kind_names[key->kind], key->help);
    if (!strcmp(key->preset, "!"))
        dt_text_add(text, "; must be given\n");
    else if (*key->preset)
        dt_text_printf(text, "; default %s\n", key->preset);
    else
        dt_text_add(text, "\n");
    print_words(key->kind, text);
    if (key->kind == DT_KIND_ESTIMATE)
        print_constant(key->name, text);
}

static void print_schema(DtSchemaId schema, DtText *text)
{
    const DtConfigSchema *row = &dt_config_schemas[schema];
    dt_text_printf(text, "%s (%s)\n%s\n", row->name, class_name(row->config_class), row->help);
    for (int k = 0; k < DT_KEY_COUNT; k++)
        if (dt_config_keys[k].schema == schema)
            print_key(&dt_config_keys[k], text);
}

bool dt_configexplain_print(const char *name, DtText *ret_text)
{
    bool found = false;
    for (int i = 0; i < DT_SCHEMA_COUNT; i++) {
        if (name && strcmp(dt_config_schemas[i].name, name))
            continue;
        if (found)
            dt_text_add(ret_text, "\n");
        print_schema((DtSchemaId)i, ret_text);
        found = true;
    }
    for (int k = 0; name && k < DT_KEY_COUNT; k++) { /* a key by its own name */
        const DtConfigSchema *schema = &dt_config_schemas[dt_config_keys[k].schema];
        if (strcmp(dt_config_keys[k].name, name))
            continue;
        dt_text_printf(ret_text, "%s%s: key of %s\n", found ? "\n" : "", name, schema->name);
        print_key(&dt_config_keys[k], ret_text);
        found = true;
    }
    return found;
}

uint32_t dt_configexplain_names(const char **ret_names, uint32_t cap)
{
    uint32_t n = 0;
    for (int i = 0; i < DT_SCHEMA_COUNT && n < cap; i++)
        ret_names[n++] = dt_config_schemas[i].name;
    return n;
}
