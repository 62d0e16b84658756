//go:build long

package train

import "testing"

// TestLongStateTable runs TestStateTable for all events.
func TestLongStateTable(t *testing.T) {
	for _, event := range stateEvents {
		t.Run(event, func(t *testing.T) { checkStateEvent(t, event) })
	}
}
