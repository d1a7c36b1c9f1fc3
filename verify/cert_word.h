/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the certificate's IR text: names, numbers, types (cert_word.c). A word that is
 * not expected is reported once, with its line, and ends the reading. */
#ifndef DT_VERIFY_CERT_WORD_H
#define DT_VERIFY_CERT_WORD_H

#include "verify/internal.h"

/* A text, and the object that was made from it, so that an equal text gives the same object. */
typedef struct CertKnown {
    const char *text;
    size_t len;
    uint64_t hash;
    const void *made;
    struct CertKnown *next;
} CertKnown;

enum { CERT_TEXTS = 1 << 12 };

typedef struct CertReader {
    const char *at;
    CertProgram *program;
    DtText *problem;
    bool failed;
    const char *sum; /* the interned word "sum" */
    CertKnown *known[CERT_TEXTS];
    DtText scratch;
} CertReader;

/* Records that `what` was expected here, if it is the first problem; returns false. */
bool dt_certword_fail(CertReader *r, const char *what);
/* take: whether `piece` comes next (after blanks); then moves past it. expect: reports a problem if
 * it does not. */
bool dt_certword_take(CertReader *r, const char *piece);
bool dt_certword_expect(CertReader *r, const char *piece);
bool dt_certword_at_end(CertReader *r);
void dt_certword_end_of_line(CertReader *r);
bool dt_certword_is_part(char c); /* whether the character can be part of a name */

const char *dt_certword_name_of(CertReader *r); /* reads a name, bare or quoted; interned */
int64_t dt_certword_integer(CertReader *r);
uint32_t dt_certword_number_of(CertReader *r, uint32_t most); /* reads a number in 0 .. most */
uint32_t dt_certword_value_of(CertReader *r);                 /* reads %name.7: 7 */
/* skips a value of which at most the text matters */
void dt_certword_pass_over(CertReader *r);
uint8_t dt_certword_mesh_axis(CertReader *r);
uint16_t dt_certword_mesh_set(CertReader *r); /* skips to the closing bracket */
const CertType *dt_certword_type_of(CertReader *r);
/* Reads according to a pattern: %n a name, %i an integer, %t a type; other characters stand for
 * themselves, with or without blanks before them. */
bool dt_certword_scan(CertReader *r, const char *pattern, ...);

/* Returns where the object made from this text (a type, a kind, a function) is cached, NULL at
 * first. The text must live as long as r. */
const void **dt_certword_known(CertReader *r, const char *text, size_t len);

#endif
