package config

import (
	"regexp"
	"slices"
)

// extensionPattern is that of RFC 7628, without auth, which holds the token.
var extensionPattern = regexp.MustCompile(`^[a-zA-Z]+=[!-~ \t]+$`)

// checkKafkaLogin checks that a mechanism has the credentials that it needs, and that credentials have
// their mechanism.
func checkKafkaLogin(d *Destination, s *scope) {
	mechanism, user, password := s.origins["KAFKA_SASL_MECHANISM"], s.origins["KAFKA_SASL_USERNAME"], s.origins["KAFKA_SASL_PASSWORD"]
	// What is meant for all destinations may be of no use to one that has its own mechanism.
	meant := func(o origin) bool { return o.given && (!o.inherited || mechanism.inherited) }
	if own := d.Kafka.SASLMechanism; own == MechanismOAuth || own == MechanismIAM {
		for _, o := range []origin{user, password} {
			if meant(o) {
				s.bad("KAFKA_SASL_MECHANISM", "has no use for %s; remove one of them", o.variable)
			}
		}
	}
	if d.Kafka.SASLMechanism != MechanismOAuth {
		for _, key := range slices.Concat(oauthKeys, []string{"EXTENSIONS"}) {
			if o := s.origins["KAFKA_OAUTH_"+key]; meant(o) && !mechanism.broken {
				s.bad("KAFKA_OAUTH_"+key, "is for OAUTHBEARER; give %s as OAUTHBEARER, or remove it", mechanism.variable)
			}
		}
	}
	if o := s.origins["KAFKA_AWS_REGION"]; meant(o) && d.Kafka.SASLMechanism != MechanismIAM && !mechanism.broken {
		s.bad("KAFKA_AWS_REGION", "is for AWS_MSK_IAM; give %s as AWS_MSK_IAM, or remove it", mechanism.variable)
	}
	switch d.Kafka.SASLMechanism {
	case MechanismOAuth:
		checkToken(OAuth(d.Kafka.OAuth), "KAFKA_OAUTH_", "KAFKA_SASL_MECHANISM", s)
		for _, extension := range d.Kafka.OAuthExtensions {
			if !extensionPattern.MatchString(extension) {
				s.bad("KAFKA_OAUTH_EXTENSIONS", "holds %q, which is no extension; write name=value, the name of letters", extension)
			}
		}
		return
	case MechanismIAM:
		return
	}
	switch {
	case mechanism.given && !user.given:
		s.bad("KAFKA_SASL_MECHANISM", "needs a user; give %s and %s", user.variable, password.variable)
	case user.given && !mechanism.given:
		s.bad("KAFKA_SASL_USERNAME", "needs a mechanism; give %s as PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", mechanism.variable)
	case user.given && !password.given:
		s.bad("KAFKA_SASL_USERNAME", "needs a password; give %s, usually as %s", password.variable, password.variable+fileSuffix)
	case password.given && !user.given:
		s.bad("KAFKA_SASL_PASSWORD", "needs a user; give %s", user.variable)
	}
}
