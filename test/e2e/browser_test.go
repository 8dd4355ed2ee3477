//go:build page

package e2e

import (
	"context"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is a tab of a headless Chromium, with the errors that occurred in it.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it

	mu       sync.Mutex
	asked    map[string]bool // URLs that the page requested
	problems []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(endpoint(t, "TEST_CHROMIUM")),
		chromedp.NoSandbox,
		chromedp.WindowSize(1280, 1040))
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(release)
	ctx, leave := chromedp.NewContext(allocated)
	t.Cleanup(leave)
	b := &browser{t: t, asked: map[string]bool{}}
	b.ctx, leave = context.WithTimeout(ctx, patience)
	t.Cleanup(leave)
	chromedp.ListenTarget(b.ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked[e.Request.URL] = true
		case *log.EventEntryAdded:
			b.problems = append(b.problems, e.Entry.Text)
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			b.problems = append(b.problems, "a dialog: "+e.Message)
		}
	})
	b.do(network.Enable(), log.Enable())
	return b
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate returns the value of a script.
func evaluate[T any](b *browser, script string) (value T) {
	b.t.Helper()
	b.do(chromedp.Evaluate(script, &value))
	return value
}

// open shows the page and waits until it has a report.
func (b *browser) open(addr string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://"+addr+"/"), chromedp.WaitVisible("main section dl"))
}

// screenReader checks what assistive technology reads: every focusable element has a name, as do tables and pictures.
func (b *browser) screenReader() {
	b.t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored bool `json:"ignored"`
			Role    struct {
				Value any `json:"value"`
			} `json:"role"`
			Name struct {
				Value any `json:"value"`
			} `json:"name"`
		} `json:"nodes"`
	}
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
	}))
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role, _ := n.Role.Value.(string)
		name, _ := n.Name.Value.(string)
		roles[role]++
		switch role {
		case "table", "image", "img", "button", "region", "link", "columnheader", "rowheader":
			if name == "" {
				b.t.Errorf("a %s without a name", role)
			}
		}
	}
	for _, role := range []string{
		"banner", "main", "contentinfo", "heading", "table", "caption", "columnheader", "rowheader", "status",
		"button", "region",
	} {
		if roles[role] == 0 {
			b.t.Errorf("no %s: %v", role, roles)
		}
	}
	if roles["image"]+roles["img"] < 2 {
		b.t.Errorf("the charts have no description: %v", roles)
	}
}

// keyboard goes through the page with the Tab key, and opens and presses the controls that it meets.
func (b *browser) keyboard() {
	b.t.Helper()
	met := map[string]bool{}
	for range 20 {
		b.do(chromedp.KeyEvent(kb.Tab))
		what := evaluate[string](b,
			`document.activeElement.tagName + " " + (document.activeElement.dataset.id || document.activeElement.id || "")`)
		if met[what] {
			continue
		}
		met[what] = true
		if width := evaluate[string](b, `getComputedStyle(document.activeElement).outlineStyle`); what != "BODY " &&
			width == "none" {
			b.t.Errorf("%s shows no focus", what)
		}
		switch what {
		case "BUTTON pause":
			b.do(chromedp.KeyEvent(" "))
			if evaluate[string](b, `document.activeElement.getAttribute("aria-pressed")`) != "true" {
				b.t.Error("the button cannot be pressed")
			}
		case "SUMMARY history default":
			b.do(chromedp.KeyEvent(kb.Enter))
			if !evaluate[bool](b, `document.activeElement.parentElement.open`) {
				b.t.Error("the table of a chart cannot be opened")
			}
			b.do(chromedp.Evaluate("refresh()", nil), chromedp.WaitReady("details[open]"))
			if again := evaluate[string](b, `document.activeElement.dataset.id || ""`); again != "history default" {
				b.t.Errorf("after the page was drawn again the focus is on %q", again)
			}
		}
	}
	for _, what := range []string{"BUTTON pause", "SUMMARY history default", "A json"} {
		if !met[what] {
			b.t.Errorf("%s is not reached: %v", what, met)
		}
	}
	b.do(chromedp.Click("#pause"))
}

// check examines what is drawn: each text has enough contrast, stays within its card and keeps its words whole, and the
// page is no wider than the window.
func (b *browser) check(name string) {
	b.t.Helper()
	for problem, script := range map[string]string{
		"too little contrast": contrast, "out of its card": outside,
		"broken words": broken,
	} {
		if found := evaluate[[]string](b, script); len(found) > 0 {
			b.t.Errorf("%s: %s: %q", name, problem, found)
		}
	}
	if evaluate[bool](b, "document.documentElement.scrollWidth > document.documentElement.clientWidth") {
		b.t.Errorf("%s: the page is wider than the window", name)
	}
}

// outside lists texts that reach beyond their card, or beyond a part that scrolls and should not need to.
const outside = `[...document.querySelectorAll("section *, header *")].filter(e => {
  const card = e.closest("section, header"), box = e.getBoundingClientRect();
  if (e.matches(".scroll:has(.stack)")) return e.scrollWidth > e.clientWidth;
  return !e.closest(".scroll") && e.checkVisibility() && box.width && box.right > card.getBoundingClientRect().right + 1;
}).map(e => e.textContent.slice(0, 60))`

// broken lists words of ordinary length that are broken between two letters.
const broken = `(() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!e.checkVisibility() || e instanceof SVGElement || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName)) continue;
    for (const word of n.textContent.matchAll(/[A-Za-z0-9_.]{2,14}/g)) {
      range.setStart(n, word.index); range.setEnd(n, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
      if (tops.size > 1 && !/[^\s]/.test(n.textContent[word.index - 1] || " ")) found.push(word[0] + " in " + n.textContent.slice(0, 40));
    }
  }
  return found;
})()`

// contrast lists texts whose contrast is less than the 4.5 that WCAG requires.
const contrast = `(() => {
  const rgb = c => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!n.textContent.trim() || !e.checkVisibility() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName)) continue;
    const style = getComputedStyle(e), a = light(rgb(e instanceof SVGElement ? style.fill : style.color)), b = light(behind(e));
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) faint.push(n.textContent.trim());
  }
  return faint;
})()`
