package trained

import (
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// CompleteDirectories lists run directories, finished or not, whose paths start with typed; for "" those in the
// working directory and in the folder runs. Shell completion uses it.
func CompleteDirectories(typed string) []string {
	patterns := []string{typed + "*"}
	if typed == "" || typed == "runs" {
		patterns = append(patterns, "runs/*")
	}
	var found []string
	for _, p := range patterns {
		paths, err := filepath.Glob(p)
		if err != nil {
			continue // an invalid pattern matches nothing
		}
		for _, path := range paths {
			if _, err := filesystem.Stat(filepath.Join(path, EffectiveConfigFile)); err == nil {
				found = append(found, path)
			}
		}
	}
	slices.Sort(found)
	return found
}
