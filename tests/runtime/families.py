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


TOKENS = {"tokens": ("i32", "batch, seq", "input_ids", "any")}


def case(family, sizes, config, tensors, axis="kv", model=None, inputs=None, over="batch, seq", classes="vocab"):
    """family: the file of lib/models. sizes: what -D sets. axis: the one that tensor parallelism splits. model: the
    model's name, if it is not that of the file. inputs: for each argument of the model its dtype, its axes, its name in
    transformers, and its numbers. over, classes: axes of the result."""
    return {"family": family, "sizes": sizes, "config": config, "tensors": tensors, "axis": axis, "model": model or family,
            "inputs": inputs or TOKENS, "over": over, "classes": classes}


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


def norm(name, n, weight="weight", bias="bias"):
    yield f"{name}.{weight}", (n,)
    if bias:
        yield f"{name}.{bias}", (n,)


def linear(name, rows, columns, bias=True):
    yield name + ".weight", (rows, columns)
    if bias:
        yield name + ".bias", (rows,)


def bert(weight="weight", bias="bias", more=False):
    """more: with the tensors that the published models have for other tasks."""
    def tensors(c):
        v, e, f = c["vocab_size"], c["hidden_size"], c["intermediate_size"]
        for name, rows in (("word", v), ("position", c["max_position_embeddings"]), ("token_type", c["type_vocab_size"])):
            yield f"bert.embeddings.{name}_embeddings.weight", (rows, e)
        yield from norm("bert.embeddings.LayerNorm", e, weight, bias)
        for layer in range(c["num_hidden_layers"]):
            h = f"bert.encoder.layer.{layer}."
            for name in ("query", "key", "value"):
                yield from linear(f"{h}attention.self.{name}", e, e)
            for name, rows, columns in (("attention.output", e, e), ("intermediate", f, e), ("output", e, f)):
                yield from linear(h + name + ".dense", rows, columns)
                if rows == e:
                    yield from norm(h + name + ".LayerNorm", e, weight, bias)
        yield "cls.predictions.bias", (v,)
        yield from linear("cls.predictions.transform.dense", e, e)
        yield from norm("cls.predictions.transform.LayerNorm", e, weight, bias)
        if more:
            yield from linear("bert.pooler.dense", e, e)
            yield from linear("cls.seq_relationship", 2, e)
    return tensors


def modernbert(c):
    v, e, f = c["vocab_size"], c["hidden_size"], c["intermediate_size"]
    yield "model.embeddings.tok_embeddings.weight", (v, e)
    yield "model.embeddings.norm.weight", (e,)
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        for name, rows, columns in (("attn.Wqkv", 3 * e, e), ("attn.Wo", e, e), ("mlp.Wi", 2 * f, e), ("mlp.Wo", e, f)):
            yield h + name + ".weight", (rows, columns)
        if layer:
            yield h + "attn_norm.weight", (e,)
        yield h + "mlp_norm.weight", (e,)
    for name in ("model.final_norm", "head.norm"):
        yield name + ".weight", (e,)
    yield "head.dense.weight", (e, e)
    yield "decoder.bias", (v,)


def t5(c):
    v, e, f, o = c["vocab_size"], c["d_model"], c["d_ff"], c["num_heads"] * c["d_kv"]
    gated = c["feed_forward_proj"] != "relu"

    def part(name, rows):
        for n in "qkv":
            yield f"{name}.{n}.weight", (o, e)
        yield name + ".o.weight", (e, o)
        if rows:
            yield name + ".relative_attention_bias.weight", (c["relative_attention_num_buckets"], c["num_heads"])

    yield "shared.weight", (v, e)
    for stack, layers in (("encoder", c["num_layers"]), ("decoder", c["num_decoder_layers"])):
        for layer in range(layers):
            h = f"{stack}.block.{layer}.layer."
            yield from part(h + "0.SelfAttention", layer == 0)
            if stack == "decoder":
                yield from part(h + "1.EncDecAttention", False)
            mlp = h + ("1" if stack == "encoder" else "2") + ".DenseReluDense."
            for name in ("wi_0", "wi_1") if gated else ("wi",):
                yield f"{mlp}{name}.weight", (f, e)
            yield mlp + "wo.weight", (e, f)
            for n in range(2 if stack == "encoder" else 3):
                yield f"{h}{n}.layer_norm.weight", (e,)
        yield stack + ".final_layer_norm.weight", (e,)
    if gated:
        yield "lm_head.weight", (v, e)


def vit(c):
    e, f, patch = c["hidden_size"], c["intermediate_size"], c["patch_size"]
    yield "vit.embeddings.cls_token", (1, 1, e)
    yield "vit.embeddings.position_embeddings", (1, 1 + (c["image_size"] // patch) ** 2, e)
    yield "vit.embeddings.patch_embeddings.projection.weight", (e, c["num_channels"], patch, patch)
    yield "vit.embeddings.patch_embeddings.projection.bias", (e,)
    for layer in range(c["num_hidden_layers"]):
        h = f"vit.encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            yield from linear(f"{h}attention.attention.{name}", e, e)
        for name, rows, columns in (("attention.output", e, e), ("intermediate", f, e), ("output", e, f)):
            yield from linear(h + name + ".dense", rows, columns)
        yield from norm(h + "layernorm_before", e)
        yield from norm(h + "layernorm_after", e)
    yield from norm("vit.layernorm", e)
    yield from linear("classifier", len(c["id2label"]), e)


def whisper(c):
    e, f = c["d_model"], c["encoder_ffn_dim"]

    def attention(name):
        for n in "qkv":
            yield from linear(f"{name}.{n}_proj", e, e, n != "k")
        yield from linear(name + ".out_proj", e, e)
        yield from norm(name + "_layer_norm", e)

    for name, columns in (("conv1", c["num_mel_bins"]), ("conv2", e)):
        yield f"model.encoder.{name}.weight", (e, columns, 3)
        yield f"model.encoder.{name}.bias", (e,)
    for stack, layers in (("encoder", c["encoder_layers"]), ("decoder", c["decoder_layers"])):
        yield f"model.{stack}.embed_positions.weight", (c[f"max_{'source' if stack == 'encoder' else 'target'}_positions"], e)
        for layer in range(layers):
            h = f"model.{stack}.layers.{layer}."
            yield from attention(h + "self_attn")
            if stack == "decoder":
                yield from attention(h + "encoder_attn")
            yield from linear(h + "fc1", f, e)
            yield from linear(h + "fc2", e, f)
            yield from norm(h + "final_layer_norm", e)
        yield from norm(f"model.{stack}.layer_norm", e)
    yield "model.decoder.embed_tokens.weight", (c["vocab_size"], e)


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

BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": VOCAB, "max_position_embeddings": 20, "type_vocab_size": 2,
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "pad_token_id": None, "dtype": "float32"}
BERT_SIZES = {"vocab": VOCAB, "positions": 20, "layers": 2, "embed": 16, "heads": 4, "ffn": 24}
BERT_INPUTS = {**TOKENS, "kind": ("i32", "batch, seq", "token_type_ids", "two"), "valid": ("bool", "batch, seq", "attention_mask", "valid")}
MODERNBERT = {"model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 4,
              "num_attention_heads": 4, "intermediate_size": 24, "hidden_activation": "gelu", "norm_eps": 1e-5, "norm_bias": False,
              "local_attention": 4, "global_attn_every_n_layers": 3, "global_rope_theta": 2000.0, "local_rope_theta": 100.0, "mlp_bias": False,
              "attention_bias": False, "classifier_bias": False, "decoder_bias": True, "max_position_embeddings": 32, "pad_token_id": None,
              "bos_token_id": None, "eos_token_id": None, "cls_token_id": None, "sep_token_id": None, "dtype": "float32"}
MODERNBERT_SIZES = {"vocab": VOCAB, "layers": 4, "embed": 16, "heads": 4, "ffn": 24, "local": 4, "rope_theta": 2000, "rope_local_theta": 100}
T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": VOCAB, "num_layers": 2, "num_decoder_layers": 3, "d_model": 16,
      "num_heads": 4, "d_kv": 6, "d_ff": 24, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "layer_norm_epsilon": 1e-6,
      "feed_forward_proj": "relu", "dropout_rate": 0.1, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "dtype": "float32"}
T5_SIZES = {"vocab": VOCAB, "src": 12, "layers": 2, "decoders": 3, "embed": 16, "heads": 4, "head": 6, "ffn": 24, "buckets": 8, "farthest": 10}
T5_INPUTS = {"source": ("i32", "batch, src", "input_ids", "any"), "target": ("i32", "batch, seq", "decoder_input_ids", "any"),
             "valid": ("bool", "batch, src", "attention_mask", "valid")}
VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 8, "patch_size": 4, "num_channels": 3, "hidden_size": 16,
       "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True,
       "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "id2label": {str(k): f"kind {k}" for k in range(VOCAB)},
       "label2id": {f"kind {k}": str(k) for k in range(VOCAB)}, "dtype": "float32"}
VIT_SIZES = {"image": 8, "patch": 4, "classes": VOCAB, "layers": 2, "embed": 16, "heads": 4, "ffn": 24}
WHISPER = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": VOCAB, "num_mel_bins": 6,
           "max_source_positions": 10, "max_target_positions": 20, "encoder_layers": 2, "decoder_layers": 3, "d_model": 16,
           "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "activation_function": "gelu",
           "scale_embedding": False, "pad_token_id": VOCAB - 1, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "suppress_tokens": None,
           "begin_suppress_tokens": None, "dtype": "float32"}
WHISPER_SIZES = {"vocab": VOCAB, "mels": 6, "frames": 10, "positions": 20, "layers": 2, "decoders": 3, "embed": 16, "heads": 4, "ffn": 24}
WHISPER_INPUTS = {"input_features": ("f32", "batch, mels, time = 2 * frames", "input_features", "float"),
                  "tokens": ("i32", "batch, seq", "decoder_input_ids", "pad")}

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
    "bert": case("bert", BERT_SIZES, BERT, bert(), "heads, vocab", inputs=BERT_INPUTS),
    "bert_published": case("bert", BERT_SIZES, {**BERT, "architectures": ["BertForMaskedLM"]}, bert("gamma", "beta", True), "heads", inputs=BERT_INPUTS),
    "modernbert": case("modernbert", MODERNBERT_SIZES, MODERNBERT, modernbert, "heads, vocab",
                       inputs={name: BERT_INPUTS[name] for name in ("tokens", "valid")}),
    "t5": case("t5", T5_SIZES, T5, t5, "heads, vocab", inputs=T5_INPUTS),
    "t5_v1_1": case("t5", {**T5_SIZES, "gated": "true", "tied": "false"}, {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, t5,
                    "heads", inputs=T5_INPUTS),
    "vit": case("vit", VIT_SIZES, VIT, vit, "heads", over="batch", classes="classes",
                inputs={"pixel_values": ("f32", "batch, rgb = 3, height = image, width = image", "pixel_values", "float")}),
    "whisper": case("whisper", WHISPER_SIZES, WHISPER, whisper, "heads", inputs=WHISPER_INPUTS),
}


def dims(name, rows, seq):
    """Dims and constants of a case for so many samples."""
    c = CASES[name]
    return {"batch": rows, **({"seq": seq} if any("seq" in i[1] for i in c["inputs"].values()) else {}), **c["sizes"]}


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
    is_gain = len(shape) == 1 and name.endswith(("weight", "gamma"))
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


def program(case_of):
    """The lines of a train block that read the inputs and compute the loss."""
    lines = [f'  {dtype} {name}[{axes}] = npy("{name}.npy")' for name, (dtype, axes, _, _) in case_of["inputs"].items()]
    lines.append(f'  i32 labels[{case_of["over"]}] = npy("labels.npy")')
    lines.append(f'  loss = mean[{case_of["over"]}](xent[{case_of["classes"]}]({case_of["model"]}({", ".join(case_of["inputs"])}), labels))')
    return "\n".join(lines)


def samples(name, rows, seq, sizes=None):
    """The inputs of a case: the dtype, the shape and the numbers of each. sizes: dims that differ."""
    c, out = CASES[name], {}
    extents = {**dims(name, rows, seq), **(sizes or {})}
    for input_name, (dtype, axes, _, what) in c["inputs"].items():
        shape = [eval(axis.split(" = ")[-1], {}, extents) for axis in axes.split(", ")]
        n = 1
        for extent in shape:
            n *= extent
        drawn = numbers(input_name, n)
        if what == "valid":  # padding so short that each window of ModernBERT has a token
            drawn = [k != 1 and k < n - 2 for k in range(n)]
        most = {"two": 2, "pad": VOCAB - 1}.get(what, VOCAB)
        out[input_name] = dtype, shape, [v / 128 if what == "float" else v % most for v in drawn]
    return out


def npy(path, dtype, shape, values_of):
    """An array as numpy.save writes it."""
    code, typecode = {"i32": ("<i4", "i"), "bool": ("|b1", "b"), "f32": ("<f4", "f")}[dtype]
    raw = array.array(typecode, [int(v) if dtype == "bool" else v for v in values_of])
    if sys.byteorder == "big":
        raw.byteswap()
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + raw.tobytes())


def tokens():
    return [[v % VOCAB for v in numbers(f"row {row}", SEQ)] for row in range(ROWS)]
