package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// wild lists faults that a process of this test simulates under the limits of the
// program.
const wild = "ENSEMBLE_TEST_WILD"

func TestMain(m *testing.M) {
	switch os.Getenv(wild) {
	case "":
		os.Exit(m.Run())
	case "memory":
		if err := limitProcess(); err != nil {
			panic(err)
		}
		var kept [][]byte
		for range 64 {
			kept = append(kept, make([]byte, 64<<20))
		}
		fmt.Println("all of it was given", len(kept))
	case "shell limit":
		var limit uint64
		if _, err := fmt.Sscan(os.Getenv(shellLimit), &limit); err != nil {
			panic(err)
		}
		for _, of := range []int{unix.RLIMIT_AS, unix.RLIMIT_CPU} { // as bytes, and as seconds far beyond this test
			if err := unix.Setrlimit(of, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
				panic(err)
			}
		}
		err := errors.Join(limitProcess(), limitCPU(60))
		var got unix.Rlimit
		if e := unix.Getrlimit(unix.RLIMIT_AS, &got); e != nil {
			panic(e)
		}
		fmt.Println(got.Cur, err)
		os.Exit(1)
	case "loop":
		if err := limitProcess(); err != nil {
			panic(err)
		}
		if err := limitCPU(1); err != nil {
			panic(err)
		}
		for n := 0; ; n++ {
			sink = n
		}
	}
}

var sink int

// shellLimit holds the limit of a shell in the test of limits, in bytes and seconds.
const shellLimit = "ENSEMBLE_TEST_SHELL_LIMIT"

// A limit of the shell (ulimit -v, ulimit -t) is kept if it is lower than that of the decoder, and named if it is too low.
func TestFault33ShellLimit(t *testing.T) {
	for limit, want := range map[uint64]string{3 << 30: fmt.Sprint(3<<30, " <nil>"), 900 << 20: "limited to 900 MiB (ulimit -v), and decoding needs 1024 MiB"} {
		if text, _ := asWild(t, "shell limit", shellLimit+"="+fmt.Sprint(limit)); !strings.Contains(text, want) {
			t.Errorf("%d: %s, want %q", limit, text, want)
		}
	}
}

// asWild runs the test binary as a decoder with a fault.
func asWild(t *testing.T, what string, env ...string) (text string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), wild+"="+what), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s: it ended well: %s", what, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
