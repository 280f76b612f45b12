package results

import "cmp"

// Energy is what the GPUs of one replicate used, and how it is known.
type Energy struct {
	Joules float64 `json:"joules"`
	// Source is nvml (the GPU's own counter), power (its power, sampled),
	// estimate (a power that is assumed, times GPU seconds) or none (no GPU was
	// used; what the processor took is not measured).
	Source string `json:"source"`
}

// sourceEstimate is the Source of energy that was not measured.
const sourceEstimate = "estimate"

// What the paper assumes: the power of one GPU with its share of the machine,
// and what a kilowatt hour emits.
const (
	WattsPerGPU  = 250
	CO2eKgPerKWh = 0.16
)

// PaperRates counts as the paper does, with the energy that was measured where
// it was.
var PaperRates = Rates{CO2eKgPerKWh: CO2eKgPerKWh}

// Usage is what trainings took. Usages can be added.
type Usage struct {
	WallSeconds float64 `json:"wall_seconds"`
	GPUSeconds  float64 `json:"gpu_seconds"`
	Joules      float64 `json:"joules"` // of the GPUs, with estimates as they were made
	// Those of GPUSeconds whose energy was not measured, and the part of Joules
	// that was put in for it.
	EstimatedSeconds float64 `json:"estimated_gpu_seconds,omitempty"`
	EstimatedJoules  float64 `json:"estimated_joules,omitempty"`
}

// NewUsage is the usage of one training. A nil energy is that of an old record,
// and estimated as the paper does.
func NewUsage(wall, gpuSeconds float64, e *Energy) Usage {
	u := Usage{WallSeconds: wall, GPUSeconds: gpuSeconds}
	switch {
	case gpuSeconds <= 0:
	case e == nil || e.Source == sourceEstimate:
		joules := WattsPerGPU * gpuSeconds
		if e != nil {
			joules = e.Joules
		}
		u.Joules, u.EstimatedJoules, u.EstimatedSeconds = joules, joules, gpuSeconds
	default:
		u.Joules = e.Joules
	}
	return u
}

// Add adds v to u.
func (u *Usage) Add(v Usage) {
	u.WallSeconds += v.WallSeconds
	u.GPUSeconds += v.GPUSeconds
	u.Joules += v.Joules
	u.EstimatedSeconds += v.EstimatedSeconds
	u.EstimatedJoules += v.EstimatedJoules
}

// Times is f times u, for what is still to come at the same rate.
func (u Usage) Times(f float64) Usage {
	return Usage{f * u.WallSeconds, f * u.GPUSeconds, f * u.Joules, f * u.EstimatedSeconds, f * u.EstimatedJoules}
}

// Usage is what the replicate took: its seconds and, on cuda, these times the
// GPUs and its share of them.
func (p Replicate) Usage() Usage {
	wall, gpu := p.Seconds.Total(), 0.0
	if p.Device == "cuda" {
		gpu = wall * float64(max(1, p.GPUs)) * cmp.Or(p.GPUShare, 1)
	}
	return NewUsage(wall, gpu, p.Energy)
}

func (p Replicate) energySource() string {
	if p.Energy == nil {
		return sourceEstimate
	}
	return p.Energy.Source
}

// Rates turn usage into energy, emission and money.
type Rates struct {
	WattsPerGPU     float64 `json:"watts_per_gpu,omitempty"` // where it was not measured; 0: as estimated when the job ended
	CO2eKgPerKWh    float64 `json:"co2e_kg_per_kwh"`
	PricePerGPUHour float64 `json:"price_per_gpu_hour,omitempty"` // in any currency; 0: not said
}

// Cost is what usage costs.
type Cost struct {
	GPUHours float64
	KWh      float64
	CO2eKg   float64
	Price    float64
}

// Cost is what u costs:
//
//	kWh = (J measured + W × s estimated) / 3.6e6, kg = kWh × rate, price = GPU hours × rate
func (r Rates) Cost(u Usage) Cost {
	joules := u.Joules
	if r.WattsPerGPU > 0 {
		joules += r.WattsPerGPU*u.EstimatedSeconds - u.EstimatedJoules
	}
	c := Cost{GPUHours: u.GPUSeconds / 3600, KWh: joules / 3.6e6}
	c.CO2eKg, c.Price = c.KWh*r.CO2eKgPerKWh, c.GPUHours*r.PricePerGPUHour
	return c
}
