/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax_fixture.h"

#include "base/file.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

Parsed parse_bytes(const char *text, size_t len)
{
    Parsed p = {.arena = dt_arena_new()};
    p.diags = dt_diag_new(p.arena);
    p.file = dt_diag_add_file(p.diags, "test.dsl", dt_arena_strndup(p.arena, text, len), len);
    p.ast = dt_parse(p.arena, p.diags, p.file);
    dt_text_add(&p.tree, "");
    dt_ast_print(p.ast, &p.tree);
    char *buffer = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&buffer, &size);
    dt_diag_print(p.diags, out, false);
    fclose(out);
    dt_text_add_n(&p.messages, buffer, size);
    free(buffer);
    return p;
}

Parsed parse_text(const char *text) { return parse_bytes(text, strlen(text)); }

void parsed_free(Parsed *parsed)
{
    dt_text_free(&parsed->tree);
    dt_text_free(&parsed->messages);
    dt_arena_free(parsed->arena);
}

DtText format_bytes(const char *text, size_t len)
{
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    uint32_t file = dt_diag_add_file(diags, "test.dsl", dt_arena_strndup(arena, text, len), len);
    DtText out = {0};
    dt_text_add(&out, "");
    cr_assert(dt_fmt(diags, file, &out), "refused: %.300s", text);
    cr_assert_eq(dt_diag_errors(diags), 0);
    dt_arena_free(arena);
    return out;
}

int each_program(void (*visit)(const char *path, const char *text, size_t len))
{
    glob_t found;
    cr_assert_eq(glob("examples/*.dsl", 0, NULL, &found), 0);
    cr_assert_eq(glob("lib/*.dsl", GLOB_APPEND, NULL, &found), 0);
    int n = (int)found.gl_pathc;
    for (int i = 0; i < n; i++) {
        DtArena *arena = dt_arena_new();
        char *text;
        size_t len;
        DtStatus status = dt_file_read(arena, found.gl_pathv[i], 1 << 20, &text, &len);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        visit(found.gl_pathv[i], text, len);
        dt_arena_free(arena);
    }
    globfree(&found);
    return n;
}
