package raw

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of what is read of an XML file at a time. The longest of the corpora
// are far below them; a file that has no end of a tag, or no end of tags, must
// not fill memory.
const (
	maxXMLPiece = 1 << 20 // bytes of a tag, a text or a comment
	maxXMLDepth = 64      // elements inside one another
	maxXMLWords = 100_000 // words of a sentence
)

// NamedWord is a word of a sentence in which names are marked.
type NamedWord struct {
	Line  int
	Text  string
	Name  string // type of the name that the word is in, as the file has it; "": none
	First bool   // the word is the first of its name
}

// NamedSentence is a sentence of an XML corpus.
type NamedSentence struct {
	Line  int
	ID    string // attribute id, or ""
	Words []NamedWord
}

// ReadNames reads a corpus in the XML of Språkbanken, sentence by sentence, and
// hands each to f, whose error ends the reading:
//
//	<sentence id="…"> … <name type="person"><w>Anna</w> <w>Vik</w></name> <w>bor</w> …
//
// Only <sentence>, <w> and <name> count; all else, such as the automatic <ne>,
// is looked through. Of names inside names the outer one counts. A word is the
// whole text of its element, white space around it taken off, however long the
// file is and wherever its pieces end; a word without text is none. What is
// handed to f may be kept.
//
// Memory is bounded: a longer tag or text than 1 MiB, and deeper nesting than 64
// elements, are errors. So are document type declarations, which is how entities
// are declared that grow when they are read. Errors in the file are *SyntaxError
// with the line.
func ReadNames(r io.Reader, file string, f func(NamedSentence) error) error {
	in := &meter{r: bufio.NewReaderSize(r, 64<<10)}
	d := xml.NewDecoder(in)
	line := func() int { n, _ := d.InputPos(); return n }
	var (
		s        NamedSentence
		text     []byte
		wordLine int
		name     string
		open     []string // elements
		depth    int      // of all elements
		names    int      // of names
		first    bool     // the next word is the first of name
		inside   bool     // a sentence
		inWord   bool
		any      bool
	)
	for {
		in.piece = 0
		token, err := d.RawToken()
		if err == io.EOF {
			if depth > 0 {
				return Errorf(file, line(), "the file ends inside an element: it is truncated; get it again")
			}
			if !any {
				return Errorf(file, 0, "no <sentence> in the file: is it the right one?")
			}
			return nil
		}
		if err != nil {
			return xmlError(err, file, line())
		}
		switch t := token.(type) {
		case xml.Directive:
			return Errorf(file, line(), "a document type declaration (<!%.20s…): it may declare entities, which corpora do not need; take it out", t)
		case xml.StartElement:
			if depth++; depth > maxXMLDepth {
				return Errorf(file, line(), "more than %d elements inside one another: this is no corpus", maxXMLDepth)
			}
			open = append(open, t.Name.Local)
			if inWord {
				return Errorf(file, line(), "<%s> inside a word", t.Name.Local)
			}
			switch t.Name.Local {
			case "sentence":
				if inside {
					return Errorf(file, line(), "<sentence> inside the sentence of line %d", s.Line)
				}
				inside, any, names = true, true, 0
				s = NamedSentence{Line: line(), ID: attribute(t, "id")}
			case "w":
				if !inside {
					return Errorf(file, line(), "<w> outside of a sentence")
				}
				if len(s.Words) == maxXMLWords {
					return Errorf(file, line(), "a sentence of more than %d words: is a </sentence> missing?", maxXMLWords)
				}
				inWord, wordLine, text = true, line(), text[:0]
			case "name":
				if names++; names == 1 && inside {
					if name = attribute(t, "type"); name == "" {
						return Errorf(file, line(), "<name> without a type")
					}
					first = true
				}
			}
		case xml.EndElement:
			if depth == 0 || open[depth-1] != t.Name.Local {
				return Errorf(file, line(), "</%s> closes what is not open there", t.Name.Local)
			}
			depth--
			open = open[:depth]
			switch t.Name.Local {
			case "sentence":
				inside = false
				if err := f(s); err != nil {
					return err
				}
			case "w":
				inWord = false
				if word := string(bytes.TrimSpace(text)); word != "" {
					w := NamedWord{Line: wordLine, Text: word}
					if names > 0 {
						w.Name, w.First, first = name, first, false
					}
					s.Words = append(s.Words, w)
				}
			case "name":
				names--
			}
		case xml.CharData:
			if inWord {
				if text = append(text, t...); len(text) > maxXMLPiece {
					return Errorf(file, wordLine, "a word of more than %d bytes", maxXMLPiece)
				}
			}
		}
	}
}

func attribute(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// errPiece says that a tag or text of an XML file is too long.
var errPiece = fmt.Errorf("a tag or text of more than %d bytes", maxXMLPiece)

// meter hands bytes to the decoder, which takes them one by one from a reader
// that can do so, and ends the reading when one piece takes too many.
type meter struct {
	r     *bufio.Reader
	piece int // bytes since the last token
}

func (m *meter) ReadByte() (byte, error) {
	if m.piece++; m.piece > maxXMLPiece {
		return 0, errPiece
	}
	return m.r.ReadByte()
}

// Read is never called: the decoder prefers ReadByte.
func (m *meter) Read(p []byte) (int, error) { return m.r.Read(p) }

// xmlError words an error of the decoder for the owner of the file.
func xmlError(err error, file string, line int) error {
	var syntax *xml.SyntaxError
	var packing *SyntaxError
	switch {
	case errors.As(err, &packing):
		return packing
	case errors.Is(err, errPiece):
		return Errorf(file, line, "%v: is the file damaged?", errPiece)
	case errors.As(err, &syntax) && strings.Contains(syntax.Msg, "unexpected EOF"), errors.Is(err, io.ErrUnexpectedEOF):
		return Errorf(file, line, "the file ends in the middle of a tag or text: it is truncated; get it again")
	case errors.As(err, &syntax):
		return Errorf(file, syntax.Line, "no XML: %s", syntax.Msg)
	case strings.Contains(err.Error(), "xml: encoding"):
		return Errorf(file, line, "%s: save the file as UTF-8", strings.TrimPrefix(err.Error(), "xml: "))
	case strings.HasPrefix(err.Error(), "xml: "): // the decoder has no type for its other errors
		return Errorf(file, line, "no XML: %s", strings.TrimPrefix(err.Error(), "xml: "))
	}
	return fmt.Errorf("%s:%d: %w", file, line, err)
}
