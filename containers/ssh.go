package containers

import (
	"context"
	"net"

	"bench/internal/sshlink"
)

// tunnel forwards a socket of this machine to an engine's socket on another.
type tunnel struct{ *sshlink.Link }

// sshWords are what ssh says of sockets that it cannot forward.
var sshWords = []sshlink.Word{
	{Text: "open failed: connect failed", Fault: sshlink.Denied, Hint: "there is no Docker socket, or its user may not use it: ssh %s docker version; another socket is named behind the host, ssh://HOST/run/user/1000/docker.sock"},
	{Text: "administratively prohibited", Fault: sshlink.Denied, Hint: "its ssh server forbids to forward sockets: set AllowStreamLocalForwarding yes in sshd_config there"},
}

// openTunnel returns when the forwarding stands, or with an error when the
// first ssh ends.
func openTunnel(ctx context.Context, to endpoint) (*tunnel, error) {
	l, err := sshlink.Forward(ctx, sshlink.To{User: to.user, Host: to.host, Port: to.port}, to.socket, sshWords...)
	if err != nil {
		return nil, err
	}
	return &tunnel{l}, nil
}

// dial connects to the engine. While ssh logs in, it waits.
func (t *tunnel) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := t.Await(ctx); err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", t.Socket())
}

// sshKinds are the kinds of what keeps ssh from its work.
var sshKinds = map[sshlink.Fault]Kind{sshlink.Unreachable: Unreachable, sshlink.Untrusted: Untrusted, sshlink.Denied: Denied}
