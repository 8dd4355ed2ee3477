package main

import (
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What users of the packages can name leads only to types that they can name, too: no exported identifier has an
// internal or an unexported type in its signature.
func TestExportedTypesCanBeNamed(t *testing.T) {
	t.Parallel()
	// The packages are read in the form in which the compiler exports them.
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
		"./...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[path] = file
	}
	read := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(compiled[path])
	})
	const module = "github.com/outbox-relay/outbox-relay/"
	examined := 0
	for path := range compiled {
		if !strings.HasPrefix(path, module) || strings.Contains(path, "/internal/") {
			continue
		}
		pkg, err := read.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		examined++
		for _, problem := range unnameable(pkg) {
			t.Error(problem)
		}
	}
	if examined < 6 {
		t.Errorf("packages examined: %d", examined)
	}
}

// unnameable returns the exported identifiers of a package with types that users of the package cannot name.
func unnameable(pkg *types.Package) (found []string) {
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		at := pkg.Name() + "." + name
		note := func(at string, err error) {
			if err != nil {
				found = append(found, at+": "+err.Error())
			}
		}
		named, isType := object.Type().(*types.Named)
		if _, declares := object.(*types.TypeName); !declares || !isType {
			note(at, nameable(object.Type())) // also of an alias
			continue
		}
		note(at, nameable(named.Underlying()))
		methods := types.NewMethodSet(types.NewPointer(named)) // promoted ones, too
		for i := range methods.Len() {
			if method := methods.At(i).Obj(); method.Exported() {
				note(at+"."+method.Name(), nameable(method.Type()))
			}
		}
	}
	return found
}

// nameable returns an error if a type is made of an internal or unexported type.
func nameable(t types.Type) error {
	switch t := t.(type) {
	case *types.Alias:
		return errors.Join(visible(t.Obj()), nameable(t.Rhs()))
	case *types.Named:
		errs := []error{visible(t.Obj())}
		for argument := range t.TypeArgs().Types() {
			errs = append(errs, nameable(argument))
		}
		return errors.Join(errs...)
	case *types.Map:
		return errors.Join(nameable(t.Key()), nameable(t.Elem()))
	case interface{ Elem() types.Type }: // a pointer, slice, array or channel
		return nameable(t.Elem())
	case *types.Tuple:
		var errs []error
		for v := range t.Variables() {
			errs = append(errs, nameable(v.Type()))
		}
		return errors.Join(errs...)
	case *types.Signature:
		return errors.Join(nameable(t.Params()), nameable(t.Results()))
	case *types.Struct:
		var errs []error
		for field := range t.Fields() {
			if field.Exported() {
				errs = append(errs, nameable(field.Type()))
			}
		}
		return errors.Join(errs...)
	case *types.Interface:
		var errs []error
		for method := range t.Methods() {
			if method.Exported() {
				errs = append(errs, nameable(method.Type()))
			}
		}
		return errors.Join(errs...)
	}
	return nil
}

// visible returns an error for the name of a type that not every package can use.
func visible(name *types.TypeName) error {
	switch pkg := name.Pkg(); {
	case pkg == nil: // predeclared
		return nil
	case !name.Exported(), strings.Contains(pkg.Path(), "/internal/"), strings.HasSuffix(pkg.Path(), "/internal"):
		return fmt.Errorf("%s.%s cannot be named", pkg.Path(), name.Name())
	}
	return nil
}
