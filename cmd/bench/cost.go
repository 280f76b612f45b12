package main

import (
	"fmt"

	"bench/scoring/results"

	"github.com/spf13/pflag"
)

// costOptions say what time on GPUs and energy cost.
type costOptions struct {
	watts  float64 // of a GPU whose energy is not measured
	carbon float64 // kg CO2e a kWh
	price  float64 // of a GPU hour, in any currency; 0: not said
}

// paperCost counts as the paper does.
func paperCost() costOptions {
	return costOptions{watts: results.WattsPerGPU, carbon: results.CO2eKgPerKWh}
}

func (c *costOptions) addFlags(f *pflag.FlagSet) {
	*c = paperCost()
	f.Float64Var(&c.watts, "watts-per-gpu", c.watts, "power of a GPU, where its energy cannot be measured")
	f.Float64Var(&c.carbon, "carbon", c.carbon, "kg CO2e that a kilowatt hour emits")
	f.Float64Var(&c.price, "price", 0, "price of a GPU hour, in any currency")
}

func (c costOptions) validate() error {
	if !(c.watts > 0 && c.watts <= 1e5) || !(c.carbon >= 0 && c.carbon <= 1e3) || !(c.price >= 0 && c.price <= 1e9) {
		return usage("--watts-per-gpu 250 --carbon 0.16 --price 2.50", "--watts-per-gpu, --carbon and --price are a power in W, kg CO2e a kWh and the price of a GPU hour; not %g, %g and %g", c.watts, c.carbon, c.price)
	}
	return nil
}

// rates count the energy of each job as it was recorded.
func (c costOptions) rates() results.Rates {
	return results.Rates{CO2eKgPerKWh: c.carbon, PricePerGPUHour: c.price}
}

// usedLine says what jobs took, for people.
func (c costOptions) usedLine(u results.Usage) string {
	if u.GPUSeconds == 0 {
		return "no GPU; what the processor took is not measured"
	}
	cost := c.rates().Cost(u)
	s := fmt.Sprintf("%s GPU hours, %s kWh", amount(cost.GPUHours), amount(cost.KWh))
	switch u.EstimatedSeconds {
	case 0:
	case u.GPUSeconds:
		s += " (estimated)"
	default:
		s += fmt.Sprintf(" (%.0f %% of the time estimated)", 100*u.EstimatedSeconds/u.GPUSeconds)
	}
	s += fmt.Sprintf(", %s kg CO2e", amount(cost.CO2eKg))
	if c.price > 0 {
		s += fmt.Sprintf(", price %.2f", cost.Price)
	}
	return s
}

// amount shows a number that may be small.
func amount(x float64) string {
	if x != 0 && x < 0.1 {
		return fmt.Sprintf("%.2g", x)
	}
	return fmt.Sprintf("%.2f", x)
}
