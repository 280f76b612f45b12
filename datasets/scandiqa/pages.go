package scandiqa

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"bench/internal/atomicfile"
)

// page is what a question needs of its Wikipedia page.
type page struct {
	ID       int64  `json:"id"`
	Question string `json:"question"` // as it was typed into the search engine
	Title    string `json:"title"`
	Yes      bool   `json:"yes,omitempty"` // the answer of Natural Questions is "yes"
	// Long is the text of the long answer, cleaned; nil if there is none. Then
	// Paragraphs has what may be the context, as it is on the page.
	Long       *string  `json:"long,omitempty"`
	Paragraphs []string `json:"paragraphs,omitempty"`
}

// pagesHeader is the first line of a state file of the step: which file it was
// made of, and for which questions.
type pagesHeader struct {
	Schema int    `json:"schema"`
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	MKQA   string `json:"mkqa"`
	Pages  int    `json:"pages"`
}

const pagesSchema = 1

// NaturalQuestions lists the files of Natural Questions at a path: a file, or a
// folder with nq-train-NN.jsonl.gz (unpacked ones, too), as the official release
// has them, in the order of their names.
func NaturalQuestions(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: NoSource, Where: path, Detail: "there is no such file or folder", Advice: "check the path", Err: err}
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	for _, pattern := range []string{"nq-train-*.jsonl.gz", "nq-train-*.jsonl"} {
		found, err := filepath.Glob(filepath.Join(path, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, &Error{Kind: NoSource, Where: path, Detail: "the folder has no files nq-train-*.jsonl.gz", Advice: getNaturalQuestions}
	}
	slices.Sort(files)
	// nq-train-00.jsonl and nq-train-00.jsonl.gz are the same questions.
	for i := 1; i < len(files); i++ {
		if strings.TrimSuffix(files[i], ".gz") == strings.TrimSuffix(files[i-1], ".gz") {
			return nil, &Error{Kind: BadSource, Where: files[i], Detail: "the folder has this file unpacked, too", Advice: "remove one of the two"}
		}
	}
	return files, nil
}

// readPages makes sure that the state folder has the pages of all questions that
// files hold. Files done before are not read again. At most one line of each of
// as many files as there are processors is in memory.
func (b *Builder) readPages(ctx context.Context, wanted map[int64]bool, mkqa string, files []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range files {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			h := pagesHeader{Schema: pagesSchema, File: filepath.Base(file), Bytes: info.Size(), MKQA: mkqa}
			if old, err := pagesDone(b.pagesFile(file)); err == nil && h == (pagesHeader{old.Schema, old.File, old.Bytes, "", old.MKQA, 0}) {
				return nil
			}
			b.log("reading Natural Questions: file %d of %d, %s", i+1, len(files), file)
			pages, sum, err := readNaturalQuestions(ctx, file, wanted)
			if err != nil {
				return err
			}
			h.SHA256, h.Pages = sum, len(pages)
			return writePages(b.pagesFile(file), h, pages)
		})
	}
	return g.Wait()
}

// pagesFile is the state file of a file of Natural Questions.
func (b *Builder) pagesFile(source string) string {
	name, _, _ := strings.Cut(filepath.Base(source), ".jsonl")
	return filepath.Join(b.Dir, "pages", name+".jsonl.gz")
}

// readNaturalQuestions reads the pages of the wanted questions. Other lines are
// skipped without looking into them.
func readNaturalQuestions(ctx context.Context, file string, wanted map[int64]bool) (pages []page, sum string, err error) {
	l, err := openLines(file)
	if err != nil {
		return nil, "", err
	}
	defer l.Close()
	for {
		b, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, "", err
		}
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		if id, ok := exampleID(b); ok && !wanted[id] {
			continue
		}
		p, err := parsePage(b)
		if err != nil {
			return nil, "", l.bad("%v", err)
		}
		if wanted[p.ID] {
			pages = append(pages, p)
		}
	}
	sum, err = l.sha256()
	return pages, sum, err
}

var exampleKey = []byte(`"example_id":`)

// exampleID finds the id of a line of Natural Questions without parsing it. A
// quotation mark in a text is escaped, so that the key cannot be found in one.
func exampleID(line []byte) (int64, bool) {
	at := bytes.Index(line, exampleKey)
	if at < 0 {
		return 0, false
	}
	rest := bytes.TrimLeft(line[at+len(exampleKey):], " ")
	end := bytes.IndexAny(rest, ",} ")
	if end < 0 {
		return 0, false
	}
	id, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return id, err == nil
}

// parsePage reads a line of the official release of Natural Questions.
func parsePage(line []byte) (page, error) {
	var j struct {
		ID          *int64 `json:"example_id"`
		Question    string `json:"question_text"`
		Title       string `json:"document_title"`
		HTML        string `json:"document_html"`
		Annotations []struct {
			YesNo string `json:"yes_no_answer"`
			Long  struct {
				Start int `json:"start_byte"`
				End   int `json:"end_byte"`
			} `json:"long_answer"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return page{}, fmt.Errorf("no example of Natural Questions: %v", err)
	}
	switch {
	case j.ID == nil:
		return page{}, fmt.Errorf("no example of Natural Questions: it has no example_id")
	case len(j.Annotations) == 0:
		return page{}, fmt.Errorf("example %d has no annotation: is it of a test split?", *j.ID)
	case j.HTML == "":
		return page{}, fmt.Errorf("example %d has no document_html: the simplified release of Natural Questions lacks the pages, the full one has them", *j.ID)
	}
	p := page{ID: *j.ID, Question: j.Question, Title: j.Title}
	first := j.Annotations[0] // train has one each
	if first.YesNo == "YES" {
		p.Yes = true
		return p, nil
	}
	if first.Long.Start == -1 || first.Long.End == -1 {
		var err error
		if p.Paragraphs, err = paragraphs([]byte(j.HTML)); err != nil {
			return page{}, fmt.Errorf("example %d: %w", p.ID, err)
		}
		return p, nil
	}
	text, err := longAnswer([]byte(j.HTML), first.Long.Start, first.Long.End)
	if err != nil {
		return page{}, fmt.Errorf("example %d: %w", p.ID, err)
	}
	text = CleanText(text)
	p.Long = &text
	return p, nil
}

// writePages stores the pages of one file, whole or not at all.
func writePages(path string, h pagesHeader, pages []page) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		e := json.NewEncoder(z)
		e.SetEscapeHTML(false)
		if err := e.Encode(h); err != nil {
			return err
		}
		for _, p := range pages {
			if err := e.Encode(p); err != nil {
				return err
			}
		}
		return z.Close()
	})
}

// pagesDone reads the header of a state file.
func pagesDone(path string) (pagesHeader, error) {
	var h pagesHeader
	return h, eachPage(path, &h, nil)
}

// eachPage calls f with each page of a state file; f == nil: only the header is
// read.
func eachPage(path string, h *pagesHeader, f func(page) error) error {
	l, err := openLines(path)
	if err != nil {
		return err
	}
	defer l.Close()
	l.limit = 2 * maxParagraphs // of JSON
	damaged := func(err error) error {
		return &Error{Kind: BadState, Where: path, Detail: "the state of an earlier build is damaged: " + err.Error(), Advice: "remove the file: it is made again", Err: err}
	}
	b, err := l.next()
	if err == nil {
		err = json.Unmarshal(b, h)
	}
	if err != nil {
		return damaged(err)
	}
	if f == nil {
		return nil
	}
	for n := 0; ; n++ {
		b, err := l.next()
		if err == io.EOF && n == h.Pages {
			return nil
		}
		if err == io.EOF {
			err = fmt.Errorf("%d pages where there should be %d", n, h.Pages)
		}
		var p page
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			return damaged(err)
		}
		if err := f(p); err != nil {
			return err
		}
	}
}

// sumOf is the SHA-256 of the lines.
func sumOf(lines []string) string {
	h := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(h[:])
}
