package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Groups are the values of Query.Groups: models that ScandEval 6 and 7 took beside
// those it discovered by their language's tag, since they do not carry it.
var Groups = []string{GroupMultilingual, GroupGeotrend}

// The values of Query.Groups.
const (
	// GroupMultilingual: 27 multilingual encoders, whatever the languages.
	GroupMultilingual = "multilingual"
	// GroupGeotrend: multilingual BERTs that Geotrend cut down to a few languages,
	// those that go with the query's languages (da; no, nb, nn), or all if it names
	// none.
	GroupGeotrend = "geotrend"
)

var multilingual = []string{
	"bert-base-multilingual-cased", "bert-base-multilingual-uncased", "distilbert-base-multilingual-cased", "xlm-roberta-base", "xlm-roberta-large",
	"cardiffnlp/twitter-xlm-roberta-base", "microsoft/infoxlm-base", "microsoft/infoxlm-large", "microsoft/xlm-align-base", "microsoft/mdeberta-v3-base",
	"setu4993/LaBSE", "studio-ousia/mluke-base", "studio-ousia/mluke-large",
	"sentence-transformers/distilbert-multilingual-nli-stsb-quora-ranking", "sentence-transformers/distiluse-base-multilingual-cased",
	"sentence-transformers/distiluse-base-multilingual-cased-v1", "sentence-transformers/distiluse-base-multilingual-cased-v2",
	"sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "sentence-transformers/paraphrase-multilingual-mpnet-base-v2",
	"sentence-transformers/paraphrase-xlm-r-multilingual-v1", "sentence-transformers/quora-distilbert-multilingual",
	"sentence-transformers/stsb-xlm-r-multilingual", "sentence-transformers/use-cmlm-multilingual",
	"dbmdz/bert-tiny-historic-multilingual-cased", "dbmdz/bert-mini-historic-multilingual-cased",
	"dbmdz/bert-medium-historic-multilingual-cased", "dbmdz/bert-base-historic-multilingual-cased",
}

// geotrend are what of a name comes between Geotrend/bert-base- or
// Geotrend/distilbert-base- and -cased, and the languages it goes with.
var geotrend = []struct {
	part      string
	languages []string
}{
	{"en-da", []string{"da"}}, {"en-no", []string{"no", "nb", "nn"}},
	{"25lang", []string{"da", "no", "nb", "nn"}}, {"en-fr-de-no-da", []string{"da", "no", "nb", "nn"}},
}

// members are the models of the query's groups, in the order of the groups.
func (q Query) members() (ids []string) {
	for _, g := range q.Groups {
		switch g {
		case GroupMultilingual:
			ids = append(ids, multilingual...)
		case GroupGeotrend:
			for _, kind := range []string{"bert", "distilbert"} {
				for _, x := range geotrend {
					if len(q.Languages) == 0 || slices.ContainsFunc(q.Languages, func(l string) bool { return slices.Contains(x.languages, l) }) {
						ids = append(ids, fmt.Sprintf("Geotrend/%s-base-%s-cased", kind, x.part))
					}
				}
			}
		}
	}
	return ids
}

// grouped looks up the models of the query's groups that are not in found. Those
// that are gone, or gated where that is not wanted, are told and left out.
func (c *Client) grouped(ctx context.Context, q Query, found []Listed) ([]Listed, error) {
	var more []Listed
	for _, id := range q.members() {
		there := func(name string) bool { return slices.ContainsFunc(found, func(m Listed) bool { return m.ID == name }) }
		if q.excludes(id) || there(id) {
			continue
		}
		info, err := c.Resolve(ctx, id, "main")
		switch {
		case errors.Is(err, &Error{Kind: NoModel}), errors.Is(err, &Error{Kind: Disabled}):
			c.notice(id + " is left out: the Hub has no such model any more")
		case errors.Is(err, &Error{Kind: Gated}), err == nil && info.Gated != "" && !q.Gated:
			c.notice(id + " is left out: its owner's terms have to be accepted first (gated: true takes it in)")
		case err != nil:
			return nil, err
		case there(info.RenamedTo):
		default:
			more = append(more, Listed{ID: id, Commit: info.Commit, Pipeline: info.PipelineTag, Gated: info.Gated})
		}
	}
	return more, nil
}
