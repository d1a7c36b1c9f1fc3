#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameters for other programs:  export.py DTC DTRUN

The folders of import.py are imported into import.dsl and exported again, on one rank, on four with tensor parallelism, with
ZeRO 3 and in a pipeline, in files and pieces of many sizes: every tensor has the same bytes as before. Then another dtype, a
run that trains, checkpoints of imported parameters, a program that never imported any, and what is refused: after each
refusal nothing is left that looks like an export."""

import array
import fcntl
import importlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

imports = importlib.import_module("import")
check, run, folder, tensor, without = imports.check, imports.run, imports.folder, imports.tensor, imports.without
failures = imports.failures
TOKENIZER = {"tokenizer.json": b'{"x": 1}', "vocab.txt": b"a\nb\n", "merges.txt": b"", "chat_template.jinja": b"\xff",
             "generation_config.json": b"{}", "notes.txt": b"no tokenizer", ".vocab.swp": b""}


# ---- files ----

def raw_file(path, ours):
    """Name -> dtype, shape, bytes; checks of a file of ours what a reader relies on."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    header, end, tensors = json.loads(data[8:8 + n]), 0, {}
    check(header.pop("__metadata__") == {"format": "pt"} and not (ours and n % 8), f"{path}: its header")
    for name, about in header.items():
        first, last = about["data_offsets"]
        size = {"F32": 4, "I64": 8, "F64": 8, "F8_E4M3": 1}.get(about["dtype"], 2)
        check(first == end and not (ours and first % size), f"{path}: `{name}` begins at byte {first}")
        tensors[name] = (about["dtype"], about["shape"], data[8 + n + first:8 + n + last])
        end = last
    check(8 + n + end == len(data), f"{path} has {len(data)} bytes")
    return tensors


def raw(path, limit=None, ours=False):
    """The tensors of a folder. limit: of the bytes in a file of ours."""
    index = path + "/model.safetensors.index.json"
    names = sorted(n for n in os.listdir(path) if n.endswith(".safetensors"))
    if not os.path.exists(index):
        check(names == ["model.safetensors"], f"{path}: files {names}")
        return raw_file(f"{path}/{names[0]}", ours)
    with open(index) as file:
        said = json.load(file)
    check(set(names) == set(said["weight_map"].values()), f"{path}: files {names}")
    tensors = {}
    for i, name in enumerate(names):
        right = f"model-{i + 1:05}-of-{len(names):05}.safetensors"
        check(name == right or limit is None, f"{path}: file {name}")
        part = raw_file(f"{path}/{name}", ours)
        check(all(said["weight_map"].get(t) == name for t in part), f"{path}: {name} and the index differ")
        size = sum(len(t[2]) for t in part.values())
        check(limit is None or size <= limit or len(part) == 1, f"{path}: {name} has {size} bytes")
        tensors.update(part)
    total = sum(len(t[2]) for t in tensors.values())
    check(limit is None or said["metadata"] == {"total_size": total}, f"{path}: metadata {said['metadata']}")
    return tensors


def config(path):
    with open(path + "/config.json") as file:
        return json.load(file)


def same(found, right, what):
    check(set(found) == set(right), f"{what}: tensors {sorted(set(found) ^ set(right))}")
    for name in found:
        check(found[name] == right.get(name), f"{what}: `{name}` differs: {found[name][:2]}, {right.get(name, '  ')[:2]}")


def nothing_left(top, what):
    left = [n for n in os.listdir(top) if n == "out" or n.endswith(".export")]
    check(not left, f"{what}: {left} is left")


def exported(dtrun, plan, top, *options, code=0, limit=None, piece=None, fault=None):
    """Exports to top/out. Returns the tensors; what was said if it fails."""
    out = top + "/out"
    shutil.rmtree(out, ignore_errors=True)
    for name, value in (("DT_EXPORT_BYTES", limit and f"{limit}:{piece or 1 << 20}"), ("DT_FAULT", fault)):
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value
    said = run([dtrun, plan, "--export", out, *options], code)
    os.environ.pop("DT_EXPORT_BYTES", None)
    os.environ.pop("DT_FAULT", None)
    if code:
        nothing_left(top, said)
        return said
    check(not os.path.exists(top + "/.out.export"), "the unfinished folder is left")
    return raw(out, limit, True)


# ---- the same bytes ----

def round_trips(dtrun, plans, top):
    """Import and export give the same tensors, in any layout, of one dtype or three, in any pieces."""
    zero = ("--steps", "0")
    mixed = lambda name: ("F32", "F16", "BF16")[len(name) % 3]
    model = folder(top + "/model", imports.huggingface())
    shards = folder(top + "/shards", without(imports.huggingface(), "lm_head.weight"), 3, mixed,
                    config={**imports.CONFIG, "torch_dtype": "bfloat16", "part": {"dtype": "float16", "n": 0.1}})
    copy = folder(top + "/copy", without(imports.huggingface(), "model.embed_tokens.weight"), 1, mixed)
    stack = folder(top + "/stack", imports.stacked(), 2, lambda name: "BF16", config=None)
    for name, data in TOKENIZER.items():
        with open(f"{model}/{name}", "wb") as file:
            file.write(data)
    right = raw(model)
    for name, piece in (("none", 8), ("none", 40), ("tensor", 16), ("tensor", 1000), ("zero", 24), ("pipes", 56), ("zero", 1 << 20)):
        found = exported(dtrun, plans[name], top, *zero, "--import", model, limit=700, piece=piece)
        same(found, right, f"{name}, pieces of {piece} bytes")
    same(exported(dtrun, plans["pipes"], top, *zero, "--import", model, "--device", "apart"), right, "memory apart")
    check({n for n in TOKENIZER if os.path.exists(f"{top}/out/{n}")} == set(TOKENIZER) - {"notes.txt", ".vocab.swp"}, "copies")
    with open(top + "/out/chat_template.jinja", "rb") as file:
        check(file.read() == b"\xff", "a copy differs")
    check(config(top + "/out") == {**imports.CONFIG, "torch_dtype": "float32"}, f"config {config(top + '/out')}")
    for name in ("none", "tensor", "zero", "pipes"):
        same(exported(dtrun, plans[name], top, *zero, "--import", shards), raw(shards), f"{name}, three dtypes")
        same(exported(dtrun, plans[name], top, *zero, "--import", stack, limit=3000, piece=200), raw(stack), f"{name}, stacked")
    same(exported(dtrun, plans["mixed"], top, *zero, "--import", shards), raw(shards), "a master copy")
    same(exported(dtrun, plans["zero"], top, *zero, "--import", copy), raw(copy), "the copy of a tied weight alone")
    said = run([dtrun, plans["none"], "--import", stack, "--export", top + "/note", *zero])
    check("note: the export leaves out `norm.gain`: `names stacked` has no tensor for it" in said, f"left out: {said}")
    return model, shards


def other_dtypes(dtrun, plans, top, model, shards):
    for name, dtype, theirs in (("bf16", "BF16", "bfloat16"), ("f16", "F16", "float16"), ("f32", "F32", "float32")):
        found = exported(dtrun, plans["tensor"], top, "--steps", "0", "--import", shards, "--dtype", name)
        right = {n: (dtype, shape, imports.pack(values, dtype)) for n, (shape, values) in
                 without(imports.huggingface(), "lm_head.weight").items() if "inv_freq" not in n and n != "model.unused"}
        same({n: t for n, t in found.items() if n in right}, right, name)
        check(len(found) == len(right) + 2, "ignored tensors are copied")
        about = config(top + "/out")
        check(about["torch_dtype"] == about["part"]["dtype"] == theirs and about["part"]["n"] == 0.1, f"{name}: {about}")
    large = without(imports.huggingface(), "lm_head.weight")
    shape, values = large["model.norm.weight"]
    large = folder(top + "/large", {**large, "model.norm.weight": (shape, values[:-1] + [7e4])})
    said = exported(dtrun, plans["zero"], top, "--steps", "0", "--import", large, "--dtype", "f16", code=1)
    check("`norm.gain` has numbers that are too large for f16" in said and "rank" not in said, f"f16: {said}")
    shape, values = imports.huggingface()["model.positions.weight"]  # a row that the program does not have
    rest = folder(top + "/rest", {**imports.huggingface(), "model.positions.weight": (shape, values[:-1] + [7e4])})
    said = exported(dtrun, plans["none"], top, "--steps", "0", "--import", rest, "--dtype", "f16", code=1)
    check("`model.positions.weight` has numbers that are too large for f16" in said, f"f16, the rest: {said}")


# ---- runs ----

def runs(dtrun, plans, top, model, shards):
    """Training, checkpoints, --restarts, and runs that were stopped."""
    zero, saved = ("--steps", "0"), top + "/saved"
    trained = exported(dtrun, plans["tensor"], top, "--import", shards, "--steps", "2", "--save", saved, "--dtype", "f32")
    named = set(trained) - {"model.layers.0.rotary.inv_freq", "model.unused"}
    before = exported(dtrun, plans["none"], top, *zero, "--import", shards, "--dtype", "f32")
    check(all(trained[n] != before[n] for n in named), "training changes every tensor")
    after = exported(dtrun, plans["zero"], top, *zero, "--resume", saved, "--dtype", "f32")
    same(after, trained, "the checkpoint of the run")
    imported = importlib.import_module("import").loaded(dtrun, plans["none"], top + "/again", "--import", top + "/out")
    newest = imports.read_tensors(saved + "/step-00000002/model.safetensors")
    check(imported == newest, "what was exported is not what is imported")
    same(exported(dtrun, plans["pipes"], top, *zero, "--weights", saved), exported(dtrun, plans["none"], top, *zero, "--resume", saved),
         "--weights")
    gone = top + "/gone"
    os.rename(shards, gone)
    said = exported(dtrun, plans["none"], top, *zero, "--resume", saved, code=5)
    check(f"{shards}, which is gone: --like DIR" in said, f"the folder is gone: {said}")
    same(exported(dtrun, plans["none"], top, *zero, "--resume", saved, "--like", gone, "--dtype", "f32"), trained, "--like")
    check(config(top + "/out")["part"]["n"] == 0.1, "--like: config.json")
    said = exported(dtrun, plans["none"], top, *zero, "--resume", saved, "--like", "none", code=2)
    check("no names block" in said or "names blocks `huggingface` and `stacked`" in said, f"two blocks: {said}")
    said = exported(dtrun, plans["none"], top, *zero, "--resume", saved, "--like", "none", "--names", "huggingface", code=2)
    check("`model.positions.weight` has elements" in said and "--like DIR" in said, f"rows of no parameter: {said}")
    os.rename(gone, shards)
    begun = ("--resume", top + "/begun", "--restarts", "2", "--import", model)
    same(exported(dtrun, plans["zero"], top, *zero, *begun), raw(model), "--resume --restarts --import")
    trained = exported(dtrun, plans["zero"], top, "--steps", "1", *begun)
    check(trained["model.norm.weight"] != raw(model)["model.norm.weight"], "the second run trains")
    later = exported(dtrun, plans["none"], top, "--steps", "1", "--resume", top + "/begun", "--or-start", "--import", top + "/nowhere")
    same(later, trained, "--or-start with a checkpoint")


SCRATCH = """dim batch = 2, seq = 2, vocab = 5, rows = 8, embed = 3
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(1)
  param pos[rows, embed] = normal(1)
  param head[embed, vocab] = normal(1)
  x = wte[vocab = tokens]
  return x @embed wte + (x + pos[rows = tokens]) @embed head
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("nowhere.bin", u16))
  loss = -sum[batch, seq](m(tokens)[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster two { gpus = 2; gpu = "cpu" }
parallel halves on two { mesh data = 2; shard batch on data; zero 3 on data }
names file on m {
  "first"[vocab = 2, embed] = wte
  "wte"[vocab, embed] = wte
  "lm_head"[embed, vocab] = wte
  "rows.{rows}"[embed] = pos
  initial "head"
  config "model_type" = "m"
  config "architectures" = "ForM"
  config "rope.kind", "rope_kind" = (1e-6, 2)
  config "rope.more.size" = 2 * embed
  config "kinds.1" = "b"
  config "kinds.0.kind" = (0.0, 1)
  config "absent" = (none, 1)
}
"""


def from_scratch(dtc, dtrun, top):
    """Parameters that were never imported, without data: names and config.json are those of the block."""
    with open(top + "/scratch.dsl", "w") as file:
        file.write(SCRATCH)
    run([dtc, top + "/scratch.dsl", "-o", top + "/scratch.plan"])
    found = exported(dtrun, top + "/scratch.plan", top, "--steps", "0", "--dtype", "bf16", limit=20)
    check(set(found) == {"first", "wte"} | {f"rows.{i}" for i in range(8)}, f"tensors {sorted(found)}")
    check(found["first"] == ("BF16", [2, 3], found["wte"][2][:12]), f"the first rows: {found['first']}")
    check(config(top + "/out") == {"model_type": "m", "architectures": ["ForM"], "torch_dtype": "bfloat16",
                                   "rope": {"kind": 1e-6, "more": {"size": 6}}, "kinds": [{"kind": 0.0}, "b"], "absent": None},
          f"config {config(top + '/out')}")
    said = exported(dtrun, top + "/scratch.plan", top, "--steps", "1", code=5)
    check("nowhere.bin" in said, f"a run that trains needs its data: {said}")
    with open(top + "/scratch.dsl", "w") as file:
        file.write(SCRATCH.replace("param wte[vocab, embed] = normal(1)", "param wte[vocab, embed] = 70000"))
    run([dtc, top + "/scratch.dsl", "-o", top + "/scratch.plan", "--set",
         "train.precision=mixed(compute = f16, params = f16, loss_scale = 256)"])
    for dtype in ("f16", "f32"):  # a value of f16 is infinite
        said = exported(dtrun, top + "/scratch.plan", top, "--steps", "0", "--dtype", dtype, code=1)
        check("`wte` has numbers that are not finite" in said, f"not finite: {said}")


def adapters(dtc, dtrun, top, model):
    """Adapters that add nothing yet leave each tensor as it is, also fused ones; those that no weight can have are refused."""
    with open(imports.PROGRAM) as file:
        text = file.read()
    for adapter, code in (("lora(rank = 2)", 0), ("lora(rank = 2, drop = 0.5)", 0), ("ia3", 2)):
        with open(top + "/adapted.dsl", "w") as file:
            file.write(text.replace("  optimizer", f'  adapt "*.wq" = {adapter}\n  optimizer', 1))
        run([dtc, top + "/adapted.dsl", "--parallel", "none", "-o", top + "/adapted.plan"])
        found = exported(dtrun, top + "/adapted.plan", top, "--steps", "0", "--import", model, code=code)
        if code:
            check("wq.ia3.factor` is of an adapter that cannot be added to a weight" in found, f"adapters: {found}")
        else:
            same(found, raw(model), adapter)
            said = exported(dtrun, top + "/adapted.plan", top, "--steps", "0", "--import", model, "--peft", code=2)
            check("--peft: " in said and "part of a tensor" in said or "as matrices" in said, f"fused: {said}")


# ---- what is refused ----

def refusals(dtrun, plans, top, model):
    plan, out = plans["none"], top + "/out"
    import_it = ("--import", model, "--steps", "0")
    shutil.rmtree(out, ignore_errors=True)

    def refused(text, *words, code=2):
        said = run([dtrun, plan, *words], code)
        check(text in said and "rank" not in said, f"{' '.join(words)}: `{text}` is not in\n{said}")

    os.makedirs(top + "/full/sub")
    open(top + "/plain", "w").close()
    os.symlink("nowhere", top + "/dangling")
    for name, text in (("/full", "is not empty"), ("/model", "is not empty"), ("/plain", "something else has that name"),
                       ("/plain/x", "something else has that name"), ("/dangling", "something else has that name"), ("", "is not empty")):
        refused(text, "--export", top + name, *import_it)
    refused("File name too long", "--export", top + "/" + "x" * 300, *import_it, code=5)
    check(os.listdir(top + "/full") == ["sub"] and os.listdir(top + "/full/sub") == [], "a folder was changed")
    refused("is no name of a folder", "--export", top + "/full/..new/..", *import_it)
    refused("is no name of a folder", "--export", "", *import_it)
    refused("--export belongs to training", "--export", out, "--import", model, "--eval")
    refused("--dtype belongs to --export", "--dtype", "f16", *import_it)
    refused("--like belongs to --export", "--like", model, *import_it)
    refused("--dtype wants f32, bf16 or f16, not `i64`", "--export", out, "--dtype", "i64", *import_it)
    refused("no names block `other`", "--export", out, "--names", "other", "--steps", "0")
    refused("names blocks `huggingface` and `stacked`: --names says", "--export", out, "--steps", "0")
    refused("no .safetensors file", "--export", out, "--like", top + "/full", "--steps", "0", code=5)
    other = folder(top + "/other", without(imports.huggingface(), "model.norm.weight"))
    refused("missing: `model.norm.weight`", "--export", out, "--like", other, "--steps", "0", code=1)
    refused("the run saves its checkpoints there", "--export", out + "/.", "--save", out, *import_it)
    os.rmdir(out)
    nothing_left(top, "refusals")
    os.mkdir(out)  # an empty folder may be there, also under a path with more slashes
    run([dtrun, plan, "--export", out + "//", *import_it])
    same(raw(out), raw(model), "an empty folder")


def faults(dtrun, plans, top, model):
    """A full disk at any write, and failing calls; two runs at once; a run that was killed before."""
    plan, import_it = plans["none"], ("--import", model, "--steps", "0")
    for fault, text in (("write:1", "No space left"), ("write:7", "No space left"), ("write:30", "No space left"), ("fsync:9", "cannot sync"),
                        ("rename:1", "cannot put in place")):
        said = exported(dtrun, plan, top, *import_it, code=5, fault=fault)
        check(f"nothing was exported to {top}/out" in said and text in said and "rank" not in said, f"{fault}: {said}")
    said = exported(dtrun, plans["zero"], top, *import_it, code=5, fault="write:7")
    check("No space left" in said, f"four ranks: {said}")
    os.makedirs(top + "/.out.export/unfinished")
    open(top + "/.out.export/unfinished/model.safetensors", "w").close()
    with open(top + "/.out.export/unfinished/vocab.old", "w"):
        lock = os.open(top + "/.out.export", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    shutil.rmtree(top + "/out", ignore_errors=True)
    said = run([dtrun, plan, "--export", top + "/out", *import_it], 2)
    check(f"another run exports to {top}/out" in said, f"two runs: {said}")
    os.close(lock)
    same(exported(dtrun, plan, top, *import_it), raw(model), "after a run that was killed")
    check(not os.path.exists(top + "/out/vocab.old"), "files of a run that was killed are in the export")


def stopped(dtrun, plans, top, model):
    """A run that is stopped exports nothing, and says how to go on; the command that it says does."""
    out, saved = top + "/out", top + "/stopped"
    shutil.rmtree(out, ignore_errors=True)
    command = [dtrun, plans["none"], "--import", model, "--export", out, "--save", saved, "--steps", "1000000", "--names", "huggingface",
               "--dtype", "f16", "--log", top + "/log"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while not os.path.exists(top + "/log") or b'"step"' not in open(top + "/log", "rb").read():
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[0].decode()
    check(running.returncode == 130 and f"--export {out} --names huggingface --dtype f16" in said, f"stopped: {said}")
    nothing_left(top, "a run that was stopped")
    words = said.split("go on with: dtrun ")[1].split("\n")[0].split()
    words[words.index("--steps") + 1] = "0"
    run([dtrun, *words])
    check({t[0] for n, t in raw(out).items() if n.endswith("weight")} == {"F16"}, "the export of a run that went on")


def main():
    dtc, dtrun = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as top:
        plans = imports.compile_plans(dtc, top)
        model, shards = round_trips(dtrun, plans, top)
        other_dtypes(dtrun, plans, top, model, shards)
        runs(dtrun, plans, top, model, shards)
        from_scratch(dtc, dtrun, top)
        adapters(dtc, dtrun, top, model)
        refusals(dtrun, plans, top, model)
        faults(dtrun, plans, top, model)
        stopped(dtrun, plans, top, model)
    print(f"{len(failures)} failures" if failures else "all is as it should be")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
