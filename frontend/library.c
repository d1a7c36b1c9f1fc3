/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from the library's text which names its files define, and the manual of its functions and
 * layers: the comment above a definition, and its head. */
#include "frontend/config.h"

#include "base/file.h"
#include "base/intern.h"

#include <string.h>

enum { MAX_LIBRARY = 1 << 20 };

static char *read_library(DtArena *arena, const char *folder, const char *file)
{
    char *text = NULL;
    size_t len;
    if (!folder)
        return NULL;
    DtStatus status = dt_file_read(arena, dt_arena_printf(arena, "%s/%s", folder, file),
                                   MAX_LIBRARY, &text, &len);
    return dt_status_ok(&status) ? text : NULL;
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

/* Returns the length of the name if the line begins `fn name(` or `layer name[`; else 0. */
static size_t definition(const char *line, const char **ret_name)
{
    const size_t word = strncmp(line, "fn ", 3) == 0 ? 3 : strncmp(line, "layer ", 6) == 0 ? 6 : 0;
    *ret_name = line + word;
    return word ? strcspn(*ret_name, "[(") : 0;
}

/* comment: its first line; NULL: the definition has none. */
static void print(const char *file, const char *comment, const char *line, const char *name,
                  size_t len, DtText *text)
{
    dt_text_printf(text, "%.*s (%s of %s)\n", (int)len, name,
                   strncmp(line, "fn", 2) == 0 ? "function" : "layer", file);
    for (; comment && comment < line; comment = next_line(comment)) {
        const char *said = comment + strspn(comment, "#");
        said += *said == ' ';
        dt_text_add_n(text, said, (size_t)(next_line(comment) - said));
    }
    dt_text_add(text, "  ");
    dt_text_add_n(text, line, strcspn(line, "{"));
    dt_text_add(text, "\n");
}

/* Prints the definition with that name; wanted NULL: all those with a comment. */
static bool explain_file(DtArena *arena, const char *folder, const char *file, const char *wanted,
                         DtText *ret_text)
{
    const char *at = read_library(arena, folder, file), *comment = NULL, *name = NULL;
    bool found = false;
    for (; at && *at; at = next_line(at)) {
        const size_t len = definition(at, &name);
        if (len && (wanted ? strlen(wanted) == len && memcmp(wanted, name, len) == 0
                           : comment != NULL)) {
            if (found || !wanted)
                dt_text_add(ret_text, "\n");
            print(file, comment, at, name, len, ret_text);
            found = true;
        }
        if (*at != '#')
            comment = NULL;
        else if (!comment)
            comment = at;
    }
    return found;
}

bool dt_library_explain(DtArena *arena, const char *folder, const char *wanted, DtText *ret_text)
{
    return explain_file(arena, folder, "training.dsl", wanted, ret_text) ||
           (wanted && explain_file(arena, folder, "std.dsl", wanted, ret_text));
}

/* Returns the length of the name if the line begins `WORD "NAME" {`, as blocks of devices do; else
 * 0. */
static size_t block_name(const char *line, const char *word, const char **ret_name)
{
    const size_t n = strlen(word);
    if (strncmp(line, word, n) || line[n] != ' ')
        return 0;
    *ret_name = line + n + 1 + (line[n + 1] == '"');
    return strcspn(*ret_name, "\" {\n");
}

bool dt_library_block(const char *text, const char *word, const char *wanted, size_t *ret_from,
                      size_t *ret_to)
{
    const char *name;
    for (const char *at = text; *at; at = next_line(at)) {
        const size_t len = block_name(at, word, &name);
        const char *end =
            len && strlen(wanted) == len && !memcmp(wanted, name, len) ? strstr(at, "\n}") : NULL;
        if (!end)
            continue;
        *ret_from = (size_t)(at - text);
        *ret_to = (size_t)(end + 2 - text);
        return true;
    }
    return false;
}

uint32_t dt_library_blocks(DtArena *arena, const char *folder, const char *word,
                           const char **ret_names, uint32_t cap)
{
    uint32_t n = 0;
    const char *name, *file = !strcmp(word, "device") ? "devices.dsl" : "stacks.dsl";
    for (const char *at = read_library(arena, folder, file); at && *at && n < cap;
         at = next_line(at)) {
        const size_t len = block_name(at, word, &name);
        if (len)
            ret_names[n++] = dt_intern_n(name, len);
    }
    return n;
}

static void list_block(const char *name, size_t len, const char *block, DtText *text)
{
    static const char key[] = "\n  description = \"";
    const char *end = strstr(block, "\n}"), *said = strstr(block, key);
    const bool has = said && end && said < end;
    said = has ? said + sizeof key - 1 : "";
    dt_text_printf(text, "  %-20.*s  %.*s\n", (int)len, name, (int)strcspn(said, "\"\n"), said);
}

bool dt_library_hardware(DtArena *arena, const char *folder, const char *wanted, DtText *ret_text)
{
    static const struct { const char *file, *word, *heading; } files[] = {
        {"devices.dsl", "device", "\nDevices of the library:\n"},
        {"stacks.dsl", "stack", "\nStacks of the library:\n"}};
    bool found = false;
    for (size_t f = 0; f < DT_COUNT(files); f++) {
        const bool all = !strcmp(wanted, "cluster") || !strcmp(wanted, files[f].word);
        const char *name = NULL;
        if (all)
            dt_text_add(ret_text, files[f].heading);
        for (const char *at = read_library(arena, folder, files[f].file); at && *at;
             at = next_line(at)) {
            const size_t len = block_name(at, files[f].word, &name);
            const bool is_it = len && strlen(wanted) == len && !memcmp(wanted, name, len);
            if (len && all)
                list_block(name, len, at, ret_text);
            const char *end = is_it ? strstr(at, "\n}") : NULL;
            if (end)
                dt_text_add_n(ret_text, at, (size_t)(end + 3 - at));
            found |= (len && all) || end;
        }
    }
    return found;
}

uint32_t dt_library_names(DtArena *arena, const char *folder, const char *file,
                          const char **ret_names, uint32_t cap)
{
    uint32_t n = 0;
    const char *name = NULL;
    for (const char *at = read_library(arena, folder, file); at && *at && n < cap;
         at = next_line(at)) {
        const size_t len = definition(at, &name);
        if (len)
            ret_names[n++] = dt_intern_n(name, len);
    }
    return n;
}
