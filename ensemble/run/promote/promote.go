package promote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Promotion is the model that a name stands for: predictions with the folder of the name as their run directory
// take it.
type Promotion struct {
	Schema   string    `json:"schema"`
	Version  string    `json:"version"` // folder below versions: the first digits of the checksum
	Model    string    `json:"model_checksum"`
	Previous string    `json:"previous,omitempty"` // version before; empty for the first
	Action   string    `json:"action"`             // "promote" or "roll_back"
	From     string    `json:"from,omitempty"`     // name of the run directory that it was copied from
	At       time.Time `json:"at"`
	Verdict  *Verdict  `json:"verdict,omitempty"` // that it was promoted on
}

const (
	promotionSchema = "ensemble.promotion/1"
	PromotionFile   = "current.json"
	promotionsFile  = "history.jsonl"
	VersionsDir     = "versions"
	versionDigits   = 12
)

// Options say which trained model a name is to stand for.
type Options struct {
	Name    string // folder of the name
	RunDir  string // or another name, whose model this one is to stand for too
	Verdict string // file of a rolling verification with a verdict on the model; empty: none is asked for
	// IgnoreVerdict promotes a model whose verdict is not "better".
	IgnoreVerdict bool
}

// Promote copies the model of a finished training below the folder of a name, and lets the name stand for it. The model before
// stays there, so that RollBack can return to it. Predictions see the old model or the new one, never parts of both.
//
// Errors: exit 1 for a verdict that is not "better"; 64 for one on another model; 65 for a run whose files are not
// those of its manifest; 66 without a finished training; 73 while another process changes the name, or where a folder
// of something else is in its place.
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
	return p, updateName(o.Name, func(now *Promotion) (*Promotion, error) {
		if now != nil {
			p.Previous = now.Version
		}
		err := copyVersion(filepath.Join(o.Name, VersionsDir, p.Version), o.RunDir, sum)
		if err != nil || now != nil && now.Model == sum { // it stands for it already
			return nil, err
		}
		return p, nil
	})
}

// checkUnused refuses a folder that has something else in it than a name has: a run directory would be another model's from then on.
func checkUnused(name string) error {
	if p, err := readPromotion(name); p != nil || err != nil {
		return err
	}
	entries, err := os.ReadDir(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.CreateError(name, err)
	}
	for _, e := range entries {
		if e.Name() == VersionsDir || e.Name() == promotionsFile || rundir.IsLeaseFile(e.Name()) || strings.HasPrefix(e.Name(), ".") { // of a name that was begun, or whose current.json was removed
			continue
		}
		return &exit.Error{Code: exit.CannotWrite, What: "the folder is not that of a name", At: name, Why: "it has " + e.Name(), Fix: "give --as a folder that is not there yet, or a name of before"}
	}
	return nil
}

// CheckUnmodified refuses a model whose files are not those that the manifest of its training lists.
func CheckUnmodified(dir, sum string, trained *rundir.Manifest) error {
	if trained.ModelChecksum == "" || trained.ModelChecksum == sum {
		return nil
	}
	return &exit.Error{Code: exit.BadData, What: "the model is not the one that was trained", At: dir, Why: fmt.Sprintf("its checksum is %s, the manifest has %s", sum, trained.ModelChecksum),
		Fix: "copy the run directory again, or train again"}
}

// checksumPattern is the form of a model's checksum.
var checksumPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// versionOf names the folder of a model.
func versionOf(sum string) string {
	digits := strings.TrimPrefix(sum, "sha256:")
	return digits[:min(versionDigits, len(digits))]
}

// readVerdict reads the verdict that a promotion is based on; nil if none is asked for.
func readVerdict(o Options, sum string) (*Verdict, error) {
	if o.Verdict == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.Verdict)
	if err != nil {
		return nil, exit.ReadError(o.Verdict, err)
	}
	v := &Verdict{}
	if err := json.Unmarshal(text, v); err != nil || v.Schema != VerdictSchema {
		return nil, &exit.Error{Code: exit.BadData, What: "this is no verdict", At: o.Verdict, Why: fmt.Sprintf("its schema is %q", v.Schema), Fix: "give the verdict.json of `ensemble verify --rolling DIR --against DIR`", Err: err}
	}
	if v.Model != sum {
		return nil, &exit.Error{Code: exit.Usage, What: "the verdict is on another model", At: o.Verdict, Why: fmt.Sprintf("it is on %s, the model is %s", versionOf(v.Model), versionOf(sum)), Fix: "give the verdict on this model"}
	}
	if v.Verdict != VerdictBetter && !o.IgnoreVerdict {
		return nil, &exit.Error{Code: exit.No, What: "the verdict on the model is: " + v.Verdict, At: o.Verdict, Why: v.String(), Fix: "let it run as a shadow for longer, or promote it despite the verdict with --despite-verdict"}
	}
	return v, nil
}

// copyVersion copies what a prediction needs of a run into a folder, all at once.
func copyVersion(to, runDir, sum string) error {
	parent := filepath.Dir(to)
	if err := errors.Join(os.MkdirAll(parent, 0o777), atomicfile.RemoveTemporary(parent)); err != nil {
		return exit.CreateError(parent, err)
	}
	if have, err := trained.ModelChecksum(filepath.Join(to, "model")); err == nil && have == sum {
		return nil
	}
	stage, err := atomicfile.TempDir(parent, "."+filepath.Base(to)+".partial-")
	if err != nil {
		return exit.CreateError(parent, err)
	}
	defer os.RemoveAll(stage)
	files, err := os.ReadDir(filepath.Join(runDir, "model"))
	if err != nil {
		return exit.ReadError(runDir, err)
	}
	names := []string{"manifest.json", "config.effective.yaml"}
	for _, f := range files {
		if f.Type().IsRegular() {
			names = append(names, filepath.Join("model", f.Name()))
		}
	}
	if err := os.Mkdir(filepath.Join(stage, "model"), 0o777); err != nil {
		return exit.CreateError(stage, err)
	}
	for _, name := range names {
		if err := copyFile(filepath.Join(stage, name), filepath.Join(runDir, name)); err != nil && !(errors.Is(err, fs.ErrNotExist) && name == "config.effective.yaml") {
			return err
		}
	}
	if have, err := trained.ModelChecksum(filepath.Join(stage, "model")); err != nil || have != sum {
		return errors.Join(err, &exit.Error{Code: exit.IO, What: "the model changed while it was copied", At: runDir, Fix: "promote it again when no other program writes there"})
	}
	if err := os.RemoveAll(to); err != nil { // a damaged copy
		return exit.CreateError(to, err)
	}
	if err := os.Rename(stage, to); err != nil {
		return exit.CreateError(to, err)
	}
	return exit.CreateError(parent, atomicfile.Sync(parent))
}

// copyFile copies a file and brings it to the disk.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return exit.ReadError(from, err)
	}
	defer in.Close()
	return exit.CreateError(to, atomicfile.Write(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	}))
}

// updateName lets a name stand for another model, which change gives; nil changes nothing.
func updateName(name string, change func(now *Promotion) (*Promotion, error)) error {
	if err := os.MkdirAll(name, 0o777); err != nil {
		return exit.CreateError(name, err)
	}
	lease, err := rundir.TakeLease(name)
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := atomicfile.RemoveTemporary(name, PromotionFile, promotionsFile); err != nil {
		return exit.CreateError(name, err)
	}
	now, err := readPromotion(name)
	if err != nil {
		return err
	}
	next, err := change(now)
	if err != nil || next == nil {
		return err
	}
	history, err := os.ReadFile(filepath.Join(name, promotionsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.ReadError(filepath.Join(name, promotionsFile), err)
	}
	var lines []byte
	for _, p := range []*Promotion{now, next} {
		line, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if line = append(line, '\n'); p == next || p != nil && !bytes.HasSuffix(history, line) { // else a change was killed before it was written down
			lines = append(lines, line...)
		}
	}
	if err := jsonfile.Write(filepath.Join(name, PromotionFile), next); err != nil { // from here on it counts
		return err
	}
	path := filepath.Join(name, promotionsFile)
	return exit.CreateError(path, atomicfile.WriteFile(path, append(history, lines...)))
}

// readPromotion reads what a name stands for; nil if it stands for nothing yet.
func readPromotion(name string) (*Promotion, error) {
	path := filepath.Join(name, PromotionFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	p, err := parsePromotion(text)
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "this does not say which model is in use", At: path, Why: err.Error(), Fix: "remove it and promote a model again, which " + promotionsFile + " beside it names", Err: err}
	}
	return p, nil
}

// parsePromotion reads what a name stands for: a folder below its own, which is named after the model.
func parsePromotion(text []byte) (*Promotion, error) {
	p := &Promotion{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	if p.Schema != promotionSchema {
		return nil, fmt.Errorf("its schema is %q", p.Schema)
	}
	if !checksumPattern.MatchString(p.Model) || p.Version != versionOf(p.Model) {
		return nil, fmt.Errorf("version %q is not that of model %q", p.Version, p.Model)
	}
	return p, nil
}

// RollBack lets a name stand for a model that it stood for before: a version, or if that is empty the one before the present one.
//
// Errors: exit 64 for a version that is not there; 66 for a name that stands for nothing.
func RollBack(name, to string) (p *Promotion, err error) {
	if now, err := readPromotion(name); err != nil {
		return nil, err
	} else if now == nil { // a name that is mistyped is not made
		return nil, noModelError(name)
	}
	return p, updateName(name, func(now *Promotion) (*Promotion, error) {
		if now == nil {
			return nil, noModelError(name)
		}
		version := to
		if version == "" {
			if version = now.Previous; version == "" {
				return nil, &exit.Error{Code: exit.Usage, What: "there is no model before this one", At: name, Why: "it is the first that was promoted", Fix: "promote another one"}
			}
		}
		var have []string
		entries, _ := os.ReadDir(filepath.Join(name, VersionsDir))
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				have = append(have, e.Name())
			}
		}
		at := slices.IndexFunc(have, func(v string) bool { return strings.HasPrefix(v, version) })
		if at < 0 {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("there is no version %q", version), At: name, Why: "it has " + strings.Join(have, ", "), Fix: "give one of them"}
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

func noModelError(name string) error {
	return &exit.Error{Code: exit.NotYet, What: "the name stands for no model", At: name, Fix: "correct it, or promote a model: ensemble model promote RUN_DIR --as " + name}
}

func ChangedModelError(name, version, sum string) error {
	return &exit.Error{Code: exit.BadData, What: "the model was changed after it was promoted", At: filepath.Join(name, VersionsDir, version), Why: "its checksum is " + sum,
		Fix: "promote it again from its run directory, or roll back: ensemble model rollback " + name}
}

// ResolveRunDir gives the run directory of the model that a folder stands for, and the checksum that the model must have; the folder itself,
// and no checksum, if it is no name.
func ResolveRunDir(dir string) (runDir, sum string, err error) {
	p, err := readPromotion(dir)
	if err != nil || p == nil {
		return dir, "", err
	}
	return filepath.Join(dir, VersionsDir, p.Version), p.Model, nil
}

// Promotions is what a name stood for, in the order of time.
type Promotions []Promotion

// ListPromotions reads the history of a name.
//
// Errors: exit 66 if it stands for nothing.
func ListPromotions(name string) (list Promotions, err error) {
	path := filepath.Join(name, promotionsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noModelError(name)
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	for line := range bytes.Lines(text) {
		var p Promotion
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, &exit.Error{Code: exit.BadData, What: "the history cannot be read", At: path, Why: err.Error(), Fix: "remove the line that is damaged: the models and which is in use stay", Err: err}
		}
		list = append(list, p)
	}
	return list, nil
}

// Sections are the history as a table, the model in use last.
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
