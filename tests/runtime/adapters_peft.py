#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA as peft has it:  adapters_peft.py DTC DTRUN

A small model of transformers with random weights is imported beneath adapters of ranks 4 and 2 on four of its matrices, and trained
for 50 steps, on one rank, with tensor parallelism and with ZeRO 3. Its losses and adapters are those of peft, which begins with
the same adapters; those that dtrun draws have the range of peft's. transformers loads the export, to which the adapters are
added, and peft loads the adapters alone: both give the logits of the program (dtrun --reference), which also reads what peft
saves. Skipped (77) without PyTorch, transformers and peft;
adapters.py tests the same with formulas of its own."""

import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import peft
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS, RANK, ALPHA, RATE = 50, 4, 8, 2e-3
MODULES = {"attention.wq": "self_attn.q_proj", "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
           "mlp.down": "mlp.down_proj"}
DIMS = {"batch": 4, "seq": 16, "vocab": 101, "layers": 2, "embed": 24, "kv": 2, "group": 2, "head": 8, "ffn": 40}
PROGRAM = """
train tune {
  i32 tokens[batch, seq] = bin("tokens.bin", u16)
  i32 labels[batch, seq] = bin("labels.bin", u16)
  loss = mean[batch, seq](xent[vocab](qwen(tokens), labels))
  adapt "*.wq", "*.wv", "*.wo" = lora(rank = %d, alpha = %d)
  adapt "*.down" = lora(rank = 2, alpha = 3)
  optimizer = adamw(lr = %g, decay = 0)
  steps = %d
}
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
parallel tensor_ranks on four { mesh data = 2, tensor = 2; shard batch on data; shard kv, ffn on tensor }
parallel zero_ranks on four { mesh data = 4; shard batch on data; zero 3 on data }
names huggingface on qwen {
  "model.embed_tokens.weight"[vocab, embed] = wte
  "lm_head.weight"[vocab, embed] = wte
  "model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.k_proj.weight"[o, embed] = h.attention.wk.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.v_proj.weight"[o, embed] = h.attention.wv.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.o_proj.weight"[embed, o] = h.attention.wo.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.q_norm.weight"[head] = h.attention.qn.gain
  "model.layers.{h}.self_attn.k_norm.weight"[head] = h.attention.kn.gain
  "model.layers.{h}.input_layernorm.weight"[embed] = h.n1.gain
  "model.layers.{h}.post_attention_layernorm.weight"[embed] = h.n2.gain
  "model.layers.{h}.mlp.gate_proj.weight"[ffn, embed] = h.mlp.gate.w
  "model.layers.{h}.mlp.up_proj.weight"[ffn, embed] = h.mlp.up.w
  "model.layers.{h}.mlp.down_proj.weight"[embed, ffn] = h.mlp.down.w
  "model.norm.weight"[embed] = norm.gain
}
""" % (RANK, ALPHA, RATE, STEPS)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-1000:])


def ours(dtrun, plan, folder, top, steps):
    """Adapters after that many steps, by path, and the loss of each step. Leaves the checkpoint in top/last."""
    out, log = f"{top}/last", tempfile.mktemp(dir=top)
    shutil.rmtree(out, ignore_errors=True)
    run([dtrun, plan, "--import", folder, "--steps", str(steps), "--save", out, "--log", log, "--quiet"])
    with open(log) as file:
        losses = [event["loss"] for event in map(json.loads, file) if event["event"] == "step"]
    tensors = load_file(f"{out}/step-{steps:08}/model.safetensors")
    return {path: tensor for path, tensor in tensors.items() if ".lora." in path}, losses


def theirs(model, begin, inputs, labels):
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=[name.split(".")[1] for name in MODULES.values()],
                             rank_pattern={"down_proj": 2}, alpha_pattern={"down_proj": 3})
    model = peft.get_peft_model(model, config)
    of = {}
    for path in begin:
        layer, module, part = re.fullmatch(r"h\.(\d+)\.(.*)\.lora\.([ab])", path).groups()
        name = MODULES[module]
        of[path] = model.get_parameter(f"base_model.model.model.layers.{layer}.{name}.lora_{part.upper()}.default.weight")
    with torch.no_grad():
        for path, parameter in of.items():
            bound = 1 / math.sqrt(parameter.shape[1])
            if path.endswith(".a") and not (bound * 0.8 < parameter.abs().max() <= bound and
                                            bound * 0.8 < begin[path].abs().max() <= bound):
                raise RuntimeError(f"{path} begins in another range")
            parameter.copy_(begin[path].reshape(parameter.shape[::-1]).T)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        logits = model(inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, DIMS["vocab"]), labels.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {path: parameter.detach().T for path, parameter in of.items()}, losses


def exchanged(dtrun, plan, top, inputs, base):
    """Relative differences of logits: ours merged, ours in peft, peft's in ours, by what transformers and peft make of them."""
    def logits(model, file):
        with torch.no_grad():
            found = model.eval()(inputs).logits.contiguous()
        save_file({"input_ids": inputs.contiguous(), "logits": found}, f"{top}/{file}")
        return found

    load = lambda folder: transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for name in ("merged", "apart", "saved"):
        shutil.rmtree(f"{top}/{name}", ignore_errors=True)
    run([dtrun, plan, "--resume", f"{top}/last", "--steps", "0", "--export", f"{top}/merged"])
    run([dtrun, plan, "--resume", f"{top}/last", "--steps", "0", "--export", f"{top}/apart", "--peft"])
    merged = logits(load(f"{top}/merged"), "merged.safetensors")
    apart = logits(peft.PeftModel.from_pretrained(load(base), f"{top}/apart"), "apart.safetensors")
    by_name = peft.AutoPeftModelForCausalLM.from_pretrained(f"{top}/apart")
    with torch.no_grad():
        by_name_off = (by_name.eval()(inputs).logits - apart).norm() / apart.norm()
    other = peft.get_peft_model(load(base), peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules=[name.split(".")[1] for name in MODULES.values()], init_lora_weights=False,
        rank_pattern={"down_proj": 2}, alpha_pattern={"down_proj": 3}, task_type="CAUSAL_LM"))
    other.save_pretrained(f"{top}/saved")
    logits(other, "saved.safetensors")
    for options, reference in ((("--resume", f"{top}/last"), "merged"), (("--resume", f"{top}/last"), "apart"),
                               (("--import", base, "--adapters", f"{top}/saved"), "saved")):
        run([dtrun, plan, *options, "--reference", f"{top}/{reference}.safetensors"])
    return max(((merged - apart).norm() / apart.norm()).item(), by_name_off.item())


def main():
    dtc, dtrun = sys.argv[1:3]
    failed = 0
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as top:
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
            vocab_size=101, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, rope_theta=1e6, rms_norm_eps=1e-6, tie_word_embeddings=True))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(f"{top}/model")
        ids = torch.randint(0, 101, (4 * 16 + 1,))
        inputs, labels = ids[:-1].reshape(4, 16), ids[1:].reshape(4, 16)
        for name, rows in (("tokens", inputs), ("labels", labels)):
            with open(f"{top}/{name}.bin", "wb") as file:
                file.write(struct.pack("<64H", *rows.reshape(-1).tolist()))
        with open(f"{ROOT}/tests/models/qwen3.dsl") as file, open(f"{top}/qwen.dsl", "w") as program:
            program.write(file.read() + PROGRAM)
        options = [o for d, n in DIMS.items() for o in ("-D", f"{d}={n}")]
        want = None
        for layout in ("none", "tensor_ranks", "zero_ranks"):
            run([dtc, f"{top}/qwen.dsl", "-o", f"{top}/plan", "--train", "tune", "--parallel", layout, *options])
            begin, _ = ours(dtrun, f"{top}/plan", f"{top}/model", top, 0)
            if want is None:
                want = theirs(model, begin, inputs, labels)
            adapters, losses = ours(dtrun, f"{top}/plan", f"{top}/model", top, STEPS)
            loss_error = max(abs(a - b) / b for a, b in zip(losses, want[1]))
            error = max(((adapters[p].reshape(want[0][p].shape) - want[0][p]).norm() / want[0][p].norm()).item() for p in begin)
            off = exchanged(dtrun, f"{top}/plan", top, inputs, f"{top}/model")
            good = off < 1e-5 and len(losses) == STEPS and loss_error < 1e-6 and error < 1e-4 and losses[-1] < 0.9 * losses[0]
            failed += not good
            print("ok" if good else "FAIL", layout, f"loss {losses[0]:.6f} to {losses[-1]:.6f}, losses differ by {loss_error:.1e},",
                  f"adapters by {error:.1e}, exported logits by {off:.1e}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
