package decode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
)

// child is one running ensemble-decode process.
type child struct {
	cmd     *exec.Cmd
	in, out *wire.SharedMemory // shared memories: in is written by this process, out by the child
	file    *wire.SharedMemory // a file that the child encodes
	folders []granted          // whose files it may read
	sandbox string             // what restricts it, of its Hello
	stdin   *os.File
	stdout  *os.File
	stderr  stderrTail
	id      uint64        // of the last request
	dead    bool          // the process has ended or was killed
	waited  chan struct{} // closed when the process has been waited for; waitErr is valid then
	waitErr error
}

// startChild starts a child and reads its handshake. The protocol is that of package
// wire: frames of JSON on stdin and stdout, payloads in two shared memories that the
// child inherits as descriptors 3 and 4.
//
// The variables of its environment keep the child small and alone: one OpenMP thread,
// since the pool is what runs in parallel; no traceback of Go, whose length would
// displace the library's message in stderrTail; no HDF5 file locks, which file systems
// on clusters often refuse. The child applies ENSEMBLE_DECODE_MEMORY to itself
// (RLIMIT_AS).
//
// Errors: exit 69 with the message of the dynamic linker if it cannot start.
// Cost: one start of a process and the loading of its libraries; so children are kept.
func startChild(ctx context.Context, o Options, folders []string) (*child, error) {
	c := &child{waited: make(chan struct{}), folders: grantedOf(folders)}
	fail := func(err error) (*child, error) {
		c.close()
		return nil, &exit.Error{Code: exit.NoDevice, What: "the decoding program cannot be started", At: o.Program,
			Why: err.Error(), Fix: "run `ensemble doctor` for missing libraries", Err: err}
	}
	var err error
	if c.in, err = wire.NewSharedMemory("ensemble-input"); err != nil {
		return fail(err)
	}
	if c.out, err = wire.NewSharedMemory("ensemble-output"); err != nil {
		return fail(err)
	}
	if c.file, err = wire.NewSharedFile("ensemble-file"); err != nil {
		return fail(err)
	}
	readable, err := json.Marshal(folders)
	if err != nil {
		return fail(err)
	}
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer childIn.Close()
	stdout, childOut, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return fail(err)
	}
	defer childOut.Close()
	c.stdin, c.stdout = stdin, stdout
	c.cmd = exec.Command(o.Program)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = childIn, childOut, &c.stderr
	c.cmd.ExtraFiles = []*os.File{c.in.File(), c.out.File(), c.file.File()} // descriptors 3 to 5
	c.cmd.Env = append(libraryEnviron(), fmt.Sprintf("%s=%d", wire.MemoryEnv, o.Memory), fmt.Sprintf("%s=%s", wire.FoldersEnv, readable),
		"OMP_NUM_THREADS=1", "GOMAXPROCS=2", "GOTRACEBACK=none", "HDF5_USE_FILE_LOCKING=FALSE")
	c.cmd.WaitDelay = time.Second // in case another process keeps its stderr open
	if err := c.cmd.Start(); err != nil {
		c.cmd = nil
		return fail(err)
	}
	go func() {
		c.waitErr = c.cmd.Wait()
		close(c.waited)
	}()
	childOut.Close() // so that reads end when the child exits
	var hello wire.Hello
	if err := c.read(ctx, 30*time.Second, &hello); err != nil {
		if ctx.Err() != nil { // the caller cancelled the start
			c.close()
			return nil, ctx.Err()
		}
		reason := c.reason(err)
		if text := c.stderr.String(); text != "" {
			reason = text
		}
		return fail(errors.New(reason))
	}
	c.sandbox = hello.Sandbox
	if hello.Protocol != wire.Protocol {
		return fail(fmt.Errorf("it uses protocol %d, this program %d: install the same version of both", hello.Protocol, wire.Protocol))
	}
	return c, nil
}

// do executes one request. Afterwards c.dead reports whether the child has ended. The
// child stays usable after an error of its own (Reply.Error), because it has read the
// whole request. After a failed write or read, and after a reply to another request, it
// is killed, since the position in its output is unknown then. After an impossible reply
// it is killed too, since a damaged request may have harmed it, or taken it over.
//
// CPUSeconds is the deadline plus one second: a child that computes on after this
// process was killed ends by RLIMIT_CPU.
//
// Memory: the input, if there is any, has the size of the request and belongs to the
// child until the reply. The output is lent to ReadOutput and valid until it returns.
// Errors: *DiedError if the process has ended, sent a damaged or impossible reply, or exceeded the
// deadline; the child's *exit.Error; ctx.Err().
func (c *child) do(ctx context.Context, call Call, args json.RawMessage, o Options) error {
	deadline := call.Deadline
	if deadline == 0 {
		deadline = o.Deadline
	}
	died := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &DiedError{Kind: call.Kind, Reason: c.reason(err), Stderr: c.stderr.String(), Killed: c.wasKilled(err)}
	}
	if call.InputBytes > 0 {
		dst, err := c.in.Resize(call.InputBytes)
		if errors.Is(err, wire.ErrImpossible) {
			c.kill()
			return died(err)
		}
		if err != nil {
			return err
		}
		call.WriteInput(dst)
	}
	c.id++
	req := wire.Request{ID: c.id, Kind: call.Kind, Args: args, InputBytes: call.InputBytes, CPUSeconds: int(deadline/time.Second) + 1}
	if err := wire.WriteFrame(c.stdin, req); err != nil {
		c.kill()
		return died(err)
	}
	var reply wire.Reply
	if err := c.read(ctx, deadline, &reply); err != nil {
		return died(err)
	}
	if reply.ID != req.ID {
		c.kill()
		return died(fmt.Errorf("reply %d to request %d", reply.ID, req.ID))
	}
	if reply.Error != nil {
		return reply.Error.Exit()
	}
	if call.Result != nil {
		if err := json.Unmarshal(reply.Result, call.Result); err != nil {
			c.kill()
			return died(fmt.Errorf("result: %w", err))
		}
	}
	if call.ReadFile != nil {
		return c.readFile(call.ReadFile)
	}
	if call.ReadOutput == nil {
		return nil
	}
	payload, err := c.out.View(reply.OutputBytes)
	if err != nil {
		c.kill()
		return died(err)
	}
	err = call.ReadOutput(payload)
	if errors.Is(err, wire.ErrImpossible) {
		c.kill()
	}
	return err
}

// readFile passes the file that the child has encoded, and frees its memory.
func (c *child) readFile(read func(f io.Reader) error) error {
	f := c.file.File()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return errors.Join(read(f), f.Truncate(0))
}

// libraryVariables are the beginnings of the names of variables that libraries of the child, the dynamic linker and tests of
// Go read.
var libraryVariables = []string{"ECCODES_", "GRIB_", "HDF5_", "NETCDF_", "LD_LIBRARY_PATH=", "LANG=", "LC_", "TZ=", wire.SandboxEnv + "=", "GOCOVERDIR="}

// libraryEnviron returns the part of the environment that the child gets. Passwords and keys of the caller are not among it.
func libraryEnviron() (of []string) {
	for _, v := range os.Environ() {
		if slices.ContainsFunc(libraryVariables, func(begin string) bool { return strings.HasPrefix(v, begin) }) {
			of = append(of, v)
		}
	}
	return of
}

// errDeadline is the reason of a child that was killed at its deadline.
var errDeadline = errors.New("deadline")

// read waits for one frame. At the deadline, on cancellation and on any error it kills
// the child. Cancellation sets a read deadline in the past, which ends a blocked read of
// a pipe; closing it would race with the next request.
func (c *child) read(ctx context.Context, within time.Duration, v any) error {
	if err := c.stdout.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.stdout.SetReadDeadline(time.Unix(1, 0))
		close(late)
	})
	err := wire.ReadFrame(c.stdout, v)
	if !stop() {
		<-late // the read deadline must not affect the next request
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no reply within %s: %w", within, errDeadline)
	}
	c.kill()
	return err
}

// kill ends the process and waits for it. SIGKILL cannot be caught, so the wait is
// short. Afterwards c.waitErr is valid. A second call has no effect.
func (c *child) kill() {
	c.dead = true
	if c.cmd != nil {
		c.cmd.Process.Kill()
		<-c.waited
	}
}

// reason describes why the child ended: the deadline, or its exit status. An end of file
// alone is less specific than the exit status ("signal: segmentation fault"), so the latter has
// precedence.
func (c *child) reason(err error) string {
	if errors.Is(err, errDeadline) {
		return strings.TrimSuffix(err.Error(), ": "+errDeadline.Error())
	}
	if c.waitErr != nil && isClosedPipe(err) {
		return c.waitErr.Error()
	}
	return err.Error()
}

// isClosedPipe reports whether a write or read failed because the child has ended.
func isClosedPipe(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
}

// wasKilled reports whether SIGKILL ended the child before this process noticed: it is sent by the kernel
// when memory is short, or by people. Damaged input causes other signals.
func (c *child) wasKilled(err error) bool {
	var ended *exec.ExitError
	if !isClosedPipe(err) || !errors.As(c.waitErr, &ended) {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// close closes the child's input, after which it exits, and frees all resources. It
// kills the child after two seconds. It may be called for a child of which only a part
// was started. After a return no memory, descriptor or process of it exists.
func (c *child) close() {
	c.dead = true
	if c.stdin != nil {
		c.stdin.Close()
	}
	if c.cmd != nil {
		select {
		case <-c.waited:
		case <-time.After(2 * time.Second):
			c.kill()
		}
	}
	if c.stdout != nil {
		c.stdout.Close()
	}
	for _, m := range []*wire.SharedMemory{c.in, c.out, c.file} {
		if m != nil {
			m.Close()
		}
	}
}

// stderrTail keeps the last bytes written to it. The goroutine of os/exec writes while a
// request reads, hence the mutex. The zero value is empty.
type stderrTail struct {
	mu  sync.Mutex
	buf []byte
}

// tailSize bounds the text of stderr that is kept: enough for the error of a
// library.
const tailSize = 2048

// Write appends p and discards the oldest bytes.
func (t *stderrTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the last two lines, joined to one. Libraries print causes last; earlier
// lines are often warnings about other messages.
func (t *stderrTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.buf)), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-2):], "; "))
}
