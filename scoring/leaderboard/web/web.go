// Package web writes a leaderboard as a static page: one folder that works from
// a file system and from any web server, with nothing to build and nothing
// loaded from elsewhere.
//
// The folder holds
//
//	index.html, style.css, app.js   the page
//	data.js                         the table: what must be there when the page opens
//	models/ID.js                    a model's row with all seeds and runs, loaded when it is looked at
//	leaderboard.json                the whole board, for programs
//
// Scripts and not JSON, because a page that was opened from a file system may
// load scripts beside it and nothing else.
package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/results"
	"bench/scoring/stats"
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
	for _, name := range []string{"index.html", "style.css"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		files[name] = text
	}
	var err error
	if files["app.js"], err = program(); err != nil {
		return err
	}
	if files["leaderboard.json"], err = encode(b); err != nil {
		return err
	}
	p := newPage(b, o)
	for i, row := range slices.Concat(b.Models, b.Unranked) {
		text, err := encode(row)
		if err != nil {
			return err
		}
		key, err := encode(cmp.Or(p.Models[i].Key, p.Models[i].ID))
		if err != nil {
			return err
		}
		files["models/"+p.Models[i].File+".js"] = script("details["+string(bytes.TrimSpace(key))+"]", text)
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

// program joins the parts of the page's program, in the order of their names.
func program() ([]byte, error) {
	parts, err := assets.ReadDir("assets/js")
	if err != nil {
		return nil, err
	}
	out := []byte(`// The page of a leaderboard. data.js sets window.leaderboard to what the table shows, and files in models/ add a model's
// row to window.details when it is looked at; nothing is loaded from anywhere else, so the page works from a folder.
"use strict";
window.details = {};
(() => {
`)
	for _, part := range parts {
		text, err := assets.ReadFile("assets/js/" + part.Name())
		if err != nil {
			return nil, err
		}
		out = append(append(out, '\n'), text...)
	}
	return append(out, "})();\n"...), nil
}

// page is data.js. Numbers are rounded to what is shown and models are arrays in
// the order of the page's lists, since 500 models have to be there at once.
type page struct {
	Title     string                    `json:"title"`
	Newest    time.Time                 `json:"newest,omitzero"`
	Bench     string                    `json:"bench"`
	Score     string                    `json:"score"`
	Errors    string                    `json:"errors"`
	Ranks     string                    `json:"ranks"`
	Rates     results.Rates             `json:"rates"`
	Protocols []string                  `json:"protocols"`
	Mixed     bool                      `json:"mixed"`
	Filters   leaderboard.Filters       `json:"filters"`
	Notes     []string                  `json:"notes"`
	Languages []leaderboard.Language    `json:"languages"`
	Tasks     []leaderboard.TaskInfo    `json:"tasks"`
	Cells     []string                  `json:"cells"` // "da/ner": language and task that there are ranked data sets of
	Datasets  []leaderboard.DatasetInfo `json:"datasets"`
	Models    []model                   `json:"models"`
	LeftOut   []leftOut                 `json:"left_out"`
	Transfer  *leaderboard.Transfer     `json:"transfer,omitempty"`
}

type leftOut struct {
	Reason  string `json:"reason"`
	Records int    `json:"records"`
	Models  int    `json:"models"`
}

// model is a row of the table. null stands for what there is none of.
type model struct {
	Key        string `json:"key,omitempty"` // differs between rows; "": it is ID
	ID         string `json:"id"`
	File       string `json:"file"`     // its name in models/, without .js
	Protocol   int    `json:"protocol"` // of the page's
	Licence    string `json:"licence,omitempty"`
	Parameters int64  `json:"parameters"`
	Date       string `json:"date,omitempty"` // day on which the newest record was finished
	Missing    []int  `json:"missing"`        // of the page's data sets

	// Aggregates: mean, half-width of its interval, lowest and highest rank.
	// Overall of an incomplete model is null.
	Overall   []number   `json:"overall"`
	Languages [][]number `json:"languages"`
	Tasks     [][]number `json:"tasks"` // without speed
	// Cells have their ranks first; mean and half-width follow if there are several
	// data sets, else they are those of the data set.
	Cells [][]number `json:"cells"`
	// Scores: mean and half-width, and if trainings have collapsed their number and
	// the median.
	Scores [][]number `json:"scores"`
}

type number = *float64

func rounded(x float64) number {
	x = math.Round(x*100) / 100
	return &x
}

func whole(n int) number {
	x := float64(n)
	return &x
}

func value(v scoring.Value) number {
	if v.Undefined != "" {
		return nil
	}
	return rounded(v.X)
}

// summary is an aggregate with its ranks, which not every aggregate has.
func summary(a leaderboard.Agg, r *stats.Ranks) []number {
	if a.Value.Undefined != "" {
		return nil
	}
	out := []number{value(a.Value), value(a.HalfWidth), nil, nil}
	if r != nil {
		out[2], out[3] = whole(r.Lo), whole(r.Hi)
	}
	return out
}

func newPage(b *leaderboard.Board, o Options) page {
	p := page{
		Title: cmp.Or(o.Title, "Leaderboard"), Newest: b.Newest, Bench: b.Bench, Score: b.Score, Errors: b.Errors, Ranks: b.Ranks, Rates: b.Rates, Protocols: b.Protocols, Mixed: b.Mixed, Filters: b.Filters,
		Notes: b.Notes, Languages: b.Languages, Tasks: b.Tasks, Datasets: b.Datasets, Cells: []string{}, LeftOut: []leftOut{}, Transfer: b.Transfer, Models: []model{},
	}
	for _, l := range b.LeftOut {
		p.LeftOut = append(p.LeftOut, leftOut{l.Reason, l.Records, len(l.Models)})
	}
	primary, at, sets := map[string]string{}, map[string]int{}, map[string]int{}
	for i, d := range b.Datasets {
		at[d.Name] = i
		for _, t := range b.Tasks {
			if t.Name == d.Task && len(t.Metrics) > 0 {
				primary[d.Name] = t.Metrics[0].Name
			}
		}
		for _, l := range d.Board {
			if d.Ranked {
				sets[l+"/"+d.Task]++
			}
		}
	}
	p.Cells = append(p.Cells, slices.Sorted(maps.Keys(sets))...)
	keys := map[string]int{}
	for _, r := range slices.Concat(b.Models, b.Unranked) {
		keys[r.Model+"\x00"+r.Protocol]++
	}
	for _, r := range slices.Concat(b.Models, b.Unranked) {
		key := r.Model
		if keys[r.Model+"\x00"+r.Protocol] > 1 && r.Revision != "" {
			key += "@" + r.Revision[:min(8, len(r.Revision))]
		}
		if keys[r.Model+"\x00"+r.Protocol] > 1 && r.RemoteCode {
			key += " (its own code)"
		}
		if b.Mixed {
			key += " (" + r.Protocol + ")"
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%v", r.Model, r.Protocol, r.Revision, r.RemoteCode))
		m := model{
			ID: r.Model, File: hex.EncodeToString(sum[:6]), Protocol: slices.Index(b.Protocols, r.Protocol), Licence: r.Licence, Parameters: r.Parameters,
			Missing: []int{}, Overall: summary(r.Overall, r.Rank), Scores: make([][]number, len(b.Datasets)),
		}
		if key != r.Model {
			m.Key = key
		}
		if !r.Finished.IsZero() {
			m.Date = r.Finished.Format(time.DateOnly)
		}
		for _, name := range r.Missing {
			m.Missing = append(m.Missing, at[name])
		}
		for _, l := range b.Languages {
			a := r.ByLanguage[l.Code]
			m.Languages = append(m.Languages, summary(a, a.Rank))
		}
		for _, t := range b.Tasks {
			if a, ok := r.ByTask[t.Name]; ok {
				m.Tasks = append(m.Tasks, summary(a, a.Rank))
			} else if t.Name != "speed" {
				m.Tasks = append(m.Tasks, nil)
			}
		}
		for _, c := range p.Cells {
			a := r.ByCell[c]
			s := summary(a, a.Rank)
			switch {
			case s == nil:
			case sets[c] == 1:
				s = s[2:]
			default:
				s = append(slices.Clone(s[2:]), s[:2]...)
			}
			m.Cells = append(m.Cells, s)
		}
		for name, c := range r.Datasets {
			s := c.Metrics[primary[name]]
			if s.Mean.Undefined != "" || s.N == 0 {
				continue
			}
			cell := []number{value(s.Mean), value(s.HalfWidthT)}
			if len(c.Collapsed) > 0 {
				cell = append(cell, whole(len(c.Collapsed)), value(s.Median))
			}
			m.Scores[at[name]] = cell
		}
		p.Models = append(p.Models, m)
	}
	return p
}
