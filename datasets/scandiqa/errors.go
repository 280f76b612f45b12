package scandiqa

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind says what stands between bench and the data set.
type Kind string

// The kinds of errors.
const (
	NoSource    Kind = "no source"    // Natural Questions or MKQA is not there
	BadSource   Kind = "bad source"   // a file is damaged, or not what it should be
	Incomplete  Kind = "incomplete"   // files of Natural Questions are missing
	NoService   Kind = "no service"   // no embedding or translation service was named
	NoKey       Kind = "no key"       // the service wants a key
	Denied      Kind = "denied"       // the service refuses the key
	Quota       Kind = "quota"        // the account has used up what it may translate
	Busy        Kind = "busy"         // the service limits requests, however slowly they come
	Unavailable Kind = "unavailable"  // the service cannot be reached or fails
	TooLong     Kind = "too long"     // the service does not take a text of this length
	BadAnswer   Kind = "bad answer"   // the service answers something else than was asked
	BadState    Kind = "bad state"    // the files of an earlier build are damaged
	TooFew      Kind = "too few rows" // the rows do not suffice for the splits
)

// Error says why the data set could not be built.
type Error struct {
	Kind   Kind
	Where  string // file, file:line, or service; may be ""
	Detail string // one sentence
	Advice string // what a person can do; "": see Hint
	Err    error  // cause; may be nil

	wait time.Duration // the service asks to wait so long
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.Detail
	}
	return e.Where + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.Err }

// Hint says what a person can do.
func (e *Error) Hint() string {
	if e.Advice != "" {
		return e.Advice
	}
	const kept = "run the same command again: what was translated and embedded so far is kept and not asked for again"
	switch e.Kind {
	case BadSource:
		return "download the file again: it is damaged or not the published one"
	case Denied:
		return "check the key in the environment, and that the account may use this service"
	case Quota:
		return "nothing is lost: when the quota is renewed (DeepL: monthly; Google: daily) or raised, " + kept
	case Busy:
		return "nothing is lost: in some minutes, " + kept
	case Unavailable:
		return "check that the service runs and its URL is right, then " + kept
	case TooLong, BadAnswer:
		return "look at the service's log; another model or service can be named"
	}
	return ""
}

// transient says that the same request may succeed in a while.
func (e *Error) transient() bool { return e.Kind == Busy || e.Kind == Unavailable }

// statusError classifies the status of an answer that is not 200. detail is what
// the service says.
func statusError(service string, status int, header http.Header, detail string) *Error {
	e := &Error{Kind: BadAnswer, Where: service, Detail: fmt.Sprintf("status %d (%s)", status, http.StatusText(status))}
	if detail = strings.TrimSpace(detail); detail != "" {
		r := []rune(strings.Join(strings.Fields(detail), " "))
		e.Detail += ": " + string(r[:min(len(r), 200)])
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind = Denied
	case status == 456: // DeepL's own
		e.Kind, e.Detail = Quota, "status 456: the account's quota of characters is used up"
	case status == http.StatusTooManyRequests:
		e.Kind = Busy
		if s, err := strconv.Atoi(header.Get("Retry-After")); err == nil && s > 0 {
			e.wait = time.Duration(s) * time.Second
		}
	case status == http.StatusBadRequest || status == http.StatusLengthRequired ||
		status == http.StatusRequestEntityTooLarge || status == http.StatusRequestURITooLong:
		e.Kind = TooLong
	case status >= 500 || status == http.StatusRequestTimeout:
		e.Kind = Unavailable
	}
	return e
}
