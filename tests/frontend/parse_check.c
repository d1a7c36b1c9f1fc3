/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax phase alone as a program:  parse_check [--ast | --fmt] FILE.dsl
 * Diagnostics go to stderr as `dtc --check` prints them; exit 3 if there are errors. */
#include "base/file.h"
#include "frontend/syntax.h"

#include <string.h>

int main(int argc, char **argv)
{
    bool want_ast = argc == 3 && !strcmp(argv[1], "--ast"),
         want_fmt = argc == 3 && !strcmp(argv[1], "--fmt");
    if (argc != 2 && !want_ast && !want_fmt) {
        fprintf(stderr, "usage: parse_check [--ast | --fmt] FILE.dsl\n");
        return DT_EXIT_USAGE;
    }
    const char *path = argv[argc - 1];
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    char *text;
    size_t len;
    DtStatus status = dt_file_read(arena, path, 64u << 20, &text, &len);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "parse_check: %s\n", status.message);
        return status.code;
    }
    uint32_t file = dt_diag_add_file(diags, path, text, len);
    DtText out = {0};
    if (want_fmt)
        dt_fmt(diags, file, &out);
    else
        dt_ast_print(dt_parse(arena, diags, file), &out);
    if (want_fmt || want_ast)
        fwrite(out.at, 1, out.len, stdout);
    dt_diag_print(diags, stderr, false);
    int code = dt_diag_errors(diags) ? DT_EXIT_DIAGNOSTICS : DT_EXIT_OK;
    dt_text_free(&out);
    dt_arena_free(arena);
    return code;
}
