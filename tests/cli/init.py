#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that `dtc init` writes, from the folders of models that families.py makes:  init.py DTC

Each family of lib/models gives a program with the numbers of its config.json, which the compiler accepts under all of its layouts and
`dtc fmt` leaves as it is. A config.json that no program fits is refused with what differs, and so is a damaged one, or a folder that
has none. A library of its own shows that no family is known to the compiler."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.normpath(HERE + "/../runtime"))
import families  # noqa: E402

DTC = os.path.abspath(sys.argv[1])
LIBRARY = os.path.normpath(HERE + "/../../lib")
failures, passed = [], 0


def check(holds, what):
    global passed
    passed += bool(holds)
    if not holds:
        failures.append(what)
        print("FAIL", what[:1500])


def dtc(*words, code=0, says=(), environment=None):
    """Runs dtc; `says` are texts that must be among its messages. Returns what it prints."""
    done = subprocess.run([DTC, *words], capture_output=True, text=True, errors="replace", timeout=60, env={**os.environ, **(environment or {})})
    message = f"dtc {' '.join(words)[:200]}: exit code {done.returncode}\n{done.stdout[-600:]}{done.stderr}"
    check(done.returncode == code, f"{message}wanted {code}")
    for text in says:
        check(text in done.stderr, f"{message}lacks: {text}")
    return done.stdout


def number_of(text, name):
    found = re.search(rf"\b{name} = ([\w.]+(?:e-?\d+)?)", text)
    return None if not found else found[1] == "true" if found[1] in ("true", "false") else float(found[1])


def name_of_data(text):
    return re.search(r"= *(\w+)\(", text[text.index("train {"):])[1]


# ---- families ----

def family(name):
    case, program = families.CASES[name], f"{name}.dsl"
    families.write(name, name)
    dtc("init", name, "-o", program, says=[f"{program}: models/{case['family']}.dsl has "])
    with open(program) as file:
        text = file.read()
    for wanted, size in case["sizes"].items():
        size = size == "true" if size in ("true", "false") else float(size)
        got = number_of(text, wanted)
        check(got == size or (got is None and wanted in ("head", "kv", "ffn", "src")), f"{name}: {wanted} is {got}, not {size}\n{text}")
    n = 0
    for tensor, shape in case["tensors"](case["config"]):
        if tensor.startswith(("vision_tower", "multi_modal_projector", "bert.pooler", "cls.seq_relationship", "model.encoder.embed_positions")):
            continue
        elements = 1
        for extent in shape:
            elements *= extent
        n += elements
    cached = re.search(r"\n  generate = cached\(rows = 4, chunk = (\d+)\)\n", text)
    check((int(cached[1]) if cached else 0) == (min(64, number_of(text, "seq")) if name_of_data(text) == "next_token" else 0),
          f"{name}: a line `generate` is for models that read text from left to right, and for all of them\n{text}")
    dtc("fmt", "--check", program)
    check(json.loads(dtc(program, "--params", "--json"))["total"] == n, f"{name}: other parameters than the files have, {n}")
    for layout in ("one", "two", "eight"):
        dtc(program, "--check", "--parallel", layout)


def config_of(name, **changes):
    """A folder whose config.json differs from the family's in these members; None leaves a member out."""
    config = {**families.CASES[name]["config"], **changes}
    os.makedirs("changed", exist_ok=True)
    with open("changed/config.json", "w") as file:
        json.dump({k: v for k, v in config.items() if v is not None}, file)


def differs(name, says, code=1, **changes):
    config_of(name, **changes)
    check(dtc("init", "changed", code=code, says=says) == "", f"{changes}: printed a program")


def contradictions():
    differs("qwen3", ["nearest is models/qwen3.dsl", '`hidden_act` is "gelu", and the program says "silu" (models/qwen3.dsl:'], hidden_act="gelu")
    differs("qwen3", ["`use_sliding_window` is true"], use_sliding_window=True)
    differs("qwen3", ["`num_hidden_layers` is not there, and the program says 28"], num_hidden_layers=None)
    for wrong, why in ((1e308, "1e308"), (0, "0"), (-3, "-3"), (2.5, "2.5"), (2 ** 31, "2147483648"), (True, "true"), ("2", '"2"'),
                       ([2, 2], "[2,2]"), ({"a": 1}, '{"a":1}')):
        differs("qwen3", [f"`num_hidden_layers` is {why}, and `layers` of the program is a "], num_hidden_layers=wrong)
    differs("qwen3", ["`tied` of the program is true or false"], tie_word_embeddings="no")
    differs("qwen3", ["`norm_eps` of the program is a number"], rms_norm_eps="small")
    differs("qwen3", ["with these values: "], num_key_value_heads=64)          # more of them than heads
    differs("qwen3", ["with these values: "], hidden_size=2 ** 31 - 1, vocab_size=2 ** 31 - 1)
    differs("llama_3_2", ['`rope_parameters.rope_type, rope_scaling.rope_type'], rope_parameters=None, rope_scaling={"rope_type": "yarn", "factor": 2.0})
    differs("qwen3", ["no program for `model_type` \"qwen9\"", "bert, gemma3, gemma3_text, gpt2, llama, mistral, mixtral, modernbert, olmo2, qwen3"], code=2, model_type="qwen9")
    differs("qwen3", ["has no `model_type`"], code=2, model_type=None)
    differs("qwen3", ["has no `model_type`"], code=2, model_type=3)
    differs("qwen3", ["quantised (fp8)", "python3 -c", "' changed changed-bf16"], code=2, quantization_config={"quant_method": "fp8"})
    lengthy = "of a long name " * 6
    os.rename("changed", lengthy)
    dtc("init", lengthy, code=2, says=["' FOLDER FOLDER-bf16"])
    os.rename(lengthy, "changed")
    # a member that the program does not speak of, and one list of one number
    config_of("qwen3", num_hidden_layers=[2], initializer_range=7)
    dtc("init", "changed")
    config_of("qwen3", max_position_embeddings=20)
    check(number_of(dtc("init", "changed"), "seq") == 20, "samples are longer than the model's positions")
    config_of("qwen3", max_position_embeddings="many")
    check(number_of(dtc("init", "changed"), "seq") == 1024, "positions that are no number")


# ---- faulty folders ----

def damaged(text, code=5, says="config.json"):
    os.makedirs("changed", exist_ok=True)
    with open("changed/config.json", "wb") as file:
        file.write(text)
    dtc("init", "changed", code=code, says=[says])


def folders():
    for text in (b"", b"{", b"[]", b"3", b"\xff\xfe{}", b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": 1e999}',
                 b'{"a":' * 70000, b"[" * 3000 + b"]" * 3000, b"{\"a\": [" + b"[]," * 70000 + b"[]]}", b'{"a": "\x01"}', b"\0" * 100):
        damaged(text)
    damaged(b'{"a": 123456789012345678901234567890}', code=2, says="has no `model_type`")  # a number, though a large one
    shutil.rmtree("changed")
    dtc("init", "changed", code=5, says=["there is no folder changed", "hf download"])
    os.mkdir("changed")
    dtc("init", "changed", code=5, says=["changed has no config.json"])
    os.mkdir("changed/config.json")
    dtc("init", "changed", code=5, says=["config.json"])
    os.rmdir("changed/config.json")
    open("changed/model.Q4.gguf", "w").close()
    dtc("init", "changed", code=2, says=["quantised for llama.cpp"])
    dtc("init", "changed/model.Q4.gguf", code=2, says=["quantised for llama.cpp"])
    os.remove("changed/model.Q4.gguf")
    dtc("init", "qwen3/config.json", code=2, says=["is no folder"])
    config_of("qwen3", vocab_size=10 ** 6, model_type="q" * 10 ** 6)
    dtc("init", "changed", code=2, says=["qqqq"])


# ---- the command line ----

def command_line():
    dtc("init", code=2, says=["init takes the folder of a model"])
    dtc("init", "qwen3", "gpt2", code=2, says=["init takes the folder of a model"])
    for option in (["-D", "seq=8"], ["--set", "train.epochs=1"], ["--parallel", "two"], ["--check"], ["--params"], ["--target=cpu"]):
        dtc("init", "qwen3", *option, code=2, says=["other options are for what dtc makes of the program"])
    dtc("init", "qwen3", "-o", "qwen3.dsl", code=2, says=["qwen3.dsl exists and is not overwritten: remove it"])
    dtc("init", "qwen3", "-o", "qwen3", code=5, says=["is a folder"])
    dtc("init", "qwen3", "--device", "h101-sxm", code=2, says=["did you mean h100-sxm?"])
    dtc("init", "qwen3", "--device", "h100", code=2, says=["there are h100-sxm, h100-pcie"])
    dtc("init", "qwen3", "--device", "x", code=2, says=["there are cpu"])
    dtc("qwen3.dsl", "--text", "a", code=2, says=["--text belongs to `dtc init`"])
    dtc("init", "qwen3", "--library", "nowhere", code=5, says=["nowhere"])
    dtc("init", "qwen3", "-o", "full.dsl", code=5, environment={"DT_FAULT": "write:1"})
    check(not os.path.exists("full.dsl"), "a program is left where the disk is full")
    check(dtc("init", "qwen3") == dtc("init", "./qwen3//"), "names of one folder")
    dtc("init", "qwen3", "-o", "/dev/null")
    both = [subprocess.Popen([DTC, "init", "qwen3", "-o", "once.dsl"], stderr=subprocess.PIPE) for _ in range(4)]
    said = [one.communicate()[1] for one in both]
    check(sorted(one.returncode for one in both) == [0, 2, 2, 2], f"programs that are written at once: {said}")
    check([name for name in os.listdir() if name.startswith("once.dsl")] == ["once.dsl"], "a temporary file is left")
    os.makedirs("it's/mine")
    shutil.copy("qwen3/config.json", "it's")
    check("""--import 'it'\\''s' --save""" in dtc("init", "it's"), "the comment does not quote names")
    dtc("qwen3.dsl", "--check", "--set", "parallel.mesh.data=2", code=3, says=["E0501", "here"])  # the layout of one device
    check("dtc my.dsl -o my.plan" in dtc("init", "qwen3"), "the comment names the files")
    os.makedirs("new")  # the folders of the comment differ, and a model named `tuned` is trained further
    for model in ("tuned", "my"):
        os.makedirs(f"new/{model}")
        shutil.copy("qwen3/config.json", f"new/{model}")
    said = subprocess.run([DTC, "init", "my"], cwd="new", capture_output=True, text=True, check=True).stdout
    check("--import my --save my-run --export tuned\n" in said, said[:400])
    said = subprocess.run([DTC, "init", "tuned"], cwd="new", capture_output=True, text=True, check=True).stdout
    check("--import tuned --save my --export tuned2\n" in said, said[:400])


def texts():
    """Bytes as tokens, names with odd characters, programs in other folders."""
    config_of("qwen3", vocab_size=256, max_position_embeddings=4096)
    os.makedirs('mi"ne', exist_ok=True)
    with open('mi"ne/a.txt', "w") as file:
        file.write("What is written here is text. " * 3000)
    text = dtc("init", "changed", "--text", 'mi"ne/*.txt')
    check('next_token(text("mi\\"ne/*.txt", to = 0.9))' in text and number_of(text, "seq") == 1024, text)
    check("eval = every(10, data = " in text and "epochs = 3" in text, text)
    with open("odd.dsl", "w") as file:
        file.write(text)
    dtc("odd.dsl", "--check")
    dtc("init", "changed", "--text", 'mi"ne/*.txt', "-o", "deep/er/my.dsl")
    with open("deep/er/my.dsl") as file:
        text = file.read()
    check('text("../../mi\\"ne/*.txt"' in text or f'text("{os.getcwd()}' in text.replace('\\"', '"'), text)
    os.mkdir("beside")
    dtc("init", "changed", "--text", 'mi"ne/a.txt', "-o", "beside/my.dsl")
    with open("beside/my.dsl") as file:
        text = file.read()
    check('text("../mi\\"ne/a.txt"' in text and "--import ../changed " in text, text)
    dtc("beside/my.dsl", "--check")
    os.rename("changed", "two\nlines")
    text = dtc("init", "two\nlines", "--text", f'{os.getcwd()}/mi"ne/a.txt')
    check(all(line.startswith("#") or i > 2 for i, line in enumerate(text.split("\n"))) and "\\x0a" in text.split("\n")[0], text)
    os.rename("two\nlines", "changed")
    dtc("init", "changed", "--text", "none/*.txt", code=5, says=["no file matches none/*.txt"])
    dtc("init", "changed", "--text", 'mi"ne', code=5, says=["is a folder", "/*' names the files"])
    dtc("init", "qwen3", "--text", 'mi"ne/*.txt', code=2, says=["qwen3 has no tokenizer.json", "python3 -c", '"u2"'])
    check('bin("mine/*.bin", u16, to' in dtc("init", "qwen3"), "tokens of another program")
    config_of("qwen3")
    for wrong, why in (('{"model": {"type": "Unigram"}}', "tokenizer.json: "), ('{"model": {"type": "New"}}', "its model has type `New`"), ("{}", "its model has type `?`")):
        with open("changed/tokenizer.json", "w") as file:
            file.write(wrong)
        dtc("init", "changed", "--text", 'mi"ne/*.txt', code=2, says=["tokenizer.json", why, "python3 -c"])
        check('bin("mine/*.bin", u16, to' in dtc("init", "changed", says=["tokenizer.json cannot be used: changed/tokenizer.json: ", why]),
              "a tokenizer that cannot be read")
    for name, says in (("qwen3", "damaged: line "), ("t5", "damaged: line ")):  # one error, with and without a text
        config_of(name)
        for wrong in ("{", "", '{"model": {"type": "BPE", "vocab": {"a": 0', "[" * 100000, "\0", '{"a": 1, "a": 2}'):
            with open("changed/tokenizer.json", "w") as file:
                file.write(wrong)
            for more in ([], ["--text", 'mi"ne/*.txt']):
                check(dtc("init", "changed", *more, code=5, says=["dtc: changed/tokenizer.json: ", says]) == "", f"{wrong[:20]}: a program")
        with open("changed/tokenizer.json", "w") as file:
            file.write("[]")
        dtc("init", "changed", code=5, says=["dtc: changed/tokenizer.json: it is no JSON object"])
    config_of("qwen3")
    os.remove("changed/tokenizer.json")
    config_of("qwen3", vocab_size=70000)
    check('bin("mine/*.bin", u32, to' in dtc("init", "changed"), "tokens of another program, of 32 bits")


def tokenizer():
    """A folder with a tokenizer gives text."""
    tiny = os.path.normpath(HERE + "/../../examples/tiny_model.py")
    subprocess.run([sys.executable, tiny, "tiny", "--text", 'mi"ne/a.txt', tiny, __file__], check=True)
    dtc("init", "tiny", "--text", 'mi"ne/*.txt', "-o", "beside/tiny.dsl")
    with open("beside/tiny.dsl") as file:
        text = file.read()
    check('text("../mi\\"ne/*.txt", tokenizer = "../tiny", to = 0.9)' in text, text)
    dtc("beside/tiny.dsl", "--check")
    check('text("mine/*.txt", tokenizer = "tiny", to' in dtc("init", "tiny"), "text is what a tokenizer is for")


def samplers():
    """Masked tokens and spans, with the tokens of tokenizer.json, read by us or turned into ids by another program."""
    def folder(name, tokenizer, **changes):
        config_of(name, **changes)
        with open("changed/tokenizer.json", "w") as file:
            json.dump(tokenizer, file)

    def program(*lines):
        text = dtc("init", "changed", *lines)
        with open("odd.dsl", "w") as file:
            file.write(text)
        dtc("odd.dsl", "--check")
        return text

    with open("tiny/tokenizer.json") as file:
        tokenizer = json.load(file)
    vocab = len(tokenizer["model"]["vocab"]) + len(tokenizer.get("added_tokens", []))
    mask = {"id": vocab, "content": "[MASK]", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    folder("modernbert", {**tokenizer, "added_tokens": [*tokenizer.get("added_tokens", []), mask]}, vocab_size=vocab + 3, max_position_embeddings=32)
    text = program("--text", 'mi"ne/*.txt')
    check(f'mlm(text("mi\\"ne/*.txt", tokenizer = "changed", to = 0.9), mask_id = {vocab})' in text, text)
    check("i32 _kind[batch, seq]" in text and "modernbert(tokens, valid = valid)" in text and "where(masked, " in text, text)
    pieces = {"model": {"type": "WordPiece"}, "added_tokens": [{"id": i, "content": c, "special": True} for i, c in ((0, "[PAD]"), (7, "[MASK]"), (9, "[SEP]"))]}
    folder("bert", pieces)
    text = program()
    check('mlm(bin("mine/*.bin", u16, to = 0.9), mask_id = 7, special = (0, 9))' in text and "bert(tokens, kind = kind, valid = valid)" in text, text)
    check(number_of(text, "seq") == 20, text)
    dtc("init", "changed", "--text", 'mi"ne/*.txt', code=2, says=["WordPiece", "python3 -c"])
    folder("t5", {"model": {"type": "Unigram"}, "added_tokens": [{"id": 39 - i, "content": f"<extra_id_{i}>"} for i in range(9)]}, n_positions=30)
    text = program()
    check('span_corruption(bin("mine/*.bin", u16, to = 0.9), sentinel = 39, start_id = 0, end_id = 1)' in text, text)
    check(number_of(text, "src") == 30 and number_of(text, "seq") == 8 and "t5(source, target)" in text, text)
    for wrong in ([], {"a": 1}, [{"id": -1, "content": "<extra_id_0>"}], [{"id": "39", "content": "<extra_id_0>"}], [3, None, {"content": "<extra_id_0>"}]):
        folder("t5", {"added_tokens": wrong})
        check("mine/source.npy" in program(), f"{wrong}: no arrays")
    dtc("init", "changed", "--text", 'mi"ne/*.txt', code=2, says=["without a tokenizer.json that has a mask token or sentinels", "mine/source.npy"])
    os.remove("changed/tokenizer.json")


def images():
    """Images as preprocessor_config.json makes values of them."""
    config_of("vit")
    path = "changed/preprocessor_config.json"

    def source(form, **how):
        if form is not None:
            with open(path, "w") as file:
                file.write(form if isinstance(form, str) else json.dumps(form))
        text = dtc("init", "changed", **how)
        if how.get("code"):
            return text
        with open("odd.dsl", "w") as file:
            file.write(text)
        dtc("odd.dsl", "--check")
        both = re.findall(r'images\("mine", (?:to|from) = 0.9(.*?)\)+$', text, re.M)
        check(len(both) == 2 and both[0] == both[1] and "mean[batch](xent[classes](vit(pixel_values), labels))" in text, text)
        return both[0]

    def has(form, wanted, **how):
        got = source(form, **how)
        check(got == wanted, f"{form}: `{got}`, not `{wanted}`")
    has(None, ", stretch = true, mean = 0.5, std = 0.5", says=["there is no preprocessor_config.json", "mine/CLASS/*.png"])
    has({"size": {"height": 8, "width": 8}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "rescale_factor": 1 / 255, "resample": 2},
        ", stretch = true, mean = 0.5, std = 0.5")
    has({"size": 8, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3},
        ", stretch = true, mean = (0.485, 0.456, 0.406), std = (0.229, 0.224, 0.225", says=["another filter"])
    has({"size": {"shortest_edge": 9}, "do_center_crop": True, "image_mean": 0.25, "image_std": [2]}, ", resize = 9, crop = centre, mean = 0.25, std = 2")
    has({"size": 10, "do_center_crop": True, "do_normalize": False}, ", resize = 10, crop = centre, mean = 0, std = 1")
    has({"size": 7, "do_center_crop": True}, ", stretch = true, mean = 0.5, std = 0.5")  # smaller than the input
    has({"do_resize": False, "do_rescale": False, "image_mean": 127.5, "image_std": 127.5}, ", mean = 0.5, std = 0.5")
    has({"rescale_factor": 1 / 127.5, "image_mean": 1, "image_std": 1}, ", stretch = true, mean = 0.5, std = 0.5")
    for form, says in (("{", "preprocessor_config.json"), ('"a"', "preprocessor_config.json"), ({"image_std": 0}, "`image_std` is 0, and should be above 0"),
                       ({"image_mean": "x"}, '`image_mean` is "x", and should be a number'), ({"image_mean": [1, 2]}, "`image_mean` is [1,2]"),
                       ({"image_mean": [1, 2, 3, 4]}, "`image_mean` is [1,2,3,4]"), ({"rescale_factor": "1"}, "`rescale_factor` is "),
                       ({"size": {"shortest_edge": -1}}, "`size` is "), ({"size": 2.5, "do_center_crop": True}, "`size` is 2.5")):
        source(form, code=5, says=["changed/preprocessor_config.json", says])
    os.remove(path)
    dtc("init", "changed", "--text", 'mi"ne/*.txt', code=2, says=["`vit` of models/vit.dsl reads images", "mine"])


def memory():
    """On GPUs layouts get the lines with which they fit, and the smallest that fits is compiled."""
    config_of("llama_2", hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, num_hidden_layers=32,
              vocab_size=128256, max_position_embeddings=8192)
    dtc("init", "changed", "--device", "h100-sxm", "-o", "large.dsl", says=["8.03 B parameters", "one: needs more memory"])
    with open("large.dsl") as file:
        text = file.read()
    check("compute = bf16" in text and "\n  zero 3 on data\n  remat h\n  default\n" in text, text)
    check("# Needs more memory than a device has: dtc large.dsl --check --parallel one\n" in text, text)
    dtc("large.dsl", "--check")
    dtc("large.dsl", "--check", "--parallel", "eight")
    dtc("large.dsl", "--check", "--parallel", "one", code=4, says=["E0701"])
    config_of("qwen3")
    text = dtc("init", "changed", "--device", "h100-sxm")
    check("zero 3" not in text and "remat" not in text and "compute = bf16" in text, text)


# ---- another library ----

PROGRAM = """include "models/sizes.dsl"
dim width = 4
constant scale = 1.0, big = false, named = true
model %(name)s(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, width] = normal(0.02)
  repeat layer in layers { param g[width] = ones }
  return wte[vocab = tokens] * scale @width wte
}
names files on %(name)s {
  "wte"[vocab, width] = wte
  initial "*"
  config "model_type" = ("toy", "%(name)s")
  config "vocab" = vocab
  config "width", "old_width" = (width, none)
  config "scale" = (scale, none)
  config "kind" = if big then "big" else if named then "small" else none
  config "part.depth" = %(depth)s
}
"""


OTHER = """include "models/sizes.dsl"
axis across
dim classes = 4
model other(x[batch, across = 3], i32 kind[batch] = 0) -> %(result)s {
  param w[across = 3, classes], v[classes] = normal(0.02)
  y = x @across w + v[classes = kind]
  return %(value)s
}
names files on other {
  initial "*"
  config "model_type" = "other"
  config "num_labels", "labels" = classes
}
"""


def other_inputs(init):
    """A model that reads arrays, and one whose result has no classes."""
    def write(result, value):
        with open("lib/models/other.dsl", "w") as file:
            file.write(OTHER % {"result": result, "value": value})
    write("[batch, classes]", "y")
    config = {"model_type": "other", "labels": {"0": "a", "1": "b", "2": "c"}}
    text = init(config, says=["arrays of NumPy", "mine/x.npy, mine/kind.npy, mine/labels.npy"])
    for line in ("x[batch, across = 3] = npy(\"mine/x.npy\", to = 0.9)", "i32 kind[batch] = npy(\"mine/kind.npy\", to = 0.9)", "classes = 3",
                 "i32 labels[batch] = npy(\"mine/labels.npy\", to = 0.9)", "each = xent[classes](other(x, kind), labels)", 'npy("mine/x.npy", from = 0.9)',
                 "dim batch = 8, seq = 4\n"):
        check(line in text, f"`{line}` is not in\n{text}")
    check(number_of(init({**config, "num_labels": 5}), "classes") == 5, "the first key counts")
    for wrong in ({"0": "a", "2": "c"}, {"a": 0}, {}):
        init({**config, "labels": wrong}, code=1, says=["and `classes` of the program is a number"])
    write("[batch]", "sum[classes](y)")
    init(config, code=2, says=["`other` of models/other.dsl is none"])
    os.remove("lib/models/other.dsl")


def library():
    os.makedirs("lib/models")
    for name in ("std.dsl", "training.dsl", "devices.dsl", "stacks.dsl"):
        shutil.copy(f"{LIBRARY}/{name}", "lib")
    with open("lib/models/sizes.dsl", "w") as file:
        file.write('include "std.dsl"\ndim batch = 2, seq = 4, vocab = 8, layers = 1\nconstant scale = 3.0\n')
    for name, depth in (("flat", 1), ("deep", 2)):
        with open(f"lib/models/{name}.dsl", "w") as file:
            file.write((PROGRAM % {"name": name, "depth": depth}).replace("repeat layer in layers { param g[width] = ones }\n", ""))

    def init(config, **how):
        os.makedirs("toy", exist_ok=True)
        with open("toy/config.json", "w") as file:
            json.dump(config, file)
        return dtc("init", "toy", "--library", "lib", **how)

    toy = {"model_type": "toy", "vocab": 256, "width": 8, "kind": "small", "part": {"depth": 1}}
    text = init(toy)
    check("models/flat.dsl" in text and number_of(text, "width") == 8 and "scale" not in text and "big" not in text, text)
    text = init({**toy, "part": {"depth": 2}, "kind": "big", "scale": 2, "width": None, "old_width": 16})
    check("models/deep.dsl" in text and number_of(text, "width") == 16 and "scale = 2.0" in text and "big = true" in text, text)
    text = init({**toy, "kind": None})
    check("named = false" in text, text)
    init({**toy, "part": {"depth": 3}}, code=1, says=["nearest is models/deep.dsl", "`part.depth` is 3, and the program says 2 (models/deep.dsl:"])
    other_inputs(init)
    with open("lib/models/third.dsl", "w") as file:
        third = (PROGRAM % {"name": "third", "depth": 1}).replace("repeat layer in layers { param g[width] = ones }\n", "")
        file.write(third + third[third.index("names files"):].replace("names files", "names others"))
    init(toy, code=1, says=["several programs of the library fit toy/config.json: models/flat.dsl, models/third.dsl\n"])
    with open("lib/models/third.dsl", "w") as file:
        file.write("model m(\n")
    init(toy, code=3, says=["models/third.dsl"])
    shutil.rmtree("lib/models")
    init(toy, code=5, says=["has no models"])


def main():
    with tempfile.TemporaryDirectory() as top:
        os.chdir(top)
        for name in families.CASES:
            family(name)
        for part in (contradictions, folders, command_line, texts, tokenizer, samplers, images, memory, library):
            part()
        os.chdir("/")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
