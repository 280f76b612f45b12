package scandiqa

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	openai "github.com/sashabaranov/go-openai"
)

// Embedder turns texts into vectors whose cosine says how near they are in
// meaning.
type Embedder interface {
	// Name names service and model: what was asked of another name is asked
	// again.
	Name() string
	// Embed returns a vector of each text, all of one length and none of them 0.
	// Errors of the service are *Error.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// DefaultEmbeddingModel is the model that the data set was made with. Serve it
// on this machine with any program that speaks OpenAI's /v1/embeddings and cuts
// longer texts off at 384 tokens, as the model's own library does.
const DefaultEmbeddingModel = "sentence-transformers/all-mpnet-base-v2"

// Embeddings is the /v1/embeddings endpoint of OpenAI or of a server that speaks
// like it.
type Embeddings struct {
	URL   string // as in http://localhost:8080/v1
	Model string // "": DefaultEmbeddingModel
	Key   string // "" for servers that want none
	Patience
}

// embedBatch is how many texts go into one request.
const embedBatch = 32

func (e *Embeddings) model() string {
	if e.Model == "" {
		return DefaultEmbeddingModel
	}
	return e.Model
}

// Name implements [Embedder]. The place of the server does not matter, its model
// does.
func (e *Embeddings) Name() string { return e.model() }

// Embed implements [Embedder].
func (e *Embeddings) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	client := openaiClient(e.URL, e.Key)
	var out [][]float32
	for len(texts) > 0 {
		n := min(len(texts), embedBatch)
		var got openai.EmbeddingResponse
		err := e.do(ctx, func(ctx context.Context) (err error) {
			got, err = client.CreateEmbeddings(ctx, openai.EmbeddingRequestStrings{Input: texts[:n], Model: openai.EmbeddingModel(e.model())})
			return openaiError(e.where(), err)
		})
		if err != nil {
			return nil, err
		}
		vectors := make([][]float32, n)
		for _, d := range got.Data {
			if d.Index < 0 || d.Index >= n || vectors[d.Index] != nil {
				return nil, e.bad("an embedding of text %d of %d, or two of one", d.Index, n)
			}
			vectors[d.Index] = d.Embedding
		}
		for i, v := range vectors {
			first := vectors[0]
			if len(out) > 0 {
				first = out[0]
			}
			if norm := math.Sqrt(dot(v, v)); len(v) == 0 || len(v) != len(first) || !(norm > 0) || math.IsInf(norm, 0) {
				return nil, e.bad("no usable embedding of text %d of %d: length %d, norm %g", i+1, n, len(v), norm)
			}
		}
		out, texts = append(out, vectors...), texts[n:]
	}
	return out, nil
}

func (e *Embeddings) where() string { return "embeddings at " + e.URL }

func (e *Embeddings) bad(format string, args ...any) error {
	return &Error{Kind: BadAnswer, Where: e.where(), Detail: fmt.Sprintf(format, args...)}
}

func dot(a, b []float32) float64 {
	s := 0.0
	for i := range min(len(a), len(b)) {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

// cosine returns a·b / (|a| |b|), in [-1, 1] up to rounding. Neither may be 0.
func cosine(a, b []float32) float64 { return dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b)) }

func openaiClient(url, key string) *openai.Client {
	c := openai.DefaultConfig(key)
	c.HTTPClient = &http.Client{}
	if url != "" {
		c.BaseURL = strings.TrimRight(url, "/")
	}
	return openai.NewClientWithConfig(c)
}

// openaiError makes an *Error of an error of the client library.
func openaiError(where string, err error) error {
	if err == nil {
		return nil
	}
	var api *openai.APIError
	var request *openai.RequestError
	switch {
	case errors.As(err, &api):
		e := statusError(where, api.HTTPStatusCode, http.Header{}, api.Message)
		if api.Code == "insufficient_quota" {
			e.Kind = Quota
		}
		return e
	case errors.As(err, &request) && request.HTTPStatusCode != http.StatusOK:
		return statusError(where, request.HTTPStatusCode, http.Header{}, string(request.Body))
	}
	return noAnswer(where, err)
}
