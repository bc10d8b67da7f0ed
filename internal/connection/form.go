package connection

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// Form says how a value of a database is written in JSON.
type Form uint8

const (
	FormNull Form = iota
	FormBoolean
	FormNumber // a value that JSON lacks, such as NaN, becomes a text
	FormText
	FormDocument // the value is JSON already
	FormBytes    // becomes \x and hexadecimal digits
)

// AppendJSON appends a value as JSON. text is the value as the server writes it.
func (f Form) AppendJSON(to, text []byte) ([]byte, error) {
	switch f {
	case FormNull:
		return append(to, "null"...), nil
	case FormBoolean, FormNumber:
		if json.Valid(text) {
			return append(to, text...), nil
		}
	case FormDocument:
		if !json.Valid(text) {
			return nil, errors.New("its JSON is not valid")
		}
		return append(to, text...), nil
	case FormBytes:
		to = append(to, `"\\x`...)
		return append(hex.AppendEncode(to, text), '"'), nil
	}
	if !utf8.Valid(text) {
		return nil, errors.New("its text is not UTF-8: convert it in the statement")
	}
	quoted, err := json.Marshal(string(text))
	return append(to, quoted...), err
}

// FormOfMySQL returns the form of the values of a column. name is the name of its type in the driver.
func FormOfMySQL(name string) Form {
	switch strings.TrimPrefix(name, "UNSIGNED ") {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "YEAR":
		return FormNumber
	case "JSON":
		return FormDocument
	case "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "BINARY", "VARBINARY", "BIT", "GEOMETRY":
		return FormBytes
	}
	return FormText
}
