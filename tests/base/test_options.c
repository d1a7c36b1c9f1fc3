/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, which are parsed according to the rows of a table. */
#include "base/options.h"

#include <criterion/criterion.h>
#include <string.h>

enum { OUT, CHECK, FORMAT, NAME, HIDDEN };

static const DtOptionRow rows[] = {
    {"output", 'o', "FILE", "Results", "where it goes"},
    {"check", 'c', NULL, "Results", "only look"},
    {"format", 0, "[KIND]", "Results", "how it looks"},
    {NULL, 'n', "NAME", "Names",
     "a name; a text so long that the help has to wrap it over several lines, which it does at "
     "the width of a "
     "terminal"},
    {"hidden", 0, NULL, NULL, "set by another program"},
};
static const DtOptionTable table = {.program = "prog", .version = "1", .purpose = "does things",
                                    .synopsis = "FILE [-o FILE]\n--check FILE",
                                    .epilogue = "Example:\n  prog x\nEnd.\n",
                                    .rows = rows, .n_rows = 5};

static DtOptions open_words(int argc, const char *const *argv)
{
    DtOptions options;
    dt_options_open(&options, &table, argc, (char *const *)(uintptr_t)argv, 1);
    return options;
}

Test(options, every_way_to_give_a_value)
{
    const char *argv[] = {"prog", "--output=a", "--output", "b", "-oc", "-o", "d", "-co", "e"};
    DtOptions o = open_words(9, argv);
    const char *wanted[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(dt_options_next(&o), OUT);
        cr_assert_str_eq(o.value, wanted[i]);
    }
    cr_assert_eq(dt_options_next(&o), CHECK);
    cr_assert_null(o.value);
    cr_assert_eq(dt_options_next(&o), OUT);
    cr_assert_str_eq(o.value, "e");
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_END);
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_END);
}

Test(options, an_optional_value_follows_an_equals_sign_only)
{
    const char *argv[] = {"prog", "--format", "json", "--format=text"};
    DtOptions o = open_words(4, argv);
    cr_assert_eq(dt_options_next(&o), FORMAT);
    cr_assert_null(o.value);
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_WORD);
    cr_assert_str_eq(o.value, "json");
    cr_assert_eq(dt_options_next(&o), FORMAT);
    cr_assert_str_eq(o.value, "text");
}

Test(options, words_and_the_end_of_options)
{
    const char *argv[] = {"prog", "x", "-", "-c", "--", "--check", "-o"};
    DtOptions o = open_words(7, argv);
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_WORD);
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_WORD);
    cr_assert_str_eq(o.value, "-");
    cr_assert_eq(dt_options_next(&o), CHECK);
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_WORD);
    cr_assert_str_eq(o.value, "--check");
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_WORD);
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_END);
}

static void expect_wrong(const char *word, const char *part)
{
    const char *argv[] = {"prog", word};
    DtOptions o = open_words(2, argv);
    cr_assert_eq(dt_options_next(&o), DT_OPTIONS_WRONG, "%s", word);
    cr_assert(strstr(o.message, part), "%s: %s", word, o.message);
}

Test(options, wrong_ones_say_why)
{
    expect_wrong("--chek", "did you mean --check?");
    expect_wrong("--nothing_like_it", "--help");
    expect_wrong("--check=1", "takes no value");
    expect_wrong("--output", "needs a value: FILE");
    expect_wrong("-n", "needs a value: NAME");
    expect_wrong("-z", "unknown option -z");
    expect_wrong("-\x01", "unknown option -?");
    char word[1000];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    word[0] = word[1] = '-';
    expect_wrong(word, "unknown option --xxx");
}

Test(options, help_names_every_option_and_stays_narrow)
{
    DtText text = {0};
    dt_options_help(&table, &text);
    cr_assert(strstr(text.at, "usage: prog FILE"));
    cr_assert(strstr(text.at, "       prog --check FILE"));
    cr_assert(strstr(text.at, "-o, --output=FILE"));
    cr_assert(strstr(text.at, "--format[=KIND]"));
    cr_assert(strstr(text.at, "-n NAME"));
    cr_assert(strstr(text.at, "\nNames:\n"));
    for (const char *line = text.at; *line;) {
        size_t len = strcspn(line, "\n");
        cr_assert_leq(len, 96, "%.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
    dt_text_free(&text);
}

Test(options, an_option_without_a_group_is_read_but_not_shown)
{
    const char *argv[] = {"prog", "--hidden"};
    DtOptions o = open_words(2, argv);
    DtText help = {0}, man = {0};
    cr_assert_eq(dt_options_next(&o), HIDDEN);
    dt_options_help(&table, &help);
    dt_options_man(&table, &man);
    cr_assert(!strstr(help.at, "hidden") && !strstr(man.at, "hidden"));
    dt_text_free(&help);
    dt_text_free(&man);
}

Test(options, manual_page_escapes_what_roff_would_read)
{
    DtText text = {0};
    dt_options_man(&table, &text);
    cr_assert_eq(strncmp(text.at, ".TH prog 1", 10), 0);
    cr_assert(strstr(text.at, ".B \\-o, \\-\\-output=FILE"));
    cr_assert(strstr(text.at, ".nf\n  prog x\n.fi\nEnd."));
    dt_text_free(&text);
}
