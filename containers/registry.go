package containers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// dockerHub is the registry of names without one, and the key under which the
// docker command keeps its login.
const dockerHub = "https://index.docker.io/v1/"

// registryOf returns the registry that an image's name says.
func registryOf(ref string) string {
	host, _, ok := strings.Cut(ref, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return dockerHub
	}
	return host
}

// login is what the engine wants to hear of a user of a registry.
type login struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	ServerAddress string `json:"serveraddress,omitempty"`
}

// registryAuth finds the login that the docker command has for the registry of
// ref, in its config.json or through the credential helper named there, and
// encodes it as the engine wants it. No login is an empty one, with which
// public images can be had.
func registryAuth(ctx context.Context, ref string) (string, error) {
	l, err := findLogin(ctx, registryOf(ref))
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	return base64.URLEncoding.EncodeToString(b), nil
}

func findLogin(ctx context.Context, registry string) (login, error) {
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return login{}, nil
		}
		dir = filepath.Join(home, ".docker")
	}
	file := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return login{}, nil
	} else if err != nil {
		return login{}, err
	}
	var config struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
		CredsStore  string            `json:"credsStore"`
		CredHelpers map[string]string `json:"credHelpers"`
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return login{}, usage("%s cannot be read", file) // the error could quote a password
	}
	helper := config.CredHelpers[registry]
	if helper == "" {
		helper = config.CredsStore
	}
	if helper != "" {
		return askHelper(ctx, helper, registry)
	}
	a, ok := config.Auths[registry]
	if !ok {
		a = config.Auths["https://"+registry]
	}
	l := login{IdentityToken: a.IdentityToken, ServerAddress: registry}
	if a.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(a.Auth)
		if err != nil {
			return login{}, usage("%s: the login for %s cannot be read", file, registry)
		}
		l.Username, l.Password, _ = strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
	}
	return l, nil
}

// askHelper asks docker-credential-NAME, which answers with JSON. A helper
// that knows no login says so with exit code 1 and these words.
func askHelper(ctx context.Context, name, registry string) (login, error) {
	cmd := exec.CommandContext(ctx, "docker-credential-"+name, "get")
	cmd.Stdin = strings.NewReader(registry)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		if strings.Contains(out.String(), "credentials not found") {
			return login{}, nil
		}
		return login{}, usage("docker-credential-%s has no login for %s: %w", name, registry, err)
	}
	var r struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return login{}, usage("docker-credential-%s did not answer with JSON", name)
	}
	if r.Username == "<token>" {
		return login{IdentityToken: r.Secret, ServerAddress: registry}, nil
	}
	return login{Username: r.Username, Password: r.Secret, ServerAddress: registry}, nil
}
