package transfer

import (
	"fmt"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// WriteSVG draws the F-statistics as bars, the highest at the top.
func WriteSVG(w io.Writer, groups []Group) error {
	if len(groups) == 0 {
		return fmt.Errorf("no group has an F-statistic: there is nothing to draw")
	}
	sorted := slices.Clone(groups)
	slices.SortStableFunc(sorted, func(a, b Group) int {
		switch {
		case a.F < b.F:
			return -1
		case a.F > b.F:
			return 1
		}
		return 0
	})
	values, names := make(plotter.Values, len(sorted)), make([]string, len(sorted))
	for i, g := range sorted {
		values[i], names[i] = g.F, g.Name()
	}
	p := plot.New()
	p.X.Label.Text = "F-statistic, mean over the group's languages"
	p.X.Min = 0
	p.NominalY(names...)
	bars, err := plotter.NewBarChart(values, vg.Points(9))
	if err != nil {
		return err
	}
	bars.Horizontal = true
	bars.LineStyle.Width = 0
	bars.Color = color.RGBA{R: 0x33, G: 0x66, B: 0x99, A: 0xff}
	p.Add(bars)
	c := vgsvg.New(16*vg.Centimeter, vg.Points(60+14*float64(len(sorted))))
	p.Draw(draw.New(c))
	_, err = c.WriteTo(w)
	return err
}
