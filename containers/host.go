package containers

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bench/internal/sshlink"

	"github.com/docker/docker/client"
)

// Host says where a Docker engine is, how it is reached, and how files get
// there.
type Host struct {
	// Name is what people call it; "": its address.
	Name string
	// Address is unix:///path/of/docker.sock, ssh://[user@]host[:port][/path/of/docker.sock]
	// or tcp://host[:port]; "": $DOCKER_HOST, else the default socket.
	Address string
	// TLS is the folder with ca.pem, cert.pem and key.pem for tcp://, or "no"
	// for a connection without any; "": $DOCKER_CERT_PATH, else ~/.docker.
	TLS string
	// Transfer is how files get to containers there: "bind" shows folders of a
	// disk that both machines share, "copy" sends them through the engine; "":
	// bind for unix://, copy for the others.
	Transfer string
}

// The values of Host.Transfer.
const (
	TransferBind = "bind"
	TransferCopy = "copy"
)

// noTLS is the value of Host.TLS for a plain connection.
const noTLS = "no"

// named is NAME=ADDRESS.
var named = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)=(.*)$`)

// ParseHost reads an address that may end with options: ?transfer=copy,
// ?tls=DIR, ?tls=no, joined by &. The host's name is the whole text, or stands
// before it: NAME=ADDRESS.
func ParseHost(text string) (Host, error) {
	h := Host{Name: text}
	rest, query := text, ""
	if m := named.FindStringSubmatch(text); m != nil {
		h.Name, rest = m[1], m[2]
	}
	h.Address, query, _ = strings.Cut(rest, "?")
	if h.Address == "" && rest != text {
		return h, fmt.Errorf("host %s: it has no address", text)
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return h, fmt.Errorf("host %s: its options cannot be read: %w", text, err)
	}
	for key, values := range options {
		to, ok := map[string]*string{"transfer": &h.Transfer, "tls": &h.TLS}[key]
		if !ok {
			return h, fmt.Errorf("host %s: there is no option %q; there are transfer and tls", text, key)
		}
		if len(values) != 1 || values[0] == "" {
			return h, fmt.Errorf("host %s: option %s wants one value", text, key)
		}
		*to = values[0]
	}
	return h, h.Check()
}

// Check says what is wrong with h before anything is connected.
func (h Host) Check() error {
	_, err := h.endpoint()
	return err
}

// String returns what h is called.
func (h Host) String() string {
	switch {
	case h.Name != "":
		return h.Name
	case h.Address != "":
		return h.Address
	case os.Getenv("DOCKER_HOST") != "":
		return os.Getenv("DOCKER_HOST")
	}
	return client.DefaultDockerHost
}

// Copies says whether files get to the host through its engine.
func (h Host) Copies() bool {
	p, err := h.endpoint()
	return err == nil && p.copies
}

// defaultSocket is where engines listen.
const defaultSocket = "/var/run/docker.sock"

// endpoint is a Host in parts.
type endpoint struct {
	scheme     string // unix, ssh, tcp
	user, host string // host without the port
	port       string
	socket     string // unix: on this machine, ssh: on the other
	tls        string // tcp: a folder; "": none
	plainly    bool   // tcp: without TLS, as asked for
	copies     bool
}

func (h Host) endpoint() (endpoint, error) {
	bad := func(format string, a ...any) (endpoint, error) {
		return endpoint{}, fmt.Errorf("host %s: %w", h, fmt.Errorf(format, a...))
	}
	address, tls := h.Address, h.TLS
	if address == "" {
		if address = os.Getenv("DOCKER_HOST"); address == "" {
			address = client.DefaultDockerHost
		}
		// As for the docker command, where tcp:// alone means no TLS.
		if strings.HasPrefix(address, "tcp://") && tls == "" && os.Getenv("DOCKER_TLS_VERIFY") == "" {
			tls = noTLS
		}
	}
	scheme, rest, ok := strings.Cut(address, "://")
	p := endpoint{scheme: scheme}
	switch {
	case ok && scheme == "unix":
		if !path.IsAbs(rest) {
			return bad("a socket is named by its whole path: unix:///run/docker.sock")
		}
		p.socket = rest
	case ok && (scheme == "ssh" || scheme == "tcp"):
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
			return bad("that is no address; %s", addressForms)
		}
		if _, has := u.User.Password(); has {
			return bad("a password does not belong into an address: use a key and an agent")
		}
		p.user, p.host, p.port, p.socket = u.User.Username(), u.Hostname(), u.Port(), path.Clean("/"+u.Path)
		// ssh would take it for an option.
		if strings.HasPrefix(p.host, "-") || strings.HasPrefix(p.user, "-") {
			return bad("no name begins with a dash")
		}
		if n, err := strconv.Atoi(p.port); p.port != "" && (err != nil || n < 1 || n > 65535) {
			return bad("%q is no port", p.port)
		}
	default:
		return bad("that is no address; %s", addressForms)
	}
	switch h.Transfer {
	case "", TransferBind, TransferCopy:
		p.copies = h.Transfer == TransferCopy || h.Transfer == "" && p.scheme != "unix"
	default:
		return bad("transfer is %q; it can be %s or %s", h.Transfer, TransferBind, TransferCopy)
	}
	if p.scheme != "tcp" && h.TLS != "" {
		return bad("tls is for tcp:// only")
	}
	switch p.scheme {
	case "ssh":
		if p.socket == "/" {
			p.socket = defaultSocket
		}
	case "tcp":
		if p.user != "" || p.socket != "/" {
			return bad("tcp:// takes a host and a port only")
		}
		p.socket, p.plainly = "", tls == noTLS
		if p.port == "" {
			if p.port = "2376"; p.plainly {
				p.port = "2375"
			}
		}
		if !p.plainly {
			if p.tls = tls; tls == "" {
				if p.tls = os.Getenv("DOCKER_CERT_PATH"); p.tls == "" {
					home, err := os.UserHomeDir()
					if err != nil {
						return bad("no folder with certificates is given: %w", err)
					}
					p.tls = filepath.Join(home, ".docker")
				}
			}
		}
	}
	return p, nil
}

// remedy says what people can do when nothing answers at p; err is what they were
// told.
func (p endpoint) remedy(err error) string {
	switch p.scheme {
	case "ssh":
		return fmt.Sprintf("see what the engine says there: ssh %s docker version", sshlink.To{User: p.user, Host: p.host, Port: p.port})
	case "tcp":
		if strings.Contains(err.Error(), "no such host") { // the client keeps no types
			return fmt.Sprintf("look at the name %s: no address of it is known", p.host)
		}
		return fmt.Sprintf("see that the machine is up and an engine listens on its port %s (docs.docker.com/engine/security/protect-access), and that no firewall is in between; ssh://%s reaches one that listens on a socket only", p.port, p.host)
	}
	return "start Docker, or name the socket where it listens (DOCKER_HOST, --host)"
}

const addressForms = "there are unix:///PATH, ssh://[USER@]HOST[:PORT][/SOCKET] and tcp://HOST:PORT"

// options are what the Docker client needs to reach p. For ssh, the tunnel
// must be there already.
func (p endpoint) options(t *tunnel) ([]client.Opt, error) {
	switch p.scheme {
	case "ssh":
		// The address only has to be one; every connection goes through dial.
		return []client.Opt{client.WithHost("unix://" + t.Socket()), client.WithDialContext(t.dial)}, nil
	case "unix":
		return []client.Opt{client.WithHost("unix://" + p.socket)}, nil
	}
	address := "tcp://" + p.host + ":" + p.port
	if strings.Contains(p.host, ":") {
		address = "tcp://[" + p.host + "]:" + p.port
	}
	if p.plainly {
		return []client.Opt{client.WithHost(address)}, nil
	}
	ca, cert, key := filepath.Join(p.tls, "ca.pem"), filepath.Join(p.tls, "cert.pem"), filepath.Join(p.tls, "key.pem")
	for _, file := range []string{ca, cert, key} {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("its certificates cannot be read: %w", err)
		}
		f.Close()
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and key.pem are no pair of certificate and key: %w", cert, err)
	}
	// Engines say of any certificate that they do not take no more than that it is bad.
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		return nil, fmt.Errorf("%s has expired, on %s", cert, end.Local().Format("2006-01-02 15:04"))
	}
	return []client.Opt{client.WithHost(address), client.WithTLSClientConfig(ca, cert, key)}, nil
}
