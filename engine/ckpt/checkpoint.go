package ckpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// format is the version of index.json.
const format = 1

// Meta is the content of a checkpoint apart from its tensors.
type Meta struct {
	Step       uint64 `json:"step"`          // optimiser steps taken
	Epoch      int    `json:"epoch"`         // epochs started
	Version    string `json:"version"`       // of the program that wrote the checkpoint
	ConfigHash string `json:"config_sha256"` // SHA-256 of the part of the configuration that a run keeps when it is resumed
	// State is the remaining state of the training loop: seeds and counters, position in the data
	// order, best score, patience. A resumed run continues bit for bit as an uninterrupted one.
	State json.RawMessage `json:"state,omitempty"`
	// Plan records the kernels that were chosen by timing. A resumed run uses the same kernels.
	Plan json.RawMessage `json:"plan,omitempty"`
}

// Checkpoint is a complete checkpoint whose checksums were verified. A checkpoint that is not
// damaged has the tensors in the order in which Save received them.
type Checkpoint struct {
	Meta
	Dir     string
	Tensors []Tensor
}

// index is the content of index.json. It is JSON, so that a user can read step and version without
// this program.
type index struct {
	Format   int    `json:"format"`
	Checksum string `json:"checksum"` // of index.json (manifest.SealedJSON)
	Meta
	Parts []part `json:"parts"`
}

// part is one tensor file of a checkpoint: the tensors of one rank.
type part struct {
	manifest.File
	Tensors []tensorChecksum `json:"tensors"`
}

// tensorChecksum is the checksum of one tensor, with which an error names the damaged tensor and not
// only the file.
type tensorChecksum struct {
	Name   string `json:"name"`
	DType  DType  `json:"dtype"`
	Shape  []int  `json:"shape"`
	CRC32C uint32 `json:"crc32c"` // of the tensor's bytes in the file
}

// Name is the folder name of the checkpoint of a step: "step-" and nine digits or more. Names of
// fewer than 10⁹ steps sort by step.
func Name(step uint64) string { return fmt.Sprintf("step-%09d", step) }

// parseName is the inverse of Name. ok is false for any other text, so that no path in it is followed.
func parseName(name string) (step uint64, ok bool) {
	_, _ = fmt.Sscanf(name, "step-%d", &step) // what it cannot read does not have the name of what it read
	return step, Name(step) == name
}

const (
	indexFile  = "index.json"
	latestFile = "LATEST"
	bestFile   = "BEST"
)

// Save writes the checkpoint of step m.Step into a folder under root. It creates root if necessary.
// It writes to a hidden folder, reads that back and compares it, renames it, and updates LATEST. An
// existing checkpoint of the same step is replaced. The caller must be the only writer under root:
// guard calls its argument, which only renames, if that is so, and returns an error otherwise; nil always calls it.
//
// Memory: the encoded bytes of one tensor.
// Errors: exit 73 (cannot create) or 74 (I/O, disk full, data read back differ); those of guard. After an error
// the existing checkpoints are unchanged.
// Cost: the data are written once and read three times: for the checksum of the file, to compare
// tensors, and for the checksum again. These pages may come from the cache of the operating
// system, so a fault of the disk is found by a later Load.
func Save(root string, m Meta, tensors []Tensor, guard func(publish func() error) error) (dir string, err error) {
	dir = filepath.Join(root, Name(m.Step))
	if err := atomicfile.MkdirAll(root, 0o755); err != nil {
		return "", exit.CreateError(root, err)
	}
	if err := checkSpace(root, tensors); err != nil {
		return "", err
	}
	tmp, err := atomicfile.TempDir(root, "."+Name(m.Step)+".partial-")
	if err != nil {
		return "", exit.CreateError(dir, err)
	}
	defer filesystem.RemoveAll(tmp) // after an error, or the checkpoint that was exchanged; RemovePartial removes it otherwise
	name := "rank-0000.st"
	sums, err := writeFile(filepath.Join(tmp, name), tensors, nil)
	if err != nil {
		return "", err
	}
	file, err := manifest.SumFile(filepath.Join(tmp, name))
	if err != nil {
		return "", exit.CreateError(dir, err)
	}
	file.Path = name
	x := index{Format: format, Meta: m, Parts: []part{{file, sums}}}
	text, err := manifest.SealedJSON(&x, &x.Checksum, " ")
	if err != nil {
		return "", err
	}
	if err := atomicfile.WriteFile(filepath.Join(tmp, indexFile), text); err != nil {
		return "", exit.CreateError(dir, err)
	}
	if err := verify(tmp); err != nil {
		return "", &exit.Error{Code: exit.IO, What: "the checkpoint differs from the written data when it is read back", At: dir, Why: err.Error(),
			Fix: "check the disk; run the same command again", Err: err}
	}
	publishNewest := func() error {
		if err := publish(tmp, dir); err != nil {
			return exit.CreateError(dir, err)
		}
		latest := filepath.Join(root, latestFile)
		return exit.CreateError(latest, atomicfile.WriteFile(latest, []byte(Name(m.Step)+"\n")))
	}
	if guard == nil {
		err = publishNewest()
	} else {
		err = guard(publishNewest)
	}
	if err != nil {
		return "", err
	}
	return dir, nil
}

// publish gives a complete checkpoint its name, so that LATEST never names one that a power failure took. An existing checkpoint
// of the step is exchanged in one step, or, where the file system cannot, removed first.
func publish(tmp, dir string) error {
	err := atomicfile.ReplaceDir(tmp, dir)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err := removeAtomically(dir); err != nil {
		return err
	}
	return atomicfile.ReplaceDir(tmp, dir)
}

// checkSpace compares the size of the tensors, plus 1 MiB for headers, with the free space of the
// file system. A full disk is thus reported before a part of a checkpoint is written. The free
// space is that of users without privileges (f_bavail).
//
// Errors: exit 74 if the space is not sufficient. If the file system does not report its free
// space, there is no error.
func checkSpace(root string, tensors []Tensor) error {
	need := int64(1 << 20)
	for _, t := range tensors {
		d, err := t.dtype()
		if err != nil {
			return err
		}
		n, err := countElements(t.Shape)
		if err != nil {
			return err
		}
		need += n * d.size()
	}
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return nil // unknown; a full disk makes the write fail
	}
	if have := int64(st.Bavail) * st.Bsize; have < need {
		return &exit.Error{Code: exit.IO, What: "no space left for a checkpoint", At: root,
			Why: fmt.Sprintf("it needs %d MiB, %d MiB are free", need>>20, have>>20),
			Fix: "free disk space; run the same command again"}
	}
	return nil
}

// removeAtomically removes a checkpoint. It renames the folder first, so that the checkpoint never
// exists in part. A folder that does not exist is no error. Folders named .trash- that a killed
// process left are removed by RemovePartial.
func removeAtomically(dir string) error {
	trash, err := filesystem.MkdirTemp(filepath.Dir(dir), ".trash-")
	if err != nil {
		return err
	}
	if err := filesystem.Rename(dir, filepath.Join(trash, "x")); err != nil && !errors.Is(err, os.ErrNotExist) {
		filesystem.Remove(trash)
		return err
	}
	return filesystem.RemoveAll(trash)
}

// readIndex reads index.json. It refuses file names with a path, which would lead out of the
// folder.
//
// Errors: exit 66 or 74 if the file cannot be read; exit 65 for invalid JSON, another format
// version, no parts, or a part outside of the folder.
func readIndex(dir string) (index, error) {
	var x index
	path := filepath.Join(dir, indexFile)
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return x, exit.ReadError(path, err)
	}
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "the checkpoint index is damaged", At: path, Why: why, Fix: "use another checkpoint"}
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return x, bad(err.Error())
	}
	if x.Format != format {
		return x, bad(fmt.Sprintf("format version %d, this program reads version %d", x.Format, format))
	}
	if len(x.Parts) == 0 {
		return x, bad("it lists no tensor files")
	}
	for _, p := range x.Parts {
		if p.Path != filepath.Base(p.Path) || !strings.HasPrefix(p.Path, "rank-") {
			return x, bad(fmt.Sprintf("tensor file %q is not in the folder of the checkpoint", p.Path))
		}
	}
	if err := manifest.CheckSeal(text); err != nil {
		return x, bad(err.Error())
	}
	return x, nil
}

// Load reads a checkpoint and verifies the checksum of every tensor.
//
// Memory: all tensors of the checkpoint.
// Errors: exit 66 if the folder does not exist; exit 65, naming the damaged tensor or the missing
// file.
func Load(dir string) (*Checkpoint, error) {
	c := &Checkpoint{Dir: dir}
	var err error
	c.Meta, err = readTensors(dir, func(e Entry, raw []byte) {
		c.Tensors = append(c.Tensors, Tensor{Name: e.Name, Shape: e.Shape, Data: decode(e.DType, raw)})
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// verify checks a checkpoint as Load does, and keeps no tensor.
//
// Memory: the largest tensor.
func verify(dir string) error {
	_, err := readTensors(dir, func(Entry, []byte) {})
	return err
}

// readTensors reads a checkpoint, verifies it, and calls take for each tensor. raw is valid during
// the call only.
//
// The CRC-32C of each tensor finds damaged data and names the tensor. The SHA-256 of the file
// covers the header too, with its metadata and padding.
//
// Errors: exit 65 with the file or tensor; those of readIndex.
func readTensors(dir string, take func(Entry, []byte)) (Meta, error) {
	x, err := readIndex(dir)
	if err != nil {
		return x.Meta, err
	}
	for _, p := range x.Parts {
		path := filepath.Join(dir, p.Path)
		bad := func(at, why string) error {
			return &exit.Error{Code: exit.BadData, What: "the checkpoint is damaged", At: at, Why: why, Fix: "use another checkpoint"}
		}
		st, err := filesystem.Stat(path)
		if err != nil {
			return x.Meta, bad(path, "the file is missing")
		}
		if st.Size() != p.Size {
			return x.Meta, bad(path, fmt.Sprintf("size %d bytes, want %d by the index", st.Size(), p.Size))
		}
		i := 0
		_, err = eachTensor(path, func(e Entry, raw []byte) error {
			at := path + ", tensor " + e.Name
			if i >= len(p.Tensors) || p.Tensors[i].Name != e.Name || p.Tensors[i].DType != e.DType || !slices.Equal(p.Tensors[i].Shape, e.Shape) {
				return bad(at, "the index does not list this tensor in this position: the file belongs to another checkpoint")
			}
			if sum := checksum(raw); sum != p.Tensors[i].CRC32C {
				return bad(at, fmt.Sprintf("checksum %08x, want %08x by the index", sum, p.Tensors[i].CRC32C))
			}
			i++
			take(e, raw)
			return nil
		})
		if err != nil {
			return x.Meta, err
		}
		if i != len(p.Tensors) {
			return x.Meta, bad(path, "tensor "+p.Tensors[i].Name+" is missing")
		}
		if file, err := manifest.SumFile(path); err != nil || file.SHA256 != p.SHA256 {
			return x.Meta, bad(path, "the SHA-256 differs from the index: the header was changed")
		}
	}
	return x.Meta, nil
}

// List returns the steps that have a checkpoint, in ascending order. It does not verify them. A
// root that does not exist has none.
//
// Errors: exit 66 or 74 if the folder cannot be read.
func List(root string) ([]uint64, error) {
	entries, err := filesystem.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.ReadError(root, err)
	}
	var steps []uint64
	for _, e := range entries {
		if step, ok := parseName(e.Name()); ok && e.IsDir() {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// LoadLatest loads the checkpoint named in LATEST. If that is damaged, it loads the newest older
// checkpoint that is complete, and returns a warning for each one it skipped. If there is no
// checkpoint, it returns nil, nil, nil.
//
// Errors: exit 65 if there are checkpoints, but all are damaged.
func LoadLatest(root string) (*Checkpoint, []string, error) {
	steps, err := List(root)
	if err != nil || len(steps) == 0 {
		return nil, nil, err
	}
	if latest, ok := readPointer(root, latestFile); ok {
		// A checkpoint newer than LATEST was renamed just before the run was killed. It
		// was never reported as saved, so it is ignored.
		steps = slices.DeleteFunc(steps, func(s uint64) bool { return s > latest })
	}
	var warnings []string
	var first error
	for _, step := range slices.Backward(steps) {
		c, err := Load(filepath.Join(root, Name(step)))
		if err == nil {
			return c, warnings, nil
		}
		if first == nil {
			first = err
		}
		var e *exit.Error
		if errors.As(err, &e) {
			warnings = append(warnings, fmt.Sprintf("checkpoint %s is skipped: %s (%s)", Name(step), e.What, e.At))
		}
	}
	if first == nil {
		return nil, nil, nil
	}
	return nil, warnings, first
}

// MarkBest writes the checkpoint of a step to BEST. The checkpoint need not exist; Retain keeps it
// if it does.
//
// Errors: exit 73 or 74.
func MarkBest(root string, step uint64) error {
	path := filepath.Join(root, bestFile)
	return exit.CreateError(path, atomicfile.WriteFile(path, []byte(Name(step)+"\n")))
}

// Best returns the step named in BEST; false if there is none.
func Best(root string) (uint64, bool) { return readPointer(root, bestFile) }

// Latest returns the step named in LATEST; false if there is none.
func Latest(root string) (uint64, bool) { return readPointer(root, latestFile) }

// readPointer reads the step from a file such as LATEST. A file that is missing or malformed
// counts as none.
func readPointer(root, file string) (uint64, bool) {
	text, err := filesystem.ReadFile(filepath.Join(root, file))
	if err != nil {
		return 0, false
	}
	return parseName(strings.TrimSpace(string(text)))
}

// Branch makes the checkpoint of a step the newest, because a run continues from it. Checkpoints of
// later steps are set aside, in folders whose names begin with "set-aside-", and returned. Retain
// removes them when the run has passed their steps. A BEST that names one of them is removed.
//
// LATEST is written first: after a crash the later checkpoints are ignored by LoadLatest, and
// Retain sets them aside.
//
// Errors: exit 73 or 74.
func Branch(root string, step uint64) (later []uint64, err error) {
	path := filepath.Join(root, latestFile)
	if err := atomicfile.WriteFile(path, []byte(Name(step)+"\n")); err != nil {
		return nil, exit.CreateError(path, err)
	}
	if best, ok := Best(root); ok && best > step {
		if err := filesystem.Remove(filepath.Join(root, bestFile)); err != nil {
			return nil, exit.CreateError(root, err)
		}
	}
	return setAside(root)
}

// asidePrefix begins the names of folders that Branch sets aside.
const asidePrefix = "set-aside-"

// setAside renames checkpoints newer than LATEST and returns their steps. Without LATEST nothing
// is renamed, since no checkpoint was ever reported as saved.
func setAside(root string) (later []uint64, err error) {
	steps, err := List(root)
	latest, ok := Latest(root)
	if err != nil || !ok {
		return nil, err
	}
	for _, step := range steps {
		if step <= latest {
			continue
		}
		to := filepath.Join(root, asidePrefix+Name(step))
		if err := removeAtomically(to); err != nil { // of an earlier branch
			return later, exit.CreateError(root, err)
		}
		if err := filesystem.Rename(filepath.Join(root, Name(step)), to); err != nil {
			return later, exit.CreateError(root, err)
		}
		later = append(later, step)
	}
	return later, nil
}

// removePassed removes checkpoints that were set aside, up to LATEST. The run has reached their
// steps again, so its own checkpoints replace them.
func removePassed(root string) error {
	latest, ok := Latest(root)
	if !ok {
		return nil
	}
	entries, err := filesystem.ReadDir(root)
	if err != nil {
		return exit.ReadError(root, err)
	}
	for _, e := range entries {
		name, aside := strings.CutPrefix(e.Name(), asidePrefix)
		if step, ok := parseName(name); !aside || !ok || step > latest {
			continue
		}
		if err := removeAtomically(filepath.Join(root, e.Name())); err != nil {
			return exit.CreateError(root, err)
		}
	}
	return nil
}

// Retain removes old checkpoints. It keeps the newest keep ones up to LATEST, at least two, and the
// best one. Checkpoints that are newer than LATEST, which a killed run or a branch left, are set
// aside. Call it after Save, which has verified the newest.
//
// Errors: exit 73 or 74; a checkpoint is then kept that a later call removes.
func Retain(root string, keep int) error {
	if _, err := setAside(root); err != nil {
		return err
	}
	if err := removePassed(root); err != nil {
		return err
	}
	steps, err := List(root)
	if err != nil {
		return err
	}
	best, hasBest := Best(root)
	for _, step := range steps[:max(0, len(steps)-max(2, keep))] {
		if hasBest && step == best {
			continue
		}
		if err := removeAtomically(filepath.Join(root, Name(step))); err != nil {
			return exit.CreateError(root, err)
		}
	}
	return nil
}

// RemovePartial removes the hidden files and folders that killed writers left under root. The
// caller must be the only writer under root. Other hidden files, which users may have placed
// there, stay.
func RemovePartial(root string) error {
	entries, err := filesystem.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return exit.ReadError(root, err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, ".step-") || strings.HasPrefix(name, ".trash-") ||
			strings.HasPrefix(name, "."+latestFile) || strings.HasPrefix(name, "."+bestFile) {
			path := filepath.Join(root, name)
			if err := filesystem.RemoveAll(path); err != nil {
				return exit.CreateError(path, err)
			}
		}
	}
	return nil
}
