package scandeval

import (
	"bytes"
	"encoding/json"
)

// marker stands for a NaN or an infinity, which Python writes and JSON does not
// have. It is what scoring.Value reads as a value that is not there.
var marker = []byte(`{"undefined":"` + unseen + `"}`)

// mend replaces NaN, Infinity and -Infinity outside of strings, and counts them.
func mend(line []byte) ([]byte, int) {
	if !bytes.Contains(line, []byte("NaN")) && !bytes.Contains(line, []byte("Infinity")) {
		return line, 0
	}
	var out []byte
	n := 0
	inside := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case inside && c == '\\' && i+1 < len(line):
			out = append(out, c, line[i+1])
			i++
			continue
		case c == '"':
			inside = !inside
		case !inside:
			if word := literal(line[i:]); word > 0 {
				out = append(out, marker...)
				i += word - 1
				n++
				continue
			}
		}
		out = append(out, c)
	}
	return out, n
}

func literal(b []byte) int {
	for _, word := range []string{"NaN", "-Infinity", "Infinity"} {
		if bytes.HasPrefix(b, []byte(word)) {
			return len(word)
		}
	}
	return 0
}

// unmend writes NaN again, as the reference's readers expect it. Fields that
// hold JSON in a string are left alone.
func unmend(line []byte) []byte {
	return bytes.ReplaceAll(line, marker, []byte("NaN"))
}

// object is a JSON object whose values are looked at one by one.
type object = map[string]json.RawMessage

// take decodes o[key] into v and removes it; false, and left where it is, if it
// is not there or of another type.
func take(o object, key string, v any) bool {
	b, ok := o[key]
	if !ok || bytes.Equal(b, []byte("null")) || json.Unmarshal(b, v) != nil {
		return false
	}
	delete(o, key)
	return true
}

// raw is the JSON of v, which is of a kind that always has one.
func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, booleans, numbers that are finite, and maps of these
	}
	return b
}
