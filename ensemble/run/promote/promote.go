package promote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Promotion is the model that a name points at. Predictions whose run directory is the name's folder use it.
type Promotion struct {
	Schema   string    `json:"schema"`
	Version  string    `json:"version"`            // folder below versions: first digits of the checksum
	Model    string    `json:"model_checksum"`     // checksum, "sha256:…"
	Previous string    `json:"previous,omitempty"` // version before; empty for the first
	Action   string    `json:"action"`             // "promote" or "roll_back"
	From     string    `json:"from,omitempty"`     // name of the run directory that was copied
	At       time.Time `json:"at"`                 // UTC
	Verdict  *Verdict  `json:"verdict,omitempty"`  // verdict that the promotion is based on
}

// Schema, files and folders of a model name.
const (
	promotionSchema = "ensemble.promotion/1"
	PromotionFile   = "current.json"
	promotionsFile  = "history.jsonl"
	VersionsDir     = "versions"
	versionDigits   = 12 // digits of the checksum in the name of a version
)

// Options are the inputs of [Promote].
type Options struct {
	Name    string // folder of the name
	RunDir  string // finished training, or another name whose model is promoted
	Verdict string // verdict.json of a rolling verification; empty: none required
	// IgnoreVerdict promotes a model whose verdict is not "better".
	IgnoreVerdict bool
}

// Promote copies the model of a finished training below the folder of a name and points the name at it. The
// previous model remains there for RollBack. Predictions see either the old or the new model, never parts of
// both.
//
// Reads: the run directory (model/ and manifest.json) and the verdict.
// Writes: versions/ with the model, current.json and history.jsonl in the folder of the name.
// Errors: exit 1 for a verdict that is not "better"; 64 for a verdict on another model; 65 for a run whose
// files do not match its manifest; 66 without a finished training; 73 while another process changes the name,
// or if the folder contains something else.
func Promote(o Options) (p *Promotion, err error) {
	source := filepath.Base(o.RunDir)
	var promised string
	if o.RunDir, promised, err = ResolveRunDir(o.RunDir); err != nil {
		return nil, err
	}
	finished, err := trained.ReadFinished(o.RunDir)
	if err != nil {
		return nil, err
	}
	if err := checkUnused(o.Name); err != nil {
		return nil, err
	}
	from := filepath.Join(o.RunDir, "model")
	sum, err := trained.ModelChecksum(from)
	if err != nil {
		return nil, err
	}
	if promised != "" && sum != promised {
		return nil, ChangedModelError(filepath.Dir(filepath.Dir(o.RunDir)), filepath.Base(o.RunDir), sum)
	}
	if err := CheckUnmodified(from, sum, finished); err != nil {
		return nil, err
	}
	p = &Promotion{Schema: promotionSchema, Version: versionOf(sum), Model: sum, Action: "promote", From: source, At: time.Now().UTC().Truncate(time.Second)}
	if p.Verdict, err = readVerdict(o, sum); err != nil {
		return nil, err
	}
	return p, updateName(o.Name, func(now *Promotion, guard publishing) (*Promotion, error) {
		if now != nil {
			p.Previous = now.Version
		}
		err := copyVersion(filepath.Join(o.Name, VersionsDir, p.Version), o.RunDir, sum, guard)
		if err != nil || now != nil && now.Model == sum { // the name points at this model already
			return nil, err
		}
		return p, nil
	})
}

// checkUnused checks that a folder contains nothing but a model name: a run directory must not become one.
func checkUnused(name string) error {
	if p, err := readPromotion(name); p != nil || err != nil {
		return err
	}
	entries, err := filesystem.ReadDir(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.CreateError(name, err)
	}
	for _, e := range entries {
		if e.Name() == VersionsDir || e.Name() == promotionsFile || rundir.IsLeaseFile(e.Name()) || strings.HasPrefix(e.Name(), ".") { // of an incomplete promotion, or of a name whose current.json was removed
			continue
		}
		return &exit.Error{Code: exit.CannotWrite, What: "the folder is not that of a model name", At: name, Why: "it contains " + e.Name(), Fix: "give --as a new folder or an existing name"}
	}
	return nil
}

// CheckUnmodified checks that a model's files are those in the manifest of its training.
//
// Errors: exit 65 with the first file that differs.
func CheckUnmodified(dir, sum string, trained *rundir.Manifest) error {
	if trained.ModelChecksum == "" || trained.ModelChecksum == sum {
		return nil
	}
	why := fmt.Sprintf("its checksum is %s, the manifest has %s", sum, trained.ModelChecksum)
	files := manifest.Record{Outputs: slices.DeleteFunc(slices.Clone(trained.Outputs), func(f manifest.File) bool { return !strings.HasPrefix(f.Path, filepath.Base(dir)+"/") })}
	var changed *exit.Error
	if errors.As(files.Verify(filepath.Dir(dir)), &changed) {
		dir, why = changed.At, changed.Why
	}
	return &exit.Error{Code: exit.BadData, What: "the model is not the one that was trained", At: dir, Why: why,
		Fix: "copy the run directory again, or repeat the training"}
}

// checksumPattern matches a model checksum.
var checksumPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// versionOf returns the version name of a model.
func versionOf(sum string) string {
	digits := strings.TrimPrefix(sum, "sha256:")
	return digits[:min(versionDigits, len(digits))]
}

// readVerdict reads the verdict that a promotion is based on; nil if none is required.
func readVerdict(o Options, sum string) (*Verdict, error) {
	if o.Verdict == "" {
		return nil, nil
	}
	text, err := filesystem.ReadFile(o.Verdict)
	if err != nil {
		return nil, exit.ReadError(o.Verdict, err)
	}
	v := &Verdict{}
	if err := json.Unmarshal(text, v); err != nil || v.Schema != VerdictSchema {
		return nil, &exit.Error{Code: exit.BadData, What: "not a verdict", At: o.Verdict, Why: fmt.Sprintf("its schema is %q", v.Schema), Fix: "give the verdict.json of `ensemble verify --rolling DIR --compare-with DIR`", Err: err}
	}
	if v.Model != sum {
		return nil, &exit.Error{Code: exit.Usage, What: "the verdict is about another model", At: o.Verdict, Why: fmt.Sprintf("it is about %s, the model is %s", versionOf(v.Model), versionOf(sum)), Fix: "give a verdict about this model"}
	}
	if v.Verdict != VerdictBetter && !o.IgnoreVerdict {
		return nil, &exit.Error{Code: exit.No, What: "the verdict is not `better`: " + v.Verdict, At: o.Verdict, Why: v.String(), Fix: "continue the shadow run, or promote the model with --ignore-verdict"}
	}
	return v, nil
}

// copyVersion copies what predictions need of a run into a folder, atomically.
func copyVersion(to, runDir, sum string, guard publishing) error {
	parent := filepath.Dir(to)
	err := guard(func() error {
		return exit.CreateError(parent, errors.Join(atomicfile.MkdirAll(parent, 0o777), atomicfile.RemoveTemporary(parent)))
	})
	if err != nil {
		return err
	}
	if have, err := trained.ModelChecksum(filepath.Join(to, "model")); err == nil && have == sum {
		return nil
	}
	stage, err := atomicfile.TempDir(parent, "."+filepath.Base(to)+".partial-")
	if err != nil {
		return exit.CreateError(parent, err)
	}
	defer filesystem.RemoveAll(stage)
	files, err := filesystem.ReadDir(filepath.Join(runDir, "model"))
	if err != nil {
		return exit.ReadError(runDir, err)
	}
	names := []string{"manifest.json", "config.effective.yaml"}
	for _, f := range files {
		if f.Type().IsRegular() {
			names = append(names, filepath.Join("model", f.Name()))
		}
	}
	if err := filesystem.Mkdir(filepath.Join(stage, "model"), 0o777); err != nil {
		return exit.CreateError(stage, err)
	}
	for _, name := range names {
		if err := copyFile(filepath.Join(stage, name), filepath.Join(runDir, name)); err != nil && !(errors.Is(err, fs.ErrNotExist) && name == "config.effective.yaml") {
			return err
		}
	}
	if have, err := trained.ModelChecksum(filepath.Join(stage, "model")); err != nil || have != sum {
		return errors.Join(err, &exit.Error{Code: exit.IO, What: "the model changed while it was copied", At: runDir, Fix: "promote it again when no other program writes to the run directory"})
	}
	return guard(func() error {
		if err := filesystem.RemoveAll(to); err != nil { // replace a damaged copy
			return exit.CreateError(to, err)
		}
		if err := filesystem.Rename(stage, to); err != nil {
			return exit.CreateError(to, err)
		}
		return exit.CreateError(parent, filesystem.SyncDir(parent))
	})
}

// publishing calls its argument, which publishes, while this process has the lease of a name (lease.Lease.Guard).
type publishing func(func() error) error

// copyFile copies a file and syncs it to disk.
func copyFile(to, from string) error {
	in, err := filesystem.Open(from)
	if err != nil {
		return exit.ReadError(from, err)
	}
	defer in.Close()
	return exit.CreateError(to, atomicfile.Write(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	}))
}

// updateName points the name at the model that change returns; nil changes nothing.
func updateName(name string, change func(now *Promotion, guard publishing) (*Promotion, error)) error {
	if err := atomicfile.MkdirAll(name, 0o777); err != nil {
		return exit.CreateError(name, err)
	}
	lease, err := rundir.TakeLease(name)
	if err != nil {
		return err
	}
	defer lease.Release()
	err = lease.Guard(func() error {
		return exit.CreateError(name, atomicfile.RemoveTemporary(name, PromotionFile, promotionsFile))
	})
	if err != nil {
		return err
	}
	now, err := readPromotion(name)
	if err != nil {
		return err
	}
	next, err := change(now, lease.Guard)
	if err != nil || next == nil {
		return err
	}
	history, err := filesystem.ReadFile(filepath.Join(name, promotionsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.ReadError(filepath.Join(name, promotionsFile), err)
	}
	var lines []byte
	for _, p := range []*Promotion{now, next} {
		line, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if line = append(line, '\n'); p == next || p != nil && !bytes.HasSuffix(history, line) { // otherwise a process was killed before it wrote the history
			lines = append(lines, line...)
		}
	}
	return lease.Guard(func() error {
		if err := jsonfile.Write(filepath.Join(name, PromotionFile), next); err != nil { // takes effect here
			return err
		}
		path := filepath.Join(name, promotionsFile)
		return exit.CreateError(path, atomicfile.WriteFile(path, append(history, lines...)))
	})
}

// readPromotion reads what a name points at; nil if nothing yet.
func readPromotion(name string) (*Promotion, error) {
	path := filepath.Join(name, PromotionFile)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	p, err := parsePromotion(text)
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the file does not name a model", At: path, Why: err.Error(), Fix: "remove it and promote a model again; " + promotionsFile + " beside it lists the models", Err: err}
	}
	return p, nil
}

// parsePromotion parses current.json. The model is in a folder below the name's, named after its checksum.
func parsePromotion(text []byte) (*Promotion, error) {
	p := &Promotion{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	if p.Schema != promotionSchema {
		return nil, fmt.Errorf("its schema is %q", p.Schema)
	}
	if !checksumPattern.MatchString(p.Model) || p.Version != versionOf(p.Model) {
		return nil, fmt.Errorf("version %q does not match model %q", p.Version, p.Model)
	}
	return p, nil
}

// RollBack points a name at an earlier model: a version, or the previous one if to is empty.
//
// Errors: exit 64 for an unknown version; 66 for a name that points at no model.
func RollBack(name, to string) (p *Promotion, err error) {
	if now, err := readPromotion(name); err != nil {
		return nil, err
	} else if now == nil { // do not create a mistyped name
		return nil, noModelError(name)
	}
	return p, updateName(name, func(now *Promotion, _ publishing) (*Promotion, error) {
		if now == nil {
			return nil, noModelError(name)
		}
		version := to
		if version == "" {
			if version = now.Previous; version == "" {
				return nil, &exit.Error{Code: exit.Usage, What: "no earlier model to roll back to", At: name, Why: "the model in use is the first that was promoted", Fix: "promote another model"}
			}
		}
		var have []string
		entries, _ := filesystem.ReadDir(filepath.Join(name, VersionsDir))
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				have = append(have, e.Name())
			}
		}
		at := slices.IndexFunc(have, func(v string) bool { return strings.HasPrefix(v, version) })
		if at < 0 {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown version %q", version), At: name, Why: "the name has " + strings.Join(have, ", "), Fix: "give one of these"}
		}
		sum, err := trained.ModelChecksum(filepath.Join(name, VersionsDir, have[at], "model"))
		if err != nil {
			return nil, err
		}
		if versionOf(sum) != have[at] {
			return nil, ChangedModelError(name, have[at], sum)
		}
		p = &Promotion{Schema: promotionSchema, Version: have[at], Model: sum, Previous: now.Version, Action: "roll_back", At: time.Now().UTC().Truncate(time.Second)}
		return p, nil
	})
}

// noModelError returns the error for a name that points at no model.
func noModelError(name string) error {
	return &exit.Error{Code: exit.NotYet, What: "the name points at no model", At: name, Fix: "correct it, or promote a model: ensemble model promote RUN_DIR --as " + name}
}

// ChangedModelError returns the error for a promoted model whose files changed.
func ChangedModelError(name, version, sum string) error {
	return &exit.Error{Code: exit.BadData, What: "the model was changed after it was promoted", At: filepath.Join(name, VersionsDir, version), Why: "its checksum is " + sum,
		Fix: "promote it again from its run directory, or roll back: ensemble model rollback " + name}
}

// ResolveRunDir returns the run directory of the model that a name points at, and its checksum. For any other folder
// it returns the one with its finished run ([rundir.Locate]) and no checksum.
//
// Errors: exit 65 for a damaged current.json; those of rundir.Locate.
func ResolveRunDir(dir string) (runDir, sum string, err error) {
	p, err := readPromotion(dir)
	if err == nil && p == nil {
		dir, err = rundir.Locate(dir)
	}
	if err != nil || p == nil {
		return dir, "", err
	}
	return filepath.Join(dir, VersionsDir, p.Version), p.Model, nil
}

// Promotions is the history of a name, oldest first.
type Promotions []Promotion

// ListPromotions reads the history of a name.
//
// Errors: exit 66 if it points at no model; 65 if the history is damaged.
func ListPromotions(name string) (list Promotions, err error) {
	path := filepath.Join(name, promotionsFile)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noModelError(name)
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	for line := range bytes.Lines(text) {
		var p Promotion
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, &exit.Error{Code: exit.BadData, What: "the history cannot be read", At: path, Why: err.Error(), Fix: "remove the damaged line: models and the model in use are not affected", Err: err}
		}
		list = append(list, p)
	}
	return list, nil
}

// Sections returns the history as a table, the model in use last.
func (l Promotions) Sections() answer.Sections {
	s := answer.Section{Columns: answer.TextColumns("at", "action", "version", "before", "from", "verdict")}
	for _, p := range l {
		verdict := "-"
		if p.Verdict != nil {
			verdict = p.Verdict.Verdict
		}
		s.Rows = append(s.Rows, []any{p.At.Format(time.RFC3339), p.Action, p.Version, cmp.Or(p.Previous, "-"), cmp.Or(p.From, "-"), verdict})
	}
	return answer.Sections{s}
}
