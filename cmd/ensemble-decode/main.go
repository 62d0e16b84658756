// Command ensemble-decode is the child process that decodes GRIB and NetCDF input
// and encodes products. It is the only program that links ecCodes, netCDF and HDF5.
// These libraries can crash or hang on damaged files. A crash then costs this
// process and one message, and the parent continues.
//
// The protocol is package io/decode/wire. The program is started by ensemble and
// cannot be used by hand.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/sandbox"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// handler executes one kind of request. args and the payload in come from the
// parent. Bulk results go to out; result is sent as JSON.
type handler func(args json.RawMessage, in []byte, out *wire.Payload) (result any, err error)

// handlers lists the requests, one file each.
var handlers = []struct {
	name string
	do   handler
}{
	{"versions", versions},
	{grib.DescribeKind, gribDescribe},
	{grib.ValuesKind, gribValues},
	{netcdf.HeaderKind, netcdfHeader},
	{netcdf.ValuesKind, netcdfValues},
	{encode.KindNetCDF, encodeNetCDF},
	{encode.KindGRIB, encodeGRIB},
}

// defaultAddressSpace is the limit of the address space unless the parent sets another one.
const defaultAddressSpace = 6 << 30

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "ensemble-decode:", err)
		os.Exit(int(exit.Bug))
	}
}

// serve answers requests until the parent closes the pipe.
func serve() error {
	if _, err := unix.FcntlInt(wire.InputFD, unix.F_GETFD, 0); err != nil {
		return errors.New("this program is started by ensemble and cannot be used by hand")
	}
	replies, err := privateStdout()
	if err != nil {
		return err
	}
	if err := limitProcess(); err != nil {
		return err
	}
	restricted, err := enterSandbox()
	if err != nil {
		return err
	}
	in := wire.OpenSharedMemory(wire.InputFD, "input")
	out := wire.OpenSharedMemory(wire.OutputFD, "output")
	hello := wire.Hello{Protocol: wire.Protocol, Libraries: libraries(), Sandbox: restricted.String()}
	for _, k := range handlers {
		hello.Kinds = append(hello.Kinds, k.name)
	}
	if err := wire.WriteFrame(replies, hello); err != nil {
		return err
	}
	for {
		var req wire.Request
		if err := wire.ReadFrame(os.Stdin, &req); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := limitCPU(req.CPUSeconds); err != nil {
			return err
		}
		reply := handle(req, in, out)
		if err := wire.WriteFrame(replies, reply); err != nil {
			return err
		}
	}
}

// handle executes one request.
func handle(req wire.Request, in, out *wire.SharedMemory) wire.Reply {
	reply := wire.Reply{ID: req.ID}
	fail := func(err error) wire.Reply {
		var e *exit.Error
		if !errors.As(err, &e) {
			e = &exit.Error{Code: exit.BadData, What: err.Error()}
		}
		reply.Error = wire.FromExit(e)
		return reply
	}
	for _, k := range handlers {
		if k.name != req.Kind {
			continue
		}
		payload, err := in.View(req.InputBytes)
		if err != nil {
			return fail(err)
		}
		p := wire.NewPayload(out)
		result, err := k.do(req.Args, payload, p)
		if err != nil {
			return fail(err)
		}
		if reply.Result, err = json.Marshal(result); err != nil {
			return fail(err)
		}
		reply.OutputBytes = p.Len()
		return reply
	}
	return fail(&exit.Error{Code: exit.NoDevice, What: "ensemble-decode has no request " + strconv.Quote(req.Kind),
		Fix: "install ensemble and ensemble-decode of the same version"})
}

// privateStdout moves the reply pipe from descriptor 1 to another descriptor and
// redirects 1 to stderr. Text that a library prints then cannot corrupt the frames.
func privateStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return nil, fmt.Errorf("duplicate the reply pipe: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, fmt.Errorf("redirect stdout to stderr: %w", err)
	}
	return os.NewFile(uintptr(fd), "replies"), nil
}

// leastAddressSpace is what Go, the libraries and a global field need.
const leastAddressSpace = 1 << 30

// limitProcess limits address space, to that of the shell if it is less, and disables core dumps. limitCPU limits
// processor time for each request.
func limitProcess() error {
	space := uint64(defaultAddressSpace)
	if s := os.Getenv(wire.MemoryEnv); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", wire.MemoryEnv, err)
		}
		space = n
	}
	var given unix.Rlimit // of the shell, such as ulimit -v, which a process cannot raise
	if err := unix.Getrlimit(unix.RLIMIT_AS, &given); err != nil {
		return fmt.Errorf("read the limit of address space: %w", err)
	}
	if space = min(space, given.Max); space < leastAddressSpace {
		return fmt.Errorf("the address space is limited to %d MiB (ulimit -v), and decoding needs %d MiB: raise the limit", space>>20, uint64(leastAddressSpace)>>20)
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: space, Max: space}); err != nil {
		return fmt.Errorf("limit address space to %d MiB: %w", space>>20, err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	debug.SetMemoryLimit(int64(space / 4))
	over := make(chan os.Signal, 1)
	signal.Notify(over, unix.SIGXCPU)
	go func() {
		<-over
		fmt.Fprintln(os.Stderr, "ensemble-decode: the request exceeded its processor time")
		os.Exit(int(exit.BadData))
	}()
	return nil
}

// enterSandbox takes all rights that decoding does not need, unless the user disabled it: the child reads folders that the parent names and
// those of its libraries, and writes shared memory or one folder.
func enterSandbox() (sandbox.State, error) {
	if os.Getenv(wire.SandboxEnv) == "off" {
		return sandbox.State{}, nil
	}
	var folders wire.Folders
	if s := os.Getenv(wire.FoldersEnv); s != "" {
		if err := json.Unmarshal([]byte(s), &folders); err != nil {
			return sandbox.State{}, fmt.Errorf("%s: %w", wire.FoldersEnv, err)
		}
	}
	return sandbox.Enter(wire.EndFD, append(folders.Read, eccodes.Folders()...), folders.Write)
}

// limitCPU allows a number of seconds of processor time from now on. The soft limit
// raises SIGXCPU. The hard limit stays as it is so that the next request can raise
// the soft limit again.
func limitCPU(seconds int) error {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	spent := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	soft := uint64(spent/time.Second) + uint64(max(seconds, 1)) + 1
	var given unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &given); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: min(soft, given.Max), Max: given.Max})
}
