package exit

import (
	"errors"
	"io/fs"
	"syscall"
)

// CreateError says why a file or folder cannot be made or written: 74 for a full disk,
// a quota or a device that fails, which another try may cure; 73 where something
// stands in the way. An error that is an Error already is returned as it is.
func CreateError(path string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Code: IO, What: "cannot write", At: path, Why: cause(err), Fix: "mend what is named above; rerun the same command", Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		e.What, e.Fix = "no space left", "free some space; rerun the same command"
	case errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		e.What, e.Fix = "the quota or the file size limit is reached", "free some space or raise the limit; rerun the same command"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Code, e.What, e.Fix = CannotWrite, "no permission to write", "choose another directory, or change its permissions"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR):
		e.Code, e.What, e.Fix = CannotWrite, "cannot create output", "choose another path"
	}
	return e
}

// ReadError says why an input file cannot be read: 66 if it is not there, 65 if it is
// not a file, 74 if reading fails. An error that is an Error already is returned
// as it is.
func ReadError(path string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Code: IO, What: "cannot read", At: path, Why: cause(err), Fix: "mend what is named above; rerun the same command", Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.What, e.Why, e.Fix = NotYet, "no such file", "", "correct the path, or wait until the file is there"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.What, e.Fix = NotYet, "no permission to read", "change the permissions of the file"
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		e.Code, e.What, e.Fix = BadData, "not a file", "give the path of a file"
	}
	return e
}

// cause is the operating system's reason without the operation and path.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
