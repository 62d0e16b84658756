//go:build long

package notebooks

import (
	"strings"
	"testing"
)

// TestLongNotebooks executes each notebook from scratch in a folder of its own, like a user who downloaded it and
// has a module that requires this one.
func TestLongNotebooks(t *testing.T) {
	for _, path := range notebooksHere(t) {
		t.Run(strings.TrimSuffix(path, ".ipynb"), func(t *testing.T) {
			t.Log(strings.TrimSpace(jupyter(t, moduleFolder(t), nil, path)))
		})
	}
}

func TestLongGCMNotebook(t *testing.T) {
	var all []int
	for i := range gcmOutputs {
		all = append(all, i)
	}
	executeGCM(t, all)
}
