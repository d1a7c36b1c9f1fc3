# SPDX-License-Identifier: Apache-2.0
"""Philox-4x32-10 and its keys, written from docs/language.md, section 3, without looking at the
compiler."""

import numpy as np
import xxhash

M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
LOW, HALF, EIGHT = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)


def words(key, element, step, iteration):
    """The four output words for an array of 64-bit element numbers."""
    element = np.asarray(element, dtype=np.uint64)
    c0, c1 = element & LOW, element >> HALF
    c2, c3 = np.full_like(element, step), np.full_like(element, iteration)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(M0) * c0, np.uint64(M1) * c2
        c0, c1, c2, c3 = (
            (p1 >> HALF) ^ c1 ^ np.uint64(k0),
            p1 & LOW,
            (p0 >> HALF) ^ c3 ^ np.uint64(k1),
            p0 & LOW,
        )
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def uniform(key, element, step, iteration):
    """[0, 1), multiples of 2**-24."""
    return (words(key, element, step, iteration)[0] >> EIGHT).astype(np.float64) * 2.0**-24


def draw(key, element, step, iteration):
    """Elements of a random draw in a step: element e is word e mod 4 of call e / 4."""
    element = np.asarray(element, dtype=np.uint64)
    four = np.stack(words(key, element // np.uint64(4), step, iteration))
    word = np.take_along_axis(four, (element % np.uint64(4)).astype(np.int64)[None], 0)[0]
    return (word >> EIGHT).astype(np.float64) * 2.0**-24


def normal(key, element, step, iteration):
    """Standard normal, after Box and Muller."""
    w0, w1, _, _ = words(key, element, step, iteration)
    u = ((w0 >> EIGHT).astype(np.float64) + 1) * 2.0**-24
    v = (w1 >> EIGHT).astype(np.float64) * 2.0**-24
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)


def key(site, seed):
    return xxhash.xxh3_64_intdigest(site.encode(), seed)


def elements(axes, extents):
    """Random numbers of a tensor's elements, numbered row-major over its axes sorted by name. The
    result has the given shape."""
    number = np.zeros(extents, dtype=np.uint64)
    for name in sorted(axes):
        i = list(axes).index(name)
        shape = [1] * len(axes)
        shape[i] = extents[i]
        number = number * np.uint64(extents[i]) + np.arange(extents[i], dtype=np.uint64).reshape(
            shape
        )
    return number
