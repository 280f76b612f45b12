package hubtest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PageSize makes listings come in pages of at most n models. 0: 1000.
func (s *Server) PageSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

// list answers /api/models: filter (tags, all of them), author, search, sort,
// limit and expand, in pages that name the next one in a Link header.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	var all []map[string]any
	for id, repo := range s.repos {
		if strings.HasPrefix(id, "datasets/") || repo.Private && !slices.Contains(repo.Readers, token) {
			continue
		}
		m := modelInfo(repo, repo.refs["main"], false)
		tags := m["tags"].([]string)
		author, _, _ := strings.Cut(id, "/")
		missing := func(tag string) bool { return !slices.Contains(tags, tag) && tag != m["pipeline_tag"] }
		if slices.ContainsFunc(q["filter"], missing) || q.Has("author") && q.Get("author") != author ||
			!strings.Contains(strings.ToLower(id), strings.ToLower(q.Get("search"))) {
			continue
		}
		if m["pipeline_tag"] == "" {
			delete(m, "pipeline_tag")
		}
		if repo.Parameters > 0 && slices.Contains(q["expand"], "safetensors") {
			m["safetensors"] = map[string]any{"parameters": map[string]any{"F32": repo.Parameters}, "total": repo.Parameters}
		}
		delete(m, "siblings")
		delete(m, "cardData")
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b map[string]any) int {
		by := 0
		switch x := a[q.Get("sort")].(type) {
		case int:
			by = b[q.Get("sort")].(int) - x
		case string:
			by = strings.Compare(b[q.Get("sort")].(string), x)
		}
		return cmp.Or(by, strings.Compare(a["id"].(string), b["id"].(string)))
	})
	size := cmp.Or(s.pageSize, 1000)
	if n, err := strconv.Atoi(q.Get("limit")); err == nil {
		size = min(size, n)
	}
	from, _ := strconv.Atoi(q.Get("cursor"))
	from = min(from, len(all))
	page := all[from:min(from+size, len(all))]
	if from+size < len(all) {
		next := url.Values{}
		for k, v := range q {
			next[k] = v
		}
		next.Set("cursor", fmt.Sprint(from+size))
		w.Header().Set("Link", "<"+s.URL+"/api/models?"+next.Encode()+`>; rel="next"`)
	}
	if page == nil {
		page = []map[string]any{}
	}
	sendJSON(w, page)
}

// told is what the API says of a repository as such.
func (r *Repo) told(tags []string) (all []string, pipeline string, created time.Time) {
	pipeline, created = "fill-mask", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if r.Pipeline != nil {
		pipeline = *r.Pipeline
	}
	if r.Tags != nil {
		tags = append(slices.Clone(r.Tags), tags[2:]...)
	}
	if !r.Created.IsZero() {
		created = r.Created
	}
	return tags, pipeline, created
}
