//go:build !linux

package procid

// Self fails with ErrUnknown.
func Self() (ID, error) { return ID{}, ErrUnknown }

// Runs is false: who runs cannot be told.
func (ID) Runs() bool { return false }

// Read fails with ErrUnknown.
func Read(int) (Stat, error) { return Stat{}, ErrUnknown }
