package main

import (
	"testing"

	"bench/scoring/results"
)

func TestUsedLine(t *testing.T) {
	paper := paperCost()
	paid := costOptions{watts: 700, carbon: 0.5, price: 2.5}
	for _, c := range []struct {
		c    costOptions
		u    results.Usage
		want string
	}{
		{paper, results.Usage{WallSeconds: 100}, "no GPU was used; what the processor took is not measured"},
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
