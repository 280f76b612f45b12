//go:build !linux

package procid

import "time"

// Self fails with ErrUnknown.
func Self() (ID, error) { return ID{}, ErrUnknown }

// Up fails with ErrUnknown.
func Up() (string, time.Duration, error) { return "", 0, ErrUnknown }

// Runs is false: who runs cannot be told.
func (ID) Runs() bool { return false }

// Read fails with ErrUnknown.
func Read(int) (Stat, error) { return Stat{}, ErrUnknown }
