package figure

import (
	"bytes"
	"image/color"
	"io"
	"regexp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	width  = 17 * vg.Centimeter // a page of a journal, in two columns
	margin = 2 * vg.Millimeter
	dpi    = 300 // of pixels
)

var (
	ink       = color.RGBA{R: 0x1b, G: 0x1f, B: 0x24, A: 0xff}
	dots      = color.RGBA{R: 0x33, G: 0x66, B: 0x99, A: 0xff}
	collapsed = color.RGBA{R: 0xc2, G: 0x41, B: 0x0c, A: 0xff}
	faint     = color.Gray{Y: 0xe4}
)

// list starts a plot with a line for each name, the last one at the top.
func list(label string, names []string) *plot.Plot {
	p := plot.New()
	sans := func(size vg.Length) font.Font {
		return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	}
	p.X.Label.Text = label
	p.NominalY(names...)
	p.X.Label.TextStyle.Font, p.X.Tick.Label.Font, p.Y.Tick.Label.Font = sans(9), sans(8), sans(8.5)
	p.X.Label.Padding = vg.Points(3)
	p.Y.Tick.Label.XAlign = draw.XRight
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	grid.Horizontal.Width, grid.Vertical.Width = vg.Points(0.4), vg.Points(0.6)
	p.Add(grid)
	return p
}

// dates are those that PDF and EPS have of their drawing: a figure is to be the
// same bytes whenever it is drawn, and those of one length keep PDF's offsets.
var dates = regexp.MustCompile(`(/(?:Creation|Mod)Date \(D:)\d{14}|%%CreationDate: [^\n]*`)

// save draws a plot of this height.
func save(w io.Writer, p *plot.Plot, height vg.Length, format string) error {
	var canvas vg.CanvasWriterTo
	if format == "png" {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	} else {
		var err error
		if canvas, err = draw.NewFormattedCanvas(width, height, format); err != nil {
			return err
		}
	}
	c := draw.New(canvas)
	p.Draw(draw.Crop(c, margin, -margin, margin, -margin))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	text := out.Bytes()
	if format == "pdf" || format == "eps" {
		text = dates.ReplaceAllFunc(text, func(m []byte) []byte {
			if s := dates.FindSubmatch(m); s[1] != nil {
				return append(slices.Clip(s[1]), "20000101000000"...)
			}
			return []byte("%%CreationDate: not kept")
		})
	}
	_, err := w.Write(text)
	return err
}
