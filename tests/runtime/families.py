# SPDX-License-Identifier: Apache-2.0
"""Tiny models of the families of lib/models, as files: config.json and model.safetensors as their publishers write them.

The weights come from a generator of integers and are multiples of 2^-9, so every machine makes the same files.
library.py imports them and compares with references/NAME.safetensors, which import_transformers.py --write has made
from the same files."""

import array
import json
import os
import struct
import sys
import zlib

VOCAB, SEQ, ROWS = 40, 8, 2


def case(family, sizes, config, tensors, axis="kv", model=None):
    """family: the file of lib/models. sizes: what -D sets. axis: the one that tensor parallelism splits. model: the
    model's name, if it is not that of the file."""
    return {"family": family, "sizes": sizes, "config": config, "tensors": tensors, "axis": axis, "model": model or family}


# ---- tensors ----

def gpt2(prefix):
    def tensors(c):
        e, f = c["n_embd"], 4 * c["n_embd"]
        yield prefix + "wte.weight", (c["vocab_size"], e)
        yield prefix + "wpe.weight", (c["n_positions"], e)
        for layer in range(c["n_layer"]):
            h = f"{prefix}h.{layer}."
            for name, rows, columns in (("attn.c_attn", e, 3 * e), ("attn.c_proj", e, e), ("mlp.c_fc", e, f), ("mlp.c_proj", f, e)):
                yield h + name + ".weight", (rows, columns)
                yield h + name + ".bias", (columns,)
            for name in ("ln_1", "ln_2"):
                yield h + name + ".weight", (e,)
                yield h + name + ".bias", (e,)
        yield prefix + "ln_f.weight", (e,)
        yield prefix + "ln_f.bias", (e,)
    return tensors


def decoder(norms=("input_layernorm", "post_attention_layernorm"), head_norms=None, experts=False):
    """head_norms: "each" has a norm of each head, "all" one of all heads together."""
    def tensors(c):
        e, f = c["hidden_size"], c["intermediate_size"]
        d = c.get("head_dim") or e // c["num_attention_heads"]
        q, k = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
        yield "model.embed_tokens.weight", (c["vocab_size"], e)
        for layer in range(c["num_hidden_layers"]):
            h = f"model.layers.{layer}."
            for name, rows, columns in (("q", q, e), ("k", k, e), ("v", k, e), ("o", e, q)):
                yield f"{h}self_attn.{name}_proj.weight", (rows, columns)
            if head_norms:
                yield h + "self_attn.q_norm.weight", (d if head_norms == "each" else q,)
                yield h + "self_attn.k_norm.weight", (d if head_norms == "each" else k,)
            for name in norms:
                yield f"{h}{name}.weight", (e,)
            for part in [f"block_sparse_moe.experts.{x}." for x in range(c["num_local_experts"])] if experts else ["mlp."]:
                for name, rows, columns in ((("w1", f, e), ("w2", e, f), ("w3", f, e)) if experts else
                                            (("gate_proj", f, e), ("down_proj", e, f), ("up_proj", f, e))):
                    yield f"{h}{part}{name}.weight", (rows, columns)
            if experts:
                yield h + "block_sparse_moe.gate.weight", (c["num_local_experts"], e)
        yield "model.norm.weight", (e,)
        if not c.get("tie_word_embeddings", False):
            yield "lm_head.weight", (c["vocab_size"], e)
    return tensors


def with_images(text):
    """The tensors of a model that sees images: those of its text part, and some of the parts that an import ignores."""
    def tensors(c):
        for name, shape in text(c["text_config"]):
            yield "language_model." + name, shape
        yield "multi_modal_projector.mm_soft_emb_norm.weight", (8,)
        yield "vision_tower.vision_model.post_layernorm.bias", (8,)
    return tensors


# ---- models ----

def settings(kind, model_type, **more):
    return {"model_type": model_type, "architectures": [kind + "ForCausalLM"], "vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-5,
            "max_position_embeddings": 64, "attention_dropout": 0.0, "dtype": "float32", "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2,
            **more}


SIZES = {"vocab": VOCAB, "embed": 16, "ffn": 24, "layers": 2, "heads": 4, "kv": 2}
SCALING = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCAB, "n_positions": 16, "n_ctx": 16, "n_embd": 16, "n_layer": 2,
        "n_head": 4, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
        "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32"}
GPT2_SIZES = {"vocab": VOCAB, "positions": 16, "layers": 2, "embed": 16, "heads": 4}
GEMMA = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")

# As publishers write it: what is that of transformers' Gemma3TextConfig is left out.
IMAGES = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "dtype": "float32", "mm_tokens_per_image": 4,
          "image_token_index": 39, "boi_token_index": 38, "eoi_token_index": 37,
          "text_config": {"model_type": "gemma3_text", "vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 7,
                          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "sliding_window": 3, "pad_token_id": None,
                          "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
          "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
                            "num_attention_heads": 1, "image_size": 4, "patch_size": 2}}

CASES = {
    "gpt2": case("gpt2", GPT2_SIZES, GPT2, gpt2(""), "heads"),
    "llama_2": case("llama", {**SIZES, "kv": 4}, settings("Llama", "llama", num_key_value_heads=4, rope_scaling=None, tie_word_embeddings=False),
                    decoder()),
    "llama_3_1": case("llama", {**SIZES, "rope_theta": 500000, "rope_factor": 4, "rope_context": 16},
                      settings("Llama", "llama", rope_theta=500000.0, rope_scaling=SCALING, tie_word_embeddings=False), decoder()),
    "llama_3_2": case("llama", {**SIZES, "head": 8, "rope_theta": 500, "rope_factor": 4, "rope_context": 16, "tied": "true"},
                      settings("Llama", "llama", rope_theta=500.0, rope_scaling=SCALING, head_dim=8, tie_word_embeddings=True), decoder()),
    "smollm2": case("llama", {**SIZES, "rope_theta": 100000, "tied": "true"},
                    settings("Llama", "llama", rope_theta=100000.0, tie_word_embeddings=True), decoder()),
    "mistral": case("mistral", {**SIZES, "reach": 3}, settings("Mistral", "mistral", sliding_window=3, rope_theta=10000.0, tie_word_embeddings=False),
                    decoder()),
    "mistral_nemo": case("mistral", {**SIZES, "head": 8, "rope_theta": 1000000},
                         settings("Mistral", "mistral", sliding_window=None, rope_theta=1000000.0, head_dim=8, tie_word_embeddings=False), decoder()),
    "qwen3": case("qwen3", {**SIZES, "head": 8}, settings("Qwen3", "qwen3", rms_norm_eps=1e-6, rope_theta=1000000.0, head_dim=8, attention_bias=False,
                                                          use_sliding_window=False, sliding_window=None, tie_word_embeddings=True),
                  decoder(head_norms="each")),
    "qwen3_8b": case("qwen3", {**SIZES, "head": 8, "tied": "false"},
                     settings("Qwen3", "qwen3", rms_norm_eps=1e-6, rope_theta=1000000.0, head_dim=8, attention_bias=False, use_sliding_window=False,
                              tie_word_embeddings=False), decoder(head_norms="each")),
    "gemma3": case("gemma3", {**SIZES, "head": 8, "layers": 3, "reach": 3, "interval": 2, "query_scalar": 6, "rope_theta": 1000},
                   settings("Gemma3", "gemma3_text", num_hidden_layers=3, head_dim=8, rms_norm_eps=1e-6, rope_theta=1000.0, rope_local_base_freq=10000.0,
                            hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=6, sliding_window=3, sliding_window_pattern=2,
                            attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=False, tie_word_embeddings=True),
                   decoder(GEMMA, "each")),
    "gemma3_images": case("gemma3_images", {**SIZES, "head": 4, "layers": 7, "reach": 3}, IMAGES,
                          with_images(lambda c: decoder(GEMMA, "each")({**c, "tie_word_embeddings": True})), model="gemma3"),
    "smollm3": case("smollm3", {**SIZES, "layers": 3, "interval": 2, "rope_theta": 5000000},
                    settings("SmolLM3", "smollm3", num_hidden_layers=3, rms_norm_eps=1e-6, rope_theta=5000000.0, no_rope_layer_interval=2,
                             no_rope_layers=[1, 0, 1], use_sliding_window=False, tie_word_embeddings=True), decoder()),
    "olmo2": case("olmo2", SIZES, settings("Olmo2", "olmo2", rms_norm_eps=1e-6, rope_theta=500000.0, attention_bias=False, tie_word_embeddings=False),
                  decoder(("post_attention_layernorm", "post_feedforward_layernorm"), "all")),
    "mixtral": case("mixtral", {**SIZES, "experts": 4}, settings("Mixtral", "mixtral", rope_theta=1000000.0, sliding_window=None, num_local_experts=4,
                                                                 num_experts_per_tok=2, router_jitter_noise=0.0, tie_word_embeddings=False),
                    decoder(experts=True)),
}


# ---- files ----

def numbers(name, n):
    """Integers from -128 to 127 that the name determines."""
    state, out = zlib.crc32(name.encode()), []
    for _ in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append((state >> 24) - 128)
    return out


def values(case_of, name, shape):
    n = 1
    for extent in shape:
        n *= extent
    is_gain = len(shape) == 1 and name.endswith("weight")
    one = 0 if case_of["model"] == "gemma3" or not is_gain else 1
    return [one + v / 512 for v in numbers(name, n)]


def save(path, tensors):
    """tensors: name: (dtype, shape, bytes)."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def floats(numbers_of):
    out = array.array("f", numbers_of)
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def write(name, folder, config=None, swapped=None):
    """The model's files. config: members that differ; swapped: two tensors that change places."""
    c = CASES[name]
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w") as file:
        json.dump({**c["config"], **(config or {})}, file, indent=2)
    tensors = {n: ("F32", shape, floats(values(c, n, shape))) for n, shape in c["tensors"](c["config"])}
    if swapped:
        first, second = swapped
        tensors[first], tensors[second] = tensors[second], tensors[first]
    save(f"{folder}/model.safetensors", tensors)


def tokens():
    return [[v % VOCAB for v in numbers(f"row {row}", SEQ)] for row in range(ROWS)]
