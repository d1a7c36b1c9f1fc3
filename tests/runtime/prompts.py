#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prompts of a file, and where texts end:  prompts.py DTC DTRUN

Texts are the same bytes with any number of rows and on 1, 2 and 4 ranks: with rows, heads and the vocabulary split, and in
a pipeline; one at a time, too. A model whose text is known ends where this script expects it: at end tokens and
before stop texts, also where these span tokens. A model that repeats its prompt shows the tokens of templates, which are
those that training has in front of an answer. Lines are whole after Ctrl-C and on a full disk; wrong lines are refused."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import chat

NET = """include "std.dsl"
dim batch = BATCH, seq = 24, vocab = 512, embed = 16, heads = 2, head = 8, layers = 2, ffn = 32, kseq = seq
layer attention[embed](x[batch, seq, embed]) -> [batch, seq, embed] {
  q = x |> wq:linear[embed, (heads, head)]
  k = x |> wk:linear[embed, (heads, head)]
  v = x |> wv:linear[embed, (heads, head)]
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = 0.35, mask = iota[kseq] <= iota[seq])
  return o |> wo:linear[(heads, head), embed]
}
model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.7)
  param wpe[seq, embed] = normal(0.7)
  h = wte[vocab = tokens] + wpe[seq = iota[seq]]
  repeat b in layers {
    h = h + attention:attention[embed](h)
    h = h + (h |> up:linear[embed, ffn](std = 0.4) |> gelu |> down:linear[ffn, embed](std = 0.4))
  }
  return h |> out:linear[embed, vocab](std = 0.5)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("t.txt", tokenizer = "tok"))
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster many { gpus = RANKS; gpu = "cpu" }
parallel none on many { mesh data = 1 }
parallel data on many { mesh data = RANKS; shard batch on data }
parallel tensor on many { mesh tp = 2; shard heads, ffn, vocab on tp }
parallel both on many { mesh data = 2, tp = 2; shard batch on data; shard heads, ffn, vocab on tp; zero 3 on data }
parallel staged on many { mesh pipe = 2, data = 2; shard batch on data; micro batch = 1; pipeline b on pipe }
"""
LAYOUTS = ((1, "none"), (2, "data"), (2, "tensor"), (4, "both"), (4, "staged"))
# The token SHIFT positions before the next one: after a prompt of n tokens come the first one SHIFT - n + 1 times more
# and then the prompt's others.
SHIFT = 240
ECHO = """include "std.dsl"
dim batch = 2, seq = 512, vocab = 512
model echo(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param w[vocab] = zeros
  before = tokens[seq = max(iota[seq] - %d, 0)]
  return where(iota[vocab] == before, 9.0, 0.0) + w
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = chat("t.jsonl", tokenizer = "tok"OPTIONS)
  loss = mean[batch, seq](xent[vocab](echo(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
parallel none on one { mesh data = 1 }
""" % SHIFT
TEXTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "texts.dsl")
PROMPTS = [
    {"prompt": "one", "id": "a"}, {"prompt": "The quick brown fox jumps over the lazy dog and goes on and on and on"},
    {"prompt": ""}, {"prompt": "two words", "max_tokens": 0, "id": 7}, {"prompt": "x", "temperature": 0},
    {"prompt": [5, 300, 7], "max_tokens": 3}, {"prompt": "it is", "top_k": 2, "seed": 5},
    {"prompt": "and so", "temperature": 3, "top_p": 0.7, "repetition_penalty": 1.3},
    {"instruction": "Say", "input": "so", "output": "?"}, {"prompt": "a b c d", "min_p": 0.2, "max_tokens": 40},
] + [{"prompt": "number %d" % i * (1 + i % 3)} for i in range(20)]


class Bench(chat.Bench):
    def lines(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def bytes(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def must(self, name, *words):
        code, said = self.run(*words)
        self.check(name, code == 0, said)
        return said

    def generate(self, plan, *words):
        """What is written to the standard output."""
        done = subprocess.run([self.dtrun, plan, *words], cwd=self.folder, capture_output=True, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": self.path("cache")})
        self.check("generates %s" % (words,), done.returncode == 0, done.stderr)
        return done.stdout.decode()


# ---- rows and ranks ----

def has_the_same_texts_everywhere(bench):
    bench.write("t.txt", "some text for a stream of tokens, which nobody reads\n" * 20)
    bench.write("prompts.jsonl", "\n\n".join(map(json.dumps, PROMPTS)))
    first = None
    for batch, (ranks, layout) in [(1, (1, "none"))] + [(4, layout) for layout in LAYOUTS]:
        name = "%s of %d ranks, %d rows" % (layout, ranks, batch)
        bench.write("net.dsl", NET.replace("BATCH", str(batch)).replace("RANKS", str(ranks)))
        bench.must("compiles " + name, bench.dtc, "net.dsl", "--parallel", layout, "-o", "net.plan")
        bench.must("runs " + name, bench.dtrun, "net.plan", "--prompts", "prompts.jsonl", "--out", "out.jsonl",
                   "--overwrite", "--tokens", "12")
        got = bench.lines("out.jsonl")
        first = first or got
        for a, b in zip(got, first):  # sums of a layout are taken in another order
            b["logprob"] = a["logprob"] if abs(a["logprob"] - b["logprob"]) < 1e-3 else b["logprob"]
        bench.check("texts of " + name, got == first and len(got) == len(PROMPTS), (got, first))
        if ranks == 4 and layout == "both":
            alone = json.loads(bench.generate("net.plan", "--generate", "one", "--tokens", "12", "--json"))
            bench.check("one on four ranks", alone["tokens"] == first[0]["tokens"], (alone, first[0]))
    return first


def has_lines_in_order(bench, lines):
    for i, (line, prompt) in enumerate(zip(lines, PROMPTS)):
        bench.check("line %d" % i, line["line"] == 2 * i + 1 and line.get("id") == prompt.get("id") and
                    line.get("prompt") == prompt.get("prompt"), line)
        bench.check("tokens of line %d" % i, len(line["tokens"]) == prompt.get("max_tokens", 12) and
                    line["stop"] == "tokens", line)
    twice = lines[4]["tokens"], lines[10]["tokens"]
    bench.check("texts differ", twice[0] != twice[1] and len({str(line["tokens"]) for line in lines}) > 25, lines)
    bench.check("the instruction has its input", lines[8]["input"] == "so" and "output" not in lines[8], lines[8])


# ---- ends ----

def ends_where_it_should(bench):
    """The bytes that follow A are c3 a9, ff, e2 82 ac, B, e1, C, f0 (texts.dsl)."""
    bench.must("compiles texts.dsl", bench.dtc, TEXTS, "-o", "texts.plan")
    for stops, text, stop, by in ((("B",), "\u00e9\\xff\u20ac", "text", "B"), (("\u20ac", "B"), "\u00e9\\xff", "text", "\u20ac"),
                                  (("xx", "zB"), "\u00e9\\xff\u20acB\\xe1C\\xf0", "tokens", None), (("\u00e9",), "", "text", "\u00e9"),
                                  (("C", "\u20acB", "B"), "\u00e9\\xff", "text", "\u20acB"), (("A", "C\u00e9"), "\u00e9\\xff\u20acB\\xe1C\\xf0", "tokens", None)):
        words = [word for text_of in stops for word in ("--stop", text_of)] + ["--tokens", "10", "--temperature", "0"]
        got = json.loads(bench.generate("texts.plan", "--generate", "A", "--json", *words))
        bench.check("stops %s" % (stops,), got["text"] == text and got["stop"] == stop and got.get("stopped_by") == by, got)
        shown = bench.generate("texts.plan", "--generate", "A", *words)
        bench.check("shows %s" % (stops,), shown == "A" + text + "\n", shown)
    bench.write("s.jsonl", '{"prompt": "A", "stop": ["C"]}\n{"prompt": "A", "stop": "\\u20ac"}\n{"prompt": "A", "stop": []}')
    got = [json.loads(line) for line in bench.generate("texts.plan", "--prompts", "s.jsonl", "--stop", "B", "--tokens", "10",
                                                       "--temperature", "0").splitlines()]
    bench.check("stops of lines", [line["text"] for line in got] == [
        "\u00e9\\xff\u20acB\\xe1", "\u00e9\\xff", "\u00e9\\xff\u20acB\\xe1C\\xf0"], got)


def echoed(line, n):
    """The last n tokens that the model has repeated: the prompt."""
    return line["tokens"][-n:]


# ---- templates ----

def has_the_tokens_of_training(bench):
    """Templates: the tokens in front of an answer are those of a sample of training."""
    talks = [chat.TALK[:2], chat.TALK[1:2], chat.TALK[:4], chat.TALK[1:4]]
    asks = [{"messages": [{"role": role, "content": text} for role, text in talk]} for talk in talks] + [
        {"conversations": [{"from": "human", "value": "Hi"}]}, {"prompt": "Say hi", "completion": "left alone"},
        {"instruction": "Add them.", "input": "1 and 2"},
        {"prompt": [{"role": "user", "content": "Turns"}], "chosen": [{"role": "assistant", "content": "left alone"}]}]
    bench.write("asks.jsonl", "\n".join(map(json.dumps, asks)))
    bench.write("t.jsonl", '{"text": "x"}')
    for template in ("chatml", "llama3", "mistral", "gemma", "alpaca"):
        bench.write("echo.dsl", ECHO.replace("OPTIONS", ', template = %s, end = "<|endoftext|>"' % template))
        bench.must("compiles for " + template, bench.dtc, "echo.dsl", "-o", "echo.plan")
        said = bench.generate("echo.plan", "--prompts", "asks.jsonl", "--tokens", str(SHIFT + 1), "--temperature", "0",
                              "--ignore-end")
        for line, ask in zip(map(json.loads, said.splitlines()), asks):
            whole = dict(ask, output="!!") if "instruction" in ask else dict(ask, completion="!!")
            if "messages" in ask:
                whole = {"messages": ask["messages"] + [{"role": "assistant", "content": "!!"}]}
            if isinstance(ask.get("prompt"), list):
                whole = {"messages": ask["prompt"] + [{"role": "assistant", "content": "!!"}]}
            if "conversations" in ask:
                whole = {"conversations": ask["conversations"] + [{"from": "gpt", "value": "!!"}]}
            ids = chat.words(bench.encoding, chat.write(template, whole, "<|endoftext|>"))
            n = max(i for i, (_, trained) in enumerate(ids) if not trained and (i + 1 < len(ids)) and ids[i + 1][1]) + 1
            wanted = [i for i, _ in ids[:n]]
            bench.check("prompt of %s: %s" % (template, ask), echoed(line, n) == wanted, (echoed(line, n), wanted))
        one = json.loads(bench.generate("echo.plan", "--generate", "Say hi", "--tokens", str(SHIFT + 1), "--temperature",
                                        "0", "--ignore-end", "--json"))
        bench.check("--generate is a turn in " + template, one["tokens"] == json.loads(said.splitlines()[5])["tokens"], one)
        raw = json.loads(bench.generate("echo.plan", "--generate", "Say hi", "--tokens", str(SHIFT + 1), "--temperature",
                                        "0", "--raw", "--json"))
        ids = bench.encoding.ids("Say hi")
        bench.check("--raw in " + template, echoed(raw, len(ids)) == ids and raw["stop"] == "tokens", raw)


def ends_at_end_tokens(bench):
    """The model repeats its prompt up to the first end token."""
    def ends(name, prompt, wanted):
        line = json.loads(bench.generate("echo.plan", "--generate", prompt, "--raw", "--tokens", str(SHIFT + 20), "--temperature", "0",
                                         "--json"))
        ids = bench.encoding.ids(prompt)
        at = line["tokens"].index(ids[1]) if ids[1] in line["tokens"] else 0
        got = [ids[0]] + line["tokens"][at:]
        bench.check(name, got == ids[:ids.index(wanted) + 1] and line["stop"] == "end" and line["text"].endswith(
            "one" if wanted == ids[3] else "more"), (got, ids, wanted, line["stop"]))

    of = {token: bench.encoding.added[token] for token in bench.encoding.added}
    ask = "so one%s more%s"
    bench.write("echo.dsl", ECHO.replace("OPTIONS", ', template = llama3, end = "<|endoftext|>"'))
    bench.must("compiles for ends", bench.dtc, "echo.dsl", "-o", "echo.plan")
    ends("the end of a turn", ask % ("<|eot_id|>", "<s>"), of["<|eot_id|>"])
    ends("the end of a document", ask % ("<|endoftext|>", "<s>"), of["<|endoftext|>"])
    ends("other special tokens", ask % ("<s>", "<|eot_id|>"), of["<|eot_id|>"])
    strip = {"type": "Strip", "content": "\u00e9", "start": 0, "stop": 1}  # of two bytes: the last byte waits for another
    bench.write("tok/tokenizer.json", json.dumps({**bench.tokenizer, "decoder": {
        "type": "Sequence", "decoders": [bench.tokenizer["decoder"], strip]}}))
    ends("what a decoder holds", ask % ("<|eot_id|>", "<s>"), of["<|eot_id|>"])
    bench.write("tok/tokenizer.json", json.dumps(bench.tokenizer))
    bench.write("tok/generation_config.json", json.dumps({"eos_token_id": [of["</s>"], of["<s>"]]}))
    bench.write("tok/config.json", json.dumps({"eos_token_id": of["<bos>"]}))
    ends("eos_token_id", ask % ("<s>", "<|eot_id|>"), of["<s>"])
    ends("not of config.json", ask % ("<bos>", "<s>"), of["<s>"])
    os.remove(bench.path("tok/generation_config.json"))
    ends("eos_token_id of config.json", ask % ("<bos>", "<|eot_id|>"), of["<bos>"])
    os.remove(bench.path("tok/config.json"))
    bench.write("tok/tokenizer_config.json", json.dumps({"model_max_length": int(1e30), "eos_token": {"content": "<end_of_turn>"}}))
    ends("eos_token", ask % ("<end_of_turn>", "<|eot_id|>"), of["<end_of_turn>"])
    for name, text, wanted in (("generation_config.json", '{"eos_token_id": "x"}', "eos_token_id is no number"),
                               ("generation_config.json", '{"eos_token_id": [-1]}', "eos_token_id is no number"),
                               ("config.json", "{", "config.json")):
        bench.write("tok/" + name, text)
        code, said = bench.run(bench.dtrun, "echo.plan", "--generate", "x")
        bench.check("refuses " + text, code != 0 and wanted in said, said)
        os.remove(bench.path("tok/" + name))
    os.remove(bench.path("tok/tokenizer_config.json"))


# ---- lines ----

TALKS = '{"messages": [%s]}'
WRONG = [  # a line, what dtrun says after the place
    ('{"prompt": "a"', "2:14: no JSON"),
    ("Once upon a time", '; a line is, for example, {"prompt": "Once upon a time"}'),
    ("[1]", '2:1: it is no object of JSON; a line is, for example, {"prompt": "Once upon a time"}'),
    ('{"text": "a"}', '2:1: it has none of the fields "prompt"'),
    ('{"prompt": null}', '2:1: "prompt" is no text'),
    ('{"prompt": []}', '2:1: "prompt" has no token'),
    ('{"prompt": [1, 512]}', '2:1: element 2 of "prompt" is no token number below 512'),
    ('{"prompt": [1, 1.0]}', '2:1: element 2 of "prompt" is no token number'),
    ('{"prompt": "a", "prompt": "b"}', "duplicate"),
    ('{"prompt": "\\ud800"}', "no JSON"),
    ('{"prompt": "a", "id": {}}', '2:1: "id" is no text and no number'),
    ('{"prompt": "a", "top_p": 2}', "2:1: top_p wants a number above 0 and at most 1"),
    ('{"prompt": "a", "top_k": 1.5}', "2:1: top_k wants an integer"),
    ('{"prompt": "a", "seed": "1"}', '2:1: "seed" is no number'),
    ('{"prompt": "a", "temperature": 1e999}', "2:"),
    ('{"prompt": "a", "max_tokens": -1}', "2:1: max_tokens wants an integer of at least 0"),
    ('{"prompt": "a", "stop": 3}', '2:1: "stop" is no text'),
    ('{"prompt": "a", "stop": [""]}', '2:1: "stop" has an empty text'),
    ('{"prompt": "a", "stop": %s}' % json.dumps(["x"] * 17), '2:1: "stop" has more than 16 texts'),
    (TALKS % "", '2:1: "messages" is no list of turns'),
    (TALKS % '{"role": "tool", "content": "x"}', "2:1: turn 1: `tool` is no role"),
    (TALKS % '{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}',
     "2:1: the last turn is of the assistant"),
    (TALKS % '{"role": "system", "content": "x"}', "2:1: the conversation has no turn"),
    ("[" * 100000, "2:"),
]


def refuses_lines(bench):
    for line, wanted in WRONG:
        bench.write("w.jsonl", '{"prompt": "good"}\n' + line + "\n")
        code, said = bench.run(bench.dtrun, "echo.plan", "--prompts", "w.jsonl")
        bench.check("refuses " + line[:80], code == 5 and "w.jsonl:2:" in said and wanted in said, (code, said[-900:]))
    for text, wanted in ((b"", "has no prompt"), (b"\n \r\n", "has no prompt"), (b'{"prompt": "a\xff"}', "w.jsonl:1:"),
                         (b"\0\n", "w.jsonl:1:"), (b'{"prompt": "a"}\0', "w.jsonl:1:")):
        with open(bench.path("w.jsonl"), "wb") as file:
            file.write(text)
        code, said = bench.run(bench.dtrun, "echo.plan", "--prompts", "w.jsonl")
        bench.check("refuses %s" % text, code == 5 and wanted in said, said)
    code, said = bench.run(bench.dtrun, "echo.plan", "--prompts", "none.jsonl")
    bench.check("no file", code == 5 and "none.jsonl" in said, said)
    bench.write("ok.jsonl", '{"prompt": "a", "max_tokens": 1}\n')
    bench.write("old.jsonl", "something")
    for words, wanted, exits in ((("--prompts", "ok.jsonl", "--out", "old.jsonl"), "--overwrite empties it", 2),
                                 (("--prompts", "ok.jsonl", "--out", "a", "--out", "b"), "--out occurs twice", 2),
                                 (("--prompts", "ok.jsonl", "--generate", "x"), "exclude each other", 2),
                                 (("--stop", "x"), "--stop belongs to --generate and --prompts", 2),
                                 (("--generate", "x", "--stop", ""), "--stop wants a text", 2)):
        code, said = bench.run(bench.dtrun, "echo.plan", *words)
        bench.check("refuses %s" % (words,), code == exits and wanted in said, (code, said))
    bench.check("keeps the old file", bench.bytes("old.jsonl") == b"something")


def needs_a_token(bench):
    """A prompt of which the tokenizer makes no token, as white space that separates words."""
    os.makedirs(bench.path("words"))
    bench.write("words/tokenizer.json", json.dumps({
        "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": {"?": 0, "some": 1}, "unk_token": "?"}}))
    bench.write("words.dsl", NET.replace("BATCH", "1").replace("RANKS", "1").replace('"tok"', '"words"'))
    bench.must("compiles for words", bench.dtc, "words.dsl", "--parallel", "none", "-o", "words.plan")
    bench.write("w.jsonl", '{"prompt": " "}\n')
    for words in (("--generate", " "), ("--prompts", "w.jsonl")):
        code, said = bench.run("timeout", "60", bench.dtrun, "words.plan", *words, "--tokens", "2")
        bench.check("no token: %s" % (words,), code in (2, 5) and "no token of the prompt" in said, (code, said))


def names_the_rows(bench):
    """Rows of a cache that no plan, or no machine, has room for."""
    bench.write("rows.dsl", NET.replace("BATCH", "1").replace("RANKS", "1"))
    for rows, asks, wanted in ((10 ** 12, False, "than `rows = 1000000000000`"), (2 * 10 ** 8, True, "than `rows = 200000000`")):
        compiling = (bench.dtc, "rows.dsl", "--parallel", "none", "--set", "train.generate=cached(rows = %d)" % rows)
        code, said = bench.run(*compiling, "-o", "rows.plan")
        if asks and code == 0:
            code, said = bench.run(bench.dtrun, "rows.plan", "--generate", "x")
        bench.check("%d rows" % rows, code == 4 and wanted in said, (code, said[-500:]))


def keeps_whole_lines(bench):
    bench.write("many.jsonl", ('{"prompt": "%s"}\n' % ("a b " * 100000)) * 50)
    bench.must("all lines", bench.dtrun, "echo.plan", "--prompts", "many.jsonl", "--out", "all.jsonl", "--tokens", "2")
    whole = bench.bytes("all.jsonl")
    bench.check("50 lines", whole.count(b"\n") == 50)
    code, said = bench.run("bash", "-c", "ulimit -f 16000; exec %s echo.plan --prompts many.jsonl --out part.jsonl --tokens 2"
                           % bench.dtrun)  # KiB: more than the memory that ranks share
    part = bench.bytes("part.jsonl")
    bench.check("a full disk", code == 5 and "part.jsonl" in said and 0 < len(part) < len(whole) and
                whole.startswith(part) and part.endswith(b"\n"), (code, said, part[-100:]))
    code, said = bench.run("bash", "-c", "%s echo.plan --prompts many.jsonl --tokens 5 > /dev/full" % bench.dtrun)
    bench.check("a full output", code == 5, (code, said))
    bench.write("long.jsonl", '{"prompt": "a"}\n' * 200)
    run = subprocess.Popen([bench.dtrun, "echo.plan", "--prompts", "long.jsonl", "--out", "cut.jsonl", "--tokens", "400"],
                           cwd=bench.folder, stderr=subprocess.PIPE, text=True, start_new_session=True,
                           env={**os.environ, "XDG_CACHE_HOME": bench.path("cache")})
    while run.poll() is None and not (os.path.exists(bench.path("cut.jsonl")) and bench.bytes("cut.jsonl")):
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    said = run.communicate(timeout=60)[1]
    cut = bench.bytes("cut.jsonl")
    got = list(map(json.loads, cut.splitlines()))
    bench.check("Ctrl-C", run.returncode == 130 and cut.endswith(b"\n") and 0 < len(got) < 200 and
                "stopped: %d lines are written" % len(got) in said, (run.returncode, said))


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(sys.argv[1], sys.argv[2], folder)
        has_lines_in_order(bench, has_the_same_texts_everywhere(bench))
        ends_where_it_should(bench)
        has_the_tokens_of_training(bench)
        ends_at_end_tokens(bench)
        refuses_lines(bench)
        needs_a_token(bench)
        names_the_rows(bench)
        keeps_whole_lines(bench)
    print("%d passed, %d failed" % (bench.passed, bench.failed))
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
