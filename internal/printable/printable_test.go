package printable

import (
	"bytes"
	"encoding/json"
	"testing"
)

const hostile = "a\x1b[31m\u009b1m\u202eb\u2066c\r\nd\x7fe\u200f é 語"

func TestText(t *testing.T) {
	t.Parallel()
	if got := Text(hostile); got != "a\uFFFD[31m\uFFFD1m\uFFFDb\uFFFDc\uFFFD\uFFFDd\uFFFDe\uFFFD é 語" {
		t.Errorf("%q", got)
	}
	if got := Cut("ab\ncd", 4); got != "ab\uFFFD…" {
		t.Errorf("%q", got)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	encoder := json.NewEncoder(JSON(&out))
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]string{"topic": hostile}); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if steers(r) && r != '\n' {
			t.Errorf("%q is in %q", r, &out)
		}
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["topic"] != hostile {
		t.Errorf("%q, %v", back, err)
	}
}
