package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kelseyhightower/envconfig"
)

// texts are the types with which envconfig reads settings of another type. Its own parser takes the number 010 for
// eight, does not know days in durations, and keeps blanks in lists.
var texts = map[reflect.Type]reflect.Type{
	reflect.TypeFor[int]():               reflect.TypeFor[count](),
	reflect.TypeFor[int64]():             reflect.TypeFor[size](),
	reflect.TypeFor[time.Duration]():     reflect.TypeFor[Duration](),
	reflect.TypeFor[float64]():           reflect.TypeFor[rate](),
	reflect.TypeFor[[]string]():          reflect.TypeFor[list](),
	reflect.TypeFor[map[string]string](): reflect.TypeFor[columns](),
}

// fill sets a field to the value of the setting's text. The error's text continues the sentence that begins with the
// variable's name, and does not contain the value.
func (o *origin) fill(into reflect.Value) error {
	if check := forms[o.key]; check != nil && o.text != "" {
		if err := check(o.text); err != nil {
			return err
		}
	}
	switch field := into.Addr().Interface().(type) {
	case *Secret:
		*field = Secret{value: o.text, path: o.path, shown: o.redact(o.text)}
		if o.path != "" {
			field.variable = o.variable + fileSuffix
		}
		return nil
	case *Switch:
		field.path = o.path
		into = reflect.ValueOf(&field.on).Elem()
	}
	text := o.text
	if into.Kind() == reflect.Slice || into.Kind() == reflect.Map { // items may be on lines of their own
		text = strings.TrimSpace(betweenItems.ReplaceAllString(text, ","))
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("contains a line break or another control character; remove it")
	}
	return decode(text, o.Setting, into)
}

var betweenItems = regexp.MustCompile(`\s*,\s*`)

// decode converts a text into a field and checks its bounds.
// envconfig reads a whole struct from the process environment, where it stops at the first error, prints the value,
// takes an empty variable for a value, and falls back to the variable without the prefix (TABLE, TOPIC). So it gets one
// field at a time, with the text that was found as the field's default, under a name that no variable can have.
func decode(text string, setting Setting, into reflect.Value) error {
	if _, second, two := strings.Cut(setting.tag.Get("oneof"), ","); two && into.Kind() == reflect.Bool {
		into.SetBool(text == second)
		return setting.checkBounds(text, into)
	}
	one := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Value", Type: cmp.Or(texts[into.Type()], into.Type()),
		Tag: reflect.StructTag(`envconfig:"=" default:` + strconv.Quote(text)),
	}}))
	if err := envconfig.Process("", one.Interface()); err != nil {
		switch parse, _ := errors.AsType[*envconfig.ParseError](err); into.Interface().(type) {
		case bool:
			return errors.New("is neither true nor false")
		case slog.Level:
			return errors.New("is not a level; write debug, info, warn or error")
		default:
			return parse.Err // the outer error's text would print the value
		}
	}
	value := one.Elem().Field(0).Convert(into.Type())
	if err := setting.checkBounds(text, value); err != nil && text != "" {
		return err
	}
	into.Set(value)
	return nil
}

// checkBounds compares a value with the tags least, most and oneof.
func (s Setting) checkBounds(text string, value reflect.Value) error {
	if all := s.tag.Get("oneof"); all != "" && !slices.Contains(strings.Split(all, ","), text) {
		return errors.New("is not one of " + strings.ReplaceAll(all, ",", ", "))
	}
	for tag, beyond := range map[string]int{"least": -1, "most": 1} {
		bound, limit := s.tag.Get(tag), reflect.New(value.Type()).Elem()
		if bound == "" {
			continue
		}
		if err := decode(bound, Setting{}, limit); err != nil {
			return fmt.Errorf("has a bound that cannot be read: %w", err)
		}
		if cmp.Compare(value.Int(), limit.Int()) == beyond {
			return fmt.Errorf("must be at %s %s", tag, bound)
		}
	}
	return nil
}
