"""The speed measurement: how many documents a second the model reads on the CPU, one at a time, tokenisation included."""

import time

import torch

from .failures import BadInput

WARM_UP = 10
INFERENCES = 100


def measure(model, tokenizer, text, accepted):
    """(inferences a second, tokens a second) of one document: 10 untimed and 100 timed inferences without gradients."""
    if not text:
        raise BadInput("the speed data set's test row has no text")
    model.cpu().eval()
    tokens = 0

    def infer():
        nonlocal tokens
        encoding = tokenizer([text], padding=True, truncation=True, return_tensors="pt")
        tokens = encoding["input_ids"].shape[1]
        model(**{name: value for name, value in encoding.items() if name in accepted})

    with torch.no_grad():
        for _ in range(WARM_UP):
            infer()
        started = time.perf_counter()
        for _ in range(INFERENCES):
            infer()
        seconds = time.perf_counter() - started
    return INFERENCES / seconds, INFERENCES * tokens / seconds
