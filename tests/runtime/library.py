#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The families of lib/models:  library.py DTC DTRUN

Each file is imported with the tiny model of families.py, and its logits are compared with those of transformers in
references/: on one rank, and for some families on four. What is exported is the same again. Rotary bases, epsilons
and tensors that are wrong must be found, those in config.json by name. The number of parameters of each published
size is that of the table which begins the file."""

import os
import re
import subprocess
import sys
import tempfile

import export
import families

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.normpath(HERE + "/../../lib/models")
PROGRAM = """include "models/%(family)s.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](%(model)s(tokens), labels))
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
ON_FOUR = ("gpt2", "llama_3_2", "gemma3", "mixtral")
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAIL", what[:1500])


def run(command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    check(done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def compiled(dtc, name, plan, layout, sizes=None):
    case, program = families.CASES[name], plan + ".dsl"
    with open(program, "w") as file:
        file.write(PROGRAM % case)
    given = {"batch": families.ROWS, "seq": families.SEQ, **case["sizes"], **(sizes or {})}
    run([dtc, program, "-o", plan, "--parallel", layout, *(o for d, n in given.items() for o in ("-D", f"{d}={n}"))])
    return plan


def imported(dtrun, plan, folder, name, code=0):
    return run([dtrun, plan, "--import", folder, "--reference", f"{HERE}/references/{name}.safetensors"], code)


def right(dtc, dtrun, name, top):
    folder = f"{top}/{name}"
    families.write(name, folder)
    for layout in ("none", "tensor") if name in ON_FOUR else ("none",):
        said = imported(dtrun, compiled(dtc, name, f"{top}/plan", layout), folder, name)
        check(f"agree at {families.ROWS * families.SEQ} positions" in said, f"{name}, {layout}: {said}")
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
            check(said.endswith(f"\n{count} parameters\n"), f"{name} has {count} parameters, and not {said[-40:]}")


def own_model(dtc, top):
    """A model of the program with layers of the library, also with the library model's name: its names block says nothing of it."""
    for name in ("mine", "llama"):
        with open(f"{top}/own.dsl", "w") as file:
            file.write(OWN % name)
        said = run([dtc, f"{top}/own.dsl", "--params"])
        check("h.#.attention.wk.w" in said and "mlp" not in said, f"the program's model `{name}`: {said}")


def sizes(dtc, top):
    """Sizes that cannot be, and that leave heads without elements."""
    for family, given, code, text in (("gpt2", ("positions=16", "seq=32"), 3, "`seq` is longer than the table of `positions`"),
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
        own_model(dtc, top)
        sizes(dtc, top)
    print(f"{len(failures)} failures" if failures else "all is as it should be")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
