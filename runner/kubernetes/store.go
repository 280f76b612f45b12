package kubernetes

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"bench/internal/hostile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// store is an object store in place of a volume: for clusters without one that
// several nodes can mount. A pod has a folder of its own. One container of it
// fetches the batch before the trainer starts, one delivers what the trainer
// finishes; both know URLs, each for one object, and no keys. They run as
// another user than the trainer, so that it cannot look at them.
//
// Files are kept by content, in blobs/SHA256, cut at partBytes; what is of one
// batch alone lies in its run's folder, as in a volume.
type store struct {
	c *cluster
	o Options
	*bucket

	mu     sync.Mutex
	placed map[string][]planFile // by folder
	there  map[string]time.Time  // blobs, and when they were seen

	listing sync.Mutex
	listed  time.Time
	objects map[string]int64 // sizes, of all batches of the instance
}

// plan is what the containers beside the trainer are to do. pod/transfer.py
// reads it.
type plan struct {
	Files  []planFile       `json:"files"`
	Jobs   []planJob        `json:"jobs"`
	Excess string           `json:"excess"` // URL to say that the trainer wrote too much
	Limits map[string]int64 `json:"limits"`
}

type planFile struct {
	Name  string     `json:"name"` // relative to the pod's folder
	Parts []planPart `json:"parts"`
}

type planPart struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	object string
}

type planJob struct {
	ID          job.ID `json:"id"`
	Finished    string `json:"finished"` // URL of the outcome that an earlier pod delivered
	Outcome     string `json:"outcome.json"`
	Predictions string `json:"predictions.jsonl"`
}

const (
	planName   = "plan.json.gz"
	insidePlan = "/bench/plan"
	excessName = "excess.json"
	// maxPlan is what a Secret holds.
	maxPlan = 1 << 20
	// lookAgain is how long a blob that was seen is taken to be there: buckets
	// may have rules by which old objects go.
	lookAgain = 10 * time.Minute
)

// transfer is the program of the containers beside the trainer.
//
//go:embed pod/transfer.py
var transfer string

func (s *store) every() time.Duration { return s.o.Poll }

func (s *store) blob(sum string) string { return path.Join(s.o.root(), "blobs", sum) }

// try persists for as long as the API server would get.
func (s *store) try(ctx context.Context, do func() error) error {
	return s.c.persist(ctx, min(time.Minute, s.o.Patience), do)
}

// check writes, lists and removes an object.
func (s *store) check(ctx context.Context) error {
	if err := s.o.Store.Check(); err != nil {
		return &runner.PreconditionError{What: err.Error(), Hint: "mend store: in the kubernetes: mapping"}
	}
	if len(s.o.Entrypoint) == 0 {
		return &runner.PreconditionError{What: "pods that reach an object store must cut off the trainer themselves, and how it is started in the image is not known", Hint: "say entrypoint: [PROGRAM, ARGUMENT…] as in the image (docker inspect)"}
	}
	probe := path.Join(s.o.root(), "probe")
	for _, step := range []func() error{
		func() error { return s.bucket.put(ctx, probe, nil, 0, sha256.Sum256(nil)) },
		func() error { _, err := s.bucket.list(ctx, probe); return err },
		func() error { return s.bucket.remove(ctx, probe) },
	} {
		// A person waits for this.
		if err := s.c.persist(ctx, min(3*time.Second, s.o.Patience), step); err != nil {
			return s.bucket.precondition(err)
		}
	}
	return nil
}

// put uploads what the store does not have yet.
func (s *store) put(ctx context.Context, dir string, files []file, writable bool) error {
	s.mu.Lock()
	_, placed := s.placed[dir]
	s.mu.Unlock()
	if placed {
		return nil
	}
	list := []planFile{}
	for _, f := range files {
		var own string
		if f.from == "" && !writable && f.size <= partBytes { // no other batch has the same
			own = dir + "/" + f.name
		}
		parts, err := s.upload(ctx, f, own)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, s.bucket.precondition(err))
		}
		list = append(list, planFile{f.name, parts})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed[dir] = list
	return nil
}

// upload sends a file as the object own or, if that is "", as blobs.
func (s *store) upload(ctx context.Context, f file, own string) ([]planPart, error) {
	var in io.ReaderAt = bytes.NewReader(f.text)
	if f.from != "" {
		opened, err := os.Open(f.from)
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		in = opened
	}
	var parts []planPart
	for at := int64(0); at < f.size; at += partBytes {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		section := io.NewSectionReader(in, at, min(partBytes, f.size-at))
		h := sha256.New()
		if n, err := io.Copy(h, section); err != nil || n != section.Size() {
			return nil, errors.Join(err, fmt.Errorf("%s changed while it was read", f.name))
		}
		p := planPart{SHA256: hex.EncodeToString(h.Sum(nil)), Size: section.Size()}
		p.object = cmp.Or(own, s.blob(p.SHA256))
		if err := s.c.once(p.object, func() error { return s.uploadPart(ctx, section, p, [32]byte(h.Sum(nil))) }); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (s *store) uploadPart(ctx context.Context, section *io.SectionReader, p planPart, sum [32]byte) error {
	s.mu.Lock()
	seen := s.there[p.object]
	s.mu.Unlock()
	if time.Since(seen) < lookAgain {
		return nil
	}
	err := s.try(ctx, func() error {
		size, err := s.bucket.size(ctx, p.object)
		if err != nil || size == p.Size {
			return err
		}
		return s.bucket.put(ctx, p.object, io.NewSectionReader(section, 0, p.Size), p.Size, sum)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there[p.object] = time.Now()
	return nil
}

// supply makes the plan of a batch and the containers that follow it.
func (s *store) supply(ctx context.Context, r order) (supply, error) {
	text, err := s.plan(ctx, r)
	if err != nil {
		return supply{}, err
	}
	at, err := s.reach(ctx)
	if err != nil {
		return supply{}, err
	}
	return s.arrange(r, text, at), nil
}

// address is how the store is reached where no names are looked up.
type address struct {
	host string // "": ips is all that there is
	ips  []string
	port int
}

// arrange is the supply of a batch with a plan.
func (s *store) arrange(r order, text []byte, at address) supply {
	name := "bench-" + strings.ToLower(r.run)
	about := meta{Name: name, Namespace: s.c.place.Namespace, Labels: s.o.labels(r.batch, r.run)}
	helper := func(what string) container {
		return container{
			Name: what, Image: s.o.Image, ImagePullPolicy: "IfNotPresent", TerminationMessagePolicy: "FallbackToLogsOnError",
			Command:         []string{"python3", "-I", "-c", transfer},
			Args:            []string{what, insidePlan + "/" + planName, insideVolume},
			Resources:       resources{Limits: map[string]string{"cpu": "1", "memory": "256Mi"}, Requests: map[string]string{"cpu": "100m", "memory": "128Mi"}},
			SecurityContext: containerSecurity{RunAsUser: s.o.User + 1, ReadOnlyRootFilesystem: true, Capabilities: confined.Capabilities},
			VolumeMounts:    []volumeMount{{Name: "data", MountPath: insideVolume}, {Name: "plan", MountPath: insidePlan, ReadOnly: true}},
		}
	}
	fetch, deliver := helper("fetch"), helper("deliver")
	deliver.RestartPolicy = "Always"
	u := supply{
		data: podVolume{Name: "data", EmptyDir: &emptyDir{}}, in: "in", out: "out",
		more:   []podVolume{{Name: "plan", Secret: &secretVolume{name, 0o440}}},
		before: []container{fetch, deliver}, grace: s.o.DeliveryGrace,
		objects: []owned{&secret{APIVersion: "v1", Kind: "Secret", Metadata: about, Data: map[string][]byte{planName: text}}},
	}
	if r.model != "" {
		u.model = "model"
	}
	rule := egressRule{Ports: []policyPort{{"TCP", at.port}}}
	for _, ip := range at.ips {
		bits := "/128"
		if strings.Contains(ip, ".") {
			bits = "/32"
		}
		rule.To = append(rule.To, policyPeer{ipBlock{ip + bits}})
		if at.host != "" {
			u.hosts = append(u.hosts, hostAlias{ip, []string{at.host}})
		}
	}
	if !s.o.OpenNetwork {
		u.objects = append(u.objects, &networkPolicy{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Metadata: about, Spec: networkPolicySpec{
			PodSelector: labelSelector{map[string]string{labelRun: r.run}}, PolicyTypes: []string{"Egress"}, Egress: []egressRule{rule},
		}})
	}
	return u
}

func (s *store) plan(ctx context.Context, r order) ([]byte, error) {
	var errs []error
	sign := func(method, name string) string {
		u, err := s.bucket.presign(ctx, method, name)
		errs = append(errs, err)
		return u
	}
	p := plan{Files: []planFile{}, Excess: sign(http.MethodPut, r.out+"/"+excessName), Limits: map[string]int64{
		kept.Outcome: job.MaxOutcome, kept.Predictions: job.MaxPredictions, "bytes": s.o.OutBytes, "entries": kept.MaxEntries,
	}}
	s.mu.Lock()
	for _, folder := range [][2]string{{"in", r.in}, {"out", r.out}, {"model", r.model}} {
		for _, f := range s.placed[folder[1]] {
			g := planFile{Name: folder[0] + "/" + f.Name, Parts: []planPart{}}
			for _, part := range f.Parts {
				part.URL = sign(http.MethodGet, part.object)
				g.Parts = append(g.Parts, part)
			}
			p.Files = append(p.Files, g)
		}
	}
	delete(s.placed, r.in)
	delete(s.placed, r.out)
	s.mu.Unlock()
	for _, id := range r.jobs {
		dir := r.out + "/" + string(id) + "/"
		p.Jobs = append(p.Jobs, planJob{id, sign(http.MethodGet, dir+kept.Outcome), sign(http.MethodPut, dir+kept.Outcome), sign(http.MethodPut, dir+kept.Predictions)})
	}
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	if err := errors.Join(append(errs, json.NewEncoder(z).Encode(p), z.Close())...); err != nil {
		return nil, err
	}
	if text.Len() > maxPlan {
		return nil, &runner.PreconditionError{What: fmt.Sprintf("the batch has %d jobs and %d files: too many for one pod with an object store", len(p.Jobs), len(p.Files)), Hint: "make batches smaller (--batch seed or --batch job)"}
	}
	return text.Bytes(), nil
}

// reach looks up the store.
func (s *store) reach(ctx context.Context) (address, error) {
	u, err := url.Parse(s.o.Store.Endpoint)
	if err != nil {
		return address{}, err
	}
	at := address{host: u.Hostname(), port: 443}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, at.host)
	if err != nil {
		return at, &runner.PreconditionError{What: "the object store's address is not known", Hint: "see that endpoint: in store: is right", Err: err}
	}
	for _, ip := range ips {
		at.ips = append(at.ips, ip.IP.String())
	}
	if net.ParseIP(at.host) != nil {
		at.host = ""
	}
	if u.Scheme == "http" {
		at.port = 80
	}
	if p := u.Port(); p != "" {
		at.port, err = strconv.Atoi(p)
	}
	return at, err
}

// list looks at all batches of the instance in one go, no longer ago than after.
func (s *store) list(ctx context.Context, after time.Time) (map[string]int64, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if s.listed.After(after) {
		return s.objects, nil
	}
	begun := time.Now()
	all, err := s.bucket.list(ctx, path.Join(s.o.root(), "batches")+"/")
	if err != nil {
		return nil, err
	}
	s.listed, s.objects = begun, make(map[string]int64, len(all))
	for _, o := range all {
		s.objects[o.Name] = o.Size
	}
	return s.objects, nil
}

func (s *store) results(ctx context.Context, dir string, jobs []job.ID, into string, fresh bool) (string, error) {
	after := time.Now()
	if !fresh {
		after = after.Add(-s.every())
	}
	do := func() error {
		objects, err := s.list(ctx, after)
		if err != nil {
			return err
		}
		for _, id := range jobs {
			if _, ok := objects[path.Join(dir, string(id), kept.Outcome)]; !ok {
				continue
			}
			if _, err := os.Lstat(filepath.Join(into, string(id))); err == nil {
				continue
			}
			if err := s.download(ctx, path.Join(dir, string(id)), objects, filepath.Join(into, string(id))); err != nil {
				return err
			}
		}
		return nil
	}
	if fresh {
		return into, s.try(ctx, do)
	}
	return into, do()
}

// download brings a job's files.
func (s *store) download(ctx context.Context, from string, objects map[string]int64, into string) error {
	part := into + ".part"
	if err := errors.Join(hostile.RemoveAll(part), os.MkdirAll(part, 0o700)); err != nil {
		return err
	}
	for _, name := range []string{kept.Predictions, kept.Outcome} {
		size, ok := objects[path.Join(from, name)]
		if !ok {
			continue
		}
		to := filepath.Join(part, name)
		if size > job.MaxPredictions { // whoever reads the folder refuses it
			if err := errors.Join(os.WriteFile(to, nil, 0o600), os.Truncate(to, size)); err != nil {
				return err
			}
			continue
		}
		if err := s.downloadFile(ctx, path.Join(from, name), to); err != nil {
			return err
		}
	}
	return os.Rename(part, into)
}

func (s *store) downloadFile(ctx context.Context, name, to string) error {
	in, err := s.bucket.get(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if n, err := io.Copy(out, io.LimitReader(in, job.MaxPredictions+1)); err != nil {
		out.Close()
		return &awayError{fmt.Errorf("%s was cut after %d bytes: %w", name, n, err), storeName}
	}
	return out.Close()
}

// usage is what the container that delivers found too much; 0 otherwise.
func (s *store) usage(ctx context.Context, dir string) (int64, int, error) {
	objects, err := s.list(ctx, time.Now().Add(-s.every()))
	if err != nil {
		return 0, 0, err
	}
	name := path.Join(dir, excessName)
	if _, ok := objects[name]; !ok {
		return 0, 0, nil
	}
	in, err := s.bucket.get(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	defer in.Close()
	var excess struct {
		Bytes   int64 `json:"bytes"`
		Entries int   `json:"entries"`
	}
	err = json.NewDecoder(io.LimitReader(in, 1<<10)).Decode(&excess)
	return excess.Bytes, excess.Entries, err
}

func (s *store) remove(ctx context.Context, dirs ...string) error {
	var errs []error
	for _, d := range dirs {
		errs = append(errs, s.try(ctx, func() error {
			all, err := s.bucket.list(ctx, d+"/")
			for _, o := range all {
				err = errors.Join(err, s.bucket.remove(ctx, o.Name))
			}
			return err
		}))
	}
	return errors.Join(errs...)
}
