/* SPDX-License-Identifier: Apache-2.0 */
/* The normalisation forms of Unicode, of text that is valid UTF-8. Their tables come with the
 * program (nfc.def, forms.def), so they do not depend on the Unicode version of any library. */
#ifndef DT_TOKENIZER_FORMS_H
#define DT_TOKENIZER_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DtForm { DT_NFC, DT_NFD, DT_NFKC, DT_NFKD, DT_FORMS } DtForm;

/* Whether the text is certainly in the form. */
bool dt_forms_is(DtForm form, const uint8_t *text, size_t len);
/* Writes the text in the form; it needs at most this times the room. */
enum { DT_FORM_GROWTH = 3, DT_FORM_GROWTH_K = 11 };
size_t dt_forms_write(DtForm form, const uint8_t *text, size_t len, uint8_t *ret_text);
/* The same without a look at what is in that form already: the plain reference. */
size_t dt_forms_plain(DtForm form, const uint8_t *text, size_t len, uint8_t *ret_text);
/* The last place, at most len and at least 1 if there is any, at which the text may be cut without
 * changing its form; 0: there is none. */
size_t dt_forms_cut(DtForm form, const uint8_t *text, size_t len);

/* Hands on each code point whose lower case is another, with the n code points of it. */
void dt_forms_each_lower(void *context, void (*take)(void *context, uint32_t point, uint32_t n,
                                                     const uint32_t *to));

#endif
