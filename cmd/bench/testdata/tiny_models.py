"""Makes tiny models with random weights, a folder each: tiny_models.py ROWS OUT; ROWS is a pattern of files with training rows."""

import glob
import json
import os
import sys

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

pattern, out = sys.argv[1:]
texts = []
for path in sorted(glob.glob(pattern)):
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        texts.append(row.get("text") or row["context"] + " " + row["question"])
words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
words.normalizer = normalizers.BertNormalizer()
words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
words.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=1000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    model_max_length=128, model_input_names=["input_ids", "attention_mask"])

size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
for name, more in {
    "Albert": {**size, "embedding_size": 16},
    "Bert": size,
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "Electra": {**size, "embedding_size": 16},
    "Roberta": size,
    "XLMRoberta": size,
}.items():
    torch.manual_seed(4242)
    config = getattr(transformers, name + "Config")(vocab_size=len(words.get_vocab()), max_position_embeddings=130, pad_token_id=0, **more)
    folder = os.path.join(out, name.lower())
    tokenizer.save_pretrained(folder)
    getattr(transformers, name + "Model")(config).save_pretrained(folder)
