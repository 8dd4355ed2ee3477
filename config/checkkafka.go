package config

import (
	"regexp"
	"slices"
)

// extensionPattern is the pattern of RFC 7628, without auth, which holds the token.
var extensionPattern = regexp.MustCompile(`^[a-zA-Z]+=[!-~ \t]+$`)

// checkKafkaLogin checks that a mechanism has the credentials that it needs, and that credentials have their mechanism.
func checkKafkaLogin(d *Destination, s *scope) {
	mechanism, user, password := s.origins["KAFKA_SASL_MECHANISM"], s.origins["KAFKA_SASL_USERNAME"], s.origins["KAFKA_SASL_PASSWORD"]
	// A setting for all destinations may be useless to a destination with its own mechanism.
	meant := func(o origin) bool { return o.given && (!o.inherited || mechanism.inherited) }
	if own := d.Kafka.SASLMechanism; own == MechanismOAuth || own == MechanismIAM {
		for _, o := range []origin{user, password} {
			if meant(o) {
				s.bad("KAFKA_SASL_MECHANISM", "does not use %s; remove one of them", o.variable)
			}
		}
	}
	if d.Kafka.SASLMechanism != MechanismOAuth {
		for _, key := range slices.Concat(oauthKeys, []string{"EXTENSIONS"}) {
			if o := s.origins["KAFKA_OAUTH_"+key]; meant(o) && !mechanism.broken {
				s.bad("KAFKA_OAUTH_"+key, "is for OAUTHBEARER; set %s to OAUTHBEARER, or remove it", mechanism.variable)
			}
		}
	}
	if o := s.origins["KAFKA_AWS_REGION"]; meant(o) && d.Kafka.SASLMechanism != MechanismIAM && !mechanism.broken {
		s.bad("KAFKA_AWS_REGION", "is for AWS_MSK_IAM; set %s to AWS_MSK_IAM, or remove it", mechanism.variable)
	}
	switch d.Kafka.SASLMechanism {
	case MechanismOAuth:
		checkToken(OAuth(d.Kafka.OAuth), "KAFKA_OAUTH_", "KAFKA_SASL_MECHANISM", s)
		for _, extension := range d.Kafka.OAuthExtensions {
			if !extensionPattern.MatchString(extension) {
				s.bad("KAFKA_OAUTH_EXTENSIONS", "contains %q, which is not an extension; write name=value, with only letters in the name", extension)
			}
		}
		return
	case MechanismIAM:
		return
	}
	switch {
	case mechanism.given && !user.given:
		s.bad("KAFKA_SASL_MECHANISM", "requires a user; set %s and %s", user.variable, password.variable)
	case user.given && !mechanism.given:
		s.bad("KAFKA_SASL_USERNAME", "requires a mechanism; set %s to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", mechanism.variable)
	case user.given && !password.given:
		s.bad("KAFKA_SASL_USERNAME", "requires a password; set %s, usually as %s", password.variable, password.variable+fileSuffix)
	case password.given && !user.given:
		s.bad("KAFKA_SASL_PASSWORD", "requires a user; set %s", user.variable)
	}
}
