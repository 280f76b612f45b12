"""From logits to the lines of predictions.jsonl."""

import numpy as np

from .failures import NotFinite

# Decoding of question answering, as in the reference system.
BEST = 20
LONGEST_ANSWER = 30  # tokens


def shorten(x):
    """A float with 7 significant digits, which is what float32 holds."""
    return float(f"{x:.7g}")


def _finite(logits):
    if not np.isfinite(logits).all():
        raise NotFinite("the model's outputs on the test rows are not finite")
    return logits


def predict(runner, dataset):
    """Predictions for every test row, in order, as dicts."""
    test = runner.encoded.test
    out = [None] * len(test.split)

    if dataset.head == "sequence-classification":

        def use(indices, inputs, logits):
            for i, scores in zip(indices, _finite(logits.cpu().numpy())):
                row = {name: shorten(float(x)) for name, x in zip(dataset.labels, scores)}
                out[i] = {"id": test.rows[i]["id"], "label": dataset.labels[int(scores.argmax())], "scores": row}

        runner.outputs(test.split, use)
        return out

    if dataset.head == "token-classification":

        def use(indices, inputs, logits):
            best = _finite(logits.cpu().numpy()).argmax(-1)
            length = best.shape[1]
            for i, row in zip(indices, best):
                shift = length - len(test.split.features[i]["input_ids"]) if runner.collator.pad_left else 0
                labels = [dataset.labels[row[p + shift]] if p >= 0 else None for p in test.first_tokens[i]]
                out[i] = {"id": test.rows[i]["id"], "labels": labels}

        runner.outputs(test.split, use)
        return out

    def use(indices, inputs, logits):
        for i, row in zip(indices, _finite(logits.cpu().numpy())):
            out[i] = row

    runner.outputs(test.split, use)
    predictions = []
    for row, windows in zip(test.rows, test.windows):
        text, score = best_answer(
            row["context"], [(out[w][:, 0], out[w][:, 1], test.offsets[w], test.cls_positions[w]) for w in windows]
        )
        predictions.append({"id": row["id"], "text": text, "score": shorten(score)})
    return predictions


def best_answer(context, windows):
    """(text, score) of the best span over a question's windows, ("", null score) when none beats the null score.

    windows: (start logits, end logits, offsets, position of CLS) each. The null score starts at 0 and only rises, window by
    window; a candidate must beat the null score reached so far. Candidates are the 20 best starts × the 20 best ends that lie in
    the context, in order, at most 30 tokens long."""
    null = 0.0
    text, best = "", None
    for start, end, offsets, cls in windows:
        null = max(null, float(start[cls] + end[cls]))
        starts = np.argsort(start)[: -BEST - 1 : -1]
        ends = np.argsort(end)[: -BEST - 1 : -1]
        scores = start[starts][:, None] + end[ends][None, :]
        span = ends[None, :] - starts[:, None]
        allowed = (
            (offsets[starts, 0] >= 0)[:, None] & (offsets[ends, 0] >= 0)[None, :]
            & (span >= 0) & (span < LONGEST_ANSWER) & (scores > null)
        )
        if not allowed.any():
            continue
        flat = int(np.where(allowed, scores, -np.inf).argmax())
        a, b = divmod(flat, scores.shape[1])
        if best is None or scores[a, b] > best:
            best = scores[a, b]
            text = context[int(offsets[starts[a], 0]) : int(offsets[ends[b], 1])]
    return text, float(best) if best is not None else null
