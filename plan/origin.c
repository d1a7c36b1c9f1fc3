/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/origin.h"

#include "base/compress.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 << 20 };

static const char *const kinds[] = {"program", "library"};

static void add_word(DtText *text, const char *word)
{
    dt_text_add_n(text, word, strlen(word) + 1);
}

bool dt_origin_write(DtPlanBuilder *builder, const DtOrigin *origin)
{
    DtText text = {0};
    bool good = origin->files.n > 0;
    for (uint32_t i = 0; i < origin->words.n; i++) {
        good = good && *origin->words.at[i];
        add_word(&text, origin->words.at[i]);
    }
    add_word(&text, "");
    add_word(&text, origin->block ? origin->block : "");
    for (uint32_t i = 0; i < origin->files.n && text.len <= MOST; i++) {
        const DtOriginFile *file = &origin->files.at[i];
        good = good && *file->name;
        add_word(&text, kinds[file->is_library]);
        add_word(&text, file->name);
        dt_text_printf(&text, "%zu", file->len);
        dt_text_add_n(&text, "", 1);
        dt_text_add_n(&text, file->text, file->len);
    }
    good = good && text.len <= MOST;
    if (good) {
        uint8_t *bytes;
        size_t len;
        dt_compress(builder->arena, text.at, text.len, &bytes, &len);
        const DtPlanOrigin record = {.text = dt_write_blob(builder, bytes, len), .text_len = len};
        DT_PUSH(builder->arena, builder->origins, record);
    }
    dt_text_free(&text);
    return good;
}

/* The bytes that are left. */
typedef struct Rest {
    const char *at, *end;
} Rest;

/* Takes the bytes up to a NUL; NULL: there is none. */
static const char *take_word(Rest *rest)
{
    const char *word = rest->at, *nul = memchr(word, 0, (size_t)(rest->end - word));
    if (nul)
        rest->at = nul + 1;
    return nul ? word : NULL;
}

static bool take_file(DtArena *arena, Rest *rest, DtOriginFile *ret_file)
{
    const char *kind = take_word(rest), *name = kind ? take_word(rest) : NULL;
    const char *number = name ? take_word(rest) : NULL;
    char *end;
    if (!number || !*name || *number < '0' || *number > '9')
        return false;
    const unsigned long long len = strtoull(number, &end, 10);
    const bool is_library = strcmp(kind, kinds[1]) == 0;
    if (*end || len > (size_t)(rest->end - rest->at) || (!is_library && strcmp(kind, kinds[0])))
        return false;
    *ret_file = (DtOriginFile){.name = name, .len = len, .is_library = is_library,
                               .text = dt_arena_strndup(arena, rest->at, len)};
    rest->at += len;
    return true;
}

bool dt_origin_read(DtArena *arena, const DtPlan *plan, DtOrigin *ret_origin)
{
    uint8_t *bytes;
    size_t len;
    *ret_origin = (DtOrigin){0};
    if (!plan->n_origins || !plan->blob ||
        !dt_decompress(arena, plan->blob + plan->origins->text, plan->origins->text_len, MOST,
                       &bytes, &len))
        return false;
    Rest rest = {(const char *)bytes, (const char *)bytes + len};
    const char *word;
    while ((word = take_word(&rest)) && *word)
        DT_PUSH(arena, ret_origin->words, word);
    const char *block = word ? take_word(&rest) : NULL;
    if (!block)
        return false;
    ret_origin->block = *block ? block : NULL;
    while (rest.at < rest.end) {
        DtOriginFile file;
        if (!take_file(arena, &rest, &file))
            return false;
        DT_PUSH(arena, ret_origin->files, file);
    }
    return ret_origin->files.n > 0 && !ret_origin->files.at[0].is_library;
}
