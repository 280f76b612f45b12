package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"bench/runner"
	"bench/runner/job"
	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/results"
	"bench/scoring/stats"
)

func TestUsedLine(t *testing.T) {
	paper := paperCost()
	paid := costOptions{watts: 700, carbon: 0.5, price: 2.5}
	for _, c := range []struct {
		c    costOptions
		u    results.Usage
		want string
	}{
		{paper, results.Usage{WallSeconds: 100}, "no GPU; what the processor took is not measured"},
		// 2 h × 250 W
		{paper, results.NewUsage(7200, 7200, nil), "2.00 GPU hours, 0.50 kWh (estimated), 0.08 kg CO2e"},
		{paper, results.NewUsage(36, 36, &results.Energy{Joules: 3600, Source: "nvml"}), "0.01 GPU hours, 0.001 kWh, 0.00016 kg CO2e"},
		{paid, results.NewUsage(3600, 3600, &results.Energy{Joules: 3.6e6, Source: "power"}), "1.00 GPU hours, 1.00 kWh, 0.50 kg CO2e, price 2.50"},
		{paid, func() results.Usage {
			u := results.NewUsage(3600, 3600, &results.Energy{Joules: 3.6e6, Source: "nvml"})
			u.Add(results.NewUsage(3600, 1200, &results.Energy{Joules: 7.2e6, Source: "estimate"}))
			return u
		}(), "1.33 GPU hours, 3.00 kWh (25 % of the time estimated), 1.50 kg CO2e, price 3.33"},
	} {
		if got := c.c.usedLine(c.u); got != c.want {
			t.Errorf("%+v is %q, want %q", c.u, got, c.want)
		}
	}
	for _, bad := range []costOptions{{}, {watts: -1}, {watts: 250, carbon: -1}, {watts: 250, price: -0.1}} {
		if bad.validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// Costs are columns of the board as soon as a model has any.
func TestBoardCosts(t *testing.T) {
	agg := leaderboard.Agg{Value: scoring.Num(50), HalfWidth: scoring.Num(1), Median: scoring.Num(50)}
	rank := &stats.Ranks{Lo: 1, Hi: 1}
	b := &leaderboard.Board{Protocols: []string{"paper"}, Models: []leaderboard.Row{
		{Model: "big", Protocol: "paper", Overall: agg, Rank: rank, Position: 1, GPUSeconds: 7200, EnergyKWh: 0.5, CO2eKg: 0.08, Price: 5, EstimatedGPUSeconds: 1800},
		{Model: "baseline:x", Protocol: "paper", Overall: agg, Rank: rank, Position: 2},
	}}
	show := func() string {
		var w bytes.Buffer
		if err := boardText(&w, b, false); err != nil {
			t.Fatal(err)
		}
		return w.String()
	}
	if s := show(); !strings.Contains(s, "GPU h   kWh  kg CO2e  collapsed") || !strings.Contains(s, "2.00  0.50     0.08") || !strings.Contains(s, "kWh: for 25 % of the GPU hours not measured, but the runs' estimate times the time") || strings.Contains(s, "price") {
		t.Errorf("without a price\n%s", s)
	}
	b.Rates = results.Rates{WattsPerGPU: 400, PricePerGPUHour: 2.5}
	if s := show(); !strings.Contains(s, "kg CO2e  price") || !strings.Contains(s, "0.08   5.00") || !strings.Contains(s, "but 400 W times") {
		t.Errorf("with a price\n%s", s)
	}
	var w bytes.Buffer
	if err := boardCSV(&w, b); err != nil || !strings.Contains(w.String(), ",2.0000,0.5000,0.5000,0.0800,5.0000\n") || !strings.Contains(w.String(), ",0.0000,0.0000,0.0000,0.0000,0.0000\n") {
		t.Errorf("%v\n%s", err, w.String())
	}
	b.Models = b.Models[1:]
	if s := show(); strings.Contains(s, "GPU") || strings.Contains(s, "kWh") {
		t.Errorf("without GPUs\n%s", s)
	}
}

// A forecast's energy is that which finished jobs took, as far as it was measured.
func TestForecastEnergy(t *testing.T) {
	ended := func(seed int, seconds, joules float64, source string) runner.Planned {
		return runner.Planned{Done: true, Spec: job.Spec{Model: "m", Seed: seed}, Outcome: job.Outcome{GPUs: []string{"GPU-0"}, GPUShare: .5, TrainerOutcome: job.TrainerOutcome{
			State: job.OK, Device: "cuda", Seconds: map[string]float64{"train": seconds}, Energy: &job.Energy{Joules: joules, Source: source}}}}
	}
	s := &sweep{options: runOptions{batch: "seed", cost: costOptions{watts: 100, carbon: .5, price: 2}}}
	// 3600 GPU s: 1800 at 600 W, measured, and 1800 at the 100 W of now.
	_, total := s.forecasts([]runner.Planned{
		ended(1, 3600, 1800*600, job.EnergyNVML), ended(2, 3600, 1800*250, job.EnergyEstimate),
		{Spec: job.Spec{Model: "m", Seed: 3}, Expected: 7200},
	}, 1)
	if total.Hours != 2 || total.GPUHrs != 1 || math.Abs(total.KWh-.35) > 1e-12 || math.Abs(total.CO2eKg-.175) > 1e-12 || total.Price != 2 {
		t.Errorf("%+v, want half of 2 hours at 350 W", total)
	}
}
