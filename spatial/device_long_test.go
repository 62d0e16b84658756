//go:build long && cgo && linux

package spatial

import "testing"

// All layers on devices.
func TestLongLayersOnDevices(t *testing.T) { layersOnDevices(t, every) }

func TestLongShardOnDevices(t *testing.T) {
	shardOnDevices(t, func(string, Mesh) bool { return true })
}
