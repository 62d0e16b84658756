package eccodes

// #include <eccodes.h>
import "C"

import (
	"path/filepath"
	"strings"
)

// Folders lists the folders from which ecCodes reads its definitions and samples; none if they are linked into it.
func Folders() (all []string) {
	for _, list := range []string{C.GoString(C.codes_definition_path(nil)), C.GoString(C.codes_samples_path(nil))} {
		for _, p := range filepath.SplitList(list) {
			if p != "" && !strings.HasPrefix(p, "/MEMFS") {
				all = append(all, p)
			}
		}
	}
	return all
}
