package config

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Load reads the process environment for a command that connects to the database and the brokers. The error is an [*Error],
// which lists every problem. schemes are schemes of publish URLs in addition to the relay's own.
func Load(schemes ...string) (*Config, error) {
	return parseFor(os.Environ(), schemes, requireDatabase, requireBrokers)
}

// LoadOffline is Load for a command that needs no connection: the URLs may be missing.
func LoadOffline(schemes ...string) (*Config, error) { return parseFor(os.Environ(), schemes) }

// LoadDatabase is Load for a command that connects to the database only: the URLs of brokers may be missing.
func LoadDatabase(schemes ...string) (*Config, error) {
	return parseFor(os.Environ(), schemes, requireDatabase)
}

// LoadHTTP reads only OUTBOX_HTTP_ADDR and OUTBOX_HTTP_CONFIG, so that a health check does not depend on settings that it does
// not use.
func LoadHTTP() (addr, path string, err error) {
	l := newLoader(os.Environ())
	s := l.scope("", Prefix)
	load := func(name string, into *string) {
		field, _ := reflect.TypeFor[Config]().FieldByName(name)
		s.load(settingOf(field), reflect.ValueOf(into).Elem())
	}
	load("HTTPAddr", &addr)
	load("HTTPConfig", &path)
	checkAddr(s, "HTTP_ADDR", addr)
	return addr, path, l.err()
}

// parse is Load for an environment given as NAME=value strings.
func parse(environ []string, connects bool) (*Config, error) {
	if connects {
		return parseFor(environ, nil, requireDatabase, requireBrokers)
	}
	return parseFor(environ, nil)
}

// requirement records problems for missing settings that a command requires.
type requirement func(cfg *Config, global *scope, scopes []*scope)

func parseFor(environ, schemes []string, needs ...requirement) (*Config, error) {
	l := newLoader(environ)
	l.schemes = schemes
	cfg := &Config{}
	global := l.scope("", Prefix)
	global.loadAll(reflect.ValueOf(cfg).Elem())
	named := l.loadDestinations(cfg, global)
	scopes := named
	if len(named) == 0 {
		scopes = []*scope{global}
	}

	for _, require := range needs {
		require(cfg, global, scopes)
	}
	checkConfig(cfg, global)
	checkDestinations(cfg, scopes)
	checkStates(cfg, scopes)
	checkLimits(cfg, scopes)
	l.refuseUnknown(named)
	if !cfg.Database.DirectURL.IsSet() {
		cfg.Database.DirectURL = cfg.Database.URL
		global.copyOrigin("DATABASE_DIRECT_URL", "DATABASE_URL")
	}
	if cfg.MaxRowBytes == 0 {
		cfg.MaxRowBytes = max(defaultMaxRowBytes, cfg.MaxInFlightBytes)
	}
	if cfg.IdlePause = cfg.PollInterval; !global.origins["POLL_INTERVAL"].given {
		cfg.IdlePause = defaultIdlePause
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	cfg.values, cfg.variables = effective(global, named), global.variables()
	for i, s := range scopes {
		cfg.Destinations[i].variables = s.variables()
	}
	return cfg, nil
}

// A loader collects the problems instead of stopping at the first one, as envconfig would.
type loader struct {
	env      map[string]string
	schemes  []string // schemes of publish URLs in addition to the relay's own
	problems []Problem
}

func newLoader(environ []string) *loader {
	l := &loader{env: make(map[string]string, len(environ))}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		l.env[name] = value
	}
	return l
}

// A scope is where one set of settings is looked up. The relay's own settings are under OUTBOX_. Those of a named destination
// are under its prefix and then under OUTBOX_.
type scope struct {
	loader   *loader
	name     string   // name of the destination; empty for the relay's own settings
	prefixes []string // most specific first
	settings []Setting
	origins  map[string]origin // by the setting's key
}

func (l *loader) scope(name string, prefixes ...string) *scope {
	return &scope{loader: l, name: name, prefixes: prefixes, origins: map[string]origin{}}
}

// loadAll fills the settings of a struct and of the structs in it.
func (s *scope) loadAll(into reflect.Value) {
	for i := range into.NumField() {
		field := into.Type().Field(i)
		switch {
		case field.Type == reflect.TypeFor[[]Destination]():
			// loadDestinations fills this field.
		case field.Tag.Get("envconfig") != "":
			s.load(settingOf(field), into.Field(i))
		case field.Type.Kind() == reflect.Struct:
			s.loadAll(into.Field(i))
		}
	}
}

// load fills one setting from the first place that has it. After a problem the field holds its default, so that later checks
// can run without reporting a second problem for the same mistake.
func (s *scope) load(setting Setting, into reflect.Value) {
	if setting.named && s.name == "" { // OUTBOX_ with the same key may be another setting
		return
	}
	o := s.find(setting)
	s.settings = append(s.settings, setting)
	s.origins[setting.key] = o
	if secret, ok := into.Addr().Interface().(*Secret); ok {
		*secret = Secret{value: o.text, path: o.path, shown: setting.redact(o.text)}
		return
	}
	if live, ok := into.Addr().Interface().(*Switch); ok {
		live.path = o.path
		into = reflect.ValueOf(&live.on).Elem()
	}
	err := decode(o.text, setting, into)
	list := into.Kind() == reflect.Slice || into.Kind() == reflect.Map
	if hasControl(o.text, list) && setting.key != "HTTP_CONFIG" { // the content of that file has its own message
		err = errors.New("contains a line break or another control character; remove it")
	}
	if err == nil {
		return
	}
	s.bad(setting.key, "%s", err)
	o.broken = true
	s.origins[setting.key] = o
	if err := decode(setting.Default, setting, into); err != nil {
		panic("default of " + setting.Name + ": " + err.Error()) // a test decodes every default
	}
}

// hasControl reports whether a text contains a control character, other than line breaks around the items of a list.
func hasControl(text string, list bool) bool {
	items := []string{text}
	if list {
		items = strings.Split(text, ",")
		for i, item := range items {
			items[i] = strings.TrimSpace(item)
		}
	}
	return slices.ContainsFunc(items, func(item string) bool { return strings.ContainsFunc(item, unicode.IsControl) })
}

// find looks up a setting under the scope's prefixes.
func (s *scope) find(setting Setting) origin {
	prefixes := s.prefixes
	switch {
	case setting.named, setting.exclusive != "" && s.ownCredential(setting.exclusive):
		prefixes = prefixes[:1]
	}
	for _, prefix := range prefixes {
		if o, ok := s.loader.lookup(prefix, setting); ok {
			o.inherited = prefix != s.prefixes[0]
			return o
		}
	}
	return origin{variable: s.prefixes[0] + setting.key, text: setting.Default}
}

// ownCredential reports whether a named destination has any setting of a group for itself. It then inherits none of the group,
// because the global ones would contradict it.
func (s *scope) ownCredential(group string) bool {
	if s.name == "" {
		return false
	}
	for _, setting := range settingsIn(reflect.TypeFor[Destination](), true) {
		if setting.exclusive == group {
			if name := s.prefixes[0] + setting.key; s.loader.env[name] != "" || s.loader.env[name+fileSuffix] != "" {
				return true
			}
		}
	}
	return false
}

func (s *scope) copyOrigin(to, from string) {
	o := s.origins[from]
	o.inherited = true
	s.origins[to] = o
}
