package sql

import (
	"embed"
	"strings"
)

//go:embed *.sql
var files embed.FS

// Text returns the statement in the named file, without its heading comment, and with each {name} in it replaced by
// names[name], which holds quoted identifiers and expressions made of them. A file or name that does not exist is a
// mistake in the program, and Text panics.
func Text(file string, names map[string]string) string {
	text, err := files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "--") {
			continue
		}
		for {
			before, after, found := strings.Cut(line, "{")
			out.WriteString(before)
			if !found {
				break
			}
			name, rest, _ := strings.Cut(after, "}")
			value, ok := names[name]
			if !ok {
				panic("sql: " + file + " needs {" + name + "}")
			}
			out.WriteString(value)
			line = rest
		}
	}
	return strings.TrimSpace(out.String())
}
