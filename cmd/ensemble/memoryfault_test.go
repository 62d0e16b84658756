package main

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// otherFile is a System in which one path opens another file.
type otherFile struct {
	filesystem.System
	path, other string
}

func (s otherFile) OpenFile(name string, flag int, perm fs.FileMode) (filesystem.File, error) {
	if name == s.path {
		name = s.other
	}
	return s.System.OpenFile(name, flag, perm)
}

// TestFault33Plan: plan warns of a training that needs more memory than the machine has, and of no other.
func TestFault33Plan(t *testing.T) {
	f := faulty(t)
	const warning = "too much: set train.memory"
	for kib, warned := range map[string]bool{"1024": true, "1073741824": false} {
		info := f.put("meminfo", []byte("MemTotal: "+kib+" kB\nMemAvailable: "+kib+" kB\n"))
		restore := filesystem.Replace(otherFile{filesystem.Current(), "/proc/meminfo", info})
		text := f.expect(exit.OK, []string{"; the machine has "}, "plan", "-c", f.config)
		restore()
		if strings.Contains(text, warning) != warned {
			t.Errorf("%s KiB: want a warning: %v\n%s", kib, warned, text)
		}
	}
}
