/* SPDX-License-Identifier: Apache-2.0 */
/* Where a text ends: at one of the model's end tokens, before a stop text, or when it has as many
 * tokens as it may. End tokens are those that
 *
 *   - the tokenizer puts after a document, `end` of the data among them
 *   - end an answer in the template of the data
 *   - the model was published with: eos_token_id of generation_config.json, or else of config.json,
 *     and eos_token of tokenizer_config.json, in the folder of --import and next to the tokenizer
 *
 * Stop texts are found in the bytes of the text, so they may span tokens. */
#include "runtime/data_chat.h"
#include "runtime/generate.h"

#include "base/modelconfig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- end tokens ---- */

static void add_end(DtIds *ends, uint32_t id)
{
    for (size_t i = 0; i < ends->n; i++)
        if (ends->at[i] == id)
            return;
    dt_ids_room(ends, 1);
    ends->at[ends->n++] = id;
}

/* Adds the token of that text, if it is one. */
static DtStatus add_text(const DtWords *words, const char *text, DtIds *ends)
{
    DtIds ids = {0};
    DtMemoryText memory = {(const uint8_t *)text, strlen(text), "the end token"};
    const DtTextSource source = dt_encode_memory(&memory, 1);
    const DtTokenSink sink = dt_encode_ids(&ids);
    DtStatus status =
        words->tokenizer && *text ? dt_encode_bare(words->tokenizer, &source, 1, &sink) : DT_OK;
    if (dt_status_ok(&status) && ids.n == 1)
        add_end(ends, ids.at[0]);
    free(ids.at);
    return status;
}

/* Adds a token number, or a list of them. */
static DtStatus add_numbers(const char *path, const json_t *of, DtIds *ends)
{
    const size_t n = json_is_array(of) ? json_array_size(of) : of && !json_is_null(of);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(of) ? json_array_get(of, i) : of;
        const json_int_t id = json_integer_value(one);
        if (!json_is_integer(one) || id < 0 || id >= UINT32_MAX)
            return dt_status_fail(DT_EXIT_IO, "%.300s: eos_token_id is no number of a token", path);
        add_end(ends, (uint32_t)id);
    }
    return DT_OK;
}

/* Reads a file of JSON in the folder, if it is there. */
static DtStatus read_config(DtArena *memory, const char *folder, const char *name,
                            const char **ret_path, json_t **ret_json)
{
    *ret_json = NULL;
    *ret_path = dt_arena_printf(memory, "%s/%s", folder, name);
    return access(*ret_path, F_OK) == 0 ? dt_modelconfig_read(memory, *ret_path, ret_json) : DT_OK;
}

/* Adds the end tokens that files in the folder name. */
static DtStatus add_folder(DtArena *memory, const DtWords *words, const char *folder, DtIds *ends)
{
    static const char *const names[] = {"generation_config.json", "config.json"};
    const char *path;
    json_t *config;
    const json_t *eos = NULL;
    DtStatus status = DT_OK;
    for (size_t i = 0; i < DT_COUNT(names) && !eos && dt_status_ok(&status); i++) {
        status = read_config(memory, folder, names[i], &path, &config);
        if (config)
            eos = dt_modelconfig_find(memory, config, "eos_token_id, text_config.eos_token_id");
        if (dt_status_ok(&status))
            status = add_numbers(path, eos, ends);
        json_decref(config);
    }
    if (!dt_status_ok(&status))
        return status;
    status = read_config(memory, folder, "tokenizer_config.json", &path, &config);
    const json_t *token = config ? dt_modelconfig_find(memory, config, "eos_token") : NULL;
    if (json_is_object(token))
        token = json_object_get(token, "content");
    if (dt_status_ok(&status) && json_is_string(token))
        status = add_text(words, json_string_value(token), ends);
    json_decref(config);
    return status;
}

/* The path of a folder, or the folder of a file. */
static const char *folder_of(DtArena *memory, const char *path)
{
    struct stat about;
    const char *slash = strrchr(path, '/');
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return path;
    return slash ? dt_arena_strndup(memory, path, (size_t)(slash - path)) : ".";
}

DtStatus dt_generatestop_ends(DtArena *memory, const DtRunOptions *options, const DtNext *next,
                              const DtWords *words, DtIds *ret_ends)
{
    const DtPlanReader *reader = &next->plan->readers[next->reader];
    const DtChatTemplate *template =
        dt_datachattemplate_find(dt_plan_str(next->plan, reader->template));
    uint32_t n_back = 0;
    const uint32_t *back = words->tokenizer ? dt_tokenizer_back(words->tokenizer, &n_back) : NULL;
    for (uint32_t i = 0; i < n_back; i++)
        add_end(ret_ends, back[i]);
    DtStatus status =
        template ? add_text(words, dt_datachattemplate_end(template), ret_ends) : DT_OK;
    if (dt_status_ok(&status) && options->import)
        status = add_folder(memory, words, folder_of(memory, options->import), ret_ends);
    if (dt_status_ok(&status) && words->tokenizer)
        status = add_folder(memory, words, folder_of(memory, words->path), ret_ends);
    return status;
}

/* ---- stop texts ---- */

static const char *find(const char *at, size_t len, const char *text, size_t n)
{
    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(at + i, text, n) == 0)
            return at + i;
    return NULL;
}

/* Cuts the text before the first stop text that ends in its last `added` bytes. */
static void look_for_texts(DtCompletion *c, size_t added)
{
    size_t first = c->bytes.len;
    for (uint32_t i = 0; i < c->n_stops; i++) {
        const size_t n = strlen(c->stops[i]), old = c->bytes.len - added;
        const size_t begin = old >= n ? old - n + 1 : 0;
        const char *at = find(c->bytes.at + begin, c->bytes.len - begin, c->stops[i], n);
        if (at && (size_t)(at - c->bytes.at) < first) {
            first = (size_t)(at - c->bytes.at);
            c->stop = DT_STOP_TEXT;
            c->stopped_by = c->stops[i];
        }
    }
    c->bytes.len = first;
}

static bool is_end(const DtIds *ends, uint32_t token)
{
    for (size_t i = 0; i < ends->n; i++)
        if (ends->at[i] == token)
            return true;
    return false;
}

void dt_generatestop_look(const DtWords *words, const DtIds *ends, DtCompletion *c)
{
    const uint32_t token = c->ids.at[c->ids.n - 1];
    const size_t before = c->bytes.len;
    const bool ended = is_end(ends, token);
    const bool is_last = ended || (int64_t)(c->ids.n - c->n_prompt) >= c->sampling.tokens;
    if (!c->decoding)
        c->decoding = dt_generatetext_begin(words, c->ids.at, c->n_prompt);
    if (!ended)
        dt_generatetext_add(words, c->decoding, token, &c->bytes);
    if (is_last && c->decoding)
        dt_decode_end(c->decoding, &c->bytes);
    look_for_texts(c, c->bytes.len - before);
    if (!c->stop && is_last)
        c->stop = ended ? DT_STOP_END : DT_STOP_TOKENS;
}

DtStatus dt_generatestop_may(const DtWords *words, const DtCompletion *c)
{
    return c->n_stops == 0 || words->tokenizer || words->bytes
               ? DT_OK
               : dt_status_fail(DT_EXIT_USAGE,
                                "a stop text needs a model of text, and this one was "
                                "trained on token numbers");
}

size_t dt_generatestop_safe(const DtCompletion *c)
{
    size_t held = 0;
    for (uint32_t i = 0; i < c->n_stops && !c->stop; i++) {
        const size_t n = strlen(c->stops[i]);
        for (size_t part = n < c->bytes.len + 1 ? n - 1 : c->bytes.len; part > held; part--)
            if (memcmp(c->bytes.at + c->bytes.len - part, c->stops[i], part) == 0)
                held = part;
    }
    return c->bytes.len - held;
}
