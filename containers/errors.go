package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"bench/internal/sshlink"

	cerrdefs "github.com/containerd/errdefs"
)

// Kind says what an Error is about, for programs.
type Kind int

// The kinds of Error.
const (
	Unreachable  Kind = iota + 1 // no engine answers, or not in time
	Denied                       // there is an engine, but this user may not use it
	ImageMissing                 // the engine does not have the image
	GPURefused                   // the engine cannot give a container the GPUs asked for
	NameTaken                    // a container of something else has this name
	MountRefused                 // the engine cannot see a folder that is to be shown in the container
	NoSpace                      // the engine's disk is full
	Untrusted                    // who answers cannot prove to be the engine's host
	Gone                         // the container is not there, or no more
	BuildFailed                  // a step of an image build failed
	Registry                     // a registry said no, or could not be reached
	Damaged                      // files arrive on the engine's machine as others than were sent
	Misdescribed                 // what the caller says of the host, its address or its certificates, cannot be used
	Refused                      // anything else that the engine said no to
)

// Error is every error of this package that does not come from the caller's
// own context, reader or writer. It never holds a container's configuration
// or environment.
type Error struct {
	Kind Kind
	Op   string // what was tried: "start container bench-5b0e…"
	Host string // the engine's address
	Hint string // what the user can do; may be empty
	Err  error  // the engine's own words
}

func (e *Error) Error() string {
	s := e.Op + ": "
	switch e.Kind {
	case Unreachable:
		s += "no Docker engine answers at " + e.Host
	case Denied:
		s += "this user may not use the Docker engine at " + e.Host
	case ImageMissing:
		s += "the Docker engine does not have this image"
	case GPURefused:
		s += "the Docker engine cannot give GPUs to containers"
	case NameTaken:
		s += "the name is taken by a container of something else"
	case MountRefused:
		s += "the Docker engine cannot see a folder of this machine"
	case Untrusted:
		s += "what answers at " + e.Host + " is not known to be the right machine"
	case NoSpace:
		s += "the Docker engine's disk is full"
	case Gone:
		s += "there is no such container"
	case Damaged:
		s += "files arrive damaged at " + e.Host
	case Misdescribed:
		s += "host " + e.Host + " cannot be reached as it is described"
	case BuildFailed:
		s += "the build failed"
	case Registry:
		s += "the registry did not serve the image"
	default:
		s += "the Docker engine refused"
	}
	if e.Err != nil {
		s += ": " + strings.TrimSpace(e.Err.Error())
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// IsKind says whether err is or wraps an *Error of kind k.
func IsKind(err error, k Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == k
}

// errSilent is the cause of a call's end when the engine took too long.
var errSilent = errors.New("it does not answer in time (stopped or overloaded?)")

// failure turns an error of the Docker client into an *Error. An error of the
// caller's own context is returned as it is.
func (e *Engine) failure(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if own, ok := errors.AsType[callerError](err); ok {
		return own.error
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	f := &Error{Op: op, Host: e.host, Err: err}
	if f.Kind, f.Hint = classify(err); f.Kind == Unreachable {
		f.Hint = e.at.remedy(err)
	}
	if f.Kind == Unreachable && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		f.Err = errSilent
	}
	if e.tunnel != nil && (f.Kind == Unreachable || f.Kind == Denied) {
		// Not ssh's own verdict: while containers run there, every failure of the
		// connection is one to wait for.
		if said, ok := errors.AsType[*sshlink.Error](e.tunnel.Explain(err)); ok {
			f.Kind, f.Err, f.Hint = Unreachable, said, said.Hint
		}
	}
	return f
}

// callerError marks an error of a reader or writer that the caller passed in,
// so that it is not taken for one of the engine.
type callerError struct{ error }

// fromEngine says whether err is an answer of the engine. If it is not, the
// engine may or may not have done what it was asked: the connection was
// refused, cut or silent.
func fromEngine(err error) bool {
	switch {
	case cerrdefs.IsUnavailable(err), cerrdefs.IsDeadlineExceeded(err), cerrdefs.IsCanceled(err):
		return false // 503 while it starts, or no answer
	case cerrdefs.IsNotFound(err), cerrdefs.IsConflict(err), cerrdefs.IsAlreadyExists(err), cerrdefs.IsInvalidArgument(err),
		cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err), cerrdefs.IsInternal(err), cerrdefs.IsNotImplemented(err),
		cerrdefs.IsFailedPrecondition(err), cerrdefs.IsOutOfRange(err), cerrdefs.IsResourceExhausted(err), cerrdefs.IsUnknown(err):
		return true
	}
	return false
}

// phrases are the engine's and its runtimes' words for conditions that the
// API gives no code of its own: all of them arrive as a plain 400 or 500.
var phrases = []struct {
	text string
	kind Kind
	hint string
}{
	{"no space left on device", NoSpace, hintNoSpace},
	{"disk quota exceeded", NoSpace, hintNoSpace},
	{"could not select device driver", GPURefused, hintGPU},
	{"unknown runtime specified nvidia", GPURefused, hintGPU},
	{"unknown or invalid runtime name: nvidia", GPURefused, hintGPU},
	{"cdi device injection failed", GPURefused, hintGPU},
	{"nvidia-container-cli", GPURefused, hintGPU},
	{"failed to initialize nvml", GPURefused, "start the engine anew; its containers have lost the GPU"},
	{"bind source path does not exist", MountRefused, "use an engine on this machine, or a folder that both share"},
	{"path is not shared from the host", MountRefused, "share the folder with the engine's virtual machine"},
	{"mounts denied", MountRefused, "share the folder with the engine's virtual machine"},
	{"http request to an https server", Refused, "the engine there wants TLS: leave out tls=no"},
	{"marked for removal", Gone, ""}, // asked for while the engine removes it
}

const hintNoSpace = "free some space on the engine's disk: docker system df"

const hintGPU = "install NVIDIA's container toolkit on the engine's machine, or run without GPUs"

// classify finds the kind of an error of the Docker client.
func classify(err error) (Kind, string) {
	if !fromEngine(err) {
		// The client wraps the system's error in text, so its type is lost.
		if errors.Is(err, os.ErrPermission) || strings.Contains(err.Error(), "permission denied") {
			return Denied, "add yourself to the group that owns the socket (sudo usermod -aG docker $USER), then log in again"
		}
		for _, p := range tlsPhrases {
			if strings.Contains(err.Error(), p.text) {
				return p.kind, p.hint
			}
		}
		return Unreachable, ""
	}
	if kind, hint, ok := phrased(err.Error()); ok {
		return kind, hint
	}
	text := strings.ToLower(err.Error())
	switch {
	case cerrdefs.IsNotFound(err) && strings.Contains(text, "no such image"):
		return ImageMissing, ""
	case cerrdefs.IsNotFound(err) && strings.Contains(text, "no such container"):
		return Gone, ""
	}
	return Refused, ""
}

// phrased finds the kind of what an engine, or a program on its machine, says.
func phrased(said string) (kind Kind, hint string, ok bool) {
	said = strings.ToLower(said)
	for _, p := range phrases {
		if strings.Contains(said, p.text) {
			return p.kind, p.hint, true
		}
	}
	return Refused, "", false
}

// tlsPhrases are what both ends of a connection say of certificates. The
// client's error types do not survive its wrapping.
var tlsPhrases = []struct {
	text string
	kind Kind
	hint string
}{
	{"bad certificate", Denied, hintClientCert},
	{"certificate required", Denied, hintClientCert},
	{"unknown certificate authority", Denied, hintClientCert},
	{"certificate has expired or is not yet valid", Untrusted, "renew the certificate of the host, and look at the clocks of both machines"},
	{"certificate signed by unknown authority", Untrusted, "ca.pem is not the authority that signed the host's certificate: name the right folder with tls=DIR"},
	{"x509: certificate is", Untrusted, "name the host as its certificate does, or give it a certificate for this name"},
	{"cannot validate certificate", Untrusted, "name the host as its certificate does, or give it a certificate for this address"},
	{"failed to verify certificate", Untrusted, "compare the host's certificate with ca.pem"},
	{"server gave HTTP response to HTTPS client", Refused, "the engine there does not use TLS: set it up (docs.docker.com/engine/security/protect-access), or reach it by ssh://, or say tls=no"},
}

const hintClientCert = "the engine does not accept cert.pem: have it signed by the authority that the engine knows, or name the right folder with tls=DIR"

// usage is an error of the caller.
func usage(format string, a ...any) error { return fmt.Errorf("containers: "+format, a...) }
