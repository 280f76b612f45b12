package web

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/stats"
)

// What is said of t and p in the page equals scipy:
//
//	scipy.stats.ttest_rel([1, 2, 3, 4, 6], [0, 2, 1, 3, 3]).pvalue = 0.052 (t = 2.7456…)
func TestPairedTest(t *testing.T) {
	// d = 1, 0, 2, 1, 3: mean 1.4, sd √1.3, t = 1.4/(√1.3/√5) = 2.7456, p(4 df) = 0.0516
	ctx := browser(t)
	b := made(t, 3, 14)
	for i, scores := range [][]float64{{1, 2, 3, 4, 6}, {0, 2, 1, 3, 3}} {
		cell := b.Models[i].Datasets["dane"]
		var values []scoring.Value
		for _, x := range scores {
			values = append(values, scoring.Num(x))
		}
		cell.Scores["micro_f1"] = values
		for name := range b.Models[i].Datasets {
			if name != "dane" {
				delete(b.Models[i].Datasets, name)
			}
		}
	}
	page := address(write(t, b, Options{}))
	do(t, ctx, chromedp.Navigate(page+"#compare=org%2Fmodel-000,org%2Fmodel-001"), chromedp.WaitVisible("main td"))
	if got := look[[]string](t, ctx, `[...document.querySelectorAll("main tbody td")].map((t) => t.textContent).slice(2, 4)`); got[0] != "+1.40 ± 1.42" || got[1] != "0.052" {
		t.Errorf("difference and p: %q", got)
	}
}

// The overall difference in the page is that of package stats: the weighted sum of
// the differences of seeds, with Welch's and Satterthwaite's degrees of freedom.
func TestOverallDifference(t *testing.T) {
	ctx := browser(t)
	b := made(t, 40, 18) // the first two are 1.25 points apart
	var weights []float64
	var parts []stats.Estimate
	for _, d := range b.Datasets {
		metric := b.Tasks[slices.IndexFunc(b.Tasks, func(x leaderboard.TaskInfo) bool { return x.Name == d.Task })].Metrics[0].Name
		var differences []float64
		for i, x := range b.Models[0].Datasets[d.Name].Scores[metric] {
			differences = append(differences, x.X-b.Models[1].Datasets[d.Name].Scores[metric][i].X)
		}
		weights, parts = append(weights, d.Weight), append(parts, stats.Of(differences))
	}
	want := stats.Combine(weights, parts)
	half, _ := want.HalfWidth()
	keys := url.QueryEscape(b.Models[0].Model) + "," + url.QueryEscape(b.Models[1].Model)
	do(t, ctx, chromedp.Navigate(address(write(t, b, Options{}))+"#compare="+keys), chromedp.WaitVisible("tr.main"))
	p := fmt.Sprintf("%.3f", want.P())
	if want.P() < 0.001 {
		p = "< 0.001"
	}
	if got := look[[]string](t, ctx, `[...document.querySelectorAll("tr.main td")].map((td) => td.textContent).slice(2, 4)`); got[0] != fmt.Sprintf("+%.2f ± %.2f", want.Mean, half) || got[1] != p {
		t.Errorf("the page says %q, want %+v ± %.4f, p %s", got, want, half, p)
	}
}
