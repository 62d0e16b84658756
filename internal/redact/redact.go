// Package redact removes secrets from text: passwords and tokens in URLs, and
// values of flags and variables with secret-like names.
package redact

import "regexp"

// Mask replaces a secret.
const Mask = "***"

// secret matches the name and separator before a secret value.
const secret = `(?i)((?:[A-Za-z0-9_-]*(?:password|passwd|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|signature)[A-Za-z0-9_-]*|[?&;](?:sig|key|auth))\\?["']?\s*(?:=|:)\s*|--[a-z-]*(?:password|secret|token|api-key)[a-z-]*\s+)`

var (
	// user:password@ or token@ in a URL, also one that was cleaned as a path and
	// lost a slash
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://?)[^\s/?#"'@]+@`)
	// name=value, name: value, "name":"value", a header "name value", and --name
	// value; also with quoted values, which may contain any character
	named   = regexp.MustCompile(secret + `(?:[^\s"'&;,\\]|\\[^"])+`)
	escaped = regexp.MustCompile(secret + `\\"[^"]*"?`) // within text that is quoted as a whole
	quoted  = regexp.MustCompile(secret + `"(?:[^"\\]|\\.)*"?`)
	quoted1 = regexp.MustCompile(secret + `'[^']*'?`)
	// Authorization: Bearer x, Basic x.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`)
)

// Text returns a text without secrets. It cannot find secrets of unknown form.
func Text(s string) string {
	s = userinfo.ReplaceAllString(s, "${1}"+Mask+"@")
	s = scheme.ReplaceAllString(s, "${1} "+Mask)
	s = escaped.ReplaceAllString(s, `${1}\"`+Mask+`\"`)
	s = quoted.ReplaceAllString(s, `${1}"`+Mask+`"`)
	s = quoted1.ReplaceAllString(s, "${1}'"+Mask+"'")
	return named.ReplaceAllString(s, "${1}"+Mask)
}
