#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of lib/models and of transformers:  import_transformers.py DTC DTRUN [NAME..]
                                              import_transformers.py --write [NAME..]

transformers loads the tiny models of families.py. --write saves their logits in references/. Without it each model is
imported on one rank, on four with tensor parallelism and with ZeRO 3, and compared: the logits, the loss, and every
gradient, which a step of gradient descent shows. The model after that step is saved by `save_pretrained`, in shards,
and imported, too, so files of publishers and of transformers are read. transformers loads what is exported, in
shards: before and after the step, in bf16, and with a config.json made from the names block. Skipped (77) without
PyTorch and transformers; library.py compares with references/."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(sys.path.pop(0))  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import families

PROGRAM = """include "models/%(family)s.dsl"
train step {
  i32 tokens[batch, seq] = bin("tokens.bin", u16)
  i32 labels[batch, seq] = bin("labels.bin", u16)
  loss = mean[batch, seq](xent[vocab](%(model)s(tokens), labels))
  optimizer = sgd(lr = %(rate)d)
  steps = 1
}
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
parallel tensor_ranks on four { mesh data = 2, tensor = 2; shard batch on data; shard %(axis)s, ffn on tensor }
parallel zero_ranks on four { mesh data = 4; shard batch on data; zero 3 on data }
"""
ROWS, SEQ, RATE = 4, 16, 8


def load(folder, dtype=torch.float32):
    """The model that transformers reads from the folder: every tensor is one of the model's, and none is missing, but for images."""
    with open(folder + "/config.json") as file:
        kind = getattr(transformers, json.load(file)["architectures"][0])
    model, about = kind.from_pretrained(folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    wrong = {k: [n for n in v if not re.search("vision_tower|multi_modal", str(n))] for k, v in about.items()}
    wrong = {k: v for k, v in wrong.items() if v}
    if wrong:
        raise RuntimeError(f"transformers reads {folder} otherwise: {wrong}")
    return model.eval()


def write_reference(name, top):
    families.write(name, f"{top}/{name}")
    ids = torch.tensor(families.tokens())
    with torch.no_grad():
        logits = load(f"{top}/{name}")(ids).logits
    save_file({"input_ids": ids.contiguous(), "logits": logits.contiguous()}, f"{HERE}/references/{name}.safetensors")


def prepare(name, folder):
    """Logits, tokens and labels, and the model after a step. Returns the loss."""
    families.write(name, folder)
    model = load(folder)
    ids = torch.tensor([v % families.VOCAB for v in families.numbers("all", ROWS * SEQ + 1)])
    inputs, labels = ids[:-1].reshape(ROWS, SEQ), ids[1:].reshape(ROWS, SEQ)
    logits = model(inputs).logits
    save_file({"input_ids": inputs.contiguous(), "logits": logits.detach().contiguous()}, folder + "/reference.st")
    for kind, rows in (("tokens", inputs), ("labels", labels)):
        with open(f"{os.path.dirname(folder)}/{kind}.bin", "wb") as file:
            file.write(struct.pack(f"<{ROWS * SEQ}H", *rows.reshape(-1).tolist()))
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, families.VOCAB), labels.reshape(-1))
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
    for path, start in before.items():
        ours, theirs = (x[path].double() - start.double() for x in (after, right))
        rounding = 1.2e-7 * (start.double().norm() + theirs.norm())  # of the parameters that the gradient is taken from
        error = ((ours - theirs).norm() - rounding).clamp(min=0) / theirs.norm().clamp(min=1e-3 * RATE)
        most = max(most, (error.item(), path))
    return most, abs(found - loss) / loss


def check_export(dtrun, plan, folder):
    """Whether the logits of exports are right: the same bits where the parameters are the same. Without a config.json SmolLM3 has a
    token for padding that the tiny model does not have, and nothing says what sees the images of Gemma 3."""
    out, inputs = folder + ".exported", load_file(folder + "/reference.st")["input_ids"]
    with torch.no_grad():
        theirs, after, good = load(folder)(inputs).logits, load(folder + ".after")(inputs).logits, True
        scratch = [] if re.search("smollm3|images", folder) else ["--like", "none"]
        if "gpt2" in folder:  # the program has two names blocks
            scratch += ["--names", "published"]
        for right, most, options in ((theirs, 0, ["--steps", "0"]), (theirs, 0, ["--steps", "0"] + scratch),
                                     (after, 1e-4, ["--steps", "1"]), (theirs, 5e-2, ["--steps", "0", "--dtype", "bf16"])):
            shutil.rmtree(out, ignore_errors=True)
            run([dtrun, plan, "--import", folder, "--export", out, "--quiet", *options], {**os.environ, "DT_EXPORT_BYTES": "9000:512"})
            error = ((load(out, "auto")(inputs).logits.float() - right).norm() / right.norm()).item()
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
        file.write(PROGRAM % {**case, "rate": RATE})
    options = [o for d, n in {"batch": ROWS, "seq": SEQ, **case["sizes"]}.items() for o in ("-D", f"{d}={n}")]
    for layout in ("none", "tensor_ranks", "zero_ranks"):
        try:
            run([dtc, program, "-o", plan, "--parallel", layout, *options])
            said = run([dtrun, plan, "--import", folder, "--reference", folder + "/reference.st"])
            (gradient, path), loss_error = check_step(dtrun, plan, folder, top, loss)
            exports = layout != "tensor_ranks" or check_export(dtrun, plan, folder)
        except RuntimeError as error:
            print("FAIL", name, layout, error)
            failed += 1
            continue
        good = gradient < 1e-5 and loss_error < 1e-6 and exports
        failed += not good
        print("ok" if good else "FAIL", name, layout, said.strip().split(";")[1], f"gradients {gradient:.2g} ({path}) loss {loss_error:.2g}", flush=True)
    return failed


def main():
    first = 2 if sys.argv[1] == "--write" else 3
    names = sys.argv[first:] or families.CASES
    with tempfile.TemporaryDirectory() as top:
        if first == 2:
            os.makedirs(HERE + "/references", exist_ok=True)
            for name in names:
                write_reference(name, top)
            return 0
        return sum(compare(name, *sys.argv[1:3], top) for name in names) > 0


if __name__ == "__main__":
    sys.exit(main())
