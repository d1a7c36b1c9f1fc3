/* SPDX-License-Identifier: Apache-2.0 */
/* The files of an export beside its tensors: config.json, the index of the files of tensors, and
 * copies of those that tokenizers and generation need. config.json is the folder's, with the dtype
 * that the tensors have now; if there is none, it has what the program's names block says. */
#include "runtime/export.h"

#include "base/file.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_COPIED = 1 << 30, MAX_LIST = 1 << 16 };

/* Names of files that are copied. *.py: models whose code is in the folder. */
static const char *const copied[] = {
    "tokenizer.json",    "tokenizer_config.json",    "special_tokens_map.json",
    "added_tokens.json", "tokenizer.model",          "vocab.*",
    "merges.txt",        "generation_config.json",   "chat_template*",
    "*.tiktoken",        "preprocessor_config.json", "processor_config.json",
    "spiece.model",      "sentencepiece.bpe.model",  "*.py",
};

/* A file of the folder that the export resembles. */
static const char *beside(DtArena *memory, const DtExport *export, const char *name)
{
    return dt_file_beside(memory, export->like.foreign.paths[0], name);
}

/* ---- copies ---- */

static bool is_copied(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(copied); i++)
        if (fnmatch(copied[i], name, FNM_NOESCAPE | FNM_PERIOD) == 0)
            return true;
    return false;
}

static DtStatus copy_file(const char *from, const char *to)
{
    DtArena *memory = dt_arena_new();
    char *bytes;
    size_t len;
    DtStatus status = dt_file_read(memory, from, MAX_COPIED, &bytes, &len);
    if (dt_status_ok(&status))
        status = dt_file_write(to, bytes, len);
    dt_arena_free(memory);
    return status;
}

static DtStatus copy_files(DtArena *memory, const DtExport *export, const char *folder)
{
    struct stat about;
    const char *from = beside(memory, export, ".");
    DIR *dir = opendir(from);
    DtStatus status =
        dir ? DT_OK : dt_status_fail(DT_EXIT_IO, "cannot open the folder %.300s", from);
    for (const struct dirent *entry; dt_status_ok(&status) && (entry = readdir(dir)) != NULL;) {
        const char *path = beside(memory, export, entry->d_name);
        if (is_copied(entry->d_name) && stat(path, &about) == 0 && S_ISREG(about.st_mode))
            status = copy_file(path, dt_arena_printf(memory, "%s/%s", folder, entry->d_name));
    }
    if (dir)
        closedir(dir);
    return status;
}

/* ---- JSON ---- */

/* Numbers have 15 digits, or 17 if these do not read back as the same. */
static char *json_text(const json_t *value)
{
    const size_t flags = JSON_INDENT(2);
    char *text = json_dumps(value, flags | JSON_REAL_PRECISION(15));
    json_t *back = text ? json_loads(text, 0, NULL) : NULL;
    const bool same = json_equal(value, back);
    json_decref(back);
    if (same)
        return text;
    free(text);
    return json_dumps(value, flags | JSON_REAL_PRECISION(17));
}

static DtStatus write_json(const char *path, const json_t *value)
{
    char *text = json_text(value);
    if (text == NULL)
        return dt_status_fail(DT_EXIT_FAILED, "cannot write %.300s: a name in it is no UTF-8",
                              path);
    DtStatus status = dt_file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* ---- config.json ---- */

static const char *const dtypes[DT_PLAN_DTYPES] = {
    [DT_PLAN_F32] = "float32", [DT_PLAN_BF16] = "bfloat16", [DT_PLAN_F16] = "float16"};

/* The dtype that most elements of parameters have, as config.json calls it. */
static const char *main_dtype(const DtExport *export)
{
    double bytes[DT_PLAN_DTYPES] = {0};
    uint32_t most = DT_PLAN_F32;
    for (uint32_t i = 0; i < export->n; i++) {
        const DtTensor *tensor = &export->tensors[i];
        if (export->from[i].record && tensor->dtype < DT_PLAN_DTYPES && dtypes[tensor->dtype])
            bytes[tensor->dtype] += (double)tensor->bytes / (double)dt_kinds_size(tensor->dtype);
    }
    for (uint32_t d = 0; d < DT_PLAN_DTYPES; d++)
        most = bytes[d] > bytes[most] ? d : most;
    return dtypes[most];
}

static bool is_dtype(const json_t *value)
{
    for (uint32_t d = 0; json_is_string(value) && d < DT_PLAN_DTYPES; d++)
        if (dtypes[d] && strcmp(json_string_value(value), dtypes[d]) == 0)
            return true;
    return false;
}

/* Sets each member `torch_dtype` and `dtype`, also of parts of the model. False: there is none. */
static bool set_dtype(json_t *object, const char *dtype)
{
    const char *key;
    json_t *value;
    bool found = false;
    json_object_foreach(object, key, value)
    {
        const bool names = strcmp(key, "torch_dtype") == 0 || strcmp(key, "dtype") == 0;
        if (json_is_object(value))
            set_dtype(value, dtype);
        else if (names && is_dtype(value))
            found = json_string_set(value, dtype) == 0;
    }
    return found;
}

/* The member of an object, or the one of a list with that number; NULL: there is none. */
static json_t *find_member(const json_t *in, const char *key)
{
    return json_is_object(in) ? json_object_get(in, key)
                              : json_array_get(in, strtoul(key, NULL, 10));
}

/* Sets this member. Earlier members of a list are null until a line sets them. */
static void put_member(json_t *into, const char *key, json_t *value)
{
    const size_t number = strtoul(key, NULL, 10);
    if (json_is_object(into))
        json_object_set(into, key, value);
    else if (number < MAX_LIST) {
        while (json_array_size(into) <= number)
            json_array_append_new(into, json_null());
        json_array_set(into, number, value);
    }
}

/* Sets member `a`; for the key "a.b" member `b` of member `a`, which is a list if b is a number. */
static void set_member(DtArena *memory, json_t *into, const char *key, json_t *value)
{
    for (const char *dot; into && (dot = strchr(key, '.')) != NULL; key = dot + 1) {
        const char *first = dt_arena_strndup(memory, key, (size_t)(dot - key));
        const bool is_list = dot[1] >= '0' && dot[1] <= '9';
        const json_t *inner = find_member(into, first);
        if (is_list ? !json_is_array(inner) : !json_is_object(inner)) {
            json_t *made = is_list ? json_array() : json_object();
            put_member(into, first, made);
            json_decref(made);
        }
        into = find_member(into, first);
    }
    if (into)
        put_member(into, key, value);
}

/* What the names block says: of several keys or values the first. */
static json_t *config_of_names(DtArena *memory, const DtPlan *plan, const DtPlanNames *names)
{
    json_t *config = json_object();
    for (uint32_t r = 0; r < names->n_rules; r++) {
        const DtPlanRule *rule = &plan->rules[names->first_rule + r];
        const char *keys = dt_plan_str(plan, rule->key), *comma = strstr(keys, ", ");
        if (rule->kind != DT_RULE_CONFIG)
            continue;
        json_t *values = json_loads(dt_plan_str(plan, rule->value), 0, NULL);
        json_t *value = json_array_get(values, 0);
        const char *key =
            dt_arena_strndup(memory, keys, comma ? (size_t)(comma - keys) : strlen(keys));
        /* A comparison takes a list of one value for the value; transformers wants the list. */
        json_t *list = strcmp(key, "architectures") == 0 && json_is_string(value)
                           ? json_pack("[O]", value)
                           : NULL;
        if (value) /* also null, which is not the default of every reader */
            set_member(memory, config, key, list ? list : value);
        json_decref(list);
        json_decref(values);
    }
    return config;
}

static DtStatus write_config(DtArena *memory, const DtPlan *plan, const DtExport *export,
                             const char *folder)
{
    const json_t *theirs = export->like.foreign.config;
    const char *path = dt_arena_printf(memory, "%s/config.json", folder);
    json_t *config = theirs ? json_deep_copy(theirs) : config_of_names(memory, plan, export->names);
    if (!set_dtype(config, main_dtype(export)))
        json_object_set_new(config, "torch_dtype", json_string(main_dtype(export)));
    DtStatus status = theirs && json_equal(theirs, config)
                          ? copy_file(beside(memory, export, "config.json"), path)
                          : write_json(path, config);
    json_decref(config);
    return status;
}

/* ---- adapter_config.json ---- */

#define PREFIX "base_model.model."
#define FIRST  ".lora_A.weight"

/* The module whose first matrix has that name, and the length of the module's name; NULL: it is no
 * such name. */
static const char *module_of(const char *name, size_t *ret_len)
{
    const size_t len = strlen(name), around = strlen(PREFIX) + strlen(FIRST);
    *ret_len = len > around ? len - around : 0;
    return len > around && strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
                   strcmp(name + len - strlen(FIRST), FIRST) == 0
               ? name + strlen(PREFIX)
               : NULL;
}

/* Whether the adapters have the weight of that name, which ends with ".weight". */
static bool is_adapted(const DtPlan *plan, const DtPlanNames *adapters, const char *name)
{
    size_t len;
    for (uint32_t t = 0; t < adapters->n_tensors; t++) {
        const DtPlanFileTensor *tensor = &plan->tensors[adapters->first_tensor + t];
        const char *module = module_of(dt_plan_str(plan, tensor->pattern), &len);
        if (module && len == strlen(name) - strlen(".weight") && memcmp(module, name, len) == 0)
            return true;
    }
    return false;
}

/* Whether all weights `..LAST.weight` of the model are adapted: then peft needs no longer names. */
static bool are_all_adapted(const DtPlan *plan, const DtExport *export, const char *last)
{
    char ending[256];
    const int n = snprintf(ending, sizeof ending, "%s.weight", last);
    for (uint32_t t = 0; t < export->base->n_tensors; t++) {
        const DtPlanFileTensor *tensor = &plan->tensors[export->base->first_tensor + t];
        const char *name = dt_plan_str(plan, tensor->pattern);
        const size_t len = strlen(name);
        if ((size_t)n < sizeof ending && len >= (size_t)n && !strcmp(name + len - n, ending) &&
            !is_adapted(plan, export->names, name))
            return false;
    }
    return (size_t)n < sizeof ending;
}

static void add_once(json_t *list, const char *name, size_t len)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_string_length(json_array_get(list, i)) == len &&
            memcmp(json_string_value(json_array_get(list, i)), name, len) == 0)
            return;
    json_array_append_new(list, json_stringn(name, len));
}

/* The modules that are adapted: ends of their names where these name no others. */
static json_t *list_modules(DtArena *memory, const DtPlan *plan, const DtExport *export)
{
    json_t *list = json_array();
    for (uint32_t t = 0; t < export->names->n_tensors; t++) {
        const DtPlanFileTensor *tensor = &plan->tensors[export->names->first_tensor + t];
        size_t len;
        const char *module = module_of(dt_plan_str(plan, tensor->pattern), &len);
        if (module == NULL)
            continue;
        module = dt_arena_strndup(memory, module, len);
        const char *dot = strrchr(module, '.'), *last = dot ? dot : module;
        const bool all = strchr(last, '#') == NULL && are_all_adapted(plan, export, last);
        if (all)
            add_once(list, dot ? dot + 1 : module, strlen(dot ? dot + 1 : module));
        for (int64_t i = 0; !all && i < dt_importnames_count(tensor); i++) {
            const char *name = module_of(dt_importnames_name(memory, plan, tensor, i), &len);
            add_once(list, name, len);
        }
    }
    return list;
}

/* Whether config.json, or what the names block says of it, is of a model that continues text. */
static bool continues_text(const json_t *config)
{
    const json_t *list = json_object_get(config, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    return name && (strstr(name, "ForCausalLM") || strstr(name, "LMHeadModel"));
}

static DtStatus write_adapter_config(DtArena *memory, const DtPlan *plan, const DtExport *export,
                                     const char *folder)
{
    const bool has_folder = export->like.foreign.n_files > 0;
    char *base = has_folder ? realpath(export->like.foreign.folder, NULL) : NULL;
    json_t *config = config_of_names(memory, plan, export->names);
    json_t *model = export->like.foreign.config ? json_incref(export->like.foreign.config)
                                                : config_of_names(memory, plan, export->base);
    json_object_set_new(config, "base_model_name_or_path", base ? json_string(base) : json_null());
    json_object_set_new(config, "task_type",
                        continues_text(model) ? json_string("CAUSAL_LM") : json_null());
    json_object_set_new(config, "target_modules", list_modules(memory, plan, export));
    json_object_set_new(config, "inference_mode", json_true());
    json_object_set_new(config, "lora_dropout", json_real(0));
    json_object_set_new(config, "modules_to_save", json_null());
    DtStatus status = write_json(dt_arena_printf(memory, "%s/adapter_config.json", folder), config);
    json_decref(model);
    json_decref(config);
    free(base);
    return status;
}

/* ---- the index ---- */

static DtStatus write_index(DtArena *memory, const DtExport *export, const char *folder)
{
    json_t *map = json_object();
    for (uint32_t f = 0; f < export->n_files; f++)
        for (uint32_t i = export->files[f]; i < export->files[f + 1]; i++)
            json_object_set_new(map, export->tensors[i].name,
                                json_string(dt_exportlist_file(memory, export, f)));
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size",
                              (json_int_t) export->bytes, "weight_map", map);
    DtStatus status =
        write_json(dt_arena_printf(memory, "%s/model.safetensors.index.json", folder), index);
    json_decref(index);
    return status;
}

DtStatus dt_exportfiles_write(DtArena *memory, const DtPlan *plan, const DtExport *export,
                              const char *folder)
{
    if (export->names->adapters)
        return write_adapter_config(memory, plan, export, folder);
    DtStatus status = write_config(memory, plan, export, folder);
    if (dt_status_ok(&status) && export->like.foreign.n_files)
        status = copy_files(memory, export, folder);
    return dt_status_ok(&status) && export->n_files > 1 ? write_index(memory, export, folder)
                                                        : status;
}
