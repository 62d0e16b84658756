package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
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

// TestFault45Memory: a decoder that exceeds its memory limit ends, by whatever does not get memory first: an allocation or a thread.
func TestFault45Memory(t *testing.T) {
	if text, code := asWild(t, "memory", wire.MemoryEnv+"="+fmt.Sprint(3<<30)); !strings.Contains(text, "out of memory") && !strings.Contains(text, "pthread_create failed") || code == int(exit.OK) {
		t.Errorf("exit %d: %.300s", code, text)
	}
}
