package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/relay"
)

// Needs are the parts of the configuration that a command requires.
type Needs int

// What commands connect to. URLs of anything else may be missing.
const (
	NeedNothing  Needs = 0
	NeedDatabase Needs = 1
	NeedBrokers  Needs = 2
	NeedAll            = NeedDatabase | NeedBrokers
)

// Load reads the process environment. The error is an [*Error], which lists every problem. schemes are schemes of
// publish URLs in addition to the relay's own.
func Load(needs Needs, schemes ...string) (*Config, error) {
	return newLoader(os.Environ(), schemes).config(needs)
}

// LoadHTTP reads only OUTBOX_HTTP_ADDR and OUTBOX_HTTP_CONFIG, so that a health check does not depend on settings that
// it does not use.
func LoadHTTP() (addr, path string, err error) {
	var c Config
	l := newLoader(os.Environ(), nil)
	l.settings = slices.DeleteFunc(l.settings, func(s Setting) bool { return !strings.HasPrefix(s.key, "HTTP_") })
	(&scope{loader: l, prefixes: []string{Prefix}}).loadAll(&c, false)
	return c.HTTPAddr, c.HTTPConfig, l.err()
}

// A loader reads one environment. It collects the problems, where envconfig would stop at the first one.
type loader struct {
	env      map[string]string
	schemes  []string // schemes of publish URLs in addition to the relay's own
	settings []Setting
	problems []string
}

func newLoader(environ, schemes []string) *loader {
	l := &loader{env: make(map[string]string, len(environ)), schemes: schemes, settings: Settings()}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		l.env[name] = value
	}
	return l
}

// config reads and checks everything, and fills in what follows from other settings. The checks come after all settings
// are read, whether or not these have problems, so that one start reports everything that has to be corrected.
func (l *loader) config(needs Needs) (*Config, error) {
	c := &Config{scope: &scope{loader: l, prefixes: []string{Prefix}}}
	c.scope.loadAll(c, false)
	c.SettingName = c.scope.settingName
	c.loadDestinations()
	c.require(needs)
	checkDestinations(c)
	checkStates(c, checkColumns(c))
	checkShares(c)
	checkRelay(c)
	c.refuseUnknown()
	if !c.Database.DirectURL.IsSet() {
		c.Database.DirectURL = c.Database.URL
		direct, o := c.scope.at("DATABASE_DIRECT_URL"), *c.scope.at("DATABASE_URL")
		o.Setting, o.inherited = direct.Setting, true
		*direct = o
	}
	if !c.scope.at("POLL_INTERVAL").given {
		c.PollInterval = 0
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// defaultDestination is the name of the only destination if OUTBOX_DESTINATIONS is not given.
const defaultDestination = "default"

// loadDestinations fills in the destinations. The settings of the default destination are the relay's own.
func (c *Config) loadDestinations() {
	for _, name := range c.Names {
		// A shell cannot set a variable with a dash in its name.
		prefix := Prefix + "DESTINATION_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
		s := &scope{loader: c.scope.loader, name: name, prefixes: []string{prefix, Prefix}, common: c.scope}
		c.Destinations = append(c.Destinations, Destination{Destination: &relay.Destination{Name: name}, scope: s})
	}
	if len(c.Names) == 0 {
		to := &relay.Destination{Name: defaultDestination}
		c.Destinations = []Destination{{Destination: to, Required: true, scope: c.scope}}
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		d.scope.loadAll(d, true)
		d.SettingName = d.scope.settingName
	}
}

// A scope is where one set of settings is looked up. The relay's own settings are under OUTBOX_. Those of a named
// destination are under its prefix and then under OUTBOX_.
type scope struct {
	loader   *loader
	name     string    // name of the destination; empty for the relay's own settings
	prefixes []string  // most specific first
	all      []*origin // those of the settings that were looked up, in this order
	common   *scope    // the relay's own settings; nil if these are
}

// at returns the origin of the setting with a key.
func (s *scope) at(key string) *origin { return s.first(func(o *origin) bool { return o.key == key }) }

// first returns the first setting of the scope, or else of the relay's own, that is as required, or an empty one.
func (s *scope) first(is func(*origin) bool) *origin {
	if i := slices.IndexFunc(s.all, is); i >= 0 {
		return s.all[i]
	} else if s.common != nil {
		return s.common.first(is)
	}
	return &origin{}
}

// loadAll fills the settings of a [Config], or those of a [Destination].
func (s *scope) loadAll(into any, destination bool) {
	for _, setting := range s.loader.settings {
		if setting.PerDestination == destination && (!setting.named || s.name != "") {
			s.load(setting, reflect.ValueOf(into).Elem().FieldByIndex(setting.path))
		}
	}
}

// load fills one setting from the first place that has it. After a problem the field holds its default, so that later
// checks can run without reporting a second problem for the same mistake.
func (s *scope) load(setting Setting, into reflect.Value) {
	o, err := s.find(setting)
	s.all = append(s.all, o)
	if err == nil {
		err = o.fill(into)
	}
	if err == nil {
		return
	}
	s.bad(setting.key, "%s", err)
	o.broken, o.text, o.path = true, setting.Default, ""
	_ = o.fill(into) // a test decodes every default
}

// find looks up a setting under the scope's prefixes. A named destination with a value of its own for any setting of a
// group inherits none of the group, because the common ones would contradict it.
func (s *scope) find(setting Setting) (*origin, error) {
	group := setting.tag.Get("group")
	own := func(other Setting) bool {
		name := s.prefixes[0] + other.key
		return other.tag.Get("group") == group && s.loader.env[name]+s.loader.env[name+fileSuffix] != ""
	}
	prefixes := s.prefixes
	if setting.named || group != "" && s.name != "" && slices.ContainsFunc(s.loader.settings, own) {
		prefixes = prefixes[:1]
	}
	for _, prefix := range prefixes {
		if o, err := s.loader.lookup(prefix+setting.key, setting); o != nil {
			o.inherited = prefix != s.prefixes[0]
			return o, err
		}
	}
	return &origin{Setting: setting, variable: s.prefixes[0] + setting.key, text: setting.Default}, nil
}
