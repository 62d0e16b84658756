package decode_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
)

func pool(t *testing.T, o decode.Options) *decode.Pool {
	t.Helper()
	if o.Program == "" {
		o.Program = testdecoder.Path(t)
	}
	p, err := decode.NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// script writes a program that simulates a faulty ensemble-decode.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ensemble-decode")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersionsFromManyGoroutines(t *testing.T) {
	p := pool(t, decode.Options{Children: 2})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			v, err := p.Libraries(context.Background())
			if err != nil || !strings.HasPrefix(v["eccodes"], "2.") || !strings.HasPrefix(v["netcdf"], "4.") {
				t.Errorf("libraries %v, error %v", v, err)
			}
		})
	}
	wg.Wait()
}

func TestUnknownKindIsAnAnswerNotADeath(t *testing.T) {
	p := pool(t, decode.Options{Children: 1})
	err := p.Do(context.Background(), decode.Call{Kind: "no-such-job"})
	if exit.CodeOf(err) != exit.NoDevice || !strings.Contains(err.Error(), "no-such-job") {
		t.Errorf("got %v", err)
	}
	if _, err := p.Libraries(context.Background()); err != nil {
		t.Errorf("the child should still serve: %v", err)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Setenv(decode.ProgramEnv, filepath.Join(t.TempDir(), "nothing"))
	if _, err := decode.NewPool(decode.Options{}); exit.CodeOf(err) != exit.NoDevice {
		t.Errorf("got %v, want exit 69", err)
	}
}

// TestFault36: the child cannot be loaded without its libraries.
func TestFault36(t *testing.T) {
	text := "error while loading shared libraries: libeccodes.so.0: cannot open shared object file"
	p := pool(t, decode.Options{Program: script(t, "echo '"+text+"' >&2; exit 127")})
	_, err := p.Libraries(context.Background())
	if exit.CodeOf(err) != exit.NoDevice || !strings.Contains(err.Error(), "libeccodes.so.0") {
		t.Errorf("got %v, want exit 69 with the loader's words", err)
	}
}

// greet prints the frame of a valid Hello and then executes a command.
func greet(after string) string {
	hello := `{"protocol":2}`
	return `printf '\016\000\000\000` + hello + `'; head -c 4 >/dev/null; ` + after
}

func TestDeathAndHangAreReported(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		deadline         time.Duration
	}{
		{"crash", greet("echo boom >&2; kill -SEGV $$"), "segmentation fault", time.Minute},
		{"hang", greet("exec sleep 300"), "no reply within", 300 * time.Millisecond},
		{"nonsense", greet(`printf '\377\377\377\377'`), "exceeds the limit", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pool(t, decode.Options{Program: script(t, c.text), Deadline: c.deadline})
			begin := time.Now()
			_, err := p.Libraries(context.Background())
			var died *decode.DiedError
			if !errors.As(err, &died) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a DiedError with %q", err, c.want)
			}
			if d := time.Since(begin); d > 50*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
}

// A child that is killed from outside, as for want of memory, is no fault of its input.
func TestKilledChild(t *testing.T) {
	p := pool(t, decode.Options{Program: script(t, greet("kill -KILL $$"))})
	_, err := p.Libraries(context.Background())
	var died *decode.DiedError
	if exit.CodeOf(err) != exit.IO || errors.As(err, &died) || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("got %v, want exit 74", err)
	}
}

func TestCancelledContextEndsTheRequest(t *testing.T) {
	for name, text := range map[string]string{"working": greet("exec sleep 60"), "starting": "exec sleep 60"} {
		p := pool(t, decode.Options{Program: script(t, text)})
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		if _, err := p.Libraries(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
