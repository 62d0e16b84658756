// Package fetch downloads a file with a known checksum over HTTPS.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// PartialSuffix is the suffix of an incomplete file.
const PartialSuffix = ".part"

// OnlyHTTPS is a CheckRedirect for http.Client: it follows up to five redirects,
// all to HTTPS.
func OnlyHTTPS(r *http.Request, via []*http.Request) error {
	switch {
	case r.URL.Scheme != "https":
		return fmt.Errorf("redirect to %s, which is not HTTPS", r.URL.Redacted())
	case len(via) >= 5:
		return errors.New("too many redirects")
	}
	return nil
}

// File downloads a file with the SHA-256 sum to path. It resumes an interrupted
// download. path exists only when the file is complete and the checksum is correct.
//
// Errors: exit 64 for an address that is not HTTPS; 66 if the server cannot be
// reached or lacks the file; 65 for a wrong checksum, in which case the download is
// removed; 73 and 74 for the output.
func File(ctx context.Context, client *http.Client, address, path, sum string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" {
		return &exit.Error{Code: exit.Usage, What: "cannot download from this address", At: address, Why: "it is not HTTPS", Fix: "use an HTTPS address, or download the file by hand"}
	}
	part := path + PartialSuffix
	f, err := filesystem.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return exit.CreateError(part, err)
	}
	defer f.Close()
	h := sha256.New()
	at, err := io.Copy(h, f) // hash of the part downloaded so far
	if err != nil {
		return exit.ReadError(part, err)
	}
	// The file may be complete, if an earlier process ended after the last byte and
	// before the rename.
	if at == 0 || hex.EncodeToString(h.Sum(nil)) != sum {
		if err := resume(ctx, client, address, f, h, at); err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		err := &exit.Error{Code: exit.BadData, What: "the downloaded file has a wrong checksum", At: address, Why: "SHA-256 " + got + ", want " + sum, Fix: "get the file elsewhere, or correct its checksum"}
		err.Err = filesystem.Remove(part)
		return err
	}
	if err := f.Sync(); err != nil {
		return exit.CreateError(part, err)
	}
	if err := filesystem.Rename(part, path); err != nil {
		return exit.CreateError(path, err)
	}
	return exit.CreateError(path, filesystem.SyncDir(filepath.Dir(path)))
}

// resume downloads the missing bytes of a file. A server without range requests
// sends the whole file again.
func resume(ctx context.Context, client *http.Client, address string, f filesystem.File, h interface {
	io.Writer
	Reset()
}, at int64) error {
	lost := func(why string, err error) error {
		return &exit.Error{Code: exit.NotYet, What: "download failed", At: address, Why: why, Fix: "run the same command again to resume the download", Err: err}
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return lost(err.Error(), err)
	}
	if at > 0 {
		q.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	r, err := client.Do(q)
	if err != nil {
		return lost(err.Error(), err)
	}
	defer r.Body.Close()
	switch r.StatusCode {
	case http.StatusPartialContent:
		var from, to int64
		if _, err := fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/", &from, &to); err != nil || from != at {
			return lost(fmt.Sprintf("requested bytes from %d, the server sent %q", at, r.Header.Get("Content-Range")), nil)
		}
	case http.StatusOK, http.StatusRequestedRangeNotSatisfiable:
		h.Reset()
		if err := errors.Join(f.Truncate(0), seek(f)); err != nil {
			return exit.CreateError(f.Name(), err)
		}
		if r.StatusCode != http.StatusOK {
			return resume(ctx, client, address, f, h, 0) // the local part is longer than the file
		}
	default:
		return lost("the server returned "+r.Status, nil)
	}
	if _, err := io.Copy(output{f, h}, r.Body); err != nil {
		var own *exit.Error
		if errors.As(err, &own) {
			return own
		}
		return lost(err.Error(), err)
	}
	return nil
}

// seek moves to the start of a file.
func seek(f filesystem.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// output distinguishes disk errors from network errors: the former are exit.Errors.
type output struct {
	f filesystem.File
	h io.Writer
}

// Write writes to the file and adds the written bytes to the hash.
func (o output) Write(p []byte) (int, error) {
	n, err := o.f.Write(p)
	o.h.Write(p[:n]) // a hash never fails
	return n, exit.CreateError(o.f.Name(), err)
}
