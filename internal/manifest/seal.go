package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

// A sealed document is JSON in which the first line with the key "checksum" holds the SHA-256 of all its bytes, computed
// with zeros in place of the digest. It finds every change of the document, also of spaces.

// unsealed is the value of the key before the digest is known.
var unsealed = "sha256:" + zeros

var zeros = strings.Repeat("0", 2*sha256.Size)

// sealLine matches the line of the digest.
var sealLine = regexp.MustCompile(`(?m)^ *"checksum": "sha256:([0-9a-f]{64})",?$`)

var (
	errNoSeal  = errors.New(`it has no checksum of itself ("checksum")`)
	errNotSame = errors.New("it was changed: its bytes do not have the checksum that it states")
)

// SealedJSON returns a value as a sealed document, with a newline at its end. It sets checksum, the field of the value with
// the key "checksum", which must be the first of this name in the document.
func SealedJSON(x any, checksum *string, indent string) ([]byte, error) {
	*checksum = unsealed
	text, err := json.MarshalIndent(x, "", indent)
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	*checksum, err = Seal(text)
	return text, err
}

// Seal writes the checksum into a document that has a line for it, and returns it.
//
// Errors: it has no such line.
func Seal(text []byte) (string, error) {
	at := sealLine.FindSubmatchIndex(text)
	if at == nil {
		return "", errNoSeal
	}
	digits := text[at[2]:at[3]]
	copy(digits, zeros)
	sum := sha256.Sum256(text)
	hex.Encode(digits, sum[:])
	return "sha256:" + string(digits), nil
}

// CheckSeal compares a document with the checksum that SealedJSON wrote into it.
//
// Errors: it has none, or another one.
func CheckSeal(text []byte) error {
	at := sealLine.FindSubmatchIndex(text)
	if at == nil {
		return errNoSeal
	}
	if sum, err := Seal(bytes.Clone(text)); err != nil || sum != "sha256:"+string(text[at[2]:at[3]]) {
		return errNotSame
	}
	return nil
}
