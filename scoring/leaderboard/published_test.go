package leaderboard_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"bench/scoring"
	"bench/scoring/leaderboard"
)

// published are cells of the reference system's leaderboard of 2023, mean ±
// 1.96 standard errors of the ranked metric: facts/scandeval.md §5.3 (table of
// reproduction targets) of the reference material.
var published = map[string][]string{
	"":                             {"dane", "angry-tweets", "scala-da", "scandiqa-da", "norne-nb", "norne-nn", "norec", "scala-nb", "scala-nn", "scandiqa-no", "suc3", "swerec", "scala-sv", "scandiqa-sv"},
	"NbAiLab/nb-bert-large":        strings.Fields("81.83±0.67 49.07±1.23 72.02±2.15 54.66±1.12 87.09±1.01 83.06±1.22 63.40±1.38 78.43±1.47 79.59±1.72 53.42±1.53 72.77±1.11 75.86±1.35 74.75±0.75 53.78±1.16"),
	"microsoft/mdeberta-v3-base":   strings.Fields("83.31±1.00 43.38±3.20 67.05±1.41 50.91±1.30 89.55±0.57 83.46±1.68 53.69±4.28 70.55±1.64 61.21±1.20 50.15±1.28 72.86±2.04 75.24±0.99 72.30±1.04 50.91±1.27"),
	"vesteinn/DanskBERT":           strings.Fields("81.82±0.83 52.86±1.08 75.20±1.73 45.61±1.39 84.15±0.59 76.65±1.46 47.84±2.44 51.99±11.45 30.57±8.63 45.44±1.40 67.15±0.85 67.77±1.19 33.79±7.61 39.61±1.14"),
	"KB/bert-base-swedish-cased":   strings.Fields("78.99±0.83 33.28±1.65 33.15±7.14 37.84±2.23 83.05±1.29 76.00±2.01 38.70±2.53 39.13±2.97 24.13±6.88 39.41±1.54 76.66±1.60 75.58±1.17 78.86±0.83 46.05±1.99"),
	"xlm-roberta-base":             strings.Fields("83.21±0.69 47.00±2.24 62.44±2.23 42.40±2.03 87.15±0.66 78.22±3.18 53.23±2.59 66.60±2.68 36.19±15.09 41.41±2.97 71.92±1.86 73.38±2.23 62.55±9.85 42.61±2.73"),
	"bert-base-multilingual-cased": strings.Fields("80.24±1.75 32.38±1.72 27.93±11.48 47.87±1.91 85.49±0.92 79.36±1.38 35.87±1.85 44.22±3.29 39.55±7.01 47.67±1.66 70.33±1.16 61.78±1.21 47.74±7.69 46.94±1.72"),
	"fresh-xlmr-base":              strings.Fields("19.31±2.87 17.37±3.82 1.34±0.97 4.68±1.62 23.54±3.23 24.10±1.64 12.60±2.97 0.50±1.27 1.83±1.64 4.42±1.48 11.31±2.90 51.11±5.32 0.86±0.82 8.30±2.28"),
	"fresh-electra-small":          strings.Fields("15.26±0.99 18.61±4.17 0.30±1.39 0.01±0.02 17.08±1.97 11.65±1.21 15.29±5.37 0.17±0.84 0.37±0.69 0.09±0.11 9.71±1.00 55.54±2.75 -0.15±0.52 0.22±0.22"),
}

// insular likewise: mim-gold-ner, scala-is, wikiann-fo, scala-fo; of some rows
// the facts have no half-widths.
var insular = map[string][]string{
	"":                   {"mim-gold-ner", "scala-is", "wikiann-fo", "scala-fo"},
	"mideind/IceBERT":    strings.Fields("81.56±1.07 60.44±1.93 86.38±0.96 10.13±8.55"),
	"vesteinn/DanskBERT": strings.Fields("60.81 -0.03 86.04 4.48"),
	"roberta-base":       strings.Fields("55.70 1.07 82.68 -1.18"),
}

func TestPublishedCells(t *testing.T) {
	for _, table := range []struct {
		cells   map[string][]string
		columns []leaderboard.Column
	}{{published, leaderboard.Mainland()}, {insular, leaderboard.Insular()}} {
		rows := map[string]leaderboard.Row{}
		b := build(t, paper(t), leaderboard.Options{Columns: table.columns})
		for _, r := range slices.Concat(b.Models, b.Unranked) {
			rows[r.Model] = r
		}
		task := map[string]string{}
		for _, c := range table.columns {
			task[c.Name] = c.Task
		}
		for model, cells := range table.cells {
			for i, want := range cells {
				if model == "" {
					continue
				}
				set := table.cells[""][i]
				m := rows[model].Datasets[set].Metrics[metric(task[set])]
				got := fmt.Sprintf("%.2f", m.Mean.X)
				if strings.Contains(want, "±") {
					got += fmt.Sprintf("±%.2f", m.HalfWidthZ.X)
				}
				if got != want {
					t.Errorf("%s on %s: %s, want %s", model, set, got, want)
				}
			}
		}
	}
}

// TestEuroEvalRanks: the successor's board, of the records of 2023.
func TestEuroEvalRanks(t *testing.T) {
	b := build(t, paper(t), leaderboard.Options{Columns: leaderboard.Mainland(), Ranks: leaderboard.RanksEuroEval})
	if b.Score != leaderboard.ScoreRank || b.Errors != leaderboard.ErrorsBootstrap || len(b.Models) != 113 {
		t.Fatalf("score %s, errors %s, %d models", b.Score, b.Errors, len(b.Models))
	}
	last := 1
	for i, r := range b.Models {
		if r.Rank.Lo != r.Rank.Hi || r.Rank.Lo != last && r.Rank.Lo != last+1 || i == 0 && r.Rank.Lo != 1 {
			t.Fatalf("%s has the rank %v after %d", r.Model, *r.Rank, last)
		}
		last = r.Rank.Lo
	}
	if last < 20 || last > 60 { // docs/statistics.md: 35
		t.Errorf("%d ranks", last)
	}
	// A cell by the formula: negative scores are left out everywhere.
	var means, all []float64
	mean := map[string]float64{}
	for _, r := range b.Models {
		sum, n := 0.0, 0.0
		var negative []float64
		for _, v := range r.Datasets["scala-sv"].Scores["mcc"] {
			if v.X < 0 {
				negative = append(negative, v.X)
				continue
			}
			sum, n, all = sum+v.X, n+1, append(all, v.X)
		}
		if n == 0 { // nothing else is there
			for _, x := range negative {
				sum, n, all = sum+x, n+1, append(all, x)
			}
		}
		mean[r.Model] = sum / n
		means = append(means, sum/n)
	}
	average, squares := 0.0, 0.0
	for _, x := range all {
		average += x / float64(len(all))
	}
	for _, x := range all {
		squares += (x - average) * (x - average) / float64(len(all))
	}
	for _, model := range []string{"fresh-electra-small", "NbAiLab/nb-bert-large", "xlm-roberta-base"} {
		i := slices.IndexFunc(b.Models, func(r leaderboard.Row) bool { return r.Model == model })
		// The value is the median of replicates, the cell's own median follows exactly.
		want := 1 + (slices.Max(means)-mean[model])/math.Sqrt(squares)
		got := b.Models[i].ByCell["sv/acceptability"]
		if math.Abs(got.Value.X-want) > .3*got.HalfWidth.X+1e-3 {
			t.Errorf("%s: %v, want about %v", model, got.Value.X, want)
		}
	}
}

func TestRankOptions(t *testing.T) {
	recs := paper(t)
	for _, o := range []leaderboard.Options{
		{Ranks: "dense"}, {Ranks: leaderboard.RanksEuroEval, Score: leaderboard.ScoreMean}, {Ranks: leaderboard.RanksEuroEval, Errors: leaderboard.ErrorsPropagated},
	} {
		o.Tasks = tasks
		if _, err := leaderboard.Build(recs, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	// Who is negative everywhere keeps those scores.
	bad := rec("bad", "scala-da", "acceptability", "paper", -.1, -.2)
	half := rec("half", "scala-da", "acceptability", "paper", -.1, .5, .6)
	b := build(t, append(slices.Clone(recs[:0:0]), bad, half), leaderboard.Options{Ranks: leaderboard.RanksEuroEval})
	if len(b.Models) != 2 || b.Models[0].Model != "half" || b.Models[0].Overall.Value.Undefined != "" || b.Models[1].Overall.Value == (scoring.Value{}) {
		t.Errorf("%+v", b.Models)
	}
}

// TestPaperTable: without the models that came after the paper and the
// intermediate checkpoint, the best five are the paper's, in its order and with
// its scores.
func TestPaperTable(t *testing.T) {
	for _, c := range []struct {
		language string
		want     []string
	}{
		{"", strings.Fields("NbAiLab/nb-bert-large 67.97 chcaa/dfm-encoder-large-v1 64.96 google/rembert 64.70 microsoft/mdeberta-v3-base 64.35 NbAiLab/nb-roberta-base-scandi 63.95")},
		{"da", strings.Fields("chcaa/dfm-encoder-large-v1 66.17 NbAiLab/nb-bert-large 64.39 vesteinn/DanskBERT 63.87 google/rembert 63.41")},
	} {
		o := leaderboard.Options{Columns: leaderboard.Mainland(), Filters: leaderboard.Filters{Exclude: []string{"ltg/norbert3-*", "KBLab/*-110k"}}}
		if c.language != "" {
			o.Languages = []string{c.language}
		}
		var got []string
		for _, r := range build(t, paper(t), o).Models[:len(c.want)/2] {
			got = append(got, r.Model, fmt.Sprintf("%.2f", r.Overall.Value.X))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.language, got, c.want)
		}
	}
}
