package leaderboard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/results"
	"bench/scoring/results/scandeval"
	"bench/scoring/stats"
	"bench/scoring/transfer"
)

var tasks = []leaderboard.Task{
	{Name: "ner", Metrics: []scoring.Metric{{Name: "micro_f1", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "micro_f1_no_misc", Hi: 1, Scale: 100}}},
	{Name: "sentiment", Metrics: []scoring.Metric{{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "macro_f1", Hi: 1, Scale: 100}}},
	{Name: "acceptability", Metrics: []scoring.Metric{{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "macro_f1", Hi: 1, Scale: 100}}},
	{Name: "qa", Metrics: []scoring.Metric{{Name: "em", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "f1", Hi: 1, Scale: 100}}},
	{Name: "speed", Metrics: []scoring.Metric{{Name: "inferences_per_second", Hi: math.Inf(1), Scale: 1}}},
}

// golden are the records of the paper's leaderboard.
var golden = sync.OnceValues(func() ([]results.Record, error) {
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "golden", "leaderboard", "scandeval-2023-results.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	im, err := scandeval.NewImporter(nil, nil)
	if err != nil {
		return nil, err
	}
	if err := im.Read("golden", f); err != nil {
		return nil, err
	}
	kept, _ := results.Newest(im.Records())
	return kept, nil
})

func paper(t testing.TB) []results.Record {
	t.Helper()
	recs, err := golden()
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return recs
}

func build(t testing.TB, recs []results.Record, o leaderboard.Options) *leaderboard.Board {
	t.Helper()
	o.Tasks = tasks
	b, err := leaderboard.Build(recs, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encode(t testing.TB, b *leaderboard.Board) []byte {
	t.Helper()
	out, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPaper: the ranking of the paper's own records. The means are those of the
// issue and of the golden file's project; the half-widths of LB23.
func TestPaper(t *testing.T) {
	b := build(t, paper(t), leaderboard.Options{Columns: leaderboard.Mainland(), Errors: leaderboard.ErrorsMean})
	if len(b.Models) != 113 {
		t.Errorf("%d models have all 14 data sets, want 113", len(b.Models))
	}
	row := map[string]leaderboard.Row{}
	for _, r := range b.Models {
		row[r.Model] = r
	}
	for model, want := range map[string]float64{
		"NbAiLab/nb-bert-large": 67.97, "chcaa/dfm-encoder-large-v1": 64.96, "google/rembert": 64.70, "microsoft/mdeberta-v3-base": 64.35, "NbAiLab/nb-roberta-base-scandi": 63.95,
	} {
		if got := row[model].Overall.Value.X; math.Abs(got-want) > .005 {
			t.Errorf("%s: %.4f, want %.2f", model, got, want)
		}
	}
	for model, want := range map[string]float64{
		"chcaa/dfm-encoder-large-v1": 66.17, "ltg/norbert3-large": 64.40, "NbAiLab/nb-bert-large": 64.39, "vesteinn/DanskBERT": 63.87, "google/rembert": 63.41,
	} {
		if got := row[model].ByLanguage["da"].Value.X; math.Abs(got-want) > .005 {
			t.Errorf("%s in Danish: %.4f, want %.2f", model, got, want)
		}
	}
	danish := build(t, paper(t), leaderboard.Options{Columns: leaderboard.Mainland(), Filters: leaderboard.Filters{Languages: []string{"da"}}})
	var top []string
	for _, r := range danish.Models[:5] {
		top = append(top, r.Model)
	}
	if want := []string{"chcaa/dfm-encoder-large-v1", "ltg/norbert3-large", "NbAiLab/nb-bert-large", "vesteinn/DanskBERT", "google/rembert"}; !slices.Equal(top, want) {
		t.Errorf("Danish top five: %v", top)
	}
	// facts §5.3: NbAiLab/nb-bert-large on the Danish data sets, ±: 0.67 1.23 2.15 1.12.
	if got, want := row["NbAiLab/nb-bert-large"].ByLanguage["da"].HalfWidth.X, (0.67+1.23+2.15+1.12)/4; math.Abs(got-want) > .01 {
		t.Errorf("mean of half-widths %.4f, want %.4f", got, want)
	}
	// facts §0.9: xlm-roberta-base on scala-nn.
	x := row["xlm-roberta-base"].Datasets["scala-nn"]
	if !slices.Equal(x.Collapsed, []int{4243, 4244}) {
		t.Errorf("collapsed seeds %v", x.Collapsed)
	}
	if m := x.Metrics["mcc"]; m.Median.X < 49 || math.Abs(m.Mean.X-36.19) > .005 {
		t.Errorf("mean %v, median %v", m.Mean, m.Median)
	}
	if len(b.Unranked) == 0 || len(b.Unranked[0].Missing) == 0 {
		t.Error("no incomplete models")
	}
}

// TestPropagated: the error of an aggregate follows from those of its parts.
func TestPropagated(t *testing.T) {
	b := build(t, paper(t), leaderboard.Options{Columns: leaderboard.Mainland(), Filters: leaderboard.Filters{Models: []string{"NbAiLab/nb-bert-large", "google/*"}}})
	r := b.Models[0]
	variance, norwegian := 0.0, 0.0
	for _, d := range b.Datasets {
		if !d.Ranked {
			continue
		}
		var x []float64
		for _, v := range r.Datasets[d.Name].Scores[metric(d.Task)] {
			x = append(x, v.X)
		}
		se := stats.SD(x) / math.Sqrt(10)
		variance += d.Weight * d.Weight * se * se
		if d.Name == "norne-nn" {
			norwegian = d.Weight
		}
	}
	if got := r.Overall.SE.X; math.Abs(got-math.Sqrt(variance)) > 1e-12 {
		t.Errorf("SE %v, want %v", got, math.Sqrt(variance))
	}
	if want := 1.0 / 3 / 4 / 2; norwegian != want {
		t.Errorf("norne-nn weighs %v, want %v", norwegian, want)
	}
	if r.Overall.HalfWidth.X >= 1.2 || r.Overall.DF < 20 {
		t.Errorf("half-width %v with %v degrees of freedom", r.Overall.HalfWidth, r.Overall.DF)
	}
}

func metric(task string) string {
	for _, t := range tasks {
		if t.Name == task {
			return t.Metrics[0].Name
		}
	}
	return ""
}

// TestRankScore: the successor's rank score, against its definition.
func TestRankScore(t *testing.T) {
	b := build(t, paper(t), leaderboard.Options{Columns: leaderboard.Mainland(), Score: leaderboard.ScoreRank})
	if b.Models[0].Overall.Value.X < 1 || b.Models[0].Overall.Value.X >= b.Models[1].Overall.Value.X {
		t.Errorf("the lower, the better: %v, %v", b.Models[0].Overall.Value, b.Models[1].Overall.Value)
	}
	best, sum, squares, n := 0.0, 0.0, 0.0, 0.0
	for _, r := range b.Models {
		best = max(best, r.Datasets["swerec"].Metrics["mcc"].Mean.X)
		for _, v := range r.Datasets["swerec"].Scores["mcc"] {
			sum, squares, n = sum+v.X, squares+v.X*v.X, n+1
		}
	}
	sd := math.Sqrt(squares/n - sum/n*sum/n)
	for _, r := range b.Models[:20] {
		if got, want := r.ByCell["sv/sentiment"].Value.X, 1+(best-r.Datasets["swerec"].Metrics["mcc"].Mean.X)/sd; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", r.Model, got, want)
		}
	}
}

// TestBootstrap: the successor's intervals are those of the seeds, but for cells
// with several data sets.
func TestBootstrap(t *testing.T) {
	o := leaderboard.Options{Columns: leaderboard.Mainland(), Errors: leaderboard.ErrorsBootstrap, Filters: leaderboard.Filters{Models: []string{"google/*", "NbAiLab/*"}}}
	boot := build(t, paper(t), o)
	o.Errors = leaderboard.ErrorsPropagated
	plain := map[string]leaderboard.Row{}
	for _, r := range build(t, paper(t), o).Models {
		plain[r.Model] = r
	}
	wider := 0
	for _, r := range boot.Models {
		want := plain[r.Model]
		// A bootstrap of ten has the variance s²·9/10 for s².
		if got, was := r.ByLanguage["da"], want.ByLanguage["da"]; math.Abs(got.SE.X/was.SE.X-math.Sqrt(.9)) > .1 || math.Abs(got.Value.X-was.Value.X) > .3*was.SE.X {
			t.Errorf("%s in Danish: %v, propagated %v", r.Model, got, was)
		}
		if r.ByCell["no/ner"].SE.X > 1.2*want.ByCell["no/ner"].SE.X {
			wider++
		}
	}
	if wider < len(boot.Models)/2 {
		t.Errorf("in Norwegian NER two data sets add spread to %d of %d models", wider, len(boot.Models))
	}
	for i := range boot.Models[1:] {
		if boot.Models[i].Overall.Value.X < boot.Models[i+1].Overall.Value.X {
			t.Error("not in order")
		}
	}
}

func TestRankIntervals(t *testing.T) {
	b := build(t, paper(t), leaderboard.Options{Columns: leaderboard.Mainland()})
	// The two first are 0.3 points apart, the third is 3 points behind.
	if top := b.Models; *top[0].Rank != (stats.Ranks{Lo: 1, Hi: 2}) || *top[1].Rank != *top[0].Rank || top[2].Rank.Lo != 3 {
		t.Errorf("ranks %v, %v, %v", top[0].Rank, top[1].Rank, top[2].Rank)
	}
	for i, r := range b.Models {
		if r.Position != i+1 || r.Rank.Lo > i+1 || r.Rank.Hi < i+1 {
			t.Errorf("%s: position %d, ranks %v", r.Model, r.Position, r.Rank)
		}
	}
}

func rec(model, dataset, task, protocol string, scores ...float64) results.Record {
	r := results.Record{
		Bench: "v1", Finished: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Model: results.Model{ID: model, Kind: "hub", Parameters: 1e6},
		Dataset: results.Dataset{Name: dataset, Task: task, Languages: []string{"da"}, Digest: "d", TaskVersion: 1}, Protocol: protocol,
	}
	for i, x := range scores {
		r.Replicates = append(r.Replicates, results.Replicate{Seed: 4242 + i, Scores: scoring.Scores{metric(task): scoring.Num(x)}, Device: "cuda", GPUs: 1, Seconds: results.Seconds{Train: 60}})
	}
	for _, t := range tasks {
		if t.Name == task {
			r.Summarize(t.Metrics)
		}
	}
	return r
}

func TestNothingIsMixed(t *testing.T) {
	partial, other := rec("m", "dane", "ner", "paper", .5, .6), rec("o", "dane", "ner", "paper", .9, .9)
	partial.Dataset.Partial, partial.Dataset.Digest = true, "p"
	partial.Model.ID = "p"
	other.Dataset.Digest = "other"
	recs := []results.Record{
		rec("m", "dane", "ner", "paper", .5, .6), rec("n", "dane", "ner", "paper", .7, .8), rec("m", "scala-da", "acceptability", "paper", .5, .6),
		rec("n", "scala-da", "acceptability", "paper", .1, .2), rec("m", "dane", "ner", "smoke", .9, .9), partial, other,
		rec("m", "speed", "speed", "paper", 10, 12), rec("half", "dane", "ner", "paper", .9),
	}
	b := build(t, recs, leaderboard.Options{})
	var models []string
	for _, r := range b.Models {
		models = append(models, r.Model)
	}
	if !slices.Equal(models, []string{"m", "n"}) || b.Mixed || !slices.Equal(b.Protocols, []string{"paper"}) {
		t.Errorf("%v of %v", models, b.Protocols)
	}
	if len(b.Unranked) != 1 || b.Unranked[0].Model != "half" || !slices.Equal(b.Unranked[0].Missing, []string{"scala-da"}) {
		t.Errorf("incomplete: %+v", b.Unranked)
	}
	if _, ok := b.Models[0].Datasets["speed"]; !ok {
		t.Error("speed is not shown")
	}
	var left []string
	for _, l := range b.LeftOut {
		left = append(left, fmt.Sprintf("%s: %d %v", l.Reason, l.Records, l.Models))
	}
	if want := []string{"another build of the data set: dane: 1 [o]", "another protocol: smoke: 1 [m]", "partial data sets: 1 [p]"}; !slices.Equal(left, want) {
		t.Errorf("left out: %q", left)
	}
	mixed := build(t, recs, leaderboard.Options{Protocols: []string{"paper", "smoke"}, Filters: leaderboard.Filters{Datasets: []string{"dane"}}})
	if !mixed.Mixed || len(mixed.Models) != 4 || !strings.Contains(fmt.Sprint(mixed.Notes), "not the same quantity") {
		t.Errorf("%d models, notes %q", len(mixed.Models), mixed.Notes)
	}
	if r := b.Models[0].Datasets["dane"].Runs; len(r) != 2 || r[0].Seconds != 60 || b.Models[0].GPUSeconds == 0 {
		t.Errorf("runs %v", r)
	}
}

// What cannot be ranked is not kept quiet about.
func TestOtherTasks(t *testing.T) {
	b := build(t, []results.Record{rec("m", "dane", "ner", "paper", .5, .6), rec("m", "news", "summarization", "paper", .5, .6), rec("n", "dane", "ner", "paper", .5, .7)}, leaderboard.Options{})
	if len(b.Models) != 2 || !slices.ContainsFunc(b.Notes, func(n string) bool { return strings.Contains(n, "metrics: news (summarization)") }) {
		t.Errorf("%d models, notes %q", len(b.Models), b.Notes)
	}
}

// What models cost, at the rates asked for; energy that was measured is what it
// is at any rate.
func TestCosts(t *testing.T) {
	a, b := rec("m", "dane", "ner", "paper", .5, .6), rec("m", "scala-da", "acceptability", "paper", .5, .6)
	for _, r := range []results.Record{a, b} {
		for i := range r.Replicates {
			r.Replicates[i].Device, r.Replicates[i].GPUs, r.Replicates[i].Seconds = "cuda", 1, results.Seconds{Train: 1800}
		}
	}
	a.Replicates[0].Energy = &results.Energy{Joules: 3.6e6, Source: "nvml"}
	// Four half hours: one measured at 1 kWh, three at 250 W.
	m := build(t, []results.Record{a, b}, leaderboard.Options{}).Models[0]
	if math.Abs(m.EnergyKWh-1.375) > 1e-12 || math.Abs(m.CO2eKg-.22) > 1e-12 || m.Price != 0 || m.GPUSeconds != 7200 || m.EstimatedGPUSeconds != 5400 {
		t.Errorf("as the paper counts: %v kWh, %v kg, price %v, %v and %v GPU s", m.EnergyKWh, m.CO2eKg, m.Price, m.GPUSeconds, m.EstimatedGPUSeconds)
	}
	// 1 kWh + 1.5 h × 1000 W; 2 h at 3 an hour
	board := build(t, []results.Record{a, b}, leaderboard.Options{Rates: &results.Rates{WattsPerGPU: 1000, CO2eKgPerKWh: .5, PricePerGPUHour: 3}})
	m = board.Models[0]
	if math.Abs(m.EnergyKWh-2.5) > 1e-12 || math.Abs(m.CO2eKg-1.25) > 1e-12 || math.Abs(m.Price-6) > 1e-12 || board.Rates.WattsPerGPU != 1000 {
		t.Errorf("at other rates: %v kWh, %v kg, price %v, %+v", m.EnergyKWh, m.CO2eKg, m.Price, board.Rates)
	}
	if c := m.Datasets["dane"]; c.GPUSeconds != 3600 || c.EstimatedGPUSeconds != 1800 || math.Abs(c.EnergyKWh-1.5) > 1e-12 {
		t.Errorf("on one data set: %+v", c)
	}
}

func TestFilters(t *testing.T) {
	small, old := rec("small", "dane", "ner", "paper", .5, .6), rec("old", "dane", "ner", "paper", .5, .6)
	small.Model.Parameters = 10
	old.Finished = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	before, after := rec("a/b", "dane", "ner", "paper", .5, .6), rec("a/b", "scala-da", "acceptability", "smoke", .5, .6)
	after.Model.Licence = "mit" // of another record of the same model
	two := rec("a/c", "dane", "ner", "paper", .5, .6)
	two.Model.Licence = "apache-2.0, cc-by-4.0"
	recs := []results.Record{before, after, small, old, two}
	for name, c := range map[string]struct {
		f    leaderboard.Filters
		want string
	}{
		"all":      {leaderboard.Filters{}, "[a/b a/c old small]"},
		"large":    {leaderboard.Filters{MinParameters: 100}, "[a/b a/c old]"},
		"small":    {leaderboard.Filters{MaxParameters: 100}, "[small]"},
		"new":      {leaderboard.Filters{Since: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}, "[a/b a/c small]"},
		"until":    {leaderboard.Filters{Until: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}, "[old]"},
		"licences": {leaderboard.Filters{Licences: []string{"MIT", "cc-*"}}, "[a/b a/c]"},
		"unknown":  {leaderboard.Filters{Licences: []string{"unknown"}}, "[old small]"},
		"names":    {leaderboard.Filters{Models: []string{"a/*"}, Exclude: []string{"*/c"}}, "[a/b]"},
	} {
		b := build(t, recs, leaderboard.Options{Filters: c.f, Protocols: []string{"paper"}, Columns: leaderboard.Mainland()[:1]})
		var got []string
		for _, r := range b.Models {
			got = append(got, r.Model)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	for _, o := range []leaderboard.Options{{Score: "x"}, {Errors: "x"}, {Filters: leaderboard.Filters{Models: []string{"["}}}, {Filters: leaderboard.Filters{Languages: []string{"xx"}}}} {
		o.Tasks = tasks
		if _, err := leaderboard.Build(recs, o); !errors.As(err, new(*leaderboard.OptionError)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestDeterministic: the order of the records changes nothing.
func TestDeterministic(t *testing.T) {
	recs := []results.Record{}
	for i, m := range []string{"x", "y", "z"} {
		recs = append(recs, rec(m, "dane", "ner", "paper", .5, .6, .55), rec(m, "scala-da", "acceptability", "paper", .5, .6+float64(i)/10, .01))
	}
	want := encode(t, build(t, recs, leaderboard.Options{}))
	rapid.Check(t, func(rt *rapid.T) {
		if got := encode(t, build(t, rapid.Permutation(recs).Draw(rt, "records"), leaderboard.Options{})); !bytes.Equal(got, want) {
			t.Fatalf("%s\n%s", got, want)
		}
	})
}

// TestWorkers: the real board, with its table of transfer, is the same bytes on
// one processor as on many.
func TestWorkers(t *testing.T) {
	recs := paper(t)
	whole := func() []byte {
		b := build(t, recs, leaderboard.Options{Columns: slices.Concat(leaderboard.Mainland(), leaderboard.Insular()), Errors: leaderboard.ErrorsBootstrap})
		table := b.TransferOf(transfer.Paper())
		b.Transfer = &table
		return encode(t, b)
	}
	many := whole()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if !bytes.Equal(many, whole()) {
		t.Error("the board depends on the number of processors")
	}
}

// TestSchema: what is written is what docs/leaderboard.schema.json says.
func TestSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	schema, err := c.Compile(filepath.Join("..", "..", "docs", "leaderboard.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	failed := rec("f", "dane", "ner", "paper", .5, .01, .7)
	failed.Failures = []results.Failure{{Seed: 1, Job: "j", Failure: "oom", Message: "m"}}
	failed.Replicates[0].Scores["micro_f1"] = scoring.Value{Undefined: "why"}
	failed.Summarize(tasks[0].Metrics)
	one := []results.Record{failed, rec("g", "dane", "ner", "paper", .5), rec("g", "scala-da", "acceptability", "paper", .5)}
	boards := []*leaderboard.Board{build(t, one, leaderboard.Options{}), build(t, one, leaderboard.Options{Filters: leaderboard.Filters{Datasets: []string{"dane"}, MinParameters: 1, Since: time.Unix(0, 0)}})}
	if recs, err := golden(); err == nil {
		boards = append(boards, build(t, recs, leaderboard.Options{Columns: slices.Concat(leaderboard.Mainland(), leaderboard.Insular())}), build(t, recs, leaderboard.Options{Columns: leaderboard.Mainland(), Score: "rank", Errors: "mean"}), build(t, recs, leaderboard.Options{Columns: leaderboard.Insular(), Errors: "bootstrap"}), build(t, recs, leaderboard.Options{Columns: leaderboard.Mainland(), Ranks: leaderboard.RanksEuroEval}))
	}
	table := leaderboard.OfTable(&transfer.Table{Models: []string{"da", "sv", "en"}, Columns: []string{"da", "sv"}, Scores: [][]float64{{60, 50}, {49, 61}, {40, 41}}})
	boards[0].Transfer = &table
	gaps := boards[1].TransferOf([]transfer.Representative{{Language: "da", Model: "g"}, {Language: "sv", Model: "none"}})
	boards[1].Transfer = &gaps
	for i, b := range boards {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(encode(t, b)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("board %d: %v", i, err)
		}
	}
}
