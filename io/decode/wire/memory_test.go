package wire

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The peer can make a memory larger, and neither smaller nor of a fixed size.
func TestMemoryNeverShrinks(t *testing.T) {
	m, err := NewSharedMemory("test")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Resize(100); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(m.File().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	peer := OpenSharedMemory(fd, "peer")
	defer peer.Close()
	if err := peer.File().Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("shrunk: %v, want EPERM", err)
	}
	if _, err := unix.FcntlInt(peer.File().Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW); !errors.Is(err, unix.EPERM) {
		t.Errorf("sealed by the peer: %v, want EPERM", err)
	}
	if _, err := peer.Resize(1 << 20); err != nil {
		t.Error(err)
	}
	if b, err := m.View(1 << 20); err != nil || len(b) != 1<<20 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for _, n := range []int{-1, 1<<20 + 1} {
		if _, err := m.View(n); err == nil {
			t.Errorf("a view of %d bytes", n)
		}
	}
}

func TestValuesIn(t *testing.T) {
	reply := make([]byte, 40)
	for _, c := range []struct {
		name  string
		v     Values
		width int
		want  string // part of the error; empty for valid values
	}{
		{"floats to the end", Values{Offset: 8, Count: 8}, 4, ""},
		{"doubles to the end", Values{Offset: 8, Count: 4}, 8, ""},
		{"none", Values{Offset: 40}, 8, ""},
		{"one too many", Values{Offset: 8, Count: 9}, 4, "9 values at byte 8 of 40"},
		{"before the reply", Values{Offset: -8, Count: 1}, 4, "at byte -8"},
		{"behind the reply", Values{Offset: 48}, 4, "at byte 48"},
		{"negative", Values{Count: -1}, 4, "-1 values"},
		{"overflow", Values{Offset: 8, Count: 1<<63 - 1}, 8, "values at byte 8"},
		{"the child's error", Values{Error: "no such variable"}, 4, "no such variable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := c.v.Bytes(reply, c.width)
			if c.want == "" {
				if err != nil || len(raw) != c.width*c.v.Count {
					t.Errorf("%d bytes, %v; want %d", len(raw), err, c.width*c.v.Count)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
