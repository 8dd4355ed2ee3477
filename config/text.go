package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The types below read the text forms of settings. Their errors continue the sentence that begins with the variable's
// name.

type count int

func (c *count) UnmarshalText(text []byte) (err error) {
	if *(*int)(c), err = strconv.Atoi(string(text)); err != nil {
		return errors.New("is not a whole number; write digits only, such as 1000")
	}
	return nil
}

// A Duration is a time.Duration whose text form also knows d for days; it can be a command-line flag as well.
type Duration time.Duration

var days = regexp.MustCompile(`([0-9]+(?:\.[0-9]*)?|\.[0-9]+)d`)

// UnmarshalText reads Go's form and days.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	hours := days.ReplaceAllStringFunc(string(text), func(part string) string {
		n, _ := strconv.ParseFloat(strings.TrimSuffix(part, "d"), 64) // the pattern allows only numbers
		return strconv.FormatFloat(n*24, 'f', -1, 64) + "h"
	})
	if *(*time.Duration)(d), err = time.ParseDuration(hours); err != nil {
		return errors.New("is not a duration; write a number and its unit: 500ms, 10s, 5m, 1h or 7d")
	}
	return nil
}

// Set reads the text form; with String and Type it makes a flag.
func (d *Duration) Set(text string) error { return d.UnmarshalText([]byte(text)) }

// String returns the text form.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Type names the value in a help text.
func (d *Duration) Type() string { return "duration" }

// A size may have a fraction, 1.5GiB. Units of 1000 are refused: 64MB and 64MiB differ by 5 %.
type size int64

var sizeUnits = map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

func (s *size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BKMGi")
	unit, known := sizeUnits[string(text[len(digits):])]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || math.IsNaN(n) || math.Abs(n)*float64(unit) >= math.MaxInt64 {
		return errors.New("is not a size; write bytes, or a number with KiB, MiB or GiB, such as 64MiB")
	}
	*s = size(n * float64(unit))
	return nil
}

// A rate is a number of rows per second. Its text form is 500/s or 30/m.
type rate float64

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

func (r *rate) UnmarshalText(text []byte) error {
	digits, unit, _ := strings.Cut(string(text), "/")
	rows, err := strconv.Atoi(digits)
	per := rateUnits[unit]
	if err != nil || per == 0 || rows < 1 {
		return errors.New("is not a rate; write a whole number of rows, at least 1, per s, m, h or d, such as 500/s " +
			"or 30/m; to stop publishing, use the setting PAUSE")
	}
	*r = rate(float64(rows) / per.Seconds())
	return nil
}

// A list may have an item on each line, as a block of YAML gives it.
type list []string

func (l *list) UnmarshalText(text []byte) error {
	*l = nil
	for item := range strings.SplitSeq(string(text), ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			return errors.New("contains an empty item; write names separated by single commas")
		}
		if slices.Contains(*l, item) {
			return fmt.Errorf("names %q twice", item)
		}
		*l = append(*l, item)
	}
	return nil
}

// ourColumns are the relay's names of columns.
var ourColumns = []string{
	"id", "topic", "payload", "headers", "attempt", "relayed_at", "failed_at", "last_error",
	"inserted_at", "updated_at", "key", "order", "available_at", "priority", "txid",
}

// headerPrefix is the prefix of the relay's name for a column that is sent as a header.
const headerPrefix = "header."

// columns map the relay's names of columns to the table's.
type columns map[string]string

func (c *columns) UnmarshalText(text []byte) error {
	*c = columns{}
	for pair := range strings.SplitSeq(string(text), ",") {
		ours, theirs, ok := strings.Cut(pair, ":")
		ours, theirs = strings.TrimSpace(ours), strings.TrimSpace(theirs)
		header, isHeader := strings.CutPrefix(ours, headerPrefix)
		switch {
		case !ok || ours == "" || theirs == "":
			return errors.New("is not a list of pairs, the relay's name and a column: key:aggregate_id,order:seq")
		case (!isHeader || header == "") && !slices.Contains(ourColumns, ours):
			return fmt.Errorf("maps %q, which is an unknown name; the left side is one of %s, or %sNAME", ours,
				strings.Join(ourColumns, ", "), headerPrefix)
		case (*c)[ours] != "":
			return fmt.Errorf("maps %s twice", ours)
		}
		(*c)[ours] = theirs
	}
	return nil
}
