/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of brackets and values, next to what a parser finds. */
#include "base/jsonshape.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

static uint64_t values_of(const json_t *value)
{
    const char *key;
    json_t *one;
    size_t i;
    uint64_t n = 1;
    if (json_is_object(value))
        json_object_foreach((json_t *)value, key, one) n += values_of(one);
    json_array_foreach(value, i, one) n += values_of(one);
    return n;
}

Test(jsonshape, has_as_many_values_as_a_parser_finds)
{
    static const struct {
        const char *text;
        uint64_t brackets, depth, values;
    } cases[] = {
        {"3", 0, 0, 1},
        {"[]", 1, 1, 2}, /* one more than there are */
        {"[1,2,3]", 1, 1, 4},
        {"{\"a\":[1,{\"b\":[[2]]}],\"c\":\"d\"}", 5, 5, 8},
        {"[\"]]],[[[\",\"\\\"[,\\\\\",\"\\\\\"]", 1, 1, 4}, /* brackets in texts */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const DtJsonShape shape = dt_jsonshape_count(cases[i].text, strlen(cases[i].text));
        json_t *parsed = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
        cr_assert(parsed);
        cr_expect_eq(shape.brackets, cases[i].brackets, "%s", cases[i].text);
        cr_expect_eq(shape.depth, cases[i].depth, "%s", cases[i].text);
        cr_expect_eq(shape.values, cases[i].values, "%s", cases[i].text);
        cr_expect_geq(shape.values, values_of(parsed), "%s", cases[i].text);
        json_decref(parsed);
    }
}

Test(jsonshape, reads_what_is_no_json)
{
    cr_expect_eq(dt_jsonshape_count("]]]}[", 5).depth, 1);
    cr_expect_eq(dt_jsonshape_count("\"\\", 2).values, 1);
    cr_expect_eq(dt_jsonshape_count("[,[,[,", 6).values, 7);
}
