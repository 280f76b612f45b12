package web

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/results"
)

// made returns the board of n made-up models on the paper's data sets, and more
// data sets until there are columns of them. Model i is better than model i+1 in truth.
func made(t testing.TB, n, columns int) *leaderboard.Board {
	t.Helper()
	tasks := []leaderboard.Task{
		{Name: "ner", Metrics: []scoring.Metric{{Name: "micro_f1", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "micro_f1_no_misc", Hi: 1, Scale: 100}}},
		{Name: "sentiment", Metrics: []scoring.Metric{{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "macro_f1", Hi: 1, Scale: 100}}},
		{Name: "acceptability", Metrics: []scoring.Metric{{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "macro_f1", Hi: 1, Scale: 100}}},
		{Name: "qa", Metrics: []scoring.Metric{{Name: "em", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "f1", Hi: 1, Scale: 100}}},
	}
	sets := slices.Concat(leaderboard.Mainland(), leaderboard.Insular())
	for i := len(sets); i < columns; i++ {
		sets = append(sets, leaderboard.Column{Name: fmt.Sprintf("extra-%d", i), Task: "sentiment", Languages: []string{"is"}})
	}
	sets = sets[:min(columns, len(sets))]
	r := rand.New(rand.NewPCG(1, 2))
	var recs []results.Record
	for m := range n {
		for _, d := range sets {
			task := tasks[slices.IndexFunc(tasks, func(t leaderboard.Task) bool { return t.Name == d.Task })]
			rec := results.Record{
				Bench: "test", Protocol: "paper", Trainer: "t", Finished: time.Date(2026, 1, 31-m%30, 3, 4, 5, 0, time.UTC),
				Model:   results.Model{ID: fmt.Sprintf("org/model-%03d", m), Revision: "r", Kind: "hub", Parameters: int64(20e6 + 2e6*float64(m)), MaxLength: 512, Vocabulary: 50000, Licence: []string{"mit", "apache-2.0, cc-by-4.0", ""}[m%3]},
				Dataset: results.Dataset{Name: d.Name, Digest: "d", Task: d.Task, TaskVersion: 1, Languages: d.Languages, TestRows: 2048},
			}
			for i := range 10 {
				x := math.Max(0.31, 0.9-0.5*float64(m)/float64(n)) + 0.01*r.NormFloat64()
				if m == 2 && d.Name == "dane" && i == 3 {
					x = 0.01 // a training that learnt nothing
				}
				scores := scoring.Scores{}
				for k, metric := range task.Metrics {
					scores[metric.Name] = scoring.Num(x - 0.05*float64(k))
				}
				rec.Replicates = append(rec.Replicates, results.Replicate{Seed: 4242 + i, Scores: scores, Steps: 300 + i, Job: fmt.Sprint(i), Device: "cuda", DeviceName: "Test GPU", GPUs: 1, Seconds: results.Seconds{Train: 60}})
			}
			if m == n-1 && d.Name == sets[0].Name {
				continue // incomplete
			}
			rec.Summarize(task.Metrics)
			recs = append(recs, rec)
		}
	}
	b, err := leaderboard.Build(recs, leaderboard.Options{Bench: "test", Tasks: tasks, Columns: sets, Losses: func(job string) [][2]float64 {
		if job != "0" {
			return nil
		}
		return [][2]float64{{30, 0.9}, {60, 0.5}, {90, 0.6}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, b *leaderboard.Board, o Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a page & more")
	if err := Write(dir, b, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// address is that of the page in a folder.
func address(dir string) string {
	return (&url.URL{Scheme: "file", Path: filepath.Join(dir, "index.html")}).String()
}

// browser opens Chromium, and fails the test when a page writes errors.
func browser(t testing.TB) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "chromium") {
			t.Fatal("chromium is required here (BENCH_TEST_REQUIRE) and is not installed")
		}
		t.Skip("there is no Chromium here")
	}
	o := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), o...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute) // of a machine with much else to do
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // opens the browser
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(e any) {
		if e, ok := e.(*cdp.EventExceptionThrown); ok {
			t.Errorf("the page throws: %s", describe(e))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func describe(e *cdp.EventExceptionThrown) string {
	text, _ := json.Marshal(e)
	return string(text)
}

func do(t testing.TB, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// look evaluates an expression in the page.
func look[T any](t testing.TB, ctx context.Context, expression string) T {
	t.Helper()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// wait waits until an expression has a value: rows beyond the first screen come a little later.
func wait[T comparable](t testing.TB, ctx context.Context, expression string, want T) {
	t.Helper()
	got := look[T](t, ctx, expression)
	for end := time.Now().Add(20 * time.Second); got != want && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got = look[T](t, ctx, expression)
	}
	if got != want {
		t.Errorf("%s is %v, want %v", expression, got, want)
	}
}

func shot(t testing.TB, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("BENCH_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o666); err != nil {
		t.Fatal(err)
	}
}

const (
	firstModel = `document.querySelector("table.board tbody tr th").textContent`
	visible    = `document.querySelectorAll("table.board tbody tr").length`
	count      = `document.querySelector(".count").textContent`
)

func TestPage(t *testing.T) {
	ctx := browser(t)
	board := made(t, 30, 18)
	board.Transfer = &leaderboard.Transfer{Columns: []string{"da", "sv"}, Rows: []leaderboard.TransferRow{
		{Language: "da", Model: "org/model-001", Values: []scoring.Value{scoring.Num(70), scoring.Num(60)}}, {Language: "en", Values: []scoring.Value{scoring.Num(50), {Undefined: "none"}}},
	}}
	dir := write(t, board, Options{Title: "Scores <of> a test"})
	page := address(dir)
	do(t, ctx, chromedp.Navigate(page), chromedp.WaitVisible("table.board"))
	shot(t, ctx, "table")

	if got := look[string](t, ctx, firstModel); got != "org/model-000" {
		t.Errorf("the first model is %q", got)
	}
	if got := look[string](t, ctx, count); got != "29 of 30 models" {
		t.Errorf("count says %q", got)
	}
	if got := look[string](t, ctx, `document.title`); got != "Scores <of> a test" {
		t.Errorf("title %q", got)
	}
	if got := look[string](t, ctx, `document.querySelector("td .flag").getAttribute("aria-label")`); !strings.HasPrefix(got, "1 training learnt nothing; the median is 8") {
		t.Errorf("the collapsed training is flagged with %q", got)
	}

	// Sorting by a click, and back; by the keyboard.
	header := `th[data-key="dataset:dane"] button`
	do(t, ctx, chromedp.Click(header))
	if got := look[string](t, ctx, `document.querySelector('th[data-key="dataset:dane"]').getAttribute("aria-sort")`); got != "descending" {
		t.Errorf("aria-sort is %q", got)
	}
	do(t, ctx, chromedp.Click(header))
	if got := look[string](t, ctx, firstModel); got < "org/model-025" {
		t.Errorf("ascending, the first is %q", got)
	}
	do(t, ctx, chromedp.Focus(`th[data-key="name"] button`), chromedp.KeyEvent(kb.Enter))
	if got := look[string](t, ctx, firstModel); got != "org/model-000" {
		t.Errorf("by name, the first is %q", got)
	}

	// Search, size, incomplete models.
	do(t, ctx, chromedp.SendKeys(`input[name="search"]`, "model-01"))
	if got := look[int](t, ctx, visible); got != 10 {
		t.Errorf("%d models match model-01, want 10", got)
	}
	do(t, ctx, chromedp.SendKeys(`input[name="search"]`, "zzz"))
	if got := look[string](t, ctx, count); got != "0 of 30 models" {
		t.Errorf("count says %q", got)
	}
	do(t, ctx, chromedp.SendKeys(`input[name="search"]`, strings.Repeat(kb.Backspace, len("model-01zzz"))))
	choose := func(name, value string) {
		t.Helper()
		do(t, ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const s = document.querySelector('select[name="%s"]'); s.value = "%s"; s.dispatchEvent(new Event("change", {bubbles: true})); })()`, name, value)))
	}
	choose("size", "small")
	if got := look[int](t, ctx, visible); got != 15 { // 20 M to 48 M
		t.Errorf("%d small models, want 15", got)
	}
	choose("size", "")
	choose("complete", "show")
	if got := look[string](t, ctx, count); got != "30 of 30 models" {
		t.Errorf("count says %q", got)
	}
	wait(t, ctx, visible, 31) // with the line between them
	if got := look[string](t, ctx, `document.querySelector("tr.apart").textContent + document.querySelector("tbody tr:last-child th").innerText`); got != "1 model without a rank, for want of data setsorg/model-029 1 missing" {
		t.Errorf("apart stands %q", got)
	}
	if look[bool](t, ctx, `(() => { const th = document.querySelector("tbody tr:last-child th"); return th.scrollWidth > th.clientWidth; })()`) {
		t.Error("what a model lacks is cut off")
	}
	// A model that lacks only Danish data is ranked in Swedish.
	choose("complete", "hide")
	choose("language", "sv")
	wait(t, ctx, visible, 30)
	if got := look[string](t, ctx, `document.querySelector("tbody tr:last-child").innerText`); !strings.HasPrefix(got, "org/model-029\t30\t") {
		t.Errorf("the last one in Swedish is %q", got)
	}
	choose("language", "")

	// Licence and date.
	choose("licence", "cc-by-4.0")
	wait(t, ctx, count+` + " " + document.querySelector("tbody tr td.text")?.textContent`, "10 of 30 models apache-2.0, cc-by-4.0")
	choose("licence", "unknown")
	if got := look[string](t, ctx, count); got != "9 of 30 models" { // model 29 has none either, and is incomplete
		t.Errorf("of unknown licence: %q", got)
	}
	choose("licence", "")
	since := func(day string) {
		t.Helper()
		do(t, ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const s = document.querySelector('input[name="since"]'); s.value = "%s"; s.dispatchEvent(new Event("change", {bubbles: true})); })()`, day)))
	}
	since("2026-01-27")
	if got := look[string](t, ctx, count); got != "5 of 30 models" {
		t.Errorf("since the 27th: %q", got)
	}
	since("")

	// All data sets away, and back.
	do(t, ctx, chromedp.Click(`button[name="groups"]`))
	if got := look[int](t, ctx, `document.querySelectorAll("tr.columns th").length`); got != 3+5+2 {
		t.Errorf("%d columns without data sets, want 10", got)
	}
	do(t, ctx, chromedp.Click(`button[name="groups"]`))

	// One language, one task; a collapsed group.
	choose("language", "sv")
	if got := look[[]string](t, ctx, `[...document.querySelectorAll("tr.columns th")].map((t) => t.dataset.key)`); !slices.Equal(got, []string{"name", "rank", "score", "dataset:suc3", "dataset:swerec", "dataset:scala-sv", "dataset:scandiqa-sv", "parameters", "licence"}) {
		t.Errorf("Swedish columns: %v", got)
	}
	choose("language", "")
	choose("task", "ner")
	if got := look[int](t, ctx, `document.querySelectorAll("tr.columns th").length`); got != 3+6+1+2 {
		t.Errorf("%d columns of named entities, want 12: six data sets and the mean of the two Norwegian ones", got)
	}
	choose("language", "no")
	if got := look[[]string](t, ctx, `[...document.querySelectorAll("tbody tr:nth-child(3) td")].slice(0, 2).map((td) => td.textContent.split("±")[0])`); len(got) != 2 || got[0] != "3" || !strings.HasPrefix(got[1], "86.1") {
		t.Errorf("rank and mean of model 2 in Norwegian named entities: %q", got)
	}
	choose("language", "")
	choose("task", "")
	before := look[int](t, ctx, `document.querySelectorAll("tr.columns th").length`)
	do(t, ctx, chromedp.Click(`[data-language="da"]`))
	if got := look[int](t, ctx, `document.querySelectorAll("tr.columns th").length`); got != before-4 {
		t.Errorf("closing Danish leaves %d of %d columns, want 4 less", got, before)
	}
	if got := look[string](t, ctx, `document.activeElement.dataset.language + document.activeElement.getAttribute("aria-expanded")`); got != "dafalse" {
		t.Errorf("after closing, the focus is on %q", got)
	}

	// The address says what is shown, and shows it again.
	choose("language", "sv")
	choose("size", "small")
	do(t, ctx, chromedp.Click(`th[data-key="dataset:suc3"] button`), chromedp.Reload(), chromedp.WaitVisible("table.board"))
	if got := look[string](t, ctx, `location.hash + document.querySelector('select[name="language"]').value + document.querySelector("[aria-sort]").dataset.key`); got != "#table=language:sv;size:small;sort:dataset%3Asuc3svdataset:suc3" {
		t.Errorf("after a reload: %s", got)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "#table=size:%zz;language:xx;task:ner"`))
	if got := look[string](t, ctx, `location.hash`); got != "#table=task:ner" {
		t.Errorf("of a wrong address is left: %s", got)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "#table="`), chromedp.WaitVisible(`[data-language="da"]`))

	// The header stays when the table is scrolled.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`document.querySelector(".scroll").scrollTo(300, 400)`))
	if !look[bool](t, ctx, `(() => { const s = document.querySelector(".scroll").getBoundingClientRect(), h = document.querySelector('th[data-key="name"]').getBoundingClientRect(); return Math.abs(h.left - s.left) < 3 && h.top >= s.top - 1 && h.top < s.top + 60; })()`) {
		t.Error("header and first column do not stick")
	}

	// A model's page: ten dots for each data set.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "#model=org%2Fmodel-002"`), chromedp.WaitVisible("dl.facts"))
	if got := look[int](t, ctx, `document.querySelectorAll("main svg circle").length`); got != 180 {
		t.Errorf("%d dots, want 10 for each of 18 data sets", got)
	}
	if got := look[string](t, ctx, `document.querySelector("main path.curve").getAttribute("d")`); got != "M50.0,2.0L100.0,44.0L150.0,33.5" {
		t.Errorf("the first loss curve is %s", got)
	}
	text := look[string](t, ctx, `document.querySelector("main").innerText`)
	for _, want := range []string{"org/model-002", "unknown", "3 of 29", "1–", "60 s a seed", "Test GPU", "micro-F1 without MISC", "1 learnt nothing; median 8", "24 M", "huggingface.co/org/model-002"} {
		if !strings.Contains(text, want) {
			t.Errorf("the model's page lacks %q", want)
		}
	}
	shot(t, ctx, "model")

	// Two models side by side: far apart, then the same one.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "#compare=org%2Fmodel-000,org%2Fmodel-020"`), chromedp.WaitVisible("td.better"))
	if got := look[string](t, ctx, `document.querySelector("main").innerText`); !strings.Contains(got, "org/model-000 is better on 18, org/model-020 on 0 of 18 data sets") || !strings.Contains(got, "Overall, org/model-000 is better by 3") {
		t.Errorf("comparison: %.300s", got)
	}
	shot(t, ctx, "compare")
	do(t, ctx, chromedp.Click("#to-transfer"), chromedp.WaitVisible("table.heat"))
	if got := look[string](t, ctx, `document.querySelector("table.heat").innerText`); !strings.Contains(got, "Swedish") || !strings.Contains(got, "70.00") || !strings.Contains(got, "—") {
		t.Errorf("heat map: %s", got)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "#model=nobody"`), chromedp.WaitVisible(`main a[href="#"]`))

	// Dark, and a phone: nothing sticks out of the page.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = ""`), chromedp.WaitVisible("table.board"), chromedp.Click("#theme"))
	if got := look[string](t, ctx, `getComputedStyle(document.body).backgroundColor`); got != "rgb(13, 17, 23)" {
		t.Errorf("dark ground is %s", got)
	}
	shot(t, ctx, "dark")
	do(t, ctx, chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2), chromedp.EmulateMobile), chromedp.Reload(), chromedp.WaitVisible("table.board"))
	for _, view := range []string{"", "#model=org%2Fmodel-001", "#compare=org%2Fmodel-000,org%2Fmodel-001", "#about"} {
		do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "`+view+`"`), chromedp.Sleep(200*time.Millisecond))
		if w := look[int](t, ctx, `document.documentElement.scrollWidth`); w > 360 {
			t.Errorf("on a phone, view %q is %d wide", view, w)
		}
		shot(t, ctx, "phone"+strings.NewReplacer("#", "-", "=", "-", "%2F", "-", ",", "-").Replace(view))
	}
	// What screen readers go by.
	for _, wrong := range []string{`main svg:not([role="img"][aria-label])`, `button:empty`, `input:not([aria-label]):not(label input)`, `th:not([scope])`, `table:not(:has(caption))`, `select:not(label select)`, `.scroll:not([tabindex][role][aria-label])`} {
		if n := look[int](t, ctx, fmt.Sprintf(`document.querySelectorAll(%q).length`, wrong)); n > 0 {
			t.Errorf("%d elements are %s", n, wrong)
		}
	}
}

// Of many models all rows come, though not at once, and the last sort wins.
func TestManyModels(t *testing.T) {
	ctx := browser(t)
	dir := write(t, made(t, 200, 14), Options{})
	do(t, ctx, chromedp.Navigate(address(dir)), chromedp.WaitVisible("table.board"))
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`document.querySelector('th[data-key="name"] button').click()`), chromedp.Evaluate[chromedp.Void](`document.querySelector('th[data-key="name"] button').click()`))
	wait(t, ctx, visible, 199)
	names := look[[]string](t, ctx, `[...document.querySelectorAll("tbody th a")].map((a) => a.textContent)`)
	if len(names) != 199 || !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%d rows, the first ones %v", len(names), names[:min(3, len(names))])
	}
}

// A page that is written again loses the files of models that are gone, and its
// JSON is the board.
func TestWriteAgain(t *testing.T) {
	dir := write(t, made(t, 5, 14), Options{})
	b := made(t, 3, 14)
	for range 2 {
		if err := Write(dir, b, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "models", "*.js"))
	if err != nil || len(files) != 3 {
		t.Errorf("%d model files, %v; want 3", len(files), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "leaderboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back leaderboard.Board
	if err := json.Unmarshal(text, &back); err != nil || len(back.Models)+len(back.Unranked) != 3 {
		t.Errorf("%v, %d models", err, len(back.Models)+len(back.Unranked))
	}
	again := write(t, b, Options{})
	for _, name := range []string{"data.js", "leaderboard.json", "index.html"} {
		x, _ := os.ReadFile(filepath.Join(dir, name))
		y, _ := os.ReadFile(filepath.Join(again, name))
		if string(x) != string(y) {
			t.Errorf("%s differs between two writes of one board", name)
		}
	}
}

// An aggregate without ranks is not taken for ranks without an aggregate.
func TestWithoutRanks(t *testing.T) {
	b := made(t, 4, 14)
	a := b.Models[1].ByCell["no/ner"]
	a.Rank = nil
	b.Models[1].ByCell["no/ner"] = a
	p := newPage(b, Options{})
	at := slices.Index(p.Cells, "no/ner")
	if got := p.Models[1].Cells[at]; len(got) != 4 || got[0] != nil || got[1] != nil || got[2] == nil || math.Abs(*got[2]-a.Value.X) > 0.006 {
		t.Errorf("without ranks: %v", got)
	}
	if got := p.Models[0].Cells[at]; len(got) != 4 || *got[0] != 1 {
		t.Errorf("with ranks: %v", got)
	}
	if got := p.Models[0].Cells[slices.Index(p.Cells, "da/ner")]; len(got) != 2 {
		t.Errorf("of one data set: %v", got)
	}
}

// That scores of several protocols stand in one table is told before the table.
func TestMixed(t *testing.T) {
	ctx := browser(t)
	b := made(t, 6, 14)
	b.Protocols, b.Mixed, b.Notes = []string{"paper", "smoke"}, true, []string{"they are not the same quantity", "more"}
	for i := range b.Models[:2] {
		b.Models[i].Protocol = "smoke"
	}
	do(t, ctx, chromedp.Navigate(address(write(t, b, Options{}))+"#table=protocol:smoke"), chromedp.WaitVisible("table.board"))
	if got := look[string](t, ctx, `document.querySelector(".scroll").previousElementSibling.textContent + document.querySelector(".scroll").nextElementSibling.textContent + `+count); got != "They are not the same quantity.More.2 of 6 models" {
		t.Errorf("told: %q", got)
	}
	if got := look[string](t, ctx, firstModel+` + document.getElementById("subtitle").textContent`); !strings.HasPrefix(got, "org/model-000 (smoke)") || !strings.Contains(got, "not comparable") {
		t.Errorf("%q", got)
	}
}

// A model's name cannot break out of the page.
func TestHostileNames(t *testing.T) {
	ctx := browser(t)
	b := made(t, 3, 14)
	b.Models[0].Model = `x"><img src=x onerror=window.broken=1></script><script>window.broken=1</script>`
	dir := write(t, b, Options{Title: `</title><script>window.broken=1</script>`})
	do(t, ctx, chromedp.Navigate(address(dir)), chromedp.WaitVisible("table.board"), chromedp.Evaluate[chromedp.Void](`document.querySelector("tbody a").click()`), chromedp.WaitVisible("dl.facts"))
	if look[bool](t, ctx, `window.broken === 1`) {
		t.Error("a model's name ran as code")
	}
}

// BenchmarkPage measures in Chromium how long 500 models × 20 data sets take from the
// first script to a table that is laid out, and to sort by another column.
func BenchmarkPage(b *testing.B) {
	ctx := browser(b)
	dir := write(b, made(b, 500, 20), Options{})
	info, err := os.Stat(filepath.Join(dir, "data.js"))
	if err != nil {
		b.Fatal(err)
	}
	var load, sort []float64
	for b.Loop() {
		do(b, ctx, chromedp.Navigate(address(dir)), chromedp.WaitVisible("table.board"))
		load = append(load, look[float64](b, ctx, `(() => { document.body.offsetHeight; return performance.getEntriesByName("shown")[0].startTime - performance.getEntriesByType("navigation")[0].responseEnd; })()`))
		sort = append(sort, look[float64](b, ctx, `(() => { const t = performance.now(); document.querySelector('th[data-key="dataset:swerec"] button').click(); document.body.offsetHeight; return performance.now() - t; })()`))
	}
	slices.Sort(load)
	slices.Sort(sort)
	b.ReportMetric(load[len(load)/2], "ms-load")
	b.ReportMetric(sort[len(sort)/2], "ms-sort")
	b.ReportMetric(load[0], "ms-least-load") // on a busy machine the least says most of the page
	b.ReportMetric(sort[0], "ms-least-sort")
	b.ReportMetric(float64(info.Size())/1e6, "MB-data")
	b.ReportMetric(0, "ns/op")
}
