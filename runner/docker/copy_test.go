package docker

import (
	"context"
	"strings"

	"bench/containers"
)

// clean checks that nothing is left on the engine but models and data sets.
func (l *lab) clean() {
	l.Helper()
	own := map[string]string{containers.LabelInstance: l.o.Instance}
	if found, err := l.e.Find(context.Background(), own); err != nil || len(found) != 0 {
		l.Errorf("%d containers are left, %v", len(found), err)
	}
	found, err := l.e.Volumes(context.Background(), own)
	if err != nil {
		l.Error(err)
	}
	for _, v := range found {
		if v.Labels[containers.LabelContent] == "" || !strings.HasPrefix(v.Name, "bench-") {
			l.Errorf("volume %s is left", v.Name)
		}
	}
}
