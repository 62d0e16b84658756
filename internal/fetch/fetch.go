// Package fetch gets a file over https whose content is known beforehand.
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

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// PartialSuffix is the suffix of a file that is not there in full.
const PartialSuffix = ".part"

// OnlyHTTPS is a http.Client's CheckRedirect: it follows few redirects, and none that leaves https.
func OnlyHTTPS(r *http.Request, via []*http.Request) error {
	switch {
	case r.URL.Scheme != "https":
		return fmt.Errorf("it leads to %s, which is not https", r.URL.Redacted())
	case len(via) >= 5:
		return errors.New("it leads on and on")
	}
	return nil
}

// File gets a file of a digest. What a fetch that ended early left is gone on with; the path names the file
// only when it is there in full and has the digest.
//
// Errors: exit 64 for an address that is not https, 66 if it cannot be reached or has no such file, 65 for
// another content, which is removed, 73 and 74 for the output.
func File(ctx context.Context, client *http.Client, address, path, sum string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" {
		return &exit.Error{Code: exit.Usage, What: "this address is not fetched", At: address, Why: "it is not https", Fix: "give one that is, or get the file yourself"}
	}
	part := path + PartialSuffix
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return exit.CreateError(part, err)
	}
	defer f.Close()
	h := sha256.New()
	at, err := io.Copy(h, f) // of what is there already, so that it is not read again
	if err != nil {
		return exit.ReadError(part, err)
	}
	// What is there may be all of it, if this process ended between the last byte and the name.
	if at == 0 || hex.EncodeToString(h.Sum(nil)) != sum {
		if err := resume(ctx, client, address, f, h, at); err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		err := &exit.Error{Code: exit.BadData, What: "what was fetched is another file", At: address, Why: "SHA-256 " + got + ", want " + sum, Fix: "get the file elsewhere, or correct its digest"}
		err.Err = os.Remove(part)
		return err
	}
	if err := f.Sync(); err != nil {
		return exit.CreateError(part, err)
	}
	if err := os.Rename(part, path); err != nil {
		return exit.CreateError(path, err)
	}
	return exit.CreateError(path, atomicfile.Sync(filepath.Dir(path)))
}

// resume appends what a file lacks. A server that knows no ranges sends all of it again.
func resume(ctx context.Context, client *http.Client, address string, f *os.File, h interface {
	io.Writer
	Reset()
}, at int64) error {
	lost := func(why string, err error) error {
		return &exit.Error{Code: exit.NotYet, What: "a file cannot be fetched", At: address, Why: why, Fix: "run the same command again: it goes on where it stopped", Err: err}
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
			return lost(fmt.Sprintf("asked for bytes from %d it sends %q", at, r.Header.Get("Content-Range")), nil)
		}
	case http.StatusOK, http.StatusRequestedRangeNotSatisfiable:
		h.Reset()
		if err := errors.Join(f.Truncate(0), seek(f)); err != nil {
			return exit.CreateError(f.Name(), err)
		}
		if r.StatusCode != http.StatusOK {
			return resume(ctx, client, address, f, h, 0) // what is there is longer than the file
		}
	default:
		return lost("the server says "+r.Status, nil)
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

func seek(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// output tells errors of the disk from those of the network.
type output struct {
	f *os.File
	h io.Writer
}

func (o output) Write(p []byte) (int, error) {
	n, err := o.f.Write(p)
	o.h.Write(p[:n]) // a hash takes every write
	return n, exit.CreateError(o.f.Name(), err)
}
