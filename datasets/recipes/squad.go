package recipes

import (
	"bench/datasets"
	"bench/datasets/raw"
	"bench/datasets/split"
)

// squadRows returns the questions of source i, a file in the layout of SQuAD.
func (in *Input) squadRows(i int) ([]datasets.Row, error) {
	b, err := in.Read(i)
	if err != nil {
		return nil, err
	}
	questions, err := raw.ReadSQuAD(b, in.Name(i))
	if err != nil {
		return nil, err
	}
	var rows []datasets.Row
	seen := ids{}
	for _, q := range questions {
		if err := seen.add(q.ID, in.Name(i), q.Line); err != nil {
			return nil, err
		}
		rows = append(rows, question(q))
	}
	return rows, nil
}

// drawContexts splits questions so that no context is in two splits: contexts
// are drawn one after the other, and all their questions go to val until it is
// full, then to test, then to train. Questions for which a split has no room are
// left out.
func (in *Input) drawContexts(rows []datasets.Row) *Output {
	var contexts []string
	of := map[string][]datasets.Row{}
	for _, r := range rows {
		if of[r.Context] == nil {
			contexts = append(contexts, r.Context)
		}
		of[r.Context] = append(of[r.Context], r)
	}
	size := in.Recipe.Sizes
	out := &Output{Rows: map[datasets.Split][]datasets.Row{}}
	fill := []struct {
		split datasets.Split
		size  int
	}{{datasets.Val, size.Val}, {datasets.Test, size.Test}, {datasets.Train, size.Train}}
	for _, k := range split.NewRandomState(in.Recipe.Seed).Permutation(len(contexts)) {
		questions := of[contexts[k]]
		for len(fill) > 0 && len(out.Rows[fill[0].split]) == fill[0].size {
			fill = fill[1:]
		}
		if len(fill) == 0 {
			break
		}
		have := out.Rows[fill[0].split]
		out.Rows[fill[0].split] = append(have, questions[:min(len(questions), fill[0].size-len(have))]...)
	}
	return out
}
