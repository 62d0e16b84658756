//go:build !linux

package filesystem

// Reserve reserves nothing on this system.
func Reserve(File, int64) error { return nil }

// DropCache does nothing on this system.
func DropCache(File) {}

// IsInMemory is unknown on this system.
func IsInMemory(string) bool { return false }
