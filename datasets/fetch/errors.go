package fetch

import (
	"errors"
	"syscall"
)

// Kind says what stands between bench and a file.
type Kind string

// The kinds of errors. Gone says which of them mean that a file cannot be had
// here.
const (
	Offline     Kind = "offline"     // the server cannot be reached from here
	Missing     Kind = "missing"     // the server, or this machine, does not have the file (any more)
	Denied      Kind = "denied"      // the server wants a password or a licence to be accepted
	Unavailable Kind = "unavailable" // the server answers, but not with the file, however often it is asked
	Truncated   Kind = "truncated"   // the connection ends before the file does, however often it is tried
	Changed     Kind = "changed"     // the file is not the one that is pinned
	NoSpace     Kind = "no space"    // the disk is full
	BadMirror   Kind = "bad mirror"  // the mirror folder does not hold what its index says
	ByHand      Kind = "by hand"     // a person has to accept a licence to get the file
	Incomplete  Kind = "incomplete"  // the file is only a part of the corpus
	Unreadable  Kind = "unreadable"  // a local file that cannot be read or written
)

// Error says why a file could not be had.
type Error struct {
	Kind   Kind
	URL    string
	Detail string // one sentence
	// Want and Got are the two digests of a Changed or BadMirror file.
	Want, Got string
	Err       error // cause; may be nil
	// Manual says where and how a person gets the file, if that is what it takes.
	Manual string
}

func (e *Error) Error() string {
	if e.URL == "" {
		return e.Detail
	}
	return e.URL + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.Err }

// Gone says that the file cannot be had from here, now: trying again at once
// would not help, and nothing suggests that it is another file than expected. A
// build from the other sources alone may be better than none.
func (e *Error) Gone() bool {
	switch e.Kind {
	case Offline, Missing, Denied, Unavailable, ByHand:
		return true
	}
	return false
}

// Hint says what a person can do.
func (e *Error) Hint() string {
	if e.Manual != "" && e.Gone() {
		return e.Manual
	}
	switch e.Kind {
	case Offline:
		return "check the connection, or use --mirror DIR with a folder that has the file (docs/formats.md, \"Mirror\")"
	case Missing:
		return "the file was moved or removed: look for its new place and add it to a mirror folder under the old URL (--mirror DIR), or check the path"
	case Denied:
		return "get the file by hand where its owner gives it out, and add it to a mirror folder under this URL (--mirror DIR)"
	case Unavailable:
		return "the server has a problem or limits requests: try again later, or use --mirror DIR"
	case Truncated:
		return "run the same command again: the download goes on where it stopped"
	case Changed:
		return "the file is not the one this data set is defined by, so scores would not be comparable; if the owner published a new version, wait for a new recipe, or describe the new file in a catalogue (--catalog FILE.yaml) under another name"
	case NoSpace:
		return "make room, or choose another place with --home DIR"
	case BadMirror:
		return "copy the mirror folder again from where it was made: it is damaged or incomplete"
	case Incomplete:
		return "give the whole file; --partial builds a smaller data set from what there is, marked as partial, whose scores are not ranked with those of the full one"
	case Unreadable:
		return "check the path and its permissions"
	}
	return ""
}

// DiskFull says whether err means that a disk or a quota is full.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
