//go:build !linux

package atomicfile

func spread(string) {}
