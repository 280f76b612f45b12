package recipes

import (
	"fmt"
	"unicode/utf8"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
)

func norquad() Recipe {
	const repository, commit, folder = "ltgoslo/NorQuAD", "701f7db6a51f0264a282ce1ff8e59580251b391e", "data/evaluation/all/"
	return Recipe{
		Name: "norquad", Kind: datasets.QA, Version: 1, Languages: []string{"nb"}, Suite: Extra,
		Licence:  "CC0 1.0",
		Citation: "Ivanova, Andreassen, Jentoft, Wold and Øvrelid (2023): NorQuAD: Norwegian Question Answering Dataset. NoDaLiDa 2023.",
		Homepage: "https://github.com/ltgoslo/NorQuAD",
		Seed:     4242, Sizes: standard, Base: 4752,
		Sources: []fetch.Source{
			github(repository, commit, folder+"training_dataset_flattened.json", ""),
			github(repository, commit, folder+"validation_dataset_flattened.json", "dc28a5f071fc25c49f4754d02813579c79b326a6"),
			github(repository, commit, folder+"test_dataset_flattened.json", "f1d724680b478ef8321d9fccc832123c3e3b81d6"),
		},
		Notes: []string{"contexts of 30 to 5,000 and questions of 10 to 100 characters, as in the benchmark"},
		Make: func(in *Input) (*Output, error) {
			var rows []datasets.Row
			base := 0
			for i, part := range []string{"train", "validation", "test"} {
				if !in.Have(i) {
					continue
				}
				b, err := in.Read(i)
				if err != nil {
					return nil, err
				}
				questions, err := raw.ReadSQuAD(b, in.Name(i))
				if err != nil {
					return nil, err
				}
				base += len(questions)
				for _, q := range questions {
					if !between(q.Context, 30, 5000) || !between(q.Question, 10, 100) || len(q.Answers) == 0 || q.Answers[0].Text == "" {
						continue
					}
					row := question(q)
					// The source numbers some questions alike; there is one to an article.
					row.ID = fmt.Sprintf("%s-%d-%s", part, q.Article, q.ID)
					rows = append(rows, row)
				}
			}
			return in.draw(rows, base)
		},
	}
}

// between says whether s has at least low and at most high characters.
func between(s string, low, high int) bool {
	n := utf8.RuneCountInString(s)
	return low <= n && n <= high
}

// question makes a row of a SQuAD question. A question that its context does not
// answer has answers, but none.
func question(q raw.Question) datasets.Row {
	row := datasets.Row{
		ID: q.ID, Question: q.Question, Context: q.Context,
		Answers: &datasets.Answers{Text: []string{}, Start: []int{}},
	}
	for _, a := range q.Answers {
		row.Answers.Text = append(row.Answers.Text, a.Text)
		row.Answers.Start = append(row.Answers.Start, a.Start)
	}
	return row
}
