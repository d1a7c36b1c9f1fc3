# SPDX-License-Identifier: Apache-2.0
"""Texts and tokenizers for tests: text of many scripts, and small tokenizers in the forms in which GPT-2, Llama 3, Qwen
and others were published. Training needs the Python package `tokenizers`; the texts need nothing."""
import glob
import os
import random

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""]

SAMPLES = [  # a line in each of many scripts
    "The quick brown fox isn't here; it's DON'T we'll I'D they'Ve jumped 1234567 times over 3.14159 dogs!!",
    "  def f(x, *args):\n\t\treturn {'a': x ** 2, \"b\": [i for i in range(10)]}  # comment\n\n\n",
    "Größe, façade, naïve, Ångström, cafe\u0301, Tiếng Việt, e\u0323\u0302, ſ'ſ K'K",
    "Быстрая коричневая лиса прыгает через ленивую собаку, 2024 год.",
    "快速的棕色狐狸跳过了懒狗。今天天气很好！１２３４５", "素早い茶色の狐がのろまな犬を飛び越えた。カタカナ",
    "다람쥐 헌 쳇바퀴에 타고파 \u1112\u1161\u11ab", "الثعلب البني السريع يقفز فوق الكلب الكسول ١٢٣",
    "השועל החום המהיר קופץ מעל הכלב העצלן", "तेज भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है १२३", "สุนัขจิ้งจอกสีน้ำตาล",
    "👩‍👩‍👧‍👦 🇩🇪 ☃️ ∑∫√ €£¥ №½¾ ⅷ ²³ ①", "a\u00a0b\u2003c\u200bd\u3000e\ufefff\u180eg\u0085h\u2028i",
    "\r\n\r\n   \n \t \r\n x", "http://example.com/a?b=c&d=%20#e <div class=\"x\">&nbsp;</div>",
    "\x00\x01\x1f\x7f control", "words" * 60 + " " * 300 + "-" * 200, "\u0301\u0323 marks first \u0327\u0301a",
]


def text(size, seed=1):
    """Mixed text of about `size` bytes: lines of this tree's files, samples, random code points."""
    rng = random.Random(seed)
    lines = []
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")) + glob.glob(os.path.join(ROOT, "runtime", "*.c"))):
        with open(path, encoding="utf-8") as file:
            lines += file.readlines()
    out, n = [], 0
    while n < size:
        kind = rng.random()
        if kind < 0.6:
            at = rng.randrange(len(lines))
            piece = "".join(lines[at:at + rng.randrange(1, 40)])
        elif kind < 0.9:
            piece = " ".join(rng.choice(SAMPLES) for _ in range(rng.randrange(1, 8))) + rng.choice(["", " ", "\n"])
        elif kind < 0.95:
            piece = "".join(chr(point(rng)) for _ in range(rng.randrange(1, 60)))
        else:
            piece = rng.choice(["<|endoftext|>", " <|endoftext|> ", "<|endoftext|", "<|im_start|>user\n", "<mask>",
                                "  <mask>\n", "<|endoftext|>\u0338"])
        out.append(piece)
        n += len(piece.encode())
    return "".join(out)


def point(rng):
    """A random code point, mostly of the planes in use."""
    c = rng.randrange(rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000]))
    return 0x20 if 0xD800 <= c < 0xE000 else c


def every_point():
    """Text that has every code point in several surroundings."""
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for form in ("a{0}b ", "'{0} {0}{0}\n", "e{0}\u03011"):
        yield "".join(form.format(chr(c)) for c in points)


def train(tokenizers, name, corpus, size=2000):
    """A tokenizer in the form of a published one, trained on the corpus."""
    pre, models, post = tokenizers.pre_tokenizers, tokenizers.models, tokenizers.processors
    result = tokenizers.Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    bytes_only = pre.ByteLevel(add_prefix_space=False, use_regex=False)

    def split(pattern, behavior="isolated", invert=False):
        return pre.Split(tokenizers.Regex(pattern), behavior, invert)
    steps = {
        "gpt2": [pre.ByteLevel(add_prefix_space=False)],
        "roberta": [pre.ByteLevel(add_prefix_space=True)],
        "llama3": [split(CL100K % "{1,3}"), bytes_only],
        "qwen2": [split(CL100K % ""), bytes_only],
        "o200k": [split(O200K, "removed", True), bytes_only],
        "deepseek": [split(p) for p in DEEPSEEK] + [bytes_only],
        "starcoder": [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)],
    }[name]
    result.pre_tokenizer = pre.Sequence(steps) if len(steps) > 1 else steps[0]
    if name == "qwen2":
        result.normalizer = tokenizers.normalizers.NFC()
    result.decoder = tokenizers.decoders.ByteLevel()
    specials = {"llama3": ["<|begin_of_text|>", "<|endoftext|>", "<|im_start|>"],
                "roberta": ["<s>", "</s>"]}.get(name, ["<|endoftext|>", "<|im_start|>"])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=specials,
                                             initial_alphabet=pre.ByteLevel.alphabet())
    result.train_from_iterator(corpus, trainer)
    if name == "roberta":
        result.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, normalized=False),
                                   tokenizers.AddedToken("<|endoftext|>", rstrip=True, normalized=True)])
    result.post_processor = {
        "llama3": post.Sequence([post.ByteLevel(trim_offsets=True), post.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
            special_tokens=[("<|begin_of_text|>", result.token_to_id("<|begin_of_text|>") or 0)])]),
        "roberta": post.RobertaProcessing(("</s>", 1), ("<s>", 0)) if name == "roberta" else None,
    }.get(name) or post.ByteLevel(trim_offsets=False)
    return result
