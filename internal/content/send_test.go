package content

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// far is a folder on the other side.
type far struct {
	t   *testing.T
	dir string
}

func (f far) size(name string) (int64, error) {
	i, err := os.Stat(filepath.Join(f.dir, name))
	if os.IsNotExist(err) {
		return -1, nil
	}
	return i.Size(), err
}

// send puts parts there, the last of them cut off by so many bytes.
func (f far) send(tree Tree, parts []Part, cut int64) {
	f.t.Helper()
	for i, p := range parts {
		r, err := p.Open()
		if err != nil {
			f.t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		r.Close()
		if err != nil || int64(len(b)) != p.Size {
			f.t.Fatalf("%s: %d bytes of %d, %v", p.Name, len(b), p.Size, err)
		}
		if i == len(parts)-1 {
			b = b[:int64(len(b))-cut]
		}
		write(f.t, filepath.Join(f.dir, p.Name), string(b))
	}
	write(f.t, filepath.Join(f.dir, ManifestName), string(tree.Manifest()))
}

// assemble runs the program, which must end with this code, and returns what it printed.
func (f far) assemble(code int) string {
	f.t.Helper()
	var out, said bytes.Buffer
	cmd := exec.Command("sh", "-c", Assemble, "sh", f.dir)
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Run()
	if cmd.ProcessState.ExitCode() != code {
		f.t.Fatalf("it ended with %d: %s", cmd.ProcessState.ExitCode(), said.String())
	}
	return out.String()
}

func TestAssemble(t *testing.T) {
	dir := t.TempDir()
	big := make([]byte, 2*partBytes+12345) // three parts
	r := rand.NewChaCha8([32]byte{1})
	r.Read(big)
	write(t, filepath.Join(dir, "sub dir", "weights 'one'.bin"), string(big))
	write(t, filepath.Join(dir, "same.bin"), string(big))
	write(t, filepath.Join(dir, "-n"), "x")
	write(t, filepath.Join(dir, "back\\slash "), "y")
	write(t, filepath.Join(dir, "empty"), "")
	files, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := new(Sums).Tree(files)
	if err != nil {
		t.Fatal(err)
	}
	if !tree.Split() {
		t.Error("nothing is to be split")
	}
	f := far{t, t.TempDir()}
	if err := os.Mkdir(filepath.Join(f.dir, "sub dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	missing := func(whole bool) ([]Part, int64) {
		t.Helper()
		parts, there, err := tree.Missing(whole, f.size)
		if err != nil {
			t.Fatal(err)
		}
		return parts, there
	}
	if parts, there := missing(true); len(parts) != 5 || there != 0 {
		t.Errorf("%d parts if files are whole, %d bytes there", len(parts), there)
	}
	parts, there := missing(false)
	if len(parts) != 9 || there != 0 {
		t.Fatalf("%d parts, %d bytes there", len(parts), there)
	}
	// Cut in the middle of the second part of same.bin; all before it is there.
	f.send(tree, parts[:5], 1000)
	parts, there = missing(false)
	if len(parts) != 5 || there != 2+partBytes || parts[0].Offset != partBytes {
		t.Fatalf("%d parts to go on with, %d bytes there", len(parts), there)
	}
	f.send(tree, parts, 0)
	// The program was ended when it had joined two parts and a bit.
	write(t, filepath.Join(f.dir, "same.bin"), string(big[:partBytes+100]))
	if err := os.Remove(filepath.Join(f.dir, partsFolder, "3", fmt.Sprint(firstPart))); err != nil {
		t.Fatal(err)
	}
	if parts, there := missing(false); len(parts) != 0 || there != tree.Bytes {
		t.Fatalf("%d parts are missing, %d bytes of %d there", len(parts), there, tree.Bytes)
	}
	if said := f.assemble(0); said != "" {
		t.Errorf("it says %q", said)
	}
	for _, x := range tree.Files {
		if size, sum, err := Hash(filepath.Join(f.dir, x.Name)); size != x.Size || sum != x.SHA256 {
			t.Errorf("%s: %d bytes, %s, %v", x.Name, size, sum, err)
		}
	}
	if _, err := os.Stat(filepath.Join(f.dir, partsFolder)); err == nil {
		t.Error("parts are left")
	}
	// A byte that is wrong, and a file that is gone.
	big[7]++
	write(t, filepath.Join(f.dir, "same.bin"), string(big))
	if err := os.Remove(filepath.Join(f.dir, "empty")); err != nil {
		t.Fatal(err)
	}
	if said := f.assemble(0); said != "bad empty\nbad same.bin\n" {
		t.Errorf("it says %q", said)
	}
	if parts, there := missing(false); len(parts) != 3 || there != tree.Bytes-tree.Files[3].Size {
		t.Errorf("%d parts are missing, %d bytes of %d there", len(parts), there, tree.Bytes)
	}
	f.dir = filepath.Join(f.dir, "none")
	f.assemble(2)
}

// Of very large files the parts are larger.
func TestPartSize(t *testing.T) {
	for size, want := range map[int64]int64{0: 0, 64 << 20: 0, 64<<20 + 1: 32 << 20, 2 << 30: 32 << 20, 2<<30 + 1: 33 << 20, 100 << 30: 1600 << 20} {
		if got := partSize(File{Size: size}); got != want {
			t.Errorf("%d bytes: parts of %d, want %d", size, got, want)
		}
	}
}
