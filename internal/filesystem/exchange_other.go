//go:build !linux

package filesystem

import "errors"

// exchange reports that this system has no such call.
func exchange(_, _ string) error { return errors.ErrUnsupported }
