/* SPDX-License-Identifier: Apache-2.0 */
#include "base/philox.h"
#include "base/text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect_double(double value, const char *want)
{
    DtText text = {0};
    dt_text_double(&text, value);
    cr_assert_str_eq(text.at, want);
    dt_text_free(&text);
}

Test(text, doubles_are_short)
{
    expect_double(0.1, "0.1");
    expect_double(1e-5, "1e-05");
    expect_double(1, "1");
    expect_double(-0.0, "-0");
    expect_double(6e-4, "0.0006");
    expect_double(1.0 / 3, "0.3333333333333333");
    expect_double(INFINITY, "inf");
    expect_double(-INFINITY, "-inf");
    expect_double(NAN, "nan");
    expect_double(5e-324, "5e-324");
    expect_double(1.7976931348623157e308, "1.7976931348623157e+308");
}

Test(text, doubles_round_trip)
{
    for (uint64_t i = 0; i < 20000; i++) {
        DtPhilox r = dt_philox(5, i, 0, 0);
        uint64_t bits = (uint64_t)r.word[0] << 32 | r.word[1];
        double value, back;
        memcpy(&value, &bits, 8);
        DtText text = {0};
        dt_text_double(&text, value);
        back = strtod(text.at, NULL);
        if (isnan(value))
            cr_assert_str_eq(text.at, "nan");
        else
            cr_assert_eq(memcmp(&value, &back, 8), 0, "%a as %s", value, text.at);
        dt_text_free(&text);
    }
}

Test(text, grows)
{
    DtText text = {0};
    for (int i = 0; i < 5000; i++) {
        dt_text_add(&text, "ab");
        dt_text_add_n(&text, "cdef", 1);
        dt_text_printf(&text, "%03d", i % 1000);
    }
    cr_assert_eq(text.len, 5000 * 6);
    cr_assert_eq(strlen(text.at), text.len);
    cr_assert_eq(memcmp(text.at, "abc000abc001", 12), 0);
    cr_assert_str_eq(text.at + text.len - 6, "abc999");
    dt_text_printf(&text, "%*d", 70000, 1);
    cr_assert_eq(strlen(text.at), 5000 * 6 + 70000);
    dt_text_free(&text);
    cr_assert_null(text.at);
}

static void expect_visible(const char *from, size_t len, const char *want)
{
    DtText text = {0};
    dt_text_add_visible(&text, from, len);
    cr_assert_str_eq(text.at, want);
    dt_text_free(&text);
}

Test(text, visible)
{
    expect_visible("a\tb\x1b[31mc\x7f", 10, "a b [31mc ");
    expect_visible("", 0, "");
    expect_visible("a\0b", 3, "a b");
    expect_visible("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
    expect_visible("\xf0\x9f\x98\x80!", 5, "\xf0\x9f\x98\x80!");
    expect_visible("\xc3", 1, "?");                /* a UTF-8 sequence that is cut short */
    expect_visible("\xc0\xaf", 2, "??");           /* overlong */
    expect_visible("\xe0\x80\xaf", 3, "???");      /* overlong */
    expect_visible("\xed\xa0\x80", 3, "???");      /* surrogate */
    expect_visible("\xf4\x90\x80\x80", 4, "????"); /* beyond U+10FFFF */
    expect_visible("\xff\xfe", 2, "??");
    expect_visible("\xc2\x9b", 2, " ");     /* C1 control sequence introducer */
    expect_visible("\xe2\x80\xae", 3, " "); /* right-to-left override */
}

Test(text, units)
{
    char buf[32];
    cr_assert_str_eq(dt_text_bytes(buf, 320), "320 B");
    cr_assert_str_eq(dt_text_bytes(buf, 1536), "1.5 KiB");
    cr_assert_str_eq(dt_text_bytes(buf, 1.5 * 1073741824), "1.5 GiB");
    dt_text_bytes(buf, 1e300); /* must not read beyond the end */
    cr_assert_lt(strlen(buf), sizeof buf);
}

Test(text, nearest)
{
    const char *const names[] = {"attention", "layernorm", "linear", "mlp", "lr"};
    cr_assert_str_eq(dt_text_nearest("atention", names, 5), "attention");
    cr_assert_str_eq(dt_text_nearest("layer_norm", names, 5), "layernorm");
    cr_assert_str_eq(dt_text_nearest("Linear", names, 5), "linear");
    cr_assert_str_eq(dt_text_nearest("MLP", names, 5), "mlp");
    const char *const swapped[] = {"floor", "lora"};
    cr_assert_str_eq(dt_text_nearest("loar", swapped, 2), "lora"); /* one edit */
    cr_assert_str_eq(dt_text_nearest("LOAR", swapped, 2), "lora");
    cr_assert_null(dt_text_nearest("rola", swapped, 2));
    cr_assert_null(dt_text_nearest("lq", names, 5)); /* half of the letters are equal */
    cr_assert_null(dt_text_nearest("latent", names, 5));
    cr_assert_null(dt_text_nearest("softmax", names, 5));
    cr_assert_null(dt_text_nearest("xx", names, 5));
    cr_assert_null(dt_text_nearest("linear", names, 0));
    char lengthy[400];
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    cr_assert_null(dt_text_nearest(lengthy, names, 5));
    const char *const hostile[] = {lengthy, "ab"};
    cr_assert_str_eq(dt_text_nearest("aab", hostile, 2), "ab");
    const char *const cases[] = {"Adamw", "adamw"};
    /* the case of its letters is more similar */
    cr_assert_str_eq(dt_text_nearest("adamW", cases, 2), "adamw");
    cr_assert_str_eq(dt_text_nearest("AdamW", cases, 2), "Adamw");
}

/* Formats without any options take another path in the code than others. */
Test(text, printf_is_snprintf)
{
#define SAME(...)                                                                      \
    do {                                                                               \
        char want[200];                                                                \
        DtText text = {0};                                                             \
        snprintf(want, sizeof want, __VA_ARGS__);                                      \
        dt_text_printf(&text, __VA_ARGS__);                                            \
        cr_expect_str_eq(text.at, want);                                               \
        cr_expect_eq(text.len, strlen(want));                                          \
        dt_text_free(&text);                                                           \
    } while (0)
    const char *volatile none = NULL; /* volatile, because otherwise the compiler would warn */
    SAME("%s", "");
    SAME("nothing but this");
    SAME("%%");
    SAME("%s%s|%u %d%%%lld.", "ab", "", 4294967295u, INT32_MIN, (long long)INT64_MIN);
    SAME("%d %d %u %lld %lld", 0, INT32_MAX, 0u, (long long)INT64_MAX, -1ll);
    SAME("[%s] %d", none, -7);
    SAME("%5d|%-4s|%c|%x|%g|%zu", 42, "ab", 'c', 255u, 1.5, (size_t)9);
    SAME("%d %.3f %s", 1, 2.0 / 3, "end");
#undef SAME
}

static void word_is(const char *word, const char *wanted)
{
    DtText text = {0};
    dt_text_add_word(&text, word);
    cr_assert_str_eq(text.at, wanted);
    dt_text_free(&text);
}

Test(text, words_of_a_shell)
{
    word_is("runs/a-1.plan", "runs/a-1.plan");
    word_is("", "''");
    word_is("two words", "'two words'");
    word_is("*.txt", "'*.txt'");
    word_is("it's $HOME", "'it'\\''s $HOME'");
}
