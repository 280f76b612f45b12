package slurm

import (
	"context"
	"crypto/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// gatherTime is how long the first batch of a job array waits for others.
const gatherTime = 2 * time.Second

// gatherer puts batches that are started at about the same time, and ask for the
// same, into one job array: one call of sbatch for all of them.
type gatherer struct {
	most int // tasks of an array

	mu   sync.Mutex
	open map[string]*array // by the options of sbatch
}

// array is one job array. Task i is the batch that came as the i-th. One that is
// given up before sbatch is a task too: it finds its folder gone, and leaves.
type array struct {
	g      *gatherer
	name   string
	saving sync.WaitGroup     // tasks whose records are not on the disk yet
	full   chan struct{}      // closed when it has as many tasks as it may
	ended  chan struct{}      // closed when id and err are set
	cancel context.CancelFunc // of handing it in
	id     string
	err    error

	// Under the lock of g:
	folders []string   // of the starts, as nodes see them
	held    []*os.File // their locks
	stay    int        // tasks that have not been given up
}

// join adds a batch to an array that is still open, or to a new one, which
// submit hands in. The record of the batch must name the array and the task, and
// be on the disk, before saving is done.
func (g *gatherer) join(options []string, folder string, held *os.File, submit func(context.Context, *array) (string, error)) (a *array, index int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := strings.Join(options, "\n")
	if a = g.open[key]; a == nil {
		a = &array{g: g, name: "bench-array-" + strings.ToLower(rand.Text()[:10]), full: make(chan struct{}), ended: make(chan struct{})}
		var ctx context.Context
		ctx, a.cancel = context.WithCancel(context.Background())
		g.open[key] = a
		go func() {
			defer close(a.ended)
			defer a.cancel()
			select {
			case <-a.full:
			case <-ctx.Done():
			case <-time.After(gatherTime):
			}
			g.mu.Lock()
			if g.open[key] == a {
				delete(g.open, key)
			}
			g.mu.Unlock()
			a.saving.Wait()
			a.id, a.err = submit(ctx, a)
		}()
	}
	a.folders, a.held = append(a.folders, folder), append(a.held, held)
	a.saving.Add(1)
	if a.stay++; len(a.folders) == g.most {
		delete(g.open, key)
		close(a.full)
	}
	return a, len(a.folders) - 1
}

// wait returns the number of the job that a task became. When all who wait have
// gone, the array is given up; a single task that is given up waits for it.
func (a *array) wait(ctx context.Context, index int) (string, error) {
	select {
	case <-a.ended:
	case <-ctx.Done():
		a.g.mu.Lock()
		if a.stay--; a.stay == 0 {
			a.cancel()
		}
		a.g.mu.Unlock()
		<-a.ended
	}
	if a.err != nil {
		return "", a.err
	}
	return a.id + "_" + strconv.Itoa(index), nil
}

// script has each task run the script in the folder of its start.
func (a *array) script() string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n# bench: a job array\ncase $SLURM_ARRAY_TASK_ID in\n")
	for i, folder := range a.folders {
		file := quote(folder + "/script.sh")
		b.WriteString(strconv.Itoa(i) + ") [ -r " + file + " ] || exit " + strconv.Itoa(exitNoFolder) + "; exec bash " + file + ";;\n")
	}
	b.WriteString("esac\n")
	return b.String()
}
