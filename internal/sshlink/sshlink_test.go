package sshlink

import (
	"errors"
	"strings"
	"testing"
)

// What ssh says becomes the error, with something to do.
func TestSSHWords(t *testing.T) {
	for said, want := range map[string]struct {
		fault Fault
		hint  string
	}{
		"ann@gpu1: Permission denied (publickey).":                                       {Denied, "ssh-copy-id ann@gpu1"},
		"No ED25519 host key is known for gpu1.\nHost key verification failed.":          {Untrusted, "accept it once: ssh ann@gpu1 true"},
		"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification fail": {Untrusted, "ssh-keygen -R"},
		"ssh: Could not resolve hostname gpu1: Name or service not known":                {Unreachable, "~/.ssh/config"},
		"ssh: connect to host gpu1 port 22: Connection refused":                          {Unreachable, "no ssh server listens"},
		"ssh: connect to host gpu1 port 22: Connection timed out":                        {Unreachable, "firewall"},
		"something else": {Unreachable, "ssh -v ann@gpu1"},
	} {
		l := &Link{to: To{User: "ann", Host: "gpu1"}}
		l.said.Write([]byte(said + "\n"))
		e, ok := l.Explain(errors.New("silent")).(*Error)
		if !ok || e.Fault != want.fault || !strings.Contains(e.Hint, want.hint) || strings.Contains(e.Hint, "%") {
			t.Errorf("%q: %+v", said, e)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]To{
		"login": {Host: "login"}, "ann@login.site": {User: "ann", Host: "login.site"}, "ann@login:2222": {"ann", "login", "2222"}, "[::1]:22": {Host: "::1", Port: "22"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "-oProxyCommand=x", "a b", "ann:secret@login", "login/folder", "-l@login", "login:x"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
