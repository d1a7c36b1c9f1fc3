#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The families of lib/models:  library.py DTC DTRUN

Each file is imported with the tiny model of families.py, and its logits are compared with those of transformers in
references/: on one rank, and for some families on four. What is exported is the same again. Rotary bases, epsilons
and tensors that are wrong must be found, those in config.json by name. The number of parameters of each published
size is that of the table which begins the file."""

import array
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

import export
import families
import images

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.normpath(HERE + "/../../lib/models")
PROGRAM = """include "models/%(family)s.dsl"
train {
%(lines)s
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster four { gpus = 4; gpu = "cpu" }
parallel tensor on four { mesh data = 2, tensor = 2; shard batch on data; shard %(axis)s, ffn on tensor; zero 3 on data }
"""
OWN = """include "models/llama.dsl"
dim batch = 4, seq = 16, layers = 2, embed = 32, heads = 4, kv = 2, ffn = 64, vocab = 100
model %s(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + attention(n1:rmsnorm[embed](x, eps = norm_eps)) }
  return x @embed wte
}
"""
ON_FOUR = ("gpt2", "llama_3_2", "gemma3", "mixtral", "bert", "modernbert", "t5", "vit", "whisper")
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAIL", what[:1500])


def run(command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    check(done.returncode in (code if isinstance(code, tuple) else (code,)), f"{' '.join(command)}: exit code {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def compiled(dtc, name, plan, layout, sizes=None):
    case, program = families.CASES[name], plan + ".dsl"
    with open(program, "w") as file:
        file.write(PROGRAM % {**case, "lines": families.program(case)})
    given = {**families.dims(name, families.ROWS, families.SEQ), **(sizes or {})}
    run([dtc, program, "-o", plan, "--parallel", layout, *(o for d, n in given.items() for o in ("-D", f"{d}={n}"))])
    return plan


def floats(raw):
    out = array.array("f", raw)
    if sys.byteorder == "big":
        out.byteswap()
    return out


def predicted(dtrun, plan, folder, name, code):
    """As --reference does it, for a model with other inputs: the largest relative error of a position."""
    words, out, case = [], folder + ".out.npy", families.CASES[name]
    if os.path.exists(out):
        os.remove(out)
    for key, (dtype, shape, values) in families.samples(name, families.ROWS, families.SEQ).items():
        families.npy(f"{folder}/{key}.npy", dtype, shape, values)
        words += ["--predict", f"{key}={folder}/{key}.npy"]
    said = run([dtrun, plan, "--import", folder, *words, "--out", out], (0, code))
    if not os.path.exists(out):
        return said
    with open(out, "rb") as file:
        data = file.read()
    ours = floats(data[10 + struct.unpack("<H", data[8:10])[0]:])
    _, shape, raw = export.raw_file(f"{HERE}/references/{name}.safetensors", False)["logits"]
    theirs, n, worst = floats(raw), shape[-1], 0.0
    check(len(ours) == len(theirs) and case["over"].count(",") == len(shape) - 2, f"{name}: {len(ours)} results")
    for at in range(0, len(theirs), n):
        square = sum(v * v for v in theirs[at:at + n])
        worst = max(worst, (sum((a - b) ** 2 for a, b in zip(ours[at:at + n], theirs[at:at + n])) / square) ** 0.5)
    return f"agree at {len(theirs) // n} positions" if worst < 1e-5 else f"does not give the logits: {worst}"


def imported(dtrun, plan, folder, name, code=0):
    if families.CASES[name]["inputs"] is not families.TOKENS:
        return predicted(dtrun, plan, folder, name, code)
    return run([dtrun, plan, "--import", folder, "--reference", f"{HERE}/references/{name}.safetensors"], code)


def right(dtc, dtrun, name, top):
    folder = f"{top}/{name}"
    families.write(name, folder)
    for layout in ("none", "tensor") if name in ON_FOUR else ("none",):
        said = imported(dtrun, compiled(dtc, name, f"{top}/plan", layout), folder, name)
        n = families.ROWS * (families.SEQ if "seq" in families.CASES[name]["over"] else 1)
        check(f"agree at {n} positions" in said, f"{name}, {layout}: {said}")
    run([dtrun, f"{top}/plan", "--import", folder, "--export", folder + ".exported", "--steps", "0"])
    check(export.raw(folder + ".exported") == export.raw(folder), f"{name}: the export has other tensors")


def wrong(dtc, dtrun, top):
    """What differs in the program, in config.json, or in the file."""
    def case(name, sizes, config, text, code=1, swapped=None):
        folder = f"{top}/wrong"
        families.write(name, folder, config, swapped)
        said = imported(dtrun, compiled(dtc, name, f"{top}/plan", "none", sizes), folder, name, code)
        check(text in said, f"{name}, {sizes}, {config}: `{text}` is not in\n{said}")

    case("llama_2", {"norm_eps": 1e-6}, None, "config.json: `rms_norm_eps` is 1e-5, and the program says 1e-6 (models/llama.dsl:")
    case("llama_2", {"norm_eps": 1e-3}, {"rms_norm_eps": 1e-3}, "does not give the logits")
    case("qwen3", {"rope_theta": 1e5}, {"rope_theta": 1e5}, "does not give the logits")
    case("qwen3", {}, {"rope_theta": 1e5}, "rope_theta` is 100000.0, and the program says 1000000")
    case("llama_3_1", {"rope_factor": 1}, None, "is \"llama3\", and the program says \"default\" or none")
    case("llama_3_1", {"tied": "true"}, None, "`tie_word_embeddings` is false, and the program says true or none")
    case("mistral", {"reach": 0}, None, "`sliding_window` is 3, and the program says none or 0")
    case("gemma3", {}, {"final_logit_softcapping": 30.0}, "`final_logit_softcapping` is 30.0, and the program says none")
    case("gemma3", {}, {"layer_types": 3 * ["sliding_attention"]}, "`layer_types.1` is \"sliding_attention\", and the program says \"full_attention\"")
    case("smollm3", {"interval": 3}, {"no_rope_layer_interval": None}, "`no_rope_layers.1` is 0, and the program says 1 or none")
    case("bert", {"norm_eps": 1e-5}, {"layer_norm_eps": 1e-5}, "does not give the logits")
    case("bert", {"kinds": 3}, None, "`type_vocab_size` is 2, and the program says 3")
    case("modernbert", {"local": 6}, {"local_attention": 6}, "does not give the logits")
    case("modernbert", {"interval": 2}, None, "`global_attn_every_n_layers` is 3, and the program says 2")
    case("t5", {"farthest": 20}, {"relative_attention_max_distance": 20}, "does not give the logits")
    case("t5_v1_1", {"tied": "true", "gated": "true"}, None, "`scale_decoder_outputs, tie_word_embeddings` is false, and the program says true")
    case("vit", {"classes": 39}, None, "and the program says 39")
    case("whisper", {"heads": 2}, {"encoder_attention_heads": 2, "decoder_attention_heads": 2}, "does not give the logits")
    case("whisper", {}, None, "does not give the logits",
         swapped=("model.encoder.layers.1.self_attn.out_proj.weight", "model.encoder.layers.1.self_attn.k_proj.weight"))
    layer = "model.layers.1."
    case("llama_2", {}, None, "does not give the logits", swapped=(layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight"))
    case("llama_2", {}, None, "does not give the logits", swapped=(layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"))
    case("mixtral", {}, None, "does not give the logits", swapped=tuple(f"{layer}block_sparse_moe.experts.{x}.w2.weight" for x in (0, 3)))


def counts(dtc, top):
    """The table in the comment that begins a file: a name, the number of parameters, what -D sets."""
    for family in sorted({case["family"] for case in families.CASES.values()}):
        with open(f"{top}/sizes.dsl", "w") as file:
            file.write(f'include "models/{family}.dsl"\n')
        with open(f"{LIBRARY}/{family}.dsl") as file:
            sizes = re.findall(r"^#   (\S+) +([\d,]+)(?:  (.*))?$", file.read(), re.M)
        check(sizes, f"{family}.dsl has no table of sizes")
        for name, count, given in sizes:
            said = run([dtc, f"{top}/sizes.dsl", "--params", *(o for d in given.split() for o in ("-D", d))])
            check(f"\n{count} parameters\n" in said, f"{name} has {count} parameters, and not {said[-80:]}")


def write_classes(folder):
    """Two folders of 50 pictures."""
    rng = random.Random(5)
    for label in range(2):
        os.mkdir(f"{folder}/class{label}")
        for i in range(50):
            with open(f"{folder}/class{label}/{i}.png", "wb") as file:
                file.write(images.png(images.draw(rng, label)))


def programs_of_init(dtc, dtrun, top):
    """`dtc init` of models that do not only read tokens: the program trains on arrays, or on images, exports, and predicts."""
    for name in ("bert", "t5_v1_1", "vit", "whisper"):
        folder = f"{top}/init_{name}"
        os.makedirs(folder + "/mine")
        families.write(name, folder + "/model")
        said = run([dtc, "init", folder + "/model", "-o", folder + "/my.dsl"])
        files = [f"mine/{key}.npy" for key in (*families.CASES[name]["inputs"], "labels")]
        reads = "reads arrays of NumPy, an element of the first axis for each sample: " + ", ".join(files)
        if name == "vit":
            reads = "reads PNG and JPEG files, in a folder for each class: mine/CLASS/*.png"
            write_classes(folder + "/mine")
        check(reads + "\n" in said, f"{name}: {said}")
        inputs = families.samples(name, 20, families.SEQ)
        words = []
        for key, (dtype, shape, values) in inputs.items():
            families.npy(f"{folder}/mine/{key}.npy", dtype, shape, values)
            words += ["--predict", f"{key}={folder}/mine/{key}.npy"]
        labels = [20] + [families.SEQ] * ("seq" in families.CASES[name]["over"])
        drawn = families.numbers("labels", labels[0] * labels[-1] if labels[1:] else 20)
        families.npy(f"{folder}/mine/labels.npy", "i32", labels, [v % families.VOCAB if v % 7 else -100 for v in drawn])
        dims = {k: n for k, n in families.dims(name, 8, families.SEQ).items() if k in ("seq", "src")}
        run([dtc, folder + "/my.dsl", "-o", folder + "/plan", "--parallel", "two" if name == "vit" else "one",
             *(o for d, n in dims.items() for o in ("-D", f"{d}={n}"))])
        said = run([dtrun, folder + "/plan", "--import", folder + "/model", "--steps", "2", "--export", folder + "/tuned"])
        check(export.raw(folder + "/tuned").keys() == export.raw(folder + "/model").keys(), f"{name}: other tensors are exported")
        run([dtrun, folder + "/plan", "--import", folder + "/tuned", *words, "--out", folder + "/out.npy"])
        if name != "vit" and name != "whisper":  # their first input is no tokens
            said = run([dtrun, folder + "/plan", "--import", folder + "/model", "--reference", f"{HERE}/references/gpt2.safetensors"], 2)
            check("--reference gives the model `" in said and "also reads `" in said, f"{name}: {said}")
        said = run([dtc, "init", folder + "/model", "--text", folder + "/*.txt"], 2)
        check("reads images" in said if name == "vit" else "no samples of text are known" in said and files[0] in said, f"{name}: {said}")


def own_model(dtc, top):
    """A model of the program with layers of the library, also with the library model's name: its names block says nothing of it."""
    for name in ("mine", "llama"):
        with open(f"{top}/own.dsl", "w") as file:
            file.write(OWN % name)
        said = run([dtc, f"{top}/own.dsl", "--params"])
        check("h.#.attention.wk.w" in said and "mlp" not in said, f"the program's model `{name}`: {said}")


def sizes(dtc, top):
    """Sizes that cannot be, and that leave heads without elements."""
    for family, given, code, text in (("bert", ("positions=16", "seq=32"), 3, "`seq` is longer than the table of `positions`"),
                                      ("whisper", ("stored=false",), 0, ""), ("gpt2", ("positions=16", "seq=32"), 3, "`seq` is longer than the table of `positions`"),
                                      ("llama", ("heads=6", "kv=4", "head=8"), 0, "L0212")):
        with open(f"{top}/sizes.dsl", "w") as file:
            file.write(f'include "models/{family}.dsl"\n')
        said = run([dtc, f"{top}/sizes.dsl", "--check", *(o for d in given for o in ("-D", d))], code)
        check(text in said, f"{family} with {given}: {said}")


def main():
    dtc, dtrun = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as top:
        for name in families.CASES:
            right(dtc, dtrun, name, top)
        wrong(dtc, dtrun, top)
        counts(dtc, top)
        programs_of_init(dtc, dtrun, top)
        own_model(dtc, top)
        sizes(dtc, top)
    print(f"{len(failures)} failures" if failures else "all is as it should be")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
