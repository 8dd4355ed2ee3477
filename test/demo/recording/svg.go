package recording

import (
	"fmt"
	"html"
	"strings"
	"time"
)

const (
	lineHeight = 18
	charWidth  = 7.8 // of the font below
	margin     = 16
	pause      = 6 * time.Second // at the end, before it begins again
	prompt     = "$ "
)

// svg returns an image that shows the frames one after the other, for as long as each was shown, and then begins again.
// It has no script, so that it may be an image of a web page.
func (r *Recording) svg(command string) string {
	if len(r.frames) == 0 {
		return ""
	}
	columns, rows := len(prompt+command), 0
	for _, f := range r.frames {
		rows = max(rows, len(f.screen)+1)
		for _, line := range f.screen {
			columns = max(columns, len([]rune(line)))
		}
	}
	whole := r.frames[len(r.frames)-1].at + pause
	width, height := int(float64(columns)*charWidth)+2*margin, rows*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+"\n",
		width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(command))
	b.WriteString(`<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d0d7de; white-space: pre }
.in { fill: #7ee787 }
.good { fill: #7ee787; font-weight: bold }
.frame { visibility: hidden }
`)
	for i, f := range r.frames {
		until := 100.0
		if i+1 < len(r.frames) {
			until = share(r.frames[i+1].at, whole)
		}
		from := share(f.at, whole)
		after := "hidden"
		if until == 100 {
			after = "visible"
		}
		fmt.Fprintf(&b, "@keyframes f%d { 0%%, %.3f%% { visibility: hidden } %.3f%%, %.3f%% { visibility: visible } ",
			i, max(0, from-0.001), from, until-0.001)
		fmt.Fprintf(&b, "%.3f%%, 100%% { visibility: %s } }\n", until, after)
	}
	b.WriteString("</style>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	b.WriteString(textLine(0, "in", prompt+command))
	for i, f := range r.frames {
		fmt.Fprintf(&b, `<g class="frame" style="animation: f%d %.2fs step-end infinite">`+"\n", i, whole.Seconds())
		for row, line := range f.screen {
			if line == "" {
				continue
			}
			class := ""
			if strings.HasPrefix(line, "RIGHT") {
				class = "good"
			}
			b.WriteString(textLine(row+1, class, line))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func share(at, whole time.Duration) float64 { return 100 * float64(at) / float64(whole) }

func textLine(row int, class, line string) string {
	if class != "" {
		class = ` class="` + class + `"`
	}
	return fmt.Sprintf(`<text x="%d" y="%d"%s xml:space="preserve">%s</text>`+"\n",
		margin, margin+lineHeight*row+13, class, html.EscapeString(line))
}
