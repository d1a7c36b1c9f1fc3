# SPDX-License-Identifier: Apache-2.0
"""Samples as docs/data.md describes them: a slow, plain reference for tests of samplers and mixtures. Random numbers are
those of the program: Philox 4x32-10 (Salmon et al., 2011), keyed by XXH3."""
import ctypes
import math

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64


def hash_text(text, seed):
    data = text.encode()
    return _xxhash.XXH3_64bits_withSeed(data, ctypes.c_size_t(len(data)), ctypes.c_uint64(seed))


def philox(key, call, step, iteration):
    x = [call & MASK32, call >> 32, step, iteration]
    k = [key & MASK32, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k[0], b & MASK32, (a >> 32) ^ x[3] ^ k[1], a & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return x


def words(key, element, sample):
    return philox(key, element, sample & MASK32, sample >> 32)


# ---- order


def permuted(key, epoch, n, index):
    """A Feistel network of 8 rounds over the next even number of bits; what it maps outside is mapped again."""
    if n < 2:
        return 0
    half = 1
    while (n - 1) >> (2 * half):
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = index >> half & mask, index & mask
        for turn in range(8):
            word = philox(key, right | (epoch >> 32) << 32, epoch & MASK32, turn)[0]
            left, right = right, left ^ (word & mask)
        index = left << half | right
        if index < n:
            return index


def offset_of(key, epoch, bound):
    word = philox(key, (epoch >> 32) << 32, epoch & MASK32, 255)
    return (word[0] << 32 | word[1]) % bound


class Stream:
    """The part of a stream that a sampler cuts into windows of `row` tokens, each with `more` after it."""

    def __init__(self, tokens, row, more, key, is_eval=False):
        self.tokens, self.row, self.more, self.key, self.is_eval = tokens, row, more, key, is_eval
        total = len(tokens)
        self.n, self.offsets = (total - more) // row, 1
        if not is_eval:
            self.n = total // row - 1 if total // row > 2 else 1
            self.offsets = min(row, total - self.n * row + 1 - more)

    def window(self, sample):
        epoch, index = divmod(sample, self.n)
        at = index * self.row
        if not self.is_eval:
            at = offset_of(self.key, epoch, self.offsets) + permuted(self.key, epoch, self.n, index) * self.row
        return self.tokens[at:at + self.row + self.more]


# ---- samplers


def below(word, n):
    return word * n >> 32


def choose(draws, wanted):
    """Which of the things are chosen, one word for each: exactly `wanted`, any as likely as any other."""
    chosen = []
    for i, word in enumerate(draws):
        chosen.append(below(word, len(draws) - i) < wanted - sum(chosen))
    return chosen


def masked(window, sample, key, rate, mask, special, vocab):
    """mlm: tokens and labels of a sample."""
    special = set(special) | {mask}
    free = [i for i, token in enumerate(window) if token not in special]
    drawn = [token for token in range(vocab) if token not in special]
    word = {i: words(key, i, sample) for i in free}
    wanted = max(1, math.floor(rate * len(free) + 0.5)) if free else 0
    tokens, labels = list(window), [-1] * len(window)
    for i, chosen in zip(free, choose([word[i][0] for i in free], wanted)):
        if not chosen:
            continue
        labels[i] = window[i]
        tenth = below(word[i][1], 10)
        if tenth < 8:
            tokens[i] = mask
        elif tenth == 8:
            tokens[i] = drawn[below(word[i][2], len(drawn))]
    return tokens, labels


def span_numbers(source, rate, mean):
    """The window, what is removed of it, and in how many spans: T5's rule, tried one after the other."""
    found, tokens = None, 2
    while True:
        noise = min(max(round(tokens * rate), 1), tokens - 1)
        spans = max(round(noise / mean), 1)
        if tokens - noise + spans + 1 > source:
            return found
        found = (tokens, noise, spans)
        tokens += 1


def lengths(draws, parts):
    """Lengths of the parts of len(draws) + 1 things, each at least 1."""
    cuts = [i + 1 for i, cut in enumerate(choose(draws, parts - 1)) if cut]
    return [end - first for first, end in zip([0] + cuts, cuts + [len(draws) + 1])]


def corrupted(window, sample, key, numbers, sentinel, end):
    """span_corruption: source and labels of a sample."""
    tokens, noise, spans = numbers
    removed = lengths([words(key, i, sample)[0] for i in range(noise - 1)], spans)
    kept = lengths([words(key, i, sample)[1] for i in range(tokens - noise - 1)], spans)
    source, labels, at = [], [], 0
    for i in range(spans):
        source += window[at:at + kept[i]] + [sentinel - i]
        at += kept[i]
        labels += [sentinel - i] + window[at:at + removed[i]]
        at += removed[i]
    return source + [end], labels + [end]


# ---- mixtures


def shares(weights):
    """Of what the sources before it leave, in 2^-64."""
    rest = [0.0]
    for weight in reversed(weights):
        rest.append(rest[-1] + weight)
    rest.reverse()
    return [min(int(math.ldexp(weight / all_of, 64)), MASK64) for weight, all_of in zip(weights, rest)]


def mixed(weights, n):
    """The source of each of n samples, and the sample's number there: what is due to a source adds up, from a half on; the
    first source to which a whole sample is due gets it."""
    part, due, found, count = shares(weights), [1 << 63] * len(weights), [], [0] * len(weights)
    for _ in range(n):
        for i in range(len(weights)):
            due[i] += part[i]
            if i + 1 == len(weights) or due[i] > MASK64:
                due[i] &= MASK64
                break
        found.append((i, count[i]))
        count[i] += 1
    return found
