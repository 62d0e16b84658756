package decode_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
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
	return frame(`{"protocol":2}`) + `; head -c 4 >/dev/null; ` + after
}

// frame is a command that prints a frame.
func frame(text string) string {
	return fmt.Sprintf(`printf '\%03o\000\000\000%s'`, len(text), text)
}

// TestFault45Shrink: a child that shrinks the memory of its output, which is mapped, does not end the program.
func TestFault45Shrink(t *testing.T) {
	tried := filepath.Join(t.TempDir(), "tried")
	memory := "/proc/self/fd/4"
	p := pool(t, decode.Options{Children: 1, Program: script(t, greet("truncate -s 65536 "+memory+"; "+frame(`{"id":1,"out":65536}`)+"; truncate -s 0 "+memory+" 2>"+tried+".part; mv "+tried+".part "+tried+"; cat >/dev/null"))})
	sum := 0
	err := p.Do(context.Background(), decode.Call{Kind: "any", ReadOutput: func(payload []byte) error {
		for range 600 { // until the child has tried
			if text, err := os.ReadFile(tried); err == nil {
				if !strings.Contains(string(text), "not permitted") {
					t.Errorf("the memory was shrunk: %s", text)
				}
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		for _, b := range payload { // SIGBUS if it is smaller
			sum += 1 + int(b)
		}
		return nil
	}})
	if err != nil || sum != 65536 {
		t.Errorf("read %d, %v", sum, err)
	}
}

// TestFault45Enlarged: a child that enlarges its input memory, which then cannot have the size of the next request, is replaced.
func TestFault45Enlarged(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	p := pool(t, decode.Options{Children: 1, Program: script(t, "echo >>"+starts+"; "+
		greet("head -c 1 >/dev/null; truncate -s 1M /proc/self/fd/3; "+frame(`{"id":1}`)+"; cat >/dev/null"))})
	for n, size := range []int{10, 1 << 17} {
		if err := p.Do(context.Background(), decode.Call{Kind: "any", InputBytes: size, WriteInput: func([]byte) {}}); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if text, err := os.ReadFile(starts); err != nil || len(text) != n+1 {
			t.Errorf("%d children after %d requests, %v", len(text), n+1, err)
		}
	}
}

// TestFault45Impossible: a child is ended after a reply that no sound one sends, and the next request has another.
func TestFault45Impossible(t *testing.T) {
	for _, c := range []struct{ name, reply, want string }{
		{"more output than there is", `{"id":1,"result":{},"out":65536}`, "has 0 bytes, the peer announced 65536"},
		{"negative output", `{"id":1,"result":{},"out":-1}`, "announced -1 bytes"},
		{"another result", `{"id":1,"result":7}`, "cannot unmarshal number"},
		{"another request", `{"id":2}`, "reply 2 to request 1"},
		{"values outside of the output", `{"id":1,"result":{"at":8,"n":1}}`, "1 values at byte 8 of 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			starts := filepath.Join(t.TempDir(), "starts")
			p := pool(t, decode.Options{Children: 1, Program: script(t, "echo >>"+starts+"; "+greet(frame(c.reply)+"; cat >/dev/null"))})
			for n := 1; n <= 2; n++ {
				var v wire.Values
				err := p.Do(context.Background(), decode.Call{Kind: "any", NoRetry: true, Result: &v, ReadOutput: func(payload []byte) error {
					_, err := v.Bytes(payload, 4)
					return err
				}})
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if text, err := os.ReadFile(starts); err != nil || len(text) != n {
					t.Errorf("%d children after %d requests, %v", len(text), n, err)
				}
			}
		})
	}
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
