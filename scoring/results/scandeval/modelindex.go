package scandeval

import (
	"io"
	"math"

	"go.yaml.in/yaml/v3"

	"bench/scoring/results"
)

// hubTasks are the names of tasks in model cards of the Hugging Face Hub.
var hubTasks = map[string][2]string{
	"ner":           {"token-classification", "Named entity recognition"},
	"sentiment":     {"text-classification", "Sentiment classification"},
	"acceptability": {"text-classification", "Linguistic acceptability"},
	"qa":            {"question-answering", "Extractive question answering"},
	"speed":         {"other", "Inference speed"},
}

// hubMetrics are the Hub's identifiers of metrics, and what tells those apart
// that have one in common.
var hubMetrics = map[string][2]string{
	"mcc": {"matthews_correlation", "MCC"}, "macro_f1": {"f1", "macro-F1"}, "micro_f1": {"f1", "micro-F1"}, "micro_f1_no_misc": {"f1", "micro-F1 without MISC"},
	"em": {"exact_match", "exact match"}, "f1": {"f1", "F1"},
}

type cardModel struct {
	Name    string       `yaml:"name"`
	Results []cardResult `yaml:"results"`
}

type cardResult struct {
	Task struct {
		Type string `yaml:"type"`
		Name string `yaml:"name"`
	} `yaml:"task"`
	Dataset struct {
		Type  string         `yaml:"type"`
		Name  string         `yaml:"name"`
		Split string         `yaml:"split"`
		Args  map[string]any `yaml:"args,omitempty"` // languages, digest
	} `yaml:"dataset"`
	Metrics []cardMetric `yaml:"metrics"`
}

type cardMetric struct {
	Type  string         `yaml:"type"`
	Name  string         `yaml:"name"`
	Value float64        `yaml:"value"`
	Args  map[string]any `yaml:"args,omitempty"`
}

// WriteModelIndex writes the "model-index" of a model card: means with two
// digits, their intervals in args. It is a summary and cannot be imported.
func WriteModelIndex(w io.Writer, recs []results.Record) error {
	var models []cardModel
	at := map[string]int{}
	for _, r := range recs {
		name := r.Model.ID
		if _, ok := at[name]; !ok {
			at[name] = len(models)
			models = append(models, cardModel{Name: name})
		}
		var c cardResult
		t, ok := hubTasks[r.Dataset.Task]
		if !ok {
			t = [2]string{"other", r.Dataset.Task}
		}
		c.Task.Type, c.Task.Name = t[0], t[1]
		c.Dataset.Type, c.Dataset.Name, c.Dataset.Split = r.Dataset.Name, r.Dataset.Name, "test"
		c.Dataset.Args = map[string]any{}
		if r.Dataset.Task != "speed" { // which is of no language
			c.Dataset.Args["languages"] = r.Dataset.Languages
		}
		if r.Dataset.Digest != "" { // of the rows: it is no revision of a repository
			c.Dataset.Args["digest"] = r.Dataset.Digest
		}
		for _, metric := range sortedKeys(r.Summary) {
			s := r.Summary[metric]
			if s.Mean.Undefined != "" {
				continue
			}
			id, ok := hubMetrics[metric]
			if !ok {
				id = [2]string{metric, metric}
			}
			m := cardMetric{Type: id[0], Name: id[1], Value: round2(s.Mean.X), Args: map[string]any{"protocol": r.Protocol, "seeds": s.N}}
			if s.HalfWidthT.Undefined == "" {
				m.Args["half_width_95"] = round2(s.HalfWidthT.X)
			}
			c.Metrics = append(c.Metrics, m)
		}
		if len(c.Metrics) > 0 {
			m := &models[at[name]]
			m.Results = append(m.Results, c)
		}
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(map[string][]cardModel{"model-index": models}); err != nil {
		return err
	}
	return e.Close()
}

func round2(x float64) float64 { return math.Round(x*100) / 100 }
