package hub

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
)

// selection is what of a repository or folder a trainer needs.
type selection struct {
	config    string   // config.json
	tokenizer []string // at least one that makes a tokenizer
	code      []string // Python files
	index     string   // of weights in several files; "" for one
	weights   []string // without those that an index is yet to name
	pickle    bool
}

// tokenizerFiles are names that tokenizers of transformers are saved under.
// sole says that the file can be all there is of a vocabulary.
var tokenizerFiles = []struct {
	pattern string
	sole    bool
}{
	{"tokenizer.json", true}, {"tokenizer_config.json", false}, {"special_tokens_map.json", false}, {"added_tokens.json", false},
	{"vocab.txt", true}, {"vocab.json", true}, {"merges.txt", false}, {"bpe.codes", false}, {"vocab.bpe", false},
	{"dict.txt", true}, {"entity_vocab.json", false}, {"*.model", true}, {"*.spm", true}, {"*.vocab", false}, {"*.tiktoken", true},
}

// choose picks from the names of a repository. Other folders than the root are
// left alone (ONNX, Flax, training states), but for code.
func choose(names []string, o Options) (selection, Kind, string) {
	var s selection
	tokenizer := false
	other := ""
	has := map[string]bool{}
	for _, n := range names {
		has[n] = true
	}
	for _, n := range slices.Sorted(slices.Values(names)) {
		if !safeName(n) {
			continue
		}
		if strings.HasSuffix(n, ".py") {
			if o.RemoteCode {
				s.code = append(s.code, n)
			}
			continue
		}
		if strings.Contains(n, "/") {
			continue
		}
		for _, t := range tokenizerFiles {
			if ok, _ := path.Match(t.pattern, n); ok {
				s.tokenizer = append(s.tokenizer, n)
				tokenizer = tokenizer || t.sole
				break
			}
		}
		switch {
		case strings.HasSuffix(n, ".h5") || strings.HasSuffix(n, ".msgpack") || strings.HasSuffix(n, ".onnx") ||
			strings.HasSuffix(n, ".gguf") || strings.HasPrefix(n, "adapter_model."):
			other = n
		}
	}
	if !has["config.json"] {
		return s, NoConfig, "it has no config.json"
	}
	s.config = "config.json"
	if !tokenizer && !(o.RemoteCode && len(s.code) > 0) {
		return s, NoTokenizer, "it has no tokenizer that bench knows (tokenizer.json, vocab.txt, a SentencePiece model, …)"
	}
	if o.SkipWeights {
		return s, "", ""
	}
	// In the order in which transformers looks for them.
	switch {
	case has["model.safetensors"]:
		s.weights = []string{"model.safetensors"}
	case has["model.safetensors.index.json"]:
		s.index = "model.safetensors.index.json"
	case has["pytorch_model.bin"]:
		s.weights, s.pickle = []string{"pytorch_model.bin"}, true
	case has["pytorch_model.bin.index.json"]:
		s.index, s.pickle = "pytorch_model.bin.index.json", true
	case other != "":
		return s, NoWeights, "it has no weights for torch, only " + other
	default:
		return s, NoWeights, "it has no weights"
	}
	return s, "", ""
}

// shards returns the files that an index of weights names, sorted; false if it
// is no index, or names files outside the folder or of another kind.
func shards(index []byte, pickle bool) ([]string, bool) {
	var x struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if json.Unmarshal(index, &x) != nil || len(x.WeightMap) == 0 {
		return nil, false
	}
	suffix := ".safetensors"
	if pickle {
		suffix = ".bin"
	}
	var names []string
	for _, n := range x.WeightMap {
		if !safeName(n) || strings.Contains(n, "/") || !strings.HasSuffix(n, suffix) {
			return nil, false
		}
		names = append(names, n)
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// safeName keeps out names that could leave the folder or confuse the cache.
func safeName(n string) bool {
	if n == "" || len(n) > 512 || strings.ContainsAny(n, "\\\x00") {
		return false
	}
	for part := range strings.SplitSeq(n, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// small are the files but for weights, config.json last: a snapshot with a
// config.json has all the others (see Client.Cached).
func (s selection) small() []string {
	var out []string
	out = append(out, s.tokenizer...)
	out = append(out, s.code...)
	if s.index != "" {
		out = append(out, s.index)
	}
	return out
}

// all are the files of the selection, sorted.
func (s selection) all() []string {
	return slices.Sorted(slices.Values(append(append(s.small(), s.weights...), s.config)))
}

// autoMap returns the files of code that a config refers to, and the other
// repositories that it takes code from, both sorted:
//
//	{"auto_map": {"AutoModel": "module.Class" or "org/name--module.Class"}}
//
// where a tokenizer's value is a list, in old files instead of the map.
func autoMap(config []byte) (own, elsewhere []string) {
	var x struct {
		AutoMap json.RawMessage `json:"auto_map"`
	}
	if json.Unmarshal(config, &x) != nil {
		return nil, nil
	}
	var byClass map[string]json.RawMessage
	values := []json.RawMessage{x.AutoMap}
	if json.Unmarshal(x.AutoMap, &byClass) == nil {
		values = slices.Collect(maps.Values(byClass))
	}
	for _, v := range values {
		var refs []*string
		var one *string
		if json.Unmarshal(v, &one) == nil {
			refs = []*string{one}
		} else if json.Unmarshal(v, &refs) != nil {
			continue
		}
		for _, r := range refs {
			if r == nil {
				continue
			}
			if repo, _, other := strings.Cut(*r, "--"); other {
				elsewhere = append(elsewhere, repo)
			} else {
				module, _, _ := strings.Cut(*r, ".")
				own = append(own, module+".py")
			}
		}
	}
	slices.Sort(own)
	slices.Sort(elsewhere)
	return slices.Compact(own), slices.Compact(elsewhere)
}
