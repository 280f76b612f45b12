package hub

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// maxHeader is the largest header that the safetensors library accepts.
const maxHeader = 100_000_000

// dtypeBits are the sizes of one element.
var dtypeBits = map[string]uint64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
	"I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F4": 4,
}

// checkWeights looks over a file of weights without reading the numbers, and
// returns what is wrong with it, "" if nothing is: whether a safetensors file is
// as long as its header says, whether a zip file (pytorch_model.bin) has its
// end. err is of the file system.
func checkWeights(path string) (wrong string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	start := make([]byte, 64)
	n, err := io.ReadFull(f, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", err
	}
	start = start[:n]
	switch {
	case n == 0:
		return "it is empty", nil
	case bytes.HasPrefix(start, []byte("version https://git-lfs.github.com/spec/")):
		return "it is a pointer to the weights and not the weights: run `git lfs pull` in the folder", nil
	case bytes.HasPrefix(start, []byte("<!DOCTYPE")) || bytes.HasPrefix(start, []byte("<html")):
		return "it is a web page and not weights", nil
	case strings.HasSuffix(path, ".safetensors"):
		return checkSafetensors(f, st.Size())
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		if _, err := zip.NewReader(f, st.Size()); err != nil {
			return "it is cut off or damaged: " + err.Error(), nil
		}
	}
	return "", nil
}

// checkSafetensors checks the layout: 8 bytes of header length (little endian),
// the header in JSON, and the tensors, side by side without gaps to the end of the file.
func checkSafetensors(r io.ReaderAt, size int64) (wrong string, err error) {
	var length [8]byte
	if size < 8 {
		return fmt.Sprintf("it is cut off: %d bytes", size), nil
	}
	if _, err := r.ReadAt(length[:], 0); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n < 2 || n > maxHeader {
		return "it is no safetensors file: its header has an impossible length", nil
	}
	if int64(n) > size-8 {
		return fmt.Sprintf("it is cut off within its header: %d bytes", size), nil
	}
	header := make([]byte, n)
	if _, err := r.ReadAt(header, 8); err != nil {
		return "", err
	}
	var tensors map[string]json.RawMessage
	if err := json.Unmarshal(header, &tensors); err != nil {
		return "it is no safetensors file: its header is not JSON", nil
	}
	type span struct{ from, to uint64 }
	var spans []span
	for name, raw := range tensors {
		if name == "__metadata__" {
			continue
		}
		var t struct {
			Dtype   string    `json:"dtype"`
			Shape   []uint64  `json:"shape"`
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Sprintf("its header does not describe tensor %q", name), nil
		}
		if t.Offsets[0] > t.Offsets[1] || t.Offsets[1] > math.MaxInt64 {
			return fmt.Sprintf("its header gives tensor %q an impossible place", name), nil
		}
		if bits, ok := dtypeBits[t.Dtype]; ok && !fits(t.Shape, bits, t.Offsets[1]-t.Offsets[0]) {
			return fmt.Sprintf("its header gives tensor %q a place that is not as large as the tensor", name), nil
		}
		spans = append(spans, span{t.Offsets[0], t.Offsets[1]})
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	var end uint64
	for _, s := range spans {
		if s.from != end {
			return "its header leaves gaps between the tensors, or lets them overlap", nil
		}
		end = s.to
	}
	if want := 8 + int64(n) + int64(end); want != size {
		if size < want {
			return fmt.Sprintf("it is cut off: %d of %d bytes", size, want), nil
		}
		return fmt.Sprintf("it is longer than its header says: %d bytes, not %d", size, want), nil
	}
	return "", nil
}

// fits says whether a tensor of shape takes that many bytes.
func fits(shape []uint64, bits, bytes uint64) bool {
	n := bits
	for _, d := range shape {
		if d == 0 {
			return bytes == 0
		}
		if n > math.MaxUint64/d {
			return false
		}
		n *= d
	}
	return n%8 == 0 && n/8 == bytes
}
