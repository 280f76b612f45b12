//go:build ignore

// Pause is process 1 of a pod: it reaps what others leave behind and ends when
// it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 16)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range told {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
