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
		Type     string   `yaml:"type"`
		Name     string   `yaml:"name"`
		Split    string   `yaml:"split"`
		Revision string   `yaml:"revision,omitempty"`
		Args     []string `yaml:"args,omitempty"` // languages
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
		c.Dataset.Revision, c.Dataset.Args = r.Dataset.Digest, r.Dataset.Languages
		for _, metric := range sortedKeys(r.Summary) {
			s := r.Summary[metric]
			if s.Mean.Undefined != "" {
				continue
			}
			m := cardMetric{Type: metric, Name: metric, Value: round2(s.Mean.X), Args: map[string]any{"protocol": r.Protocol, "seeds": s.N}}
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
