/* SPDX-License-Identifier: Apache-2.0 */
/* Compares texts with a file, tests/golden/NAME.txt; DT_BLESS=1 rewrites the file. */
#ifndef DT_TESTS_GOLDEN_H
#define DT_TESTS_GOLDEN_H

#include "base/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void golden_compare(const char *name, const DtText *text)
{
    char path[200];
    snprintf(path, sizeof path, "tests/golden/%s.txt", name);
    const bool bless = getenv("DT_BLESS") != NULL;
    FILE *file = fopen(path, bless ? "wb" : "rb");
    cr_assert(file != NULL, "%s: cannot open; DT_BLESS=1 writes it", path);
    if (bless) {
        cr_assert_eq(fwrite(text->at, 1, text->len, file), text->len);
        fclose(file);
        return;
    }
    char *known = malloc(text->len + 2);
    const size_t n = fread(known, 1, text->len + 1, file);
    fclose(file);
    known[n] = 0;
    const bool same = n == text->len && memcmp(known, text->at, n) == 0;
    cr_assert(same, "%s is\n%s\nand now would be\n%s", path, known, text->at);
    free(known);
}

#endif
