package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bench/runner"
	"bench/runner/job"

	"github.com/spf13/pflag"
)

// gauges are the numbers of a run for Prometheus, fed from its events.
// docs/manual.md lists them.
type gauges struct {
	begun time.Time
	slots func() int // that there are now

	mu       sync.Mutex
	total    int            // jobs asked for
	cached   int            // ended before this run
	ended    map[string]int // in this run, by state
	failures map[string]int // by kind
	running  map[job.ID]runner.Where
	jobs     map[job.ID]int // of running batches: jobs that have not ended
	wall     float64        // seconds of jobs that ended
	gpu      float64        // what they had of GPUs
	lost     float64        // the same of attempts that were lost
	warnings int
}

func newGauges(slots func() int) *gauges {
	return &gauges{begun: time.Now(), slots: slots, ended: map[string]int{}, failures: map[string]int{}, running: map[job.ID]runner.Where{}, jobs: map[job.ID]int{}}
}

func (g *gauges) event(e runner.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch e.Type {
	case "plan":
		g.total, g.cached = e.Total, e.Done
	case "attach", "start":
		if e.Where != nil {
			g.running[e.Batch] = *e.Where
			g.jobs[e.Batch] = e.Total
		}
	case "job":
		g.ended[string(e.State)]++
		if e.State == job.Failed {
			g.failures[string(e.Failure)]++
		}
		g.wall += e.Seconds
		if e.Used != nil {
			g.gpu += e.Used.GPUSeconds
		}
		if n := g.jobs[e.Batch]; n > 0 {
			g.jobs[e.Batch] = n - 1
		}
	case "end":
		delete(g.running, e.Batch)
		delete(g.jobs, e.Batch)
	case "lost":
		g.lost += e.Used.GPUSeconds
	case "warning":
		g.warnings++
	}
}

// write writes the text format of Prometheus, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
func (g *gauges) write(w io.Writer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	metric := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	sample := func(name string, value float64, labels ...string) {
		b.WriteString(name)
		for i := 0; i < len(labels); i += 2 {
			b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
			fmt.Fprintf(&b, `%s="%s"`, labels[i], labelEscapes.Replace(labels[i+1]))
		}
		if len(labels) > 0 {
			b.WriteByte('}')
		}
		b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
	}
	working := 0
	for _, n := range g.jobs {
		working += n
	}
	ended := 0
	for _, n := range g.ended {
		ended += n
	}
	metric("bench_jobs", "gauge", "Jobs of this run by state. started: their batch runs.")
	sample("bench_jobs", float64(g.cached), "state", "cached")
	for _, s := range []job.State{job.OK, job.Failed} {
		sample("bench_jobs", float64(g.ended[string(s)]), "state", string(s))
	}
	sample("bench_jobs", float64(working), "state", "started")
	sample("bench_jobs", float64(max(0, g.total-g.cached-ended-working)), "state", "waiting")
	metric("bench_failures_total", "counter", "Jobs of this run that failed, by kind.")
	for _, k := range slices.Sorted(maps.Keys(g.failures)) {
		sample("bench_failures_total", float64(g.failures[k]), "kind", k)
	}
	metric("bench_slots", "gauge", "Batches that may run at a time.")
	sample("bench_slots", float64(g.slots()))
	metric("bench_batches", "gauge", "Batches that run, by where.")
	type place struct{ executor, host string }
	at := map[place]int{}
	gpus := 0
	for _, w := range g.running {
		at[place{w.Executor, w.Host}]++
		gpus += len(w.GPUs)
	}
	for _, p := range slices.SortedFunc(maps.Keys(at), func(a, b place) int {
		return strings.Compare(a.executor+"\x00"+a.host, b.executor+"\x00"+b.host)
	}) {
		sample("bench_batches", float64(at[p]), "executor", p.executor, "host", p.host)
	}
	metric("bench_gpus", "gauge", "GPUs that running batches hold.")
	sample("bench_gpus", float64(gpus))
	metric("bench_job_seconds_total", "counter", "Wall time of the jobs that ended in this run.")
	sample("bench_job_seconds_total", g.wall)
	metric("bench_gpu_seconds_total", "counter", "GPU time of the jobs that ended in this run: their seconds times GPUs times their share of them.")
	sample("bench_gpu_seconds_total", g.gpu)
	metric("bench_lost_gpu_seconds_total", "counter", "GPU time of attempts that were cut off, or whose outcome was replaced.")
	sample("bench_lost_gpu_seconds_total", g.lost)
	metric("bench_warnings_total", "counter", "Warnings of this run.")
	sample("bench_warnings_total", float64(g.warnings))
	metric("bench_start_time_seconds", "gauge", "When this run began, in Unix time.")
	sample("bench_start_time_seconds", float64(g.begun.Unix()))
	metric("bench_build_info", "gauge", "Which bench this is.")
	sample("bench_build_info", 1, "version", version())
	_, err := io.WriteString(w, b.String())
	return err
}

// labelEscapes are those of values of labels.
var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// addMetrics adds the flag.
func addMetrics(f *pflag.FlagSet, address *string) {
	f.StringVar(address, "metrics", "", "serve numbers for Prometheus meanwhile, at http://ADDRESS/metrics, such as localhost:9090 (:9090: for everybody)")
}

// serveMetrics serves g at http://ADDRESS/metrics until stop is called. at is
// the address with the port that was given.
func serveMetrics(address string, g *gauges) (at string, stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, usage("such as --metrics localhost:9090; a port that nobody uses", "--metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		g.write(w)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			s.Close()
		}
		<-done
	}, nil
}
