package amqp

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// typed returns the AMQP field of a JSON value and its size on the wire in bytes. Integers become long, other numbers
// double, objects tables, arrays arrays, and null the void field. An integer beyond 64 bits, or a number beyond a
// double's range, stays text, because rounding it would change the row's value.
func typed(text string) (value any, size int, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, 0, publisher.PermanentError("illegal header", "a header value is not JSON: %w", err)
	}
	return field(value)
}

func field(value any) (any, int, error) {
	switch v := value.(type) {
	case bool:
		return v, 2, nil
	case json.Number:
		number, size := number(v.String())
		return number, size, nil
	case string:
		return v, 5 + len(v), nil
	case []any:
		size := 5
		for i := range v {
			one, length, err := field(v[i])
			if err != nil {
				return nil, 0, err
			}
			v[i], size = one, size+length
		}
		return v, size, nil
	case map[string]any:
		table, size := make(amqp091.Table, len(v)), 5
		for name, inner := range v {
			if len(name) > maxShortString {
				return nil, 0, publisher.PermanentError("name too long",
					"a name in a header's value has %d bytes, AMQP allows %d", len(name),
					maxShortString)
			}
			one, length, err := field(inner)
			if err != nil {
				return nil, 0, err
			}
			table[name], size = one, size+1+len(name)+length
		}
		return table, size, nil
	default: // null
		return nil, 1, nil
	}
}

func number(text string) (any, int) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, 9
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && strings.ContainsAny(text, ".eE") {
		return f, 9
	}
	return text, 5 + len(text)
}
