// Package conllu reads treebanks in CoNLL-U, the format of Universal
// Dependencies (version 2): ten tab-separated columns a row, one row a word, a
// blank line after each sentence, comments in front.
//
// The reader is strict: what the format forbids ends the reading with a
// *SyntaxError that names file and line, so that a damaged treebank never
// becomes a smaller one. Tolerated are CRLF line ends, a byte order mark, more
// than one blank line between sentences, and a missing line end or blank line
// at the very end. Values are not checked against the tag sets of Universal
// Dependencies; "_" stands for "not given" in every column but the first two.
package conllu

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says what a row stands for.
type Kind uint8

// The kinds of rows. Only words take part in the syntax of a sentence and count
// as its tokens.
const (
	Word  Kind = iota
	Range      // multi-word token: one surface form for the words First to Last
	Empty      // empty node of the enhanced graph, after word First
)

// Row is one row of a sentence. Columns hold the text of the file; "_" is kept.
type Row struct {
	Kind  Kind
	First int // number of the word; first word of a range; word before an empty node (0: at the start)
	Last  int // last word of a range, else First
	Sub   int // number of an empty node among those after First, from 1; else 0
	Line  int // 1-based line in the file

	Form, Lemma, UPOS, XPOS, Feats string
	Head                           int // number of the governing word, 0 for the root, NoHead if "_"
	DepRel, Deps, Misc             string
}

// NoHead is the Head of a row whose column says "_".
const NoHead = -1

// ID returns the first column: "7", "7-8" or "7.1".
func (r Row) ID() string {
	switch r.Kind {
	case Range:
		return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
	case Empty:
		return strconv.Itoa(r.First) + "." + strconv.Itoa(r.Sub)
	}
	return strconv.Itoa(r.First)
}

// MiscValue returns the value of key in the MISC column, which holds
// "key=value" parts between "|", in whatever order.
func (r Row) MiscValue(key string) (string, bool) {
	for part := range strings.SplitSeq(r.Misc, "|") {
		if v, ok := strings.CutPrefix(part, key); ok && strings.HasPrefix(v, "=") {
			return v[1:], true
		}
	}
	return "", false
}

// Sentence is one sentence: its comments and its rows, in file order.
type Sentence struct {
	File     string
	Line     int      // 1-based line of the first comment or row
	Comments []string // whole lines, "#" included
	Rows     []Row
}

// Words returns the rows that are words, without range rows and empty nodes:
// Words()[i].First is i+1.
func (s Sentence) Words() []Row {
	n := 0
	for _, r := range s.Rows {
		if r.Kind == Word {
			n++
		}
	}
	if n == len(s.Rows) {
		return s.Rows
	}
	words := make([]Row, 0, n)
	for _, r := range s.Rows {
		if r.Kind == Word {
			words = append(words, r)
		}
	}
	return words
}

// Comment returns the value of the first comment "# key = value", without the
// white space around it.
func (s Sentence) Comment(key string) (string, bool) {
	for _, c := range s.Comments {
		k, v, ok := strings.Cut(strings.TrimPrefix(c, "#"), "=")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// ID returns the comment sent_id, or "".
func (s Sentence) ID() string {
	v, _ := s.Comment("sent_id")
	return v
}

// Text returns the comment text, or "".
func (s Sentence) Text() string {
	v, _ := s.Comment("text")
	return v
}

// AppendTo appends the sentence in CoNLL-U, with the blank line after it.
func (s Sentence) AppendTo(dst []byte) []byte {
	for _, c := range s.Comments {
		dst = append(append(dst, c...), '\n')
	}
	for _, r := range s.Rows {
		head := "_"
		if r.Head != NoHead {
			head = strconv.Itoa(r.Head)
		}
		for i, col := range [...]string{r.ID(), r.Form, r.Lemma, r.UPOS, r.XPOS, r.Feats, head, r.DepRel, r.Deps, r.Misc} {
			if i > 0 {
				dst = append(dst, '\t')
			}
			dst = append(dst, col...)
		}
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

// SyntaxError says where a file is not CoNLL-U.
type SyntaxError struct {
	File string
	Line int // 1-based
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Hint says what a person can do.
func (e *SyntaxError) Hint() string {
	return "the file is no whole CoNLL-U: get it again if it was copied or edited, else correct the line (https://universaldependencies.org/format.html)"
}
