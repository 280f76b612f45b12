package containers

import (
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	t.Setenv("DOCKER_CERT_PATH", "/certs")
	for text, want := range map[string]endpoint{
		"unix:///run/docker.sock":                  {scheme: "unix", socket: "/run/docker.sock"},
		"unix:///run/docker.sock?transfer=copy":    {scheme: "unix", socket: "/run/docker.sock", copies: true},
		"ssh://gpu1":                               {scheme: "ssh", host: "gpu1", socket: "/var/run/docker.sock", copies: true},
		"ssh://ann@gpu1:2222/run/user/7/d.sock":    {scheme: "ssh", user: "ann", host: "gpu1", port: "2222", socket: "/run/user/7/d.sock", copies: true},
		"one=ssh://gpu1?transfer=bind":             {scheme: "ssh", host: "gpu1", socket: "/var/run/docker.sock"},
		"ssh://gpu1?transfer=bind":                 {scheme: "ssh", host: "gpu1", socket: "/var/run/docker.sock"},
		"tcp://gpu1:2376":                          {scheme: "tcp", host: "gpu1", port: "2376", tls: "/certs", copies: true},
		"tcp://gpu1":                               {scheme: "tcp", host: "gpu1", port: "2376", tls: "/certs", copies: true},
		"tcp://[::1]:99?tls=/mine&transfer=bind":   {scheme: "tcp", host: "::1", port: "99", tls: "/mine"},
		"tcp://gpu1?tls=no":                        {scheme: "tcp", host: "gpu1", port: "2375", plainly: true, copies: true},
		"tcp://gpu1:2376/?tls=relative/dir%20name": {scheme: "tcp", host: "gpu1", port: "2376", tls: "relative/dir name", copies: true},
	} {
		h, err := ParseHost(text)
		if err != nil {
			t.Error(err)
			continue
		}
		name, _, ok := strings.Cut(text, "=")
		if !ok || strings.Contains(name, ":") {
			name = text
		}
		if got, err := h.endpoint(); err != nil || got != want || h.String() != name {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                               "",
		"gpu1=":                          "no address",
		"gpu1":                           "unix:///PATH",
		"/run/docker.sock":               "unix:///PATH",
		"http://gpu1":                    "unix:///PATH",
		"unix://docker.sock":             "whole path",
		"ssh://":                         "no address",
		"ssh://-oProxyCommand=evil":      "dash",
		"ssh://-l@gpu1":                  "dash",
		"ssh://ann:secret@gpu1":          "password",
		"ssh://gpu1?tls=no":              "tcp:// only",
		"ssh://gpu1?transfer=teleport":   "bind or copy",
		"ssh://gpu1?trasnfer=copy":       `no option "trasnfer"`,
		"ssh://gpu1?transfer=":           "one value",
		"ssh://gpu1:99999":               "no port",
		"tcp://ann@gpu1:1":               "host and a port only",
		"tcp://gpu1:1/var/docker.sock":   "host and a port only",
		"unix:///a?transfer=copy&a=%zz":  "cannot be read",
		"unix:///a?transfer=copy;tls=no": "cannot be read",
	} {
		_, err := ParseHost(text)
		if text == "" { // the default
			if err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	t.Setenv("DOCKER_HOST", "tcp://there:2375")
	if got, err := (Host{}).endpoint(); err != nil || !got.plainly || got.host != "there" || !got.copies {
		t.Errorf("DOCKER_HOST: %+v, %v", got, err)
	}
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	if got, err := (Host{}).endpoint(); err != nil || got.plainly || got.tls != "/certs" {
		t.Errorf("DOCKER_TLS_VERIFY: %+v, %v", got, err)
	}
}
