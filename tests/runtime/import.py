#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameters that another program wrote:  import.py DTC DTRUN

Known values are written as safetensors files by the formulas below, which know nothing of names blocks, and imported into
import.dsl; a checkpoint of step 0 shows what arrived. Checked, on one rank, on four with tensor parallelism, with ZeRO 3 and in
a pipeline: every form of an entry, both names blocks, one file and shards with an index, f32, f16 and bf16, tied weights that
are stored once or twice, tensors of more or fewer rows than the parameter, parameters that the file lacks, master copies. Then faulty
folders, each with its message, of which no rank may load anything; and --weights, --only, --or-start."""

import array
import functools
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "import.dsl")
failures = []

VOCAB, SEQ, EMBED, HEADS, HEAD, FFN, EXPERTS, FRONT, LAYERS = 12, 4, 8, 2, 4, 40, 2, 1, 2
AXES = {"vocab": VOCAB, "seq": SEQ, "embed": EMBED, "heads": HEADS, "head": HEAD, "ffn": FFN, "experts": EXPERTS}


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAIL", what[:600])


# ---- the parameters and their values ----

def paths():
    yield "wte", ("vocab", "embed")
    yield "wpe", ("seq", "embed")
    yield "scale", ("embed",)
    yield "norm.gain", ("embed",)
    for f in range(FRONT):
        yield f"f.{f}.n1.gain", ("embed",)
        yield f"f.{f}.mlp.up.w", ("embed", "ffn")
        yield f"f.{f}.mlp.down.w", ("ffn", "embed")
    for h in range(LAYERS):
        for t in (0, 1):
            yield f"h.{h}.turn.{t}.n1.gain", ("embed",)
            for w in ("wq", "wk", "wv"):
                yield f"h.{h}.turn.{t}.attention.{w}.w", ("embed", "heads", "head")
                yield f"h.{h}.turn.{t}.attention.{w}.b0", ("heads", "head")
            yield f"h.{h}.turn.{t}.attention.wo.w", ("heads", "head", "embed")
        yield f"h.{h}.n2.gain", ("embed",)
        for w in ("wg", "wu"):
            yield f"h.{h}.moe.{w}", ("experts", "embed", "ffn")
        yield f"h.{h}.moe.wd", ("experts", "ffn", "embed")


class Values:
    """A value for each element, exact in f16 and bf16."""

    def __init__(self):
        self.tensors, count = {}, 0
        for path, axes in paths():
            extents = [AXES[a] for a in axes]
            n = 1
            for e in extents:
                n *= e
            self.tensors[path] = (extents, [((count + i) * 37 % 251 - 125) / 64 for i in range(n)])
            count += n

    def at(self, path, *index):
        extents, values = self.tensors[path]
        number = 0
        for e, i in zip(extents, index):
            number = number * e + i
        return values[number]


V = Values()


def tensor(shape, element):
    """The elements of a tensor whose element at an index is element(*index)."""
    values, index = [], [0] * len(shape)
    while True:
        values.append(element(*index))
        for a in reversed(range(len(shape))):
            index[a] += 1
            if index[a] < shape[a]:
                break
            index[a] = 0
        else:
            return list(shape), values


@functools.cache
def huggingface():
    q = lambda h, t: f"h.{h}.turn.{t}.attention."
    names = ("wq", "wk", "wv")
    out = {"model.embed_tokens.weight": tensor((VOCAB, EMBED), lambda v, e: V.at("wte", v, e)),
           "lm_head.weight": tensor((VOCAB, EMBED), lambda v, e: V.at("wte", v, e)),
           "model.positions.weight": tensor((10, EMBED), lambda p, e: V.at("wpe", p, e) if p < SEQ else 9.0),
           "model.scale": tensor((1, EMBED, 1), lambda _, e, __: V.at("scale", e)),
           "model.norm.weight": tensor((EMBED,), lambda e: V.at("norm.gain", e)),
           "model.layers.0.norm.weight": tensor((EMBED,), lambda e: V.at("f.0.n1.gain", e)),
           "model.layers.0.mlp.up.weight": tensor((FFN, EMBED), lambda f, e: V.at("f.0.mlp.up.w", e, f)),
           "model.layers.0.mlp.down.weight": tensor((EMBED, FFN), lambda e, f: V.at("f.0.mlp.down.w", f, e)),
           "model.layers.0.rotary.inv_freq": tensor((3,), lambda i: 0.5), "model.unused": tensor((), lambda: 1.0)}
    for h in range(LAYERS):
        a, b = f"model.layers.{2 * h + 1}.", f"model.layers.{2 * h + 2}."
        out[a + "norm.weight"] = tensor((EMBED,), lambda e: V.at(f"h.{h}.turn.0.n1.gain", e))
        out[b + "norm.weight"] = tensor((EMBED,), lambda e: V.at(f"h.{h}.turn.1.n1.gain", e))
        # thirds: which = o // 8; by head: o = head * 12 + which * 4 + element
        out[a + "attn.qkv.weight"] = tensor(
            (24, EMBED), lambda o, e: V.at(q(h, 0) + names[o // 8] + ".w", e, o % 8 // HEAD, o % HEAD))
        out[a + "attn.qkv.bias"] = tensor(
            (24,), lambda o: V.at(q(h, 0) + names[o // 8] + ".b0", o % 8 // HEAD, o % HEAD))
        out[b + "attn.qkv.weight"] = tensor(
            (24, EMBED), lambda o, e: V.at(q(h, 1) + names[o % 12 // HEAD] + ".w", e, o // 12, o % HEAD))
        out[b + "attn.qkv.bias"] = tensor(
            (24,), lambda o: V.at(q(h, 1) + names[o % 12 // HEAD] + ".b0", o // 12, o % HEAD))
        for t, layer in ((0, a), (1, b)):
            out[layer + "attn.out.weight"] = tensor(
                (EMBED, 8), lambda e, o: V.at(q(h, t) + "wo.w", o // HEAD, o % HEAD, e))
        c = f"model.blocks.{h}."
        out[c + "norm.weight"] = tensor((EMBED,), lambda e: V.at(f"h.{h}.n2.gain", e))
        for x in range(EXPERTS):
            out[c + f"experts.{x}.gate_up.weight"] = tensor(
                (2 * FFN, EMBED), lambda o, e: V.at(f"h.{h}.moe." + ("wg", "wu")[o % 2], x, e, o // 2))
            out[c + f"experts.{x}.down.weight"] = tensor((EMBED, FFN), lambda e, f: V.at(f"h.{h}.moe.wd", x, f, e))
    return out


@functools.cache
def stacked():
    attention = lambda t, h, w: f"h.{h}.turn.{t}.attention.{w}"
    norms = ["f.0.n1.gain"] + [f"h.{h}.turn.{t}.n1.gain" for t in (0, 1) for h in range(LAYERS)]
    late = [f"h.{h}.n2.gain" for h in range(LAYERS)] + ["f.0.n1.gain"]
    out = {"wte": tensor((EMBED, 14), lambda e, v: V.at("wte", v, e) if v < VOCAB else 9.0),
           "wte.first": tensor((5, EMBED), lambda v, e: V.at("wte", v, e)),
           "scale.first": tensor((3,), lambda e: V.at("scale", e)),
           "wpe": tensor((3, EMBED), lambda s, e: V.at("wpe", s, e)),
           "wpe.left": tensor((SEQ, 5), lambda s, e: V.at("wpe", s, e)),
           "scale": tensor((EMBED,), lambda e: V.at("scale", e)),
           "norms": tensor((len(norms), EMBED), lambda l, e: V.at(norms[l], e)),
           "up": tensor((EMBED, FRONT, FFN), lambda e, f, i: V.at(f"f.{f}.mlp.up.w", e, i)),
           "down": tensor((FRONT * FFN, EMBED, 1), lambda i, e, _: V.at(f"f.{i // FFN}.mlp.down.w", i % FFN, e)),
           "o": tensor((2, LAYERS, HEAD, HEADS, EMBED), lambda t, h, d, n, e: V.at(attention(t, h, "wo.w"), n, d, e)),
           "bias": tensor((2, 3, LAYERS, HEAD, HEADS),
                          lambda t, k, h, d, n: V.at(attention(t, h, ("wq", "wk", "wv")[k] + ".b0"), n, d))}
    for l, path in enumerate(late):
        out[f"{l + 7}.norm"] = tensor((EMBED,), lambda e: V.at(path, e))
    for name in "qkv":
        out[name] = tensor((2, LAYERS, HEAD, HEADS, EMBED), lambda t, h, d, n, e: V.at(attention(t, h, f"w{name}.w"), e, n, d))
    for k, w in enumerate(("wg", "wu")):
        out[f"gate.{k}"] = tensor((LAYERS, EMBED, EXPERTS, FFN), lambda h, e, x, f: V.at(f"h.{h}.moe.{w}", x, e, f))
    for h in range(LAYERS):
        for x in range(EXPERTS):
            out[f"out.{(5, 0, 7, 3)[2 * h + x]}"] = tensor((FFN, EMBED), lambda f, e: V.at(f"h.{h}.moe.wd", x, f, e))
    return out


# ---- files ----

def pack(values, dtype):
    if dtype == "F32":
        return array.array("f", values).tobytes()
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return bytes(len(values) * {"U8": 1, "F8_E4M3": 1, "F64": 8, "I64": 8}[dtype])


def save(path, tensors, dtype=lambda name: "F32"):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, values) in tensors.items():
        raw = pack(values, dtype(name))
        header[name] = {"dtype": dtype(name), "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


CONFIG = {"rms_norm_eps": 1e-6, "hidden_size": EMBED, "hidden_act": "silu", "rope_scaling": {"rope_type": "llama3"}}


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def folder(path, tensors, shards=0, dtype=lambda name: "F32", config=CONFIG):
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    if config is not None:
        write_json(path + "/config.json", config)
    if not shards:
        save(path + "/model.safetensors", tensors, dtype)
        return path
    where = {}
    for s in range(shards):
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        part = {n: t for i, (n, t) in enumerate(tensors.items()) if i % shards == s}
        save(f"{path}/{file}", part, dtype)
        where.update({n: file for n in part})
    write_json(path + "/model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": where})
    return path


def read_tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, about in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            first, end = about["data_offsets"]
            raw = data[8 + n + first:8 + n + end]
            if about["dtype"] == "BF16":
                raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
            tensors[name] = array.array("f", raw).tolist()
    return tensors


# ---- runs ----

def run(command, code=0):
    done = subprocess.run(command, capture_output=True, timeout=100)
    text = done.stdout.decode() + done.stderr.decode()
    check(done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}, not {code}:\n{text}")
    return text


def loaded(dtrun, plan, out, *options):
    shutil.rmtree(out, ignore_errors=True)
    run([dtrun, plan, "--steps", "0", "--quiet", "--save", out, *options])
    newest = sorted(os.listdir(out))[-1] if os.path.isdir(out) else None
    return read_tensors(f"{out}/{newest}/model.safetensors") if newest else {}


def same(found, what, initial=None):
    """initial: of the parameters that the stacked block has in part."""
    check(set(found) == set(V.tensors), f"{what}: tensors {sorted(set(found) ^ set(V.tensors))}")
    for path in found:
        right = V.tensors[path][1]
        if initial and path in ("norm.gain", "wpe"):
            n = 3 * EMBED + 5 if path == "wpe" else 0  # two copies, of which each has elements that the other lacks
            right = right[:n] + initial[path][n:]
        check(found[path] == right, f"{what}: `{path}` differs")


def refused(dtrun, plan, path, code, *texts, options=()):
    said = run([dtrun, plan, "--unproved", "--steps", "0", "--import", path, *options], code)
    for text in texts:
        check(text in said, f"{os.path.basename(path)}: `{text}` is not in\n{said}")
    check("rank" not in said, f"a rank was started:\n{said}")


def without(tensors, *names):
    return {n: t for n, t in tensors.items() if n not in names}


def good_folders(dtrun, plans, top):
    model = folder(top + "/model", huggingface())
    for name, plan in plans.items():
        same(loaded(dtrun, plan, top + "/out", "--import", model), f"{name}, one file")
    mixed = lambda name: ("F32", "F16", "BF16")[len(name) % 3]
    shards = folder(top + "/shards", without(huggingface(), "lm_head.weight"), 3, mixed)
    copy = folder(top + "/copy", without(huggingface(), "model.embed_tokens.weight"), 1, mixed)
    initial = loaded(dtrun, plans["none"], top + "/out")
    stack = folder(top + "/stack", stacked(), 2, lambda name: "BF16", config=None)
    for name in ("none", "tensor", "zero", "mixed"):
        same(loaded(dtrun, plans[name], top + "/out", "--import", shards), f"{name}, shards of three dtypes")
        same(loaded(dtrun, plans[name], top + "/out", "--import", stack), f"{name}, stacked", initial)
    same(loaded(dtrun, plans["pipes"], top + "/out", "--import", stack, "--device", "apart"),
         "a pipeline, memory that only instructions reach", initial)
    same(loaded(dtrun, plans["zero"], top + "/out", "--import", copy), "the copy of a tied weight alone")
    same(loaded(dtrun, plans["none"], top + "/out", "--import", model + "/model.safetensors", "--names", "huggingface"),
         "the path of a file")
    return model


def with_header(path, header, data=b"", length=None):
    """A file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length) + text + data)


def faulty_tensors(dtrun, plan, top):
    """Tensors that do not fit: each is one error with a list."""
    good = huggingface()

    def case(name, tensors, *texts, config=CONFIG, dtype=lambda name: "F32", shards=0, options=()):
        path = folder(f"{top}/{name}", tensors, shards, dtype, config)
        refused(dtrun, plan, path, 1, *texts, options=options)

    case("missing", without(good, "model.norm.weight", "model.blocks.1.norm.weight"), "missing: `model.norm.weight`",
         "missing: `model.blocks.1.norm.weight`", "names huggingface`: 2 missing")
    case("one_expert", without(good, "model.blocks.1.experts.1.down.weight"),
         "missing: `model.blocks.1.experts.1.down.weight`", "1 missing")
    case("untied", without(good, "lm_head.weight", "model.embed_tokens.weight"), "missing: `model.embed_tokens.weight`",
         "missing: `lm_head.weight`")
    case("extra", {**good, "model.layers.5.norm.weight": tensor((EMBED,), lambda e: 0.0)},
         "not named: `model.layers.5.norm.weight`, F32[8]", "1 without a name in the block")
    renamed = without(good, "model.norm.weight")
    renamed["model.norms.weight"] = good["model.norm.weight"]
    case("renamed", renamed, "missing: `model.norm.weight` (there is `model.norms.weight`)",
         "not named: `model.norms.weight`", "1 missing, 1 without a name")
    case("turned", {**good, "model.layers.0.mlp.up.weight": tensor((EMBED, FFN), lambda *i: 0.0)},
         "shape: `model.layers.0.mlp.up.weight` is [8, 40] and should be [40, 8]; the axes", "1 of another shape")
    case("flat", {**good, "model.scale": tensor((EMBED,), lambda *i: 0.0)}, "`model.scale` is [8] and should be [1, 8, 1]")
    case("rows", {**good, "model.positions.weight": tensor((9, EMBED), lambda *i: 0.0)}, "is [9, 8] and should be [10, 8]")
    case("wide", good, "`model.scale` is F64, and F32, F16 and BF16 can be read", "1 of another dtype",
         dtype=lambda name: "F64" if name == "model.scale" else "F32")
    case("fp8", good, "`model.scale` is F8_E4M3", "FineGrainedFP8Config(dequantize=True)",
         dtype=lambda name: "F8_E4M3" if name == "model.scale" else "F32")
    blocks = {"model.blocks.0.experts.gate_up_proj_blocks": tensor((2,), lambda i: 0.0), **good}
    case("mxfp4", blocks, "Mxfp4Config(dequantize=True)", dtype=lambda name: "U8" if "_blocks" in name else "F32")
    case("eps", good, "config.json: `norm_eps, rms_norm_eps` is 1e-5, and the program says 1e-6", "import.dsl:",
         "1 values of config.json other than the program's", config={**CONFIG, "rms_norm_eps": 1e-5})
    case("rope", good, "`rope_scaling.rope_type` is \"yarn\", and the program says \"llama3\"",
         config={**CONFIG, "rope_scaling": {"rope_type": "yarn"}})
    case("no_rope", good, "`rope_scaling.rope_type` is not there", config={**CONFIG, "rope_scaling": None})
    case("act", good, "is \"gelu\", and the program says \"silu\" or \"swish\"", config={**CONFIG, "hidden_act": "gelu"})
    case("tied", good, "`tie_word_embeddings` is false, and the program says true or none",
         config={**CONFIG, "tie_word_embeddings": False})
    case("hidden", good, "`hidden_size` is 16, and the program says 8", config={**CONFIG, "hidden_size": 16})
    case("no_config", good, "config.json: there is none", config=None)
    case("other_block", good, "names stacked`", "missing: `wte`", options=("--names", "stacked"))


def faulty_files(dtrun, plan, top):
    """Files that cannot be read: none of their numbers is trusted."""
    good = huggingface()
    one = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}

    def case(name, code, *texts, make=None, shards=0, config=CONFIG):
        path = folder(f"{top}/{name}", good, shards, config=config)
        make(path)
        refused(dtrun, plan, path, code, *texts)

    file = lambda make: lambda path: make(path + "/model.safetensors")
    header = lambda about, *more: file(lambda path: with_header(path, about, *more))
    index = "/model.safetensors.index.json"
    second = "/model-00002-of-00002.safetensors"

    def change(name, edit):
        def make(path):
            with open(path + name) as opened:
                value = json.load(opened)
            write_json(path + name, edit(value) or value)
        return make

    def moved(value):
        value["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors" \
            if "2-of" in value["weight_map"]["model.norm.weight"] else "model-00002-of-00002.safetensors"

    damaged = "is damaged"
    case("torn", 5, damaged, "`", make=file(lambda path: os.truncate(path, os.path.getsize(path) - 5)))
    case("long", 5, "bytes after its last tensor", make=file(lambda path: open(path, "ab").write(b"x")))
    case("empty", 5, "it has 0 bytes", make=file(lambda path: os.truncate(path, 0)))
    case("short", 5, damaged, make=file(lambda path: os.truncate(path, 7)))
    case("huge", 5, "its header is to have 18446744073709551615", make=header(b"{}", b"", 2 ** 64 - 1))
    case("beyond", 5, "its header is to have 1000", make=header(b"{}", b"", 1000))
    case("no_json", 5, "its header is no JSON object", make=header(b"[1, 2]"))
    case("deep", 5, "its header is no JSON object", make=header(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"))
    case("arrays", 5, "its header is no JSON object", make=header(b'{"a":[' + b"[]," * 5000 + b"[]]}"))
    case("config_arrays", 5, "config.json is damaged",
         make=lambda path: open(path + "/config.json", "w").write('{"a":[' + "[]," * 70000 + "[]]}"))
    case("hole", 5, "follows a hole", make=header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}, b" " * 16))
    case("overlap", 5, "overlaps", make=header({**one, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, b" " * 12))
    case("outside", 5, "lies outside of the file", make=header(one, b"1234"))
    case("negative", 5, "lies outside of the file", make=header({"a": {**one["a"], "data_offsets": [-8, 0]}}, b""))
    case("size", 5, "another number of bytes", make=header({"a": {**one["a"], "shape": [3]}}, b" " * 8))
    case("shape", 5, "has a shape that cannot be read", make=header({"a": {**one["a"], "shape": [2 ** 40, 2 ** 40]}}, b" " * 8))
    case("axes", 5, "has a shape that cannot be read", make=header({"a": {**one["a"], "shape": [1] * 17}}, b" " * 8))
    case("twice", 5, "no JSON object", make=header(b'{"a": 1, "a": 2}'))
    case("lfs", 5, "git lfs pull", make=file(lambda path: open(path, "wb").write(b"version https://git-lfs.github.com/spec/v1\n")))
    case("zip", 2, "is a pickle", "torch.load", make=file(lambda path: open(path, "wb").write(b"PK\3\4" + b" " * 40)))
    case("data", 5, "has no .safetensors file",  # tokens are no pickle
         make=lambda path: os.rename(path + "/model.safetensors", path + "/tokens.bin"))
    case("torch", 2, "pytorch_model.bin is a pickle", "weights_only=True",
         make=lambda path: os.rename(path + "/model.safetensors", path + "/pytorch_model.bin"))
    case("gguf", 2, "llama.cpp", make=lambda path: os.rename(path + "/model.safetensors", path + "/m.gguf"))
    case("nothing", 5, "has no .safetensors file", make=lambda path: os.remove(path + "/model.safetensors"))
    case("ours", 2, "--resume goes on", make=lambda path: os.mkdir(path + "/step-00000004"))
    case("bad_config", 5, "config.json is damaged", make=lambda path: open(path + "/config.json", "w").write("{"))
    case("gptq", 2, "quantised (gptq)", "dequantize()", make=lambda path: None,
         config={**CONFIG, "quantization_config": {"quant_method": "gptq"}})
    case("no_shard", 5, "model-00002-of-00002.safetensors", make=lambda path: os.remove(path + second), shards=2)
    case("no_index", 5, "and no model.safetensors.index.json", make=lambda path: os.remove(path + index), shards=2)
    case("moved", 5, "index.json and the files differ", make=change(index, moved), shards=2)
    case("unlisted", 5, "the index does not have it", shards=2,
         make=change(index, lambda value: value["weight_map"].pop("model.scale") and None))
    case("listed", 5, "`ghost` is not in", shards=2,
         make=change(index, lambda value: value["weight_map"].update(ghost="model-00001-of-00002.safetensors")))
    case("above", 5, "is in no file of this folder", shards=2,
         make=change(index, lambda value: value["weight_map"].update(ghost="../other.safetensors")))
    case("no_map", 5, "it has no weight_map", make=change(index, lambda value: {"weight_map": [1]}), shards=2)
    wrong = {"data_offsets": (None, 8, "0, 8", [], [0], [0, 8, 16], [0, "8"], [0, 8.0], [8, 0], [0, 2 ** 62], [[0, 8]], {"0": 8}),
             "shape": (None, 2, "2", [2.0], ["2"], [-2], [[2]], [2 ** 62], [2 ** 62, 0, 2], {"2": 2}),
             "dtype": (None, 32, ["F32"], {})}
    for key, values in wrong.items():
        for i, value in enumerate(values):
            case(f"{key}_{i}", 5, "is damaged", make=header({"a": {**one["a"], key: value}}, b" " * 8))
    for i, value in enumerate((None, 1, "F32", [1], [])):
        case(f"entry_{i}", 5, "is damaged: tensor `a` is no description", make=header({"a": value}, b" " * 8))
    for i, name in enumerate(("", ".", "x.bin", ".x.safetensors", "a/x.safetensors", "x" * 300 + ".safetensors", 1, None)):
        case(f"where_{i}", 5, "is in no file of this folder", shards=2,
             make=change(index, lambda value: value["weight_map"].update(ghost=name)))
    for i, text in enumerate((b"", b"[]", b"null", b"{]", b"\xff\xfe{}", b'{"a": 1, "a": 2}', b"{" * 9, b'{"a":' * 3000)):
        case(f"config_{i}", 5, "config.json is damaged", make=lambda path: open(path + "/config.json", "wb").write(text))


def faulty_values(dtrun, plans, top):
    """What only the ranks see, which read the elements."""
    plan, good = plans["none"], huggingface()
    shape, values = good["lm_head.weight"]
    path = folder(top + "/two", {**good, "lm_head.weight": (shape, values[:-1] + [7.0])})
    said = run([dtrun, plan, "--steps", "0", "--import", path], 1)
    check("`wte` is in the file twice" in said and "the weights are not tied" in said, f"two copies: {said}")
    shape, values = good["model.norm.weight"]
    path = folder(top + "/nan", {**good, "model.norm.weight": (shape, values[:-1] + [float("nan")])})
    said = run([dtrun, plan, "--steps", "0", "--import", path], 1)
    check("`model.norm.weight` has numbers that are not finite" in said, f"not finite: {said}")
    check("rank" not in said and "step" not in said, f"a file is at fault, and no rank: {said}")
    path = folder(top + "/large", {**good, "model.norm.weight": (shape, values[:-1] + [7e4])})
    said = run([dtrun, plans["half"], "--steps", "0", "--import", path], 1)
    check("`model.norm.weight` has numbers that are not finite, or are not in f16" in said, f"a master copy: {said}")
    part = stacked()
    shape, values = part["wte.first"]
    path = folder(top + "/part", {**part, "wte.first": (shape, values[:-1] + [7.0])}, config=None)
    said = run([dtrun, plan, "--steps", "0", "--import", path], 1)
    check("`wte` and `wte.first` differ" in said, f"a copy of some rows: {said}")
    shape, values = part["wpe.left"]
    path = folder(top + "/columns", {**part, "wpe.left": (shape, values[:1] + [7.0] + values[2:])}, config=None)
    said = run([dtrun, plan, "--steps", "0", "--import", path], 1)
    check("`wpe` and `wpe.left` differ" in said, f"a copy of some columns: {said}")
    path = folder(top + "/last", {**part, "wpe.left": (shape, values[:-1] + [float("inf")])}, config=None)
    said = run([dtrun, plan, "--steps", "0", "--import", path], 1)
    check("`wpe.left` has numbers that are not finite" in said, f"elements that one copy has: {said}")


def other_options(dtrun, plans, top, model):
    """--weights, --only, --or-start, and what excludes what."""
    plan, saved, out = plans["none"], top + "/saved", top + "/out"
    loaded(dtrun, plans["zero"], saved, "--import", model)
    same(loaded(dtrun, plan, out, "--weights", saved), "--weights")
    initial = loaded(dtrun, plan, top + "/initial")
    some = loaded(dtrun, plans["tensor"], out, "--weights", saved, "--only", "wte", "--only", "h.*.moe.*")
    for path in some:
        taken = path == "wte" or ".moe." in path
        check(some[path] == (V.tensors[path][1] if taken else initial[path]), f"--only: `{path}`")
    refused_option = lambda text, *words, code=2: check(
        text in run([dtrun, plan, *words], code), f"{' '.join(words)}: `{text}` is not said")
    refused_option("no parameter of the plan has a path that matches", "--weights", saved, "--only", "none.*", "--steps", "0")
    refused_option("--import reads them", "--resume", model)
    refused_option("--import reads them", "--weights", model)
    step = saved + "/" + sorted(name for name in os.listdir(saved) if name.startswith("step-"))[-1]
    torn = top + "/torn/" + os.path.basename(step)
    shutil.copytree(step, torn)
    os.remove(torn + "/manifest.json")
    refused_option("there is no whole checkpoint in", "--weights", torn, code=5)
    refused_option("exclude each other", "--resume", saved, "--import", model)
    refused_option("belongs to --weights", "--only", "wte")
    refused_option("has no names block `other`", "--import", model, "--names", "other")
    refused_option("name another for the checkpoints", "--import", model, "--save", model, "--steps", "0")
    first = loaded(dtrun, plan, out, "--resume", out, "--or-start", "--import", model)
    same(first, "--or-start without a checkpoint")
    said = run([dtrun, plan, "--resume", saved, "--or-start", "--import", top + "/nowhere", "--quiet", "--steps", "0"])
    check("nowhere" not in said, f"--or-start with a checkpoint: {said}")


# ---- results of the model, in double precision ----

def norm(x, path):
    root = (sum(v * v for v in x) / EMBED + 1e-5) ** -0.5
    return [v * root * V.at(path, e) for e, v in enumerate(x)]


def silu(v):
    return v / (1 + math.exp(-v))


def attention(xs, path):
    def project(x, w):
        return [[sum(x[e] * V.at(f"{path}.{w}.w", e, n, d) for e in range(EMBED)) + V.at(f"{path}.{w}.b0", n, d)
                 for d in range(HEAD)] for n in range(HEADS)]

    q, k, v = ([project(x, w) for x in xs] for w in ("wq", "wk", "wv"))
    out = []
    for s in range(len(xs)):
        o = [0.0] * EMBED
        for n in range(HEADS):
            z = [sum(a * b for a, b in zip(q[s][n], k[t][n])) * HEAD ** -0.5 for t in range(s + 1)]
            p = [math.exp(y - max(z)) for y in z]
            for d in range(HEAD):
                y = sum(p[t] * v[t][n][d] for t in range(s + 1)) / sum(p)
                for e in range(EMBED):
                    o[e] += y * V.at(f"{path}.wo.w", n, d, e)
        out.append(o)
    return out


def moe(x, path):
    out = [0.0] * EMBED
    for i in range(EXPERTS):
        for f in range(FFN):
            g, u = (sum(x[e] * V.at(f"{path}.{w}", i, e, f) for e in range(EMBED)) for w in ("wg", "wu"))
            for e in range(EMBED):
                out[e] += silu(g) * u * V.at(path + ".wd", i, f, e)
    return out


def mlp(x, path):
    hidden = [silu(sum(x[e] * V.at(path + ".up.w", e, f) for e in range(EMBED))) for f in range(FFN)]
    return [sum(hidden[f] * V.at(path + ".down.w", f, e) for f in range(FFN)) for e in range(EMBED)]


def logits_of(ids):
    add = lambda xs, ys: [[a + b for a, b in zip(x, y)] for x, y in zip(xs, ys)]
    xs = [[(V.at("wte", i, e) + V.at("wpe", s, e)) * V.at("scale", e) for e in range(EMBED)] for s, i in enumerate(ids)]
    xs = add(xs, [mlp(norm(x, "f.0.n1.gain"), "f.0.mlp") for x in xs])
    for h in range(LAYERS):
        for t in (0, 1):
            xs = add(xs, attention([norm(x, f"h.{h}.turn.{t}.n1.gain") for x in xs], f"h.{h}.turn.{t}.attention"))
        xs = add(xs, [moe(norm(x, f"h.{h}.n2.gain"), f"h.{h}.moe") for x in xs])
    return [sum(y[e] * V.at("wte", v, e) for e in range(EMBED))
            for y in (norm(x, "norm.gain") for x in xs) for v in range(VOCAB)]


def write_reference(path, ids, logits, dtype="I64", words=VOCAB):
    rows, positions = len(ids), len(ids[0])
    raw = struct.pack(f"<{rows * positions}{'q' if dtype == 'I64' else 'i'}", *(i for row in ids for i in row))
    data = array.array("f", logits).tobytes()
    with_header(path, {"input_ids": {"dtype": dtype, "shape": [rows, positions], "data_offsets": [0, len(raw)]},
                       "logits": {"dtype": "F32", "shape": [rows, positions, words],
                                  "data_offsets": [len(raw), len(raw) + len(data)]}}, raw + data)
    return path


def references(dtrun, plans, top, model):
    """--reference: the model's results are those of the formulas above, on one rank and on four."""
    ids = [[(5 * r + 3 * s * s + r * s) % VOCAB for s in range(3)] for r in range(5)]
    logits = [v for row in ids for v in logits_of(row)]
    good = write_reference(top + "/good.safetensors", ids, logits)
    compare = lambda plan, file, code: run([dtrun, plan, "--import", model, "--reference", file], code)
    error = lambda said: float(said.split("relative error is ")[1].split()[0].strip(","))
    for name in ("none", "tensor", "zero", "pipes"):
        said = compare(plans[name], good, 0)
        check("agree at 15 positions" in said and error(said) < 1e-5, f"{name}: {said}")
    for number, value in ((2 * VOCAB + 1, math.nan), (3 * VOCAB - 1, math.inf)):
        some = write_reference(top + "/spoilt.safetensors", ids, logits[:number] + [value] + logits[number + 1:])
        said = compare(plans["none"], some, 1)
        check("spoilt.safetensors is no reference: its logits at row 0, position 2 are not finite" in said, said)
    said = compare(plans["mixed"], good, 1)  # so large values are not for bf16
    check(0.01 < error(said) < 0.5 and "rounding explains 5e-02" in said, f"mixed: {said}")
    place = (4 * 3 + 2) * VOCAB + 4
    other = logits[:place] + [logits[place] * 1.01 + 0.01] + logits[place + 1:]
    said = compare(plans["tensor"], write_reference(top + "/other.safetensors", ids, other, "I32"), 1)
    check("1 of 15 positions differ" in said and "row 4, position 2" in said and "Position 0 is right" in said, said)
    other = logits[:1] + [logits[1] + 1] + logits[2:]
    said = compare(plans["none"], write_reference(top + "/other.safetensors", ids, other), 1)
    check("row 0, position 0" in said and "Compare epsilons" in said, said)
    check("rank" not in said and "step" not in said, f"a file is at fault, and no rank: {said}")
    shape, values = huggingface()["model.embed_tokens.weight"]  # token 10 is the first of row 2 alone, and overflows
    large = folder(top + "/overflow", {**without(huggingface(), "lm_head.weight"), "model.embed_tokens.weight": (
        shape, [3e38 if i // EMBED == 10 else v for i, v in enumerate(values)])})
    some = write_reference(top + "/some.safetensors", ids, [v for i, v in enumerate(logits) if i % VOCAB < 10], words=10)
    said = run([dtrun, plans["none"], "--import", large, "--reference", some], 1)
    check("3 of 15 positions differ; the relative error is inf at row 2, position 0," in said, f"no numbers: {said}")
    said = compare(plans["none"], write_reference(top + "/long.safetensors", [[1] * 5], [0.0] * 5 * VOCAB), 2)
    check("has 5 positions, and the plan 4: compile the program with -D seq=5" in said, said)
    said = compare(plans["none"], write_reference(top + "/words.safetensors", [[1]], [0.0] * 13, words=13), 2)
    check("has logits of 13 tokens, and the model 12" in said, said)
    said = compare(plans["none"], write_reference(top + "/id.safetensors", [[12]], [0.0] * VOCAB), 1)
    check("has token 12, of a vocabulary of 12" in said, said)
    said = compare(plans["none"], model + "/model.safetensors", 2)
    check("needs input_ids" in said, said)


BATCH = """dim batch = 6, seq = 2, vocab = 5, embed = 3
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = 1
  x = wte[vocab = tokens]
  return (x + sum[batch](x)) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](m(tokens)[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster four { gpus = 4; gpu = "cpu" }
parallel padded on four { mesh data = 4; shard batch on data (pad = 4) }
names file on m { "wte"[vocab, embed] = wte }
"""


def padded_batch(dtc, dtrun, top):
    """--reference where ranks pad the batch, of which each reads all: seven rows are a batch of six and one of one, which
    tokens 0 fill up. The results show the batch: each row has the sum over its batch besides."""
    wte = [[(7 * v + 4 * e) % 11 - 5 for e in range(3)] for v in range(5)]
    ids, logits = [[(3 * r + s) % 5 for s in range(2)] for r in range(7)], []
    for r in range(7):
        batch = ids[:6] if r < 6 else ids[6:] + 5 * [[0, 0]]
        for s in range(2):
            x = [wte[ids[r][s]][e] + sum(wte[row[s]][e] for row in batch) for e in range(3)]
            logits += [sum(a * b for a, b in zip(x, wte[v])) for v in range(5)]
    with open(top + "/batch.dsl", "w") as file:
        file.write(BATCH)
    run([dtc, top + "/batch.dsl", "-o", top + "/batch.plan"])
    model = folder(top + "/batch", {"wte": ([5, 3], [v for row in wte for v in row])}, config=None)
    said = run([dtrun, top + "/batch.plan", "--import", model, "--reference",
                write_reference(top + "/batch.safetensors", ids, logits, words=5)])
    check("agree at 14 positions" in said, f"a padded batch: {said}")


def compile_plans(dtc, top):
    plans = {}
    for name, options in {"none": [], "tensor": [], "zero": [], "pipes": [], "mixed": ["--parallel", "zero", "--set",
             "train.precision=mixed(compute = bf16, params = bf16, master = f32)"],
             "half": ["--parallel", "none", "--set", "train.precision=mixed(compute = f16, params = f16, master = f32, loss_scale = 256)"]}.items():
        plans[name] = f"{top}/{name}.plan"
        run([dtc, PROGRAM, *(options or ["--parallel", name]), "-o", plans[name]])
    return plans


def main():
    dtc, dtrun = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as top:
        plans = compile_plans(dtc, top)
        model = good_folders(dtrun, plans, top)
        faulty_tensors(dtrun, plans["none"], top)
        faulty_files(dtrun, plans["none"], top)
        faulty_values(dtrun, plans, top)
        other_options(dtrun, plans, top, model)
        references(dtrun, plans, top, model)
        padded_batch(dtc, dtrun, top)
    print(f"{len(failures)} failures" if failures else "all is as it should be")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
