/* SPDX-License-Identifier: Apache-2.0 */
/* The terms of long sums as shared trees. A list of all terms for each of n partial sums would hold n * n of them: a
 * value that each of n layers adds to has such sums, forward and backward. Here a sum shares with the next one all but
 * a few branches.
 *
 * A tree of terms is a binary trie over the numbers of the terms: a branch has those whose number lacks the highest bit
 * in which two of its terms differ, and those that have it. A term that occurs more than once is a leaf with its count.
 * So one multiset of terms has one tree, and as branches and leaves are nodes like others (equal ones are one), equal
 * sums have the same root: no digest is compared, nothing collides.
 *
 * A branch has that bit as `hi`, what is above it as `index`, the count of all its terms as `lo`. */
#include "verify/internal.h"

#include "base/intern.h"

const char dt_certkind_terms[] = "terms", dt_certkind_times[] = "times";

int64_t dt_certterms_count(const CertNode *x)
{
    return x->kind == dt_certkind_terms || x->kind == dt_certkind_times ? x->lo : 1;
}

/* The highest bit in which terms of x differ; 0: there is one. */
static uint64_t bit_of(const CertNode *x) { return x->kind == dt_certkind_terms ? (uint64_t)x->hi : 0; }

static uint64_t prefix_of(const CertNode *x)
{
    return x->kind == dt_certkind_terms ? x->index : x->kind == dt_certkind_times ? x->in[0]->id : x->id;
}

/* Whether terms with this prefix belong below x, a branch. */
static bool is_below(uint64_t prefix, const CertNode *x) { return (prefix & ~(2 * bit_of(x) - 1)) == prefix_of(x); }

static CertNode *branch(CertNodes *nodes, uint64_t bit, uint64_t prefix, CertNode *without, CertNode *with)
{
    CertNode *in[] = {without, with};
    return dt_certnode_make(nodes, (CertNode){.kind = dt_certkind_terms,
                                              .attributes = dt_intern(""),
                                              .n_in = 2,
                                              .in = in,
                                              .index = (uint32_t)prefix,
                                              .hi = (int64_t)bit,
                                              .lo = dt_certterms_count(without) + dt_certterms_count(with)});
}

CertNode *dt_certterms_times(CertNodes *nodes, CertNode *term, int64_t count)
{
    return count == 1 ? term
                      : dt_certnode_make(nodes, (CertNode){.kind = dt_certkind_times,
                                                           .attributes = dt_intern(""),
                                                           .n_in = 1,
                                                           .in = &term,
                                                           .lo = count});
}

CertNode *dt_certterms_join(CertNodes *nodes, CertNode *x, CertNode *y)
{
    if (!x || !y)
        return x ? x : y;
    if (bit_of(x) < bit_of(y)) {
        CertNode *other = x;
        x = y;
        y = other;
    }
    const uint64_t bit = bit_of(x), mine = prefix_of(x), theirs = prefix_of(y);
    if (bit && bit == bit_of(y) && mine == theirs)
        return branch(nodes, bit, mine, dt_certterms_join(nodes, x->in[0], y->in[0]),
                      dt_certterms_join(nodes, x->in[1], y->in[1]));
    if (!bit && mine == theirs)
        return dt_certterms_times(nodes, x->kind == dt_certkind_times ? x->in[0] : x,
                                  dt_certterms_count(x) + dt_certterms_count(y));
    if (bit > bit_of(y) && is_below(theirs, x))
        return theirs & bit ? branch(nodes, bit, mine, x->in[0], dt_certterms_join(nodes, x->in[1], y))
                            : branch(nodes, bit, mine, dt_certterms_join(nodes, x->in[0], y), x->in[1]);
    uint64_t differ = mine ^ theirs, highest = 1;
    while (differ >>= 1)
        highest *= 2;
    return branch(nodes, highest, mine & ~(2 * highest - 1), mine & highest ? y : x, mine & highest ? x : y);
}

uint32_t dt_certterms_list(CertNode *x, CertNode **ret_terms)
{
    if (x->kind == dt_certkind_terms) {
        const uint32_t n = dt_certterms_list(x->in[0], ret_terms);
        return n + dt_certterms_list(x->in[1], ret_terms + n);
    }
    const uint32_t n = (uint32_t)dt_certterms_count(x);
    for (uint32_t i = 0; i < n; i++)
        ret_terms[i] = x->kind == dt_certkind_times ? x->in[0] : x;
    return n;
}
