package content

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Files that a tree brings along to where it is sent.
const (
	// ManifestName is the file that Assemble reads.
	ManifestName = ".bench-manifest"
	partsFolder  = ".bench-parts"
)

// A file is sent in parts when it is larger than two of partBytes; there are at
// most maxParts of it, so that asking for all of them stays cheap.
const (
	partBytes = 32 << 20
	maxParts  = 64
)

// Part is what is sent at a time: a file or a stretch of one.
type Part struct {
	File   File
	Name   string // of the file it becomes on the other side, until Assemble has run
	Offset int64  // in the file
	Size   int64  // bytes
}

// Open gives the bytes of the part.
func (p Part) Open() (io.ReadCloser, error) {
	f, err := os.Open(p.File.Path)
	if err != nil {
		return nil, err
	}
	return section{io.NewSectionReader(f, p.Offset, p.Size), f}, nil
}

type section struct {
	io.Reader
	io.Closer
}

// partSize is the size of all parts but the last, whole MiB; 0: the file is sent
// in one.
func partSize(f File) int64 {
	const mib = 1 << 20
	if f.Size <= 2*partBytes {
		return 0
	}
	return max(partBytes, ((f.Size+maxParts-1)/maxParts+mib-1)/mib*mib)
}

// Split says whether one of the files is sent in parts.
func (t Tree) Split() bool {
	for _, f := range t.Files {
		if partSize(f) > 0 {
			return true
		}
	}
	return false
}

// Missing returns what is to be sent still, in the order of the files, and how
// many bytes of the tree are there already. size tells how long the file of a
// name is on the other side, -1 if it is not there. whole: there is nothing to
// assemble parts with, so all files are sent in one.
func (t Tree) Missing(whole bool, size func(name string) (int64, error)) (parts []Part, there int64, err error) {
	for n, f := range t.Files {
		have, err := size(f.Name)
		if err != nil {
			return nil, 0, err
		}
		if have == f.Size {
			there += f.Size
			continue
		}
		step := partSize(f)
		if whole || step == 0 {
			parts = append(parts, Part{f, f.Name, 0, f.Size})
			continue
		}
		for k := int64(0); k*step < f.Size; k++ {
			p := Part{f, fmt.Sprintf("%s/%d/%d", partsFolder, n, firstPart+k), k * step, min(step, f.Size-k*step)}
			// Assemble removes parts as it goes: what the file holds of them is there.
			got := have
			if got < p.Offset+p.Size {
				if got, err = size(p.Name); err != nil {
					return nil, 0, err
				}
				got += p.Offset
			}
			if got >= p.Offset+p.Size {
				there += p.Size
				continue
			}
			parts = append(parts, p)
		}
	}
	return parts, there, nil
}

// firstPart makes names of parts, which are numbers, as long as each other.
const firstPart = 1000000

// Manifest is what Assemble needs to know: a line for each file with its SHA-256,
// the MiB of its parts and its name, which must not hold a line break.
func (t Tree) Manifest() []byte {
	var b bytes.Buffer
	for _, f := range t.Files {
		fmt.Fprintf(&b, "%s %d %s\n", f.SHA256, partSize(f)>>20, f.Name)
	}
	return b.Bytes()
}

// Assemble is a program for sh on the other side: in the folder that it is given
// as its argument it joins the parts that were sent, and compares each file with
// the manifest, which lies there too. What is not as it should be it empties, and
// prints "bad NAME". When it has succeeded, all is on the disk. It may be ended at any
// time and started again. It wants cat, dd, rm, sha256sum and sync.
//
// Its user need not own that folder, but must own the folders and files in it; a
// file that is sent in parts is there before, empty, if the user cannot make it.
const Assemble = `set -e
cd "$1"
n=0
while IFS= read -r line; do
	sum=${line%% *} line=${line#* }
	mib=${line%% *} name=${line#* }
	for part in "` + partsFolder + `/$n"/*; do
		if [ -e "$part" ]; then
			k=$((${part##*/} - 1000000))
			if [ "$k" = 0 ]; then : > "./$name"; fi
			dd if="$part" of="./$name" bs=1048576 seek=$((k * mib)) conv=notrunc 2>` + partsFolder + `/said || { cat ` + partsFolder + `/said >&2; exit 1; }
			rm "$part"
		fi
	done
	is=$(sha256sum < "./$name") || is=none
	if [ "${is%% *}" != "$sum" ]; then
		(: > "./$name") 2>/dev/null || true
		printf 'bad %s\n' "$name"
	fi
	n=$((n + 1))
done < ` + ManifestName + `
rm -rf ` + partsFolder + ` 2>/dev/null || rm -rf ` + partsFolder + `/*
sync -f . 2>/dev/null || sync
`
