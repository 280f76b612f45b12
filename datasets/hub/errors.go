package hub

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Kind says what stands between bench and a model.
type Kind string

// The kinds of errors.
const (
	BadName         Kind = "bad name"         // not the name of a model or revision
	NoModel         Kind = "no model"         // not on the Hub, or private
	NoRevision      Kind = "no revision"      // no such branch, tag or commit
	NoFile          Kind = "no file"          // listed, but not there
	Gated           Kind = "gated"            // its owner's terms have to be accepted first
	Disabled        Kind = "disabled"         // switched off by the Hub
	BadToken        Kind = "bad token"        // the Hub does not know the token
	Forbidden       Kind = "forbidden"        // the token may not read it
	RateLimited     Kind = "rate limited"     // too many requests, for longer than we wait
	Server          Kind = "server"           // fault of the Hub or of its storage
	Unreachable     Kind = "unreachable"      // no connection
	NotAHub         Kind = "not a hub"        // something answers, but not the Hub
	OfflineMode     Kind = "offline mode"     // HF_HUB_OFFLINE, and not in the cache
	Incomplete      Kind = "incomplete"       // offline, and in the cache only in part
	Truncated       Kind = "truncated"        // the connection ends before the file does, however often it is tried
	Corrupted       Kind = "corrupted"        // the bytes are not those that the Hub announced
	NoSpace         Kind = "no space"         // the disk is full
	CacheUnwritable Kind = "cache unwritable" // other trouble with the cache folder
	NoFolder        Kind = "no folder"        // a local model that is not there
	NoConfig        Kind = "no config"        // no config.json
	NoWeights       Kind = "no weights"       // none that torch can load
	NoTokenizer     Kind = "no tokenizer"
	BadFile         Kind = "bad file" // a model's file that is not what its name says, or cut off
)

// Error says why a model could not be had.
type Error struct {
	Kind     Kind
	Model    string // as asked for; a data set if Dataset, a query if Search
	Dataset  bool
	Search   bool
	Revision string
	File     string // may be empty
	Detail   string // one sentence
	Status   int    // of HTTP; 0: none
	Err      error  // cause; may be nil

	hadToken   bool
	endpoint   string
	retryAfter time.Duration // what the server asked for; 0: nothing
	again      bool          // the same request may do better
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.noun() + " " + e.Model)
	if e.Revision != "" {
		b.WriteString("@" + e.Revision)
	}
	if e.File != "" {
		b.WriteString(": " + e.File)
	}
	b.WriteString(": " + e.Detail)
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// noun is what the repository holds.
func (e *Error) noun() string {
	switch {
	case e.Dataset:
		return "data set"
	case e.Search:
		return "search for models"
	}
	return "model"
}

// Hint says what a person can do.
func (e *Error) Hint() string {
	page := e.endpoint + "/" + e.Model
	if e.Dataset {
		page = e.endpoint + "/datasets/" + e.Model
		switch e.Kind {
		case BadName:
			return "name a data set as hub:org/name or hub:org/name@revision"
		case Unreachable:
			return "check the connection and HTTPS_PROXY; HF_ENDPOINT names a mirror of the Hub; or copy the data set into the cache ($HF_HOME/hub) from a machine that has it"
		case BadFile:
			return "see " + page + "/tree/" + cmp.Or(e.Revision, "main") + " for what there is"
		}
	}
	if e.Search {
		switch e.Kind {
		case Unreachable:
			return "check the connection and HTTPS_PROXY; HF_ENDPOINT names a mirror of the Hub; or name the models one by one"
		case OfflineMode:
			return "unset HF_HUB_OFFLINE for once: what is found is kept; or name the models one by one"
		case Server, Truncated, NoModel, Forbidden:
			return "run the same command again later, or name the models one by one"
		}
	}
	switch e.Kind {
	case BadName:
		return "name a model as org/name or org/name@revision, or a folder as ./folder"
	case NoModel:
		if !e.hadToken {
			return "check the spelling; if the " + e.noun() + " is private, set HF_TOKEN to a token that may read it"
		}
		return "check the spelling; if the " + e.noun() + " is private, HF_TOKEN must be of somebody who may read it"
	case NoRevision:
		return "see " + page + "/refs for the branches and tags there are"
	case NoFile:
		return "the repository changed while it was read, or the Hub has lost the file: run it again, or name another revision"
	case Gated:
		if !e.hadToken {
			return "accept the terms on " + page + ", then set HF_TOKEN to your token"
		}
		return "accept the terms on " + page + " with the account that HF_TOKEN belongs to; some owners then have to approve you"
	case Disabled:
		return "choose another " + e.noun() + ": only the Hub or the owner can bring it back"
	case BadToken:
		return "HF_TOKEN (or the token file that `hf auth login` wrote) is wrong or has expired: replace it, or remove it for public models"
	case Forbidden:
		return "give the token read access to this repository (" + e.endpoint + "/settings/tokens)"
	case RateLimited:
		return "wait and run the same command again: what is downloaded stays; with HF_TOKEN the limits are higher"
	case Server, Truncated:
		return "run the same command again later: the download goes on where it stopped"
	case Unreachable:
		return "check the connection and HTTPS_PROXY; HF_ENDPOINT names a mirror of the Hub; or copy the model into the cache ($HF_HOME/hub) or a folder (./folder) from a machine that has it"
	case NotAHub:
		return "check HF_ENDPOINT (now " + e.endpoint + "), the proxy, and whether the network asks you to log in first"
	case OfflineMode, Incomplete:
		return "unset HF_HUB_OFFLINE for once, or copy the " + e.noun() + " into the cache from a machine that has it"
	case Corrupted:
		return "run it again; if it stays, a proxy or mirror on the way changes files, or the Hub's copy is damaged"
	case NoSpace:
		return "make room, or choose another place for models with HF_HOME"
	case CacheUnwritable:
		return "choose a place for models that you may write to with HF_HOME"
	case NoFolder:
		return "check the path; a model on the Hub is named org/name, without ./"
	case NoConfig:
		return "a model for transformers has a config.json in its folder: check that this is one (an adapter, GGUF or ONNX file alone cannot be fine-tuned)"
	case NoWeights:
		return "bench needs model.safetensors or pytorch_model.bin: convert the weights, or name a revision that has them"
	case NoTokenizer:
		return "save the tokenizer next to the weights: tokenizer.save_pretrained(FOLDER)"
	case BadFile:
		return "get the file again; its owner may have uploaded it incompletely"
	}
	return ""
}

// Is lets errors.Is(err, &Error{Kind: k}) ask for the kind alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Model == ""
}

// local turns an error of the file system into an Error.
func (e Error) local(err error) *Error {
	e.Err = err
	e.Kind, e.Detail = CacheUnwritable, "the cache cannot be written to"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Kind, e.Detail = NoSpace, "there is no space left for it"
	}
	return &e
}
