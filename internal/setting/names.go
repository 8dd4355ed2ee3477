// Package setting lets a library name a setting in an error or a finding without knowing where the program reads its
// settings from. An error of a package that is configured by a struct says which field to change. The program that
// filled the struct from variables, a file or flags provides its users' name of the field.
//
// The configuration has a field for the func (SettingName func(field string) string if it can be imported from
// outside), and the library keeps it as Names in a variable or field called names:
//
//	return fmt.Errorf("table %s does not exist: create it, or correct %s", table, o.names.Of("Table"))
//
// Texts are built where the error arises, so that they read the same in the log, in /readyz, in doctor and in
// last_error. The argument of Of is a literal. config/settingname.go has the variable for each field, and a test there
// finds missing ones.
package setting

// Names returns the user's name of a field of a library's configuration, such as the variable that holds TLS.RootCAs.
// The field is a path of Go names. If Names is nil or returns an empty text, the field's own name is used.
type Names func(field string) string

// Of returns the name of a field for an error's text.
func (n Names) Of(field string) string {
	if n == nil {
		return field
	}
	if name := n(field); name != "" {
		return name
	}
	return field
}
