package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bench/containers"
	"bench/runner/docker"

	"go.yaml.in/yaml/v3"
)

// host is a machine with a Docker engine, and what a user says of it.
type host struct {
	containers.Host
	slots int         // batches at a time; 0: as all hosts
	gpus  docker.GPUs // what is 0 or empty: as all hosts
}

const hostUsage = "Docker engines: unix:///SOCKET, ssh://[USER@]HOST, tcp://HOST:PORT, or NAME=ADDRESS (default $DOCKER_HOST, else the default socket)"

// hostList is the value of --host: addresses, with commas between them.
type hostList []host

func (l *hostList) Type() string { return "addresses" }

func (l *hostList) String() string {
	var names []string
	for _, h := range *l {
		names = append(names, h.Name)
	}
	return strings.Join(names, ",")
}

// Set adds hosts.
func (l *hostList) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		h, err := containers.ParseHost(part)
		if err != nil {
			return err
		}
		for _, other := range *l {
			if other.Name == h.Name {
				return fmt.Errorf("host %s is there twice", h.Name)
			}
		}
		*l = append(*l, host{Host: h})
	}
	return nil
}

// hostEntry is a host in a sweep's file: an address, or a mapping. What is
// wrong in it is kept, so that all that is wrong in a file is said at once.
type hostEntry struct {
	host
	line int
	errs []error // without the place
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *hostEntry) UnmarshalYAML(n *yaml.Node) error {
	e.line = n.Line
	wrong := func(line int, err error) { e.errs = append(e.errs, &lineError{line, err}) }
	switch n.Kind {
	case yaml.ScalarNode:
		var err error
		if e.Host, err = containers.ParseHost(n.Value); err != nil {
			wrong(n.Line, err)
		}
		return nil
	case yaml.MappingNode:
	default:
		wrong(n.Line, errors.New("a host is an address, or a mapping with name, address, tls, transfer, slots, gpus, slots_per_gpu and gpu_memory"))
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		twice := seen[key.Value]
		seen[key.Value] = true
		if twice {
			wrong(key.Line, fmt.Errorf("host: %s is there twice", key.Value))
			continue
		}
		if value.Kind != yaml.ScalarNode || value.Value == "" {
			wrong(value.Line, fmt.Errorf("host: %s wants one value", key.Value))
			continue
		}
		switch key.Value {
		case "name":
			e.Name = value.Value
		case "address":
			h, err := containers.ParseHost(value.Value)
			if err != nil {
				wrong(value.Line, err)
			}
			e.Address = h.Address
			e.TLS, e.Transfer = firstOf(e.TLS, h.TLS), firstOf(e.Transfer, h.Transfer)
		case "tls":
			e.TLS = value.Value
		case "transfer":
			e.Transfer = value.Value
		case "slots":
			slots, err := strconv.Atoi(value.Value)
			if err != nil || slots < 1 {
				wrong(value.Line, fmt.Errorf("host: slots is %q; it is a number from 1 on", value.Value))
			}
			e.slots = slots
		case "gpus":
			list, err := docker.ParseGPUs(value.Value)
			if err != nil {
				wrong(value.Line, fmt.Errorf("host: %w", err))
			}
			e.gpus.List = list
		case "slots_per_gpu":
			slots, err := strconv.Atoi(value.Value)
			if err != nil || slots < 1 {
				wrong(value.Line, fmt.Errorf("host: slots_per_gpu is %q; it is a number from 1 on", value.Value))
			}
			e.gpus.Slots = slots
		case "gpu_memory":
			bytes, err := parseBytes(value.Value)
			if err != nil || bytes < 1<<20 {
				wrong(value.Line, fmt.Errorf("host: gpu_memory is %q; it is what one batch may take, such as 8g", value.Value))
			}
			e.gpus.MemoryMiB = bytes >> 20
		default:
			wrong(key.Line, fmt.Errorf("host: there is no key %s; there are name, address, tls, transfer, slots, gpus, slots_per_gpu and gpu_memory", key.Value))
		}
	}
	if !seen["address"] {
		wrong(n.Line, errors.New("host: it has no address"))
		return nil
	}
	if e.Name == "" {
		e.Name = e.Address
	}
	if err := e.Check(); err != nil && len(e.errs) == 0 {
		wrong(n.Line, err)
	}
	return nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// lineError is an error at a line of a file.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return e.err.Error() }

// hostsOf checks the hosts of the file at path. Folders of certificates are
// relative to it.
func hostsOf(path string, entries []hostEntry) (hosts hostList, errs []error) {
	at := map[string]int{}
	place := map[string]hostEntry{} // by address
	for _, e := range entries {
		for _, err := range e.errs {
			line := e.line
			if own, ok := errors.AsType[*lineError](err); ok {
				line = own.line
			}
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, line, err))
		}
		if len(e.errs) > 0 {
			continue
		}
		if first, ok := at[e.Name]; ok {
			errs = append(errs, fmt.Errorf("%s:%d: host %s is there already, at line %d", path, e.line, e.Name, first))
			continue
		}
		address := sameAddress(e.Address)
		if first, ok := place[address]; ok {
			errs = append(errs, fmt.Errorf("%s:%d: host %s is host %s, at line %d: both are %s", path, e.line, e.Name, first.Name, first.line, address))
			continue
		}
		at[e.Name], place[address] = e.line, e
		if e.TLS != "" && e.TLS != "no" && !filepath.IsAbs(e.TLS) {
			e.TLS = filepath.Join(filepath.Dir(path), e.TLS)
		}
		if e.TLS != "" && e.TLS != "no" {
			if _, err := os.Stat(e.TLS); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: host %s: tls is a folder with ca.pem, cert.pem and key.pem, or no: %w", path, e.line, e.Name, err))
			}
		}
		hosts = append(hosts, e.host)
	}
	return hosts, errs
}

// sameAddress is equal for addresses that mean the same engine: the host's name in
// small letters, without the port and the socket that are meant anyhow.
func sameAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	u.Host, u.Path = strings.ToLower(u.Host), strings.TrimRight(u.Path, "/")
	if u.Scheme == "ssh" {
		u.Host = strings.TrimSuffix(u.Host, ":22")
		u.Path = strings.TrimSuffix(u.Path, "/var/run/docker.sock")
	}
	return u.String()
}
