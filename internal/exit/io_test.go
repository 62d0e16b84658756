package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestCreateAndRead(t *testing.T) {
	wrap := func(e error) error { return fmt.Errorf("write x: %w", &fs.PathError{Op: "write", Path: "x", Err: e}) }
	for _, c := range []struct {
		err          error
		create, read Code
	}{
		{nil, OK, OK},
		{wrap(syscall.ENOSPC), IO, IO},
		{wrap(syscall.EDQUOT), IO, IO},
		{wrap(syscall.EIO), IO, IO},
		{wrap(syscall.EACCES), CannotWrite, NotYet},
		{wrap(syscall.EROFS), CannotWrite, IO},
		{wrap(os.ErrNotExist), CannotWrite, NotYet},
		{wrap(syscall.EISDIR), CannotWrite, BadData},
		{&Error{Code: RankLost}, RankLost, RankLost},
		{errors.New("other"), IO, IO},
	} {
		if e := CreateError("x", c.err); errors.Is(c.err, syscall.EROFS) && e.Error() != "error[E073]: read-only file system\n  at: x\n  fix: remount it for writing, or choose another directory" {
			t.Errorf("%v", e)
		}
		if got := CodeOf(CreateError("x", c.err)); got != c.create {
			t.Errorf("Create(%v) is exit %d, want %d", c.err, got, c.create)
		}
		if got := CodeOf(ReadError("x", c.err)); got != c.read {
			t.Errorf("Read(%v) is exit %d, want %d", c.err, got, c.read)
		}
	}
}
