package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// TestLook is one line of test-looks.jsonl: a trial of a sweep that was scored on the test dates. A choice among
// trials that were scored there is a choice by the test.
type TestLook struct {
	Time     time.Time    `json:"time"` // UTC
	Program  string       `json:"program"`
	Trial    string       `json:"trial"`
	Settings string       `json:"settings"`
	Test     string       `json:"test"` // test dates
	Seeds    int          `json:"seeds"`
	Skill    score.Number `json:"validation_skill"` // by which the trial was chosen
}

// looksFile is the log of the looks at the test dates, in the directory of a sweep.
const looksFile = "test-looks.jsonl"

// isAgain reports whether two looks are at the same result, which a repeated command shows again.
func (l TestLook) isAgain(o TestLook) bool {
	return l.Program == o.Program && l.Trial == o.Trial && l.Test == o.Test && l.Seeds == o.Seeds
}

// readLooks reads the log of a sweep; nil if there is none.
//
// Errors: exit 65 for a damaged log, 74.
func readLooks(dir string) (looks []TestLook, err error) {
	path := filepath.Join(dir, looksFile)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	for line := range bytes.Lines(text) {
		var l TestLook
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, &exit.Error{Code: exit.BadData, What: "the log of test dates is damaged", At: path, Why: fmt.Sprintf("line %d: %v", len(looks)+1, err),
				Fix: "restore it: it counts how often the test dates were looked at", Err: err}
		}
		looks = append(looks, l)
	}
	return looks, nil
}

// testDates returns the test dates of the configuration.
//
// Errors: exit 64 if it has none.
func (o *SweepOptions) testDates() (string, error) {
	c, err := config.LoadTrain(o.Config)
	if err != nil {
		return "", err
	}
	test := c.Data.Split.Test
	if test.From.IsZero() {
		return "", &exit.Error{Code: exit.Usage, What: "the configuration has no test dates", At: "data.split.test", Why: "--final scores the best trial on them", Fix: "set data.split.test.from and .to, or leave out --final"}
	}
	return test.From.String() + " to " + test.To.String(), nil
}

// testBest trains the best trial with the test dates, and logs it before, so that no look is lost.
//
// Errors: those of RunStudy and addLook.
func (o *SweepOptions) testBest(ctx context.Context, s *Sweep, best trial, test string) (err error) {
	look := TestLook{time.Now().UTC().Truncate(time.Second), o.Version, best.name, strings.Join(best.set, " "), test, o.Seeds, s.Rows[0].Skill}
	if !slices.ContainsFunc(s.TestLooks, look.isAgain) {
		if err := addLook(o.Dir, look); err != nil {
			return err
		}
		s.TestLooks = append(s.TestLooks, look)
	}
	// Trainings of another number of seeds have directories of their own.
	study := StudyOptions{Config: o.Config, Dir: filepath.Join(o.Dir, "final", fmt.Sprintf("seeds-%d", o.Seeds)), Variants: []Variant{{best.name, best.set}}, Reference: best.name, Seeds: o.Seeds,
		Version: o.Version, Stop: o.Stop, Timings: o.Timings, Progress: o.Progress, Warn: o.Warn}
	s.Final, err = RunStudy(ctx, study)
	return err
}

// addLook appends a line to the log.
//
// Errors: exit 73 and 74.
func addLook(dir string, look TestLook) error {
	line, err := json.Marshal(look)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, looksFile)
	f, err := filesystem.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return exit.CreateError(path, err)
	}
	_, err = f.Write(append(line, '\n'))
	return exit.CreateError(path, errors.Join(err, f.Close()))
}
