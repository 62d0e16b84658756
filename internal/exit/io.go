package exit

import (
	"errors"
	"io/fs"
	"syscall"
)

// CreateError returns the error of creating or writing a file or folder: exit 74
// for a full disk, a quota or a failing device, where a retry may succeed; 73 where
// a path or a permission prevents it. An error that is an Error already is
// returned unchanged.
func CreateError(path string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Code: IO, What: "cannot write", At: path, Why: cause(err), Fix: "fix the cause above; rerun the same command", Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		e.What, e.Fix = "no space left", "free some space; rerun the same command"
	case errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		e.What, e.Fix = "disk quota or file size limit reached", "free some space or raise the limit; rerun the same command"
	case errors.Is(err, syscall.EROFS):
		e.Code, e.What, e.Why, e.Fix = CannotWrite, "read-only file system", "", "remount it for writing, or choose another directory"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.What, e.Fix = CannotWrite, "no permission to write", "choose another directory, or change its permissions"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR):
		e.Code, e.What, e.Fix = CannotWrite, "cannot create output", "choose another path"
	}
	return e
}

// ReadError returns the error of reading an input file: exit 66 if it is missing,
// 65 if it is not a file, 74 if reading fails. An error that is an Error already is
// returned unchanged.
func ReadError(path string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Code: IO, What: "cannot read", At: path, Why: cause(err), Fix: "fix the cause above; rerun the same command", Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.What, e.Why, e.Fix = NotYet, "no such file", "", "correct the path, or wait until the file exists"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.What, e.Fix = NotYet, "no permission to read", "change the permissions of the file"
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		e.Code, e.What, e.Fix = BadData, "not a file", "give the path of a file"
	}
	return e
}

// cause returns the operating system's message without operation and path.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
