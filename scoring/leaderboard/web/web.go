// Package web writes a leaderboard as a static page: one folder that works from
// a file system and from any web server, with nothing to build and nothing
// loaded from elsewhere.
//
// The folder holds
//
//	index.html, style.css, app.js   the page
//	data.js                         the table: what must be there when the page opens
//	models/ID.js                    one model's seeds and runs, loaded when they are looked at
//	leaderboard.json                the whole board, for programs
//
// Scripts and not JSON, because a page that was opened from a file system may
// load scripts beside it and nothing else.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bench/scoring"
	"bench/scoring/leaderboard"
)

//go:embed assets
var assets embed.FS

// Options of a page.
type Options struct {
	Title string // "": Leaderboard
}

// Write writes the page of a board into dir, which is made if it is not there.
// Files that an earlier Write left there are replaced one by one; models that
// the board does not have any more lose their file.
func Write(dir string, b *leaderboard.Board, o Options) error {
	files := map[string][]byte{}
	for _, name := range []string{"index.html", "style.css", "app.js"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		files[name] = text
	}
	whole, err := encode(b)
	if err != nil {
		return err
	}
	files["leaderboard.json"] = whole
	p := newPage(b, o)
	for i, row := range slices.Concat(b.Models, b.Unranked) {
		text, err := encode(newDetail(row))
		if err != nil {
			return err
		}
		key, err := encode(p.Models[i].Key)
		if err != nil {
			return err
		}
		files[p.Models[i].Detail] = script("details["+string(bytes.TrimSpace(key))+"]", text)
	}
	text, err := encode(p)
	if err != nil {
		return err
	}
	files["data.js"] = script("leaderboard", text)

	if err := os.MkdirAll(filepath.Join(dir, "models"), 0o777); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "models", "*.js"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if _, ok := files["models/"+filepath.Base(path)]; !ok {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// encode is JSON that may stand in a script: U+2028 and U+2029 end lines there,
// and are escaped as the encoder does; so is < for who pastes it into HTML.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	err := json.NewEncoder(&out).Encode(v)
	return out.Bytes(), err
}

// script sets a property of window.
func script(property string, value []byte) []byte {
	return fmt.Appendf(nil, "window.%s = %s;\n", property, bytes.TrimSpace(value))
}

// page is data.js. Numbers are rounded to what is shown, since 500 models have
// to be there at once.
type page struct {
	Title     string                    `json:"title"`
	Newest    time.Time                 `json:"newest,omitzero"`
	Bench     string                    `json:"bench"`
	Score     string                    `json:"score"`
	Errors    string                    `json:"errors"`
	Protocols []string                  `json:"protocols"`
	Mixed     bool                      `json:"mixed"`
	Notes     []string                  `json:"notes"`
	Languages []leaderboard.Language    `json:"languages"`
	Tasks     []leaderboard.TaskInfo    `json:"tasks"`
	Datasets  []leaderboard.DatasetInfo `json:"datasets"`
	Models    []model                   `json:"models"`
	LeftOut   []leaderboard.LeftOut     `json:"left_out"`
	Transfer  *leaderboard.Transfer     `json:"transfer,omitempty"`
}

// model is a row of the table. A score is [mean, half-width of its interval],
// of a data set followed by the number of collapsed seeds and, if there are any,
// the median; null stands for what there is none of.
type model struct {
	Key        string              `json:"key"` // differs between rows
	ID         string              `json:"id"`
	Revision   string              `json:"revision,omitempty"`
	Kind       string              `json:"kind"`
	Protocol   string              `json:"protocol"`
	Parameters int64               `json:"parameters"`
	MaxLength  int                 `json:"max_length"`
	Vocabulary int                 `json:"vocabulary"`
	Rank       []int               `json:"rank,omitempty"`
	Overall    []*float64          `json:"overall"`
	Languages  map[string][]number `json:"languages"`
	Cells      map[string][]number `json:"cells"`
	Missing    []string            `json:"missing,omitempty"`
	Finished   time.Time           `json:"finished,omitzero"`
	GPUHours   float64             `json:"gpu_hours"`
	WallHours  float64             `json:"wall_hours"`
	EnergyKWh  float64             `json:"energy_kwh"`
	CO2eKg     float64             `json:"co2e_kg"`
	Detail     string              `json:"detail"` // file
}

type number = *float64

func rounded(x float64) number {
	x = math.Round(x*1000) / 1000
	return &x
}

func value(v scoring.Value) number {
	if v.Undefined != "" {
		return nil
	}
	return rounded(v.X)
}

func newPage(b *leaderboard.Board, o Options) page {
	p := page{
		Title: o.Title, Newest: b.Newest, Bench: b.Bench, Score: b.Score, Errors: b.Errors, Protocols: b.Protocols, Mixed: b.Mixed,
		Notes: b.Notes, Languages: b.Languages, Tasks: b.Tasks, Datasets: b.Datasets, LeftOut: b.LeftOut, Transfer: b.Transfer, Models: []model{},
	}
	if p.Title == "" {
		p.Title = "Leaderboard"
	}
	primary := map[string]string{}
	for _, d := range b.Datasets {
		for _, t := range b.Tasks {
			if t.Name == d.Task && len(t.Metrics) > 0 {
				primary[d.Name] = t.Metrics[0].Name
			}
		}
	}
	for _, r := range slices.Concat(b.Models, b.Unranked) {
		key := r.Model
		if b.Mixed {
			key += " (" + r.Protocol + ")"
		}
		sum := sha256.Sum256([]byte(key + "\x00" + r.Protocol + "\x00" + r.Revision))
		m := model{
			Key: key, ID: r.Model, Revision: r.Revision, Kind: r.Kind, Protocol: r.Protocol, Parameters: r.Parameters, MaxLength: r.MaxLength, Vocabulary: r.Vocabulary,
			Overall: []number{value(r.Overall.Value), value(r.Overall.HalfWidth)}, Missing: r.Missing, Finished: r.Finished,
			GPUHours: *rounded(r.GPUSeconds / 3600), WallHours: *rounded(r.WallSeconds / 3600), EnergyKWh: *rounded(r.EnergyKWh), CO2eKg: *rounded(r.CO2eKg),
			Languages: map[string][]number{}, Cells: map[string][]number{}, Detail: "models/" + hex.EncodeToString(sum[:8]) + ".js",
		}
		if r.Rank != nil {
			m.Rank = []int{r.Rank.Lo, r.Rank.Hi}
		}
		for code, a := range r.ByLanguage {
			m.Languages[code] = []number{value(a.Value), value(a.HalfWidth)}
		}
		for name, c := range r.Datasets {
			s := c.Metrics[primary[name]]
			cell := []number{value(s.Mean), value(s.HalfWidthT), rounded(float64(len(c.Collapsed)))}
			if len(c.Collapsed) > 0 {
				cell = append(cell, value(s.Median))
			}
			m.Cells[name] = cell
		}
		p.Models = append(p.Models, m)
	}
	return p
}

// detail is a file of models/: what is shown of one model on its own.
type detail struct {
	Datasets map[string]leaderboard.Cell `json:"datasets"`
}

func newDetail(r leaderboard.Row) detail { return detail{r.Datasets} }
