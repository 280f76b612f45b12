package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bench/internal/ui"
	"bench/runner"
	"bench/runner/job"

	"github.com/spf13/cobra"
)

func newStatus(a *app) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use: "status", Short: "Say what is being trained in this home", Args: cobra.NoArgs,
		Long: `Say what is being trained in this home, by whichever bench process, here or on
another machine that shares it. A batch that nobody watches goes on by itself or
has died: the next run of its models takes it over, and bench gc ends it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := a.homeDir()
			if err != nil {
				return err
			}
			for {
				if err := a.status(home); err != nil || !watch {
					return err
				}
				select {
				case <-c.Context().Done():
					return nil
				case <-time.After(2 * time.Second):
				}
			}
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "say it again every two seconds, until Ctrl-C")
	return c
}

func (a *app) status(home string) error {
	list, err := runner.Status(home)
	if err != nil {
		return err
	}
	sweeps, err := sweepsIn(home)
	if err != nil {
		return err
	}
	if a.json {
		e := json.NewEncoder(a.stdout)
		for _, s := range sweeps {
			if err := e.Encode(struct {
				Type string `json:"type"`
				sweepProgress
			}{"sweep", s}); err != nil {
				return err
			}
		}
		for _, r := range list {
			if err := e.Encode(struct {
				Type string `json:"type"`
				runner.Running
			}{"running", r}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, s := range sweeps {
		fmt.Fprintln(a.stdout, strings.Join(s.lines(), "\n"))
	}
	if len(list) == 0 {
		fmt.Fprintln(a.stdout, "nothing is being trained in", home)
		return nil
	}
	var rows [][]string
	for _, r := range list {
		now := "starting"
		if r.Waiting != "" {
			now = plain(r.Waiting)
		}
		if r.Job != "" {
			now = fmt.Sprintf("%s seed %d step %d", r.Dataset, r.Seed, r.Step)
		}
		if r.Loss != nil {
			now += fmt.Sprintf(" val loss %.4f", *r.Loss)
		}
		watched := "yes"
		if !r.Watched {
			watched = "no"
		}
		since := ""
		if !r.Started.IsZero() {
			since = max(0, time.Since(r.Started)).Round(time.Second).String() // no less than nothing, should the clock have been set back
			if times := r.Late(time.Now()); times > 0 {
				since += fmt.Sprintf(" (%.1f times as long as expected)", times)
			}
		}
		rows = append(rows, []string{r.Model, fmt.Sprintf("%d/%d", r.Ended, r.Jobs), r.Where.Executor + "@" + r.Where.Host, now, since, watched})
	}
	fmt.Fprint(a.stdout, ui.Table([]string{"model", "jobs", "where", "now", "for", "watched"}, rows))
	return nil
}

func newLogs(a *app) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "logs JOB", Short: "Show the log of a job", Args: cobra.ExactArgs(1),
		Long: `Show the log of a job, by its id or the beginning of it, or of a batch that runs.
With -f it goes on while that runs.`,
		RunE: func(c *cobra.Command, args []string) error { return a.logs(c.Context(), args[0], follow) },
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on while the job runs")
	return c
}

func (a *app) logs(ctx context.Context, id string, follow bool) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	l, err := findLog(home, id)
	if err != nil {
		return err
	}
	path, running := l.path, l.runs
	if l.note != "" {
		fmt.Fprintln(a.stderr, "bench: note:", l.note)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(a.stderr, "bench: its trainer wrote no log")
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := io.Copy(a.stdout, f); err != nil {
			return err
		}
		if !follow || !running {
			return nil
		}
		// The file is removed when the batch has been taken in, after its last line.
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			running = false
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// foundLog is a log, and what there is to say of it.
type foundLog struct {
	path string
	runs bool
	note string
}

// findLog finds the log of the only job, stored or in a running batch, or running
// batch, whose id begins with prefix. A job that is in a batch has the log of that,
// whatever became of it before.
func findLog(home, prefix string) (foundLog, error) {
	list, err := runner.Status(home)
	if err != nil {
		return foundLog{}, err
	}
	found := map[job.ID]foundLog{}
	for _, r := range list {
		if strings.HasPrefix(string(r.Batch), prefix) {
			found[r.Batch] = foundLog{path: r.Log, runs: true}
		}
		for _, id := range r.Left {
			if !strings.HasPrefix(string(id), prefix) {
				continue
			}
			l := foundLog{path: r.Log, runs: true}
			if id != r.Job {
				l.note = fmt.Sprintf("job %s waits in batch %s; this is the log of the batch so far", id.Short(), r.Batch.Short())
			}
			found[id] = l
		}
	}
	if len(prefix) >= 2 {
		stored, err := filepath.Glob(filepath.Join(filepath.Dir(job.Store{Home: home}.Dir(job.ID(prefix+strings.Repeat("0", 64)))), prefix+"*"))
		if err != nil {
			return foundLog{}, usage("", "%q is no job", prefix)
		}
		for _, dir := range stored {
			id, log := job.ID(filepath.Base(dir)), filepath.Join(dir, "trainer.log")
			l, again := found[id]
			if !again {
				l.path = log
			} else if _, err := os.Stat(log); err == nil {
				l.note = strings.TrimPrefix(l.note+"; it has ended before: the log of that time is "+log, "; ")
			}
			found[id] = l
		}
	}
	switch len(found) {
	case 0:
		return foundLog{}, usage("ids are in bench run --json, bench status --json and HOME/jobs", "no job or running batch begins with %q", prefix)
	case 1:
		for _, l := range found {
			return l, nil
		}
	}
	return foundLog{}, usage("give more of the id", "%d jobs begin with %q", len(found), prefix)
}
