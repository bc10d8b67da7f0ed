package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// outputsMaxDefault is the bound of Job.OutputsMax in bytes.
const outputsMaxDefault = 64 << 10

// takeOutputs reads what a successful attempt left at path. The task owns that place and may have put
// anything there, so nothing but a regular file is read, without following and without waiting.
func takeOutputs(path string, sizeMax int, types map[string]string) (json.RawMessage, error) {
	if sizeMax <= 0 {
		sizeMax = outputsMaxDefault
	}
	data, err := readRegular(path, sizeMax)
	if err != nil {
		return nil, err
	}
	return parseOutputs(data, types)
}

func readRegular(path string, sizeMax int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.ELOOP):
		return nil, errors.New("$SKEIN_OUTPUT was replaced by a symbolic link: append to it, do not replace it")
	case errors.Is(err, unix.ENXIO): // a socket
		return nil, errors.New("$SKEIN_OUTPUT is not a regular file")
	case err != nil:
		return nil, fmt.Errorf("$SKEIN_OUTPUT cannot be read: %w", err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("$SKEIN_OUTPUT cannot be read: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("$SKEIN_OUTPUT is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(sizeMax)+1))
	if err != nil {
		return nil, fmt.Errorf("$SKEIN_OUTPUT cannot be read: %w", err)
	}
	if len(data) > sizeMax {
		return nil, fmt.Errorf("the outputs are larger than %d bytes: keep large results in an artifact and give its name", sizeMax)
	}
	return data, nil
}

// parseOutputs understands key=value lines or one JSON object (told apart by its brace, which no key can
// begin with). Undeclared keys are strings: in an object, other values become their JSON text. The
// result is an object with sorted keys, nil if there are no outputs.
func parseOutputs(data []byte, types map[string]string) (json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the outputs are not valid UTF-8 text")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("the outputs contain a NUL byte")
	}
	values := map[string]json.RawMessage{}
	var err error
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		err = parseObject(trimmed, types, values)
	} else {
		err = parseLines(string(data), types, values)
	}
	if err != nil {
		return nil, err
	}
	missing := make([]string, 0, len(types))
	for name := range types {
		if _, ok := values[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf(`output %q is declared but was not given: write "%s=…" as a line to $SKEIN_OUTPUT`, missing[0], missing[0])
	}
	if len(values) == 0 {
		return nil, nil
	}
	return marshal(values)
}

func parseLines(text string, types map[string]string, values map[string]json.RawMessage) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %d of the outputs is not key=value: %q", number, excerpt(line))
		}
		if !outputKey(key) {
			return fmt.Errorf("line %d of the outputs: %q is not a key (letters, digits and _, at most 64, not beginning with a digit)", number, excerpt(key))
		}
		typed, err := fromText(value, types[key])
		if err != nil {
			return fmt.Errorf("line %d of the outputs: %q must be %w, not %q", number, key, err, excerpt(value))
		}
		values[key] = typed
	}
	return nil
}

func parseObject(data []byte, types map[string]string, values map[string]json.RawMessage) error {
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &object); err != nil {
		line := 1
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line += bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		}
		return fmt.Errorf("line %d of the outputs: not one JSON object: %w", line, err)
	}
	for key, raw := range object {
		if !outputKey(key) {
			return fmt.Errorf("the outputs: %q is not a key (letters, digits and _, at most 64, not beginning with a digit)", excerpt(key))
		}
		if escapedNUL(raw) {
			return fmt.Errorf("the outputs: %q contains a NUL character", key)
		}
		typed, err := fromJSON(raw, types[key])
		if err != nil {
			return fmt.Errorf("the outputs: %q must be %w, not %s", key, err, excerpt(string(raw)))
		}
		values[key] = typed
	}
	return nil
}

// What a value must be; the sentence around them names key and line.
var (
	errInt   = errors.New("an int (64 bits)")
	errFloat = errors.New("a float")
	errBool  = errors.New("true or false")
	errJSON  = errors.New("JSON")
	errText  = errors.New("a string")
)

// fromText types the value of a line.
func fromText(value, kind string) (json.RawMessage, error) {
	switch kind {
	case "int":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, errInt
		}
		return strconv.AppendInt(nil, n, 10), nil
	case "float":
		return parseFloat(value)
	case "bool":
		if value != "true" && value != "false" {
			return nil, errBool
		}
		return json.RawMessage(value), nil
	case "json":
		if !json.Valid([]byte(value)) || escapedNUL([]byte(value)) {
			return nil, errJSON
		}
		return compact([]byte(value)), nil
	}
	return marshal(value)
}

// fromJSON types a value of an object. It is strict: the text "5" is not the int 5.
func fromJSON(raw json.RawMessage, kind string) (json.RawMessage, error) {
	first := raw[0]
	number := first == '-' || first >= '0' && first <= '9'
	switch kind {
	case "int":
		if !number {
			return nil, errInt
		}
		return fromText(string(raw), kind)
	case "float":
		if !number {
			return nil, errFloat
		}
		return parseFloat(string(raw))
	case "bool":
		return fromText(string(raw), kind)
	case "json":
		return compact(raw), nil
	case "string":
		if first != '"' {
			return nil, errText
		}
		return compact(raw), nil
	}
	if first == '"' {
		return compact(raw), nil
	}
	return marshal(string(compact(raw)))
}

// parseFloat refuses what JSON has no number for: NaN, infinities, hexadecimal.
func parseFloat(text string) (json.RawMessage, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(text, "xXpP_") {
		return nil, errFloat
	}
	out, err := marshal(f)
	if err == nil && !bytes.ContainsAny(out, ".e") {
		out = append(out, ".0"...) // so that expressions can tell a float from an int
	}
	return out, err
}

// marshal is json.Marshal without the escapes for HTML: outputs are compared and shown as they were given.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func compact(raw []byte) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		panic(fmt.Sprintf("worker: compacting what was valid JSON: %v", err))
	}
	return b.Bytes()
}

// escapedNUL tells whether \u0000 stands in JSON text. No database takes it in a text.
func escapedNUL(raw []byte) bool {
	const escape = `\u0000`
	for from := 0; ; {
		at := bytes.Index(raw[from:], []byte(escape))
		if at < 0 {
			return false
		}
		at += from
		slashes := 0 // before it: an odd number means that its own backslash is text
		for at-slashes > 0 && raw[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		from = at + 1
	}
}

// outputKey: [A-Za-z_][A-Za-z0-9_]{0,63}.
func outputKey(s string) bool {
	if s == "" || len(s) > 64 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		if s[i] == '-' || !wordByte(s[i]) {
			return false
		}
	}
	return true
}

// excerpt keeps a text of a task short inside a sentence.
func excerpt(s string) string {
	const runesMax = 60
	if runes := []rune(s); len(runes) > runesMax {
		return string(runes[:runesMax]) + "…"
	}
	return s
}
