"""Models that need a fix-up each, made here with random weights, trained for a few steps."""

import json

from helpers import HEADS, Skip, make_batch, outcome, predictions, rows, run_trainer, save_bert

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}


def texts():
    for task in HEADS:
        for r in rows(task, 64, 1):
            yield r.get("text") or " ".join(r.get("tokens") or [r["question"], r["context"]])


def write_tokenizer_config(folder, **values):
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64, **values}), encoding="utf-8")


def save_byte_level(folder, special):
    """vocab.json and merges.txt of a byte-level BPE; returns the vocabulary's size."""
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir(parents=True)
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(texts(), vocab_size=320, special_tokens=special)
    bpe.save_model(str(folder))
    return bpe.get_vocab_size()


def try_tasks(tmp_path, tasks=("ner", "sentiment", "qa"), **dataset):
    batch = make_batch(tmp_path, tasks, model={"fresh": "", "path": "model"}, hyperparameters={"max_steps": 4, "eval_steps": 2})
    if dataset:
        value = json.loads(batch.read_text())
        for d in value["datasets"]:
            d.update(dataset)
        batch.write_text(json.dumps(value))
    run_trainer(batch, tmp_path / "out")
    return {t: outcome(tmp_path / "out", t) for t in tasks}


def all_ok(outcomes):
    assert all(o["state"] == "ok" for o in outcomes.values()), {t: (o["failure"], o["message"]) for t, o in outcomes.items()}


def test_roberta(tmp_path):
    from transformers import RobertaConfig, RobertaModel

    size = save_byte_level(tmp_path / "model", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    write_tokenizer_config(tmp_path / "model", tokenizer_class="RobertaTokenizer")
    RobertaModel(RobertaConfig(vocab_size=size, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2, **SMALL)).save_pretrained(tmp_path / "model")
    outcomes = try_tasks(tmp_path)
    all_ok(outcomes)
    # 64 positions, of which RoBERTa loses those up to its padding id.
    assert {o["max_length"] for o in outcomes.values()} == {62}
    assert all(None not in p["labels"] for p in predictions(tmp_path / "out", "ner"))


def test_gpt2_without_padding_token(tmp_path):
    from transformers import GPT2Config, GPT2Model

    size = save_byte_level(tmp_path / "model", ["<|endoftext|>"])
    write_tokenizer_config(tmp_path / "model", tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>")
    config = GPT2Config(vocab_size=size, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    GPT2Model(config).save_pretrained(tmp_path / "model")
    all_ok(try_tasks(tmp_path))


def test_electra(tmp_path):
    from transformers import ElectraConfig, ElectraModel

    save_bert(tmp_path / "model")
    size = json.loads((tmp_path / "model/config.json").read_text())["vocab_size"]
    ElectraModel(ElectraConfig(vocab_size=size, embedding_size=16, **SMALL)).save_pretrained(tmp_path / "model")
    all_ok(try_tasks(tmp_path))


def test_debertav2_with_sentencepiece(tmp_path):
    try:
        import sentencepiece
    except ImportError:
        raise Skip("no sentencepiece") from None
    from transformers import DebertaV2Config, DebertaV2Model

    folder = tmp_path / "model"
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts()), model_prefix=str(folder / "spm"), vocab_size=120, hard_vocab_limit=False, pad_id=0, bos_id=1, eos_id=2,
        unk_id=3, bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]", pad_piece="[PAD]", minloglevel=2,
    )
    write_tokenizer_config(folder, tokenizer_class="DebertaV2Tokenizer")
    config = DebertaV2Config(
        vocab_size=140, relative_attention=True, position_buckets=16, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
        type_vocab_size=0, pooler_hidden_size=48, **SMALL,
    )
    DebertaV2Model(config).save_pretrained(folder)
    all_ok(try_tasks(tmp_path))


def test_slow_tokenizer(tmp_path):
    save_bert(tmp_path / "model")
    (tmp_path / "model/vocab.txt").rename(tmp_path / "model/prophetnet.tokenizer")
    write_tokenizer_config(tmp_path / "model", tokenizer_class="ProphetNetTokenizer", do_lower_case=False)
    outcomes = try_tasks(tmp_path)
    assert outcomes["qa"]["failure"] == "unsupported" and "fast" in outcomes["qa"]["message"]
    del outcomes["qa"]
    all_ok(outcomes)
    assert all(None not in p["labels"] for p in predictions(tmp_path / "out", "ner"))


def test_vocabulary_larger_than_the_embeddings(tmp_path):
    save_bert(tmp_path / "model", vocab_size=20)
    outcomes = try_tasks(tmp_path)
    all_ok(outcomes)
    words = len((tmp_path / "model/vocab.txt").read_text().splitlines())
    assert {o["vocabulary"] for o in outcomes.values()} == {words + 1}


def test_one_row_of_token_types_and_a_head_of_another_size(tmp_path):
    from transformers import BertConfig, BertForTokenClassification

    save_bert(tmp_path / "model", type_vocab_size=1)
    all_ok(try_tasks(tmp_path, tasks=("qa",)))
    size = json.loads((tmp_path / "model/config.json").read_text())["vocab_size"]
    BertForTokenClassification(BertConfig(vocab_size=size, num_labels=4, **SMALL)).save_pretrained(tmp_path / "model")
    (tmp_path / "out/qa/outcome.json").unlink()
    all_ok(try_tasks(tmp_path, tasks=("ner", "sentiment")))


def test_xmod_speaks_the_data_sets_language(tmp_path):
    from transformers import XmodConfig, XmodModel

    save_bert(tmp_path / "model")
    size = json.loads((tmp_path / "model/config.json").read_text())["vocab_size"]
    config = XmodConfig(vocab_size=size, pad_token_id=0, languages=["en_XX", "da_DK"], default_language="en_XX", **{**SMALL, "max_position_embeddings": 66})
    XmodModel(config).save_pretrained(tmp_path / "model")
    all_ok(try_tasks(tmp_path, tasks=("sentiment",)))
    (tmp_path / "out/sentiment/outcome.json").unlink()
    o = try_tasks(tmp_path, tasks=("sentiment",), languages=["is"])["sentiment"]
    assert o["failure"] == "unsupported" and "X-MOD" in o["message"]


def test_a_model_without_the_head(tmp_path):
    from transformers import ViTConfig

    save_bert(tmp_path / "model")
    ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32).save_pretrained(tmp_path / "model")
    o = try_tasks(tmp_path, tasks=("qa",))["qa"]
    assert o["failure"] == "unsupported", o["message"]
