# SPDX-License-Identifier: Apache-2.0
"""Texts and tokenizers for tests: text of many scripts, and small tokenizers in the forms in which GPT-2, Llama 3, Qwen,
Mistral, Gemma, CLIP, T5, BERT and others were published. Training needs the Python package `tokenizers`; the texts need nothing."""
import glob
import io
import json
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


# ---- forms other than BPE over bytes ----

MARK = "\u2581"
BYTES = ["<0x%02X>" % b for b in range(256)]


def charsmap(rules):
    """The bytes of `precompiled_charsmap` for {text: text}: a double array of Darts, and the texts."""
    texts, places = b"", {}
    for to in rules.values():
        places.setdefault(to, len(texts))
        texts += to.encode() + b"\0" if places[to] == len(texts) else b""
    root = {}
    for text, to in rules.items():
        node = root
        for byte in text.encode():
            node = node.setdefault(byte, {})
        node[0] = places[to]
    units, used, queue = {0: 0}, {0}, [(root, 0)]
    while queue:
        node, at = queue.pop(0)
        base = next(b for b in range(1, 1 << 20) if not any(b ^ byte in used for byte in node))
        units[at] |= (at ^ base) << 10 | (0x100 if 0 in node else 0)
        for byte, child in node.items():
            used.add(base ^ byte)
            units[base ^ byte] = child | 1 << 31 if byte == 0 else byte
            if byte:
                queue.append((child, base ^ byte))
    array = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(max(units) + 256))
    return len(array).to_bytes(4, "little") + array + texts


RULES = {"\t": " ", "\r": " ", "\n": " ", "\u3000": " ", "\u00a0": " ", "\u200b": "", "\u0001": "", "\ufb01": "fi",
         "\u00bd": "1\u20442", "e\u0301": "\u00e9", "a\u0323": "\u1ea1", "\uff21": "A", "\u2460": "1", "\u1112\u1161": "\ud558",
         "\u0915\u093c": "\u0958", "\u00a9": "(c)", "\u2122": "TM", "\u1100": "\u3131", "\u0600": "#", "\u06dd": "@",
         "\u0301": "'", "\u00df": "ss"}


def nmt_nfkc():
    """The charsmap of T5, which the Python package `sentencepiece` has; without it, a small one."""
    try:
        import sentencepiece
    except ImportError:
        return charsmap(RULES)
    model = io.BytesIO()
    words = ["".join(chr(97 + (i * k) % 26) for k in range(1, 9)) for i in range(200)]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(words), model_writer=model, vocab_size=33,
                                             hard_vocab_limit=False,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    return field(field(model.getvalue(), 3), 2)


def field(message, wanted):
    """The first field of that number, of a message of Protocol Buffers."""
    at = 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(message):
        key = number()
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if size == 0:
            number()
            continue
        size = number() if size is None else size
        if key >> 3 == wanted:
            return message[at:at + size]
        at += size
    raise ValueError("no field %d" % wanted)


def trained(tokenizers, model, trainer, corpus, normalizer=None, pre_tokenizer=None):
    result = tokenizers.Tokenizer(model)
    if normalizer:
        result.normalizer = normalizer
    if pre_tokenizer:
        result.pre_tokenizer = pre_tokenizer
    result.train_from_iterator(corpus, trainer)
    return result


def changed(tokenizers, tokenizer, **parts):
    """The tokenizer with other parts; byte tokens are no added tokens."""
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] not in BYTES]
    for name, part in parts.items():
        if name == "model":
            content["model"].update(part)
        else:
            content[name] = part
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def step(**more):
    return {"type": more.pop("type"), **more}


def sequence(name, *steps):
    return {"type": "Sequence", name: list(steps)}


TO_MARK = step(type="Replace", pattern={"String": " "}, content=MARK)
FROM_MARK = step(type="Replace", pattern={"String": MARK}, content=" ")
FALLBACK = [FROM_MARK, step(type="ByteFallback"), step(type="Fuse")]
STRIP_ONE = step(type="Strip", content=" ", start=1, stop=0)


def around(front, back, ids):
    """TemplateProcessing with these tokens around a text."""
    special = {t: {"id": t, "ids": [ids(t)], "tokens": [t]} for t in front + back}
    tokens = [{"SpecialToken": {"id": t, "type_id": 0}} for t in front]
    return {"type": "TemplateProcessing", "pair": [], "special_tokens": special,
            "single": tokens + [{"Sequence": {"id": "A", "type_id": 0}}] +
            [{"SpecialToken": {"id": t, "type_id": 0}} for t in back]}


def character_bpe(tokenizers, name, corpus, size):
    """BPE over characters, with bytes for those without a token: Llama 2, Mistral, Gemma; `unk`: without bytes."""
    pre, models = tokenizers.pre_tokenizers, tokenizers.models
    specials = ["<unk>", "<s>", "</s>"] + (BYTES if name != "unk" else [])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size + len(specials), show_progress=False, special_tokens=specials,
                                             limit_alphabet=300)
    # tokens of Gemma have spaces inside
    pieces = pre.Split(tokenizers.Regex("[^\n]{1,9}|\n+"), "isolated") if name == "gemma" else pre.Metaspace()
    normalizer = tokenizers.normalizers.Replace(" ", MARK) if name == "gemma" else None
    result = trained(tokenizers, models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=name != "unk"), trainer, corpus,
                     normalizer, pieces)
    parts = {
        "llama2": {"normalizer": sequence("normalizers", step(type="Prepend", prepend=MARK), TO_MARK), "pre_tokenizer": None,
                   "decoder": sequence("decoders", *FALLBACK, STRIP_ONE)},
        "mistral": {"pre_tokenizer": step(type="Metaspace", replacement=MARK, prepend_scheme="first", split=False),
                    "decoder": sequence("decoders", *FALLBACK, STRIP_ONE)},
        "gemma": {"pre_tokenizer": step(type="Split", pattern={"String": " "}, behavior="MergedWithPrevious", invert=False),
                  "decoder": sequence("decoders", *FALLBACK)},
        "unk": {"normalizer": step(type="NFKD"), "decoder": step(type="Fuse"), "pre_tokenizer": sequence(
            "pretokenizers", step(type="Split", pattern={"Regex": "[0-9]{1,2}"}, behavior="MergedWithNext", invert=False),
            step(type="Digits", individual_digits=False),
            step(type="Punctuation", behavior="Contiguous"))},
    }[name]
    result = changed(tokenizers, result, post_processor=around(["<s>"], [], result.token_to_id), **parts)
    if name == "unk":
        result.add_tokens([tokenizers.AddedToken("<mask>", lstrip=True, rstrip=True, normalized=True)])
    return result


def marked_bpe(tokenizers, name, corpus, size):
    """BPE with marks of where in a word its tokens stand: CLIP, over bytes; GPT-1; `affixes`: also a prefix of what goes on."""
    pre, models, norm = tokenizers.pre_tokenizers, tokenizers.models, tokenizers.normalizers
    unk = "<|endoftext|>" if name == "clip" else "<unk>"
    marks = {"end_of_word_suffix": "</w>", **({"continuing_subword_prefix": "##"} if name == "affixes" else {})}
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size + 400, show_progress=False, special_tokens=["<|startoftext|>", unk] if name == "clip" else [unk],
        limit_alphabet=256, initial_alphabet=pre.ByteLevel.alphabet() if name == "clip" else [], **marks)
    splits = {
        "clip": pre.Sequence([pre.Split(tokenizers.Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed",
                                        True), pre.ByteLevel(add_prefix_space=False)]),
        "gpt1": pre.BertPreTokenizer(), "affixes": pre.Whitespace()}[name]
    normalizer = {
        "clip": norm.Sequence([norm.NFC(), norm.Replace(tokenizers.Regex(r"\s+"), " "), norm.Lowercase()]),
        "gpt1": norm.BertNormalizer(), "affixes": None}[name]
    result = trained(tokenizers, models.BPE(unk_token=unk, fuse_unk=name == "affixes"), trainer, corpus, normalizer, splits)
    decoder = {"clip": step(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
               "gpt1": step(type="BPEDecoder", suffix="</w>"),
               "affixes": step(type="WordPiece", prefix="##", cleanup=False)}[name]
    post = {"type": "RobertaProcessing", "sep": [unk, result.token_to_id(unk)], "trim_offsets": False, "add_prefix_space": False,
            "cls": ["<|startoftext|>", result.token_to_id("<|startoftext|>")]} if name == "clip" else None
    return changed(tokenizers, result, decoder=decoder, post_processor=post)


def unigram(tokenizers, name, corpus, size):
    """T5; ALBERT, with its normalisers; `fallback`: with bytes, over whole texts."""
    pre, models = tokenizers.pre_tokenizers, tokenizers.models
    specials = ["<pad>", "</s>", "<unk>"] + (BYTES if name == "fallback" else [])
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=size + len(specials), show_progress=False, unk_token="<unk>",
                                                 special_tokens=specials, initial_alphabet=[])
    result = trained(tokenizers, models.Unigram(), trainer, [line[:400] for line in corpus], None, pre.Metaspace())
    import base64
    compiled = step(type="Precompiled", precompiled_charsmap=base64.b64encode(
        nmt_nfkc() if name == "t5" and size > 1000 else charsmap(RULES)).decode())
    metaspace = step(type="Metaspace", replacement=MARK, prepend_scheme="always", split=True)
    decoder = step(type="Metaspace", replacement=MARK, prepend_scheme="always", split=True)
    parts = {
        "t5": {"normalizer": compiled, "decoder": decoder,
               "pre_tokenizer": sequence("pretokenizers", step(type="WhitespaceSplit"), metaspace)},
        "albert": {"normalizer": sequence(
            "normalizers", step(type="Replace", pattern={"String": "``"}, content='"'),
            step(type="Replace", pattern={"String": "''"}, content='"'), step(type="NFKD"), step(type="StripAccents"),
            step(type="Lowercase"), compiled, step(type="Replace", pattern={"Regex": " {2,}"}, content=" ")),
            "pre_tokenizer": metaspace, "decoder": decoder},
        "fallback": {"normalizer": sequence("normalizers", step(type="Nmt"), step(type="NFC"), step(
            type="Strip", strip_left=True, strip_right=True)), "pre_tokenizer": sequence(
                "pretokenizers", step(type="Split", pattern={"Regex": "[\\n.]+"}, behavior="MergedWithPrevious", invert=False),
                step(type="Metaspace", replacement=MARK, prepend_scheme="never", split=False)),
            "decoder": sequence("decoders", *FALLBACK), "model": {"byte_fallback": True}},
    }[name]
    return changed(tokenizers, result, post_processor=around([], ["</s>"], result.token_to_id), **parts)


def words(tokenizers, name, corpus, size):
    """BERT, without and with case; `words`: a vocabulary of whole words."""
    pre, models, norm = tokenizers.pre_tokenizers, tokenizers.models, tokenizers.normalizers
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    kind = "WordLevel" if name == "words" else "WordPiece"
    trainer = getattr(tokenizers.trainers, kind + "Trainer")(vocab_size=size, show_progress=False, special_tokens=specials)
    normalizer = {"bert": norm.BertNormalizer(), "cased": norm.BertNormalizer(lowercase=False)}.get(
        name, norm.Sequence([norm.NFKC(), norm.Lowercase()]))
    splits = pre.BertPreTokenizer() if name != "words" else pre.Whitespace()
    result = trained(tokenizers, getattr(models, kind)(unk_token="[UNK]"), trainer, corpus, normalizer, splits)
    parts = {"decoder": step(type="WordPiece", prefix="##", cleanup=name == "bert")} if name != "words" else {}
    if name == "words":
        parts["pre_tokenizer"] = sequence(
            "pretokenizers", step(type="Whitespace"), step(type="Split", pattern={"String": "_"}, behavior="Removed",
                                                           invert=False))
    result = changed(tokenizers, result, post_processor=around(["[CLS]"], ["[SEP]"], result.token_to_id), **parts)
    result.add_special_tokens(["<|endoftext|>", "<mask>"])
    return result


BYTE_FORMS = ["gpt2", "llama3", "qwen2", "roberta", "o200k", "deepseek", "starcoder"]
OTHER_FORMS = {"llama2": character_bpe, "mistral": character_bpe, "gemma": character_bpe, "unk": character_bpe, "clip": marked_bpe,
               "gpt1": marked_bpe, "affixes": marked_bpe, "t5": unigram,
               "albert": unigram, "fallback": unigram, "bert": words, "cased": words, "words": words}
FORMS = BYTE_FORMS + list(OTHER_FORMS)


def make(tokenizers, name, corpus, size=2000):
    """A tokenizer in any of the forms. No token has a byte 0, which keys of JSON objects cannot have."""
    corpus = [line.replace("\0", "") for line in corpus]
    return OTHER_FORMS.get(name, train)(tokenizers, name, corpus, size)
