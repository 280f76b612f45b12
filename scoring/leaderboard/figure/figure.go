// Package figure draws leaderboards and tests of transfer for papers: as vectors
// (SVG, PDF, EPS) or pixels (PNG, 300 to an inch), with gonum/plot. Equal boards
// give equal bytes.
package figure

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/transfer"
)

// Formats are the file name endings that Write knows.
var Formats = []string{"svg", "pdf", "png", "eps"}

// Format is the format that a file's name asks for. The error names the formats there are.
func Format(path string) (string, error) {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	if !slices.Contains(Formats, format) {
		return "", fmt.Errorf("%s: a figure's name ends with .%s", path, strings.Join(Formats, ", ."))
	}
	return format, nil
}

// metrics as they are written in a text.
var metrics = map[string]string{"mcc": "MCC", "macro_f1": "macro-F1", "micro_f1": "micro-F1", "em": "exact match", "f1": "F1"}

// label says what a board's scores are.
func label(b *leaderboard.Board, ranked []leaderboard.DatasetInfo, metric string) string {
	if metric != "" {
		return fmt.Sprintf("%s (%s): every seed, mean and 95 %% interval", ranked[0].Name, cmp.Or(metrics[metric], metric))
	}
	what := "Score"
	if b.Score == leaderboard.ScoreRank {
		what = "Rank score (the lower, the better)"
	}
	var tasks, languages []string
	for _, d := range ranked {
		if !slices.Contains(tasks, d.Task) {
			tasks = append(tasks, d.Task)
		}
	}
	if len(tasks) == 1 {
		what += " on " + tasks[0]
	}
	for _, l := range b.Languages {
		languages = append(languages, l.Name)
	}
	if n := len(languages); n > 0 {
		what += " in " + strings.Join(languages[:n-1], ", ")
		if n > 1 {
			what += " and "
		}
		what += languages[n-1]
	}
	return what + ": mean and 95 % interval"
}

// Write draws the top models of a board, the best at the top. Of a board of one
// data set it draws the score of every seed as a dot (collapsed ones in orange)
// and beneath the mean and its interval; of others the overall scores and their
// intervals.
func Write(w io.Writer, format string, b *leaderboard.Board, top int) error {
	models := slices.Clone(b.Models[:min(top, len(b.Models))])
	if len(models) == 0 {
		return fmt.Errorf("no model has all data sets: there is nothing to draw")
	}
	slices.Reverse(models) // lines go upwards
	var ranked []leaderboard.DatasetInfo
	for _, d := range b.Datasets {
		if d.Ranked {
			ranked = append(ranked, d)
		}
	}
	metric := ""
	if len(ranked) == 1 {
		for _, t := range b.Tasks {
			if t.Name == ranked[0].Task {
				metric = t.Metrics[0].Name
			}
		}
	}
	var names []string
	var means, seeds, lost plotter.XYs
	var halves intervals
	for i, m := range models {
		name, y := m.Model, float64(i)
		if b.Mixed {
			name += " [" + m.Protocol + "]"
		}
		names = append(names, name)
		value, half := m.Overall.Value, m.Overall.HalfWidth
		if metric != "" {
			cell := m.Datasets[ranked[0].Name]
			value, half = cell.Metrics[metric].Mean, cell.Metrics[metric].HalfWidthT
			for j, s := range cell.Scores[metric] {
				switch {
				case s.Undefined != "":
				case j < len(cell.Seeds) && slices.Contains(cell.Collapsed, cell.Seeds[j]):
					lost = append(lost, plotter.XY{X: s.X, Y: y + 0.12})
				default:
					seeds = append(seeds, plotter.XY{X: s.X, Y: y + 0.12})
				}
			}
			y -= 0.22
		}
		if value.Undefined == "" {
			means, halves = append(means, plotter.XY{X: value.X, Y: y}), append(halves, halfWidth(half))
		}
	}
	p := list(label(b, ranked, metric), names)
	row, height := vg.Points(13), vg.Points(52)
	if metric != "" {
		row = vg.Points(17)
	}
	for _, s := range []struct {
		points plotter.XYs
		style  draw.GlyphStyle
	}{{seeds, draw.GlyphStyle{Color: dots, Radius: vg.Points(1.8), Shape: draw.RingGlyph{}}}, {lost, draw.GlyphStyle{Color: collapsed, Radius: vg.Points(2), Shape: draw.CrossGlyph{}}}} {
		if len(s.points) == 0 {
			continue
		}
		strip, err := plotter.NewScatter(s.points)
		if err != nil {
			return err
		}
		strip.GlyphStyle = s.style
		p.Add(strip)
	}
	if len(means) > 0 {
		bars, err := plotter.NewXErrorBars(struct {
			plotter.XYer
			plotter.XErrorer
		}{means, halves})
		if err != nil {
			return err
		}
		bars.LineStyle, bars.CapWidth = draw.LineStyle{Color: ink, Width: vg.Points(0.9)}, vg.Points(3.5)
		points, err := plotter.NewScatter(means)
		if err != nil {
			return err
		}
		points.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: vg.Points(1.8), Shape: draw.BoxGlyph{}}
		p.Add(bars, points)
	}
	room := (p.X.Max - p.X.Min) * 0.02
	p.X.Min, p.X.Max = p.X.Min-room, p.X.Max+room
	return save(w, p, height+row*vg.Length(len(models)), format)
}

// Transfer draws the F-statistics of groups of languages as bars, the highest at
// the top.
func Transfer(w io.Writer, format string, groups []transfer.Group) error {
	if len(groups) == 0 {
		return fmt.Errorf("no group has an F-statistic: there is nothing to draw")
	}
	sorted := slices.Clone(groups)
	slices.SortStableFunc(sorted, func(a, b transfer.Group) int { return cmp.Compare(a.F, b.F) })
	values, names := make(plotter.Values, len(sorted)), make([]string, len(sorted))
	for i, g := range sorted {
		values[i], names[i] = g.F, g.Name()
	}
	p := list("F-statistic, mean over the languages of the group", names)
	bars, err := plotter.NewBarChart(values, vg.Points(8))
	if err != nil {
		return err
	}
	bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, dots
	p.Add(bars)
	p.X.Min = 0
	return save(w, p, vg.Points(52)+vg.Points(13)*vg.Length(len(sorted)), format)
}

// intervals are half-widths, the same to both sides.
type intervals plotter.XErrors

func (x intervals) XError(i int) (float64, float64) { return x[i].Low, x[i].High }

func halfWidth(v scoring.Value) struct{ Low, High float64 } {
	if v.Undefined != "" {
		return struct{ Low, High float64 }{}
	}
	return struct{ Low, High float64 }{v.X, v.X}
}
