/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of the syntax phase: any bytes parse or are refused with diagnostics; whatever parses
 * is formatted to a program with the same tree, and formatting that changes nothing. */
#include "frontend/syntax.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];
const char *const fuzz_corpus[] = {"examples/*.dsl", "lib/*.dsl", "lib/models/*.dsl",
                                   "tests/golden/errors/E*.dsl", NULL};

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_parse: %s\n", what);
    abort();
}

static uint32_t add(DtArena *arena, DtDiags *diags, const char *text, size_t len)
{
    return dt_diag_add_file(diags, "fuzz.dsl", dt_arena_strndup(arena, text, len), len);
}

/* The parser refers to the source text, which may contain NUL bytes, so its bytes are copied. */
static uint32_t add_bytes(DtArena *arena, DtDiags *diags, const uint8_t *data, size_t size)
{
    char *copy = dt_arena_alloc(arena, size + 1);
    memcpy(copy, data, size);
    return dt_diag_add_file(diags, "fuzz.dsl", copy, size);
}

static void check_format(DtArena *arena, DtDiags *diags, uint32_t file, const DtText *tree)
{
    DtText once = {0}, twice = {0}, tree_again = {0};
    dt_text_add(&once, "");
    dt_text_add(&tree_again, "");
    require(dt_fmt(diags, file, &once), "a program that parses is not formatted");
    uint32_t formatted = add(arena, diags, once.at, once.len);
    dt_ast_print(dt_parse(arena, diags, formatted), &tree_again);
    require(dt_diag_errors(diags) == 0, "the formatted program does not parse");
    require(!strcmp(tree->at, tree_again.at), "the formatted program has another tree");
    dt_text_add(&twice, "");
    require(dt_fmt(diags, formatted, &twice) && !strcmp(once.at, twice.at),
            "formatting twice is not formatting once");
    dt_text_free(&once);
    dt_text_free(&twice);
    dt_text_free(&tree_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    uint32_t file = add_bytes(arena, diags, data, size);
    DtText tree = {0};
    dt_text_add(&tree, "");
    dt_ast_print(dt_parse(arena, diags, file), &tree);
    if (dt_diag_errors(diags) == 0)
        check_format(arena, diags, file, &tree);
    dt_diag_print(diags, nowhere, false);
    dt_text_free(&tree);
    dt_arena_free(arena);
    return 0;
}
