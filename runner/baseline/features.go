package baseline

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// buckets is the size of the space that features are hashed into. A linear
// model over it takes 1 MiB per class and array.
const buckets = 1 << 18

// vector is a sparse binary vector, scaled: every feature in index has the
// value scale.
type vector struct {
	index []uint32
	scale float32
}

// builder collects the features of one example, each once. Between examples it
// is reset in no time, because buckets are stamped with the example's number.
type builder struct {
	stamps []uint32
	stamp  uint32
	index  []uint32
}

func newBuilder() *builder { return &builder{stamps: make([]uint32, buckets)} }

// add adds the feature with this hash.
func (b *builder) add(h hash) {
	b.addBucket(h.bucket())
}

func (b *builder) addBucket(i uint32) {
	if b.stamps[i] != b.stamp+1 {
		b.stamps[i] = b.stamp + 1
		b.index = append(b.index, i)
	}
}

// vector returns the features added since the last call, scaled to length 1.
func (b *builder) vector() vector {
	v := vector{index: append(make([]uint32, 0, len(b.index)), b.index...), scale: 1}
	if len(v.index) > 0 {
		v.scale = float32(1 / math.Sqrt(float64(len(v.index))))
	}
	b.index = b.index[:0]
	b.stamp++
	return v
}

// other returns the same features under other names, for another role.
func (v vector) other() vector {
	index := make([]uint32, len(v.index))
	for i, f := range v.index {
		index[i] = f ^ 0x2AAAA
	}
	return vector{index, v.scale}
}

// hash is a running FNV-1a hash of a feature's name.
type hash uint64

// kind begins the name of a feature: features of different kinds differ.
func kind(k byte) hash { return (14695981039346656037 ^ hash(k)) * 1099511628211 }

func (h hash) text(s string) hash {
	for i := range len(s) {
		h = (h ^ hash(s[i])) * 1099511628211
	}
	return h.stop()
}

func (h hash) rune(r rune) hash {
	for ; r > 0xFF; r >>= 8 {
		h = (h ^ hash(r&0xFF)) * 1099511628211
	}
	return (h ^ hash(r)) * 1099511628211
}

func (h hash) number(n int) hash { return h.rune(rune(n)).stop() }

// stop ends a part of a name, so that "a" "bc" and "ab" "c" differ.
func (h hash) stop() hash { return (h ^ 0xFF) * 1099511628211 }

// bucket mixes the high bits, which are the better ones, into the low.
func (h hash) bucket() uint32 {
	h ^= h >> 32
	h *= 0x9E3779B97F4A7C15
	return uint32(h>>40) & (buckets - 1)
}

// word is a token of running text with its place, in bytes.
type word struct {
	text       string // as it stands
	lower      string
	start, end int
}

// split cuts text into words: runs of letters, marks and digits, and every
// other character that is not a space alone. Hyphens and full stops between
// letters or digits belong to the word ("e-mail", "3.5", "f.eks").
func split(text string) []word {
	var out []word
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out = append(out, word{text[start:end], strings.ToLower(text[start:end]), start, end})
			start = -1
		}
	}
	for i, r := range text {
		switch {
		case inWord(r):
			if start < 0 {
				start = i
			}
		case (r == '-' || r == '.' || r == ',') && start >= 0 && joins(text, i, r):
		default:
			flush(i)
			if !unicode.IsSpace(r) {
				_, size := utf8.DecodeRuneInString(text[i:])
				start = i
				flush(i + size)
			}
		}
	}
	flush(len(text))
	return out
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// joins says whether the punctuation r at text[i] is inside a word or number.
func joins(text string, i int, r rune) bool {
	next, _ := utf8.DecodeRuneInString(text[i+1:])
	if r == '-' {
		return inWord(next)
	}
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	if r == '.' {
		return unicode.IsDigit(before) && unicode.IsDigit(next) || unicode.IsLower(next) && unicode.IsLetter(before)
	}
	return unicode.IsDigit(before) && unicode.IsDigit(next)
}

// shape replaces letters and digits by their classes and shortens runs:
// "Møller-2" is "Xx-d".
func shape(s string) string {
	var b strings.Builder
	var last rune
	for _, r := range s {
		switch {
		case unicode.IsUpper(r):
			r = 'X'
		case unicode.IsLetter(r):
			r = 'x'
		case unicode.IsDigit(r):
			r = 'd'
		}
		if r != last {
			b.WriteRune(r)
			last = r
		}
	}
	return b.String()
}

// prefix and suffix return the first or last n characters of s, or all of s.
func prefix(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func suffix(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}
