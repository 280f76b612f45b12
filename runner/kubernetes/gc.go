package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"bench/runner/job"
)

// Check asks whether batches can be started in the cluster. The error is a
// *runner.PreconditionError.
func (e *Executor) Check(ctx context.Context) error {
	c, err := e.here(ctx)
	if err != nil {
		return err
	}
	_, err = e.prepared(ctx, c, job.Batch{Device: "cpu"})
	return err
}

// GC removes what batches of this instance left in the cluster: Jobs that have
// ended and nobody collected, their folders of the volume, and the running ones
// too if running is true; then also the models, the helper pod and the
// NetworkPolicy. It returns the names of what was removed.
func (e *Executor) GC(ctx context.Context, running bool) (names []string, err error) {
	if e.o.Instance == "" {
		return nil, errors.New("kubernetes: no instance to clean up for")
	}
	c, err := e.here(ctx)
	if err != nil {
		return nil, err
	}
	o := e.o
	o.Place = c.place
	var jobs list[batchJob]
	if err := c.call(ctx, http.MethodGet, c.jobs(), c.selector(), nil, &jobs); err != nil {
		return nil, c.precondition(err)
	}
	var errs []error
	var folders []string
	left := 0
	for _, j := range jobs.Items {
		if finished(&j) == nil && !running {
			left++
			continue
		}
		run := j.Metadata.Labels[labelRun]
		if err := c.delete(ctx, j.Metadata.Name, run, "Foreground"); err != nil {
			errs = append(errs, c.precondition(err))
			left++
			continue
		}
		names = append(names, "Job "+j.Metadata.Name)
		folders = append(folders, o.runFolder(job.ID(j.Metadata.Labels[labelBatch]), run))
	}
	if left > 0 || !running {
		if len(folders) > 0 {
			errs = append(errs, c.volume.remove(ctx, folders...))
		}
		return names, errors.Join(errs...)
	}
	// Nothing of this home is needed there any more.
	errs = append(errs, c.volume.remove(ctx, o.root()))
	for kind, at := range map[string]string{
		"Pod":           c.pods() + "/bench-helper-" + url.PathEscape(o.Instance),
		"NetworkPolicy": c.in("apis/networking.k8s.io/v1", "networkpolicies") + "/bench-" + url.PathEscape(o.Instance),
	} {
		err := c.call(ctx, http.MethodDelete, at, nil, nil, nil)
		if err == nil {
			names = append(names, kind+" "+path.Base(at))
		} else if !isReason(err, "NotFound") && !isReason(err, "Forbidden") {
			errs = append(errs, c.precondition(err))
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names, errors.Join(errs...)
}
