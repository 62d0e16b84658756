package product

import (
	"errors"
	"io/fs"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// RefuseLink checks that an output directory below the root of products is no symbolic link: its files would be written
// wherever the link leads. The root itself may be one. A path that does not exist is no error.
//
// Errors: exit 73 for a link and for another kind of file than a directory.
func RefuseLink(dir string) error {
	st, err := filesystem.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return exit.CreateError(dir, err)
	case st.Mode()&fs.ModeSymlink != 0:
		return &exit.Error{Code: exit.CannotWrite, What: "the output directory is a symbolic link", At: dir, Why: "files would be written where it leads",
			Fix: "remove the link, or give its target as the root of the products"}
	case !st.IsDir():
		return &exit.Error{Code: exit.CannotWrite, What: "the output directory is a file", At: dir, Fix: "move it, or write to another directory"}
	}
	return nil
}
