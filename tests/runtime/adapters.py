#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters on real ranks:  adapters.py DTC DTRUN

The programs of adapters.dsl. A base is trained and saved; adapted programs begin with it, from a checkpoint and from files of
another program, none of which have adapters. They begin with the base's loss, leave the base's tensors as they are, bit for
bit, and have moments of trained parameters only. What they learn on one rank they learn under tensor parallelism, ZeRO 3 with
micro-batches and a pipeline. The loss of an adapted model is that of the base whose matrices are w + alpha / rank a b, computed
here; --export writes these matrices in every layout, and with --peft the adapters alone. Adapters alone are taken from a checkpoint. A checkpoint without adapters cannot be resumed by a program with them."""

import array
import json
import os
import random
import re
import shutil
import struct
import sys
import tempfile

from runs import OF_VALUE, check, compare_tensors, failures, run, saved, tensors_of

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "adapters.dsl")
LAYOUTS = ["tensor", "zero", "pipe"]
VOCAB, SCALE, RANK = 32, 3.0, 2


def tokens(name, seed, n=600):
    draw, at, values = random.Random(seed), 0, []
    for _ in range(n):
        at = (3 * at + 1 + draw.randrange(2)) % VOCAB
        values.append(at)
    with open(name, "wb") as file:
        file.write(struct.pack("<%dH" % n, *values))


def compile_plan(tools, train, layout="none"):
    run([tools[0], PROGRAM, "--train", train, "--parallel", layout, "-o", "%s_%s.plan" % (train, layout)])


def loss(tools, plan, *options):
    return float(re.search(r"loss ([\d.]+)", run([tools[1], plan, "--eval", *options]))[1])


def train(tools, plan, folder, *options):
    run([tools[1], plan, "--quiet", "--log", folder + ".jsonl", "--save", folder, *options])
    with open(folder + ".jsonl") as file:
        return [event["loss"] for event in map(json.loads, file) if event["event"] == "step"]


def model_of(folder, step):
    return tensors_of("%s/step-%08d/model.safetensors" % (folder, step))


def write_tensors(folder, tensors):
    """Writes {name: (shape, numbers)} as a file of another program."""
    os.mkdir(folder)
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        part = array.array("f", numbers).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def name_in_file(path):
    path = path.replace(".attention", "").replace(".b0", ".b").replace(".gain", "")
    return re.sub(r"\.w$", ".weight", re.sub(r"^t\.(\d)\.step", r"step.\1", path))


SHAPES = {"wte": [32, 16], "out": [16], "n": [16], "up.w": [16, 12], "up.b": [12], "down.w": [12, 16], "down.b": [16],
          "wq.w": [16, 16], "wk.w": [16, 16], "wv.w": [16, 16], "wq.b": [16], "wk.b": [16], "wv.b": [16], "wo.w": [16, 16]}


def turned(numbers, columns):
    """The transpose of a matrix with so many columns."""
    return [x for c in range(columns) for x in numbers[c::columns]]


def as_files(model):
    """The base's tensors of a checkpoint, with adapters multiplied out and added."""
    files = {}
    for path, numbers in model.items():
        if ".lora." in path:
            continue
        name = name_in_file(path)
        key = name.replace(".weight", ".w")
        shape = SHAPES[key if key in SHAPES else re.search(r"(n|\w+\.[wb])$", key)[1]]
        a, b = (model.get("%s.lora.%s" % (path[:-2], part)) for part in "ab")
        numbers = list(numbers)
        if a and path.endswith(".w"):
            n_out = len(b) // RANK
            for i in range(len(a) // RANK):
                for o in range(n_out):
                    numbers[i * n_out + o] += SCALE * sum(a[i * RANK + r] * b[r * n_out + o] for r in range(RANK))
        files[name] = (shape, turned(numbers, 16) if name.endswith("wo.weight") else numbers)
    return files


def test_base(tools):
    compile_plan(tools, "base")
    compile_plan(tools, "tune")
    train(tools, "base_none.plan", "base")
    base = loss(tools, "base_none.plan", "--resume", "base")
    check(loss(tools, "tune_none.plan", "--weights", "base") == base, "adapters change the loss before they are trained")
    write_tensors("plain", as_files(model_of("base", 3)))
    check(loss(tools, "tune_none.plan", "--import", "plain") == base, "the base is another one if it is imported")
    said = run([tools[1], "tune_none.plan", "--resume", "base", "--save", "base"], wants=1)
    check("missing" in said and "lora" in said, "a base is resumed: " + said)


def test_training(tools):
    want = train(tools, "tune_none.plan", "none", "--weights", "base")
    check(len(want) == 6, "%d steps" % len(want))
    train(tools, "tune_none.plan", "begin", "--weights", "base", "--steps", "0")
    begin, end, both = model_of("base", 3), model_of("none", 6), saved("none", 6)
    for path in begin:
        same = begin[path] == end[path]
        check(same == (not path.endswith(".n.gain")), "`%s` is %s" % (path, "kept" if same else "changed"))
    moments = {name[8:] for name in both if name.startswith("moment")}
    trained = {name for name in end if ".lora." in name or name.endswith(".n.gain")}
    check(moments == trained, "moments of %s" % sorted(moments ^ trained))
    wanted = 2 * (3 * 4 + 1 + 2)
    check(sum(".lora." in name for name in end) == wanted, "not %d matrices of adapters" % wanted)
    for layout in LAYOUTS:
        compile_plan(tools, "tune", layout)
        got = train(tools, "tune_%s.plan" % layout, layout, "--weights", "base")
        for step, (one, other) in enumerate(zip(got, want)):
            check(abs(one - other) <= OF_VALUE * other, "%s: step %d: %.9g, not %.9g" % (layout, step, one, other))
        compare_tensors(layout, saved(layout, 6), both, model_of("begin", 0))
    stores = [row for row in run([tools[0], PROGRAM, "--train", "tune", "--parallel", "zero", "--emit=plan"]).splitlines()
              if row.startswith("STOR") and " kind=" not in row]
    check(len(stores) > 20 and all(" pack=" in row for row in stores), "zero 3 leaves parameters of the base whole")
    return end


def test_merged(tools, end):
    write_tensors("merged", as_files(end))
    merged, apart = loss(tools, "base_none.plan", "--import", "merged"), loss(tools, "tune_none.plan", "--resume", "none")
    check(abs(merged - apart) <= 2e-4 * apart, "merged: %g, apart: %g" % (merged, apart))
    check(merged < 0.99 * loss(tools, "base_none.plan", "--resume", "base"), "nothing is learnt")
    train(tools, "tune_none.plan", "only", "--weights", "none", "--only", "*.lora.*", "--steps", "0")
    taken = model_of("only", 0)
    check(all((taken[name] == end[name]) == (".lora." in name) for name in end if not name.endswith((".b0", "gain"))),
          "--only takes others than adapters")


def bf16(number):
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def compare_merged(what, path, want, within=2.0**-22):
    """Each element within a few roundings of its sum, which is taken here in double."""
    found = tensors_of(path + "/model.safetensors")
    check(set(found) == set(want), "%s: tensors %s" % (what, sorted(set(found) ^ set(want))))
    for name in set(found) & set(want):
        numbers = want[name][1]
        off = max(abs(a - b) / (abs(b) + 0.01) for a, b in zip(found[name], numbers))
        check(len(found[name]) == len(numbers) and off <= within, "%s: `%s` differs by %g" % (what, name, off))


def test_exported(tools, end):
    """w + alpha / rank a b of checkpoints in each layout, in small pieces, and of weights in bf16."""
    for layout, piece in (("none", 8), ("none", 1 << 20), ("tensor", 40), ("zero", 1000), ("pipe", 56)):
        os.environ["DT_EXPORT_BYTES"] = "100000:%d" % piece
        shutil.rmtree("out", ignore_errors=True)
        run([tools[1], "tune_%s.plan" % layout, "--resume", layout, "--steps", "0", "--export", "out"])
        compare_merged(layout, "out", as_files(model_of(layout, 6)))
    del os.environ["DT_EXPORT_BYTES"]
    merged, apart = loss(tools, "base_none.plan", "--import", "out"), loss(tools, "tune_pipe.plan", "--resume", "pipe")
    check(abs(merged - apart) <= OF_VALUE * apart, "exported: %g, apart: %g" % (merged, apart))
    run([tools[0], PROGRAM, "--train", "tune", "--parallel", "tensor", "-o", "bf16.plan", "--set",
         "train.precision=mixed(compute = bf16, params = bf16, master = f32)"])
    run([tools[1], "bf16.plan", "--weights", "none", "--steps", "0", "--export", "bf16", "--dtype", "f32"])
    trained = re.compile(r"\.lora\.|\.n\.gain$")  # has a wide copy
    rounded = {path: numbers if trained.search(path) else [bf16(x) for x in numbers] for path, numbers in end.items()}
    compare_merged("bf16", "bf16", as_files(rounded))


MODULES = {"right.down": "right.down", "t.1.step.up": "step.1.up", "t.1.step.down": "step.1.down",
           **{f"h.{h}.attention.{m}": f"h.{h}.{m}" for h in range(4) for m in ("wq", "wv", "wo")}}


def as_peft(end):
    files = {}
    for path, module in MODULES.items():
        a, b = end[path + ".lora.a"], end[path + ".lora.b"]
        prefix = "base_model.model.%s.lora_" % module
        files[prefix + "A.weight"] = ([RANK, len(a) // RANK], turned(a, RANK))
        files[prefix + "B.weight"] = ([len(b) // RANK, RANK], turned(b, len(b) // RANK))
    return files


def refused(tools, text, *options, code=1):
    said = run([tools[1], *options, "--steps", "0"], wants=code)
    check(text in said and "rank 0" not in said, "`%s` is not in: %s" % (text, said))


def test_peft(tools, end):
    """Adapters alone in peft's files: written in each layout, read in another one, and files that do not fit."""
    for layout, other in (("none", "pipe"), ("tensor", "zero"), ("zero", "none"), ("pipe", "tensor")):
        out, want = "peft_" + layout, as_peft(model_of(layout, 6))
        said = run([tools[1], "tune_%s.plan" % layout, "--resume", layout, "--steps", "0", "--export", out, "--peft"])
        check("note: `h.n.gain`, which is of no adapter, trains too" in said, "no note of what else trains: " + said)
        found = tensors_of(out + "/adapter_model.safetensors")
        check({n: list(t) for n, t in found.items()} == {n: list(t) for n, (_, t) in want.items()}, layout + ": peft's tensors")
        run([tools[1], "tune_%s.plan" % other, "--weights", "base", "--adapters", out, "--steps", "0", "--save", out + "_back"])
        back, before = model_of(out + "_back", 0), model_of(layout, 6)
        check(all(back[name] == before[name] for name in back if ".lora." in name), "%s, read in %s" % (layout, other))
    check(sorted(os.listdir("peft_none")) == ["adapter_config.json", "adapter_model.safetensors"], "files of peft")
    with open("peft_none/adapter_config.json") as file:
        about = json.load(file)
    right = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "bias": "none", "fan_in_fan_out": True, "use_rslora": False,
             "base_model_name_or_path": None, "target_modules": ["wq", "wv", "wo", "right.down", "step.1.up", "step.1.down"]}
    about["target_modules"].sort()
    right["target_modules"].sort()
    check({key: about.get(key) for key in right} == right, "adapter_config.json: %s" % about)
    good = as_peft(end)
    first, last = min(good), max(good)
    for name, change, text in (
            ("lacks", {first: None}, "missing: `%s`" % first),
            ("more", {"base_model.model.x": ([1], [0.0])}, "not named: `base_model.model.x`"),
            ("turned", {last: (good[last][0][::-1], good[last][1])}, "shape: `%s`" % last)):
        write_tensors(name, {n: t for n, t in {**good, **change}.items() if t})
        os.rename(name + "/model.safetensors", name + "/adapter_model.safetensors")
        shutil.copy("peft_none/adapter_config.json", name)
        refused(tools, text, "tune_none.plan", "--adapters", name)
    with open("turned/adapter_config.json", "w") as file:
        json.dump({**about, "r": 4, "lora_alpha": 12, "use_rslora": True}, file)
    for text in ("adapter_config.json: `r` is 4", "`lora_alpha` is 12", "`use_rslora` is true"):
        refused(tools, text, "tune_none.plan", "--adapters", "turned")
    os.remove("turned/adapter_config.json")
    refused(tools, "adapter_config.json: there is none", "tune_none.plan", "--adapters", "turned")
    refused(tools, "has no adapter_model.safetensors", "tune_none.plan", "--adapters", "plain", code=5)
    refused(tools, "--adapters reads them", "tune_none.plan", "--import", "peft_none", code=2)
    refused(tools, "the program has no adapters", "base_none.plan", "--adapters", "peft_none", code=2)
    refused(tools, "is of an adapter that is not LoRA", "wide_none.plan", "--adapters", "peft_none", code=2)
    refused(tools, "is of an adapter that is not LoRA", "wide_none.plan", "--export", "no", "--peft", code=2)
    refused(tools, "--peft belongs to --export", "tune_none.plan", "--peft", code=2)


def test_others(tools):
    """Adapters of the program, one with an argument that is the instance's parameter."""
    said = run([tools[0], PROGRAM, "--train", "wide", "--parallel", "none", "--params"])
    rows = {row.split()[0]: "(frozen)" in row for row in said.splitlines() if "[" in row}
    trained = {path for path, frozen in rows.items() if not frozen}
    pairs = ["left", "right", "t.0.step", "t.1.step"]
    check(trained == {"h.#.attention.wq.wide.b"} | {"h.#.attention.wo.dora." + part for part in ("a", "b", "factor")} |
          {pair + part for pair in pairs for part in (".up.ia3.factor", ".down.stretched.factor")},
          "trained: %s" % sorted(trained))
    check("of which are trained" in said, "--params does not count what is trained")
    compile_plan(tools, "wide")
    compile_plan(tools, "wide", "tensor")
    want = train(tools, "wide_none.plan", "wide", "--weights", "base")
    got = train(tools, "wide_tensor.plan", "wide_tensor", "--weights", "base")
    check(all(abs(a - b) <= OF_VALUE * a for a, b in zip(got, want)) and len(got) == 6, "wide: %s, %s" % (got, want))


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        global PROGRAM
        PROGRAM = shutil.copy(PROGRAM, folder)
        tokens("tokens.bin", 1)
        tokens("held.bin", 2, 200)
        test_base(tools)
        end = test_training(tools)
        test_merged(tools, end)
        test_exported(tools, end)
        test_others(tools)
        test_peft(tools, end)
    print("adapters: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:]]))
