package aws

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// files returns the key, or the web identity, of a profile in the shared files. A profile is read from both files; keys
// in the credentials file take precedence over those in the configuration.
func (c *Chain) files(ctx context.Context, region string) (found Credentials, has bool, err error) {
	profile := cmp.Or(c.Getenv("AWS_PROFILE"), c.Getenv("AWS_DEFAULT_PROFILE"), "default")
	settings := map[string]string{}
	for _, file := range []struct{ variable, name, section string }{
		{"AWS_CONFIG_FILE", "config", "profile " + profile},
		{"AWS_SHARED_CREDENTIALS_FILE", "credentials", profile},
	} {
		path := c.Getenv(file.variable)
		given := path != ""
		if !given {
			home := c.Getenv("HOME")
			if home == "" {
				continue
			}
			path = filepath.Join(home, ".aws", file.name)
		}
		if err := readProfile(path, []string{file.section, profile}, settings); err != nil &&
			(given || !errors.Is(err, fs.ErrNotExist)) {
			return found, false, fmt.Errorf("the AWS file in %s cannot be read: correct the path or its rights: %w",
				file.variable, err)
		}
	}
	found = Credentials{
		KeyID: settings["aws_access_key_id"], Secret: settings["aws_secret_access_key"], Token: settings["aws_session_token"],
	}
	switch {
	case found.KeyID != "" && found.Secret != "":
		return found, true, nil
	case found.KeyID != "" || found.Secret != "":
		return found, false, fmt.Errorf("the AWS profile %q has only one of aws_access_key_id and aws_secret_access_key: "+
			"add the other one", profile)
	case settings["web_identity_token_file"] != "":
		return c.assume(ctx, region, settings["web_identity_token_file"], settings["role_arn"], settings["role_session_name"])
	}
	for _, other := range []string{
		"credential_process", "source_profile", "credential_source", "sso_session", "sso_start_url",
	} {
		if settings[other] != "" {
			return found, false, fmt.Errorf("the AWS profile %q has %s, which the relay does not know: give it a key, or "+
				"web_identity_token_file and role_arn", profile, other)
		}
	}
	if asked := cmp.Or(c.Getenv("AWS_PROFILE"), c.Getenv("AWS_DEFAULT_PROFILE")); asked != "" {
		return found, false, fmt.Errorf("the AWS profile %q of AWS_PROFILE is in none of the shared files, or has no key: "+
			"add it, or remove AWS_PROFILE", asked)
	}
	return found, false, nil
}

// readProfile adds the contents of a file's sections to into.
func readProfile(path string, sections []string, into map[string]string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	within := false
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if name, is := strings.CutPrefix(line, "["); is {
			name, _, _ = strings.Cut(name, "]")
			within = slices.Contains(sections, strings.Join(strings.Fields(name), " "))
			continue
		}
		name, value, is := strings.Cut(line, "=")
		if !within || !is || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		into[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return lines.Err()
}
