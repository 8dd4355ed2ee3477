package config

// variables are the user's names of settings, by key.
type variables map[string]string

// variables returns for each setting the name under which it was found, with _FILE if it was given as a file. A setting that
// was not given has its most specific name, also with _FILE.
func (s *scope) variables() variables {
	names := variables{}
	for key, o := range s.origins {
		name := s.prefixes[0] + key
		switch {
		case !o.given, o.inherited && s.name == "": // the direct URL is inherited from the other one
			names[key], names[key+fileSuffix] = name, name+fileSuffix
			continue
		case o.path != "":
			name = o.variable + fileSuffix
		default:
			name = o.variable
		}
		names[key], names[key+fileSuffix] = name, name
	}
	return names
}

// Variable returns the user's name of a setting of the relay, for messages. The key is the name without [Prefix], such as
// TABLE. A setting that was given as a file has the name with _FILE; a key with _FILE prefers this form for a setting that was
// not given.
func (c *Config) Variable(key string) string { return c.variables[key] }

// Variable is [Config.Variable] for a setting of the destination: a setting that was given for this destination alone has the
// name with its prefix.
func (d *Destination) Variable(key string) string { return d.variables[key] }
