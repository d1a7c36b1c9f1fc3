#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokenizer/unicode.def, nfc.def and forms.def: what the classes of a pattern (\\p{L}, \\s, \\w) and of steps
(punctuation, accents) contain, how text is composed (NFC), its compatibility forms (NFKC) and its lower case, as the
Python package `tokenizers` sees them.

    pip install tokenizers && scripts/unicode_classes.py          # writes the files
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
    sets = [(name, members(tokenizers, pattern)) for name, pattern in SETS] + step_sets(tokenizers)
    for name, points in sets + grapheme_sets(tokenizers):
        out += lines("DT_MEMBER(%s, 0x%X, 0x%X)" % (name, *row) for row in ranges(points))
    return "\n".join(out + ["#undef DT_MEMBER", ""])


def pieces(step, form="a%sa"):
    """How many pieces a pre-tokenizer makes of each code point in a text."""
    return {c: len(step.pre_tokenize_str(form % chr(c))) for c in POINTS}


def becomes(normalizer, text):
    """The code points that a normalizer turns into this text."""
    return {c for c in POINTS if chr(c) != text and normalizer.normalize_str(chr(c)) == text}


def step_sets(tokenizers):
    """What steps of tokenizers call a space, a word, punctuation, a number, an accent, a control character. Each follows
    a library of its own, so they differ from the classes of patterns in new code points."""
    pre, norm = tokenizers.pre_tokenizers, tokenizers.normalizers
    bert = {name: norm.BertNormalizer(**{key: key == name for key in
                                         ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")})
            for name in ("clean_text", "handle_chinese_chars", "strip_accents")}
    space = {c for c, n in pieces(pre.WhitespaceSplit()).items() if n == 2}
    words = {c for c, n in pieces(pre.Whitespace()).items() if n == 1}
    punctuation = {c for c, n in pieces(pre.Punctuation()).items() if n == 3}
    assert space == members(tokenizers, r"\s")
    assert punctuation == {c for c, n in pieces(pre.BertPreTokenizer()).items() if n == 3}
    gone = becomes(bert["clean_text"], "")
    assert becomes(bert["clean_text"], " ") == space - gone - {0x20}
    chinese = {c for c in POINTS if bert["handle_chinese_chars"].normalize_str(chr(c)) == " %s " % chr(c)}
    return [("STEP_WORD", words), ("STEP_PUNCTUATION", punctuation),
            ("STEP_NUMBER", {c for c, n in pieces(pre.Digits(True)).items() if n == 3}),
            ("STEP_MARK", becomes(norm.StripAccents(), "")), ("BERT_MARK", becomes(bert["strip_accents"], "")),
            ("BERT_CONTROL", gone), ("BERT_CHINESE", chinese),
            ("NMT_CONTROL", becomes(norm.Nmt(), "")), ("NMT_SPACE", becomes(norm.Nmt(), " "))]


def lead_bytes():
    """A charsmap (a double array of Darts) in which each first byte of UTF-8 becomes `z`: text of graphemes of at most 5
    bytes becomes one z for each, and longer ones one for each code point."""
    leads = [*range(1, 0x80), *range(0xC2, 0xF5)]
    units = [0] * 1024
    units[0] = 256 << 10
    for c in leads:
        units[256 + c] = (512 ^ (256 + c)) << 10 | 1 << 8 | c
    units[512] = 1 << 31
    array = b"".join(u.to_bytes(4, "little") for u in units)
    return len(array).to_bytes(4, "little") + array + b"z\0"


def grapheme_sets(tokenizers):
    """What decides where graphemes end (Unicode Standard Annex 29), as far as those of at most 5 bytes depend on it."""
    count = tokenizers.normalizers.Precompiled(lead_bytes()).normalize_str

    def those(form, n):
        return {c for c in POINTS if c and len(count(form % chr(c))) == n}
    extends, prepends = those("a%s", 1), those("%sa", 1)
    controls = those("%s\u0301", 2) - {c for c in POINTS if c > 0xFFFF}
    pictographs = those("\u00a9\u200d%s", 3) - extends
    consonants = those("\u0915\u094d%s\u0301", 4) - extends - controls
    linkers = those("\u0915%s\u0937\u0301", 4) & extends
    long_ones = {c for c in POINTS if c > 0xFFFF and len(count("%s\u094d\u0937\u0301" % chr(c))) == 4} - extends
    return [("GRAPHEME_EXTEND", extends), ("GRAPHEME_PREPEND", prepends), ("GRAPHEME_CONTROL", controls),
            ("GRAPHEME_PICTOGRAPH", pictographs), ("GRAPHEME_CONSONANT", consonants | long_ones - prepends),
            ("GRAPHEME_LINKER", linkers)]


def forms(tokenizers):
    """The text of tokenizer/forms.def."""
    norm = tokenizers.normalizers
    nfd, nfkd, lower = norm.NFD().normalize_str, norm.NFKD().normalize_str, norm.Lowercase().normalize_str
    out = ["/* SPDX-License-Identifier: Apache-2.0 */",
           "/* Written by scripts/unicode_classes.py, which asks the Python package tokenizers %s. */" %
           tokenizers.__version__,
           "/* DT_COMPATIBLE(point, n, ...): compatibility decomposition in full, n code points, where the canonical one is",
           " * another. */"]
    out += lines("DT_COMPATIBLE(0x%X, %d, %s)" % (c, len(nfkd(chr(c))), ", ".join("0x%X" % ord(p) for p in nfkd(chr(c))))
                 for c in POINTS if nfkd(chr(c)) != nfd(chr(c)))
    out += ["#undef DT_COMPATIBLE", "/* DT_LOWER(point, n, a, b): lower case, n code points. */"]
    small = [(c, lower(chr(c))) for c in POINTS if lower(chr(c)) != chr(c)]
    assert max(len(text) for _, text in small) <= 2
    out += lines("DT_LOWER(0x%X, %d, 0x%X, 0x%X)" % (c, len(t), ord(t[0]), ord(t[1]) if len(t) > 1 else 0)
                 for c, t in small)
    return "\n".join(out + ["#undef DT_LOWER", ""])


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
    tables = (("unicode.def", classes), ("nfc.def", composition), ("forms.def", forms))
    for name, text in ((name, table(tokenizers)) for name, table in tables):
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
