package sql

import (
	"embed"
	"strings"
)

//go:embed *.sql
var files embed.FS

// Text returns the statement in the named file, without its heading comment. Each {name} in it is replaced by
// names[name], which holds quoted identifiers and expressions made of them, and each {file.sql} by the text of that
// file. A file or name that does not exist is a mistake in the program, and Text panics.
func Text(file string, names map[string]string) string {
	var out strings.Builder
	for line := range strings.Lines(read(file)) {
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
			if strings.HasSuffix(name, ".sql") {
				value, ok = Text(name, names), true
			}
			if !ok {
				panic("sql: " + file + " needs {" + name + "}")
			}
			out.WriteString(value)
			line = rest
		}
	}
	return strings.TrimSpace(out.String())
}

// Script is Text for a script that a user reads and applies: the comments are kept, and so are braces that are not
// placeholders, such as those of JSON.
func Script(file string, names map[string]string) string {
	var pairs []string
	for name, value := range names {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(read(file))
}

func read(file string) string {
	text, err := files.ReadFile(file)
	if err != nil {
		panic(err) // the file is compiled in
	}
	return string(text)
}
