"""Rows to token ids, once per data set: what the model reads, where the labels are, which windows a question has."""

import dataclasses

import numpy as np

from .align import slow_word_ids
from .batch import label_index, read_rows
from .failures import BadInput, Unsupported

IGNORED = -100  # the label that cross-entropy leaves out
QA_BATCH = 256


@dataclasses.dataclass
class Split:
    """Encoded inputs of one split.

    features: one per sequence, each {input name: int32 array}; targets: what the loss needs, one per sequence
    (an int, an array of labels per token, or a (start, end) pair); empty for a test split."""

    features: list
    targets: list

    def __len__(self):
        return len(self.features)

    def lengths(self):
        return np.array([len(f["input_ids"]) for f in self.features], dtype=np.int64)


@dataclasses.dataclass
class Test:
    """Encoded test rows and what turns outputs into predictions."""

    split: Split
    rows: list
    first_tokens: list = None  # token classification: per row, per word, the position of its first token or -1
    windows: list = None  # question answering: per row the indices of its windows
    offsets: list = None  # question answering: per window an (n, 2) array, (-1, -1) outside the context
    cls_positions: list = None  # question answering: per window


@dataclasses.dataclass
class Encoded:
    train: Split
    val: Split
    test: Test
    pad_values: dict
    pad_left: bool
    fixed_length: int  # question answering: every window is padded to this; 0: to the longest of the batch
    used_ids: np.ndarray  # every token id that occurs, padding included


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The effective CLS and SEP of a tokenizer and whether it adds them itself (tried on the word Test)."""

    cls_id: int | None
    cls: str | None
    sep: str | None
    adds_cls: bool
    adds_sep: bool

    @property
    def to_be_added(self):
        return not self.adds_cls and not self.adds_sep and self.cls is not None and self.sep is not None


def special_tokens(tokenizer):
    ids = tokenizer("Test").input_ids
    if tokenizer.cls_token_id is not None and tokenizer.cls_token_id in ids:
        cls_id, cls, adds_cls = tokenizer.cls_token_id, tokenizer.cls_token, True
    elif tokenizer.bos_token_id is not None and tokenizer.bos_token_id in ids:
        cls_id, cls, adds_cls = tokenizer.bos_token_id, tokenizer.bos_token, True
    elif tokenizer.cls_token is not None:
        cls_id, cls, adds_cls = tokenizer.cls_token_id, tokenizer.cls_token, False
    else:
        cls_id, cls, adds_cls = tokenizer.bos_token_id, tokenizer.bos_token, False
    if tokenizer.sep_token_id is not None and tokenizer.sep_token_id in ids:
        sep, adds_sep = tokenizer.sep_token, True
    elif tokenizer.eos_token_id is not None and tokenizer.eos_token_id in ids:
        sep, adds_sep = tokenizer.eos_token, True
    elif tokenizer.sep_token is not None:
        sep, adds_sep = tokenizer.sep_token, False
    else:
        sep, adds_sep = tokenizer.eos_token, False
    return SpecialTokens(cls_id, cls, sep, adds_cls, adds_sep)


def _arrays(encoding, i, names):
    return {name: np.asarray(encoding[name][i], dtype=np.int32) for name in names}


def _input_names(encoding, accepted):
    names = [n for n in encoding if n in accepted and n != "labels"]
    if "input_ids" not in names:
        raise Unsupported("the tokenizer gives no input_ids")
    return names


def _encode_texts(tokenizer, rows, accepted):
    special = special_tokens(tokenizer)
    texts = [r["text"] for r in rows]
    if special.to_be_added:
        texts = [f"{special.cls}{t}{special.sep}" for t in texts]
    out = []
    for at in range(0, len(texts), 1000):
        encoding = tokenizer(texts[at : at + 1000], truncation=True, padding=False)
        names = _input_names(encoding, accepted)
        out += [_arrays(encoding, i, names) for i in range(len(encoding["input_ids"]))]
    return out


def _encode_words(tokenizer, rows, accepted):
    """Features, and per row the word index of each token (None for special tokens)."""
    features, word_ids = [], []
    for at in range(0, len(rows), 1000):
        part = rows[at : at + 1000]
        encoding = tokenizer([r["tokens"] for r in part], is_split_into_words=True, truncation=True, padding=False)
        names = _input_names(encoding, accepted)
        for i, row in enumerate(part):
            features.append(_arrays(encoding, i, names))
            if tokenizer.is_fast:
                word_ids.append(encoding.word_ids(i))
            else:
                ids = encoding["input_ids"][i]
                word_ids.append(slow_word_ids(tokenizer, ids, row["tokens"], cut=len(ids) >= tokenizer.model_max_length))
    return features, word_ids


def _first_tokens(word_ids, words):
    """Per word the position of its first token, -1 for a word that was cut off or has no token."""
    out = [-1] * words
    previous = None
    for position, word in enumerate(word_ids):
        if word is not None and word != previous and out[word] < 0:
            out[word] = position
        previous = word
    return out


def _word_targets(word_ids, labels):
    """Per token its label: the word's on its first token, IGNORED on all others."""
    out = np.full(len(word_ids), IGNORED, dtype=np.int64)
    previous = None
    for position, word in enumerate(word_ids):
        if word is not None and word != previous:
            out[position] = labels[word]
        previous = word
    return out


def _encode_windows(tokenizer, rows, accepted, special):
    """Question answering: windows over the context, padded to one length. Returns (features, sequence ids, offsets, row of each)."""
    longest = tokenizer.model_max_length
    stride = longest // 4
    length = longest - stride
    questions = [r["question"].lstrip() for r in rows]
    contexts = [r["context"] for r in rows]
    if special.to_be_added:
        questions = [f"{special.cls}{q}{special.sep}" for q in questions]
        contexts = [f"{c}{special.sep}" for c in contexts]
    extra = tokenizer.num_special_tokens_to_add(pair=True)
    sizes = [len(ids) for ids in tokenizer(questions, add_special_tokens=False)["input_ids"]]
    out = [None] * len(rows)

    def encode(indices, stride):
        encoding = tokenizer(
            [questions[i] for i in indices], [contexts[i] for i in indices], truncation="only_second", max_length=length,
            stride=stride, return_overflowing_tokens=True, return_offsets_mapping=True, padding="max_length",
        )
        names = _input_names(encoding, accepted)
        for w, local in enumerate(encoding["overflow_to_sample_mapping"]):
            i = indices[local]
            if out[i] is None:
                out[i] = []
            offsets = np.asarray(encoding["offset_mapping"][w], dtype=np.int32)
            out[i].append((_arrays(encoding, w, names), encoding.sequence_ids(w), offsets))

    usual = [i for i, size in enumerate(sizes) if size + extra + stride < length]
    for at in range(0, len(usual), QA_BATCH):
        encode(usual[at : at + QA_BATCH], stride)
    for i, size in enumerate(sizes):
        if out[i] is None:
            # So long a question leaves no room for the usual overlap: take less of it, and cut the question at last.
            room = length - extra - 2
            if size > room:
                ends = tokenizer(questions[i], add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
                questions[i] = questions[i][: ends[room - 1][1]] if room > 0 else ""
                size = min(size, room)
            encode([i], max(0, min(stride, length - extra - size - 1)))
    return length, [(i, *window) for i, windows in enumerate(out) for window in windows]


def _position_of(ids, token_id):
    """First position of a token; 0 when the model has no such token."""
    if token_id is None:
        return 0
    at = np.flatnonzero(ids == token_id)
    return int(at[0]) if len(at) else 0


def _answer_span(row, ids, sequence, offsets, special_ids, cls):
    """(start, end) token of the row's first answer in this window; CLS for both when it is not (wholly) there.

    When the answer begins with the window's last word, the start runs on to the window's last position, since special and
    padding tokens have offset 0: the reference system trains on that, and so does this."""
    answers = row["answers"]
    if not answers["answer_start"]:
        return cls, cls
    start_char = answers["answer_start"][0]
    end_char = start_char + len(answers["text"][0])
    context = [k for k, s in enumerate(sequence) if s == 1 and ids[k] not in special_ids]
    if not context:
        return cls, cls
    first, last = context[0], context[-1]
    if not (offsets[first][0] <= start_char and offsets[last][1] >= end_char):
        return cls, cls
    while first < len(offsets) and offsets[first][0] <= start_char:
        first += 1
    while last >= 0 and offsets[last][1] >= end_char:
        last -= 1
    return first - 1, last + 1


def _encode_questions(tokenizer, dataset, rows, accepted):
    if not tokenizer.is_fast:
        raise Unsupported("question answering needs a fast tokenizer: a slow one gives no character offsets")
    special = special_tokens(tokenizer)
    special_ids = {
        getattr(tokenizer, name + "_id")
        for name in tokenizer.special_tokens_map
        if getattr(tokenizer, name + "_id", None) is not None
    }
    out = {}
    for name in ("train", "val", "test"):
        length, windows = _encode_windows(tokenizer, rows[name], accepted, special)
        features = [w[1] for w in windows]
        cls = [_position_of(f["input_ids"], special.cls_id) for f in features]
        if name != "test":
            targets = [
                _answer_span(rows[name][i], f["input_ids"].tolist(), sequence, offsets.tolist(), special_ids, c)
                for (i, f, sequence, offsets), c in zip(windows, cls)
            ]
            out[name] = Split(features, targets)
            continue
        of_row = [[] for _ in rows[name]]
        all_offsets = []
        for w, (i, _, sequence, offsets) in enumerate(windows):
            of_row[i].append(w)
            inside = np.array([s == 1 for s in sequence])
            all_offsets.append(np.where(inside[:, None], offsets, np.int32(-1)))
        out[name] = Test(Split(features, []), rows[name], windows=of_row, offsets=all_offsets, cls_positions=cls)
    return out, length


def read_dataset(dataset):
    """The rows of all splits; rows without any text are left out of train and val."""
    rows = {split: read_rows(dataset, split) for split in ("train", "val", "test")}
    field = {"token-classification": "tokens", "sequence-classification": "text"}.get(dataset.head)
    if field:
        for split in ("train", "val"):
            rows[split] = [r for r in rows[split] if r[field]]
            if not rows[split]:
                raise BadInput(f"{dataset.name}: {split}.jsonl holds only empty rows")
    return rows


def encode(dataset, rows, tokenizer, accepted):
    """A data set for one tokenizer. accepted: names of the model's inputs; others that the tokenizer makes are dropped."""
    fixed = 0
    if dataset.head == "question-answering":
        parts, fixed = _encode_questions(tokenizer, dataset, rows, accepted)
    elif dataset.head == "token-classification":
        index = label_index(dataset)
        parts = {}
        for split in ("train", "val"):
            features, word_ids = _encode_words(tokenizer, rows[split], accepted)
            targets = [_word_targets(w, [index(label) for label in r["labels"]]) for w, r in zip(word_ids, rows[split])]
            parts[split] = Split(features, targets)
        features, word_ids = _encode_words(tokenizer, rows["test"], accepted)
        first = [_first_tokens(w, len(r["tokens"])) for w, r in zip(word_ids, rows["test"])]
        parts["test"] = Test(Split(features, []), rows["test"], first_tokens=first)
    else:
        index = label_index(dataset)
        parts = {
            split: Split(_encode_texts(tokenizer, rows[split], accepted), [index(r["label"]) for r in rows[split]])
            for split in ("train", "val")
        }
        parts["test"] = Test(Split(_encode_texts(tokenizer, rows["test"], accepted), []), rows["test"])
    pad_id = tokenizer.pad_token_id
    splits = (parts["train"], parts["val"], parts["test"].split)
    used = {pad_id}
    for split in splits:
        used.update(np.unique(np.concatenate([f["input_ids"] for f in split.features])).tolist())
    return Encoded(
        parts["train"], parts["val"], parts["test"],
        pad_values={"input_ids": pad_id, "token_type_ids": getattr(tokenizer, "pad_token_type_id", 0)},
        pad_left=tokenizer.padding_side == "left", fixed_length=fixed, used_ids=np.array(sorted(used), dtype=np.int64),
    )
