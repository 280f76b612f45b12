package raw

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Open opens a file for reading and takes off its packing, which is told by its
// first bytes: bzip2, gzip, or a zip archive with one file that ends in suffix.
// name is what errors call it; the returned name also names the file inside an
// archive.
func Open(file, name, suffix string) (r io.ReadCloser, inner string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	in := bufio.NewReaderSize(f, 256<<10)
	head, err := in.Peek(4)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, "", err
	}
	switch {
	case len(head) == 0:
		f.Close()
		return nil, "", Errorf(name, 0, "the file is empty")
	case bytes.HasPrefix(head, []byte("BZh")):
		return packed{packedErrors{bzip2.NewReader(in), name}, f}, name, nil
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			f.Close()
			return nil, "", Errorf(name, 0, "gzip: %v", err)
		}
		return packed{packedErrors{z, name}, f}, name, nil
	case bytes.HasPrefix(head, []byte("PK")):
		r, inner, err := openZipped(f, name, suffix)
		if err != nil {
			f.Close()
			return nil, "", err
		}
		return r, inner, nil
	}
	return packed{in, f}, name, nil
}

func openZipped(f *os.File, name, suffix string) (io.ReadCloser, string, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	files, err := Zip(f, info.Size(), name)
	if err != nil {
		return nil, "", err
	}
	var found *zip.File
	for _, z := range files {
		if !strings.HasSuffix(z.Name, suffix) {
			continue
		}
		if found != nil {
			return nil, "", Errorf(name, 0, "two files *%s in the archive, %s and %s: take out the one that is not meant", suffix, found.Name, z.Name)
		}
		found = z
	}
	if found == nil {
		return nil, "", Errorf(name, 0, "no file *%s in the archive", suffix)
	}
	r, err := found.Open()
	if err != nil {
		return nil, "", Errorf(name, 0, "%s: %v", found.Name, err)
	}
	return packed{packedErrors{r, name}, f}, name + "!" + found.Name, nil
}

// Zip lists the files of a zip archive, without folders and what macOS adds. A
// path that leaves the archive's folder ("../…", "/…") is an error, whether the
// file is used or not: who made such an archive wanted something else than to
// hand out data.
func Zip(r io.ReaderAt, size int64, name string) ([]*zip.File, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, Errorf(name, 0, "no zip archive: %v", err)
	}
	var out []*zip.File
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) || strings.Contains(f.Name, `\`) {
			return nil, Errorf(name, 0, "the archive has a file %q outside of its folder: do not use it, get another copy from the owner", f.Name)
		}
		if strings.HasSuffix(f.Name, "/") || strings.HasPrefix(f.Name, "__MACOSX/") || strings.HasPrefix(path.Base(f.Name), ".") {
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

// packed reads what is unpacked and closes what is packed.
type packed struct {
	io.Reader
	io.Closer
}

// packedErrors makes errors of the packing name the file.
type packedErrors struct {
	io.Reader
	name string
}

func (p packedErrors) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	switch err {
	case nil, io.EOF:
		return n, err
	case io.ErrUnexpectedEOF:
		return n, Errorf(p.name, 0, "the packed file is truncated: get it again")
	}
	return n, Errorf(p.name, 0, "the packed file is damaged, get it again: %v", err)
}
