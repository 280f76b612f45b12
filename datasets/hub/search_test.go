package hub

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/datasets/hub/hubtest"
)

// library is a Hub with models to be searched.
func library(t *testing.T) (*hubtest.Server, *Client) {
	t.Helper()
	s := hubtest.New()
	t.Cleanup(s.Close)
	add := func(id, pipeline string, downloads int, parameters int64, tags ...string) *hubtest.Repo {
		r := s.Add(id, hubtest.Model())
		r.Set(func(r *hubtest.Repo) {
			r.Pipeline, r.Downloads, r.Parameters, r.Tags = &pipeline, downloads, parameters, tags
			r.Created = time.Date(2020, 1, len(id), 0, 0, 0, 0, time.UTC)
		})
		return r
	}
	add("KB/bert-base", "fill-mask", 900, 110e6, "sv", "pytorch")
	add("a/danish-bert", "fill-mask", 500, 0, "da", "pytorch")
	add("a/danish-sentences", "sentence-similarity", 400, 120e6, "da")
	add("a/nordic", "", 450, 400e6, "da", "sv")
	add("b/danish-xl", "fill-mask", 800, 300e6, "da")
	add("b/danish-xlm-roberta", "fill-mask", 300, 270e6, "da") // xlm is a name and no size
	add("b/gpt-7B-danish", "text-generation", 700, 7e9, "da")
	add("b/gpt-1.3b", "text-generation", 650, 13e8, "da")
	add("b/gpt-small", "text-generation", 100, 9e8, "da")
	add("b/danish-FineTuned-ner", "fill-mask", 600, 110e6, "da")
	add("b/danish-ner", "token-classification", 550, 110e6, "da")
	add("M-CLIP/danish", "feature-extraction", 350, 110e6, "da")
	add("TransQuest/siamesetransquest-da-en", "feature-extraction", 350, 110e6, "da")
	add("c/closed", "fill-mask", 250, 110e6, "da").Set(func(r *hubtest.Repo) { r.Gated = "manual" })
	add("c/off", "fill-mask", 240, 110e6, "da").Set(func(r *hubtest.Repo) { r.Disabled = true })
	add("c/own", "fill-mask", 230, 110e6, "da").Set(func(r *hubtest.Repo) { r.Private = true })
	s.AddDataset("a/danish-data", map[string][]byte{"README.md": nil})
	return s, &Client{Endpoint: s.URL, Backoff: time.Millisecond, Attempts: 4}
}

func names(models []Listed) string {
	var out []string
	for _, m := range models {
		out = append(out, m.ID)
	}
	return strings.Join(out, " ")
}

// What is found does not depend on how the listing is cut into pages.
func TestSearch(t *testing.T) {
	s, c := library(t)
	danish := "a/danish-bert a/nordic a/danish-sentences b/danish-xlm-roberta b/gpt-small"
	for _, x := range []struct {
		q    Query
		want string
	}{
		{Query{Languages: []string{"da"}}, danish},
		{Query{Languages: []string{"da", "sv"}}, "KB/bert-base " + danish},
		{Query{Languages: []string{"da"}, Limit: 2}, "a/danish-bert a/nordic"},
		{Query{Languages: []string{"da", "sv"}, Limit: 2}, "KB/bert-base a/danish-bert"},
		{Query{Languages: []string{"da"}, Tags: []string{"pytorch"}}, "a/danish-bert"},
		{Query{Languages: []string{"da"}, MaxParameters: 200e6}, "a/danish-bert a/danish-sentences"},
		{Query{Languages: []string{"da"}, MinDownloads: 401}, "a/danish-bert a/nordic"},
		{Query{Languages: []string{"da"}, Pipelines: []string{NoPipeline, "text-generation"}}, "a/nordic b/gpt-small"},
		{Query{Languages: []string{"da"}, Pipelines: []string{"token-classification"}}, "b/danish-ner"},
		{Query{Author: "a"}, "a/danish-bert a/nordic a/danish-sentences"},
		{Query{Text: "BERTa"}, "b/danish-xlm-roberta"},
		{Query{Author: "a", Sort: "created"}, "a/danish-sentences a/danish-bert a/nordic"},
		{Query{Author: "b", Rule: RuleAny, Limit: 3}, "b/danish-xl b/gpt-7B-danish b/gpt-1.3b"},
		{Query{Author: "c", Gated: true}, "c/closed"},
		{Query{Author: "nobody"}, ""},
	} {
		for _, size := range []int{0, 1, 3} {
			s.PageSize(size)
			got, err := c.Search(t.Context(), x.q)
			if err != nil || names(got) != x.want {
				t.Errorf("%v in pages of %d: %s, %v; want %s", x.q, size, names(got), err, x.want)
			}
		}
	}
	s.PageSize(2)
	s.Requests()
	got, err := c.Search(t.Context(), Query{Languages: []string{"da"}, Rule: RuleAny, Limit: 1})
	if n := len(s.Requests()); err != nil || n != 1 {
		t.Errorf("the first of many took %d requests, %v", n, err)
	}
	if m := got[0]; m.ID != "b/danish-xl" || len(m.Commit) != 40 || m.Parameters != 300e6 || m.Downloads != 800 || m.Pipeline != "fill-mask" || m.Created.Year() != 2020 {
		t.Errorf("found %+v", m)
	}
	c.Token = "mine"
	s.Add("x/y", hubtest.Model()).Set(func(r *hubtest.Repo) { r.Private, r.Readers = true, []string{"mine"} })
	if got, err := c.Search(t.Context(), Query{Author: "x"}); names(got) != "x/y" {
		t.Errorf("a private model with its token: %v, %v", got, err)
	}
}

// What ScandEval 6 and 7 discovered for Danish: found by the tag, and the models
// that do not carry it. Those that are gone or closed are told.
func TestSearchGroups(t *testing.T) {
	if len(multilingual) != 27 {
		t.Errorf("%d multilingual models, the original has 27", len(multilingual))
	}
	s, c := library(t)
	var said []string
	c.Notice = func(text string) { said = append(said, text) }
	for _, id := range []string{"xlm-roberta-base", "setu4993/LaBSE", "microsoft/mdeberta-v3-base", "Geotrend/bert-base-en-da-cased", "Geotrend/bert-base-en-no-cased", "Geotrend/distilbert-base-25lang-cased"} {
		s.Add(id, hubtest.Model())
	}
	s.Add("studio-ousia/mluke-base", hubtest.Model()).Set(func(r *hubtest.Repo) { r.Gated = "auto" })
	both := []string{GroupMultilingual, GroupGeotrend}
	more := "xlm-roberta-base microsoft/mdeberta-v3-base setu4993/LaBSE"
	for _, x := range []struct {
		q    Query
		want string
	}{
		{Query{Languages: []string{"da"}, Groups: both, Limit: 1}, "a/danish-bert " + more + " Geotrend/bert-base-en-da-cased Geotrend/distilbert-base-25lang-cased"},
		{Query{Languages: []string{"nb"}, Groups: both[1:]}, "Geotrend/bert-base-en-no-cased Geotrend/distilbert-base-25lang-cased"},
		{Query{Languages: []string{"sv"}, Groups: both[1:], Exclude: []string{"a/*"}}, "KB/bert-base"},
		{Query{Groups: both, Exclude: []string{"Geotrend/bert-*", "*/LaBSE", "xlm*"}}, "microsoft/mdeberta-v3-base Geotrend/distilbert-base-25lang-cased"},
		{Query{Author: "a", Exclude: []string{"a/danish-*"}}, "a/nordic"},
	} {
		got, err := c.Search(t.Context(), x.q)
		if err != nil || names(got) != x.want {
			t.Errorf("%v: %s, %v; want %s", x.q, names(got), err, x.want)
		}
		for _, m := range got {
			if len(m.Commit) != 40 {
				t.Errorf("%+v has no commit", m)
			}
		}
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "studio-ousia/mluke-base is left out: its owner's terms") || !strings.Contains(all, "microsoft/infoxlm-base is left out: the Hub has no such model") {
		t.Error(all)
	}
	s.Inject(hubtest.Fault{Path: "/api/models/xlm-roberta-base", Drop: true})
	if _, err := c.Search(t.Context(), Query{Groups: both}); !errors.Is(err, &Error{Kind: Unreachable}) {
		t.Errorf("cut off: %v", err)
	}
}

// Names that say a size that is too large, and names that only look so.
func TestRuleOfNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a/bert-base": true, "a/bert-large": true, "facebook/xlm-roberta-xl": false, "a/x_xxlarge": false, "a/model-XXL-v2": false, "a/xlnet": true, "a/b-xlarge": false,
		"a/gpt-7b": false, "a/7B": false, "a/1.5b-model": false, "a/bert-110b-x": false, "a/bert-6bit": true, "a/v2b": true, "a/bart-b": true,
		"a/x-finetuned-y": false, "a/Finetuned": false, "a/fine": true, "M-CLIP/x": false, "a/M-CLIP": true, "roberta-base": true,
	} {
		if got := (Query{}).takes(listedModel{ID: name}, ""); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if !(Query{Rule: RuleAny}).takes(listedModel{ID: name}, "") {
			t.Errorf("%s is left out by no rule", name)
		}
	}
}

// Faults on the way: what may pass is tried again, from the page where it was;
// the rest says what is wrong.
func TestSearchFaults(t *testing.T) {
	s, c := library(t)
	s.PageSize(2)
	s.Inject(hubtest.Fault{Path: "/api/models", Status: http.StatusBadGateway, Times: 2})
	if got, err := c.Search(t.Context(), Query{Author: "a"}); err != nil || len(got) != 3 {
		t.Errorf("after two faults: %v, %v", names(got), err)
	}
	// An answer that was cut off is asked for again, and so is one that the Hub puts
	// off, when it says.
	s.Inject(hubtest.Fault{Path: "/api/models", Status: http.StatusOK, Body: `[{"id": "a/cut`, Times: 1})
	s.Inject(hubtest.Fault{Path: "/api/models", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Times: 1})
	var said []string
	c.Notice = func(text string) { said = append(said, text) }
	begun := time.Now()
	if got, err := c.Search(t.Context(), Query{Author: "a"}); err != nil || len(got) != 3 || time.Since(begun) < time.Second || len(said) != 1 || !strings.Contains(said[0], "asks to wait for 1s") {
		t.Errorf("cut off and put off: %v, %v, %q, after %v", names(got), err, said, time.Since(begun))
	}
	for _, x := range []struct {
		f    hubtest.Fault
		kind Kind
	}{
		{hubtest.Fault{Status: http.StatusBadGateway}, Server},
		{hubtest.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"86400"}}}, RateLimited},
		{hubtest.Fault{Status: http.StatusOK, Body: "<html>"}, NotAHub},
		{hubtest.Fault{Status: http.StatusOK, Body: `{"error": "none"}`}, NotAHub},
		{hubtest.Fault{Drop: true}, Unreachable},
		{hubtest.Fault{Status: http.StatusOK, Body: `[{"id": "x/y", "tags": [`}, Truncated},
	} {
		s.Mend()
		s.Inject(x.f)
		_, err := c.Search(t.Context(), Query{Author: "a"})
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != x.kind || e.Hint() == "" || !strings.Contains(err.Error(), `search for models {"author":"a"}: `) {
			t.Errorf("%+v: %v", x.f, err)
		}
	}
	c.Offline = true
	if _, err := c.Search(t.Context(), Query{}); !errors.Is(err, &Error{Kind: OfflineMode}) {
		t.Errorf("offline: %v", err)
	}
}

// Thousands of models are all found, each once, in the same order whatever the
// pages; a limit leaves the rest unread.
func TestSearchOfThousands(t *testing.T) {
	s, c := library(t)
	const many = 4_000
	for i := range many {
		s.Add(fmt.Sprintf("big/m%05d", i), nil).Set(func(r *hubtest.Repo) { r.Tags, r.Downloads = []string{"da"}, i%977 })
	}
	found, err := c.Search(t.Context(), Query{Author: "big"})
	if err != nil || len(found) != many {
		t.Fatalf("%d models, %v", len(found), err)
	}
	if !slices.IsSortedFunc(found, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(b.Downloads, a.Downloads), cmp.Compare(a.ID, b.ID))
	}) {
		t.Error("not sorted")
	}
	asked := len(s.Requests())
	first, err := c.Search(t.Context(), Query{Author: "big", Limit: 30})
	if err != nil || !slices.Equal(first, found[:30]) {
		t.Errorf("the first 30: %v", err)
	}
	if n := len(s.Requests()) - asked; n > 2 {
		t.Errorf("%d pages were read for 30 models", n)
	}
}

// A next page is one of the same Hub, whatever the header says.
func TestNextPage(t *testing.T) {
	for header, want := range map[string]string{
		``: "", `<https://hub/api/models?cursor=2>; rel="next"`: "https://hub/api/models?cursor=2",
		`<https://hub/a?p=1>; rel="prev", <https://hub/a?p=3>; rel="next"`: "https://hub/a?p=3",
		`</api/models?c=4>; rel=next`:                                      "https://hub/api/models?c=4", `<http://elsewhere/x>; rel="next"`: "https://hub/x",
		`<https://hub/a>; rel="first"`: "", `garbage`: "",
	} {
		req, err := http.NewRequest(http.MethodGet, "https://hub/api/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := nextPage(&http.Response{Request: req, Header: http.Header{"Link": {header}}}); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}
