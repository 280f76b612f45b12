package scandiqa

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// minParagraph is what a paragraph must exceed, in characters.
const minParagraph = 200

// maxParagraphs bounds the paragraphs of a page together, in bytes. Elements lie
// in each other, so that their texts together can be far longer than the page.
const maxParagraphs = 256 << 20

// hidden are the elements whose text is not text of the page.
var hidden = map[string]bool{"script": true, "style": true, "template": true, "rt": true, "rp": true}

// void are the elements that have no end tag.
var void = map[string]bool{
	"area": true, "base": true, "br": true, "col": true, "embed": true, "hr": true, "img": true, "input": true,
	"keygen": true, "link": true, "menuitem": true, "meta": true, "param": true, "source": true, "track": true, "wbr": true,
	"basefont": true, "bgsound": true, "command": true, "frame": true, "image": true, "isindex": true, "nextid": true, "spacer": true,
}

// longAnswer returns the text of the bytes [start, end) of a page.
func longAnswer(page []byte, start, end int) (string, error) {
	if start < 0 || end < start || end > len(page) {
		return "", fmt.Errorf("the long answer is at bytes %d to %d of a page of %d bytes", start, end, len(page))
	}
	return scan(page[start:end], nil), nil
}

// paragraphs returns the texts of all <p>, then all <span>, then all <table>
// that are longer than minParagraph, each group in the order of the page,
// without line ends around them.
func paragraphs(page []byte) ([]string, error) {
	groups := map[string][]element{"p": nil, "span": nil, "table": nil}
	text := scan(page, groups)
	var out []string
	size := 0
	for _, name := range []string{"p", "span", "table"} {
		slices.SortFunc(groups[name], func(a, b element) int { return a.order - b.order })
		for _, e := range groups[name] {
			t := text[e.start:e.end]
			if len(t) <= minParagraph || utf8.RuneCountInString(t) <= minParagraph {
				continue
			}
			if size += len(t); size > maxParagraphs {
				return nil, fmt.Errorf("the texts of the page's elements, which lie in each other, are longer than %d bytes", maxParagraphs)
			}
			out = append(out, strings.Trim(t, "\n"))
		}
	}
	return out, nil
}

// element is an open or closed element and its part of the text.
type element struct {
	name       string
	order      int
	start, end int
}

// preserved are the elements whose white space is all kept.
var preserved = map[string]bool{"pre": true, "textarea": true}

// squeeze returns a text between two tags. One that is nothing but white space
// becomes a line end if it has one, else a space.
func squeeze(text []byte, verbatim bool) []byte {
	switch {
	case verbatim || len(text) == 0 || len(bytes.Trim(text, " \n\t\f\r")) > 0:
		return text
	case bytes.IndexByte(text, '\n') >= 0:
		return []byte{'\n'}
	}
	return []byte{' '}
}

// scan returns the visible text of a page or of a part of one, without any
// white space of its own: the texts of neighbouring elements touch. Elements
// whose names groups has are added there as they end.
//
// Tags are matched as Beautiful Soup does it over Python's html.parser: an end
// tag closes the innermost open element of its name and all that are in it, one
// without such an element is nothing, and start tags close nothing. The HTML 5
// algorithm, which moves elements, would give other texts than those that the
// data set was made of. One difference is left: of a character reference that
// does not exist, Beautiful Soup drops the semicolon.
func scan(page []byte, groups map[string][]element) string {
	var text strings.Builder
	var open []element
	count := map[string]int{}
	concealed, verbatim := 0, 0 // open elements that hide text, that keep its white space
	var pending []byte          // text up to the next tag
	flush := func() {
		if concealed == 0 {
			text.Write(squeeze(pending, verbatim > 0))
		}
		pending = pending[:0]
	}
	pop := func() {
		e := open[len(open)-1]
		open = open[:len(open)-1]
		count[e.name]--
		if hidden[e.name] {
			concealed--
		}
		if preserved[e.name] {
			verbatim--
		}
		if _, ok := groups[e.name]; ok {
			e.end = text.Len()
			groups[e.name] = append(groups[e.name], e)
		}
	}
	z := html.NewTokenizer(bytes.NewReader(page))
	for order := 0; ; order++ {
		kind := z.Next()
		if kind != html.TextToken {
			flush()
		}
		switch kind {
		case html.ErrorToken: // the end: reading memory does not fail
			for len(open) > 0 {
				pop()
			}
			return text.String()
		case html.TextToken:
			pending = append(pending, z.Text()...)
		case html.CommentToken:
			if c, ok := bytes.CutPrefix(z.Text(), []byte("[CDATA[")); ok {
				pending = append(pending, bytes.TrimSuffix(c, []byte("]]"))...)
				flush()
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			b, _ := z.TagName()
			e := element{name: string(b), order: order, start: text.Len()}
			open = append(open, e)
			count[e.name]++
			if hidden[e.name] {
				concealed++
			}
			if preserved[e.name] {
				verbatim++
			}
			if e.name != "script" && e.name != "style" {
				z.NextIsNotRawText() // there are tags in <title> and <textarea>
			}
			if kind == html.SelfClosingTagToken || void[e.name] {
				pop()
			}
		case html.EndTagToken:
			b, _ := z.TagName()
			name := string(b)
			if count[name] == 0 {
				continue
			}
			for open[len(open)-1].name != name {
				pop()
			}
			pop()
		}
	}
}
