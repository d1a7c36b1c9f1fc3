#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sampling as transformers does it:  samples.py SAMPLES

The probabilities of generate_sample.c are those after the processors that transformers' own code makes of the same
settings, in its order. Skipped (77) without PyTorch and transformers; test_generate_sample.c compares with a plain
reference."""

import subprocess
import sys

sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import torch
    from transformers import GenerationConfig
    from transformers.generation.logits_process import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                                                        TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)
    from transformers.generation.utils import GenerationMixin
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CASES, VOCAB = 1000, 37


class Model(GenerationMixin):
    """What _get_logits_processor, which makes the list of processors, asks of a model."""

    class config:
        is_encoder_decoder = False


def processors_of(temperature, top_k, top_p, min_p, penalty):
    settings = GenerationConfig(do_sample=True, temperature=temperature, top_k=int(top_k), top_p=top_p, min_p=min_p,
                                repetition_penalty=penalty)
    settings._pad_token_tensor = settings._eos_token_tensor = None
    made = Model()._get_logits_processor(settings, input_ids_seq_length=8)
    order = [RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper,
             MinPLogitsWarper]
    at = [order.index(type(processor)) for processor in made]
    assert at == sorted(at), "transformers has another order: %s" % made
    return made


def main():
    done = subprocess.run([sys.argv[1], str(CASES)], capture_output=True, text=True, timeout=100, check=True)
    wrong = removed = 0
    for line in done.stdout.splitlines():
        numbers = [float(word) for word in line.split()]
        ids = torch.tensor([[int(number) for number in numbers[5:13]]])
        scores = torch.tensor([numbers[13:13 + VOCAB]], dtype=torch.float64)
        wanted = torch.softmax(processors_of(*numbers[:5])(ids, scores), -1)[0]
        got = torch.tensor(numbers[13 + VOCAB:], dtype=torch.float64)
        removed += int((wanted == 0).sum())
        if (got - wanted).abs().max() > 1e-12:
            wrong += 1
            print("FAIL", numbers[:5], got, wanted)
    assert removed > CASES * VOCAB // 4, removed
    print("%d passed, %d failed" % (CASES - wrong, wrong))
    return 1 if wrong or not done.stdout else 0


if __name__ == "__main__":
    sys.exit(main())
