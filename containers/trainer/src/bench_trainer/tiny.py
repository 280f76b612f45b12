"""fresh:tiny: a two-layer BERT with random weights and a WordPiece vocabulary made from the training rows.

No snapshot, no network. The vocabulary is learned here and not by the tokenizers library, whose trainer breaks ties by the order
of a hash table and so gives another vocabulary in every process."""

import collections
import heapq

VOCABULARY = 2000
LENGTH = 128
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MARK = "##"


def texts(head, rows):
    """All training text of a data set."""
    for row in rows:
        if head == "token-classification":
            yield " ".join(row["tokens"])
        elif head == "question-answering":
            yield row["question"]
            yield row["context"]
        else:
            yield row["text"]


def word_pieces(counts, size):
    """A WordPiece vocabulary by byte-pair merging of the most frequent neighbours; ties go to the alphabetically first pair.

    counts: how often each word occurs. Pieces inside a word carry the mark ##. Every single character is in it."""
    words = []
    pieces = set()
    for word in sorted(counts):
        symbols = [word[0]] + [MARK + c for c in word[1:]]
        pieces.update(symbols)
        words.append((symbols, counts[word]))
    vocabulary = sorted(pieces)
    pairs = collections.Counter()
    where = collections.defaultdict(set)
    for i, (symbols, count) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += count
            where[pair].add(i)
    queue = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(queue)
    while queue and len(vocabulary) < size:
        count, pair = heapq.heappop(queue)
        if pairs[pair] != -count:
            if pairs[pair] > 0:
                heapq.heappush(queue, (-pairs[pair], pair))
            continue
        if pairs[pair] < 2:
            break
        merged = pair[0] + pair[1].removeprefix(MARK)
        if merged not in pieces:
            pieces.add(merged)
            vocabulary.append(merged)
        changed = set()
        for i in sorted(where.pop(pair)):
            symbols, n = words[i]
            for old in zip(symbols, symbols[1:]):
                pairs[old] -= n
                changed.add(old)
            joined, at = [], 0
            while at < len(symbols):
                if at + 1 < len(symbols) and (symbols[at], symbols[at + 1]) == pair:
                    joined.append(merged)
                    at += 2
                else:
                    joined.append(symbols[at])
                    at += 1
            words[i] = (joined, n)
            for new in zip(joined, joined[1:]):
                pairs[new] += n
                where[new].add(i)
                changed.add(new)
        for p in sorted(changed):
            if pairs[p] > 0:
                heapq.heappush(queue, (-pairs[p], p))
    return vocabulary


def tokenizer(head, rows):
    """A fast tokenizer with a vocabulary from these rows."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    splitter = pre_tokenizers.BertPreTokenizer()
    clean = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    counts = collections.Counter()
    for text in texts(head, rows):
        counts.update(word for word, _ in splitter.pre_tokenize_str(clean.normalize_str(text)))
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys((*SPECIAL, *word_pieces(counts, VOCABULARY - len(SPECIAL)))))}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    backend.normalizer, backend.pre_tokenizer = clean, splitter
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        model_max_length=LENGTH, model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def config(vocabulary, labels, dropout):
    from transformers import BertConfig

    from .model import set_dropout

    out = BertConfig(
        vocab_size=vocabulary, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=LENGTH, num_labels=len(labels), id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    set_dropout(out, dropout)
    return out
