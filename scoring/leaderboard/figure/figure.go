// Package figure draws a leaderboard for papers: as vectors (SVG, PDF, EPS) or
// pixels (PNG), with gonum/plot.
package figure

import (
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"bench/scoring/leaderboard"
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

var (
	ink  = color.RGBA{R: 0x1b, G: 0x1f, B: 0x24, A: 0xff}
	dots = color.RGBA{R: 0x33, G: 0x66, B: 0x99, A: 0xa0}
)

// Write draws the top models of a board, the best at the top. Of a board of one
// data set it draws the score of every seed as a dot, over the mean and its
// interval; of others the overall scores and their intervals.
func Write(w io.Writer, format string, b *leaderboard.Board, top int) error {
	models := b.Models[:min(top, len(b.Models))]
	if len(models) == 0 {
		return fmt.Errorf("no model has all data sets: there is nothing to draw")
	}
	var ranked []leaderboard.DatasetInfo
	for _, d := range b.Datasets {
		if d.Ranked {
			ranked = append(ranked, d)
		}
	}
	p := plot.New()
	p.X.Label.Text = "score: mean over the tasks, then over the languages; 95 % interval"
	if b.Score == leaderboard.ScoreRank {
		p.X.Label.Text = "rank score (the lower the better); 95 % interval"
	}
	metric := ""
	if len(ranked) == 1 {
		for _, t := range b.Tasks {
			if t.Name == ranked[0].Task {
				metric = t.Metrics[0].Name
			}
		}
		p.X.Label.Text = ranked[0].Name + ", " + metric + ": every seed, mean and 95 % interval"
	}
	var names []string
	var means, seeds plotter.XYs
	var intervals intervals
	for i := len(models) - 1; i >= 0; i-- { // nominal values go upwards
		m, y := models[i], float64(len(names))
		names = append(names, m.Model)
		value, half := m.Overall.Value, m.Overall.HalfWidth
		if metric != "" {
			cell := m.Datasets[ranked[0].Name]
			value, half = cell.Metrics[metric].Mean, cell.Metrics[metric].HalfWidthT
			for _, s := range cell.Scores[metric] {
				if s.Undefined == "" {
					seeds = append(seeds, plotter.XY{X: s.X, Y: y})
				}
			}
		}
		if value.Undefined != "" {
			continue
		}
		means = append(means, plotter.XY{X: value.X, Y: y})
		h := 0.0
		if half.Undefined == "" {
			h = half.X
		}
		intervals = append(intervals, struct{ Low, High float64 }{h, h})
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	p.Y.Tick.Label.XAlign = draw.XRight
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	grid.Vertical.Color = color.Gray{Y: 0xdd}
	p.Add(grid)
	bars, err := plotter.NewXErrorBars(struct {
		plotter.XYer
		plotter.XErrorer
	}{means, intervals})
	if err != nil {
		return err
	}
	bars.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1)}
	points, err := plotter.NewScatter(means)
	if err != nil {
		return err
	}
	points.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: vg.Points(2), Shape: draw.BoxGlyph{}}
	if len(seeds) > 0 {
		strip, err := plotter.NewScatter(seeds)
		if err != nil {
			return err
		}
		strip.GlyphStyle = draw.GlyphStyle{Color: dots, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
		p.Add(strip)
	}
	p.Add(bars, points)
	to, err := p.WriterTo(17*vg.Centimeter, vg.Points(50+14*float64(len(models))), format)
	if err != nil {
		return err
	}
	_, err = to.WriteTo(w)
	return err
}

// intervals are half-widths, the same to both sides.
type intervals plotter.XErrors

func (x intervals) XError(i int) (float64, float64) { return x[i].Low, x[i].High }
