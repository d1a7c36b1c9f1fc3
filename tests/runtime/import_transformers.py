#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers:  import_transformers.py DTC DTRUN

Small models with random weights are saved by `save_pretrained`, in shards, and imported on one rank, on four with tensor
parallelism and with ZeRO 3; --reference compares with the logits of transformers. Skipped (77) without PyTorch and
transformers; import.py tests the same with files and formulas of its own."""

import os
import subprocess
import sys
import tempfile

sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import torch
    import transformers
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYOUTS = """
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
parallel tensor_ranks on four { mesh data = 2, tensor = 2; shard batch on data; shard %s, ffn on tensor }
parallel zero_ranks on four { mesh data = 4; shard batch on data; zero 3 on data }
"""

GPT2 = """include "%s/examples/gpt2.dsl"
names huggingface on gpt2 {
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
QWEN3 = """include "%s/tests/models/qwen3.dsl"
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
  config "rms_norm_eps" = 1e-6
  config "num_key_value_heads" = kv
  config "num_attention_heads" = kv * group
  config "head_dim" = head
  config "hidden_act" = "silu"
}
"""


def models():
    """Name, model, program, the axis of heads, dims."""
    config = transformers.GPT2Config(vocab_size=101, n_positions=32, n_embd=24, n_layer=3, n_head=4, bos_token_id=0,
                                     eos_token_id=0)
    yield ("gpt2", transformers.GPT2LMHeadModel(config), GPT2, "heads",
           {"vocab": 101, "layers": 3, "embed": 24, "heads": 4})
    config = transformers.Qwen3Config(
        vocab_size=101, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, rope_theta=1e6, rms_norm_eps=1e-6, tie_word_embeddings=True)
    yield ("qwen3", transformers.Qwen3ForCausalLM(config), QWEN3, "kv",
           {"vocab": 101, "layers": 2, "embed": 24, "kv": 2, "group": 2, "head": 8, "ffn": 40})


def save(model, folder):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        ids = torch.randint(0, 101, (4, 16))
        logits = model.eval()(ids).logits.float().contiguous()
    model.save_pretrained(folder, max_shard_size="20KB")
    save_file({"input_ids": ids, "logits": logits}, folder + "/reference.st")


def main():
    dtc, dtrun = sys.argv[1:3]
    failed = 0
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as top:
        for name, model, text, heads, dims in models():
            folder, program, plan = f"{top}/{name}", f"{top}/{name}.dsl", f"{top}/plan"
            save(model, folder)
            with open(program, "w") as file:
                file.write(text % ROOT + LAYOUTS % heads)
            options = [o for d, n in {"batch": 4, "seq": 16, **dims}.items() for o in ("-D", f"{d}={n}")]
            for layout in ("none", "tensor_ranks", "zero_ranks"):
                done = subprocess.run([dtc, program, "-o", plan, "--parallel", layout, *options, "--set",
                                       "train.precision=mixed(compute = f32, params = f32)"], capture_output=True, text=True)
                if not done.returncode:
                    done = subprocess.run([dtrun, plan, "--import", folder, "--reference", folder + "/reference.st"],
                                          capture_output=True, text=True)
                failed += bool(done.returncode)
                print("FAIL" if done.returncode else "ok", name, layout, (done.stdout + done.stderr).strip()[-300:])
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
