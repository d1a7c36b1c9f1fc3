/* SPDX-License-Identifier: Apache-2.0 */
/* Reads config.json of a model of Hugging Face, and compares its members with what a program
 * says. */
#include "base/modelconfig.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_JSON = 64 << 20,
    MAX_BRACKETS = 1 << 16,
    MAX_KEY = 128,
    MAX_SHOWN = 60 /* bytes of a folder that fit twice into the message of a DtStatus */
};

/* Rewrites integers of more than 63 bits as reals of the same length, `1000..656` as `1000..6e2`;
 * the result differs from the integer by less than its last digits in a double. */
static void shorten_integers(char *text, size_t len)
{
    static const char most[] = "9223372036854775807";
    const size_t digits = sizeof most - 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        if (in_string || i >= len || text[i] < '0' || text[i] > '9')
            continue;
        const size_t n = strspn(text + i, "0123456789"), all = strspn(text + i, "0123456789.eE+-");
        if (n == all && (n > digits || (n == digits && memcmp(text + i, most, digits) > 0)))
            memcpy(text + i + n - 2, "e2", 2);
        i += all - 1;
    }
}

json_t *dt_modelconfig_parse(char *text, size_t len, json_error_t *ret_error)
{
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, ret_error);
    if (json || json_error_code(ret_error) != json_error_numeric_overflow)
        return json;
    shorten_integers(text, len);
    return json_loadb(text, len, JSON_REJECT_DUPLICATES, ret_error);
}

DtStatus dt_modelconfig_read(DtArena *arena, const char *path, json_t **ret_json)
{
    json_error_t error;
    char *text;
    size_t len;
    uint32_t brackets = 0;
    *ret_json = NULL;
    DtStatus status = dt_file_read(arena, path, MAX_JSON, &text, &len);
    if (!dt_status_ok(&status))
        return status;
    for (size_t i = 0; i < len && brackets <= MAX_BRACKETS; i++)
        brackets += text[i] == '{' || text[i] == '[';
    error.line = 0;
    if (brackets <= MAX_BRACKETS) /* more would take memory without bounds */
        *ret_json = dt_modelconfig_parse(text, len, &error);
    if (json_is_object(*ret_json))
        return DT_OK;
    json_decref(*ret_json);
    *ret_json = NULL;
    return dt_status_fail(DT_EXIT_IO, "%.300s is damaged: it is no JSON object (line %d)", path,
                          error.line > 0 ? error.line : 1);
}

/* The member of an object or the element of a list: "a.b" is member `b` of member `a`, "a.2" the
 * third element. */
static const json_t *member(const json_t *object, const char *key)
{
    if (json_is_array(object)) {
        const size_t n = strspn(key, "0123456789");
        if (n == 0 || n > 9 || (key[n] && key[n] != '.'))
            return NULL;
        const json_t *element = json_array_get(object, strtoul(key, NULL, 10));
        return key[n] ? member(element, key + n + 1) : element;
    }
    const json_t *whole = json_object_get(object, key);
    const char *dot = strchr(key, '.');
    char first[MAX_KEY];
    if (whole || dot == NULL || (size_t)(dot - key) >= sizeof first)
        return whole;
    memcpy(first, key, (size_t)(dot - key));
    first[dot - key] = '\0';
    return member(json_object_get(object, first), dot + 1);
}

const json_t *dt_modelconfig_find(DtArena *arena, const json_t *config, const char *keys)
{
    for (const char *at = keys; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL) {
        const size_t n = strstr(at, ", ") ? (size_t)(strstr(at, ", ") - at) : strlen(at);
        const json_t *found = member(config, dt_arena_strndup(arena, at, n));
        if (found && !json_is_null(found))
            return found;
    }
    return NULL;
}

int64_t dt_modelconfig_numbered(const json_t *object)
{
    const int64_t n = (int64_t)json_object_size(object);
    for (int64_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "%lld", (long long)i);
        if (!json_object_get(object, key))
            return -1;
    }
    return n > 0 ? n : -1;
}

static bool is_value(const json_t *found, const json_t *wanted)
{
    if (json_is_null(wanted))
        return found == NULL || json_is_null(found);
    if (json_is_array(found) && json_array_size(found) == 1)
        found = json_array_get(found, 0);
    if (json_is_object(found) && json_is_number(wanted))
        return json_number_value(wanted) == (double)dt_modelconfig_numbered(found);
    if (json_is_number(found) && json_is_number(wanted))
        return fabs(json_number_value(found) - json_number_value(wanted)) <=
               1.2e-7 * fabs(json_number_value(wanted));
    return found != NULL && json_equal(found, wanted);
}

const char *dt_modelconfig_text(DtArena *arena, const json_t *value)
{
    char *text =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    const char *copy = dt_arena_printf(arena, "%.80s", text ? text : "not there");
    free(text);
    return copy;
}

const char *dt_modelconfig_differs(DtArena *arena, const json_t *config, const char *keys,
                                   const char *values)
{
    json_t *allowed = json_loads(values, 0, NULL);
    const json_t *found = dt_modelconfig_find(arena, config, keys);
    bool good = false;
    const char *wanted = "";
    for (size_t i = 0; i < json_array_size(allowed); i++) {
        const json_t *value = json_array_get(allowed, i);
        good |= is_value(found, value);
        wanted = dt_arena_printf(arena, "%s%s%s", wanted, i ? " or " : "",
                                 json_is_null(value) ? "none" : dt_modelconfig_text(arena, value));
    }
    json_decref(allowed);
    return good ? NULL
                : dt_arena_printf(arena, "`%.100s` is %s, and the program says %s", keys,
                                  dt_modelconfig_text(arena, found), wanted);
}

const char *dt_modelconfig_dequantise(DtArena *arena, const char *folder, const char *method)
{
    const char *how = "";
    if (strcmp(method, "mxfp4") == 0)
        how = ", quantization_config=t.Mxfp4Config(dequantize=True)";
    else if (strcmp(method, "fp8") == 0)
        how = ", quantization_config=t.FineGrainedFP8Config(dequantize=True)";
    DtText text = {0};
    dt_text_printf(&text,
                   "python3 -c 'import sys, transformers as t; t.AutoModelForCausalLM."
                   "from_pretrained(sys.argv[1], dtype=\"bfloat16\"%s)%s.save_pretrained("
                   "sys.argv[2])' ",
                   how, *how ? "" : ".dequantize()");
    const char *shown = strlen(folder) <= MAX_SHOWN ? folder : "FOLDER";
    dt_text_add_word(&text, shown);
    dt_text_add(&text, " ");
    dt_text_add_word(&text, dt_arena_printf(arena, "%s-bf16", shown));
    const char *command = dt_arena_strndup(arena, text.at, text.len);
    dt_text_free(&text);
    return command;
}

const char *dt_modelconfig_quantised(DtArena *arena, const json_t *config, const char *folder)
{
    const json_t *said = json_object_get(config, "quantization_config");
    const char *method = json_string_value(json_object_get(said, "quant_method"));
    if (!json_is_object(said))
        return NULL;
    return dt_arena_printf(arena,
                           "the weights in %.60s are quantised (%.30s); convert them: %s",
                           folder, method ? method : "?",
                           dt_modelconfig_dequantise(arena, folder, method ? method : ""));
}
