package transfer

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Representative is the model that stands for a language.
type Representative struct {
	Language string `json:"language"` // BCP 47
	Model    string `json:"model"`    // name on the Hub, or another that bench run takes
}

// Paper are the models behind the table of the ScandEval paper's appendix, in its
// order. The paper does not print their names: they are the models whose
// published records give the table's scores, in every column and within 0.01.
//
// German is an exception. Its Icelandic and Faroese scores are those of
// deepset/gbert-base, which stands here; its Danish, Norwegian and Swedish ones
// are those of KBLab/albert-base-swedish-cased-alpha, another row of the records,
// so that the printed row must be a slip. The paper's F-statistics follow from the
// row as printed.
func Paper() []Representative {
	return []Representative{
		{"da", "vesteinn/DanskBERT"},
		{"no", "patrickvonplaten/norwegian-roberta-base"},
		{"sv", "KB/bert-base-swedish-cased"},
		{"is", "mideind/IceBERT"},
		{"fi", "TurkuNLP/bert-base-finnish-cased-v1"},
		{"en", "roberta-base"},
		{"de", "deepset/gbert-base"},
		{"nl", "pdelobelle/robbert-v2-dutch-base"},
		{"ru", "DeepPavlov/rubert-base-cased"},
		{"ar", "asafaya/bert-base-arabic"},
	}
}

// ReadModels reads a list of representatives: a language and a model on each
// line, with a comma between. A first line that begins with model_language is a
// header; empty lines and what follows a # are skipped. All that is wrong is
// reported together, with file and line.
func ReadModels(r io.Reader, name string) ([]Representative, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []Representative
	var errs []error
	at := map[string]int{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		line, _, _ = strings.Cut(line, "#")
		language, model, ok := strings.Cut(line, ",")
		language, model = strings.TrimSpace(language), strings.TrimSpace(model)
		switch {
		case strings.TrimSpace(line) == "", n == 1 && language == "model_language":
			continue
		case !ok || language == "" || model == "":
			errs = append(errs, fmt.Errorf("%s:%d: %q is not a language and a model", name, n, strings.TrimSpace(line)))
			continue
		case at[language] > 0:
			errs = append(errs, fmt.Errorf("%s:%d: language %s has a model already, on line %d", name, n, language, at[language]))
			continue
		}
		at[language] = n
		out = append(out, Representative{language, model})
	}
	if len(out) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s: no models", name))
	}
	return out, errors.Join(errs...)
}
