package scandiqa

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Patience says how a service is asked.
type Patience struct {
	Tries   int           // requests for the same thing; 0: 6
	Pause   time.Duration // before the second, then doubled up to 32 times; 0: 1 s
	Timeout time.Duration // of one request; 0: 2 min
}

func (p Patience) defaults() Patience {
	if p.Tries == 0 {
		p.Tries = 6
	}
	if p.Pause == 0 {
		p.Pause = time.Second
	}
	if p.Timeout == 0 {
		p.Timeout = 2 * time.Minute
	}
	return p
}

// do calls f until it succeeds, fails for good, or has failed often enough. A
// service that says how long to wait is waited for.
func (p Patience) do(ctx context.Context, f func(context.Context) error) error {
	p = p.defaults()
	pause := p.Pause
	for try := 1; ; try++ {
		one, cancel := context.WithTimeout(ctx, p.Timeout)
		err := f(one)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var e *Error
		if !errors.As(err, &e) || !e.transient() || try == p.Tries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(pause, min(e.wait, 5*time.Minute))):
		}
		pause = min(2*pause, 32*p.Pause)
	}
}

// noAnswer is the error of a request that got no answer, or half of one.
func noAnswer(service string, err error) error {
	return &Error{Kind: Unavailable, Where: service, Detail: "no answer: " + err.Error(), Err: err}
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// exchange sends a request and returns the body of an answer with status 200.
// failed looks at the body of another one; nil: nothing is to be found there.
func exchange(client *http.Client, service string, req *http.Request, failed func(*Error, []byte)) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, noAnswer(service, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, noAnswer(service, err)
	}
	if resp.StatusCode != http.StatusOK {
		e := statusError(service, resp.StatusCode, resp.Header, string(body))
		if failed != nil {
			failed(e, body)
		}
		return nil, e
	}
	return body, nil
}
