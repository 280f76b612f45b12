package baseline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"bench/datasets"
	"bench/runner/job"
)

// The heads of the trainer protocol.
const (
	headTokens   = "token-classification"
	headSequence = "sequence-classification"
	headSpans    = "question-answering"
)

// problem is what an algorithm is given: the rows of one data set (those of
// test without gold), and a place to report to.
type problem struct {
	head             string
	labels           []string
	seed             int
	train, val, test []datasets.Row

	batch   *trainer
	outcome *job.TrainerOutcome
	phase   time.Time
}

// result is what an algorithm gives back: one prediction for each test row, in
// their order.
type result struct{ predictions []any }

// The predictions of the protocol.
type (
	tokensPrediction struct {
		ID     string   `json:"id"`
		Labels []string `json:"labels"`
	}
	classPrediction struct {
		ID     string             `json:"id"`
		Label  string             `json:"label"`
		Scores map[string]float64 `json:"scores"`
	}
	spanPrediction struct {
		ID    string  `json:"id"`
		Text  string  `json:"text"`
		Score float64 `json:"score"`
	}
)

// write writes the predictions as JSON lines.
func (r *result) write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for _, p := range r.predictions {
		if err := e.Encode(p); err != nil {
			return err
		}
	}
	return b.Flush()
}

// random returns the generator of a job. Each use within a job has its own
// stream, so that they do not shift one another.
func (p *problem) random(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(p.seed), stream))
}

// endPhase books the time since the last call.
func (p *problem) endPhase(name string) {
	now := time.Now()
	p.outcome.Seconds[name] += now.Sub(p.phase).Seconds()
	p.phase = now
}

// validated reports the validation loss after that many steps. It returns an
// error when the loss is no number.
func (p *problem) validated(step int, loss float64) error {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return &nanError{fmt.Sprintf("validation loss after step %d is %v", step, loss)}
	}
	p.outcome.Steps = step
	p.outcome.ValidationLosses = append(p.outcome.ValidationLosses, [2]float64{float64(step), loss})
	p.batch.emit("eval", map[string]any{"job": p.outcome.Job, "step": step, "loss": loss})
	return nil
}

// classIndex maps each label to its place in p.labels.
func (p *problem) classIndex() map[string]int {
	m := make(map[string]int, len(p.labels))
	for i, l := range p.labels {
		m[l] = i
	}
	return m
}

// unsupported is the error of a baseline that cannot do the problem's task.
func (p *problem) unsupported(name, can string) error {
	return &unsupportedError{fmt.Sprintf("baseline %s does %s, not %s", name, can, p.head)}
}
