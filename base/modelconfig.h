/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of a model of Hugging Face: the numbers that its layers were made with. The file is a
 * stranger's: its size and its depth are bounded. */
#ifndef DT_BASE_MODELCONFIG_H
#define DT_BASE_MODELCONFIG_H

#include "base/arena.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* Reads a file that holds one JSON object of at most 64 MiB; the caller releases *ret_json with
 * json_decref. On failure *ret_json is NULL. */
DtStatus dt_modelconfig_read(DtArena *arena, const char *path, json_t **ret_json);

/* Parses a text of JSON that ends in a zero byte, and may change the text; NULL on failure.
 * Integers of any size are allowed: transformers writes 10^30 as 1000000000000000019884624838656
 * where a tokenizer has no `model_max_length`. One of more than 63 bits becomes a real. */
json_t *dt_modelconfig_parse(char *text, size_t len, json_error_t *ret_error);

/* Returns the first of the keys whose member is there and not null; NULL: none is. "a, b.c, d.2":
 * member `a`, or member `c` of member `b`, or the third element of the list `d`. */
const json_t *dt_modelconfig_find(DtArena *arena, const json_t *config, const char *keys);

/* Returns the number of members of an object that are called "0", "1" and so on, as those of
 * `id2label`; -1: it is no such object. */
int64_t dt_modelconfig_numbered(const json_t *object);

/* Compares the member that dt_modelconfig_find finds with the values that a program allows, a JSON
 * array; null allows that the member is not there. Numbers are equal if they are the same f32. A
 * list of one value counts as the value, an object of numbered members as their number. Returns
 * NULL if one is equal, else what differs: "`KEY` is 4, and the program says 8". */
const char *dt_modelconfig_differs(DtArena *arena, const json_t *config, const char *keys,
                                   const char *values);

/* Returns the value as JSON, cut off where it is long; "not there" for NULL. */
const char *dt_modelconfig_text(DtArena *arena, const json_t *value);

/* Returns the error message if the config says that the weights in the folder are quantised, with
 * the command that converts them; NULL: they are not. */
const char *dt_modelconfig_quantised(DtArena *arena, const json_t *config, const char *folder);

/* Returns that command for weights quantised by the method, "fp8", "mxfp4", or another. It has the
 * word FOLDER in place of a folder with a long name, so that messages do not cut it off. */
const char *dt_modelconfig_dequantise(DtArena *arena, const char *folder, const char *method);

#endif
