"""Writes the Parquet files of this folder: python make.py (datasets 2.16, pyarrow 14)."""

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, Sequence, Value

TOKENS = [["Åse", "bor", "i", "Vik", "."], ["Hun", "ler", "."]]
TEXTS = [" ".join(t) for t in TOKENS]
Dataset.from_dict(
    {"text": TEXTS, "tokens": TOKENS, "labels": [["B-PER", "O", "O", "B-LOC", "O"], ["O", "O", "O"]]}
).to_parquet("ner-strings.parquet")
Dataset.from_dict(
    {"doc": TEXTS, "tokens": TOKENS, "ner_tags": [[1, 0, 0, 2, 0], [0, 0, 0]]},
    features=Features(
        {
            "doc": Value("string"),
            "tokens": Sequence(Value("string")),
            "ner_tags": Sequence(ClassLabel(names=["O", "B-PER", "B-LOC"])),
        }
    ),
).to_parquet("ner-classes.parquet")
Dataset.from_dict(
    {
        "text": ["Hun ler .", "Ler hun hun .", "Vi går ."],
        "corruption_type": [None, "flip_neighbours", None],
        "label": [0, 1, 0],
    },
    features=Features(
        {
            "text": Value("string"),
            "corruption_type": Value("string"),
            "label": ClassLabel(names=["correct", "incorrect"]),
        }
    ),
).to_parquet("la.parquet")
QUESTIONS, CONTEXTS = ["Hvor bor hun?", "Hvem?"], ["Hun bor i Vik.", "Ingen er her."]
Dataset.from_dict(
    {
        "id": ["a", "b"],
        "question": QUESTIONS,
        "context": CONTEXTS,
        "title": ["x", "y"],
        "answers": [{"text": ["Vik"], "answer_start": [10]}, {"text": [], "answer_start": []}],
    },
    features=Features(
        {
            "id": Value("string"),
            "question": Value("string"),
            "context": Value("string"),
            "title": Value("string"),
            "answers": Sequence({"text": Value("string"), "answer_start": Value("int32")}),
        }
    ),
).to_parquet("qa.parquet")
answers = pa.list_(pa.struct([("text", pa.large_string()), ("answer_start", pa.int64())]))
pq.write_table(
    pa.table(
        {
            "id": pa.array([1, 2]),
            "question": QUESTIONS,
            "context": CONTEXTS,
            "answers": pa.array([[{"text": "Vik", "answer_start": 10}], []], type=answers),
        }
    ),
    "qa-structs.parquet",
    compression="zstd",
    data_page_version="2.0",
)
pq.write_table(
    pa.table({"text": ["godt", "skidt", "ved ikke"], "label": ["positive", "NEGATIVE", "neutral"]}),
    "sent.parquet",
    row_group_size=2,
)
pq.write_table(pa.table({"tokens": pa.array([["a", None]]), "labels": pa.array([["O", "O"]])}), "null.parquet")
