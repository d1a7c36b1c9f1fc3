#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of lib/models and of transformers:  import_transformers.py DTC DTRUN [NAME..]
                                              import_transformers.py --write [NAME..]

transformers loads the tiny models of families.py. --write saves their logits in references/. Without it each model is
imported on one rank, on four with tensor parallelism and with ZeRO 3, and compared: the logits, the loss, and every
gradient, which a step of gradient descent shows. The model after that step is saved by `save_pretrained`, in shards,
and imported, too, so files of publishers and of transformers are read. transformers loads what is exported, in
shards: before and after the step, in bf16, and with a config.json made from the names block. Skipped (77) without
PyTorch and transformers; library.py compares with references/. What `generate` writes is what generate_cached.py has."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(sys.path.pop(0))  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import numpy
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import families
import generate_cached

PROGRAM = """include "models/%(family)s.dsl"
train step {
%(lines)s
  optimizer = sgd(lr = %(rate)d)
  steps = 1
}
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
parallel tensor_ranks on four { mesh data = 2, tensor = 2; shard batch on data; shard %(axis)s, ffn on tensor }
parallel zero_ranks on four { mesh data = 4; shard batch on data; zero 3 on data }
"""
ROWS, SEQ, RATE = 4, 16, 8
NAMES = {"gpt2": "published", "bert": "huggingface", "bert_published": "published"}  # where a program has two names blocks


def load(folder, dtype=torch.float32):
    """The model that transformers reads from the folder: every tensor is one of the model's, and none is missing, but for
    other tasks."""
    with open(folder + "/config.json") as file:
        kind = getattr(transformers, json.load(file)["architectures"][0])
    model, about = kind.from_pretrained(folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    wrong = {k: [n for n in v if not re.search("vision_tower|multi_modal|bert.pooler|seq_relationship", str(n))] for k, v in about.items()}
    wrong = {k: v for k, v in wrong.items() if v}
    if wrong:
        raise RuntimeError(f"transformers reads {folder} otherwise: {wrong}")
    for positions in (m.embed_positions for n, m in model.named_modules() if n.endswith("encoder") and hasattr(m, "embed_positions")):
        positions.requires_grad_(False)  # as Whisper makes it, which `from_pretrained` of transformers 5 forgets
    return model.eval()


def inputs_of(name, samples):
    """The inputs as transformers calls them."""
    dtypes = {"i32": torch.int64, "bool": torch.int64, "f32": torch.float32}
    return {families.CASES[name]["inputs"][n][2]: torch.tensor(values, dtype=dtypes[dtype]).reshape(shape)
            for n, (dtype, shape, values) in samples.items()}


def write_reference(name, top):
    families.write(name, f"{top}/{name}")
    ids, only_tokens = torch.tensor(families.tokens()), families.CASES[name]["inputs"] is families.TOKENS
    given = {"input_ids": ids} if only_tokens else inputs_of(name, families.samples(name, families.ROWS, families.SEQ))
    with torch.no_grad():
        logits = load(f"{top}/{name}")(**given).logits
    tensors = {"input_ids": ids} if only_tokens else {}
    save_file({**tensors, "logits": logits.contiguous()}, f"{HERE}/references/{name}.safetensors", {"format": "pt"})


def prepare(name, folder):
    """Logits, inputs and labels, and the model after a step. Returns the loss."""
    families.write(name, folder)
    model, case, top = load(folder), families.CASES[name], os.path.dirname(folder)
    samples = families.samples(name, ROWS, SEQ)
    given = inputs_of(name, samples)
    logits = model(**given).logits
    n = logits[..., 0].numel()
    labels = torch.tensor([v % families.VOCAB for v in families.numbers("labels", n)])
    save_file({**{k: v.contiguous() for k, v in given.items()}, "logits": logits.detach().contiguous()}, folder + "/reference.st")
    for key, (dtype, shape, values) in {**samples, "labels": ("i32", logits.shape[:-1], labels.tolist())}.items():
        families.npy(f"{top}/{key}.npy", dtype, shape, values)
    loss = torch.nn.functional.cross_entropy(logits.reshape(n, -1), labels)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(RATE * parameter.grad)
    model.save_pretrained(folder + ".after", max_shard_size="10KB")
    return loss.item()


def run(command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-1500:])
    return done.stdout


def parameters(dtrun, plan, model, top, steps):
    """The parameters of our model after that many steps, and the log."""
    out, log = tempfile.mkdtemp(dir=top), tempfile.mktemp(dir=top)
    run([dtrun, plan, "--import", model, "--steps", str(steps), "--save", out, "--log", log, "--quiet"])
    with open(log) as file:
        events = [json.loads(line) for line in file]
    return load_file(f"{out}/step-{steps:08}/model.safetensors"), events


def check_step(dtrun, plan, folder, top, loss):
    """The largest relative error of a gradient, and the relative error of the loss."""
    before, _ = parameters(dtrun, plan, folder, top, 0)
    right, _ = parameters(dtrun, plan, folder + ".after", top, 0)
    after, events = parameters(dtrun, plan, folder, top, 1)
    found = next(e["loss"] for e in events if e["event"] == "step")
    most = (0.0, "")
    # the gradient of a key's bias is rounding alone, of the size of the largest gradient times that of f32
    least = max(1e-3 * RATE, *(1e-2 * (right[path].double() - start.double()).norm().item() for path, start in before.items()))
    for path, start in before.items():
        ours, theirs = (x[path].double() - start.double() for x in (after, right))
        rounding = 1.2e-7 * (start.double().norm() + theirs.norm())  # of the parameters that the gradient is taken from
        error = ((ours - theirs).norm() - rounding).clamp(min=0) / theirs.norm().clamp(min=least)
        most = max(most, (error.item(), path))
    return most, abs(found - loss) / loss


def check_logits(name, dtrun, plan, folder):
    """Whether the logits are right: by --reference for a model of tokens, by --predict for another. Returns what is to be said."""
    if families.CASES[name]["inputs"] is families.TOKENS:
        return run([dtrun, plan, "--import", folder, "--reference", folder + "/reference.st"]).strip().split(";")[1]
    top = os.path.dirname(folder)
    files = [o for n in families.CASES[name]["inputs"] for o in ("--predict", f"{n}={top}/{n}.npy")]
    run([dtrun, plan, "--import", folder, *files, "--out", top + "/out.npy"])
    ours, theirs = torch.tensor(numpy.load(top + "/out.npy")), load_file(folder + "/reference.st")["logits"]
    error = ((ours - theirs).norm(dim=-1) / theirs.norm(dim=-1)).max().item()
    if error > 1e-5:
        raise RuntimeError(f"the logits differ by {error}")
    return f" the largest relative error is {error:.2g}"


def check_export(dtrun, plan, folder):
    """Whether the logits of exports are right: the same bits where the parameters are the same. Without a config.json SmolLM3,
    ModernBERT and Whisper have a token for padding that the tiny models do not have, and nothing says what sees the images
    of Gemma 3."""
    out, inputs = folder + ".exported", load_file(folder + "/reference.st")
    del inputs["logits"]
    with torch.no_grad():
        theirs, after, good = load(folder)(**inputs).logits, load(folder + ".after")(**inputs).logits, True
        scratch = [] if re.search("smollm3|images|modernbert|whisper", folder) else ["--like", "none"]
        block = NAMES.get(os.path.basename(folder))
        scratch += ["--names", block] if block else []
        for right, most, options in ((theirs, 0, ["--steps", "0"]), (theirs, 0, ["--steps", "0"] + scratch),
                                     (after, 1e-4, ["--steps", "1"]), (theirs, 5e-2, ["--steps", "0", "--dtype", "bf16"])):
            shutil.rmtree(out, ignore_errors=True)
            run([dtrun, plan, "--import", folder, "--export", out, "--quiet", *options], {**os.environ, "DT_EXPORT_BYTES": "9000:512"})
            model = load(out, "auto")
            given = {k: v.to(model.dtype) if v.is_floating_point() else v for k, v in inputs.items()}
            error = ((model(**given).logits.float() - right).norm() / right.norm()).item()
            if error > most:
                print(f"export with {options}: the logits differ by {error}")
                good = False
    return good


def compare(name, dtc, dtrun, top):
    """The number of layouts whose results differ."""
    case, failed = families.CASES[name], 0
    folder, program, plan = f"{top}/{name}", f"{top}/{name}.dsl", f"{top}/plan"
    loss = prepare(name, folder)
    with open(program, "w") as file:
        file.write(PROGRAM % {**case, "lines": families.program(case), "rate": RATE})
    options = [o for d, n in families.dims(name, ROWS, SEQ).items() for o in ("-D", f"{d}={n}")]
    for layout in ("none", "tensor_ranks", "zero_ranks"):
        try:
            run([dtc, program, "-o", plan, "--parallel", layout, *options])
            said = check_logits(name, dtrun, plan, folder)
            (gradient, path), loss_error = check_step(dtrun, plan, folder, top, loss)
            exports = layout != "tensor_ranks" or check_export(dtrun, plan, folder)
        except RuntimeError as error:
            print("FAIL", name, layout, error)
            failed += 1
            continue
        good = gradient < 1e-5 and loss_error < 1e-6 and exports
        failed += not good
        print("ok" if good else "FAIL", name, layout, said, f"gradients {gradient:.2g} ({path}) loss {loss_error:.2g}", flush=True)
    return failed


def written(name, top):
    """Whether transformers writes the tokens of generate_cached.py."""
    families.write(name, f"{top}/{name}")
    model = load(f"{top}/{name}")
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    for prompt, wanted in zip(generate_cached.PROMPTS, generate_cached.WRITTEN[name]):
        ids = torch.tensor([prompt])
        got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=len(wanted), do_sample=False)[0].tolist()[len(prompt):]
        if got != wanted:
            print("FAIL", name, "writes", got, "after", prompt)
            return False
    return True


def main():
    first = 2 if sys.argv[1] == "--write" else 3
    names = sys.argv[first:] or families.CASES
    with tempfile.TemporaryDirectory() as top:
        if first == 2:
            os.makedirs(HERE + "/references", exist_ok=True)
            for name in names:
                write_reference(name, top)
            return 0
        others = [name for name in names if name in generate_cached.WRITTEN and not written(name, top)]
        return len(others) + sum(compare(name, *sys.argv[1:3], top) for name in names) > 0


if __name__ == "__main__":
    sys.exit(main())
