#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokenizer/unicode.def and tokenizer/nfc.def: what the classes of a pattern (\\p{L}, \\s, \\w) contain, and how
text is composed (NFC), as the Python package `tokenizers` sees it.

    pip install tokenizers && scripts/unicode_classes.py          # writes both files
    scripts/unicode_classes.py --check                            # only says whether they differ

The package is asked for every code point, so the tables are those of the Unicode version of its regular expressions
(Oniguruma) and of its normaliser, whatever version Python or the system has.
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SETS = [("SPACE", r"\s"), ("WORD", r"\w"), ("HAN", r"\p{Han}"), ("HIRAGANA", r"\p{Hiragana}"),
        ("KATAKANA", r"\p{Katakana}"), ("HANGUL", r"\p{Hangul}"), ("LATIN", r"\p{Latin}"),
        ("CYRILLIC", r"\p{Cyrillic}"), ("GREEK", r"\p{Greek}"), ("ARABIC", r"\p{Arabic}"), ("HEBREW", r"\p{Hebrew}"),
        ("THAI", r"\p{Thai}"), ("DEVANAGARI", r"\p{Devanagari}")]
COLUMNS = 116


def members(tokenizers, pattern):
    """The code points that the class of `tokenizers` contains."""
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern + "+"), "removed")
    text = "".join(map(chr, POINTS))
    found, at = set(), 0
    for _, (first, end) in split.pre_tokenize_str(text):
        found.update(POINTS[at:first])
        at = end
    found.update(POINTS[at:])
    return found


def ranges(points):
    """Sorted (first, last) of a set of code points."""
    result = []
    for c in sorted(points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def lines(rows):
    """Rows, several on a line."""
    text = ""
    for row in rows:
        if text and len(text) + 1 + len(row) > COLUMNS:
            yield text
            text = ""
        text += (" " if text else "") + row
    if text:
        yield text


def classes(tokenizers):
    """The text of tokenizer/unicode.def."""
    out = ["/* SPDX-License-Identifier: Apache-2.0 */",
           "/* Written by scripts/unicode_classes.py, which asks the Python package tokenizers %s. */" %
           tokenizers.__version__,
           "/* DT_CATEGORY(name, first, last): code points of a general category, in ascending order; those in no row",
           " * are not assigned (Cn), or surrogates (Cs). */"]
    rows = []
    for name in CATEGORIES:
        rows += [(first, last, name) for first, last in ranges(members(tokenizers, r"\p{%s}" % name))]
    out += lines("DT_CATEGORY(%s, 0x%X, 0x%X)" % (name, first, last) for first, last, name in sorted(rows))
    out += ["#undef DT_CATEGORY", "/* DT_MEMBER(set, first, last): the same for other sets. */"]
    for name, pattern in SETS:
        out += lines("DT_MEMBER(%s, 0x%X, 0x%X)" % (name, *row) for row in ranges(members(tokenizers, pattern)))
    return "\n".join(out + ["#undef DT_MEMBER", ""])


def composition(tokenizers):
    """The text of tokenizer/nfc.def."""
    import unicodedata
    nfd, nfc = tokenizers.normalizers.NFD().normalize_str, tokenizers.normalizers.NFC().normalize_str
    hangul = range(0xAC00, 0xD7A4)
    out = ["/* SPDX-License-Identifier: Apache-2.0 */",
           "/* Written by scripts/unicode_classes.py, which asks the Python package tokenizers %s. */" %
           tokenizers.__version__,
           "/* DT_DECOMPOSED(point, n, a, b, c, d): canonical decomposition in full, n code points; Hangul is computed. */"]
    full = {c: nfd(chr(c)) for c in POINTS if c not in hangul and nfd(chr(c)) != chr(c)}
    for text in full.values():
        assert len(text) <= 4, text
    out += lines("DT_DECOMPOSED(0x%X, %d, %s)" % (c, len(t), ", ".join("0x%X" % p for p in
                 (list(map(ord, t)) + [0] * 4)[:4])) for c, t in sorted(full.items()))
    out += ["#undef DT_DECOMPOSED", "/* DT_COMPOSED(a, b, point): what two code points become. */"]
    pairs = []
    for c, text in full.items():
        if nfc(chr(c)) != chr(c):
            continue
        first = nfc(text[:-1])
        assert len(first) == 1 and nfc(first + text[-1]) == chr(c), hex(c)
        pairs.append((ord(first), ord(text[-1]), c))
    out += lines("DT_COMPOSED(0x%X, 0x%X, 0x%X)" % row for row in sorted(pairs))
    out += ["#undef DT_COMPOSED", "/* DT_COMBINING(class, first, last): combining classes other than 0. */"]
    # The class orders marks: two marks with classes a > b > 0 are exchanged.
    marks = {c: unicodedata.combining(chr(c)) for c in POINTS if unicodedata.combining(chr(c))}
    unknown = [c for c in POINTS if c not in marks and c not in full and c not in hangul and nfd(chr(c) + "\u0334") != chr(c) + "\u0334"]
    for c in unknown:  # newer than Python's table: a class between those of known marks
        marks[c] = combining(nfd, chr(c), sorted({v: chr(k) for k, v in marks.items()}.items()))
    # marks that the package does not know, as its table is older than Python's
    for c in [c for c in marks if nfd("\u0334" + chr(c) + "\u0334") == "\u0334" + chr(c) + "\u0334" and marks[c] > 1
              and nfd(chr(c) + "\u0334") == chr(c) + "\u0334"]:
        del marks[c]
    rows = []
    for value in sorted(set(marks.values())):
        rows += [(first, last, value) for first, last in ranges({c for c in marks if marks[c] == value})]
    out += lines("DT_COMBINING(%d, 0x%X, 0x%X)" % (value, first, last) for first, last, value in sorted(rows))
    return "\n".join(out + ["#undef DT_COMBINING", ""])


def combining(nfd, mark, known):
    """The combining class of a mark, by how it is ordered among marks of known classes."""
    for value, other in known:
        before, after = nfd(other + mark) == other + mark, nfd(mark + other) == mark + other
        if before and after:
            return value
    raise SystemExit("the class of U+%04X is not known" % ord(mark))


def main():
    import tokenizers
    differ = False
    for name, text in (("unicode.def", classes(tokenizers)), ("nfc.def", composition(tokenizers))):
        path = os.path.join(ROOT, "tokenizer", name)
        old = open(path, encoding="ascii").read() if os.path.exists(path) else ""
        differ |= old.split("\n", 2)[2:] != text.split("\n", 2)[2:]
        if "--check" not in sys.argv and old != text:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
    if "--check" in sys.argv:
        print("unicode_classes: the tables %s" % ("differ" if differ else "are those of tokenizers"))
        return differ
    return 0


if __name__ == "__main__":
    sys.exit(main())
