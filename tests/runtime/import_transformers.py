#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers:  import_transformers.py DTC DTRUN

Small models with random weights are saved by `save_pretrained`, in shards, and imported on one rank, on four with tensor
parallelism and with ZeRO 3. --reference compares with the logits of transformers; a step of gradient descent shows the loss
and every gradient, which are those of PyTorch: the model after its step is imported, too. Skipped (77) without PyTorch and
transformers; import.py tests the same with files and formulas of its own."""

import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYOUTS = """
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
parallel tensor_ranks on four { mesh data = 2, tensor = 2; shard batch on data; shard %s, ffn on tensor }
parallel zero_ranks on four { mesh data = 4; shard batch on data; zero 3 on data }
"""

TRAIN = """
train step {
  i32 tokens[batch, seq] = bin("tokens.bin", u16)
  i32 labels[batch, seq] = bin("labels.bin", u16)
  loss = mean[batch, seq](xent[vocab](%s(tokens), labels))
  optimizer = sgd(lr = 1.0)
  steps = 1
}
"""

GPT2 = """names huggingface on gpt2 {
  "transformer.wte.weight"[vocab, embed] = wte
  "transformer.wpe.weight"[positions = 32, embed] = wpe[seq -> positions]
  "transformer.h.{h}.attn.c_attn.weight"[embed, o] = concat[o](h.attention.wq.w[(heads, head) -> o], h.attention.wk.w[(heads, head) -> o], h.attention.wv.w[(heads, head) -> o])
  "transformer.h.{h}.attn.c_attn.bias"[o] = concat[o](h.attention.wq.b0[(heads, head) -> o], h.attention.wk.b0[(heads, head) -> o], h.attention.wv.b0[(heads, head) -> o])
  "transformer.h.{h}.attn.c_proj.weight"[o, embed] = h.attention.wo.w[(heads, head) -> o]
  "transformer.h.{h}.attn.c_proj.bias"[embed] = h.attention.wo.b0
  "transformer.h.{h}.ln_1.weight"[embed] = h.ln1.gain
  "transformer.h.{h}.ln_1.bias"[embed] = h.ln1.shift
  "transformer.h.{h}.ln_2.weight"[embed] = h.ln2.gain
  "transformer.h.{h}.ln_2.bias"[embed] = h.ln2.shift
  "transformer.h.{h}.mlp.c_fc.weight"[embed, ffn] = h.mlp.up.w
  "transformer.h.{h}.mlp.c_fc.bias"[ffn] = h.mlp.up.b0
  "transformer.h.{h}.mlp.c_proj.weight"[ffn, embed] = h.mlp.down.w
  "transformer.h.{h}.mlp.c_proj.bias"[embed] = h.mlp.down.b0
  "transformer.ln_f.weight"[embed] = ln_f.gain
  "transformer.ln_f.bias"[embed] = ln_f.shift
  config "n_head" = heads
  config "activation_function" = "gelu_new"
  config "layer_norm_epsilon" = 1e-5
}
"""
QWEN3 = """names huggingface on qwen {
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
  config "rms_norm_eps" = 1e-6
  config "num_key_value_heads" = kv
  config "num_attention_heads" = kv * group
  config "head_dim" = head
  config "hidden_act" = "silu"
}
"""


def models():
    """Name, model, file of ours, its model, names block, the axis of heads, dims."""
    config = transformers.GPT2Config(vocab_size=101, n_positions=32, n_embd=24, n_layer=3, n_head=4, bos_token_id=0,
                                     eos_token_id=0)
    yield ("gpt2", transformers.GPT2LMHeadModel(config), "examples/gpt2.dsl", "gpt2", GPT2, "heads",
           {"vocab": 101, "layers": 3, "embed": 24, "heads": 4})
    config = transformers.Qwen3Config(
        vocab_size=101, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, rope_theta=1e6, rms_norm_eps=1e-6, tie_word_embeddings=True)
    yield ("qwen3", transformers.Qwen3ForCausalLM(config), "tests/models/qwen3.dsl", "qwen", QWEN3, "kv",
           {"vocab": 101, "layers": 2, "embed": 24, "kv": 2, "group": 2, "head": 8, "ffn": 40})


def save(model, folder):
    """The model, logits, tokens, and the model after a step. Returns the loss."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    ids = torch.randint(0, 101, (4 * 16 + 1,))
    inputs, labels = ids[:-1].reshape(4, 16), ids[1:].reshape(4, 16)
    model.save_pretrained(folder, max_shard_size="20KB")
    logits = model.eval()(inputs).logits
    save_file({"input_ids": inputs.contiguous(), "logits": logits.detach().contiguous()}, folder + "/reference.st")
    for name, rows in (("tokens", inputs), ("labels", labels)):
        with open(f"{os.path.dirname(folder)}/{name}.bin", "wb") as file:
            file.write(struct.pack("<64H", *rows.reshape(-1).tolist()))
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 101), labels.reshape(-1))
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad)
    model.save_pretrained(folder + ".after", max_shard_size="20KB")
    return loss.item()


def program_text(name):
    """The program without dropout, of which PyTorch draws other numbers."""
    with open(f"{ROOT}/{name}") as file:
        return file.read().replace("dropout(0.1)", "dropout(0.0)").replace("wpe, 0.1)", "wpe, 0.0)")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-1000:])
    return done.stdout


def parameters(dtrun, plan, model, top, steps):
    """The parameters of our model after that many steps, and the log."""
    out, log = tempfile.mkdtemp(dir=top), tempfile.mktemp(dir=top)
    run([dtrun, plan, "--import", model, "--steps", str(steps), "--save", out, "--log", log, "--quiet"])
    with open(log) as file:
        events = [json.loads(line) for line in file]
    return load_file(f"{out}/step-{steps:08}/model.safetensors"), events


def check_step(dtrun, plan, folder, top, loss):
    """The largest relative error of a gradient, and the error of the loss."""
    before, _ = parameters(dtrun, plan, folder, top, 0)
    right, _ = parameters(dtrun, plan, folder + ".after", top, 0)
    after, events = parameters(dtrun, plan, folder, top, 1)
    found = next(e["loss"] for e in events if e["event"] == "step")
    most = 0.0
    for path, start in before.items():
        ours, theirs = (x[path].double() - start.double() for x in (after, right))
        rounding = 1.2e-7 * start.double().norm()  # of the parameters that the gradient is taken from
        most = max(most, (((ours - theirs).norm() - rounding).clamp(min=0) / theirs.norm().clamp(min=1e-3)).item())
    return most, abs(found - loss)


def main():
    dtc, dtrun = sys.argv[1:3]
    failed = 0
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as top:
        for name, model, file_name, own, names, heads, dims in models():
            folder, program, plan = f"{top}/{name}", f"{top}/{name}.dsl", f"{top}/plan"
            loss = save(model, folder)
            with open(program, "w") as file:
                file.write(program_text(file_name) + names + LAYOUTS % heads + TRAIN % own)
            options = [o for d, n in {"batch": 4, "seq": 16, **dims}.items() for o in ("-D", f"{d}={n}")]
            for layout in ("none", "tensor_ranks", "zero_ranks"):
                try:
                    run([dtc, program, "-o", plan, "--train", "step", "--parallel", layout, *options])
                    said = run([dtrun, plan, "--import", folder, "--reference", folder + "/reference.st"])
                    gradients, loss_error = check_step(dtrun, plan, folder, top, loss)
                except RuntimeError as error:
                    print("FAIL", name, layout, error)
                    failed += 1
                    continue
                good = gradients < 1e-5 and loss_error < 1e-6 * loss
                failed += not good
                print("ok" if good else "FAIL", name, layout, said.strip().split(";")[1], "gradients", gradients, "loss", loss_error)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
