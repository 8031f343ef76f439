package params

import (
	"bytes"
	"strings"
)

// The plain form of Entities, between which the tags are.
const (
	plainBegin = `{"entities":[{"tag":"`
	plainNext  = `"},{"tag":"`
	plainEnd   = `"}]}`
)

// DecodePlain reads entities from JSON without blanks and without any character
// that is written in a special way. It reports whether data is of that form.
func (e *Entities) DecodePlain(data []byte) bool {
	if !bytes.HasPrefix(data, []byte(plainBegin)) || !bytes.HasSuffix(data, []byte(plainEnd)) {
		return false
	}
	if len(data) < len(plainBegin)+len(plainEnd) || bytes.IndexByte(data, '\\') >= 0 {
		return false
	}
	text := string(data[len(plainBegin) : len(data)-len(plainEnd)]) // one copy, of which all tags are parts
	if !plainText(text) {
		return false
	}
	entities := make([]Entity, 0, strings.Count(text, plainNext)+1)
	for more := true; more; {
		var tag string
		tag, text, more = strings.Cut(text, plainNext)
		if strings.IndexByte(tag, '"') >= 0 { // there is more in an entity
			return false
		}
		entities = append(entities, Entity{Tag: tag})
	}
	e.Entities = entities
	return true
}

// plainText reports whether text has nothing but printable ASCII.
func plainText(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
