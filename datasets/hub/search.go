package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Query says which models of the Hub are meant. All conditions hold together;
// an empty one is none, if Rule has no say.
type Query struct {
	Languages []string `json:"languages,omitempty"` // tags; one of them is enough
	Tags      []string `json:"tags,omitempty"`      // all of them
	Author    string   `json:"author,omitempty"`    // a user or an organisation
	Text      string   `json:"text,omitempty"`      // part of the name
	// Pipelines are the kinds of models (fill-mask, …), one of which is enough;
	// NoPipeline stands for those that say none. Empty: as Rule says.
	Pipelines []string `json:"pipelines,omitempty"`
	// MaxParameters leaves out models that say that they have more. Only weights
	// in safetensors say it.
	MaxParameters int64 `json:"max_parameters,omitempty"`
	MinDownloads  int64 `json:"min_downloads,omitempty"` // of the last 30 days
	// Gated: also those whose owner's terms have to be accepted first.
	Gated bool   `json:"gated,omitempty"`
	Rule  string `json:"rule,omitempty"`  // RuleEncoders or RuleAny; empty: RuleEncoders
	Sort  string `json:"sort,omitempty"`  // one of Sorts, the largest or newest first; empty: downloads
	Limit int    `json:"limit,omitempty"` // 0: all
	// Groups of known models are added to what is found, behind it and behind the
	// limit: GroupMultilingual, GroupGeotrend. A query of groups alone finds nothing
	// else.
	Groups []string `json:"groups,omitempty"`
	// Exclude leaves out models whose names match one of these patterns of
	// path.Match, such as org/*.
	Exclude []string `json:"exclude,omitempty"`
}

// The values of Query.Rule.
const (
	// RuleEncoders finds what can be fine-tuned on the benchmark's tasks, as
	// ScandEval 6 and 7 discovered models: those whose pipeline is one of
	// EncoderPipelines or not said, without a mark of size in the name that says
	// XL or billions (-xl, _xxlarge, -7b), that are not called finetuned, and that
	// are neither TransQuest's Danish siamese models nor of M-CLIP. Other than
	// there, the xl of xlm is no size.
	RuleEncoders = "encoders"
	RuleAny      = "any" // everything that the other conditions let through
)

// NoPipeline stands in Query.Pipelines for models without one.
const NoPipeline = "none"

// EncoderPipelines are the pipelines of RuleEncoders.
var EncoderPipelines = []string{NoPipeline, "fill-mask", "sentence-similarity", "feature-extraction", "text-generation"}

// Sorts are the values of Query.Sort.
var Sorts = []string{"downloads", "likes", "created", "modified"}

var (
	xlName     = regexp.MustCompile(`(?i)[-_]x+l(arge)?([^a-z]|$)`)
	billions   = regexp.MustCompile(`(?i)(^|[^a-z0-9.])[0-9]+(\.[0-9]+)?b([^a-z0-9]|$)`)
	unwanted   = regexp.MustCompile(`^(TransQuest/siamesetransquest-da|M-CLIP/)`)
	sortFields = map[string]string{"": "downloads", "downloads": "downloads", "likes": "likes", "created": "createdAt", "modified": "lastModified"}
)

// Listed is a model that a search has found, as the Hub describes it then.
type Listed struct {
	ID         string    `json:"id"`
	Commit     string    `json:"commit,omitempty"` // of main; empty if the Hub does not say
	Pipeline   string    `json:"pipeline,omitempty"`
	Parameters int64     `json:"parameters,omitempty"` // 0: not known
	Downloads  int64     `json:"downloads"`
	Likes      int64     `json:"likes"`
	Gated      string    `json:"gated,omitempty"` // see Info
	Created    time.Time `json:"created,omitzero"`
	Modified   time.Time `json:"modified,omitzero"`
}

// maxPages bounds what is read of one listing.
const maxPages = 200

// Search returns the models that q means, the first by q.Sort first, those that
// are equal in it by name. It asks the Hub, page after page; the cache has no
// part in it. A model of several languages is there once.
func (c *Client) Search(ctx context.Context, q Query) ([]Listed, error) {
	e := c.fault(q.String(), "")
	e.Search = true
	if c.Offline {
		e.Kind, e.Detail = OfflineMode, "the Hub may not be asked (HF_HUB_OFFLINE)"
		return nil, &e
	}
	languages := q.Languages
	switch {
	case len(languages) > 0:
	case len(q.Groups) > 0 && len(q.Tags)+q.Limit == 0 && q.Author+q.Text == "":
	default:
		languages = []string{""}
	}
	var found []Listed
	seen := map[string]bool{}
	for _, l := range languages { // the Hub's own filter wants all tags at once
		var own []Listed
		page := c.listing(q, l)
		for n := 0; page != "" && !enough(q, own); n++ {
			if n == maxPages {
				e.Kind, e.Detail = Server, "the listing does not end"
				return nil, &e
			}
			models, next, err := c.page(ctx, e, page)
			if err != nil {
				return nil, err
			}
			for _, m := range models {
				if q.takes(m, l) {
					own = append(own, m.listed())
				}
			}
			page = next
		}
		for _, m := range own {
			if !seen[m.ID] {
				seen[m.ID] = true
				found = append(found, m)
			}
		}
	}
	slices.SortFunc(found, func(a, b Listed) int { return cmp.Or(q.order(a, b), strings.Compare(a.ID, b.ID)) })
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	more, err := c.grouped(ctx, q, found)
	return append(found, more...), err
}

// excludes says whether a model is left out by its name.
func (q Query) excludes(id string) bool {
	return slices.ContainsFunc(q.Exclude, func(pattern string) bool {
		ok, _ := path.Match(pattern, id)
		return ok
	})
}

// enough says whether the rest of a sorted listing can be left unread: there are
// as many as wanted, and what follows is no equal of the last.
func enough(q Query, own []Listed) bool {
	return q.Limit > 0 && len(own) > q.Limit && q.order(own[q.Limit-1], own[len(own)-1]) < 0
}

func (q Query) order(a, b Listed) int {
	switch q.Sort {
	case "likes":
		return cmp.Compare(b.Likes, a.Likes)
	case "created":
		return b.Created.Compare(a.Created)
	case "modified":
		return b.Modified.Compare(a.Modified)
	}
	return cmp.Compare(b.Downloads, a.Downloads)
}

// String describes the query for people.
func (q Query) String() string {
	text, _ := json.Marshal(q)
	return string(text)
}

// listing is the address of the first page.
func (c *Client) listing(q Query, language string) string {
	v := url.Values{"limit": {"200"}, "sort": {sortFields[q.Sort]}, "direction": {"-1"}}
	for _, tag := range append(slices.Clone(q.Tags), language) {
		if tag != "" {
			v.Add("filter", tag)
		}
	}
	if q.Author != "" {
		v.Set("author", q.Author)
	}
	if q.Text != "" {
		v.Set("search", q.Text)
	}
	v["expand"] = []string{"createdAt", "disabled", "downloads", "gated", "lastModified", "likes", "pipeline_tag", "private", "safetensors", "sha", "tags"}
	return c.Endpoint + "/api/models?" + v.Encode()
}

// listedModel is a model in the API's answer.
type listedModel struct {
	ID          string          `json:"id"`
	SHA         string          `json:"sha"`
	Disabled    bool            `json:"disabled"`
	Gated       json.RawMessage `json:"gated"` // false, "auto" or "manual"
	Tags        []string        `json:"tags"`
	Pipeline    string          `json:"pipeline_tag"`
	Downloads   int64           `json:"downloads"`
	Likes       int64           `json:"likes"`
	Created     time.Time       `json:"createdAt"`
	Modified    time.Time       `json:"lastModified"`
	Safetensors *struct {
		Total int64 `json:"total"`
	} `json:"safetensors"`
}

func (m listedModel) listed() Listed {
	l := Listed{ID: m.ID, Commit: m.SHA, Pipeline: m.Pipeline, Downloads: m.Downloads, Likes: m.Likes, Created: m.Created, Modified: m.Modified}
	json.Unmarshal(m.Gated, &l.Gated) // stays empty for false
	if m.Safetensors != nil {
		l.Parameters = m.Safetensors.Total
	}
	if !commitPattern.MatchString(l.Commit) {
		l.Commit = ""
	}
	return l
}

// takes says whether the model is meant. What a server lets through is checked
// here once more: mirrors do not know all conditions.
func (q Query) takes(m listedModel, language string) bool {
	l := m.listed()
	author, name, _ := strings.Cut(m.ID, "/")
	if name == "" {
		author, name = "", m.ID
	}
	pipelines := q.Pipelines
	if q.Rule != RuleAny {
		if xlName.MatchString(name) || billions.MatchString(name) || strings.Contains(strings.ToLower(name), "finetuned") || unwanted.MatchString(m.ID) {
			return false
		}
		if len(pipelines) == 0 {
			pipelines = EncoderPipelines
		}
	}
	most := q.MaxParameters
	if most == 0 {
		most = math.MaxInt64
	}
	_, _, bad := SplitName(m.ID)
	return bad == nil && !m.Disabled && !q.excludes(m.ID) && (q.Gated || l.Gated == "") && l.Parameters <= most && l.Downloads >= q.MinDownloads &&
		(q.Author == "" || strings.EqualFold(author, q.Author)) &&
		(language == "" || slices.Contains(m.Tags, language)) &&
		!slices.ContainsFunc(q.Tags, func(t string) bool { return !slices.Contains(m.Tags, t) && t != m.Pipeline }) &&
		(len(pipelines) == 0 || slices.Contains(pipelines, cmp.Or(m.Pipeline, NoPipeline)))
}

// page reads one page of a listing, and says where the next one is.
func (c *Client) page(ctx context.Context, e Error, address string) (models []listedModel, next string, err error) {
	answer, err := c.ask(ctx, e, address, &models, func() bool { return models != nil })
	if err != nil {
		return nil, "", err
	}
	return models, nextPage(answer), nil
}

// nextLink is the entry of a Link header for the page that follows.
var nextLink = regexp.MustCompile(`<([^>]*)>\s*;[^,]*\brel="?next"?`)

// nextPage is where a listing goes on; "": nowhere. It is taken from the host
// that was asked and from no other.
func nextPage(r *http.Response) string {
	for _, h := range r.Header.Values("Link") {
		m := nextLink.FindStringSubmatch(h)
		if m == nil {
			continue
		}
		u, err := r.Request.URL.Parse(m[1])
		if err != nil {
			return ""
		}
		// A Hub behind a proxy may call itself by another name.
		u.Scheme, u.Host = r.Request.URL.Scheme, r.Request.URL.Host
		return u.String()
	}
	return ""
}
