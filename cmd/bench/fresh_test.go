package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"bench/datasets/hub/hubtest"
)

// makeRepositories makes what fresh models take from their repositories, a
// tokenizer and a config, in the folders electra and xlmr: of the real classes,
// but two layers of 32, and with vocabularies learnt from a few sentences. The
// real ones have 13.5 and 278 million parameters, which take minutes.
const makeRepositories = `
import os, sys
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import ElectraConfig, ElectraTokenizerFast, XLMRobertaConfig, XLMRobertaTokenizerFast
out = sys.argv[1]
text = ["Maden var god, sagde Freja.", "Vi købte en kold is i Århus i går.", "Hvem bor i det røde hus ved fjorden?", "Det var som ventet."] * 5
t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
t.normalizer = normalizers.BertNormalizer(lowercase=True)
t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
t.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=120, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
folder = os.path.join(out, "electra")
ElectraTokenizerFast(tokenizer_object=t, model_max_length=128).save_pretrained(folder)
ElectraConfig(vocab_size=len(t.get_vocab()), embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
              max_position_embeddings=128, type_vocab_size=2).save_pretrained(folder)
t = Tokenizer(models.Unigram())
t.pre_tokenizer = pre_tokenizers.Metaspace()
t.train_from_iterator(text, trainers.UnigramTrainer(vocab_size=120, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], unk_token="<unk>"))
t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
folder = os.path.join(out, "xlmr")
XLMRobertaTokenizerFast(tokenizer_object=t, model_max_length=128).save_pretrained(folder)
XLMRobertaConfig(vocab_size=len(t.get_vocab()), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                 max_position_embeddings=130, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2).save_pretrained(folder)
`

// Models with random weights and the tokenizer and config of a repository train
// on all four tasks, and their repository's weights are not downloaded.
func TestFreshModelsOfRepositories(t *testing.T) {
	python := firstPython(t)
	folder := t.TempDir()
	if out, err := exec.Command(python, "-c", makeRepositories, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, h := newCLI(t), hubtest.New()
	defer h.Close()
	p.env = []string{"HF_ENDPOINT=" + h.URL, "HF_HOME=" + filepath.Join(t.TempDir(), "hf"), "HF_HUB_OFFLINE="}
	for name, repository := range map[string]string{"electra": freshModels["electra-small"], "xlmr": freshModels["xlmr-base"]} {
		files := map[string][]byte{"model.safetensors": hubtest.Safetensors(64, 1)}
		entries, err := os.ReadDir(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if files[e.Name()], err = os.ReadFile(filepath.Join(folder, name, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		h.Add(repository, files)
	}
	r := p.run(0, "run", "fresh:electra-small", "fresh:xlmr-base", "--suite", "sample", "--set", "max_steps=2", "--set", "eval_steps=1",
		"--seeds", "1", "--executor", "process", "--python", python)
	for _, q := range h.Requests() {
		if q.Storage {
			t.Errorf("weights were asked for: %s", q.Path)
		}
	}
	for _, task := range []string{"ner", "sentiment", "acceptability", "qa"} {
		has(t, r.stdout, "fresh:electra-small  "+task, "fresh:xlmr-base")
	}
	if len(p.records()) != 8 {
		t.Errorf("%d records, want 8", len(p.records()))
	}
}
