package trained

import (
	"os"
	"path/filepath"
	"slices"
)

// CompleteDirectories lists the run directories whose paths begin with what is typed, finished
// or not; for "" those here and in the folder runs.
func CompleteDirectories(typed string) []string {
	patterns := []string{typed + "*"}
	if typed == "" || typed == "runs" {
		patterns = append(patterns, "runs/*")
	}
	var found []string
	for _, p := range patterns {
		paths, err := filepath.Glob(p)
		if err != nil {
			continue // what is typed is no pattern, and so the name of nothing
		}
		for _, path := range paths {
			if _, err := os.Stat(filepath.Join(path, EffectiveConfigFile)); err == nil {
				found = append(found, path)
			}
		}
	}
	slices.Sort(found)
	return found
}
