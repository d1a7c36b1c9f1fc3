/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json: what a checkpoint says about itself. Steps, samples, seed, plan and data; for each
 * file its size, the digests of its chunks, one after the other, and the digest of those. The last
 * entry is the digest of the rest, as sorted compact JSON. Digests are BLAKE2b of 256 bits, in
 * hexadecimal. Format 1 had XXH3-64, of each tensor and of the headers of its two files. */
#include "runtime/checkpoint.h"

#include "base/hash.h"
#include "base/jsonshape.h"
#include "runtime/forms.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

enum {
    FORMAT = 2,
    MAX_MANIFEST = 1 << 30,
    MAX_FILES = 1 << 20,
    MAX_VALUES = 8 * MAX_FILES, /* of JSON: a file has four */
    MAX_DEPTH = 6               /* the extents of a tensor, in format 1 */
};

const char *const dt_manifest_files[DT_SAVED_FILES] = {"model.safetensors",
                                                       "optimizer.safetensors"};

static json_t *hex(uint64_t value)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

static bool read_hex(const json_t *value, uint64_t *ret_value)
{
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *ret_value = strtoull(text, NULL, 16);
    return true;
}

/* Writes the digest of the manifest without the digest itself. False: it has no text. */
static bool digest_of(json_t *root, int64_t format, char ret_text[DT_DIGEST_TEXT])
{
    uint8_t digest[DT_DIGEST_BYTES];
    char *text = json_dumps(root, JSON_SORT_KEYS | JSON_COMPACT);
    if (text && format == 1)
        snprintf(ret_text, DT_DIGEST_TEXT, "%016" PRIx64, dt_hash_text(text, 0));
    else if (text) {
        dt_digest_of(text, strlen(text), digest);
        dt_digest_text(digest, ret_text);
    }
    free(text);
    return text != NULL;
}

void dt_manifest_root(const DtManifestFile *file, uint8_t ret_root[DT_DIGEST_BYTES])
{
    dt_digest_of(file->chunks, (size_t)file->n_chunks * DT_DIGEST_BYTES, ret_root);
}

/* ---- writing ---- */

static json_t *updates_json(const DtManifest *m)
{
    if (m->n_updates == 1 && (!m->updates[0].loss || strcmp(m->updates[0].loss, "loss") == 0))
        return json_integer(m->updates[0].n);
    json_t *object = json_object();
    for (uint32_t i = 0; i < m->n_updates; i++)
        json_object_set_new(object, m->updates[i].loss, json_integer(m->updates[i].n));
    return object;
}

static void digits_of(const uint8_t *bytes, size_t n, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * n] = '\0';
}

static json_t *file_json(const DtManifestFile *file)
{
    char root[DT_DIGEST_TEXT];
    uint8_t digest[DT_DIGEST_BYTES];
    char *chunks = malloc((size_t)file->n_chunks * 2 * DT_DIGEST_BYTES + 1);
    if (chunks == NULL)
        return NULL;
    dt_manifest_root(file, digest);
    dt_digest_text(digest, root);
    digits_of((const uint8_t *)file->chunks, (size_t)file->n_chunks * DT_DIGEST_BYTES, chunks);
    json_t *object = json_pack("{s:I, s:s, s:s}", "bytes", (json_int_t)file->bytes, "digest", root,
                               "chunks", chunks);
    free(chunks);
    return object;
}

/* Adds the algorithms under their keys, both written as digits. */
static json_t *products_json(const DtAlgorithms *products)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < products->n; i++) {
        const DtChoice *choice = &products->at[i];
        char key[2 * sizeof choice->key + 1], algorithm[2 * sizeof choice->algorithm + 1];
        digits_of(choice->key, sizeof choice->key, key);
        digits_of((const uint8_t *)&choice->algorithm, sizeof choice->algorithm, algorithm);
        json_object_set_new(object, key, json_string(algorithm));
    }
    return object;
}

/* Returns the list of the products whose epilogues kernels computed; NULL: there are none. */
static json_t *forms_json(const DtAlgorithms *products)
{
    json_t *list = NULL;
    for (uint32_t i = 0; i < products->n; i++) {
        char key[2 * sizeof products->at[i].key + 1];
        if (!products->at[i].second)
            continue;
        digits_of(products->at[i].key, sizeof products->at[i].key, key);
        list = list ? list : json_array();
        json_array_append_new(list, json_string(key));
    }
    return list;
}

static json_t *settings_json(const DtManifest *m)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < m->n_settings; i++)
        json_object_set_new(object, m->settings[i].name, json_real(m->settings[i].value));
    return object;
}

static json_t *data_json(const DtManifest *m)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < m->n_data; i++) {
        const DtDataFact *fact = &m->data[i];
        json_object_set_new(object, fact->input,
                            json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "samples",
                                      (json_int_t)fact->samples, "values", (json_int_t)fact->values,
                                      "first", (json_int_t)fact->first, "bytes",
                                      (json_int_t)fact->bytes, "share", (json_int_t)fact->share,
                                      "digest", hex(fact->digest)));
    }
    return object;
}

static json_t *best_json(const DtBest *best)
{
    json_t *object = json_pack("{s:I}", "since", (json_int_t)best->since);
    if (object && best->any) {
        json_object_set_new(object, "steps", json_integer((json_int_t)best->steps));
        json_object_set_new(object, "loss", json_real(best->loss));
    }
    return object;
}

static json_t *manifest_json(const DtManifest *m)
{
    json_t *files = json_object();
    for (uint32_t f = 0; f < m->n_files; f++)
        json_object_set_new(files, m->files[f].name, file_json(&m->files[f]));
    json_t *root =
        json_pack("{s:i, s:I, s:o, s:I, s:I, s:I, s:o, s:s, s:s, s:o, s:i, s:o}", "format", FORMAT,
                  "steps", (json_int_t)m->steps, "updates", updates_json(m), "serial",
                  (json_int_t)m->serial, "samples", (json_int_t)m->samples, "batch",
                  (json_int_t)m->batch, "seed", hex(m->seed), "model", m->model, "compiler",
                  m->compiler, "plan", hex(m->plan), "chunk", DT_CHUNK_BYTES, "files", files);
    if (root && m->draws != 1) /* older manifests do not contain it: there was only one rule then */
        json_object_set_new(root, "draws", json_integer((json_int_t)m->draws));
    if (root && m->products.n)
        json_object_set_new(root, "products", products_json(&m->products));
    json_t *forms = forms_json(&m->products);
    if (root && forms)
        json_object_set_new(root, "forms", forms);
    if (root && m->epilogues != DT_EPILOGUES_TIMED)
        json_object_set_new(root, "epilogues", json_string(dt_forms_names[m->epilogues]));
    if (root && m->attention)
        json_object_set_new(root, "attention", json_string(m->attention));
    if (root && m->imported) /* a path that is no UTF-8 is left out */
        json_object_set_new(root, "imported", json_string(m->imported));
    if (root && m->n_settings)
        json_object_set_new(root, "settings", settings_json(m));
    if (root && m->n_data)
        json_object_set_new(root, "data", data_json(m));
    if (root && (m->best.any || m->best.since > 0))
        json_object_set_new(root, "best", best_json(&m->best));
    if (root && m->scale.is_dynamic)
        json_object_set_new(root, "loss_scale",
                            json_pack("{s:I, s:I, s:I}", "factor", (json_int_t)m->scale.factor,
                                      "good", (json_int_t)m->scale.good, "skipped",
                                      (json_int_t)m->scale.skipped));
    return root;
}

DtStatus dt_manifest_write(const char *path, const DtManifest *manifest)
{
    char digest[DT_DIGEST_TEXT];
    json_t *root = manifest_json(manifest);
    char *text = NULL;
    if (root && digest_of(root, FORMAT, digest) &&
        json_object_set_new(root, "digest", json_string(digest)) == 0)
        text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    if (text == NULL)
        return dt_status_fail(DT_EXIT_FAILED, "cannot write %.300s: a name in it is no UTF-8",
                              path);
    DtStatus status = dt_file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* ---- reading ---- */

static bool read_count(const json_t *root, const char *key, int64_t *ret_count)
{
    const json_t *value = json_object_get(root, key);
    *ret_count = json_integer_value(value);
    return json_is_integer(value) && *ret_count >= 0 &&
           *ret_count < INT64_MAX; /* one more is a number too */
}

static bool read_text(DtArena *arena, const json_t *root, const char *key, const char **ret_text)
{
    const char *text = json_string_value(json_object_get(root, key));
    if (text == NULL)
        return false;
    *ret_text = dt_arena_strndup(arena, text, strlen(text));
    return true;
}

static bool read_tensor(DtArena *arena, const json_t *entry, DtTensor *tensor)
{
    const char *dtype;
    const json_t *shape = json_object_get(entry, "shape");
    if (!read_text(arena, entry, "name", &tensor->name) ||
        !read_text(arena, entry, "dtype", &dtype) ||
        !read_hex(json_object_get(entry, "digest"), &tensor->digest) ||
        json_array_size(shape) > DT_PLAN_MAX_RANK)
        return false;
    for (tensor->dtype = 0; tensor->dtype < DT_PLAN_DTYPES; tensor->dtype++)
        if (strcmp(dtype, dt_safetensors_dtype(tensor->dtype)) == 0)
            break;
    tensor->n_axes = (uint32_t)json_array_size(shape);
    for (uint32_t a = 0; a < tensor->n_axes; a++)
        tensor->extents[a] = json_integer_value(json_array_get(shape, a));
    tensor->bytes = dt_safetensors_bytes(tensor->dtype, tensor->extents, tensor->n_axes);
    return tensor->bytes >= 0;
}

static int by_name(const void *a, const void *b)
{
    const DtTensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* The value of a digit of base 16; -1: it is none. */
static int value_of(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : -1;
}

static bool read_digits(const char *text, size_t n, uint8_t *ret_bytes)
{
    if (text == NULL || strlen(text) != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const int high = value_of(text[2 * i]), low = value_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret_bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* A file of format 1. */
static bool read_old_file(DtArena *arena, const json_t *entry, DtManifestFile *file)
{
    const json_t *list = json_object_get(entry, "tensors");
    if (!json_is_array(list) || !read_count(entry, "bytes", &file->bytes) ||
        !read_hex(json_object_get(entry, "header"), &file->header))
        return false;
    file->n = (uint32_t)json_array_size(list);
    file->tensors = DT_NEW_ARRAY(arena, DtTensor, file->n + 1);
    for (uint32_t i = 0; i < file->n; i++)
        if (!read_tensor(arena, json_array_get(list, i), &file->tensors[i]))
            return false;
    qsort(file->tensors, file->n, sizeof *file->tensors, by_name);
    return true;
}

/* Reads the kind of a file off its name, which is one that shares.c gives. */
static bool read_kind(const char *name, DtSavedFile *ret_kind)
{
    char again[64];
    unsigned number, n;
    for (int kind = 0; kind < DT_SAVED_FILES; kind++) {
        const char *usual = dt_manifest_files[kind];
        const int stem = (int)(strchr(usual, '.') - usual);
        *ret_kind = kind;
        if (strcmp(name, usual) == 0)
            return true;
        if (strncmp(name, usual, (size_t)stem) != 0 ||
            sscanf(name + stem, "-%u-of-%u.", &number, &n) != 2 || number < 1 || number > n)
            continue;
        snprintf(again, sizeof again, "%.*s-%05u-of-%05u%s", stem, usual, number, n, usual + stem);
        if (strcmp(name, again) == 0)
            return true;
    }
    return false;
}

static bool read_file(DtArena *arena, const char *name, const json_t *entry, DtManifestFile *file)
{
    const char *chunks = json_string_value(json_object_get(entry, "chunks")),
               *said = json_string_value(json_object_get(entry, "digest"));
    uint8_t root[DT_DIGEST_BYTES];
    char text[DT_DIGEST_TEXT];
    file->name = dt_arena_strndup(arena, name, strlen(name));
    if (!read_kind(name, &file->kind) || !read_count(entry, "bytes", &file->bytes) || !chunks ||
        !said)
        return false;
    file->n_chunks = dt_manifest_chunks(file->bytes);
    if ((uint64_t)strlen(chunks) != (uint64_t)file->n_chunks * 2 * DT_DIGEST_BYTES)
        return false;
    const size_t n = (size_t)file->n_chunks * DT_DIGEST_BYTES;
    file->chunks = dt_arena_alloc(arena, n + 1);
    if (!read_digits(chunks, n, (uint8_t *)file->chunks))
        return false;
    dt_manifest_root(file, root);
    dt_digest_text(root, text);
    return strcmp(text, said) == 0;
}

/* Reads "files": two of format 1, or any number, those of a kind one after the other. */
static bool read_files(DtArena *arena, json_t *root, DtManifest *m)
{
    json_t *files = json_object_get(root, "files"), *entry;
    const char *name;
    int64_t chunk;
    bool has[DT_SAVED_FILES] = {false};
    if (!json_is_object(files) || json_object_size(files) > MAX_FILES)
        return false;
    m->files = DT_NEW_ARRAY(arena, DtManifestFile, json_object_size(files) + DT_SAVED_FILES);
    for (int f = 0; f < DT_SAVED_FILES && m->format == 1; f++) {
        DtManifestFile *file = &m->files[m->n_files++];
        *file = (DtManifestFile){.name = dt_manifest_files[f], .kind = f};
        if (!read_old_file(arena, json_object_get(files, file->name), file))
            return false;
    }
    if (m->format == 1)
        return true;
    if (!read_count(root, "chunk", &chunk) || chunk != DT_CHUNK_BYTES)
        return false;
    json_object_foreach(files, name, entry)
    {
        DtManifestFile *file = &m->files[m->n_files++];
        if (!read_file(arena, name, entry, file))
            return false;
        has[file->kind] = true;
    }
    return has[DT_SAVED_MODEL] && has[DT_SAVED_OPTIMIZER];
}

/* Reads the number of updates: one, or one for each loss. */
static bool read_updates(DtArena *arena, json_t *root, DtManifest *m)
{
    json_t *updates = json_object_get(root, "updates"), *value;
    const char *loss;
    if (!json_is_object(updates)) {
        m->n_updates = 1;
        return read_count(root, "updates", &m->updates[0].n);
    }
    json_object_foreach(updates, loss, value) {
        if (m->n_updates == DT_PLAN_MAX_OBJECTIVES ||
            !read_count(updates, loss, &m->updates[m->n_updates].n))
            return false;
        m->updates[m->n_updates++].loss = dt_arena_printf(arena, "%s", loss);
    }
    return true;
}

/* Reads "loss_scale", which exists if the run had a scale that adapts. */
static bool read_scale(const json_t *root, DtScale *ret_scale)
{
    const json_t *scale = json_object_get(root, "loss_scale");
    int64_t factor;
    *ret_scale = (DtScale){.factor = 1, .is_dynamic = scale != NULL};
    if (scale == NULL)
        return true;
    if (!read_count(scale, "factor", &factor) || !read_count(scale, "good", &ret_scale->good) ||
        !read_count(scale, "skipped", &ret_scale->skipped))
        return false;
    ret_scale->factor = (double)factor;
    return dt_scale_is_valid(ret_scale);
}

/* Reads the evaluation with the lowest loss; nothing if the manifest has none. */
static bool read_best(const json_t *root, DtBest *ret_best)
{
    const json_t *best = json_object_get(root, "best"), *loss = json_object_get(best, "loss");
    *ret_best = (DtBest){.any = loss != NULL};
    if (best == NULL)
        return true;
    if (!read_count(best, "since", &ret_best->since))
        return false;
    if (loss == NULL)
        return true;
    ret_best->loss = json_number_value(loss);
    return json_is_number(loss) && isfinite(ret_best->loss) &&
           read_count(best, "steps", &ret_best->steps);
}

/* Reads the rule for random draws; 1 if the manifest has none. */
static bool read_draws(const json_t *root, int64_t *ret_draws)
{
    *ret_draws = 1;
    return !json_object_get(root, "draws") ||
           (read_count(root, "draws", ret_draws) && (*ret_draws <= 1 || *ret_draws == 4));
}

/* Reads "products", which exists if a library chose algorithms. Their contents are checked when
 * they are used. */
static bool read_products(DtArena *arena, json_t *root, DtAlgorithms *ret_products)
{
    json_t *object = json_object_get(root, "products"), *value;
    const char *key;
    if (object == NULL)
        return true;
    if (!json_is_object(object) || json_object_size(object) > DT_ALGORITHMS_MOST)
        return false;
    ret_products->at = DT_NEW_ARRAY(arena, DtChoice, json_object_size(object) + 1);
    json_object_foreach(object, key, value) {
        DtChoice *choice = &ret_products->at[ret_products->n++];
        if (!read_digits(key, sizeof choice->key, choice->key) ||
            !read_digits(json_string_value(value), sizeof choice->algorithm,
                         (uint8_t *)&choice->algorithm))
            return false;
    }
    return true;
}

/* Reads "forms", the products whose epilogues kernels computed. */
static bool read_forms(json_t *root, DtAlgorithms *products)
{
    json_t *list = json_object_get(root, "forms"), *value;
    uint8_t key[DT_DIGEST_BYTES];
    size_t at;
    if (list == NULL)
        return true;
    if (!json_is_array(list) || json_array_size(list) > DT_ALGORITHMS_MOST)
        return false;
    json_array_foreach(list, at, value) {
        uint32_t i = 0;
        if (!read_digits(json_string_value(value), sizeof key, key))
            return false;
        while (i < products->n && memcmp(products->at[i].key, key, sizeof key) != 0)
            i++;
        if (i == products->n)
            return false;
        products->at[i].second = 1;
    }
    return true;
}

/* Reads "epilogues", which exists if products with two forms ran on a device that cannot choose a
 * form for each; "attention", which exists if a device had a choice for it; and "imported", which
 * exists if the parameters began as those of another program. */
static bool read_choices(DtArena *arena, const json_t *root, DtManifest *m)
{
    const json_t *epilogues = json_object_get(root, "epilogues");
    const char *name = json_string_value(epilogues);
    m->epilogues = !name || strcmp(name, "timed") == 0 ? DT_EPILOGUES_TIMED : dt_forms_wish(name);
    return (!epilogues || m->epilogues != DT_EPILOGUES_TIMED) &&
           (!json_object_get(root, "attention") ||
            read_text(arena, root, "attention", &m->attention)) &&
           (!json_object_get(root, "imported") ||
            read_text(arena, root, "imported", &m->imported));
}

/* Reads "settings", which exists if --set gave some. */
static bool read_settings(DtArena *arena, json_t *root, DtManifest *m)
{
    json_t *object = json_object_get(root, "settings"), *value;
    const char *name;
    if (object == NULL)
        return true;
    if (!json_is_object(object) || json_object_size(object) > DT_COUNT(m->settings))
        return false;
    json_object_foreach(object, name, value) {
        if (!json_is_real(value) || !isfinite(json_real_value(value)))
            return false;
        m->settings[m->n_settings++] =
            (DtFormulaSetting){dt_arena_printf(arena, "%s", name), json_real_value(value)};
    }
    return true;
}

/* Reads "data", which manifests of older versions do not contain. */
static bool read_data(DtArena *arena, json_t *root, DtManifest *m)
{
    json_t *object = json_object_get(root, "data"), *value;
    const char *input;
    if (object == NULL)
        return true;
    if (!json_is_object(object) || json_object_size(object) > UINT32_MAX / 2)
        return false;
    DtDataFact *facts = DT_NEW_ARRAY(arena, DtDataFact, json_object_size(object) + 1);
    m->data = facts;
    json_object_foreach(object, input, value)
    {
        DtDataFact *fact = &facts[m->n_data++];
        fact->input = dt_arena_printf(arena, "%s", input);
        if (!read_count(value, "samples", &fact->samples) ||
            !read_count(value, "values", &fact->values) ||
            !read_count(value, "first", &fact->first) ||
            !read_count(value, "bytes", &fact->bytes) ||
            (json_object_get(value, "share") && !read_count(value, "share", &fact->share)) ||
            !read_hex(json_object_get(value, "digest"), &fact->digest))
            return false;
    }
    return true;
}

static bool read_root(DtArena *arena, json_t *root, DtManifest *m)
{
    char said[DT_DIGEST_TEXT] = "", digest[DT_DIGEST_TEXT];
    const char *text = json_string_value(json_object_get(root, "digest"));
    if (text == NULL || strlen(text) >= sizeof said)
        return false;
    strcpy(said, text);
    if (json_object_del(root, "digest") != 0 || !digest_of(root, m->format, digest) ||
        strcmp(digest, said) != 0)
        return false;
    bool good = read_count(root, "steps", &m->steps) && read_count(root, "serial", &m->serial) &&
                read_count(root, "samples", &m->samples) && read_count(root, "batch", &m->batch) &&
                read_updates(arena, root, m) && read_scale(root, &m->scale) &&
                read_best(root, &m->best) &&
                read_hex(json_object_get(root, "seed"), &m->seed) && read_draws(root, &m->draws) &&
                read_products(arena, root, &m->products) && read_forms(root, &m->products) &&
                read_choices(arena, root, m) && read_settings(arena, root, m) &&
                read_data(arena, root, m) &&
                read_hex(json_object_get(root, "plan"), &m->plan) &&
                read_text(arena, root, "model", &m->model) &&
                read_text(arena, root, "compiler", &m->compiler);
    return good && read_files(arena, root, m);
}

DtStatus dt_manifest_read(DtArena *arena, const char *path, DtManifest *ret_manifest)
{
    char *text;
    size_t len;
    json_error_t error;
    *ret_manifest = (DtManifest){0};
    DtStatus status = dt_file_read(arena, path, MAX_MANIFEST, &text, &len);
    if (!dt_status_ok(&status))
        return status;
    /* its digest is that of its values, so that it is compared only after they are parsed */
    const DtJsonShape shape = dt_jsonshape_count(text, len);
    if (shape.values > MAX_VALUES || shape.depth > MAX_DEPTH)
        return dt_status_fail(DT_EXIT_IO, "%.300s is damaged: it has more values than a manifest",
                              path);
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    int64_t format = 0;
    if (!json_is_object(root) || !read_count(root, "format", &format) || format == 0)
        status = dt_status_fail(DT_EXIT_IO, "%.300s is damaged: it is no manifest", path);
    else if (format > FORMAT)
        status = dt_status_fail(DT_EXIT_IO, "%.300s has format %lld; only 1 to %d can be read",
                                path, (long long)format, FORMAT);
    else if (ret_manifest->format = format, !read_root(arena, root, ret_manifest))
        status =
            dt_status_fail(DT_EXIT_IO, "%.300s is damaged: its digest or a field is wrong", path);
    json_decref(root);
    return status;
}
