package transfer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"bench/scoring/transfer"
)

func TestReadModels(t *testing.T) {
	got, err := transfer.ReadModels(strings.NewReader("\ufeffmodel_language,model\r\n da , org/a \r\n\n# a remark\nsv,org/b # another\n"), "m.csv")
	if want := []transfer.Representative{{Language: "da", Model: "org/a"}, {Language: "sv", Model: "org/b"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for text, want := range map[string]string{
		"":                         "m.csv: no models",
		"da,org/a\nda,org/b":       "m.csv:2: language da has a model already, on line 1",
		"da\nsv,\n,org/a":          "m.csv:1: \"da\" is not a language and a model\nm.csv:2: \"sv,\" is not a language and a model\nm.csv:3: \",org/a\" is not a language and a model",
		"da,org/a\nmodel_language": "m.csv:2: \"model_language\" is not a language and a model",
	} {
		if _, err := transfer.ReadModels(strings.NewReader(text), "m.csv"); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	broken := errors.New("broken")
	if _, err := transfer.ReadModels(iotest.ErrReader(broken), "m.csv"); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
