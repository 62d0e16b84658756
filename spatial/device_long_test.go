//go:build long && cgo && linux

package spatial

import "testing"

// All layers on devices.
func TestLongLayersOnDevices(t *testing.T) { layersOnDevices(t, every) }
