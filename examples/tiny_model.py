#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder of a very small Qwen 3 with random weights, as Hugging Face's models are published:

  tiny_model.py FOLDER --text FILE...

config.json, model.safetensors, and tokenizer.json, whose 384 tokens are the bytes and the most frequent pairs in the text. Needs
nothing but Python. docs/tutorial.md trains the model."""

import argparse
import array
import collections
import json
import os
import random
import re
import struct
import sys

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 384, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "max_position_embeddings": 64, "tie_word_embeddings": True, "attention_bias": False, "attention_dropout": 0.0,
    "use_sliding_window": False, "dtype": "float32",
}


# ---- weights ----

def tensors(c):
    """Names and shapes, in the order of the file."""
    embed, ffn, head = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", (c["vocab_size"], embed)
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        yield h + "input_layernorm.weight", (embed,)
        yield h + "self_attn.q_proj.weight", (q, embed)
        yield h + "self_attn.k_proj.weight", (kv, embed)
        yield h + "self_attn.v_proj.weight", (kv, embed)
        yield h + "self_attn.o_proj.weight", (embed, q)
        yield h + "self_attn.q_norm.weight", (head,)
        yield h + "self_attn.k_norm.weight", (head,)
        yield h + "post_attention_layernorm.weight", (embed,)
        yield h + "mlp.gate_proj.weight", (ffn, embed)
        yield h + "mlp.up_proj.weight", (ffn, embed)
        yield h + "mlp.down_proj.weight", (embed, ffn)
    yield "model.norm.weight", (embed,)


def write_weights(path, config):
    draws = random.Random(1)
    header, data = {"__metadata__": {"format": "pt"}}, bytearray()
    for name, shape in tensors(config):
        n = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = array.array("f", [1.0] * n if len(shape) == 1 else [draws.gauss(0, 0.02) for _ in range(n)])
        if sys.byteorder == "big":
            values.byteswap()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + 4 * n]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


# ---- tokenizer ----

def byte_letters():
    """The letter that stands for each byte in a tokenizer.json, as GPT-2 chose them: printable ones for themselves."""
    letters = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174 else None for b in range(256)]
    others = iter(range(256, 512))
    return [letter or chr(next(others)) for letter in letters]


def pairs(words):
    count = collections.Counter()
    for word, n in words.items():
        for pair in zip(word, word[1:]):
            count[pair] += n
    return count


def joined(word, pair):
    out, i = [], 0
    while i < len(word):
        both = word[i:i + 2] == pair
        out.append(pair[0] + pair[1] if both else word[i])
        i += 2 if both else 1
    return tuple(out)


def train_tokenizer(text, size):
    """Byte-pair encoding: the most frequent pair of tokens becomes a token, until there are `size` of them."""
    letters = byte_letters()
    pieces = collections.Counter(re.findall(r" ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+", text))
    words = {tuple(letters[b] for b in piece.encode()): n for piece, n in pieces.items()}
    vocab, merges = sorted(letters), []
    while len(vocab) < size:
        count = pairs(words)
        if not count:
            sys.exit(f"tiny_model.py: the text is too short for {size} tokens")
        pair = max(count, key=lambda p: (count[p], p))
        merges.append(pair)
        vocab.append(pair[0] + pair[1])
        words = {joined(word, pair): n for word, n in words.items()}
    return vocab, merges


def write_tokenizer(path, text, size):
    vocab, merges = train_tokenizer(text, size)
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {token: i for i, token in enumerate(vocab)},
             "merges": [" ".join(pair) for pair in merges]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": split,
                   "post_processor": None, "decoder": split, "model": model}, file, ensure_ascii=False, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--text", nargs="+", required=True, metavar="FILE")
    given = parser.parse_args()
    text = ""
    for path in given.text:
        with open(path, encoding="utf-8") as file:
            text += file.read()
    os.makedirs(given.folder, exist_ok=True)
    with open(f"{given.folder}/config.json", "w") as file:
        json.dump(CONFIG, file, indent=2)
    write_tokenizer(f"{given.folder}/tokenizer.json", text, CONFIG["vocab_size"])
    write_weights(f"{given.folder}/model.safetensors", CONFIG)


main()
