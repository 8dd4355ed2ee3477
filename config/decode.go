package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"
)

// decode converts a setting's text into a field and checks its bounds. The error's text continues the sentence that begins with
// the variable's name, and does not contain the value.
//
// envconfig stops at the first error, prints the value, takes an empty variable for a value and does not read files. So it gets
// one field at a time, with the text that was found as the field's default, under a name that no variable can have.
func decode(text string, setting Setting, into reflect.Value) error {
	one := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Value",
		Type: textForm(into.Type()),
		Tag:  reflect.StructTag(`envconfig:"=" default:` + strconv.Quote(text)),
	}}))
	if err := envconfig.Process("", one.Interface()); err != nil {
		if parse, ok := errors.AsType[*envconfig.ParseError](err); ok {
			return parse.Err // the outer error's text would print the value
		}
		return fmt.Errorf("cannot be read as %s", into.Type())
	}
	value := one.Elem().Field(0).Convert(into.Type())
	if text != "" {
		if err := setting.checkBounds(text, value); err != nil {
			return err
		}
	}
	into.Set(value)
	return nil
}

// textForm returns the type that reads the text for a field of type t. envconfig's own parser takes the number 010 for eight,
// does not know days in durations, and keeps blanks in lists.
func textForm(t reflect.Type) reflect.Type {
	switch t {
	case reflect.TypeFor[int]():
		return reflect.TypeFor[count]()
	case reflect.TypeFor[bool]():
		return reflect.TypeFor[truth]()
	case reflect.TypeFor[int64]():
		return reflect.TypeFor[size]()
	case reflect.TypeFor[time.Duration]():
		return reflect.TypeFor[Duration]()
	case reflect.TypeFor[[]string]():
		return reflect.TypeFor[list]()
	case reflect.TypeFor[StateColumns]():
		return t
	case reflect.TypeFor[map[string]string]():
		return reflect.TypeFor[columns]()
	case reflect.TypeFor[slog.Level]():
		return reflect.TypeFor[level]()
	default:
		return t
	}
}

// checkBounds compares a value with the tags min, max and oneof.
func (s Setting) checkBounds(text string, value reflect.Value) error {
	if len(s.oneOf) > 0 && !slices.Contains(s.oneOf, text) {
		return fmt.Errorf("is not one of %s", strings.Join(s.oneOf, ", "))
	}
	for _, bound := range []struct {
		text, problem string
		beyond        func(value, bound int64) bool
	}{
		{s.min, "must be at least ", func(v, b int64) bool { return v < b }},
		{s.max, "must be at most ", func(v, b int64) bool { return v > b }},
	} {
		if bound.text == "" {
			continue
		}
		limit := reflect.New(value.Type()).Elem()
		if err := decode(bound.text, Setting{}, limit); err != nil {
			return fmt.Errorf("has a bound that cannot be read: %w", err)
		}
		if bound.beyond(value.Int(), limit.Int()) {
			return errors.New(bound.problem + bound.text)
		}
	}
	return nil
}
