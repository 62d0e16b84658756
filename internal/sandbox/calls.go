package sandbox

import (
	"os"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allowed are the system calls that Go, the C library, HDF5, netCDF and ecCodes make on the way from bytes to values. Names that a
// processor lacks are left out. Opening a file is decided by Landlock.
var allowed = []string{
	// memory
	"brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "mincore", "msync", "membarrier", "memfd_create", "get_mempolicy",
	// open files
	"read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2", "lseek", "close", "close_range", "fcntl", "flock",
	"fsync", "fdatasync", "ftruncate", "fallocate", "fadvise64", "readahead", "dup", "dup2", "dup3", "pipe", "pipe2", "eventfd2", "ioctl",
	// names of files
	"open", "openat", "openat2", "fstat", "stat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2", "readlink", "readlinkat",
	"getdents", "getdents64", "getcwd",
	// threads; clone is below
	"futex", "futex_waitv", "futex_wait", "futex_wake", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "sched_yield", "sched_getaffinity", "sched_setaffinity",
	"sched_getparam", "sched_getscheduler", "gettid", "getpid", "getppid", "getcpu", "exit", "exit_group",
	// signals; tgkill is below
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_sigpending", "sigaltstack", "restart_syscall", "pause",
	// time
	"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "times", "timer_create", "timer_settime", "timer_gettime", "timer_delete",
	"setitimer", "getitimer",
	// waiting
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6",
	// the process and the system
	"getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "getpgrp", "uname", "sysinfo", "getrlimit", "setrlimit", "prlimit64", "getrusage", "getrandom",
	"arch_prctl", "prctl", "umask",
}

// filterCalls allows the system calls of allowed, threads of this process, and signals to them. Others fail with EPERM; clone3, whose flags a
// filter cannot see, with ENOSYS, upon which the C library calls clone.
//
// Returns: false if the kernel has no filters.
func filterCalls() (bool, error) {
	if !seccomp.Supported() {
		return false, nil
	}
	info, err := arch.GetInfo("")
	if err != nil {
		return false, nil // a processor for which there are no numbers
	}
	group := seccomp.SyscallGroup{Action: seccomp.ActionAllow, NamesWithCondtions: []seccomp.NameWithConditions{
		{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
		{Name: "tgkill", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: uint64(os.Getpid())}}},
	}}
	for _, name := range allowed {
		if _, ok := info.SyscallNames[name]; ok {
			group.Names = append(group.Names, name)
		}
	}
	newer := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}}
	return true, seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{newer, group}}})
}
