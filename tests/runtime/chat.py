#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conversations as a user meets them:  chat.py DTC DTRUN

The samples that `dtrun --show-samples` prints are those that this file computes by itself: templates, byte-pair
encoding, masks, padding and packing. Packed documents have the loss of the same documents in rows of their own. What is
wrong in a line, in the tokenizer or in the program ends the run with its place."""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEQ = 96
PROGRAM = """include "std.dsl"
dim batch = 4, seq = 96, vocab = 512, embed = 8, kseq = seq
model net(i32 tokens[batch, seq], i32 document[batch, seq], i32 position[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  param wpe[seq, embed] = normal(0.5)
  x = wte[vocab = tokens] + wpe[seq = position]
  o = attend[seq, kseq, embed](x, x[seq -> kseq], x[seq -> kseq], scale = 1.0,
                               mask = document == document[seq -> kseq] and iota[kseq] <= iota[seq])
  return o |> out:linear[embed, vocab]
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq], i32 document[batch, seq], i32 position[batch, seq] =
    chat(SOURCE)
  ce = xent[vocab](net(tokens, document, position), labels)
  loss = sum[batch, seq](ce) / max(sum[batch, seq](f32(labels >= 0)), 1)
  optimizer = sgd(lr = 0.0)
  steps = 1
}
"""
SPECIAL = ("<|im_end|> <|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <s> </s> [INST] [/INST] <bos> "
           "<start_of_turn> <end_of_turn>").split()
TALK = [("system", " Be brief. "), ("user", "What is 2+2?\n"), ("assistant", " Four, I say."), ("user", "And 3+3?"),
        ("assistant", "Six:\n\n 6")]
DOCUMENTS = [
    {"messages": [{"role": role, "content": text} for role, text in TALK], "id": 7},
    {"text": "Just a text of some words."},
    {"prompt": "Say hi", "completion": "hi there"},
    {"instruction": "Add them.", "input": "1 and 2", "output": "3"},
    {"instruction": "Count", "input": "", "output": "one two three"},
    {"conversations": [{"from": {"user": "human", "assistant": "gpt"}.get(role, role), "value": text}
                       for role, text in TALK[1:3]]},
    {"text": "long " * 60},
    {"messages": [{"role": "user", "content": "nothing follows"}]},
    {"text": "The last."},
]


# ---- an encoding by itself: GPT-2's pattern for ASCII, and merges one by one ----

class Encoding:
    def __init__(self, tokenizer):
        model = tokenizer["model"]
        self.vocab = model["vocab"]
        pairs = (m.split(" ") if isinstance(m, str) else m for m in model["merges"])
        self.ranks = {tuple(pair): i for i, pair in enumerate(pairs)}
        self.added = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
        self.cut = re.compile("(" + "|".join(map(re.escape, sorted(self.added, key=len, reverse=True))) + ")")
        self.pieces = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")

    def piece(self, text):
        parts = [c if "!" <= c <= "~" else chr(256 + ord(c)) for c in text]  # ASCII as ByteLevel writes it
        while True:
            pairs = [(self.ranks.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:]))]
            if not pairs or min(pairs)[0] == 1 << 30:
                return [self.vocab[part] for part in parts]
            at = min(pairs)[1]
            parts[at:at + 2] = [parts[at] + parts[at + 1]]

    def ids(self, text):
        out = []
        for part in self.cut.split(text):
            if part in self.added:
                out.append(self.added[part])
            else:
                for piece in self.pieces.findall(part):
                    out += self.piece(piece)
        return out


# ---- templates by themselves: parts of a document, and whether they are trained ----

ALPACA = ("Below is an instruction that describes a task{}. Write a response that appropriately completes the "
          "request.\n\n")


def turns(document):
    if "messages" in document:
        return [(m["role"], m["content"], "") for m in document["messages"]]
    if "conversations" in document:
        return [({"human": "user", "gpt": "assistant"}[m["from"]], m["value"], "") for m in document["conversations"]]
    if "prompt" in document:
        return [("user", document["prompt"], ""), ("assistant", document["completion"], "")]
    return [("user", document["instruction"], document["input"]), ("assistant", document["output"], "")]


def write(template, document, end):
    if "pair" in document:  # turns of the assistant before the answer are not trained
        said, n = document["pair"], document["prompt"]
        whole = write(template, {"messages": said}, end)
        kept, seen = [], 0
        for i, (text, trained) in enumerate(whole):
            kept.append((text, trained and seen >= n))
            seen += trained
        return kept
    if "text" in document:
        return [(document["text"], True), (end, True)]
    parts, said = [], turns(document)
    if template in ("llama3", "gemma"):
        said = [(role, text.strip(), extra) for role, text, extra in said]
    if template in ("mistral", "gemma") and said[0][0] == "system":
        (_, system, _), (_, first, extra) = said[:2]
        said = [("user", system + "\n\n" + first, extra)] + said[2:]
    if template == "alpaca":
        with_input = ", paired with an input that provides further context"
        system = said.pop(0)[1] + "\n\n" if said[0][0] == "system" else ALPACA.format(with_input if said[0][2] else "")
        parts.append((system, False))
    parts.append(({"llama3": "<|begin_of_text|>", "mistral": "<s>", "gemma": "<bos>"}.get(template, ""), False))
    for i, (role, text, extra) in enumerate(said):
        trained = role == "assistant"
        if template == "alpaca":
            before = ("\n\n" if i and said[i - 1][0] == "assistant" else "") + \
                ("### Response:\n" if trained else "### Instruction:\n")
            text += "\n\n### Input:\n" + extra if extra else ""
            stop, after = (end, "") if trained else ("\n\n", "")
        else:
            text += "\n" + extra if extra else ""
            before, stop, after = {
                "chatml": ("<|im_start|>%s\n" % role, "<|im_end|>", "\n"),
                "llama3": ("<|start_header_id|>%s<|end_header_id|>\n\n" % role, "<|eot_id|>", ""),
                "mistral": ("", "</s>", "") if trained else ("[INST]", "[/INST]", ""),
                "gemma": ("<start_of_turn>%s\n" % ("model" if trained else role), "<end_of_turn>", "\n"),
            }[template]
        parts += [(before, False), (text + stop, trained), (after, False)]
    return parts


def words(encoding, parts):
    """Ids and whether each is trained; parts that are trained alike are encoded together."""
    joined = []
    for text, trained in parts:
        if joined and joined[-1][1] == trained:
            joined[-1][0] += text
        elif text:
            joined.append([text, trained])
    return [(i, trained) for text, trained in joined for i in encoding.ids(text)]


# ---- rows ----

def rows_of(documents, pack, drop):
    rows, open_rows = [], []
    for words_of in documents:
        if len(words_of) > SEQ and drop:
            continue
        words_of = words_of[:SEQ]
        if not any(trained for _, trained in words_of[1:]):
            continue
        fits = [row for row in open_rows if sum(map(len, row)) + len(words_of) <= SEQ] if pack else []
        if fits:
            max(fits, key=lambda row: sum(map(len, row))).append(words_of)
        else:
            open_rows.append([words_of])
    for row in open_rows:
        line = []
        for number, words_of in enumerate(row):
            targets = [i if trained else -1 for i, trained in words_of[1:]] + [-1]
            line += [(number, at, i, target) for at, ((i, _), target) in enumerate(zip(words_of, targets))]
        rows.append(line)
    return sorted(rows)


def shown_rows(text):
    rows = []
    for line in text.splitlines():
        if line.startswith("sample "):
            rows.append([])
        found = re.match(r' *\d+ +(-?\d+) +(-?\d+) +(-?\d+) +".*?" +(train|-) +(-?\d+)', line)
        if found and int(found[1]) >= 0:
            rows[-1].append(tuple(int(found[i]) for i in (1, 2, 3, 5)))
            assert (found[4] == "train") == (int(found[5]) >= 0)
    return sorted(rows)


# ---- the checks ----

class Bench:
    def __init__(self, dtc, dtrun, folder):
        self.dtc, self.dtrun, self.folder = os.path.abspath(dtc), os.path.abspath(dtrun), folder
        self.passed = self.failed = 0
        with open(os.path.join(ROOT, "tests/tokenizer/fixtures/gpt2.json"), encoding="utf-8") as file:
            self.tokenizer = json.load(file)
        for token in SPECIAL:
            self.tokenizer["added_tokens"].append(
                dict(self.tokenizer["added_tokens"][1], id=449 + len(self.tokenizer["added_tokens"]), content=token))
        os.makedirs(self.path("tok"))
        self.write("tok/tokenizer.json", json.dumps(self.tokenizer))
        self.encoding = Encoding(self.tokenizer)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def check(self, name, good, shown=""):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print("%s: FAILED\n%s" % (name, shown))

    def run(self, *words_of, **more):
        done = subprocess.run(words_of, cwd=self.folder, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": self.path("cache"), **more})
        return done.returncode, done.stdout

    def compile(self, options, program=PROGRAM):
        self.write("p.dsl", program.replace("SOURCE", '"d.jsonl", tokenizer = "tok"' + options))
        return self.run(self.dtc, "p.dsl", "-o", "p.plan")

    def samples(self, options):
        code, said = self.compile(options)
        self.check("compiles" + options, code == 0, said)
        return self.run(self.dtrun, "p.plan", "--show-samples", "100")


def has_expected_samples(bench):
    bench.write("d.jsonl", "\ufeff" + "\r\n\n".join(map(json.dumps, DOCUMENTS)))
    for template, more in (("chatml", ""), ("llama3", ", pack = true"), ("mistral", ", long = drop"),
                           ("gemma", ", labels = all, pack = true"), ("alpaca", ", pack = true, long = drop")):
        code, said = bench.samples(', template = %s, end = "<|endoftext|>"%s' % (template, more))
        made = [words(bench.encoding, write(template, document, "<|endoftext|>")) for document in DOCUMENTS]
        if "all" in more:
            made = [[(i, True) for i, _ in document] for document in made]
        wanted = rows_of(made, "pack" in more, "drop" in more)
        bench.check("samples of " + template + more, code == 0 and shown_rows(said) == wanted,
                    "%s\n%s\n%s" % (said, shown_rows(said), wanted))
        bench.check("notes of " + template, ("left out as longer than 96 tokens: " in said) == ("drop" in more)
                    and ("cut after 96 tokens: " in said) == ("drop" not in more), said)


PAIRS = """include "std.dsl"
dim batch = 4, pair = 2, seq = 96, vocab = 512, embed = 8
model net(i32 tokens[batch, pair, seq]) -> [batch, pair, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  return wte[vocab = tokens] |> out:linear[embed, vocab]
}
train {
  i32 tokens[batch, pair, seq], i32 labels[batch, pair, seq], i32 document[batch, pair, seq],
    i32 position[batch, pair, seq] = chat(SOURCE)
  loss = mean[batch, pair, seq](xent[vocab](net(tokens), labels)) + 0 * mean[batch, pair, seq](f32(document + position))
  optimizer = sgd(lr = 0.0)
  steps = 1
}
"""


def says(role, text):
    return {"role": role, "content": text}


def has_both_of_a_preference(bench):
    """Chosen and rejected documents, of texts, of turns after a prompt, and of conversations that begin alike."""
    ask, first, more = says("user", "What is 2+2?"), says("assistant", "Four."), says("user", "Sure?")
    good, bad = says("assistant", "Yes, I am."), says("assistant", "No")
    lines = [{"prompt": "Say hi", "chosen": "hi there", "rejected": "go away " * 40, "score": 3},
             {"prompt": [ask, first, more], "chosen": [good], "rejected": [bad]},
             {"chosen": [ask, first, more, good], "rejected": [ask, first, more, bad]}]
    bench.write("d.jsonl", "\n".join(map(json.dumps, lines)))
    simple = [[says("user", "Say hi"), says("assistant", text)] for text in ("hi there", "go away " * 40)]
    talks = [[ask, first, more, last] for last in (good, bad)]
    both = [(simple, 0), (talks, 1), (talks, 1)]
    for template, more_options in (("chatml", ""), ("alpaca", ""), ("llama3", ", long = drop")):
        code, said = bench.compile(', template = %s, end = "<|endoftext|>"%s' % (template, more_options), PAIRS)
        bench.check("compiles pairs", code == 0, said)
        code, said = bench.run(bench.dtrun, "p.plan", "--show-samples", "100")
        wanted = []
        for sides, n in both[1 if "drop" in more_options else 0:]:
            line = []
            for number, side in enumerate(sides):
                made = words(bench.encoding, write(template, {"pair": side, "prompt": n}, "<|endoftext|>"))[:SEQ]
                targets = [i if trained else -1 for i, trained in made[1:]] + [-1]
                line += [(number, at, i, target) for at, ((i, _), target) in enumerate(zip(made, targets))]
            if all(any(number == side and target >= 0 for number, _, _, target in line) for side in range(2)):
                wanted.append(line)
        bench.check("pairs of " + template, code == 0 and shown_rows(said) == sorted(wanted),
                    "%s\n%s\n%s" % (said, shown_rows(said), sorted(wanted)))
    for line, wanted in (({"prompt": "a", "completion": "b"}, "d.jsonl:1: it is no preference"),
                         ({"prompt": "a", "chosen": "b"}, "it is no preference"),
                         ({"prompt": "a", "chosen": "b", "rejected": 3}, '"rejected" is no text'),
                         ({"prompt": "a", "chosen": [good], "rejected": [bad]}, '"prompt" is no list of turns'),
                         ({"chosen": [ask, good], "rejected": "b"}, '"rejected" is no list of turns'),
                         ({"chosen": [ask, 3], "rejected": [ask, bad]}, "turn 2: it is no object")):
        bench.write("d.jsonl", json.dumps(line))
        code, said = bench.run(bench.dtrun, "p.plan")
        bench.check("refuses %s" % line, code == 5 and wanted in said, said)
    bench.write("d.jsonl", json.dumps(lines[1]))
    bench.compile(', end = "<|endoftext|>"', PAIRS)
    code, said = bench.run(bench.dtrun, "p.plan")
    bench.check("turns need a template", code == 5 and "a conversation needs a template" in said, said)
    bench.compile(', end = "<|endoftext|>"')
    code, said = bench.run(bench.dtrun, "p.plan")
    bench.check("pairs need an axis", code == 5 and "whose two documents need inputs [batch, pair, seq]" in said, said)
    for program, wanted in ((PAIRS.replace("pair = 2", "pair = 3"), "axis `pair` of `tokens` is 3"),
                            (PAIRS.replace("chat(SOURCE)", 'chat("d.jsonl", tokenizer = "tok", pack = true)'),
                             "preferences have a row for each")):
        code, said = bench.compile("", program)
        bench.check(wanted, code != 0 and wanted in said, said)


def loss_of(bench, options, program=PROGRAM):
    code, said = bench.compile(options, program)
    bench.check("compiles" + options, code == 0, said)
    code, said = bench.run(bench.dtrun, "p.plan", "--log", "log.jsonl", "--overwrite")
    bench.check("trains" + options, code == 0, said)
    with open(bench.path("log.jsonl"), encoding="utf-8") as file:
        return next(line["loss"] for line in map(json.loads, file) if "loss" in line)


def keeps_documents_apart(bench):
    bench.write("d.jsonl", "\n".join(json.dumps({"prompt": "of %d" % i, "completion": " and %d" % (i * i)})
                                     for i in range(4)))
    end = ', end = "<|endoftext|>"'
    alone, packed = loss_of(bench, end), loss_of(bench, end + ", pack = true")
    bench.check("packed documents have the loss of single ones", abs(alone - packed) < 1e-5 * alone, (alone, packed))
    mixed = loss_of(bench, end + ", pack = true", PROGRAM.replace("mask = document == document[seq -> kseq] and ", "mask = "))
    bench.check("without the mask they have another", abs(alone - mixed) > 1e-4 * alone, (alone, mixed))


def checks_the_program(bench):
    two = PROGRAM.replace(", i32 document[batch, seq], i32 position[batch, seq] =", " =").replace(
        "  ce =", "  i32 document[batch, seq] = synthetic(0, 2)\n  i32 position[batch, seq] = synthetic(0, 9)\n  ce =")
    code, said = bench.compile(", pack = true", two)
    bench.check("packing needs `document`", code != 0 and "E0802" in said and "`pack` puts several" in said, said)
    plain = PROGRAM.replace("ce = xent[vocab](net(tokens, document, position), labels)",
                            "ce = -log(softmax[vocab](net(tokens, document, position)))[vocab = labels]")
    code, said = bench.compile("", plain)
    bench.check("labels are -1", code != 0 and "E0811" in said and "such as -1" in said, said)
    code, said = bench.compile(", template = chatlm")
    bench.check("names of templates", code != 0 and "did you mean `chatml`" in said, said)
    code, said = bench.run(bench.dtc, "explain", "chat")
    bench.check("explained", code == 0 and "chatml" in said, said)


TALKS = '{"messages": [{"role": "%s", "content": %s}]}'
WRONG = [  # a line, options of `chat`, what dtrun says
    ('{"text": "a"', "", "d.jsonl:2: no JSON at column"),
    ('[{"text": "a"}]', "", "d.jsonl:2: it is a list: write one object a line"),
    ('7', "", "d.jsonl:2: it is no object"),
    ('{"txt": "a"}', "", "d.jsonl:2: it has none of the fields"),
    ('{"text": null}', "", '"text" is no text'),
    ('{"prompt": "a"}', "", 'there is no "completion"'),
    ('{"text": "a", "text": "b"}', "", "duplicate"),
    ('{"text": "\\ud800"}', "", "no JSON at column"),
    (TALKS % ("user", '"x"'), "", "a conversation needs a template"),
    (TALKS % ("tool", '"x"'), ", template = chatml", "turn 1: `tool` is no role"),
    (TALKS % ("user", "[]"), ", template = chatml", 'turn 1: "content" is no text'),
    (TALKS % ("system", '"x"'), ", template = chatml", "the conversation has no turn"),
    (TALKS % ("assistant", '"x"'), ", template = gemma", "turn 1 is of the assistant: in template gemma"),
    ('{"messages": []}', ", template = chatml", '"messages" is no list of turns'),
    ('{"conversations": 3}', ", template = chatml", '"conversations" is no list of turns'),
]


def refuses_lines(bench):
    for line, options, wanted in WRONG:
        bench.write("d.jsonl", '{"text": "good"}\n' + line + "\n")
        bench.compile(', end = "<|endoftext|>"' + options)
        code, said = bench.run(bench.dtrun, "p.plan")
        bench.check("refuses " + line, code == 5 and wanted in said and "p.dsl:12:" in said, said)
    with open(bench.path("d.jsonl"), "wb") as file:
        file.write(b'{"text": "a\xff"}')
    code, said = bench.run(bench.dtrun, "p.plan")
    bench.check("bytes that are not UTF-8", code == 5 and "d.jsonl:1: no JSON" in said, said)
    bench.write("d.jsonl", "\n\n")
    code, said = bench.run(bench.dtrun, "p.plan")
    bench.check("no document", code == 5 and "there is no sample in" in said, said)


def looks_at_the_tokenizer(bench):
    bench.write("d.jsonl", '{"prompt": "a", "completion": "b"}')
    bench.compile("")
    code, said = bench.run(bench.dtrun, "p.plan")
    bench.check("no end token", code == 5 and 'say `end = "TOKEN"`' in said, said)
    bench.compile(", template = llama3")
    kept = bench.tokenizer["added_tokens"]
    os.makedirs(bench.path("less"))
    bench.write("less/tokenizer.json", json.dumps(dict(bench.tokenizer, added_tokens=kept[:2])))
    code, said = bench.run(bench.dtrun, "p.plan", "--data", "tok=less")
    bench.check("a token is missing", code == 5 and "has no token <|begin_of_text|>, which template llama3" in said, said)
    for name, text in (("tokenizer_config.json", json.dumps({"model_max_length": int(1e30), "chat_template": "{{ '<|im_start|>' + x }}"})),
                       ("tokenizer_config.json", json.dumps({"chat_template": [
                           {"name": "tools", "template": "[INST]"}, {"name": "default", "template": "<|im_start|>"}]})),
                       ("chat_template.jinja", "<|im_start|>")):
        bench.write("tok/" + name, text)
        code, said = bench.run(bench.dtrun, "p.plan", "--show-samples", "0")
        bench.check("another template in " + name, code == 0 and "tok/%s has the template of `chatml`" % name in said, said)
        os.remove(bench.path("tok/" + name))
    for text in ("{", '{"chat_template": 3}', '{"chat_template": "<|start_header_id|>"}', "[]"):
        bench.write("tok/tokenizer_config.json", text)
        code, said = bench.run(bench.dtrun, "p.plan", "--show-samples", "0")
        bench.check("no warning of " + text, code == 0 and "warning" not in said, said)
    for fault in ("write:1", "rename:1"):
        code, said = bench.run(bench.dtrun, "p.plan", DT_FAULT=fault, XDG_CACHE_HOME=bench.path("other"))
        left = [name for _, _, names in os.walk(bench.path("other")) for name in names if ".ids" in name]
        bench.check(fault, code == 5 and not left, "%d %s %s" % (code, said, left))


def is_one_data_source(bench):
    """Parts are of samples, and a resumed run wants the same ones."""
    bench.write("d.jsonl", "\n".join(json.dumps({"text": "document %d" % i}) for i in range(10)))
    said = bench.samples(', end = "<|endoftext|>", from = 0.5')[1]
    shown = sorted(re.findall(r'"(\d)" +train', said))
    bench.check("a part", said.count("sample ") == 5 and shown == list("56789"), said)
    code, said = bench.run(bench.dtrun, "p.plan", "--save", "saved")
    bench.check("saves", code == 0, said)
    bench.write("d.jsonl", "\n".join(json.dumps({"text": "sentence %d" % i}) for i in range(10)))
    code, said = bench.run(bench.dtrun, "p.plan", "--resume", "saved", "--steps", "2")
    bench.check("other documents are other data", code != 0 and "reads other data" in said, said)
    code, said = bench.run(bench.dtrun, "p.plan", "--resume", "saved", "--eval", "--show-samples", "1")
    bench.check("a run of its own", code == 2 and "--show-samples is a run of its own" in said, said)


def shows_other_sources(bench):
    bench.write("t.txt", "A\n" + 200 * "ab")
    program = PROGRAM.replace("chat(SOURCE)", 'next_token(text("t.txt", to = 0.3))').replace(
        ", i32 document[batch, seq], i32 position[batch, seq] =", " =").replace(
        "  ce =", "  i32 document[batch, seq] = synthetic(0, 2)\n  i32 position[batch, seq] = synthetic(0, 9)\n  ce =")
    code, said = bench.compile("", program)
    bench.check("text compiles", code == 0, said)
    code, said = bench.run(bench.dtrun, "p.plan", "--show-samples", "1")
    pairs = re.findall(r'^ *\d+ +(\d+) "(.*?)" +train +(\d+) "(.*?)"$', said, re.M)
    good = len(pairs) == SEQ and all(pair[0] == last[2] and pair[1] == last[3] for last, pair in zip(pairs, pairs[1:]))
    bench.check("bytes of text", code == 0 and good and ("97", "a", "98", "b") in pairs, said)
    bench.check("other inputs", len(re.findall(r"^document:(?: [01]){16} \.\. \(96 values\)$", said, re.M)) == 1, said)


# tokenizers that put a space, or what stands for it, in front of a text: of the first one, or of each between added tokens
TURNS = [{"role": "user", "content": "Say hi"}, {"role": "assistant", "content": "Four, I say."}, {"role": "user", "content": "so?"},
         {"role": "assistant", "content": "yes"}]
SPACED = [  # a document, its template, its text, and the tokens that the package `tokenizers` gives that (templates.py)
    ("mistral", {"prompt": "Q: say?\n", "completion": "Four, I say."}, "", "<s>Q: say?\nFour, I say.</s>",
     [1, 471, 84, 289, 596, 323, 347, 294, 261, 300, 337, 595, 275, 471, 303, 596, 323, 347, 277, 2]),
    ("mistral", {"messages": TURNS}, "mistral", "<s>[INST]Say hi[/INST]Four, I say.</s>[INST]so?[/INST]yes</s>",
     [1, 714, 311, 323, 347, 654, 331, 715, 300, 337, 595, 275, 471, 303, 596, 323, 347, 277, 2, 714, 341, 337, 294, 715, 347, 574, 2]),
    ("llama2", {"prompt": "Q: say?\n", "completion": "Four, I say."}, "", "<s>Q: say?\nFour, I say.</s>",
     [1, 471, 84, 289, 596, 323, 347, 294, 261, 300, 337, 595, 275, 471, 303, 596, 323, 347, 277, 2]),
    ("llama2", {"messages": TURNS}, "mistral", "<s>[INST]Say hi[/INST]Four, I say.</s>[INST]so?[/INST]yes</s>",
     [1, 714, 471, 311, 323, 347, 654, 331, 715, 471, 300, 337, 595, 275, 471, 303, 596, 323, 347, 277, 2, 714, 596, 337, 294, 715, 471, 347,
      574, 2])]


def spaced_tokenizer(name):
    with open(os.path.join(ROOT, "tests/tokenizer/fixtures", name + ".json"), encoding="utf-8") as file:
        made = json.load(file)
    known = [token["content"] for token in made["added_tokens"]]
    for token in SPECIAL:
        if token not in known:
            made["added_tokens"].append(dict(made["added_tokens"][1], id=len(made["model"]["vocab"]) + len(made["added_tokens"]) - len(known), content=token))
    return json.dumps(made)


def has_spaces_where_the_whole_text_has(bench):
    os.makedirs(bench.path("spaced"))
    for name, document, template, _, wanted in SPACED:
        bench.write("spaced/tokenizer.json", spaced_tokenizer(name))
        bench.write("d.jsonl", json.dumps(document))
        source = '"d.jsonl", tokenizer = "spaced", end = "</s>"' + (", template = " + template if template else "")
        bench.write("p.dsl", PROGRAM.replace("SOURCE", source).replace("vocab = 512", "vocab = 1024"))
        code, said = bench.run(bench.dtc, "p.dsl", "-o", "p.plan")
        bench.check("compiles for spaces", code == 0, said)
        code, said = bench.run(bench.dtrun, "p.plan", "--show-samples", "1")
        got = [row[2] for row in shown_rows(said)[0]] if code == 0 else []
        bench.check("spaces of %s, %s" % (name, template), got == wanted, "%s\n%s\n%s" % (said, got, wanted))


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(*sys.argv[1:3], folder)
        for part in (has_expected_samples, has_both_of_a_preference, keeps_documents_apart, checks_the_program, refuses_lines,
                     looks_at_the_tokenizer, is_one_data_source, shows_other_sources, has_spaces_where_the_whole_text_has):
            part(bench)
        print("%d passed, %d failed, 0 skipped" % (bench.passed, bench.failed))
        return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
