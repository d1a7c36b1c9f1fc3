/* SPDX-License-Identifier: Apache-2.0 */
/* dtc explain: the long form of a diagnostic (E0501), or the manual of a block, directive or
 * function of the configuration (adamw), or of a function or layer of the library (lora). Without a
 * word the list of all diagnostics; `settings` prints the whole manual. */
#include "cli/cli.h"
#include "frontend/config.h"
#include "plan/report/summary.h"

#include <ctype.h>
#include <string.h>

static void print_paragraphs(const char *words, DtText *text)
{
    size_t column = 0;
    while (*words) {
        if (*words == '\n') {
            dt_text_add(text, "\n");
            column = 0;
            words++;
            continue;
        }
        size_t len = strcspn(words, " \n");
        if (column && column + 1 + len > 90) {
            dt_text_add(text, "\n");
            column = 0;
        } else if (column) {
            dt_text_add(text, " ");
            column++;
        }
        dt_text_add_n(text, words, len);
        column += len;
        words += len;
        while (*words == ' ')
            words++;
    }
    dt_text_add(text, "\n");
}

static void explain(DtDiagCode code, DtText *text)
{
    bool lint = dt_diag_name(code)[0] == 'L';
    dt_text_printf(text, "%s %s: %s\n\n", lint ? "lint" : "error", dt_diag_name(code),
                   dt_diag_title(code));
    print_paragraphs(dt_diag_text(code), text);
}

static bool find_code(const char *word, DtDiagCode *ret_code)
{
    char name[16];
    size_t len = strlen(word);
    if (len >= sizeof name)
        return false;
    for (size_t i = 0; i <= len; i++)
        name[i] = (char)toupper((unsigned char)word[i]);
    return dt_diag_find(name, ret_code);
}

static int unknown_word(DtArena *arena, const char *word)
{
    const char *names[DT_DIAG_COUNT + 64 + 32 + 64];
    for (int i = 0; i < DT_DIAG_COUNT; i++)
        names[i] = dt_diag_name((DtDiagCode)i);
    uint32_t n = DT_DIAG_COUNT + dt_configexplain_names(names + DT_DIAG_COUNT, 64);
    n += dt_library_names(arena, dt_cli_library(arena), "training.dsl", names + n, 32);
    n += dt_library_names(arena, dt_cli_library(arena), "std.dsl", names + n, 64);
    const char *nearest = dt_text_nearest(word, names, n);
    if (nearest)
        return dt_cli_fail(DT_EXIT_USAGE, "nothing is known about %s; did you mean %s?", word,
                           nearest);
    return dt_cli_fail(
        DT_EXIT_USAGE,
        "nothing is known about %s; `dtc explain` lists the diagnostics, `dtc explain settings` "
        "the configuration",
        word);
}

int dt_cmd_explain(DtCli *cli)
{
    DtText text = {0};
    int code = DT_EXIT_OK;
    for (int i = 0; !cli->words.n && i < DT_DIAG_COUNT; i++)
        dt_text_printf(&text, "%s  %s\n", dt_diag_name((DtDiagCode)i),
                       dt_diag_title((DtDiagCode)i));
    for (uint32_t i = 0; i < cli->words.n && code == DT_EXIT_OK; i++) {
        DtDiagCode found;
        if (i)
            dt_text_add(&text, "\n");
        const char *word = cli->words.at[i], *wanted = strcmp(word, "settings") ? word : NULL;
        if (find_code(word, &found)) {
            explain(found, &text);
            continue;
        }
        bool known = dt_configexplain_print(wanted, &text);
        DtText term = {0};
        if (wanted && dt_summary_explain(wanted, &term)) {
            print_paragraphs(term.at, &text);
            known = true;
        }
        dt_text_free(&term);
        known |=
            wanted && dt_library_hardware(cli->arena, dt_cli_library(cli->arena), wanted, &text);
        if (!dt_library_explain(cli->arena, dt_cli_library(cli->arena), wanted, &text) && !known)
            code = unknown_word(cli->arena, word);
    }
    if (code == DT_EXIT_OK)
        code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}
