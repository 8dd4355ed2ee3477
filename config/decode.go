package config

import (
	"cmp"
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

// forms are the types with which envconfig reads the text of settings of another type. Its own parser takes the number
// 010 for eight, does not know days in durations, and keeps blanks in lists.
var forms = map[reflect.Type]reflect.Type{
	reflect.TypeFor[int]():               reflect.TypeFor[count](),
	reflect.TypeFor[bool]():              reflect.TypeFor[truth](),
	reflect.TypeFor[int64]():             reflect.TypeFor[size](),
	reflect.TypeFor[time.Duration]():     reflect.TypeFor[Duration](),
	reflect.TypeFor[[]string]():          reflect.TypeFor[list](),
	reflect.TypeFor[map[string]string](): reflect.TypeFor[columns](),
	reflect.TypeFor[slog.Level]():        reflect.TypeFor[level](),
}

// decode converts a setting's text into a field and checks its bounds. The error's text continues the sentence that
// begins with the variable's name, and does not contain the value.
// envconfig reads a whole struct from the process environment, where it stops at the first error, prints the value,
// takes an empty variable for a value, and falls back to the variable without the prefix (TABLE, TOPIC). So it gets one
// field at a time, with the text that was found as the field's default, under a name that no variable can have.
func decode(text string, setting Setting, into reflect.Value) error {
	form := cmp.Or(forms[into.Type()], into.Type())
	one := reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "Value", Type: form, Tag: reflect.StructTag(`envconfig:"=" default:` + strconv.Quote(text))},
	}))
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

// checkBounds compares a value with the tags min, max and oneof.
func (s Setting) checkBounds(text string, value reflect.Value) error {
	if all := s.tag.Get("oneof"); all != "" && !slices.Contains(strings.Split(all, ","), text) {
		return errors.New("is not one of " + strings.ReplaceAll(all, ",", ", "))
	}
	for _, bound := range []struct {
		text, problem string
		beyond        int
	}{{s.tag.Get("min"), "must be at least ", -1}, {s.tag.Get("max"), "must be at most ", 1}} {
		if bound.text == "" {
			continue
		}
		limit := reflect.New(value.Type()).Elem()
		if err := decode(bound.text, Setting{}, limit); err != nil {
			return fmt.Errorf("has a bound that cannot be read: %w", err)
		}
		if cmp.Compare(value.Int(), limit.Int()) == bound.beyond {
			return errors.New(bound.problem + bound.text)
		}
	}
	return nil
}
