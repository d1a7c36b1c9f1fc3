#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Templates as transformers applies them:  templates.py DTC DTRUN

What dtrun --prompts writes in front of an answer, read off a model that repeats its prompt (prompts.py), is what
apply_chat_template with add_generation_prompt makes of the same messages. Its templates state here, in Jinja of this test's
own, what the models' documentation says of their formats: ChatML, Llama 3, Mistral Nemo, Gemma 2 and Alpaca. A system's
text is compared where the format has one: not for Gemma, and for Mistral with one turn of the user, since Nemo puts it
into the last turn and this project into the first. Skipped (77) without transformers; prompts.py compares with
templates of its own. Where tokenizers put a space in front of a text, chat.py has their tokens of whole conversations."""

import json
import sys
import tempfile

HERE = sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import tokenizers
    from transformers import PreTrainedTokenizerFast
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
sys.path.append(HERE)

import chat  # noqa: E402
import prompts  # noqa: E402

ASKS = "{% if add_generation_prompt %}{{ ASK }}{% endif %}"
LOOP = "{% for m in messages %}BODY{% endfor %}" + ASKS
JINJA = {
    "chatml": LOOP.replace("BODY", "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}").replace(
        "ASK", "'<|im_start|>assistant\n'"),
    "llama3": "{{ bos_token }}" + LOOP.replace(
        "BODY", "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}").replace(
            "ASK", "'<|start_header_id|>assistant<|end_header_id|>\n\n'"),
    "mistral": "{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content + '\n\n' %}"
               "{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}"
               "{% for m in rest %}{% if m.role == 'user' %}{{ '[INST]' + (system if loop.last else '') + m.content + '[/INST]' }}"
               "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}" + LOOP.replace(
        "BODY", "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim + "
                "'<end_of_turn>\n' }}").replace("ASK", "'<start_of_turn>model\n'"),
    "alpaca": "{{ (messages[0].content if messages[0].role == 'system' else %r) + '\n\n' }}" %
              chat.ALPACA.format("").strip() + LOOP.replace(
        "BODY", "{% if m.role == 'user' %}{{ '### Instruction:\n' + m.content + '\n\n' }}"
                "{% elif m.role == 'assistant' %}{{ '### Response:\n' + m.content + eos_token + '\n\n' }}{% endif %}").replace(
                    "ASK", "'### Response:\n'"),
}
AROUND = {"llama3": ("<|begin_of_text|>", "<|eot_id|>"), "mistral": ("<s>", "</s>"), "gemma": ("<bos>", "<eos>")}
TALK = [("system", "Be brief."), ("user", " What is 2+2?\n"), ("assistant", " Four, I say.\n"), ("user", "And 3+3?"),
        ("assistant", "Six:\n\n 6"), ("user", "Is it?  ")]


def talks_of(template):
    with_system = [] if template == "gemma" else [TALK[:2]] if template == "mistral" else [TALK[:2], TALK[:4], TALK]
    return with_system + [TALK[1:2], TALK[1:4], TALK[1:]]


def text_of(bench, tokenizer, ids):
    """The text of the tokens, without the first one where it is repeated at the beginning. Added tokens of the fixture
    have other numbers in transformers, which counts them on from the vocabulary."""
    added = {number: token for token, number in bench.encoding.added.items()}
    words = [added.get(i) or tokenizer.decode([i], clean_up_tokenization_spaces=False) for i in ids]
    while len(words) > 1 and ids[0] == ids[1]:
        words, ids = words[1:], ids[1:]
    return "".join(words)


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = prompts.Bench(sys.argv[1], sys.argv[2], folder)
        bench.write("t.jsonl", '{"text": "x"}')
        for template, jinja in JINJA.items():
            bos, eos = AROUND.get(template, ("<|endoftext|>", "<|endoftext|>"))
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=bench.path("tok/tokenizer.json"), bos_token=bos, eos_token=eos)
            talks = [[{"role": role, "content": text} for role, text in talk] for talk in talks_of(template)]
            bench.write("asks.jsonl", "\n".join(json.dumps({"messages": talk}) for talk in talks))
            bench.write("echo.dsl", prompts.ECHO.replace("OPTIONS", ', template = %s, end = "<|endoftext|>"' % template))
            bench.must("compiles for " + template, bench.dtc, "echo.dsl", "-o", "echo.plan")
            said = bench.generate("echo.plan", "--prompts", "asks.jsonl", "--tokens", str(prompts.SHIFT + 1), "--temperature",
                                  "0", "--ignore-end").splitlines()
            bench.check("lines of " + template, len(said) == len(talks), said)
            for line, talk in zip(map(json.loads, said), talks):
                wanted = tokenizer.apply_chat_template(talk, chat_template=jinja, tokenize=False, add_generation_prompt=True)
                got = text_of(bench, tokenizer, line["tokens"])
                bench.check("%s of %d turns" % (template, len(talk)), got == wanted, (got, wanted))
        for name, _, _, text, wanted in chat.SPACED:
            known = tokenizers.Tokenizer.from_str(chat.spaced_tokenizer(name))
            got = known.encode(text[3:-4] if text.startswith("<s>Q") else text, add_special_tokens=False).ids
            bench.check("spaces of %s" % name, ([1] + got + [2] if text.startswith("<s>Q") else got) == wanted, (got, wanted))
    print("%d passed, %d failed" % (bench.passed, bench.failed))
    return 1 if bench.failed or not bench.passed else 0


if __name__ == "__main__":
    sys.exit(main())
