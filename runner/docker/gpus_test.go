package docker

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	l := ledger{taken: map[string]int{}}
	uuids := []string{"GPU-0", "GPU-1"}
	for _, want := range uuids {
		if got, err := l.take(t.Context(), uuids); err != nil || got != want {
			t.Fatalf("take = %s, %v; want %s", got, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got, err := l.take(ctx, uuids); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("take of a third: %s, %v", got, err)
	}
	taken := make(chan string, 4)
	for range 4 {
		go func() {
			u, err := l.take(t.Context(), uuids)
			if err != nil {
				u = err.Error()
			}
			taken <- u
		}()
	}
	l.free([]string{"GPU-1"})
	for i := range 4 {
		u := <-taken
		if i == 0 && u != "GPU-1" {
			t.Errorf("got %s, and GPU-1 is free", u)
		}
		l.free([]string{u})
	}
	l.note([]string{"GPU-0"})
	l.free([]string{"GPU-0"}) // of the first take
	if got, err := l.take(t.Context(), uuids); err != nil || got != "GPU-1" {
		t.Errorf("take = %s, %v; GPU-0 is held since an attach", got, err)
	}
}
