/* SPDX-License-Identifier: Apache-2.0 */
/* Where data comes from: `next_token(bin("corpus.bin", u16))` becomes a DtReader: a sampler around
 * a source, or a source alone, which is read element for element. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <string.h>

bool dt_config_is_reader(const char *name)
{
    return dt_configargs_find(DT_CONFIG_SOURCE, name) != DT_SCHEMA_COUNT ||
           dt_configargs_find(DT_CONFIG_SAMPLER, name) != DT_SCHEMA_COUNT;
}

static size_t reader_names(const char *ret_names[DT_SCHEMA_COUNT])
{
    size_t n = 0;
    for (int i = 0; i < DT_SCHEMA_COUNT; i++)
        if (dt_config_schemas[i].config_class == DT_CONFIG_SOURCE ||
            dt_config_schemas[i].config_class == DT_CONFIG_SAMPLER)
            ret_names[n++] = dt_config_schemas[i].name;
    return n;
}

/* Whether the entry assigns a source to declared inputs, or calls something that looks like a
 * misspelt source. */
bool dt_config_is_source(const DtEntry *entry)
{
    if (entry->is_directive || !entry->value)
        return false;
    const char *callee = dt_configargs_callee(entry->value);
    if (!callee)
        return false;
    if (dt_config_is_reader(callee))
        return true;
    bool declared = entry->targets.n > 0;
    for (uint32_t i = 0; i < entry->targets.n; i++)
        declared &= entry->targets.at[i].type.has_axes;
    const char *names[DT_SCHEMA_COUNT];
    size_t n = reader_names(names);
    return declared && dt_text_nearest(callee, names, n) != NULL;
}

/* Returns the folder from which relative paths in the file of span are counted: that of the
 * file. */
static const char *folder_of(const DtConfigHost *host, DtSpan span)
{
    const char *path = dt_diag_path(host->diags, span.file);
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash)
        return dt_intern(".");
    return slash == path ? dt_intern("/") : dt_intern_n(path, (size_t)(slash - path));
}

static void check_part(const DtConfigHost *host, const DtSource *source, const DtConfigValue *from,
                       const DtConfigValue *to)
{
    if (source->from < source->to)
        return;
    DtDiag *d = dt_diag_report(host->diags, E0805, to->given ? to->span : from->span,
                               "no data lies between %g and %g", source->from, source->to);
    dt_diag_note(d, "`from` and `to` are parts of the whole between 0 and 1, `from` below `to`");
}

static bool read_files(const DtConfigHost *host, DtSourceKind kind, const DtConfigValues *v,
                       DtKeyId glob, DtKeyId from, DtKeyId to, DtKeyId unpaired,
                       DtSource *ret_source)
{
    ret_source->kind = kind;
    ret_source->glob = v->at[glob].word;
    ret_source->from = v->at[from].number;
    ret_source->to = v->at[to].number;
    ret_source->unpaired = v->at[unpaired].whole;
    check_part(host, ret_source, &v->at[from], &v->at[to]);
    return ret_source->glob != NULL;
}

static void read_chat(const DtConfigValues *v, DtSource *ret_source)
{
    const DtConfigValue *template = &v->at[DT_KEY_CHAT_template], *end = &v->at[DT_KEY_CHAT_end];
    const char *trains = v->at[DT_KEY_CHAT_labels].word, *longer = v->at[DT_KEY_CHAT_long].word;
    ret_source->dtype = DT_I32;
    ret_source->tokenizer = v->at[DT_KEY_CHAT_tokenizer].word;
    ret_source->end = end->given ? end->word : NULL;
    ret_source->template = template->given ? template->word : NULL;
    if (v->at[DT_KEY_CHAT_pack].whole)
        ret_source->chat |= DT_CHAT_PACK;
    if (trains && strcmp(trains, "all") == 0)
        ret_source->chat |= DT_CHAT_ALL;
    if (longer && strcmp(longer, "drop") == 0)
        ret_source->chat |= DT_CHAT_DROP;
}

static void read_csv(const DtConfigHost *host, const DtConfigValues *v, DtSource *ret_source)
{
    DtPatterns columns = {0};
    dt_configgroup_patterns(host, &v->at[DT_KEY_CSV_columns], &columns);
    for (uint32_t i = 0; i < columns.n; i++)
        ret_source->columns = i ? dt_arena_printf(host->arena, "%s\n%s", ret_source->columns,
                                                  columns.at[i].text)
                                : columns.at[i].text;
    ret_source->separator = v->at[DT_KEY_CSV_separator].word[0];
    ret_source->header = v->at[DT_KEY_CSV_header].whole;
    if (columns.n && !ret_source->header) {
        DtDiag *d = dt_diag_report(host->diags, E0452, v->at[DT_KEY_CSV_columns].span,
                                   "without `header` no column has a name");
        dt_diag_help(d, "leave `columns` out: then each sample has all fields of its line");
    }
}

/* Reads a number, or three, into three. Returns how many are written. */
static uint32_t read_three(const DtConfigHost *host, const DtConfigValue *value, DtKeyId id,
                           DtConfigKind kind, double ret_numbers[3])
{
    DtConfigKey key = dt_config_keys[id];
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n = 0;
    key.kind = kind;
    for (int i = 0; i < 3; i++)
        ret_numbers[i] = value->number; /* the preset */
    if (value->expr)
        dt_configargs_items(value->expr, &items, &n, &single);
    if (value->expr && n != 1 && n != 3)
        dt_diag_report(host->diags, E0452, value->span, "`%s` takes one number, or three",
                       key.name);
    for (uint32_t i = 0; i < n && i < 3; i++) {
        DtConfigValue one = {0};
        const DtConfigReading reading = {host, &key, items[i], &one};
        if (dt_configkinds_read(&reading))
            ret_numbers[i] = one.number;
    }
    for (int i = 1; i < 3 && n == 1; i++)
        ret_numbers[i] = ret_numbers[0];
    return n;
}

/* Reports two settings that both say how an image is scaled. */
static void check_scaling(const DtConfigHost *host, const DtConfigValues *v,
                          const DtImageSource *image)
{
    const DtConfigValue *resize = &v->at[DT_KEY_IMAGES_resize],
                        *stretch = &v->at[DT_KEY_IMAGES_stretch],
                        *pad = &v->at[DT_KEY_IMAGES_pad];
    if (image->stretch && resize->given)
        dt_diag_report(host->diags, E0452, stretch->span,
                       "`resize` keeps the ratio of the sides, and `stretch` does not");
    const DtConfigValue *other = resize->given     ? resize
                                 : image->stretch  ? stretch
                                 : image->pad != 0 ? pad
                                                   : NULL;
    if (image->crop == DT_CROP_ZOOM && other)
        dt_diag_report(host->diags, E0452, other->span,
                       "`crop = zoom` scales a part of the image to the input's size by itself");
}

static void read_images(const DtConfigHost *host, const DtConfigValues *v, DtImageSource *ret_image)
{
    enum { MOST_SIDE = 1 << 20 };
    static const char *const crops[] = {"whole", "centre", "random", "zoom"};
    const char *crop = v->at[DT_KEY_IMAGES_crop].word;
    *ret_image = (DtImageSource){.resize = v->at[DT_KEY_IMAGES_resize].whole,
                                 .stretch = v->at[DT_KEY_IMAGES_stretch].whole,
                                 .pad = v->at[DT_KEY_IMAGES_pad].whole,
                                 .flip = v->at[DT_KEY_IMAGES_flip].whole,
                                 .pixels = v->at[DT_KEY_IMAGES_pixels].whole};
    for (size_t i = 0; crop && i < DT_COUNT(crops); i++)
        if (!strcmp(crop, crops[i]))
            ret_image->crop = (DtImageCrop)i;
    const uint32_t means = read_three(host, &v->at[DT_KEY_IMAGES_mean], DT_KEY_IMAGES_mean,
                                      DT_KIND_NUMBER, ret_image->mean),
                   stds = read_three(host, &v->at[DT_KEY_IMAGES_std], DT_KEY_IMAGES_std,
                                     DT_KIND_POSITIVE, ret_image->std);
    ret_image->colours = means > stds ? means : stds;
    const DtKeyId sides[] = {DT_KEY_IMAGES_resize, DT_KEY_IMAGES_pad};
    for (size_t i = 0; i < DT_COUNT(sides); i++)
        if (v->at[sides[i]].whole > MOST_SIDE)
            dt_diag_report(host->diags, E0452, v->at[sides[i]].span, "`%s` must be at most %d",
                           dt_config_keys[sides[i]].name, MOST_SIDE);
    check_scaling(host, v, ret_image);
}

static bool read_source(const DtConfigHost *host, const DtExpr *expr, DtSource *ret_source)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (!dt_configargs_call(host, DT_CONFIG_SOURCE, expr, &schema, &v))
        return false;
    *ret_source = (DtSource){.span = expr->span, .folder = folder_of(host, expr->span), .to = 1};
    switch (schema) {
    case DT_SCHEMA_TEXT:
        ret_source->dtype = DT_U8;
        ret_source->tokenizer =
            v.at[DT_KEY_TEXT_tokenizer].given ? v.at[DT_KEY_TEXT_tokenizer].word : NULL;
        ret_source->end = v.at[DT_KEY_TEXT_end].given ? v.at[DT_KEY_TEXT_end].word : NULL;
        return read_files(host, DT_SOURCE_TEXT, &v, DT_KEY_TEXT_glob, DT_KEY_TEXT_from,
                          DT_KEY_TEXT_to, DT_KEY_TEXT_unpaired, ret_source);
    case DT_SCHEMA_CHAT:
        read_chat(&v, ret_source);
        return read_files(host, DT_SOURCE_CHAT, &v, DT_KEY_CHAT_glob, DT_KEY_CHAT_from,
                          DT_KEY_CHAT_to, DT_KEY_CHAT_unpaired, ret_source);
    case DT_SCHEMA_BIN:
        ret_source->dtype = v.at[DT_KEY_BIN_dtype].dtype;
        ret_source->raw = v.at[DT_KEY_BIN_raw].whole;
        return read_files(host, DT_SOURCE_BIN, &v, DT_KEY_BIN_glob, DT_KEY_BIN_from, DT_KEY_BIN_to,
                          DT_KEY_BIN_unpaired, ret_source);
    case DT_SCHEMA_NPY:
        return read_files(host, DT_SOURCE_NPY, &v, DT_KEY_NPY_glob, DT_KEY_NPY_from, DT_KEY_NPY_to,
                          DT_KEY_NPY_unpaired, ret_source);
    case DT_SCHEMA_MEGATRON:
        ret_source->dtype = DT_I32;
        return read_files(host, DT_SOURCE_MEGATRON, &v, DT_KEY_MEGATRON_glob, DT_KEY_MEGATRON_from,
                          DT_KEY_MEGATRON_to, DT_KEY_MEGATRON_unpaired, ret_source);
    case DT_SCHEMA_CSV:
        read_csv(host, &v, ret_source);
        return read_files(host, DT_SOURCE_CSV, &v, DT_KEY_CSV_glob, DT_KEY_CSV_from, DT_KEY_CSV_to,
                          DT_KEY_CSV_unpaired, ret_source);
    case DT_SCHEMA_IMAGES:
        read_images(host, &v, &ret_source->image);
        return read_files(host, DT_SOURCE_IMAGES, &v, DT_KEY_IMAGES_glob, DT_KEY_IMAGES_from,
                          DT_KEY_IMAGES_to, DT_KEY_IMAGES_unpaired, ret_source);
    default: break;
    }
    ret_source->kind = DT_SOURCE_SYNTHETIC;
    ret_source->lo = v.at[DT_KEY_SYNTHETIC_lo].number;
    ret_source->hi = v.at[DT_KEY_SYNTHETIC_hi].number;
    if (ret_source->lo < ret_source->hi)
        return true;
    DtDiag *d = dt_diag_report(host->diags, E0807, expr->span, "the range from %g to %g is empty",
                               ret_source->lo, ret_source->hi);
    dt_diag_note(d,
                 "`synthetic(lo, hi)` draws integers lo ... hi - 1, or floats between lo and hi");
    return false;
}

static bool unknown_reader(const DtConfigHost *host, const DtExpr *value)
{
    const char *names[DT_SCHEMA_COUNT];
    size_t n = reader_names(names);
    const char *callee = dt_configargs_callee(value);
    const DtExpr *bare = dt_configargs_bare(value);
    DtSpan span = callee ? bare->a->span : value->span;
    DtDiag *d = callee
                    ? dt_diag_report(host->diags, E0801, span, "`%s` is no source of data", callee)
                    : dt_diag_report(host->diags, E0801, span, "this is no source of data");
    dt_diag_note(d, "a sampler is %s", dt_configargs_list(host->arena, DT_CONFIG_SAMPLER));
    dt_diag_note(d, "a source is %s", dt_configargs_list(host->arena, DT_CONFIG_SOURCE));
    dt_configargs_suggest(d, span, callee, names, n);
    return false;
}

/* Reads a source, alone or inside of a sampler, whose name is `sampler`. */
static bool read_one(const DtConfigHost *host, const DtExpr *expr, const char *sampler,
                     DtReader *ret_reader)
{
    if (!read_source(host, expr, &ret_reader->source))
        return false;
    const DtSourceKind kind = ret_reader->source.kind;
    if (!sampler) {
        ret_reader->kind = kind == DT_SOURCE_IMAGES ? DT_SAMPLE_IMAGES
                           : kind == DT_SOURCE_CHAT ? DT_SAMPLE_CHAT
                                                    : DT_SAMPLE_RAW;
        return true;
    }
    if (kind != DT_SOURCE_IMAGES && kind != DT_SOURCE_CHAT)
        return true;
    DtDiag *d = dt_diag_report(host->diags, E0806, expr->span,
                               "`%s` reads tokens, and this is not a token stream", sampler);
    dt_diag_help(d, "use `text(...)`, `bin(...)`, `npy(...)`, `megatron(...)`, `csv(...)`, "
                    "`synthetic(...)` or a `mix(...)` of these");
    return false;
}

static bool read_mix(const DtConfigHost *host, const DtExpr *expr, const char *sampler,
                     const DtReader *base, DtReaders *ret_readers)
{
    const DtExpr *call = dt_configargs_bare(expr);
    bool ok = true;
    for (uint32_t i = 0; i < call->args.n; i++) {
        DtReader reader = *base;
        const DtExpr *source;
        reader.part = i + 1;
        if (!dt_configmix_part(host, &call->args.at[i], &reader.weight, &source) ||
            !read_one(host, source, sampler, &reader)) {
            ok = false;
            continue;
        }
        reader.source.unpaired = true; /* it has its own number of samples */
        DT_PUSH(host->arena, *ret_readers, reader);
    }
    return ok && dt_configmix_check(host, call, ret_readers->at, ret_readers->n);
}

/* Reads the right side of an assignment: a sampler around a source, or a source alone. span: of the
 * whole assignment. */
bool dt_configsource_read(const DtConfigHost *host, const DtExpr *value, DtSpan span,
                          DtReaders *ret_readers)
{
    DtConfigValues v;
    DtSchemaId schema;
    DtReader reader = {.kind = DT_SAMPLE_RAW, .span = span};
    const char *callee = dt_configargs_callee(value), *sampler = NULL;
    bool ok = true;
    *ret_readers = (DtReaders){0};
    if (!callee || !dt_config_is_reader(callee))
        return unknown_reader(host, value);
    if (dt_configargs_find(DT_CONFIG_SOURCE, callee) == DT_SCHEMA_COUNT) {
        sampler = callee;
        ok = dt_configargs_call(host, DT_CONFIG_SAMPLER, value, &schema, &v);
        value = v.at[schema == DT_SCHEMA_MLM               ? DT_KEY_MLM_source
                     : schema == DT_SCHEMA_SPAN_CORRUPTION ? DT_KEY_SPAN_CORRUPTION_source
                                                           : DT_KEY_NEXT_TOKEN_source]
                    .expr;
        if (ok)
            dt_configsamplers_read(host, schema, &v, &reader);
        if (!value)
            return false;
    }
    if (dt_configmix_is(value))
        return read_mix(host, value, sampler, &reader, ret_readers) && ok;
    ok = read_one(host, value, sampler, &reader) && ok;
    if (ok)
        DT_PUSH(host->arena, *ret_readers, reader);
    return ok;
}
