package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bench/runner"
)

// journal is HOME/logs/NAME-TIME.jsonl: everything that happened in one run, a
// JSON object a line (docs/formats.md). Lines are written as they come, so that
// they are there when bench is killed. Trouble with the file never stops a run;
// it is told once.
type journal struct {
	path string

	mu    sync.Mutex
	f     *os.File // nil: closed, or given up
	bytes int64
	full  bool
	err   error
}

// Bounds of the journals of a home.
const (
	maxJournal  = 64 << 20 // bytes of one; the last quarter is not for progress
	keepJournal = 100      // files
)

// openJournal begins the journal of a run that was started with args.
func openJournal(home, name string, args []string) (*journal, error) {
	dir := filepath.Join(home, "logs")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if err := pruneJournals(dir, keepJournal-1); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	for i := 0; ; i++ {
		path := filepath.Join(dir, name+"-"+now.Format("20060102T150405Z"))
		if i > 0 { // another run of this second
			path += fmt.Sprintf("-%d", i)
		}
		f, err := os.OpenFile(path+".jsonl", os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666)
		if errors.Is(err, os.ErrExist) && i < 1000 {
			continue
		}
		if err != nil {
			return nil, err
		}
		j := &journal{path: path + ".jsonl", f: f}
		host, _ := os.Hostname() // a journal without it is one too
		j.write(map[string]any{"type": "begin", "time": now.Truncate(time.Millisecond), "bench": version(), "command": args, "host": host, "process": os.Getpid()})
		return j, nil
	}
}

// pruneJournals removes all but the newest.
func pruneJournals(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type file struct {
		name string
		at   time.Time
	}
	var files []file
	for _, e := range entries {
		if i, err := e.Info(); err == nil && i.Mode().IsRegular() && strings.HasSuffix(e.Name(), ".jsonl") {
			files = append(files, file{e.Name(), i.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
	for _, f := range files[:max(0, len(files)-keep)] {
		if err := os.Remove(filepath.Join(dir, f.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// journalName is the first part of a journal's name: that of the sweep's file.
func journalName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '_'
		}
		return r
	}, name)
	return strings.TrimLeft(name, ".-")
}

// event writes an event. A record is in results.jsonl and left out here.
func (j *journal) event(e runner.Event) {
	if j == nil { // it could not be made
		return
	}
	e.Record = nil
	j.mu.Lock()
	drop := e.Type == "progress" && j.bytes > maxJournal*3/4
	j.mu.Unlock()
	if !drop {
		j.write(e)
	}
}

// notice writes a line that people see.
func (j *journal) notice(text string) {
	j.write(map[string]any{"type": "notice", "time": time.Now().UTC().Truncate(time.Millisecond), "message": text})
}

func (j *journal) write(v any) {
	line, err := json.Marshal(v)
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return
	}
	if err == nil {
		line = append(line, '\n')
		if j.bytes+int64(len(line)) > maxJournal {
			if j.full {
				return
			}
			j.full = true
			line = fmt.Appendf(nil, `{"type":"truncated","time":"%s","message":"the file is as big as it may be; what follows is left out"}`+"\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
		}
		var n int
		n, err = j.f.Write(line)
		j.bytes += int64(n)
	}
	if err != nil {
		j.err = err
		j.f.Close()
		j.f = nil
	}
}

// close ends the journal with how the run ended. The error is the first one of
// writing.
func (j *journal) close(rep runner.Report, failed error) error {
	if j == nil {
		return nil
	}
	end := map[string]any{
		"type": "summary", "time": time.Now().UTC().Truncate(time.Millisecond), "jobs": rep.Total, "ran": rep.Ran, "cached": rep.Cached, "failed": rep.Failed,
		"records": len(rep.Records), "wall_seconds": rep.Used.WallSeconds,
	}
	if failed != nil {
		end["error"] = failed.Error()
	}
	j.mu.Lock()
	j.full, j.bytes = false, 0 // the end is always there
	j.mu.Unlock()
	j.write(end)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f != nil {
		j.err = j.f.Close()
		j.f = nil
	}
	return j.err
}
