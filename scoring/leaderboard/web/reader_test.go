package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"bench/scoring"
	"bench/scoring/leaderboard"
)

// outline is what a screen reader has of the page: a line for each thing, its
// role, its name, and what it is set to.
func outline(t testing.TB, ctx context.Context) []string {
	t.Helper()
	nodes, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) ([]*accessibility.Node, error) {
		tree, err := cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			return nil, err
		}
		return tree.Nodes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	var out []string
	for _, n := range nodes {
		if n.Ignored {
			continue
		}
		line := text(n.Role) + " " + text(n.Name)
		for _, p := range n.Properties {
			switch p.Name {
			case "expanded", "pressed":
				line += fmt.Sprintf(" [%s %s]", p.Name, text(p.Value))
			}
		}
		out = append(out, line)
	}
	return out
}

// TestScreenReader: everything that can be used or looked at has a name, tables
// have captions and headings, and the keyboard gets everywhere.
func TestScreenReader(t *testing.T) {
	ctx := browser(t)
	b := made(t, 12, 18)
	b.Transfer = &leaderboard.Transfer{Columns: []string{"da"}, Rows: []leaderboard.TransferRow{{Language: "da", Model: "org/model-001", Values: []scoring.Value{scoring.Num(70)}}}}
	dir := write(t, b, Options{})
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	for view, want := range map[string][]string{
		"": {
			"searchbox Model", "combobox Language", "combobox Task", "combobox Size", "combobox Licence", "Date Measured since", "combobox Incomplete models",
			"button Hide data sets", "status ", "region Scores", "table Models and their scores", "columnheader Danish", "button Danish [expanded true]",
			"columnheader Score", "button Score", "rowheader org/model-003", "link org/model-003", "image 1 training learnt nothing; the median is 8", "navigation Views", "link Skip to the table",
		},
		"#model=org%2Fmodel-002":                   {"heading org/model-002", "table Scores on each data set", "image dane: 10 seeds from 1.00 to 8", "image validation losses from 0.900 to 0.500 over 90 steps"},
		"#compare=org%2Fmodel-000,org%2Fmodel-001": {"combobox First model", "combobox Second model", "table Scores of both models", "image dane: first model, 10 seeds from 8"},
		"#transfer": {"table Scores of models in other languages", "columnheader Danish", "rowheader Danish"},
		"#about":    {"table Data sets", "link leaderboard.json"},
	} {
		// From a web server as from a folder.
		do(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/index.html"+view), chromedp.WaitVisible("main table"))
		if view == "" {
			wait(t, ctx, visible, 11)
			wait(t, ctx, `document.querySelectorAll("tbody tr:last-child > *").length === document.querySelectorAll("tr.columns th").length`, true)
		}
		lines := outline(t, ctx)
		if out := os.Getenv("BENCH_TEST_SCREENSHOTS"); out != "" {
			name := "outline" + strings.NewReplacer("#", "-", "=", "-", "%2F", "-", ",", "-").Replace(view) + ".txt"
			if err := os.WriteFile(filepath.Join(out, name), []byte(strings.Join(lines, "\n")), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range want {
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, w) }) {
				t.Errorf("view %q has no %q", view, w)
			}
		}
		for _, l := range lines {
			role, name, _ := strings.Cut(l, " ")
			if slices.Contains([]string{"button", "link", "textbox", "searchbox", "combobox", "image", "table", "region", "heading", "columnheader", "rowheader", "navigation", "search"}, role) && strings.TrimSpace(name) == "" && role != "search" {
				t.Errorf("view %q: a %s has no name", view, role)
			}
		}
	}

	// The keyboard: past the navigation, into the table, and to the end of a sort.
	do(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address(dir)+"#model=org%2Fmodel-002"), chromedp.WaitVisible("main table"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	if got := look[string](t, ctx, `document.activeElement.id + location.hash`); got != "main#model=org%2Fmodel-002" {
		t.Errorf("the skip link leads to %q", got)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = ""`), chromedp.WaitVisible("table.board"), chromedp.Focus(`[data-language="sv"]`), chromedp.KeyEvent(" "))
	if got := look[string](t, ctx, `document.activeElement.dataset.language + document.activeElement.getAttribute("aria-expanded")`); got != "svfalse" {
		t.Errorf("after the space bar, the focus is on %q", got)
	}
}
