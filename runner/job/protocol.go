package job

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// Hyperparameters are all numbers that steer a training. The zero value is of
// no use: start from a Protocol.
type Hyperparameters struct {
	LearningRate float64 `json:"learning_rate"`
	AdamBeta1    float64 `json:"adam_beta1"`
	AdamBeta2    float64 `json:"adam_beta2"`
	AdamEpsilon  float64 `json:"adam_epsilon"`
	WeightDecay  float64 `json:"weight_decay"`
	MaxGradNorm  float64 `json:"max_grad_norm"`
	// WarmupRatio × MaxSteps, rounded up, is the number of steps in which the
	// learning rate rises linearly from 0; then it falls linearly to 0 at MaxSteps.
	WarmupRatio   float64  `json:"warmup_ratio"`
	MaxSteps      int      `json:"max_steps"`
	BatchSize     int      `json:"batch_size"`     // examples per optimiser step
	EvalSteps     int      `json:"eval_steps"`     // optimiser steps between validations
	PatienceSteps int      `json:"patience_steps"` // stop when so many steps brought no lower validation loss
	MaxLength     int      `json:"max_length"`     // tokens; 0: the model's own
	Precision     string   `json:"precision"`      // fp32, bf16, fp16
	Dropout       *float64 `json:"dropout"`        // null: the model's own
}

// ScoringRules are the quirks of a reference system that a protocol keeps.
type ScoringRules struct {
	// CollapseIDs scores QA over the distinct questions of a bootstrap sample
	// only, as a dictionary keyed by id does.
	CollapseIDs bool
	// DropTruncated leaves words that truncation cut off out of NER scores,
	// instead of scoring them as O.
	DropTruncated bool
}

// Protocol is a named, versioned set of hyper-parameters and scoring rules.
type Protocol struct {
	Name            string // with overrides: paper{learning_rate=0.001}
	Summary         string
	Hyperparameters Hyperparameters
	Scoring         ScoringRules
}

// FirstSeed is the seed of replicate 0; replicate i uses FirstSeed + i, and is
// scored on row i of the bootstrap drawn with FirstSeed.
const FirstSeed = 4242

// DefaultSeeds is the number of replicates of the paper.
const DefaultSeeds = 10

func paper() Hyperparameters {
	return Hyperparameters{
		LearningRate: 2e-5, AdamBeta1: 0.9, AdamBeta2: 0.999, AdamEpsilon: 1e-8, MaxGradNorm: 1,
		WarmupRatio: 0.01, MaxSteps: 10_000, BatchSize: 32, EvalSteps: 30, PatienceSteps: 90, Precision: "fp32",
	}
}

// Protocols lists the built-in protocols; the first is the default.
func Protocols() []Protocol {
	v7 := paper()
	v7.PatienceSteps = 60
	smoke := paper()
	smoke.LearningRate, smoke.MaxSteps = 1e-3, 1200
	return []Protocol{
		{Name: "paper", Summary: "as the ScandEval paper says: patience 90 steps", Hyperparameters: paper()},
		{Name: "scandeval-v7", Summary: "as scandeval 5-7 really does: patience 60 steps, QA scored per distinct id, truncated words left out of NER",
			Hyperparameters: v7, Scoring: ScoringRules{CollapseIDs: true, DropTruncated: true}},
		{Name: "smoke", Summary: "self-test for tiny random models: learning rate 1e-3, at most 1,200 steps", Hyperparameters: smoke},
	}
}

// ErrProtocol is wrapped by every error about a protocol's name or an override.
var ErrProtocol = errors.New("protocol")

// NewProtocol looks up a protocol and applies overrides of the form key=value,
// where key is a JSON name of Hyperparameters. Overrides that change nothing
// leave the name as it was; others are put into it, sorted by key, values in
// their shortest form. All problems are reported at once.
func NewProtocol(name string, overrides []string) (Protocol, error) {
	var p *Protocol
	var names []string
	for _, q := range Protocols() {
		names = append(names, q.Name)
		if q.Name == name {
			p = &q
		}
	}
	if p == nil {
		return Protocol{}, fmt.Errorf("%w: there is none called %q; there are %s", ErrProtocol, name, strings.Join(names, ", "))
	}
	var errs []error
	changed := map[string]string{}
	seen := map[string]bool{}
	for _, o := range overrides {
		key, value, ok := strings.Cut(o, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("%w: override %q is not of the form key=value", ErrProtocol, o))
			continue
		}
		if seen[key] {
			errs = append(errs, fmt.Errorf("%w: %s is set twice", ErrProtocol, key))
			continue
		}
		seen[key] = true
		before := p.Hyperparameters.get(key)
		if err := p.Hyperparameters.set(key, value); err != nil {
			errs = append(errs, err)
			continue
		}
		if after := p.Hyperparameters.get(key); after != before {
			changed[key] = after
		}
	}
	if err := p.Hyperparameters.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return Protocol{}, errors.Join(errs...)
	}
	if len(changed) > 0 {
		keys := make([]string, 0, len(changed))
		for k, v := range changed {
			keys = append(keys, k+"="+v)
		}
		sort.Strings(keys)
		p.Name += "{" + strings.Join(keys, ",") + "}"
	}
	return *p, nil
}

// fields maps JSON names to the fields, for get and set.
func (h *Hyperparameters) fields() map[string]any {
	return map[string]any{
		"learning_rate": &h.LearningRate, "adam_beta1": &h.AdamBeta1, "adam_beta2": &h.AdamBeta2, "adam_epsilon": &h.AdamEpsilon,
		"weight_decay": &h.WeightDecay, "max_grad_norm": &h.MaxGradNorm, "warmup_ratio": &h.WarmupRatio,
		"max_steps": &h.MaxSteps, "batch_size": &h.BatchSize, "eval_steps": &h.EvalSteps, "patience_steps": &h.PatienceSteps,
		"max_length": &h.MaxLength, "precision": &h.Precision, "dropout": &h.Dropout,
	}
}

func (h *Hyperparameters) get(key string) string {
	switch p := h.fields()[key].(type) {
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *int:
		return strconv.Itoa(*p)
	case *string:
		return *p
	case **float64:
		if *p != nil {
			return strconv.FormatFloat(**p, 'g', -1, 64)
		}
	}
	return ""
}

func (h *Hyperparameters) set(key, value string) error {
	x, err := strconv.ParseFloat(value, 64)
	switch p := h.fields()[key].(type) { // a value that cannot be read changes nothing
	case *float64:
		if err == nil {
			*p = x
		}
	case *int:
		var n int
		if n, err = strconv.Atoi(value); err == nil {
			*p = n
		}
	case *string:
		*p, err = value, nil
	case **float64:
		if err == nil {
			*p = &x
		}
	default:
		var keys []string
		for k := range h.fields() {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		return fmt.Errorf("%w: there is no hyper-parameter %q; there are %s", ErrProtocol, key, strings.Join(keys, ", "))
	}
	if err != nil {
		return fmt.Errorf("%w: %s=%s is not a number of the right kind", ErrProtocol, key, value)
	}
	return nil
}

// Validate reports all impossible values at once.
func (h Hyperparameters) Validate() error {
	var errs []error
	check := func(ok bool, key, must string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: %s=%s must be %s", ErrProtocol, key, h.get(key), must))
		}
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	check(finite(h.LearningRate) && h.LearningRate > 0, "learning_rate", "a number > 0")
	check(h.AdamBeta1 >= 0 && h.AdamBeta1 < 1, "adam_beta1", "in [0, 1)")
	check(h.AdamBeta2 >= 0 && h.AdamBeta2 < 1, "adam_beta2", "in [0, 1)")
	check(finite(h.AdamEpsilon) && h.AdamEpsilon >= 0, "adam_epsilon", "a number ≥ 0")
	check(finite(h.WeightDecay) && h.WeightDecay >= 0, "weight_decay", "a number ≥ 0")
	check(finite(h.MaxGradNorm) && h.MaxGradNorm > 0, "max_grad_norm", "a number > 0")
	check(h.WarmupRatio >= 0 && h.WarmupRatio <= 1, "warmup_ratio", "in [0, 1]")
	check(h.MaxSteps >= 1, "max_steps", "≥ 1")
	check(h.BatchSize >= 1, "batch_size", "≥ 1")
	check(h.EvalSteps >= 1, "eval_steps", "≥ 1")
	check(h.PatienceSteps >= 1, "patience_steps", "≥ 1")
	check(h.MaxLength >= 0, "max_length", "≥ 0")
	check(h.Precision == "fp32" || h.Precision == "bf16" || h.Precision == "fp16", "precision", "fp32, bf16 or fp16")
	check(h.Dropout == nil || *h.Dropout >= 0 && *h.Dropout < 1, "dropout", "in [0, 1)")
	return errors.Join(errs...)
}
