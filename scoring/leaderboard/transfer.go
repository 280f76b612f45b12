package leaderboard

import (
	"cmp"
	"fmt"
	"slices"

	"bench/scoring"
	"bench/scoring/transfer"
)

// Transfer is how well models made for the language of a row do in the language
// of a column.
type Transfer struct {
	Columns []string      `json:"columns"` // language codes
	Rows    []TransferRow `json:"rows"`
	// Groups are tested as bench transfer does, the pairs first; none if a value is missing.
	Groups []transfer.Group `json:"groups,omitempty"`
}

// TransferRow is one model of a Transfer.
type TransferRow struct {
	Language string          `json:"language"`        // code
	Model    string          `json:"model,omitempty"` // "": a table of scores does not name it
	Values   []scoring.Value `json:"values"`
}

// Table is t for package transfer. missing names what keeps it from being one.
func (t Transfer) Table() (table *transfer.Table, missing []string) {
	table = &transfer.Table{Columns: t.Columns}
	for _, r := range t.Rows {
		var line []float64
		for i, v := range r.Values {
			if v.Undefined != "" {
				missing = append(missing, fmt.Sprintf("%s in %s", cmp.Or(r.Model, r.Language), t.Columns[i]))
			}
			line = append(line, v.X)
		}
		table.Models = append(table.Models, r.Language)
		table.Scores = append(table.Scores, line)
	}
	return table, missing
}

// OfTable shows a table of scores.
func OfTable(table *transfer.Table) Transfer {
	t := Transfer{Columns: table.Columns}
	for i, language := range table.Models {
		row := TransferRow{Language: language}
		for _, x := range table.Scores[i] {
			row.Values = append(row.Values, scoring.Num(x))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Groups, _ = table.Groups()
	return t
}

// TransferOf takes the scores of models from the board, a column for each of its
// languages. A model with several rows (of other revisions) is taken at the one
// that lacks the fewest data sets, of those at the one measured last.
func (b *Board) TransferOf(models []transfer.Representative) Transfer {
	var t Transfer
	for _, l := range b.Languages {
		t.Columns = append(t.Columns, l.Code)
	}
	for _, m := range models {
		var best *Row
		for _, rows := range [][]Row{b.Models, b.Unranked} {
			for i := range rows {
				if r := &rows[i]; r.Model == m.Model && (best == nil || cmp.Or(len(best.Missing)-len(r.Missing), r.Finished.Compare(best.Finished)) > 0) {
					best = r
				}
			}
		}
		row := TransferRow{Language: m.Language, Model: m.Model}
		for _, l := range t.Columns {
			v := scoring.Value{Undefined: "nothing is recorded"}
			if best != nil {
				v = best.ByLanguage[l].Value
			}
			row.Values = append(row.Values, v)
		}
		t.Rows = append(t.Rows, row)
	}
	if table, missing := t.Table(); len(missing) == 0 {
		t.Groups, _ = table.Groups()
	}
	return t
}

// Lacks lists which of the data sets a model has no score on, or one of fewer
// than seeds replicates, failed ones counted.
func (b *Board) Lacks(model string, datasets []string, seeds int) []string {
	return slices.DeleteFunc(slices.Clone(datasets), func(name string) bool {
		for _, rows := range [][]Row{b.Models, b.Unranked} {
			for _, r := range rows {
				c, ok := r.Datasets[name]
				if r.Model == model && ok && len(c.Seeds)+len(c.Failures) >= seeds {
					return true
				}
			}
		}
		return false
	})
}
